/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/operations.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "instance/instance.h"
#include "velad/manager.h"
#include "velad/methods.h"

#define PAGE_DEFAULT 50
#define PAGE_MAX     200
#define KEY_MAX      128 /* bytes of an Idempotency-Key */

/* ---- keys ------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(((struct manager *)NULL)->key.digest) == 2 * SHA256_DIGEST_SIZE + 1, "a digest in hex");

/* Of what the request asks for: method, path and body. */
static void make_digest(char *ret, const struct api_request *req)
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx h;

	sha256_init(&h);
	sha256_update(&h, strlen(req->method) + 1, (const uint8_t *)req->method); /* their NULs are between them */
	sha256_update(&h, strlen(req->path) + 1, (const uint8_t *)req->path);
	sha256_update(&h, req->body_len, (const uint8_t *)req->body);
	sha256_digest(&h, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

static int check_key(const char *key, struct error *err)
{
	size_t n = 0;

	while (key[n] > 0x20 && key[n] < 0x7f)
		n++;
	if (key[n] || n == 0 || n > KEY_MAX)
		return error_set(err, -EINVAL, "Idempotency-Key is not 1 to %d printable bytes", KEY_MAX);
	return 0;
}

/* 1: this request was there before; its operation is the answer. */
static int begin(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct inst_key key = { .uid = req->uid, .text = req->key, .digest = m->key.digest };
	uint64_t op = 0;
	int r = check_key(req->key, err);

	if (r < 0)
		return r;
	make_digest(m->key.digest, req);
	r = inst_key_find(m->instances, &op, &key, err);
	if (op)
		methods_location(res, op);
	if (r == 0 && op)
		r = methods_operation(m, res, op, err);
	if (r < 0 || op)
		return r < 0 ? r : 1;
	m->key.now = key;
	inst_key_use(m->instances, &m->key.now);
	return 0;
}

static void end(void *self)
{
	struct manager *m = self;

	inst_key_use(m->instances, NULL);
}

const struct api_keys operations_keys = { begin, end };

/* ---- handlers --------------------------------------------------------------------------------------- */

static int query_number(uint64_t *ret, const struct api_request *req, size_t i, const char *name, uint64_t max, struct error *err)
{
	if (*req->query[i] && parse_uint(ret, req->query[i], 10, max) < 0)
		return error_set(err, -EINVAL, "%s=%s is no number from 0 to %" PRIu64, name, req->query[i], max);
	return 0;
}

static int read_id(uint64_t *ret, const struct api_request *req, struct error *err)
{
	if (parse_uint(ret, req->param, 10, INT64_MAX) < 0)
		return error_set(err, -ENOENT, "there is no operation \"%s\"; operations have numbers", req->param);
	return 0;
}

int operations_cancel(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t op = 0;
	int r = read_id(&op, req, err);

	if (r == 0)
		r = inst_cancel(m->instances, op, err);
	return r < 0 ? r : methods_operation(m, res, op, err);
}

/* ?wait=SECONDS: not before it has ended, or then. */
int operations_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t op = 0, wait = 0;
	bool ended = true;
	int r = read_id(&op, req, err);

	if (r == 0)
		r = query_number(&wait, req, 0, "wait", API_WAIT_MAX, err);
	if (r == 0 && wait && !req->late)
		r = inst_op_ended(m->instances, &ended, op, err);
	if (r == 0 && !ended) {
		res->wait = (unsigned)wait;
		return API_WAIT;
	}
	return r < 0 ? r : inst_op_json(m->instances, &res->body, op, err);
}

int operations_list(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct inst_op_filter f = { .instance = *req->query[0] ? req->query[0] : NULL, .state = *req->query[1] ? req->query[1] : NULL };
	uint64_t limit = PAGE_DEFAULT;
	int r = query_number(&f.before, req, 2, "before", INT64_MAX, err);

	if (r == 0)
		r = query_number(&limit, req, 3, "limit", PAGE_MAX, err);
	if (r == 0 && limit == 0)
		r = error_set(err, -EINVAL, "limit=0 asks for nothing; leave it out for %d", PAGE_DEFAULT);
	f.limit = limit;
	return r < 0 ? r : inst_op_list_json(m->instances, &res->body, &f, err);
}
