/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Uevents of PCI functions as kobject_uevent_env() sends them (lib/kobject_uevent.c): a header ACTION@DEVPATH, then
 * strings, each with its NUL. To clients of a Unix SOCK_SEQPACKET socket, one message each as netlink has it, and to a
 * file, one line each. What netlink's receiver would see as ENOBUFS (its buffer was full, messages are lost) is here the
 * message "ENOBUFS", before the next that gets through. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sbuf.h"
#include "sim.h"

struct client {
	struct client *next;
	int fd;    /* owned */
	bool lost; /* has missed some */
};

static int listener = -1;

/* Just before an event is sent, so that whoever has connected by then gets it. */
static void admit(struct sim *s)
{
	int fd;

	while (listener >= 0 && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct client *c = calloc(1, sizeof(*c));

		if (!c) {
			(void)close(fd);
			continue;
		}
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ 106496 }, sizeof(int)); /* doubled: a netlink's */
		*c = (struct client){ .next = s->client, .fd = fd };
		s->client = c;
	}
}

/* Says whether the client is still there. */
static bool give(struct sim *s, struct client *c, const char *text, size_t len)
{
	if (s->lose) {
		c->lost = true;
		return true;
	}
	if (c->lost && send(c->fd, "ENOBUFS", sizeof("ENOBUFS"), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		c->lost = false;
	if (!c->lost && send(c->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	c->lost = true;
	return errno == EAGAIN || errno == ENOBUFS;
}

static void give_all(struct sim *s, const char *text, size_t len)
{
	admit(s);
	for (struct client **at = &s->client; *at;) {
		struct client *c = *at;

		if (give(s, c, text, len)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		(void)close(c->fd);
		free(c);
	}
	s->lose -= s->lose > 0;
}

/* What the device's own uevent_ops add: its uevent file. An unbind has no MODALIAS, lest udev load the driver that
 * was just taken off (zap_modalias_env()). */
static void add_own(struct sbuf *b, const char *action, const char *text)
{
	for (size_t n; *text; text += n) {
		n = strcspn(text, "\n");
		if (strcmp(action, "unbind") != 0 || strncmp(text, "MODALIAS=", 9) != 0) {
			sbuf_add_bytes(b, text, n);
			sbuf_add(b, "\n");
		}
		n += text[n] == '\n';
	}
}

/* The order is kobject_uevent_env()'s. */
void uevent(struct sim *s, const char *action, const struct node *dev)
{
	const struct node *own = node_attr(dev, "uevent");
	char path[SIM_PATH_MAX];
	struct sbuf b = { 0 };

	(void)node_path(path, dev);
	sbuf_addf(&b, "%s@%s\nACTION=%s\nDEVPATH=%s\nSUBSYSTEM=pci\n", action, path + strlen("sys"), action,
		  path + strlen("sys"));
	add_own(&b, action, own && own->text ? own->text : "");
	sbuf_addf(&b, "SEQNUM=%llu\n", (unsigned long long)++s->seqnum);
	if (b.failed) {
		sbuf_done(&b);
		return;
	}
	for (char *at = b.text; (at = strchr(at, '\n')); at++)
		*at = '\0';
	give_all(s, b.text, b.len);
	for (size_t i = 0; i + 1 < b.len; i++)
		b.text[i] = b.text[i] ? b.text[i] : ' ';
	sim_append(&s->events, &s->events_len, b.text);
	sim_append(&s->events, &s->events_len, "\n");
	sbuf_done(&b);
}

char *uevent_read(struct sim *s, const struct node *n)
{
	(void)n;
	return strdup(s->events_len ? s->events : "");
}

/* ---- clients ---------------------------------------------------------------------------------------- */

int uevent_listen(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	(void)strcpy(a.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, SOMAXCONN) < 0)
		return -errno;
	return 0;
}
