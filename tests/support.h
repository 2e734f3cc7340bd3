/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* support — what several unit tests need: the repository's text hosts, topologies from text, JSON. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/error.h"
#include "base/json.h"
#include "host/dump.h"
#include "host/inventory.h"
#include "host/vpd.h"
#include "plan/plan.h"
#include "topo/topo.h"

/* One line for who reads the FIFO, if anybody does. */
static inline void test_feed(const char *fifo)
{
	int fd = open(fifo, O_WRONLY | O_NONBLOCK);

	(void)signal(SIGPIPE, SIG_IGN); /* he may go meanwhile */
	if (fd >= 0) {
		(void)!write(fd, "2\n", 2);
		(void)close(fd);
	}
}

#define TEXT_MAGIC_LINE "# velad text host 1\n"

/* The kinds of the built-in configuration and, for the emulated host, igb as a NIC. */
static inline struct host_kinds test_kinds(void)
{
	struct error err = ERROR_INIT;
	struct host_kinds k = { 0 };
	struct conf conf;

	assert_int_equal(conf_load(&conf, TEST_SOURCE "/conf/velad.conf", &err), 0);
	assert_int_equal(host_kinds_load(&k, &conf, &err), 0);
	assert_int_equal(host_kinds_add(&k, "nic", "8086:10c9:0200", &err), 0);
	conf_done(&conf);
	return k;
}

static inline struct topo *test_topo_of(struct host_root *root)
{
	struct host_kinds kinds = test_kinds();
	struct error err = ERROR_INIT;
	struct inventory *inv = NULL;
	struct topo *t = NULL;

	if (host_inventory_read(&inv, root, &kinds, &err) < 0 || topo_build(&t, inv, 1, &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

static inline struct topo *test_topo_text(const char *text)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct topo *t;

	if (host_root_parse_text(&root, text, strlen(text), "test", &err) < 0)
		fail_msg("%s", err.text);
	host_vpd_want(root); /* as velad */
	t = test_topo_of(root);
	host_root_close(root);
	return t;
}

/* The caller frees. */
static inline char *test_dump(struct host_root *root)
{
	struct host_kinds kinds = test_kinds();
	struct error err = ERROR_INIT;
	char *text = NULL;

	if (host_dump(&text, root, &kinds, NULL, &err) < 0)
		fail_msg("%s", err.text);
	return text;
}

struct test_refusal {
	const char *text, *says; /* a host, and what the error has in it */
};

/* Each is no host, and its error says why. */
static inline void test_refused(const struct test_refusal *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct error err = ERROR_INIT;
		struct host_root *root = NULL;

		assert_int_equal(host_root_parse_text(&root, cases[i].text, strlen(cases[i].text), "test", &err), -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("case %zu says \"%s\", not \"%s\"", i, err.text, cases[i].says);
	}
}

/* tests/hosts/NAME/sys.txt */
static inline struct topo *test_topo_host(const char *name)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct topo *t;
	char path[512];

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", name);
	if (host_root_open_text(&root, path, &err) < 0)
		fail_msg("%s", err.text);
	t = test_topo_of(root);
	host_root_close(root);
	return t;
}

/* The same with one of its text files otherwise, or one more: "proc/sys/kernel/osrelease", "6.1.0". */
static inline char *test_text_with(char *text, const char *path, const char *value)
{
	char *at = text, *out = NULL;
	size_t n = strlen(path), skip;

	while (*at && (*at == '#' || *at == ' ' || strncmp(at, path, n) < 0))
		at += strcspn(at, "\n") + 1;
	skip = strncmp(at, path, n) == 0 && at[n] == '\t' ? strcspn(at, "\n") + 1 : 0;
	assert_true(asprintf(&out, "%.*s%s\t%s\n%s", (int)(at - text), text, path, value, at + skip) > 0);
	free(text);
	return out;
}

/* tests/hosts/NAME/sys.txt; the caller frees. */
static inline char *test_host_text(const char *name)
{
	char path[512], *text;
	FILE *f;
	long n;

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	n = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)n + 1);
	assert_true(text && fread(text, 1, (size_t)n, f) == (size_t)n);
	(void)fclose(f);
	return text;
}

static inline struct bdf test_bdf(const char *text)
{
	struct bdf b;

	if (!bdf_parse(&b, text))
		fail_msg("not a BDF: %s", text);
	return b;
}

static inline uint32_t test_at(const struct topo *t, const char *bdf)
{
	uint32_t i = topo_find(t, test_bdf(bdf));

	if (i == TOPO_NONE)
		fail_msg("no function %s", bdf);
	return i;
}

static inline struct plan_request test_request(const char *json)
{
	struct error err = ERROR_INIT;
	struct plan_request r = { 0 };
	json_object *o = NULL;

	if (json_parse(&o, json, strlen(json), JSON_BYTES_MAX, &err) < 0 || plan_request_read(&r, o, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	json_object_put(o);
	return r;
}

/* NVSwitches are not shared out, whatever the host says: most tests are about other things */
#define TEST_POLICY                                                      \
	{ .vfs_per_pf = 8, .memory_reserve = 512u << 20, .link_percent = 50, \
	  .shape = { { 1, 80 }, { 2, 5 }, { 4, 4 }, { 8, 11 } }, .nshapes = 4, .boards = { .shared = -1 } }

static inline struct plan *test_plan_held(const struct topo *t, const char *json, const struct plan_taken *taken, size_t n,
					  const struct plan_acs_held *held, size_t nheld)
{
	struct plan_request req = test_request(json);
	struct plan_input in = { .topo = t, .request = &req, .taken = taken, .ntaken = n, .held = held, .nheld = nheld,
				 .policy = TEST_POLICY };
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	if (plan_make(&p, &in, &err) < 0)
		fail_msg("%s", err.text);
	plan_request_done(&req);
	return p;
}

static inline struct plan *test_plan(const struct topo *t, const char *json, const struct plan_taken *taken, size_t n)
{
	return test_plan_held(t, json, taken, n, NULL, 0);
}

static inline bool test_has_reason(const struct plan *p, const char *rule)
{
	for (size_t i = 0; i < p->nreasons; i++)
		if (strcmp(p->reason[i].rule, rule) == 0)
			return true;
	return false;
}

static inline void test_refused_with(struct plan *p, const char *rule)
{
	if (p->fits || !test_has_reason(p, rule))
		fail_msg("fits %d; not %s but %s", p->fits, rule, p->nreasons ? p->reason[p->nreasons - 1].rule : "-");
	plan_free(p);
}
