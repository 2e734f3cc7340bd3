/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks devlink for the firmware versions of NICs (Documentation/networking/devlink/devlink-info.rst): one request
 * per PF, not a dump, which would ask the firmware for each of hundreds of VFs too. Serial numbers are not kept.
 * The socket's time-out bounds the wait for the kernel; not a driver that hangs inside of it. */
#include <linux/devlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <sys/socket.h>
#include <time.h>

#include "base/bdf.h"
#include "host/answer.h"

#define MESSAGE_MAX 16384 /* one info message; mlx5 has about ten versions */

struct question {
	struct answers *answers;
	const char     *name; /* the BDF */
};

static const char *list_name(int attr)
{
	return attr == DEVLINK_ATTR_INFO_VERSION_RUNNING ? "running" :
	       attr == DEVLINK_ATTR_INFO_VERSION_STORED  ? "stored" :
	       attr == DEVLINK_ATTR_INFO_VERSION_FIXED	 ? "fixed" :
							   NULL;
}

/* A name becomes a part of a path. */
static bool name_ok(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void take_version(const struct question *q, struct nlattr *list)
{
	static struct nla_policy policy[DEVLINK_ATTR_INFO_VERSION_VALUE + 1] = {
		[DEVLINK_ATTR_INFO_VERSION_NAME] = { .type = NLA_STRING },
		[DEVLINK_ATTR_INFO_VERSION_VALUE] = { .type = NLA_STRING },
	};
	struct nlattr *a[DEVLINK_ATTR_INFO_VERSION_VALUE + 1], *name, *value;

	if (nla_parse_nested(a, DEVLINK_ATTR_INFO_VERSION_VALUE, list, policy) < 0)
		return;
	name = a[DEVLINK_ATTR_INFO_VERSION_NAME];
	value = a[DEVLINK_ATTR_INFO_VERSION_VALUE];
	if (name && value && name_ok(nla_get_string(name)))
		answer_put(q->answers, nla_get_string(value), "answers/devlink/pci/%s/%s/%s", q->name,
			   list_name(nla_type(list)), nla_get_string(name));
}

static bool terminated(const struct nlattr *a)
{
	return nla_len(a) > 0 && ((const char *)nla_data(a))[nla_len(a) - 1] == '\0';
}

static int take_info(struct nl_msg *msg, void *self)
{
	const struct question *q = self;
	struct genlmsghdr *head = genlmsg_hdr(nlmsg_hdr(msg));
	struct nlattr *a;
	int left;

	if (!genlmsg_valid_hdr(nlmsg_hdr(msg), 0))
		return NL_SKIP;
	nla_for_each_attr(a, genlmsg_attrdata(head, 0), genlmsg_attrlen(head, 0), left) {
		if (nla_type(a) == DEVLINK_ATTR_INFO_DRIVER_NAME && terminated(a))
			answer_put(q->answers, nla_get_string(a), "answers/devlink/pci/%s/driver", q->name);
		else if (list_name(nla_type(a)))
			take_version(q, a);
	}
	return NL_OK;
}

static void ask_one(struct nl_sock *s, int family, const char *name)
{
	struct nl_msg *msg = nlmsg_alloc();

	if (msg && genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, NLM_F_ACK, DEVLINK_CMD_INFO_GET, DEVLINK_GENL_VERSION) &&
	    nla_put_string(msg, DEVLINK_ATTR_BUS_NAME, "pci") == 0 && nla_put_string(msg, DEVLINK_ATTR_DEV_NAME, name) == 0 &&
	    nl_send_auto(s, msg) >= 0)
		(void)nl_recvmsgs_default(s); /* ENODEV, EOPNOTSUPP, EAGAIN: nothing is known */
	nlmsg_free(msg);
}

void devlink_ask(struct answers *a, const struct bdf *nic, size_t n)
{
	const struct timeval wait = { .tv_sec = ANSWER_MS / 1000, .tv_usec = ANSWER_MS % 1000 * 1000 };
	struct nl_sock *s = nl_socket_alloc();
	char name[BDF_TEXT_MAX];
	struct question q = { .answers = a, .name = name };
	time_t end = time(NULL) + ANSWER_MS / 1000;
	int family = -1;

	if (s && genl_connect(s) == 0 &&
	    setsockopt(nl_socket_get_fd(s), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0 &&
	    nl_socket_set_msg_buf_size(s, MESSAGE_MAX) == 0)
		family = genl_ctrl_resolve(s, DEVLINK_GENL_NAME);
	if (family >= 0 && nl_socket_modify_cb(s, NL_CB_VALID, NL_CB_CUSTOM, take_info, &q) == 0)
		for (size_t i = 0; i < n && time(NULL) <= end; i++) {
			(void)bdf_text(name, nic[i]);
			ask_one(s, family, name);
		}
	nl_socket_free(s);
}
