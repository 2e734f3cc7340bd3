/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel works inside of send(2), under a lock that all of networking shares; the answer is there when it returns. */
#include "act/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

#define ANSWER_MAX (1 << 20) /* attributes are 64 KiB at most; the rest of a link is small */
#define UNKNOWN    UINT32_MAX /* -1: the driver has no such thing (rtnl_fill_vfinfo()) */

struct request {
	struct nlmsghdr  head;
	struct ifinfomsg link;
	uint8_t          attrs[256];
};

static struct request new_request(uint16_t type, uint16_t flags, int ifindex)
{
	return (struct request){
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags,
			  .nlmsg_seq = 1 },
		.link = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex },
	};
}

/* Returns where its payload is; the nests that are open grow by themselves in close_nest(). */
static struct rtattr *add(struct request *q, unsigned short type, const void *data, size_t len)
{
	struct rtattr *a = (struct rtattr *)((char *)q + NLMSG_ALIGN(q->head.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(a), data, len);
	q->head.nlmsg_len = NLMSG_ALIGN(q->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static void close_nest(const struct request *q, struct rtattr *nest)
{
	nest->rta_len = (unsigned short)((const char *)q + q->head.nlmsg_len - (const char *)nest);
}

/* ---- asking ----------------------------------------------------------------------------------------- */

static int open_socket(struct error *err)
{
	const int on = 1;
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return error_set(err, -EIO, "cannot open a netlink socket: %s", strerror(errno));
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)); /* a kernel before 4.12 has no words */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	return steal_fd(&fd);
}

static int receive(char **ret, size_t *len, int fd, struct error *err)
{
	ssize_t n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	autofree char *answer = n > 0 && n <= ANSWER_MAX ? malloc((size_t)n) : NULL;

	n = answer ? recv(fd, answer, (size_t)n, 0) : -1;
	if (n < (ssize_t)sizeof(struct nlmsghdr))
		return error_set(err, -EIO, "no answer from the kernel: %s", n < 0 ? strerror(errno) : "it is too short");
	*ret = steal(answer);
	*len = (size_t)n;
	return 0;
}

/* The driver's own words, behind the error (struct nlmsgerr, NLMSGERR_ATTR_MSG). */
static const char *words_of(const struct nlmsghdr *h)
{
	const struct rtattr *a = (const struct rtattr *)((const char *)NLMSG_DATA(h) + sizeof(struct nlmsgerr));
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nlmsgerr));

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || !(h->nlmsg_flags & NLM_F_CAPPED))
		return NULL;
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		const char *text = RTA_DATA(a);

		if (a->rta_type == NLMSGERR_ATTR_MSG && RTA_PAYLOAD(a) > 1 && text[RTA_PAYLOAD(a) - 1] == '\0')
			return text;
	}
	return NULL;
}

static int error_of(const struct nlmsghdr *h, struct error *err)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);
	const char *words;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
		return error_set(err, -EIO, "no answer from the kernel: it is too short");
	if (!e->error)
		return 0;
	words = words_of(h);
	return error_set(err, e->error, "%s%s%.120s", strerror(-e->error), words ? ": " : "", words ? words : "");
}

/* The answer is a message, or an error, which may be none. */
static int ask(char **ret, size_t *len, const struct request *q, struct error *err)
{
	autoclose int fd = open_socket(err);
	autofree char *answer = NULL;
	const struct nlmsghdr *h;
	size_t n = 0;
	int r = fd < 0 ? fd : 0;

	if (r == 0 && send(fd, q, q->head.nlmsg_len, 0) < 0)
		r = error_set(err, -EIO, "cannot ask the kernel: %s", strerror(errno));
	if (r == 0)
		r = receive(&answer, &n, fd, err);
	if (r < 0)
		return r;
	h = (const struct nlmsghdr *)answer;
	if (!NLMSG_OK(h, n))
		return error_set(err, -EIO, "no answer from the kernel: it is cut off");
	if (h->nlmsg_type == NLMSG_ERROR)
		return error_of(h, err);
	*len = n;
	*ret = steal(answer);
	return 0;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static const void *payload(const struct rtattr *a, size_t least)
{
	return a && RTA_PAYLOAD(a) >= least ? RTA_DATA(a) : NULL;
}

/* The last of each type below `max`, in a nest. */
static void parse_nest(const struct rtattr **ret, unsigned max, const struct rtattr *nest)
{
	int left = nest ? (int)RTA_PAYLOAD(nest) : 0;

	memset(ret, 0, max * sizeof(*ret));
	for (const struct rtattr *a = nest ? RTA_DATA(nest) : NULL; a && RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) < max)
			ret[a->rta_type & NLA_TYPE_MASK] = a;
}

static void take(struct plan_vf_settings *s, enum plan_vf_attr a, uint64_t v)
{
	s->has |= PLAN_VF_BIT(a);
	s->value[a] = v;
}

static void take_switch(struct plan_vf_settings *s, enum plan_vf_attr a, const uint32_t *pair)
{
	if (pair && pair[1] != UNKNOWN)
		take(s, a, pair[1]);
}

static void take_guid(struct plan_vf_settings *s, enum plan_vf_attr a, const struct rtattr *at)
{
	const struct ifla_vf_guid *g = payload(at, sizeof(*g));
	uint64_t v;

	if (!g)
		return;
	memcpy(&v, (const char *)g + offsetof(struct ifla_vf_guid, guid), sizeof(v)); /* attributes are aligned to 4 */
	take(s, a, v);
}

/* IFLA_VF_VLAN_LIST has the protocol, too; kernels before 4.9 lack it. */
static void take_vlan(struct plan_vf_settings *s, const struct rtattr *const *vf)
{
	const struct rtattr *list[IFLA_VF_VLAN_INFO_MAX + 1];
	const struct ifla_vf_vlan *v = payload(vf[IFLA_VF_VLAN], sizeof(*v));
	const struct ifla_vf_vlan_info *i;

	parse_nest(list, IFLA_VF_VLAN_INFO_MAX + 1, vf[IFLA_VF_VLAN_LIST]);
	i = payload(list[IFLA_VF_VLAN_INFO], offsetof(struct ifla_vf_vlan_info, vlan_proto) + sizeof(i->vlan_proto));
	if (v || i) {
		take(s, PLAN_VF_VLAN, i ? i->vlan : v->vlan);
		take(s, PLAN_VF_QOS, i ? i->qos : v->qos);
	}
	if (i)
		take(s, PLAN_VF_PROTOCOL, ntohs(i->vlan_proto));
}

static void take_mac(struct plan_vf_settings *s, const struct ifla_vf_mac *m)
{
	uint64_t v = 0;

	for (int i = 0; m && i < 6; i++)
		v = v << 8 | m->mac[i];
	if (m)
		take(s, PLAN_VF_MAC, v);
}

/* An InfiniBand port says nothing of MAC, VLAN and the like; what the kernel fills in for it is nobody's
 * (ipoib_get_vf_config(), drivers/infiniband/ulp/ipoib/ipoib_main.c). */
static void take_vf(struct plan_vf_settings *s, const struct rtattr *const *vf, bool infiniband)
{
	const struct ifla_vf_rate *rate = payload(vf[IFLA_VF_RATE], sizeof(*rate));
	const struct ifla_vf_link_state *state = payload(vf[IFLA_VF_LINK_STATE], sizeof(*state));

	if (state)
		take(s, PLAN_VF_LINK_STATE, state->link_state);
	if (infiniband) {
		take_guid(s, PLAN_VF_NODE_GUID, vf[IFLA_VF_IB_NODE_GUID]);
		take_guid(s, PLAN_VF_PORT_GUID, vf[IFLA_VF_IB_PORT_GUID]);
		return;
	}
	take_mac(s, payload(vf[IFLA_VF_MAC], sizeof(struct ifla_vf_mac)));
	take_vlan(s, vf);
	take_switch(s, PLAN_VF_SPOOF_CHECK, payload(vf[IFLA_VF_SPOOFCHK], sizeof(struct ifla_vf_spoofchk)));
	take_switch(s, PLAN_VF_TRUST, payload(vf[IFLA_VF_TRUST], sizeof(struct ifla_vf_trust)));
	if (rate) {
		take(s, PLAN_VF_MIN_RATE, rate->min_tx_rate);
		take(s, PLAN_VF_MAX_RATE, rate->max_tx_rate);
	}
}

int rtnl_vf_parse(struct plan_vf_settings *ret, const void *msg, size_t len, unsigned index)
{
	const struct nlmsghdr *h = msg;
	const struct rtattr *a, *list = NULL, *vf[IFLA_VF_MAX + 1];
	struct plan_vf_settings s = { 0 };
	bool infiniband;
	int left;

	if (len < sizeof(*h) || !NLMSG_OK(h, len) || h->nlmsg_type != RTM_NEWLINK || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)))
		return -EBADMSG;
	infiniband = ((const struct ifinfomsg *)NLMSG_DATA(h))->ifi_type == 32; /* ARPHRD_INFINIBAND */
	left = (int)(h->nlmsg_len - NLMSG_SPACE(sizeof(struct ifinfomsg)));
	a = (const struct rtattr *)((const char *)h + NLMSG_SPACE(sizeof(struct ifinfomsg)));
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) == IFLA_VFINFO_LIST)
			list = a;
	left = list ? (int)RTA_PAYLOAD(list) : 0;
	for (a = list ? RTA_DATA(list) : NULL; a && RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		const struct ifla_vf_mac *mac;

		parse_nest(vf, IFLA_VF_MAX + 1, a);
		mac = payload(vf[IFLA_VF_MAC], sizeof(*mac)); /* every VF has one */
		if (!mac || mac->vf != index)
			continue;
		take_vf(&s, vf, infiniband);
		*ret = s;
		return 0;
	}
	return -ENODEV;
}

int rtnl_vf_read(struct plan_vf_settings *ret, int ifindex, unsigned index, struct error *err)
{
	const uint32_t filter = RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS;
	struct request q = new_request(RTM_GETLINK, 0, ifindex);
	autofree char *answer = NULL;
	size_t len = 0;
	int r;

	(void)add(&q, IFLA_EXT_MASK, &filter, sizeof(filter));
	r = ask(&answer, &len, &q, err);
	if (r < 0)
		return r;
	r = answer ? rtnl_vf_parse(ret, answer, len, index) : -EBADMSG;
	return r < 0 ? error_set(err, r == -ENODEV ? -ENODEV : -EIO, "the kernel says nothing of VF %u", index) : 0;
}

/* ---- setting ---------------------------------------------------------------------------------------- */

static void add_mac(struct request *q, unsigned index, uint64_t v)
{
	struct ifla_vf_mac m = { .vf = index };

	for (int i = 0; i < 6; i++)
		m.mac[i] = (uint8_t)(v >> 8 * (5 - i));
	(void)add(q, IFLA_VF_MAC, &m, sizeof(m));
}

/* 802.1Q the old way, which all drivers know. */
static void add_vlan(struct request *q, unsigned index, const struct plan_vf_settings *s)
{
	const struct ifla_vf_vlan v = { index, (uint32_t)s->value[PLAN_VF_VLAN], (uint32_t)s->value[PLAN_VF_QOS] };
	const struct ifla_vf_vlan_info i = { v.vf, v.vlan, v.qos, htons((uint16_t)s->value[PLAN_VF_PROTOCOL]) };
	struct rtattr *list;

	if (!(s->has & PLAN_VF_BIT(PLAN_VF_PROTOCOL)) || s->value[PLAN_VF_PROTOCOL] == 0x8100 || !v.vlan) {
		(void)add(q, IFLA_VF_VLAN, &v, sizeof(v));
		return;
	}
	list = add(q, IFLA_VF_VLAN_LIST, NULL, 0);
	(void)add(q, IFLA_VF_VLAN_INFO, &i, sizeof(i));
	close_nest(q, list);
}

/* spoof check, trust and link state have one shape */
static void add_pair(struct request *q, unsigned short type, unsigned index, uint64_t v)
{
	const uint32_t pair[2] = { index, (uint32_t)v };

	(void)add(q, type, pair, sizeof(pair));
}

static void add_guid(struct request *q, unsigned short type, unsigned index, uint64_t v)
{
	const struct ifla_vf_guid g = { .vf = index, .guid = v };

	(void)add(q, type, &g, sizeof(g));
}

static void add_change(struct request *q, unsigned index, const struct plan_vf_settings *s)
{
	const struct ifla_vf_rate rate = { index, (uint32_t)s->value[PLAN_VF_MIN_RATE], (uint32_t)s->value[PLAN_VF_MAX_RATE] };

	switch ((enum plan_vf_attr)__builtin_ctz(s->has)) {
	case PLAN_VF_MAC:
		return add_mac(q, index, s->value[PLAN_VF_MAC]);
	case PLAN_VF_VLAN:
	case PLAN_VF_QOS:
	case PLAN_VF_PROTOCOL:
		return add_vlan(q, index, s);
	case PLAN_VF_TRUST:
		return add_pair(q, IFLA_VF_TRUST, index, s->value[PLAN_VF_TRUST]);
	case PLAN_VF_SPOOF_CHECK:
		return add_pair(q, IFLA_VF_SPOOFCHK, index, s->value[PLAN_VF_SPOOF_CHECK]);
	case PLAN_VF_MIN_RATE:
	case PLAN_VF_MAX_RATE:
		(void)add(q, IFLA_VF_RATE, &rate, sizeof(rate));
		return;
	case PLAN_VF_LINK_STATE:
		return add_pair(q, IFLA_VF_LINK_STATE, index, s->value[PLAN_VF_LINK_STATE]);
	case PLAN_VF_NODE_GUID:
		return add_guid(q, IFLA_VF_IB_NODE_GUID, index, s->value[PLAN_VF_NODE_GUID]);
	case PLAN_VF_PORT_GUID:
		return add_guid(q, IFLA_VF_IB_PORT_GUID, index, s->value[PLAN_VF_PORT_GUID]);
	case PLAN_VF_ATTR_MAX_:
		return;
	}
}

int rtnl_vf_set(int ifindex, unsigned index, const struct plan_vf_settings *s, struct error *err)
{
	struct request q = new_request(RTM_SETLINK, NLM_F_ACK, ifindex);
	struct rtattr *list = add(&q, IFLA_VFINFO_LIST, NULL, 0), *vf = add(&q, IFLA_VF_INFO, NULL, 0);
	autofree char *answer = NULL;
	size_t len = 0;

	add_change(&q, index, s);
	close_nest(&q, vf);
	close_nest(&q, list);
	return ask(&answer, &len, &q, err);
}
