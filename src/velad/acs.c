/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/acs.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "host/inventory.h"
#include "instance/instance.h"
#include "plan/acs.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/manager.h"
#include "velad/methods.h"

#define OURS (TOPO_ACS_DT | TOPO_ACS_TB)

static void add_word(struct json_out *o, const char *key, int word)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "0x%02x", (unsigned)word);
	json_add_string(o, key, word < 0 ? NULL : text);
}

/* The control word of a port; -1: there is none such any more, or it cannot be read. */
static int word_now(const struct topo *t, struct bdf port)
{
	uint32_t at = topo_find(t, port);

	if (at == TOPO_NONE || topo_at(t, at)->fn->facts->cap.acs.known != HOST_PRESENT)
		return -1;
	return topo_at(t, at)->fn->facts->cap.acs.ctl;
}

/* n: the holders of one port. */
static void add_port(struct json_out *all, json_object *list, const struct topo *t, const struct inst_acs_hold *h, size_t n)
{
	json_object *by = json_object_new_array();
	int now = word_now(t, h->port), then = now < 0 ? -1 : (now & ~OURS) | (h->was & OURS);
	struct json_out o = json_out_new();
	bool alone = true;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(h[i].by, h[i - 1].by) != 0) /* two of acs apply, where one could not be given back */
			json_append(&o, by, json_object_new_string(h[i].by));
		alone = alone && strcmp(h[i].by, INST_ACS_APPLY) == 0;
	}
	json_add_bdf(&o, "port", h->port);
	json_add_made(&o, "by", by);
	add_word(&o, "was", h->was);
	add_word(&o, "now", now);
	add_word(&o, "restored", alone && then != now ? then : -1);
	json_append_out(all, list, &o);
}

static json_object *held_json(const struct topo *t, const struct inst_acs_hold *h, size_t n)
{
	json_object *list = json_object_new_array();
	struct json_out o = { .obj = list, .failed = !list };

	for (size_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && bdf_eq(h[k].port, h[i].port); k++)
			;
		add_port(&o, list, t, &h[i], k - i);
	}
	return json_finish(&o);
}

static int get(struct manager *m, const struct api_request *req, struct api_response *res, bool exclusive, struct error *err)
{
	auto_(plan_acs_free) struct plan_acs *plan = NULL;
	struct inst_acs_hold *hold = NULL;
	struct arena arena = { 0 };
	json_object *held = NULL;
	size_t n = 0;
	int r = methods_catch_up(m, CURRENT_CONTROLS, req, res, err);

	if (r == 0)
		r = plan_acs_all(&plan, current_topo(m->now), exclusive, err);
	if (r == 0)
		r = inst_acs_holds(m->instances, &hold, &n, &arena, err);
	methods_tag(m, res);
	if (r == 0) {
		held = held_json(current_topo(m->now), hold, n);
		res->body = held ? plan_acs_json(plan, held) : NULL;
		r = res->body ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
	}
	arena_done(&arena);
	return r;
}

int acs_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return get(self, req, res, false, err);
}

int acs_get_exclusive(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	return get(self, req, res, true, err);
}

/* No event says that somebody wrote to a port, so all is read first. */
int acs_post_apply(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	auto_(plan_acs_free) struct plan_acs *plan = NULL;
	struct plan_acs_held *held = NULL;
	struct manager *m = self;
	struct arena arena = { 0 };
	uint64_t op = 0;
	size_t n = 0;
	int r = methods_catch_up(m, CURRENT_ALL, req, res, err);

	if (r == 0)
		r = methods_match(m, req, err);
	if (r == 0)
		r = inst_acs_held(m->instances, &held, &n, &arena, err);
	if (r == 0)
		r = plan_acs_steps(&plan, current_topo(m->now), held, n, err);
	if (r == 0)
		r = inst_acs_apply(m->instances, &op, plan, err);
	arena_done(&arena);
	return r != 0 ? r : methods_operation(m, res, op, err);
}

int acs_post_restore(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	uint64_t op = 0;
	int r = inst_acs_restore(m->instances, &op, err);

	(void)req;
	return r < 0 ? r : methods_operation(m, res, op, err);
}
