/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest's console through libvirt: bytes between its stream and a socket. All of it happens on the thread of libvirt's event
 * loop, which owns a console from the moment that its socket is watched. */
#include <errno.h>
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "act/libvirt.h"
#include "base/error.h"

AUTO_DEFINE(virConnectPtr, virConnectClose);
AUTO_DEFINE(virDomainPtr, virDomainFree);
AUTO_DEFINE(virStreamPtr, virStreamFree);

#define ROUNDS 16 /* of moving bytes, before the loop's others have their turn */

struct half {
	char   byte[8192];
	size_t at, end;
};

struct console {
	virStreamPtr st;    /* owned */
	int          fd;    /* owned */
	int          watch; /* of fd */
	bool         over;  /* the guest says nothing more, and is told nothing */
	struct half  in, out; /* to the guest, from it */
};

static void console_free(void *self)
{
	struct console *c = self;

	if (c->st)
		(void)virStreamFree(c->st);
	if (c->fd >= 0)
		(void)close(c->fd);
	free(c);
}

/* Frees it when the loop has let go of the socket. */
static void end(struct console *c)
{
	if (!c->over)
		(void)virStreamEventRemoveCallback(c->st);
	(void)virStreamAbort(c->st); /* for either end it is over */
	(void)virEventRemoveHandle(c->watch);
}

/* True: bytes went on. */
static bool from_guest(struct console *c, bool *gone)
{
	ssize_t n;

	if (c->out.at == c->out.end && !c->over) {
		int got = virStreamRecv(c->st, c->out.byte, sizeof(c->out.byte));

		c->out.at = 0;
		c->out.end = got > 0 ? (size_t)got : 0;
		if (got == 0 || got == -1) {
			(void)virStreamEventRemoveCallback(c->st);
			c->over = true;
		}
	}
	if (c->out.at == c->out.end)
		return false;
	n = send(c->fd, c->out.byte + c->out.at, c->out.end - c->out.at, MSG_NOSIGNAL | MSG_DONTWAIT);
	*gone = n < 0 && errno != EAGAIN && errno != EINTR;
	if (n > 0)
		c->out.at += (size_t)n;
	return n > 0;
}

static bool to_guest(struct console *c, bool *gone)
{
	int sent;

	if (c->over)
		return false;
	if (c->in.at == c->in.end) {
		ssize_t n = recv(c->fd, c->in.byte, sizeof(c->in.byte), MSG_DONTWAIT);

		*gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
		c->in.at = 0;
		c->in.end = n > 0 ? (size_t)n : 0;
	}
	if (c->in.at == c->in.end)
		return false;
	sent = virStreamSend(c->st, c->in.byte + c->in.at, c->in.end - c->in.at);
	*gone = sent == -1;
	if (sent > 0)
		c->in.at += (size_t)sent;
	return sent > 0;
}

static void move(struct console *c)
{
	bool gone = false, more = true;
	bool out, in;

	for (int i = 0; i < ROUNDS && more && !gone; i++) {
		more = from_guest(c, &gone);
		if (!gone && to_guest(c, &gone))
			more = true;
	}
	out = c->out.at < c->out.end;
	in = c->in.at < c->in.end;
	if (gone || (c->over && !out)) {
		end(c);
		return;
	}
	virEventUpdateHandle(c->watch, (in || c->over ? 0 : VIR_EVENT_HANDLE_READABLE) | (out ? VIR_EVENT_HANDLE_WRITABLE : 0));
	if (!c->over)
		(void)virStreamEventUpdateCallback(c->st, (out ? 0 : VIR_STREAM_EVENT_READABLE) | (in ? VIR_STREAM_EVENT_WRITABLE : 0));
}

static void on_stream(virStreamPtr st, int events, void *self)
{
	(void)st;
	(void)events;
	move(self);
}

/* The first time, the socket can be written to: until then the stream has no events, so that this comes first. */
static void on_socket(int watch, int fd, int events, void *self)
{
	struct console *c = self;

	(void)fd;
	c->watch = watch;
	if (events & (VIR_EVENT_HANDLE_ERROR | VIR_EVENT_HANDLE_HANGUP) && !(events & VIR_EVENT_HANDLE_READABLE))
		end(c);
	else
		move(c);
}

static int open_stream(virStreamPtr *ret, virConnectPtr conn, virDomainPtr dom, bool force, struct error *err)
{
	auto_(virStreamFree) virStreamPtr st = virStreamNew(conn, VIR_STREAM_NONBLOCK);
	const char *name = virDomainGetName(dom);

	if (!st)
		return error_set(err, -EREMOTEIO, "cannot open a stream of libvirt: %s", virGetLastErrorMessage());
	if (virDomainOpenConsole(dom, NULL, st, force ? VIR_DOMAIN_CONSOLE_FORCE : 0) == 0) {
		*ret = steal(st);
		return 0;
	}
	if (virGetLastErrorCode() == VIR_ERR_OPERATION_INVALID)
		return error_set(err, -EBUSY, "%s does not run, and has no console; start it first", name);
	/* qemuDomainOpenConsole(), src/qemu/qemu_driver.c: so, where another stream has it */
	if (virGetLastErrorCode() == VIR_ERR_OPERATION_FAILED && !force)
		return error_set(err, -EBUSY, "somebody else has the console of %s (%s); --force takes it from them", name,
				 virGetLastErrorMessage());
	return error_set(err, -EREMOTEIO, "cannot open the console of %s: %s", name, virGetLastErrorMessage());
}

/* Takes st. */
static int watch(virStreamPtr st, int fd, const char *hello, struct error *err)
{
	struct console *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)virStreamAbort(st);
		(void)virStreamFree(st);
		return error_set(err, -ENOMEM, "no memory for a console");
	}
	c->st = st;
	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	c->out.end = (size_t)snprintf(c->out.byte, sizeof(c->out.byte), "%s", hello);
	if (c->fd < 0)
		(void)error_set(err, -EIO, "cannot keep the socket of a console: %s", strerror(errno));
	else if (virStreamEventAddCallback(st, 0, on_stream, c, NULL) < 0)
		(void)error_set(err, -EREMOTEIO, "cannot watch a console: %s", virGetLastErrorMessage());
	else if (virEventAddHandle(c->fd, VIR_EVENT_HANDLE_READABLE | VIR_EVENT_HANDLE_WRITABLE, on_socket, c, console_free) >= 0)
		return 0;
	else
		(void)error_set(err, -EREMOTEIO, "cannot watch the socket of a console: %s", virGetLastErrorMessage());
	(void)virStreamEventRemoveCallback(st); /* it may have none */
	(void)virStreamAbort(st);
	console_free(c);
	return err->code;
}

int act_virt_console(struct act_virt *v, const char *name, bool force, int fd, const char *hello, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virDomainFree) virDomainPtr dom = NULL;
	virStreamPtr st = NULL;
	int r = act_virt_find(v, &conn, &dom, name, err);

	if (r == 0 && !dom)
		return error_set(err, -ENOENT, "libvirt has no domain %s that velad made", name);
	if (r == 0)
		r = open_stream(&st, conn, dom, force, err);
	return r < 0 ? r : watch(st, fd, hello, err);
}
