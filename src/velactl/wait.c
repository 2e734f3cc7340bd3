/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"

#define POLL_FIRST_MS 50  /* a short operation is seen to end at once, */
#define POLL_MOST_MS  500 /* a long one does not cost a core */

enum told { TOLD_NOTHING, TOLD_DONE, TOLD_FAILED, TOLD_REVERTED };

static enum told told_of(json_object *step)
{
	const char *state = ctl_doc_text(step, "state");

	return strcmp(state, "done") == 0	 ? TOLD_DONE
	       : strcmp(state, "failed") == 0	 ? TOLD_FAILED
	       : strcmp(state, "reverted") == 0 ? TOLD_REVERTED
						: TOLD_NOTHING;
}

static void tell(struct ctl_out *out, json_object *step, enum told what)
{
	const char *from = ctl_doc_text(step, "from"), *to = ctl_doc_text(step, "to");
	const char *target = ctl_doc_text(step, "target");
	unsigned columns = ctl_out_columns(target);

	sbuf_addf(&out->text, "%-8s  ", ctl_doc_text(step, "state"));
	ctl_out_cell(out, ctl_doc_text(step, "id"), 8);
	sbuf_add(&out->text, "  ");
	ctl_out_cell(out, target, columns > 12 ? columns : 12); /* of a BDF */
	sbuf_add(&out->text, "  ");
	ctl_out_safe(out, what == TOLD_REVERTED ? to : from);
	sbuf_add(&out->text, " -> ");
	ctl_out_safe(out, what == TOLD_REVERTED ? from : to);
	sbuf_add(&out->text, "\n");
}

static void tell_if_new(struct ctl_progress *p, struct ctl_out *out, json_object *steps, size_t i, bool reverted)
{
	json_object *step = json_object_array_get_idx(steps, i);
	enum told now = told_of(step);

	if (now == TOLD_NOTHING || p->told[i] == now || (now == TOLD_REVERTED) != reverted)
		return;
	tell(out, step, now);
	p->told[i] = (uint8_t)now;
}

void ctl_progress_write(struct ctl_progress *p, struct ctl_out *out, json_object *op)
{
	json_object *steps = ctl_doc_list(op, "steps");
	bool deleting = strcmp(ctl_doc_text(op, "kind"), "delete") == 0 || strcmp(ctl_doc_text(op, "kind"), "acs-restore") == 0;
	size_t n = ctl_doc_count(steps);

	n = n < CTL_STEPS_MAX ? n : CTL_STEPS_MAX;
	if (!deleting) /* of a delete, "done" is where it starts from */
		for (size_t i = 0; i < n; i++)
			tell_if_new(p, out, steps, i, false);
	else
		for (size_t i = 0; i < n; i++)
			if (told_of(json_object_array_get_idx(steps, i)) == TOLD_FAILED)
				tell_if_new(p, out, steps, i, false);
	for (size_t i = 0; i < n; i++) /* a create that failed takes its steps back, the last one first */
		tell_if_new(p, out, steps, deleting ? i : n - 1 - i, true);
}

static bool finished(json_object *op)
{
	const char *state = ctl_doc_text(op, "state");

	return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0;
}

int ctl_op_result(json_object *op, struct error *err)
{
	json_object *error = ctl_doc_get(op, "error");
	const char *detail = ctl_doc_text(error, "detail"), *in = ctl_doc_text(op, "instance");

	if (strcmp(ctl_doc_text(op, "state"), "succeeded") == 0)
		return 0;
	return error_set(err, ctl_exit_errno(ctl_doc_text(error, "code")), "%s%s%s failed (operation %" PRId64 "): %s",
			 ctl_doc_text(op, "kind"), *in ? " of " : "", in, ctl_doc_int(op, "id", 0),
			 *detail ? detail : "velad does not say why");
}

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(uint64_t ms)
{
	const struct timespec t = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&t, NULL); /* a signal only makes it shorter */
}

/* Until it is finished or the deadline is there; the last answer in *ret. */
static int follow(json_object **ret, struct ctl *c, uint64_t id, struct error *err)
{
	uint64_t deadline = now_ms() + c->args.timeout * 1000, pause = POLL_FIRST_MS;
	struct ctl_progress progress = { 0 };
	char path[64];

	(void)snprintf(path, sizeof(path), "/v1/operations/%" PRIu64, id);
	for (;;) {
		json_object *op = NULL;
		uint64_t now;

		if (ctl_remote(&op, c, "GET", path, NULL, err) < 0)
			return err->code == -ENOENT ? err->code : error_prefix(err, "waiting for operation %" PRIu64, id);
		json_object_put(*ret);
		*ret = op;
		if (!c->args.json) {
			ctl_progress_write(&progress, &c->out, op);
			ctl_out_flush(&c->out);
		}
		now = now_ms();
		if (finished(op) || now >= deadline || c->out.error)
			return 0;
		sleep_ms(pause < deadline - now ? pause : deadline - now);
		pause = pause * 2 < POLL_MOST_MS ? pause * 2 : POLL_MOST_MS;
	}
}

enum ctl_exit ctl_wait(struct ctl *c, uint64_t id)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	int r = follow(&op, c, id, &err);

	if (r < 0)
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, op);
	if (!finished(op)) {
		(void)error_set(&err, -ETIMEDOUT,
				"operation %" PRIu64 " still is %s after %" PRIu64 " s and goes on; see velactl op wait %" PRIu64,
				id, ctl_doc_text(op, "state"), c->args.timeout, id);
		return ctl_fail(c, &err);
	}
	if (ctl_op_result(op, &err) < 0)
		return ctl_fail(c, &err);
	if (!c->args.json && *ctl_doc_text(op, "instance")) {
		ctl_out_safe(&c->out, ctl_doc_text(op, "instance"));
		sbuf_addf(&c->out.text, " is %s\n", strcmp(ctl_doc_text(op, "kind"), "create") == 0 ? "running" : "deleted");
	}
	return CTL_OK;
}

enum ctl_exit ctl_accepted(struct ctl *c, json_object *op)
{
	int64_t id = ctl_doc_int(op, "id", -1);
	struct error err = ERROR_INIT;

	if (id < 0) {
		(void)error_set(&err, -EPROTO, "velad accepted the request, but its answer names no operation");
		return ctl_fail(c, &err);
	}
	if (!c->args.no_wait)
		return ctl_wait(c, (uint64_t)id);
	if (c->args.json)
		ctl_out_json(&c->out, op);
	else
		sbuf_addf(&c->out.text, "operation %" PRId64 " is %s; velactl op wait %" PRId64 " follows it\n", id,
			  ctl_doc_text(op, "state"), id);
	return CTL_OK;
}
