/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A log is several files, of which the oldest go: a place in it is an inode and an offset, so that a file that was put away
 * under another name meanwhile is found again. It is read where it is asked for, and looked at again every now and then while
 * somebody waits for more: its files are root's, and tell nobody that they grow. */
#include "velad/console.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "act/act.h"
#include "act/log.h"
#include "api/server.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "velad/manager.h"

#define PIECE_MAX (256 * 1024)
#define AGAIN_USEC 300000

/* ---- the console ---------------------------------------------------------------------------------------- */

static int read_force(bool *ret, const struct api_request *req, struct error *err)
{
	*ret = strcmp(req->query[0], "true") == 0;
	if (*req->query[0] && !*ret && strcmp(req->query[0], "false") != 0)
		return error_set(err, -EINVAL, "force=%s is neither true nor false", req->query[0]);
	return 0;
}

int console_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	bool ignored;
	int r = read_force(&ignored, req, err);

	(void)res;
	return r < 0 ? r : inst_has_console(m->instances, req->param, err);
}

void console_upgraded(void *self, const struct api_request *req, int fd)
{
	struct error ignored = ERROR_INIT; /* it was looked at before */
	struct manager *m = self;
	bool force = false;

	(void)read_force(&force, req, &ignored);
	inst_console(m->instances, req->param, force, fd);
}

/* ---- its log -------------------------------------------------------------------------------------------- */

struct place {
	uint64_t inode, offset; /* inode 0: none */
};

struct log {
	int      fd[ACT_LOG_FILES]; /* owned; 0 is the youngest */
	uint64_t inode[ACT_LOG_FILES], size[ACT_LOG_FILES];
	size_t   n;
};

static void log_close(struct log *l)
{
	for (size_t i = 0; i < l->n; i++)
		(void)close(l->fd[i]);
}

/* The youngest `most` files; one that is put away in between stands there twice, and is left out the second time. */
static int log_open(struct log *l, struct manager *m, const char *name, size_t most, struct error *err)
{
	for (unsigned i = 0; i < most; i++) {
		autoclose int fd = act_machine_log(m->machine, name, i, err);
		struct statx st;

		if (fd == -ENOENT) {
			*err = ERROR_INIT;
			return 0;
		}
		if (fd < 0)
			return err->code;
		if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE, &st) < 0) /* fstat(3) is another system call in each glibc */
			return error_set(err, -EIO, "cannot look at the console log of %s: %s", name, strerror(errno));
		if (l->n && l->inode[l->n - 1] == st.stx_ino)
			continue;
		l->inode[l->n] = st.stx_ino;
		l->size[l->n] = st.stx_size;
		l->fd[l->n++] = steal_fd(&fd);
	}
	return 0;
}

static int read_place(struct place *ret, const char *text, struct error *err)
{
	char inode[API_PARAM_MAX];
	const char *dot = strchr(text, '.');

	*ret = (struct place){ 0 };
	if (!*text)
		return 0;
	(void)snprintf(inode, sizeof(inode), "%.*s", (int)strcspn(text, "."), text);
	if (!dot || parse_uint(&ret->inode, inode, 10, UINT64_MAX) < 0 || parse_uint(&ret->offset, dot + 1, 10, INT64_MAX) < 0)
		return error_set(err, -EINVAL, "after=%.40s is no place in a log; say the \"next\" of an earlier answer", text);
	return 0;
}

/* What lies behind the place, of one file; at the end of a file that was put away, of the next one. */
static size_t read_piece(const struct log *l, struct place *at, char buf[PIECE_MAX], bool *lost)
{
	size_t i = l->n;
	ssize_t got;

	while (i > 0 && l->inode[i - 1] != at->inode)
		i--;
	*lost = at->inode && (i == 0 || at->offset > l->size[i - 1]);
	if (i == 0 || *lost) { /* from the oldest */
		i = l->n;
		at->offset = 0;
	}
	while (i > 1 && at->offset >= l->size[i - 1]) {
		i--;
		at->offset = 0;
	}
	if (i == 0)
		return 0;
	at->inode = l->inode[i - 1];
	got = pread(l->fd[i - 1], buf, PIECE_MAX, (off_t)at->offset);
	return got > 0 ? (size_t)got : 0;
}

/* The place of the last `lines` lines, as far as one piece of the youngest file, and of the one before it, goes back. */
static void last_lines(const struct log *l, struct place *at, uint64_t lines, char buf[PIECE_MAX])
{
	for (size_t i = 0; i < l->n && i < 2; i++) {
		uint64_t from = l->size[i] > PIECE_MAX ? l->size[i] - PIECE_MAX : 0;
		ssize_t n = pread(l->fd[i], buf, PIECE_MAX, (off_t)from);

		*at = (struct place){ l->inode[i], from };
		for (ssize_t k = n - (i ? 1 : 2); k >= 0; k--) { /* a newline at the very end begins no line */
			if (buf[k] == '\n' && --lines == 0) {
				at->offset = from + (uint64_t)k + 1;
				return;
			}
		}
		if (from > 0)
			return;
	}
}

/* A JSON string of console bytes: what is no UTF-8 becomes U+FFFD. *used: without a character that is not whole yet. */
static json_object *text_of(const char *buf, size_t n, size_t *used)
{
	autofree char *text = malloc(3 * n + 1);
	size_t len = 0, i = 0;

	while (text && i < n) {
		char c[5] = "";
		size_t k;

		memcpy(c, buf + i, n - i < 4 ? n - i : 4);
		k = utf8_len(c);
		if (k == 0 && n - i < 4 && (unsigned char)c[0] >= 0xc0 && i > 0)
			break;
		memcpy(text + len, k ? c : "\xef\xbf\xbd", k ? k : 3);
		len += k ? k : 3;
		i += k ? k : 1;
	}
	*used = i;
	return text ? json_object_new_string_len(text, (int)len) : NULL;
}

static int answer(struct api_response *res, const char *name, struct place at, const char *buf, size_t n, bool lost, struct error *err)
{
	struct json_out o = json_out_new();
	char next[48];
	size_t used;

	json_add_string(&o, "name", name);
	json_add(&o, "text", text_of(buf, n, &used));
	(void)snprintf(next, sizeof(next), "%" PRIu64 ".%" PRIu64, at.inode, at.offset + used);
	json_add_string(&o, "next", next);
	json_add_bool(&o, "lost", lost);
	res->body = json_finish(&o);
	return res->body ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
}

static int on_again(sd_event_source *source, uint64_t usec, void *self)
{
	struct manager *m = self;

	(void)source;
	(void)usec;
	api_server_wake(m->server);
	return 0;
}

/* All who wait are asked again after a while. */
static int wait_more(struct manager *m, struct api_response *res, uint64_t seconds, struct error *err)
{
	uint64_t at = clock_usec(CLOCK_MONOTONIC) + AGAIN_USEC;
	int on = SD_EVENT_OFF, r = 0;

	if (m->again)
		(void)sd_event_source_get_enabled(m->again, &on); /* fails for no argument that is given here */
	if (!m->again)
		r = sd_event_add_time(m->event, &m->again, CLOCK_MONOTONIC, at, 0, on_again, m);
	else if (on == SD_EVENT_OFF)
		r = sd_event_source_set_time(m->again, at);
	if (r >= 0)
		r = sd_event_source_set_enabled(m->again, SD_EVENT_ONESHOT);
	res->wait = (unsigned)seconds;
	return r < 0 ? error_set(err, r, "cannot wait for the log: %s", strerror(-r)) : API_WAIT;
}

struct asked {
	struct place at;
	uint64_t     lines, wait;
};

static int read_asked(struct asked *ret, const struct api_request *req, struct error *err)
{
	int r = read_place(&ret->at, req->query[0], err);

	if (r == 0 && *req->query[1] && parse_uint(&ret->lines, req->query[1], 10, 1000000) < 0)
		return error_set(err, -EINVAL, "lines=%s is no number from 0 to 1000000", req->query[1]);
	if (r == 0 && *req->query[2] && parse_uint(&ret->wait, req->query[2], 10, API_WAIT_MAX) < 0)
		return error_set(err, -EINVAL, "wait=%s is no number from 0 to %d", req->query[2], API_WAIT_MAX);
	if (r == 0 && ret->lines && ret->at.inode)
		return error_set(err, -EINVAL, "after and lines together; say one of them");
	return r;
}

static int read_log(struct manager *m, const struct api_request *req, const struct asked *asked, struct log *l, struct api_response *res,
		    struct error *err)
{
	autofree char *buf = malloc(PIECE_MAX);
	struct place at = asked->at;
	bool lost = false;
	size_t n;
	int r = buf ? log_open(l, m, req->param, ACT_LOG_FILES, err) : error_set(err, -ENOMEM, "no memory for the log");

	if (r < 0)
		return r;
	if (asked->lines)
		last_lines(l, &at, asked->lines, buf);
	n = read_piece(l, &at, buf, &lost);
	if (n == 0 && asked->wait && !req->late)
		return wait_more(m, res, asked->wait, err);
	return answer(res, req->param, at, buf, n, lost, err);
}

int console_get_log(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct asked asked = { 0 };
	struct log l = { .n = 0 };
	int r = read_asked(&asked, req, err);

	if (r == 0)
		r = inst_exists(m->instances, req->param, err);
	if (r == 0 && asked.wait && asked.at.inode && !req->late) { /* mostly, nothing is new */
		r = log_open(&l, m, req->param, 1, err);
		if (r == 0 && l.n && l.inode[0] == asked.at.inode && l.size[0] == asked.at.offset)
			r = wait_more(m, res, asked.wait, err);
		log_close(&l);
		l.n = 0;
	}
	if (r == 0)
		r = read_log(m, req, &asked, &l, res, err);
	log_close(&l);
	return r;
}
