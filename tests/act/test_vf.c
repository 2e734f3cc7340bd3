/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Settings of VFs over rtnetlink: messages as the kernel makes them, cut and bent ones, and the kernel itself, as far as
 * this machine has something with VFs: netdevsim, if it is there. */
#include "act/rtnl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

struct message {
	_Alignas(struct nlmsghdr) char bytes[2048];
	size_t len;
};

/* Returns where it lies. */
static size_t put(struct message *m, unsigned short type, const void *data, size_t len)
{
	const struct rtattr a = { (unsigned short)RTA_LENGTH(len), type };
	size_t at = m->len;

	memcpy(m->bytes + at, &a, sizeof(a));
	if (len)
		memcpy(m->bytes + at + sizeof(a), data, len);
	m->len += RTA_SPACE(len);
	return at;
}

static void end(struct message *m, size_t nest)
{
	unsigned short len = (unsigned short)(m->len - nest);

	memcpy(m->bytes + nest, &len, sizeof(len));
}

/* rtnl_fill_vf(), net/core/rtnetlink.c */
static void put_vf(struct message *m, uint32_t vf, uint32_t spoof, uint16_t protocol)
{
	size_t info = put(m, IFLA_VF_INFO, NULL, 0), list;
	struct ifla_vf_guid guid = { .vf = vf, .guid = UINT64_C(0x0200000000000001) };

	put(m, IFLA_VF_MAC, &(struct ifla_vf_mac){ vf, { 2, 0, 0, 0x12, 0x34, (uint8_t)vf } }, sizeof(struct ifla_vf_mac));
	put(m, IFLA_VF_BROADCAST, &(struct ifla_vf_broadcast){ { 0xff } }, sizeof(struct ifla_vf_broadcast));
	put(m, IFLA_VF_VLAN, &(struct ifla_vf_vlan){ vf, 100, 3 }, sizeof(struct ifla_vf_vlan));
	put(m, IFLA_VF_RATE, &(struct ifla_vf_rate){ vf, 10, 1000 }, sizeof(struct ifla_vf_rate));
	put(m, IFLA_VF_TX_RATE, &(struct ifla_vf_tx_rate){ vf, 1000 }, sizeof(struct ifla_vf_tx_rate));
	put(m, IFLA_VF_SPOOFCHK, &(struct ifla_vf_spoofchk){ vf, spoof }, sizeof(struct ifla_vf_spoofchk));
	put(m, IFLA_VF_LINK_STATE, &(struct ifla_vf_link_state){ vf, 2 }, sizeof(struct ifla_vf_link_state));
	put(m, IFLA_VF_TRUST, &(struct ifla_vf_trust){ vf, 1 }, sizeof(struct ifla_vf_trust));
	put(m, IFLA_VF_IB_NODE_GUID, &guid, sizeof(guid));
	put(m, IFLA_VF_IB_PORT_GUID, &guid, sizeof(guid));
	list = put(m, IFLA_VF_VLAN_LIST, NULL, 0);
	if (protocol)
		put(m, IFLA_VF_VLAN_INFO, &(struct ifla_vf_vlan_info){ vf, 100, 3, htons(protocol) }, sizeof(struct ifla_vf_vlan_info));
	end(m, list);
	end(m, info);
}

static struct message link_message(unsigned short type, uint32_t spoof, uint16_t protocol)
{
	struct message m = { .len = NLMSG_SPACE(sizeof(struct ifinfomsg)) };
	struct nlmsghdr h = { .nlmsg_type = RTM_NEWLINK };
	struct ifinfomsg link = { .ifi_type = type };
	size_t list;

	memcpy(m.bytes + NLMSG_LENGTH(0), &link, sizeof(link));
	put(&m, IFLA_IFNAME, "ens1f0", 7);
	list = put(&m, IFLA_VFINFO_LIST | NLA_F_NESTED, NULL, 0);
	for (uint32_t vf = 0; vf < 3; vf++)
		put_vf(&m, vf, spoof, protocol);
	end(&m, list);
	put(&m, IFLA_MTU, &(uint32_t){ 1500 }, 4);
	h.nlmsg_len = (uint32_t)m.len;
	memcpy(m.bytes, &h, sizeof(h));
	return m;
}

static void assert_settings(const struct message *m, unsigned index, const char *text)
{
	struct plan_vf_settings s = { 0 };
	char out[PLAN_VF_TEXT_MAX];

	assert_int_equal(rtnl_vf_parse(&s, m->bytes, m->len, index), 0);
	assert_string_equal(plan_vf_text(out, &s), text);
}

static void messages(void **state)
{
	struct message ethernet = link_message(1, 1, 0x88a8), old = link_message(1, UINT32_MAX, 0), ib = link_message(32, UINT32_MAX, 0x8100);
	struct plan_vf_settings s;

	(void)state;
	assert_settings(&ethernet, 2, "mac=02:00:00:12:34:02 vlan=100 qos=3 vlan_protocol=802.1ad trust=on spoof_check=on min_rate=10 "
				      "max_rate=1000 link_state=down");
	/* no list of VLANs, and a driver without spoof check */
	assert_settings(&old, 0, "mac=02:00:00:12:34:00 vlan=100 qos=3 trust=on min_rate=10 max_rate=1000 link_state=down");
	assert_settings(&ib, 1, "link_state=down node_guid=02:00:00:00:00:00:00:01 port_guid=02:00:00:00:00:00:00:01");
	assert_int_equal(rtnl_vf_parse(&s, ethernet.bytes, ethernet.len, 3), -ENODEV);
}

/* Each byte bent, each length cut: never a read beyond the message (sanitizers see it), and an answer or an error. */
static void bent_messages(void **state)
{
	const struct message whole = link_message(1, 1, 0x8100);
	struct plan_vf_settings s;

	(void)state;
	for (size_t len = 0; len < whole.len; len++) {
		char *copy = malloc(len + 1);
		int r;

		memcpy(copy, whole.bytes, len);
		if (len >= sizeof(struct nlmsghdr))
			((struct nlmsghdr *)copy)->nlmsg_len = (uint32_t)len;
		r = rtnl_vf_parse(&s, copy, len, 0);
		assert_true(r == 0 || r == -ENODEV || r == -EBADMSG);
		free(copy);
	}
	for (size_t i = 0; i < 8 * whole.len; i++) {
		struct message m = whole;
		char *copy = malloc(m.len);
		int r;

		m.bytes[i / 8] ^= (char)(1 << i % 8);
		memcpy(copy, m.bytes, m.len);
		r = rtnl_vf_parse(&s, copy, m.len, 2);
		assert_true(r == 0 || r == -ENODEV || r == -EBADMSG);
		free(copy);
	}
}

/* The kernel answers for an interface without VFs, and its errno comes back as it is. */
static void loopback(void **state)
{
	struct plan_vf_settings s = { .has = PLAN_VF_BIT(PLAN_VF_TRUST) };
	struct error err = ERROR_INIT;
	int lo = (int)if_nametoindex("lo"), wanted = geteuid() ? -EPERM : -EOPNOTSUPP;

	(void)state;
	assert_true(lo > 0);
	assert_int_equal(rtnl_vf_set(lo, 0, &s, &err), wanted);
	assert_non_null(strstr(err.text, strerror(-wanted)));
	assert_int_equal(rtnl_vf_read(&s, lo, 0, &err), -ENODEV);
	assert_int_equal(rtnl_vf_read(&s, 0x7ffffff0, 0, &err), -ENODEV); /* no such interface */
}

/* ---- netdevsim ------------------------------------------------------------------------------------------ */

#define SIM "/sys/bus/netdevsim"

static bool tell(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);

	if (fd >= 0)
		(void)close(fd);
	return good;
}

static int interface_of(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int index = 0;

	while (d && !index && (e = readdir(d)))
		if (e->d_name[0] != '.')
			index = (int)if_nametoindex(e->d_name);
	if (d)
		(void)closedir(d);
	return index;
}

static void assert_set(int ifindex, const char *text)
{
	struct plan_vf_settings want, now = { 0 };
	struct error err = ERROR_INIT;

	assert_int_equal(plan_vf_parse(&want, text, &err), 0);
	if (rtnl_vf_set(ifindex, 1, &want, &err) < 0 || rtnl_vf_read(&now, ifindex, 1, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_int_equal(plan_vf_changes(&now, &want), 0);
	assert_int_equal(want.has & ~now.has, 0);
}

static void netdevsim(void **state)
{
	static const char *const sets[] = {
		"mac=02:00:00:12:34:56", "vlan=100 qos=3 vlan_protocol=802.1Q", "vlan=7 qos=0 vlan_protocol=802.1ad", "trust=on", "trust=off",
		"spoof_check=on", "spoof_check=off", "min_rate=10 max_rate=1000", "link_state=up", "link_state=auto",
	};
	int ifindex;

	(void)state;
	if (geteuid() || !tell(SIM "/new_device", "4711 1")) {
		print_message("# not tested: %s\n", geteuid() ? "netdevsim needs root" : "this kernel has no netdevsim (modprobe netdevsim)");
		skip();
	}
	ifindex = interface_of(SIM "/devices/netdevsim4711/net");
	if (!ifindex || !tell(SIM "/devices/netdevsim4711/sriov_numvfs", "2"))
		fail_msg("netdevsim has no interface or no VFs");
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		assert_set(ifindex, sets[i]);
	assert_true(tell(SIM "/del_device", "4711"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test(bent_messages),
		cmocka_unit_test(loopback),
		cmocka_unit_test(netdevsim),
	};

	return cmocka_run_group_tests_name("vf settings", tests, NULL, NULL);
}
