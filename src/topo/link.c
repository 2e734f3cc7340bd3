/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Links, and which of them are trained down.
 *
 * A link that has fewer lanes than both ends can do is a fault: a bad riser, retimer or slot. One that is only
 * slower may be idle: drivers lower the speed of a GPU's link to save power, so that a healthy GPU shows
 * 2.5 GT/s until it works. So speed alone is a finding on links between ports, of NICs and of NVMe drives, and
 * not on the link of a GPU, nor on those inside a GPU card that has a switch of its own (AMD: the same vendor
 * id above the GPU), nor of functions that nothing is known about. The topology shows it on every link. */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "host/inventory.h"
#include "topo/path.h"

static uint8_t lesser(uint8_t a, uint8_t b) /* 0 is unknown */
{
	return !a || (b && b < a) ? b : a;
}

static uint8_t both(uint8_t a, uint8_t b)
{
	return a && b ? lesser(a, b) : 0;
}

/* Where config space is for root only, whatever is no switch's top is taken for a port: the rest of the tree
 * has been told apart by shape already (topo.c). A bridge to conventional PCI has its link above, not below. */
static bool has_link_below(const struct topo_node *upper)
{
	const struct host_facts *f = upper->fn->facts;

	return f->kind == HOST_ROOT_PORT || f->kind == HOST_DSP || (f->kind == HOST_BRIDGE && f->cap.pcie == HOST_UNKNOWN);
}

bool topo_link_above(const struct topo *t, struct topo_link *ret, uint32_t i)
{
	const struct host_facts *f = topo_at(t, i)->fn->facts, *up;
	uint32_t pf = f->is_vf ? topo_find(t, f->pf) : TOPO_NONE; /* a VF's own read as zeros (9.3.5.3) */
	struct topo_link l = { .lower = pf == TOPO_NONE ? i : pf };

	l.upper = topo_at(t, l.lower)->parent;
	if (l.upper == TOPO_NONE || topo_at(t, l.lower)->usp == l.upper || !has_link_below(topo_at(t, l.upper)))
		return false;
	f = topo_at(t, l.lower)->fn->facts;
	up = topo_at(t, l.upper)->fn->facts;
	l.now.speed = lesser(up->link_now.speed, f->link_now.speed);
	l.now.width = lesser(up->link_now.width, f->link_now.width);
	l.most.speed = both(up->link_cap.speed, f->link_cap.speed);
	l.most.width = both(up->link_cap.width, f->link_cap.width);
	l.up = up->cap.link_up;
	*ret = l;
	return true;
}

enum host_known topo_link_up(const struct topo *t, uint32_t i)
{
	struct topo_link l;

	if (has_link_below(topo_at(t, i)))
		return topo_at(t, i)->fn->facts->cap.link_up;
	return topo_link_above(t, &l, i) ? l.up : HOST_UNKNOWN;
}

uint64_t topo_link_bandwidth(struct pcicap_link link)
{
	static const struct {
		uint64_t lane; /* MB/s on the wire */
		unsigned part, of;
	} speeds[] = {
		{ 0, 0, 1 }, { 312500, 8, 10 }, { 625000, 8, 10 }, { 1000000, 128, 130 }, { 2000000, 128, 130 },
		{ 4000000, 128, 130 }, { 8000000, 236, 256 },
	};

	if (link.speed >= ARRAY_SIZE(speeds))
		return 0;
	return speeds[link.speed].lane * 1000 * link.width * speeds[link.speed].part / speeds[link.speed].of;
}

/* Functions whose link above may be slow because a GPU is idle. */
static void mark_idle(const struct topo *t, bool *idle)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct host_facts *gpu = topo_at(t, i)->fn->facts;

		if (gpu->kind != HOST_GPU)
			continue;
		for (uint32_t at = i; at != TOPO_NONE && !idle[at]; at = topo_at(t, at)->parent) {
			if (topo_at(t, at)->fn->facts->vendor != gpu->vendor)
				break;
			idle[at] = true;
		}
	}
}

static bool slow_is_a_fault(const struct host_facts *lower, bool idle)
{
	return !idle && (host_kind_is_bridge(lower->kind) || lower->kind == HOST_NIC || lower->kind == HOST_NVME);
}

static int check(const struct topo *t, struct inventory *inv, const struct topo_link *l, bool idle)
{
	const struct host_function *lower = topo_at(t, l->lower)->fn;
	bool narrow = l->now.width && l->now.width < l->most.width;
	bool slow = l->now.speed && l->now.speed < l->most.speed && l->now.width;
	char name[BDF_TEXT_MAX];

	if (!narrow && !(slow && slow_is_a_fault(lower->facts, idle)))
		return 0;
	return host_finding_add(inv, narrow ? "pcie.link-width" : "pcie.link-speed", lower->bdf,
				"its link to %s runs at %s x%u, both ends can do %s x%u",
				bdf_text(name, topo_at(t, l->upper)->fn->bdf), pcicap_speed_text(l->now.speed), l->now.width,
				pcicap_speed_text(l->most.speed), l->most.width);
}

int topo_links_check(const struct topo *t, struct inventory *inv)
{
	autofree bool *idle = calloc(topo_count(t) + 1, sizeof(*idle));
	int r = 0;

	if (!idle)
		return -ENOMEM;
	mark_idle(t, idle);
	for (uint32_t i = 0; i < topo_count(t) && r == 0; i++) {
		uint32_t up = topo_at(t, i)->parent;
		struct topo_link l;

		/* once per link: by the first function below the port */
		if (up != TOPO_NONE && topo_at(t, up)->first_child == i && topo_link_above(t, &l, i))
			r = check(t, inv, &l, idle[l.lower]);
	}
	return r;
}
