/* SPDX-License-Identifier: GPL-2.0-or-later */
/* devlink, answered by this file instead of a kernel: libnl's sendmsg and recvmsg come here (the program's own
 * symbols are found first). The bytes are those of linux/netlink.h, linux/genetlink.h and linux/devlink.h. */
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "host/answer.h"
#include "host/root.h"
#include "host/text.h"
#include "support.h"

#define FAMILY 0x21

enum answer_kind { NO_FAMILY, NO_DEVICE, GOOD, CUT, SILENT };

static enum answer_kind kind;
static unsigned         requests; /* for devlink */
static _Alignas(8) char reply[2048];
static size_t           reply_len;
static struct nlmsghdr  to_ack; /* nlmsg_len 0: nothing */

static void *put_attr(void *at, int type, const void *data, size_t len)
{
	struct nlattr *a = at;

	a->nla_type = (__u16)type;
	a->nla_len = (__u16)(NLA_HDRLEN + len);
	if (data)
		memcpy((char *)at + NLA_HDRLEN, data, len);
	return (char *)at + NLA_HDRLEN + NLA_ALIGN(len);
}

static void *put_text(void *at, int type, const char *text)
{
	return put_attr(at, type, text, strlen(text) + 1);
}

static void *put_version(void *at, int list, const char *name, const char *value)
{
	char *end = put_text((char *)at + NLA_HDRLEN, DEVLINK_ATTR_INFO_VERSION_NAME, name);

	end = put_text(end, DEVLINK_ATTR_INFO_VERSION_VALUE, value);
	(void)put_attr(at, list | NLA_F_NESTED, NULL, (size_t)(end - (char *)at) - NLA_HDRLEN);
	return end;
}

static void *put_info(void *at)
{
	static const char open_ended[4] = { 'm', 'l', 'x', '5' };

	at = put_text(at, DEVLINK_ATTR_BUS_NAME, "pci");
	at = put_text(at, DEVLINK_ATTR_DEV_NAME, "0000:15:01.0");
	at = put_attr(at, DEVLINK_ATTR_INFO_DRIVER_NAME, open_ended, sizeof(open_ended)); /* no NUL: not taken */
	at = put_text(at, DEVLINK_ATTR_INFO_DRIVER_NAME, "mlx5_core");
	at = put_text(at, DEVLINK_ATTR_INFO_SERIAL_NUMBER, "SECRET");
	at = put_version(at, DEVLINK_ATTR_INFO_VERSION_FIXED, "fw.psid", "MT_0000000838");
	at = put_version(at, DEVLINK_ATTR_INFO_VERSION_RUNNING, "fw", "28.39.1002");
	at = put_version(at, DEVLINK_ATTR_INFO_VERSION_RUNNING, "../../x", "1");
	at = put_attr(at, DEVLINK_ATTR_INFO_VERSION_RUNNING | NLA_F_NESTED, NULL, 0);
	return put_version(at, DEVLINK_ATTR_INFO_VERSION_STORED, "fw", "28.41.1000");
}

static void *put_error(void *at, const struct nlmsghdr *request, int error)
{
	struct nlmsgerr *e = at;

	e->error = error;
	e->msg = *request;
	return e + 1;
}

static void answer(const struct nlmsghdr *request)
{
	const struct genlmsghdr *ask = (const void *)(request + 1);
	struct nlmsghdr *h = (void *)reply;
	struct genlmsghdr *g = (void *)(h + 1);
	const __u16 id = FAMILY;
	bool resolve = request->nlmsg_type == GENL_ID_CTRL, refused = kind == NO_FAMILY || (!resolve && kind == NO_DEVICE);
	char *end = (char *)(g + 1);

	memset(reply, 0, sizeof(reply));
	*h = (struct nlmsghdr){ .nlmsg_type = refused ? NLMSG_ERROR : request->nlmsg_type, .nlmsg_seq = request->nlmsg_seq,
				.nlmsg_pid = request->nlmsg_pid };
	if (refused) {
		end = put_error(h + 1, request, resolve ? -ENOENT : -ENODEV);
	} else if (resolve) {
		g->cmd = CTRL_CMD_NEWFAMILY;
		end = put_attr(end, CTRL_ATTR_FAMILY_ID, &id, sizeof(id));
		end = put_text(end, CTRL_ATTR_FAMILY_NAME, DEVLINK_GENL_NAME);
	} else {
		assert_int_equal(request->nlmsg_type, FAMILY);
		assert_int_equal(ask->cmd, DEVLINK_CMD_INFO_GET);
		requests++;
		g->cmd = DEVLINK_CMD_INFO_GET;
		end = put_info(end);
	}
	if (!refused && request->nlmsg_flags & NLM_F_ACK)
		to_ack = *request;
	h->nlmsg_len = (__u32)(end - reply);
	reply_len = h->nlmsg_len;
	if (kind == CUT && !resolve)
		h->nlmsg_len = (__u32)(reply_len -= 21);
	if (kind == SILENT && !resolve)
		reply_len = 0;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	(void)fd, (void)flags;
	answer(m->msg_iov[0].iov_base);
	return (ssize_t)m->msg_iov[0].iov_len;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	size_t n = reply_len;

	(void)fd;
	if (!n && to_ack.nlmsg_len) {
		char *end = put_error((struct nlmsghdr *)(void *)reply + 1, &to_ack, 0);

		*(struct nlmsghdr *)(void *)reply = (struct nlmsghdr){ .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = to_ack.nlmsg_seq,
			.nlmsg_pid = to_ack.nlmsg_pid, .nlmsg_len = (__u32)(end - reply) };
		to_ack.nlmsg_len = 0;
		n = (size_t)(end - reply);
	}
	if (!n) { /* what SO_RCVTIMEO ends with */
		errno = EAGAIN;
		return -1;
	}
	assert_true(n <= m->msg_iov[0].iov_len);
	memcpy(m->msg_iov[0].iov_base, reply, n);
	memcpy(m->msg_name, &kernel, sizeof(kernel));
	m->msg_namelen = sizeof(kernel);
	m->msg_flags = 0;
	if (!(flags & MSG_PEEK))
		reply_len = 0;
	return (ssize_t)n;
}

/* The paths and values that were put; the caller frees. */
static char *asked(enum answer_kind k)
{
	struct bdf nic[] = { test_bdf("0000:15:01.0") };
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct answers a;
	char *text;

	kind = k;
	requests = 0;
	reply_len = to_ack.nlmsg_len = 0;
	assert_int_equal(host_root_open(&root, "/", &err), 0);
	assert_int_equal(answers_init(&a, root), 0);
	devlink_ask(&a, nic, 1);
	text = text_host_render(a.text);
	answers_done(&a);
	host_root_close(root);
	return text;
}

static void versions_are_taken(void **state)
{
	char *text = asked(GOOD);

	(void)state;
	assert_int_equal(requests, 1);
	assert_string_equal(text, TEXT_MAGIC_LINE "answers/devlink/pci/0000:15:01.0/driver\tmlx5_core\n"
						  "answers/devlink/pci/0000:15:01.0/fixed/fw.psid\tMT_0000000838\n"
						  "answers/devlink/pci/0000:15:01.0/running/fw\t28.39.1002\n"
						  "answers/devlink/pci/0000:15:01.0/stored/fw\t28.41.1000\n");
	free(text);
}

static void no_answer_is_unknown(void **state)
{
	static const enum answer_kind kinds[] = { NO_FAMILY, NO_DEVICE, SILENT };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char *text = asked(kinds[i]);

		assert_string_equal(text, TEXT_MAGIC_LINE);
		free(text);
	}
}

/* The last version's value ends before its NUL, the message before its list: what came whole is kept. */
static void a_message_that_is_cut(void **state)
{
	char *text = asked(CUT);

	(void)state;
	assert_non_null(strstr(text, "running/fw\t28.39.1002"));
	assert_null(strstr(text, "stored/fw"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_are_taken),
		cmocka_unit_test(no_answer_is_unknown),
		cmocka_unit_test(a_message_that_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
