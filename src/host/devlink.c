/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks devlink for the firmware versions of NICs (Documentation/networking/devlink/devlink-info.rst): one request
 * per PF, not a dump, which would ask the firmware for each of hundreds of VFs too. Serial numbers are not kept.
 * The socket's time-out bounds the wait for the kernel; not a driver that hangs inside of it. */
#include <errno.h>
#include <linux/devlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/auto.h"
#include "base/bdf.h"
#include "base/clock.h"
#include "base/lazy.h"
#include "host/answer.h"
#include "host/root.h"
#include "host/watch.h"

#define MESSAGE_MAX 16384 /* one info message; mlx5 has about ten versions */

#define LIBRARY "libnl-genl-3.so.200" /* it brings libnl-3 */

#define FUNCTIONS(X) \
	X(nl_socket_alloc) X(nl_socket_free) X(nl_socket_get_fd) X(nl_socket_set_fd) X(nl_socket_set_msg_buf_size) \
	X(nl_socket_modify_cb) X(nl_socket_disable_auto_ack) X(nl_send_auto) X(nl_recvmsgs_default) X(nlmsg_alloc) \
	X(nlmsg_free) X(nlmsg_hdr) X(genl_connect) X(genl_ctrl_resolve) \
	X(genlmsg_put) X(genlmsg_hdr) X(genlmsg_valid_hdr) X(genlmsg_attrdata) \
	X(genlmsg_attrlen) X(nla_put) X(nla_parse_nested) X(nla_type) \
	X(nla_len) X(nla_data) X(nla_ok) X(nla_next)

LAZY_LIBRARY(LIBRARY, FUNCTIONS)

struct question {
	const struct lib *lib;
	struct answers   *answers;
	const char       *name; /* the BDF */
};

static const char *list_name(int attr)
{
	return attr == DEVLINK_ATTR_INFO_VERSION_RUNNING ? "running" :
	       attr == DEVLINK_ATTR_INFO_VERSION_STORED  ? "stored" :
	       attr == DEVLINK_ATTR_INFO_VERSION_FIXED	 ? "fixed" :
							   NULL;
}

/* A string attribute, if it is one: its NUL is there. */
static const char *string_of(const struct lib *l, const struct nlattr *a)
{
	int n = a ? l->nla_len(a) : 0;
	const char *text = n > 0 ? l->nla_data(a) : NULL;

	return text && text[n - 1] == '\0' ? text : NULL;
}

static void take_version(const struct question *q, struct nlattr *list)
{
	const struct lib *l = q->lib;
	struct nlattr *a[DEVLINK_ATTR_INFO_VERSION_VALUE + 1];
	const char *name, *value;

	if (l->nla_parse_nested(a, DEVLINK_ATTR_INFO_VERSION_VALUE, list, NULL) < 0)
		return;
	name = string_of(l, a[DEVLINK_ATTR_INFO_VERSION_NAME]);
	value = string_of(l, a[DEVLINK_ATTR_INFO_VERSION_VALUE]);
	if (name && value && *name && !strchr(name, '/')) /* it becomes a part of a path */
		answer_put(q->answers, value, "answers/devlink/pci/%s/%s/%s", q->name, list_name(l->nla_type(list)), name);
}

static int take_info(struct nl_msg *msg, void *self)
{
	const struct question *q = self;
	const struct lib *l = q->lib;
	struct nlmsghdr *head = l->nlmsg_hdr(msg);
	struct nlattr *a;
	int left;

	if (!l->genlmsg_valid_hdr(head, 0))
		return NL_SKIP;
	a = l->genlmsg_attrdata(l->genlmsg_hdr(head), 0);
	left = l->genlmsg_attrlen(l->genlmsg_hdr(head), 0);
	for (; l->nla_ok(a, left); a = l->nla_next(a, &left)) {
		const char *driver = l->nla_type(a) == DEVLINK_ATTR_INFO_DRIVER_NAME ? string_of(l, a) : NULL;

		if (driver)
			answer_put(q->answers, driver, "answers/devlink/pci/%s/driver", q->name);
		else if (list_name(l->nla_type(a)))
			take_version(q, a);
	}
	return NL_OK;
}

static bool put_string(const struct lib *l, struct nl_msg *msg, int attr, const char *text)
{
	return l->nla_put(msg, attr, (int)strlen(text) + 1, text) == 0;
}

static void ask_one(const struct lib *l, struct nl_sock *s, int family, const char *name)
{
	struct nl_msg *msg = l->nlmsg_alloc();

	if (msg &&
	    l->genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, 0, DEVLINK_CMD_INFO_GET,
			   DEVLINK_GENL_VERSION) &&
	    put_string(l, msg, DEVLINK_ATTR_BUS_NAME, "pci") && put_string(l, msg, DEVLINK_ATTR_DEV_NAME, name) &&
	    l->nl_send_auto(s, msg) >= 0)
		(void)l->nl_recvmsgs_default(s); /* ENODEV, EOPNOTSUPP, EAGAIN: nothing is known */
	l->nlmsg_free(msg);
}

int host_devlink_socket(void)
{
	const struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0) /* so that it has a port */
		return -errno;
	return steal_fd(&fd);
}

/* libnl's own socket, or one that another process opened. */
static int connect_socket(const struct lib *l, const struct answers *a, struct nl_sock *s)
{
	int fd = host_root_ask(a->root, HOST_ASK_DEVLINK);

	if (fd == -ENOSYS)
		return l->genl_connect(s);
	return fd < 0 ? fd : l->nl_socket_set_fd(s, NETLINK_GENERIC, fd);
}

static void ask_all(const struct lib *l, struct answers *a, struct nl_sock *s, const struct bdf *nic, size_t n)
{
	const struct timeval wait = { .tv_sec = ANSWER_MS / 1000, .tv_usec = ANSWER_MS % 1000 * 1000 };
	char name[BDF_TEXT_MAX];
	struct question q = { .lib = l, .answers = a, .name = name };
	uint64_t end = clock_ms() + ANSWER_MS;
	int family;

	if (connect_socket(l, a, s) < 0 || setsockopt(l->nl_socket_get_fd(s), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    l->nl_socket_set_msg_buf_size(s, MESSAGE_MAX) < 0)
		return;
	family = l->genl_ctrl_resolve(s, DEVLINK_GENL_NAME);
	if (family < 0 || l->nl_socket_modify_cb(s, NL_CB_VALID, NL_CB_CUSTOM, take_info, &q) < 0)
		return;
	l->nl_socket_disable_auto_ack(s); /* one request, one message: the answer or an error */
	for (size_t i = 0; i < n && clock_ms() < end; i++) {
		(void)bdf_text(name, nic[i]);
		ask_one(l, s, family, name);
	}
}

void devlink_ask(struct answers *a, const struct bdf *nic, size_t n)
{
	struct lib l = { 0 };

	if (lib_open(&l)) {
		struct nl_sock *s = l.nl_socket_alloc();

		if (s)
			ask_all(&l, a, s, nic, n);
		l.nl_socket_free(s);
	}
	lib_close(&l);
}
