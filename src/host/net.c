/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads each NIC as the network stack (Documentation/ABI/testing/sysfs-class-net) and the RDMA stack
 * (Documentation/ABI/stable/sysfs-class-infiniband) show it below its PCI function, and what devlink and lldpd
 * answered. In switchdev mode the netdevs of all VFs sit below the PF too; they are counted, not read. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "host/answer.h"
#include "host/read.h"

#define PORTS_MAX 256 /* an RDMA port number is one byte, or 0 of a switch (IBA 1.2.1 14.2.5.6) */

struct net_reader {
	struct inventory *inv;
	struct host_root *root;
	struct answers *answers;
	char dir[HOST_PATH_MAX]; /* the function's */
};

/* ---- the network stack ---------------------------------------------------------------------------- */

/* "pf0vf3", "pf0sf88", and "c1pf0vf3" of a SmartNIC's host: a VF's or SF's representor (net/core/devlink.c
 * __devlink_port_phys_port_name_get()); the uplink has "p0". */
static bool is_representor(const char *port_name)
{
	const char *p = port_name;

	if (*p == 'c')
		p += 1 + strspn(p + 1, "0123456789");
	return strncmp(p, "pf", 2) == 0 && isdigit((unsigned char)p[2]);
}

static const char *net_text(struct net_reader *rd, const char *name, const char *file)
{
	return host_text_read(rd->inv, rd->root, "%s/net/%s/%s", rd->dir, name, file);
}

static uint32_t net_uint(struct net_reader *rd, const char *name, const char *file)
{
	uint64_t v = 0;

	return host_read_uint(rd->root, &v, 10, INT32_MAX, "%s/net/%s/%s", rd->dir, name, file) == 0 ? (uint32_t)v : 0;
}

/* Pairs of hex digits with colons between them; 6 of Ethernet, 20 of InfiniBand. */
static const char *read_mac(struct net_reader *rd, const char *name)
{
	const char *mac = net_text(rd, name, "address");
	size_t i = 0;

	for (; mac[i]; i++)
		if (i % 3 == 2 ? mac[i] != ':' : !isxdigit((unsigned char)mac[i]))
			return "";
	return i == 17 || i == 59 ? mac : "";
}

static const char *answer_text(struct net_reader *rd, const char *dir, const char *of, const char *name)
{
	char *text = NULL;

	return answer_read(rd->answers, &text, &rd->inv->arena, "answers/%s/%s/%s", dir, of, name) == 0
		       ? host_text(rd->inv, text)
		       : "";
}

/* Chassis and port id are mandatory (IEEE 802.1AB 8.2): without the first nobody was heard. */
static int read_neighbour(struct net_reader *rd, struct host_netdev *nd)
{
	const char *id = answer_text(rd, "lldp", nd->name, "chassis-id");

	if (!*id)
		return 0;
	nd->neighbour = arena_alloc(&rd->inv->arena, sizeof(*nd->neighbour));
	if (!nd->neighbour)
		return -ENOMEM;
	*nd->neighbour = (struct host_neighbour){
		.chassis_id = id,
		.chassis_name = answer_text(rd, "lldp", nd->name, "chassis-name"),
		.port_id = answer_text(rd, "lldp", nd->name, "port-id"),
		.port_descr = answer_text(rd, "lldp", nd->name, "port-descr"),
	};
	return 0;
}

/* carrier and speed answer EINVAL while the interface is down (net/core/net-sysfs.c): unknown. */
static int read_netdev(struct net_reader *rd, struct host_netdev *ret, const char *name, const char *port_name)
{
	uint64_t carrier = 0;

	*ret = (struct host_netdev){
		.name = name,
		.mac = read_mac(rd, name),
		.operstate = net_text(rd, name, "operstate"),
		.port_name = port_name,
		.switch_id = net_text(rd, name, "phys_switch_id"),
		.carrier = -1,
		.mtu = net_uint(rd, name, "mtu"),
		.speed_mbps = net_uint(rd, name, "speed"), /* -1: not known, so 0 */
	};
	if (host_read_uint(rd->root, &carrier, 10, 1, "%s/net/%s/carrier", rd->dir, name) == 0)
		ret->carrier = (int)carrier;
	return read_neighbour(rd, ret);
}

static int read_netdevs(struct net_reader *rd, struct host_nic *nic)
{
	struct host_names names;
	int r = 0;

	if (host_list(rd->root, &names, &rd->inv->arena, "%s/net", rd->dir) < 0 || !names.n)
		return 0;
	nic->netdev = arena_array(&rd->inv->arena, names.n, sizeof(*nic->netdev));
	if (!nic->netdev)
		return -ENOMEM;
	for (size_t i = 0; i < names.n && r == 0; i++) {
		const char *name = host_text(rd->inv, names.name[i]),
			   *port_name = net_text(rd, names.name[i], "phys_port_name");

		if (!*name)
			continue;
		if (is_representor(port_name))
			nic->nrepresentors++;
		else
			r = read_netdev(rd, &nic->netdev[nic->nnetdevs++], name, port_name);
	}
	return r;
}

/* ---- the RDMA stack ------------------------------------------------------------------------------- */

static const char *rdma_text(struct net_reader *rd, const char *name, const char *file)
{
	return host_text_read(rd->inv, rd->root, "%s/infiniband/%s/%s", rd->dir, name, file);
}

/* "4: ACTIVE", "5: LinkUp" (drivers/infiniband/core/sysfs.c): the number is the same thing again. */
static const char *port_state(struct net_reader *rd, const char *name, unsigned port, const char *file)
{
	const char *text = host_text_read(rd->inv, rd->root, "%s/infiniband/%s/ports/%u/%s", rd->dir, name, port, file);
	size_t n = strspn(text, "0123456789");

	return n && text[n] == ':' && text[n + 1] == ' ' ? text + n + 2 : "";
}

static int read_ports(struct net_reader *rd, struct host_rdma *dev)
{
	struct host_names names;

	if (host_list(rd->root, &names, &rd->inv->arena, "%s/infiniband/%s/ports", rd->dir, dev->name) < 0 || !names.n)
		return 0;
	dev->port = arena_array(&rd->inv->arena, names.n, sizeof(*dev->port));
	if (!dev->port)
		return -ENOMEM;
	for (size_t i = 0; i < names.n; i++) {
		uint64_t n = 0;

		if (parse_uint(&n, names.name[i], 10, PORTS_MAX - 1) < 0)
			continue;
		dev->port[dev->nports++] = (struct host_rdma_port){
			.number = (unsigned)n,
			.state = port_state(rd, dev->name, (unsigned)n, "state"),
			.phys_state = port_state(rd, dev->name, (unsigned)n, "phys_state"),
			.rate = host_text_read(rd->inv, rd->root, "%s/infiniband/%s/ports/%u/rate", rd->dir, dev->name,
					       (unsigned)n),
			.link_layer = host_text_read(rd->inv, rd->root, "%s/infiniband/%s/ports/%u/link_layer", rd->dir,
						     dev->name, (unsigned)n),
		};
	}
	return 0;
}

/* "b83f:d203:00aa:bbcc"; all zero: the driver has none. */
static const char *read_guid(struct net_reader *rd, const char *name, const char *file)
{
	const char *guid = rdma_text(rd, name, file);
	size_t i = 0;

	for (; guid[i]; i++)
		if (i % 5 == 4 ? guid[i] != ':' : !isxdigit((unsigned char)guid[i]))
			return "";
	return i == 19 && strspn(guid, "0:") != 19 ? guid : "";
}

static int read_rdma(struct net_reader *rd, struct host_nic *nic)
{
	struct host_names names;
	int r = 0;

	if (host_list(rd->root, &names, &rd->inv->arena, "%s/infiniband", rd->dir) < 0 || !names.n)
		return 0;
	nic->rdma = arena_array(&rd->inv->arena, names.n, sizeof(*nic->rdma));
	if (!nic->rdma)
		return -ENOMEM;
	for (size_t i = 0; i < names.n && r == 0; i++) {
		struct host_rdma *dev = &nic->rdma[nic->nrdma];

		dev->name = host_text(rd->inv, names.name[i]);
		if (!*dev->name)
			continue;
		nic->nrdma++;
		dev->node_guid = read_guid(rd, dev->name, "node_guid");
		dev->image_guid = read_guid(rd, dev->name, "sys_image_guid");
		dev->firmware = rdma_text(rd, dev->name, "fw_ver");
		dev->type = rdma_text(rd, dev->name, "hca_type");
		dev->board = rdma_text(rd, dev->name, "board_id");
		r = read_ports(rd, dev);
	}
	return r;
}

/* ---- all of it ------------------------------------------------------------------------------------ */

/* Names of versions: Documentation/networking/devlink/devlink-info.rst; ice has only fw.mgmt. */
static void read_firmware(struct net_reader *rd, struct host_nic *nic)
{
	static const char *const names[] = { "fw", "fw.version", "fw.mgmt" };
	static const char dir[] = "devlink/pci";
	char name[BDF_TEXT_MAX], file[32];

	nic->fw_running = nic->fw_stored = nic->fw_psid = "";
	(void)bdf_text(name, nic->bdf);
	if (!*answer_text(rd, dir, name, "driver"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names) && !*nic->fw_running; i++) {
		(void)snprintf(file, sizeof(file), "running/%s", names[i]);
		nic->fw_running = answer_text(rd, dir, name, file);
		(void)snprintf(file, sizeof(file), "stored/%s", names[i]);
		if (*nic->fw_running)
			nic->fw_stored = answer_text(rd, dir, name, file);
	}
	nic->fw_psid = answer_text(rd, dir, name, "fixed/fw.psid");
}

static size_t count_nics(const struct inventory *inv)
{
	size_t n = 0;

	for (size_t i = 0; i < inv->nfn; i++)
		n += inv->fn[i].facts->kind == HOST_NIC;
	return n;
}

static int ask(struct net_reader *rd, const struct host_nic *nic, size_t n)
{
	struct bdf *bdf = arena_array(&rd->inv->arena, n, sizeof(*bdf));

	if (!bdf)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		bdf[i] = nic[i].bdf;
	if (rd->answers->text) {
		devlink_ask(rd->answers, bdf, n);
		lldp_ask(rd->answers, LLDPD_SOCKET);
	}
	return 0;
}

int host_net_read(struct inventory *inv, struct host_root *root, struct answers *answers)
{
	struct net_reader rd = { .inv = inv, .root = root, .answers = answers };
	struct host_system *s = &inv->system;
	size_t n = count_nics(inv);
	char name[BDF_TEXT_MAX];
	int r = 0;

	if (!n)
		return 0;
	s->nic = arena_array(&inv->arena, n, sizeof(*s->nic));
	if (!s->nic)
		return -ENOMEM;
	for (size_t i = 0; i < inv->nfn; i++)
		if (inv->fn[i].facts->kind == HOST_NIC)
			s->nic[s->nnics++].bdf = inv->fn[i].bdf;
	r = ask(&rd, s->nic, s->nnics);
	for (size_t i = 0, k = 0; i < inv->nfn && r == 0; i++) {
		if (inv->fn[i].facts->kind != HOST_NIC)
			continue;
		(void)snprintf(rd.dir, sizeof(rd.dir), "%s/%s", inv->fn[i].facts->dir, bdf_text(name, inv->fn[i].bdf));
		r = read_netdevs(&rd, &s->nic[k]);
		if (r == 0)
			r = read_rdma(&rd, &s->nic[k]);
		read_firmware(&rd, &s->nic[k++]);
	}
	return r;
}
