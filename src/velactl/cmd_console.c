/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl console: this terminal is the guest's. */
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>

#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"

#define PROTOCOL "velad-console"
#define LEAVE    0x1d /* Ctrl-], as virsh and telnet have it */

#define HEARS_MS    200 /* velad hears of a guest's end from libvirt, as we do */
#define HEARS_TRIES 10

enum ended { BY_US, BY_THEM };

/* "open", or "CODE TEXT". */
static int hear_first(int fd, struct error *err)
{
	char line[sizeof(err->text) + 64] = "", *text;
	size_t len = 0;

	while (len < sizeof(line) - 1) {
		ssize_t n = recv(fd, line + len, 1, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || line[len] == '\n')
			break;
		len++;
	}
	line[len] = '\0';
	if (strcmp(line, "open") == 0)
		return 0;
	text = strchr(line, ' ');
	if (!text)
		return error_set(err, -EPROTO, "velad ended the console before it was open; see its journal");
	*text = '\0';
	return error_set(err, ctl_exit_errno(line), "%s", text + 1);
}

static bool write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno != EINTR)
			return false;
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* What is typed, up to the key that leaves. False: it was that, or nothing more comes. */
static bool from_keys(int fd, char leave)
{
	char bytes[4096];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	const char *at = n > 0 ? memchr(bytes, leave, (size_t)n) : NULL;

	if (n < 0 && errno == EINTR)
		return true;
	return n > 0 && write_all(fd, bytes, at ? (size_t)(at - bytes) : (size_t)n) && !at;
}

static bool from_guest(int fd)
{
	char bytes[8192];
	ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

	if (n < 0 && errno == EINTR)
		return true;
	return n > 0 && write_all(STDOUT_FILENO, bytes, (size_t)n);
}

static enum ended talk(int fd, int signals, char leave)
{
	struct pollfd on[] = { { fd, POLLIN, 0 }, { STDIN_FILENO, POLLIN, 0 }, { signals, POLLIN, 0 } };

	for (;;) {
		if (poll(on, ARRAY_SIZE(on), -1) < 0 && errno != EINTR)
			return BY_US;
		if (on[0].revents && !from_guest(fd))
			return BY_THEM;
		if (on[2].revents || (on[1].revents && !from_keys(fd, leave)))
			return BY_US;
	}
}

/* The terminal raw, and as it was again, also when somebody ends us. */
static enum ended with_terminal(int fd, char leave)
{
	struct termios was, raw;
	bool is_terminal = tcgetattr(STDIN_FILENO, &was) == 0;
	autoclose int signals = -1;
	enum ended how;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (is_terminal) {
		raw = was;
		cfmakeraw(&raw);
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	how = talk(fd, signals, leave);
	if (is_terminal)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &was);
	return how;
}

/* "^]", or one character. */
static int read_leave(char *ret, const char *text, struct error *err)
{
	size_t len = text ? strlen(text) : 0;

	*ret = LEAVE;
	if (!text)
		return 0;
	*ret = len == 2 && text[0] == '^' ? (char)(text[1] & 0x1f) : text[0];
	if (len == 1 || (len == 2 && text[0] == '^' && text[1] >= '@' && text[1] <= 'z'))
		return 0;
	return error_set(err, -EINVAL, "--escape takes a character, or ^ and one, such as ^]; not \"%.20s\"", text);
}

static bool runs(json_object *doc)
{
	const char *state = ctl_doc_text(doc, "state");

	return strcmp(state, "running") == 0 || strcmp(state, "degraded") == 0;
}

/* Why the other end closed: a guest that runs still, also once velad must have heard of its end, has lost its viewer otherwise. */
static enum ctl_exit tell_end(struct ctl *c, const char *name, const char *path)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	int r = ctl_remote(&doc, c, "GET", path, NULL, &err);

	for (int i = 0; i < HEARS_TRIES && r == 0 && runs(doc); i++) {
		json_object_put(steal(doc));
		(void)poll(NULL, 0, HEARS_MS);
		r = ctl_remote(&doc, c, "GET", path, NULL, &err);
	}
	if (r == 0 && runs(doc)) {
		(void)error_set(&err, -EIO, "the console of %s has ended, and the guest runs: somebody took it over, or libvirt or velad was restarted",
				name);
		return ctl_fail(c, &err);
	}
	(void)fprintf(stderr, "velactl: the console of %s has ended: the guest is %s\n", name, r == 0 ? ctl_doc_text(doc, "state") : "gone");
	return CTL_OK;
}

enum ctl_exit ctl_console(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	char path[96], console[128], leave;
	autoclose int fd = -1;
	enum ended how;

	(void)n;
	if (read_leave(&leave, c->args.escape, &err) < 0 || ctl_instance_path(path, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(console, sizeof(console), "%s/console%s", path, c->args.force ? "?force=true" : "");
	if (ctl_remote_open(&fd, c, console, PROTOCOL, &err) < 0 || hear_first(fd, &err) < 0)
		return ctl_fail(c, &err);
	if (isatty(STDIN_FILENO))
		(void)fprintf(stderr, "velactl: the console of %s; %s%c leaves it\n", arg[0], leave < 0x20 ? "^" : "", leave < 0x20 ? leave | 0x40 : leave);
	how = with_terminal(fd, leave);
	if (isatty(STDIN_FILENO))
		(void)fputs("\n", stderr);
	return how == BY_US ? CTL_OK : tell_end(c, arg[0], path);
}
