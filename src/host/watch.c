/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Both sources are netlink multicast: the kernel puts a message into our buffer before the write(2) that caused it
 * returns, so after a read until EAGAIN nothing older is missing; and it says ENOBUFS when the buffer was full. */
#include "host/watch.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"
#include "host/change.h"
#include "host/root.h"
#include "host/uevent.h"

/* 1,280 VFs with their interfaces are some 25,000 messages of about 2 KiB each in the socket's account. A limit,
 * not a reservation. */
#define BUFFER      (64 * 1024 * 1024)
#define MESSAGE_MAX (32 * 1024) /* NLMSG_GOODSIZE of a link with its VFs; an uevent is smaller */
#define AT_ONCE     65536       /* one who sends more in one go has us read everything */

struct host_watch {
	int fd[HOST_WATCH_FDS]; /* owned; -1: none */
};

struct host_watch *host_watch_of(int uevents, int links)
{
	struct host_watch *w = calloc(1, sizeof(*w));

	if (w) {
		w->fd[HOST_WATCH_UEVENT] = uevents;
		w->fd[HOST_WATCH_LINK] = links;
	}
	return w;
}

struct host_watch *host_watch_close(struct host_watch *w)
{
	for (int i = 0; w && i < HOST_WATCH_FDS; i++)
		if (w->fd[i] >= 0)
			(void)close(w->fd[i]);
	free(w);
	return NULL;
}

int host_watch_fd(const struct host_watch *w, size_t i)
{
	return w->fd[i];
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static int open_netlink(int protocol, unsigned groups)
{
	struct sockaddr_nl a = { .nl_family = AF_NETLINK, .nl_groups = groups };
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	int size = BUFFER;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0) /* needs CAP_NET_ADMIN */
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)); /* gets net.core.rmem_max at most */
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return steal_fd(&fd);
}

static int open_unix(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return steal_fd(&fd);
}

int host_watch_socket(enum host_watch_source source)
{
	return source == HOST_WATCH_UEVENT ? open_netlink(NETLINK_KOBJECT_UEVENT, 1 /* the kernel's; 2 is udev's */) :
					     open_netlink(NETLINK_ROUTE, RTMGRP_LINK);
}

static int open_source(struct host_root *root, enum host_watch_source source)
{
	int fd = root ? host_root_ask(root, source == HOST_WATCH_UEVENT ? HOST_ASK_UEVENTS : HOST_ASK_LINKS) : -ENOSYS;

	return fd == -ENOSYS ? host_watch_socket(source) : fd;
}

int host_watch_open(struct host_watch **ret, struct host_root *root, const char *path, struct error *err)
{
	autoclose int links = -1;
	autoclose int uevents = path ? open_unix(path) : open_source(root, HOST_WATCH_UEVENT);

	if (uevents < 0)
		return error_set(err, uevents, "cannot hear of changes from %s: %s", path ? path : "the kernel (uevents)",
				 strerror(-uevents));
	if (!path)
		links = open_source(root, HOST_WATCH_LINK);
	if (!path && links < 0)
		return error_set(err, links, "cannot hear of changes from the kernel (network links): %s", strerror(-links));
	*ret = host_watch_of(uevents, links);
	if (!*ret)
		return error_set(err, -ENOMEM, "no memory");
	(void)steal_fd(&uevents), (void)steal_fd(&links); /* the watch's now */
	return 0;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static void take_uevent(struct host_changes *c, char *buf, size_t len)
{
	struct host_uevent e;

	if (host_uevent_parse(&e, buf, len) < 0)
		c->lost = true;
	else if (e.what)
		host_changes_add(c, e.bdf, e.what);
}

/* IFLA_PARENT_DEV_NAME is the name of the function below an interface (Linux 5.14, rtnetlink.c); virtual ones have
 * none. false: the attributes are cut. */
static bool take_parent(struct host_changes *c, const struct nlmsghdr *h)
{
	const struct rtattr *at = IFLA_RTA(NLMSG_DATA(h));
	int left = (int)IFLA_PAYLOAD(h);
	char name[BDF_TEXT_MAX];
	struct bdf bdf;

	for (; left > 0 && RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		if (at->rta_type != IFLA_PARENT_DEV_NAME || RTA_PAYLOAD(at) >= sizeof(name))
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)RTA_PAYLOAD(at), (const char *)RTA_DATA(at));
		if (bdf_parse(&bdf, name))
			host_changes_add(c, bdf, HOST_CHANGE_NET);
	}
	return left <= 0;
}

static void take_link(struct host_changes *c, char *buf, size_t len)
{
	const struct nlmsghdr *h = (const void *)buf;
	unsigned left = NLMSG_ALIGN((unsigned)len); /* else NLMSG_NEXT() could go below 0 */

	memset(buf + len, 0, left - len);
	for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left))
		if (h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK)
			c->lost |= h->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)) || !take_parent(c, h);
	c->lost |= left != 0;
}

/* Only the kernel's: netlink gives port 0 to nobody else (netlink_bind(), netlink_autobind()), and a process may
 * send to the group, too. */
static bool from_kernel(const struct sockaddr_nl *a, socklen_t len)
{
	return len < sizeof(*a) || a->nl_family != AF_NETLINK || (a->nl_pid == 0 && a->nl_groups != 0);
}

/* 1: there may be more; 0: no more; or a negative errno. */
static int read_one(struct host_changes *c, int fd, enum host_watch_source source)
{
	char buf[MESSAGE_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));
	union {
		struct sockaddr_nl      nl;
		struct sockaddr_storage any; /* a simulated kernel's Unix socket has a longer name */
	} from = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if ((n < 0 && errno == ENOBUFS) || (n > 0 && m.msg_flags & MSG_TRUNC)) {
		c->lost = true;
		return 1;
	}
	if (n <= 0)
		return n < 0 ? -errno : -ENOTCONN;
	if (!from_kernel(&from.nl, m.msg_namelen))
		return 1;
	if (source == HOST_WATCH_LINK)
		take_link(c, buf, (size_t)n);
	else
		take_uevent(c, buf, (size_t)n);
	return 1;
}

int host_watch_read(struct host_watch *w, struct host_changes *c)
{
	for (int i = 0; i < HOST_WATCH_FDS; i++) {
		int r = w->fd[i] >= 0;

		for (unsigned n = 0; r == 1 && n < AT_ONCE; n++)
			r = read_one(c, w->fd[i], (enum host_watch_source)i);
		c->lost |= r != 0;
		if (r < 0)
			return r;
	}
	return 0;
}
