/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/progress.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "velactl/doc.h"
#include "velactl/out.h"

#define BAR 20 /* columns */

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

static bool gives_back(json_object *op)
{
	const char *kind = ctl_doc_text(op, "kind");

	return strcmp(kind, "delete") == 0 || strcmp(kind, "acs-restore") == 0 || strcmp(kind, "pool-release") == 0;
}

void ctl_progress_write(struct ctl_progress *p, struct ctl_out *out, json_object *op)
{
	json_object *steps = ctl_doc_list(op, "steps");
	bool deleting = gives_back(op);
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

/* The first step that is under way, and how many more are. */
static void write_running(struct ctl_out *line, json_object *steps)
{
	size_t more = 0;

	for (size_t i = 0; i < ctl_doc_count(steps); i++) {
		json_object *s = json_object_array_get_idx(steps, i);

		if (strcmp(ctl_doc_text(s, "state"), "begun") == 0 && !more++) {
			sbuf_add(&line->text, "  ");
			ctl_out_safe(line, ctl_doc_text(s, "id"));
			sbuf_add(&line->text, " ");
			ctl_out_safe(line, ctl_doc_text(s, "target"));
		}
	}
	if (more > 1)
		sbuf_addf(&line->text, " and %zu more", more - 1);
}

void ctl_progress_line(struct ctl_out *out, json_object *op, uint64_t ms)
{
	json_object *progress = ctl_doc_get(op, "progress");
	int64_t done = ctl_doc_int(progress, "done", 0), total = ctl_doc_int(progress, "total", 0);
	unsigned full = total > 0 && done >= 0 && done <= total ? (unsigned)(done * BAR / total) : 0;
	struct ctl_out line = { 0 };

	for (unsigned i = 0; i < BAR; i++)
		sbuf_add(&line.text, i < full ? "#" : ".");
	sbuf_addf(&line.text, " %" PRId64 "/%" PRId64 "  %" PRIu64 " s", done, total, ms / 1000);
	write_running(&line, ctl_doc_list(op, "steps"));
	sbuf_add(&out->text, "\r");
	ctl_out_cell(out, line.text.text ? line.text.text : "", out->width > 1 ? out->width - 1 : 79); /* the last column would wrap */
	sbuf_done(&line.text);
}

void ctl_progress_clear(struct ctl_out *out)
{
	sbuf_add(&out->text, "\r\033[K"); /* EL, ECMA-48 8.3.41 */
}
