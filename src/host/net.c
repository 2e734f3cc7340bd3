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
bool host_is_representor(const char *port_name)
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

/* What a link event may have changed. carrier and speed answer EINVAL while the interface is down
 * (net/core/net-sysfs.c): unknown. */
static void read_link(struct net_reader *rd, struct host_netdev *nd)
{
	uint64_t carrier = 0;

	nd->operstate = net_text(rd, nd->name, "operstate");
	nd->mtu = net_uint(rd, nd->name, "mtu");
	nd->speed_mbps = net_uint(rd, nd->name, "speed"); /* -1: not known, so 0 */
	nd->carrier = -1;
	if (host_read_uint(rd->root, &carrier, 10, 1, "%s/net/%s/carrier", rd->dir, nd->name) == 0)
		nd->carrier = (int)carrier;
}

static int read_netdev(struct net_reader *rd, struct host_netdev *ret, const char *name, const char *port_name)
{
	*ret = (struct host_netdev){
		.name = name,
		.mac = read_mac(rd, name),
		.port_name = port_name,
		.switch_id = net_text(rd, name, "phys_switch_id"),
	};
	read_link(rd, ret);
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
		if (host_is_representor(port_name))
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

static void read_port(struct net_reader *rd, const char *name, struct host_rdma_port *p)
{
	p->state = port_state(rd, name, p->number, "state");
	p->phys_state = port_state(rd, name, p->number, "phys_state");
	p->rate = host_text_read(rd->inv, rd->root, "%s/infiniband/%s/ports/%u/rate", rd->dir, name, p->number);
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
		dev->port[dev->nports] = (struct host_rdma_port){
			.number = (unsigned)n,
			.link_layer = host_text_read(rd->inv, rd->root, "%s/infiniband/%s/ports/%u/link_layer", rd->dir,
						     dev->name, (unsigned)n),
		};
		read_port(rd, dev->name, &dev->port[dev->nports++]);
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

static int read_nic(struct net_reader *rd, const struct host_function *fn, struct host_nic *nic)
{
	int r;

	(void)host_function_dir(rd->dir, fn);
	r = read_netdevs(rd, nic);
	if (r == 0)
		r = read_rdma(rd, nic);
	read_firmware(rd, nic);
	return r;
}

int host_net_read(struct inventory *inv, struct host_root *root, struct answers *answers)
{
	struct net_reader rd = { .inv = inv, .root = root, .answers = answers };
	struct host_system *s = &inv->system;
	size_t n = count_nics(inv);
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
	for (size_t i = 0, k = 0; i < inv->nfn && r == 0; i++)
		if (inv->fn[i].facts->kind == HOST_NIC)
			r = read_nic(&rd, &inv->fn[i], &s->nic[k++]);
	return r;
}

int host_net_one(struct inventory *inv, struct host_root *root, const struct host_function *fn, struct host_nic *nic)
{
	struct answers answers;
	struct net_reader rd = { .inv = inv, .root = root, .answers = &answers };
	int r = answers_init(&answers, root);

	*nic = (struct host_nic){ .bdf = fn->bdf };
	if (r == 0)
		r = ask(&rd, nic, 1);
	if (r == 0)
		r = read_nic(&rd, fn, nic);
	answers_done(&answers);
	return r;
}

/* ---- after a link event ---------------------------------------------------------------------------- */

static bool listed(const struct host_names *names, const char *name)
{
	size_t i = 0;

	while (i < names->n && strcmp(names->name[i], name) != 0)
		i++;
	return i < names->n;
}

/* Whether the interfaces are those of before; VFs' representors are counted, as ever. */
static bool same_devices(struct net_reader *rd, const struct host_nic *nic)
{
	struct host_names net = { 0 }, rdma = { 0 };
	bool same;

	(void)host_list(rd->root, &net, &rd->inv->arena, "%s/net", rd->dir);
	(void)host_list(rd->root, &rdma, &rd->inv->arena, "%s/infiniband", rd->dir);
	same = net.n == nic->nnetdevs + nic->nrepresentors && rdma.n == nic->nrdma;
	for (size_t i = 0; same && i < nic->nnetdevs; i++)
		same = listed(&net, nic->netdev[i].name);
	for (size_t i = 0; same && i < nic->nrdma; i++)
		same = listed(&rdma, nic->rdma[i].name);
	return same;
}

static void *copy(struct inventory *inv, const void *from, size_t n, size_t size)
{
	void *to = arena_array(&inv->arena, n, size);

	if (to && n)
		memcpy(to, from, n * size);
	return to;
}

int host_net_links(struct inventory *inv, struct host_root *root, const struct host_function *fn, struct host_nic *nic)
{
	struct net_reader rd = { .inv = inv, .root = root };

	(void)host_function_dir(rd.dir, fn);
	if (!same_devices(&rd, nic))
		return 0;
	nic->netdev = copy(inv, nic->netdev, nic->nnetdevs, sizeof(*nic->netdev));
	nic->rdma = copy(inv, nic->rdma, nic->nrdma, sizeof(*nic->rdma));
	if (!nic->netdev || !nic->rdma)
		return -ENOMEM;
	for (size_t i = 0; i < nic->nnetdevs; i++)
		read_link(&rd, &nic->netdev[i]);
	for (size_t i = 0; i < nic->nrdma; i++) {
		struct host_rdma *dev = &nic->rdma[i];

		dev->port = copy(inv, dev->port, dev->nports, sizeof(*dev->port));
		if (!dev->port)
			return -ENOMEM;
		for (size_t k = 0; k < dev->nports; k++)
			read_port(&rd, dev->name, &dev->port[k]);
	}
	return 1;
}
