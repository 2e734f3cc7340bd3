/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/progress.h"
#include "velactl/source.h"

#define POLL_FIRST_MS 50  /* a short operation is seen to end at once, */
#define POLL_MOST_MS  500 /* a long one does not cost a core */
#define POLL_SEEN_MS  200 /* on a terminal, where somebody looks */

struct follow {
	struct ctl         *c;
	uint64_t            id, from, deadline; /* of the operation; ms */
	enum ctl_wait_why   why;
	int                 breaks_fd; /* signalfd of SIGINT; -1: it ends velactl */
	unsigned            breaks;    /* how often Ctrl-C was pressed */
	struct ctl_progress progress;
	json_object        *op; /* owned: as it was seen last */
};

static bool finished(json_object *op)
{
	const char *state = ctl_doc_text(op, "state");

	return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
}

int ctl_op_result(json_object *op, struct error *err)
{
	json_object *error = ctl_doc_get(op, "error");
	const char *detail = ctl_doc_text(error, "detail"), *in = ctl_doc_text(op, "instance"), *state = ctl_doc_text(op, "state");
	bool cancelled = strcmp(state, "cancelled") == 0;

	if (strcmp(state, "succeeded") == 0)
		return 0;
	return error_set(err, cancelled ? -ECANCELED : ctl_exit_errno(ctl_doc_text(error, "code")),
			 "%s%s%s %s (operation %" PRId64 "): %s", ctl_doc_text(op, "kind"), *in ? " of " : "", in,
			 cancelled ? "was cancelled" : "failed", ctl_doc_int(op, "id", 0),
			 *detail ? detail : "velad does not say why");
}

/* ---- Ctrl-C ------------------------------------------------------------------------------------------- */

static int catch_breaks(sigset_t *old)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0)
		(void)sigprocmask(SIG_BLOCK, &set, old);
	return fd;
}

/* Standard error: standard output may be a file, and whoever presses Ctrl-C looks at the terminal. */
static void ask_to_cancel(struct follow *f)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	char path[64];

	(void)snprintf(path, sizeof(path), "/v1/operations/%" PRIu64 "/cancel", f->id);
	if (ctl_remote(&op, f->c, "POST", path, NULL, &err) < 0)
		(void)fprintf(stderr, "velactl: %s\nvelactl: Ctrl-C again leaves operation %" PRIu64 " alone\n", err.text, f->id);
	else
		(void)fprintf(stderr, "velactl: asked velad to cancel operation %" PRIu64 "; Ctrl-C again leaves it alone\n", f->id);
}

/* True: it is left. Sleeps up to ms. */
static bool broken(struct follow *f, uint64_t ms)
{
	struct pollfd p = { .fd = f->breaks_fd, .events = POLLIN };
	struct signalfd_siginfo si;

	if (poll(&p, 1, (int)ms) <= 0 || read(f->breaks_fd, &si, sizeof(si)) != sizeof(si))
		return false;
	if (f->c->out.moves)
		(void)fprintf(stderr, "\n"); /* behind ^C */
	if (f->why == CTL_WAIT_OURS && f->breaks++ == 0) {
		ask_to_cancel(f);
		return false;
	}
	return true;
}

/* ---- following ------------------------------------------------------------------------------------------ */

static void show(struct follow *f)
{
	struct ctl_out *out = &f->c->out;

	if (f->c->args.json)
		return;
	if (out->moves)
		ctl_progress_clear(out);
	ctl_progress_write(&f->progress, out, f->op);
	if (out->moves && !finished(f->op))
		ctl_progress_line(out, f->op, clock_ms() - f->from);
	ctl_out_flush(out);
}

/* Until it is finished, or the time is over, or nobody reads the output: f->op is as it was then. -EINTR: left. */
static int follow(struct follow *f, struct error *err)
{
	uint64_t pause = POLL_FIRST_MS, most = f->c->out.moves ? POLL_SEEN_MS : POLL_MOST_MS;
	char path[64];

	(void)snprintf(path, sizeof(path), "/v1/operations/%" PRIu64, f->id);
	for (;;) {
		json_object *op = NULL;
		uint64_t now;

		if (ctl_remote(&op, f->c, "GET", path, NULL, err) < 0)
			return err->code == -ENOENT ? err->code : error_prefix(err, "waiting for operation %" PRIu64, f->id);
		json_object_put(f->op);
		f->op = op;
		show(f);
		now = clock_ms();
		if (finished(op) || now >= f->deadline || f->c->out.error)
			return 0;
		if (broken(f, pause < f->deadline - now ? pause : f->deadline - now))
			return error_set(err, -EINTR, "operation %" PRIu64 " is %s and goes on; velactl op wait %" PRIu64 " follows it",
					 f->id, ctl_doc_text(op, "state"), f->id);
		pause = pause * 2 < most ? pause * 2 : most;
	}
}

/* What is true now, by what was done. */
static const char *outcome(json_object *op)
{
	static const struct {
		const char *kind, *is;
	} words[] = {
		{ "create", "is running" }, { "delete", "is deleted" },	  { "start", "is running" },
		{ "stop", "is stopped" },   { "reboot", "was rebooted" }, { "reset", "was reset" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(ctl_doc_text(op, "kind"), words[i].kind) == 0)
			return words[i].is;
	return "is done";
}

static enum ctl_exit report(struct follow *f, struct error *err)
{
	struct ctl *c = f->c;

	if (c->args.json)
		ctl_out_json(&c->out, f->op);
	if (!finished(f->op)) {
		(void)error_set(err, -ETIMEDOUT,
				"operation %" PRIu64 " still is %s after %" PRIu64 " s and goes on; see velactl op wait %" PRIu64,
				f->id, ctl_doc_text(f->op, "state"), c->args.timeout, f->id);
		return ctl_fail(c, err);
	}
	if (ctl_op_result(f->op, err) < 0 && !(f->why == CTL_WAIT_CANCEL && err->code == -ECANCELED))
		return ctl_fail(c, err);
	if (f->why == CTL_WAIT_CANCEL && err->code == 0) {
		(void)error_set(err, -EBUSY, "operation %" PRIu64 " had succeeded before it could be cancelled", f->id);
		return ctl_fail(c, err);
	}
	if (f->why == CTL_WAIT_CANCEL) {
		if (!c->args.json)
			ctl_out_safe(&c->out, err->text), sbuf_add(&c->out.text, "\n");
		return CTL_OK;
	}
	if (!c->args.json && *ctl_doc_text(f->op, "instance")) {
		ctl_out_safe(&c->out, ctl_doc_text(f->op, "instance"));
		sbuf_addf(&c->out.text, " %s\n", c->args.no_start ? "is stopped, and has its devices" : outcome(f->op));
	}
	return CTL_OK;
}

enum ctl_exit ctl_wait(struct ctl *c, uint64_t id, enum ctl_wait_why why)
{
	struct follow f = { .c = c, .id = id, .from = clock_ms(), .why = why };
	struct error err = ERROR_INIT;
	enum ctl_exit status;
	sigset_t old;

	f.deadline = f.from + c->args.timeout * 1000;
	f.breaks_fd = catch_breaks(&old);
	if (follow(&f, &err) < 0) {
		if (c->out.moves && !c->args.json)
			ctl_progress_clear(&c->out);
		status = ctl_fail(c, &err);
	} else {
		if (c->out.moves && !c->args.json && !finished(f.op))
			ctl_progress_clear(&c->out);
		status = report(&f, &err);
	}
	json_object_put(f.op);
	if (f.breaks_fd >= 0) {
		(void)sigprocmask(SIG_SETMASK, &old, NULL);
		(void)close(f.breaks_fd);
	}
	return status;
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
		return ctl_wait(c, (uint64_t)id, CTL_WAIT_OURS);
	if (c->args.json)
		ctl_out_json(&c->out, op);
	else
		sbuf_addf(&c->out.text, "operation %" PRId64 " is %s; velactl op wait %" PRId64 " follows it\n", id,
			  ctl_doc_text(op, "state"), id);
	return CTL_OK;
}
