/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/life.h"

#include <errno.h>
#include <json-c/json.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "instance/instance.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/methods.h"
#include "velad/remake.h"

#define REASON_MAX 200
#define LOOK_SECONDS 60 /* libvirt is asked as well */

/* ---- instances ------------------------------------------------------------------------------------------ */

static int order(struct manager *m, const struct api_request *req, struct api_response *res, enum inst_order what, unsigned grace,
		 struct error *err)
{
	uint64_t op = 0;
	int r = methods_expect(m, req, err);

	if (r == 0)
		r = inst_order(m->instances, &op, req->param, what, grace, err);

	return r < 0 ? r : methods_operation(m, res, op, err);
}

int life_start(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(plan_free) struct plan *plan = NULL;
	struct manager *m = self;
	uint64_t op = 0;
	int r;

	if (!inst_looked(m->instances)) { /* since velad runs */
		res->wait = LOOK_SECONDS;
		return req->late ? error_set(err, -EBUSY, "where the cards of instances are was not looked at since velad was started; ask again") :
				   API_WAIT;
	}
	r = remake_plan(m, &plan, req, res, err);
	if (r == 0)
		r = methods_expect(m, req, err);
	if (r == 0)
		r = inst_start(m->instances, &op, req->param, plan, err);
	return r != 0 ? r : methods_operation(m, res, op, err);
}

struct stop_body {
	uint64_t timeout;
	bool     force;
};

static int read_stop(struct stop_body *ret, const struct api_request *req, struct error *err)
{
	static const struct json_field fields[] = {
		{ .key = "timeout", .kind = JSON_UINT, .offset = offsetof(struct stop_body, timeout), .min = 0, .max = 3600 },
		{ .key = "force", .kind = JSON_BOOL, .offset = offsetof(struct stop_body, force) },
		{ 0 },
	};
	auto_(json_object_put) json_object *doc = NULL;
	struct arena arena = { 0 };
	int r = req->body_len ? json_parse(&doc, req->body, req->body_len, JSON_BYTES_MAX, err) : 0;

	if (r == 0 && req->body_len)
		r = json_read(ret, fields, doc, "request", &arena, err);
	arena_done(&arena);
	return r;
}

int life_stop(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct stop_body body = { .timeout = m->conf.stop_seconds };
	int r = read_stop(&body, req, err);

	return r < 0 ? r : order(m, req, res, INST_STOP, body.force ? 0 : (unsigned)body.timeout, err);
}

int life_reboot(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return order(self, req, res, INST_REBOOT, 0, err);
}

int life_reset(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return order(self, req, res, INST_RESET, 0, err);
}

/* ---- quarantine ----------------------------------------------------------------------------------------- */

static int read_bdf(struct bdf *ret, const char *text, struct error *err)
{
	if (!bdf_parse(ret, text))
		return error_set(err, -EINVAL, "\"%.40s\" is no PCI address: say 0000:4c:00.0", text);
	return 0;
}

int life_get_quarantine(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;

	(void)req;
	return inst_quarantine_json(m->instances, &res->body, current_topo(m->now), err);
}

struct quarantine_body {
	char *bdf, *reason;
};

/* Only what can be given to a guest, or be again when its PF has VFs: anything else is a slip of the pen. */
static int check_there(struct manager *m, struct bdf bdf, const struct api_request *req, struct api_response *res, struct error *err)
{
	char text[BDF_TEXT_MAX];
	int r = methods_catch_up(m, CURRENT_TOPOLOGY, req, res, err);

	if (r == 0 && topo_find(current_topo(m->now), bdf) == TOPO_NONE)
		return error_set(err, -ENOENT, "this host has no PCI function %s; see velactl topo --all", bdf_text(text, bdf));
	return r;
}

int life_post_quarantine(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	static const struct json_field fields[] = {
		{ .key = "bdf", .kind = JSON_STRING, .offset = offsetof(struct quarantine_body, bdf), .required = true, .max = 16 },
		{ .key = "reason", .kind = JSON_STRING, .offset = offsetof(struct quarantine_body, reason), .required = true, .min = 1,
		  .max = REASON_MAX },
		{ 0 },
	};
	auto_(json_object_put) json_object *doc = NULL;
	struct quarantine_body body = { 0 };
	struct manager *m = self;
	struct arena arena = { 0 };
	struct bdf bdf;
	int r = json_parse(&doc, req->body, req->body_len, JSON_BYTES_MAX, err);

	if (r == 0)
		r = json_read(&body, fields, doc, "request", &arena, err);
	if (r == 0)
		r = read_bdf(&bdf, body.bdf, err);
	if (r == 0)
		r = check_there(m, bdf, req, res, err);
	if (r == 0)
		r = inst_quarantine_add(m->instances, bdf, body.reason, current_topo(m->now), err);
	arena_done(&arena);
	return r != 0 ? r : inst_quarantine_json(m->instances, &res->body, current_topo(m->now), err);
}

int life_delete_quarantine(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct bdf bdf;
	uint64_t op = 0;
	int r = read_bdf(&bdf, req->param, err);

	if (r == 0)
		r = methods_catch_up(m, CURRENT_TOPOLOGY, req, res, err);
	if (r == 0)
		r = inst_quarantine_release(m->instances, &op, bdf, current_topo(m->now), err);
	return r != 0 ? r : methods_operation(m, res, op, err);
}
