/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/path — what lies between two functions: ports, host bridges, links and what these carry.
 *
 * Bandwidth is bytes per second in one direction, after line coding: 8b/10b at 2.5 and 5 GT/s, 128b/130b at 8
 * to 32 GT/s, and at 64 GT/s the 236 bytes of TLPs in each flit of 256 (PCIe 6.0, 4.2.1 to 4.2.3). Still in it:
 * TLP headers, and without flits DLLPs, framing and LCRC, so no transfer ever reaches it. A link in flit mode
 * below 64 GT/s, which LnkSta does not tell, carries 8 % less. 0 is unknown: root complexes and what joins
 * sockets have no register that says. */

#include "host/pcicap.h"
#include "topo/topo.h"

struct arena;
struct inventory;
struct json_object;

/* Both ends of one link: a root port or downstream port, and what is below it. */
struct topo_link {
	uint32_t           upper, lower; /* lower: of a VF its PF, which has the registers */
	struct pcicap_link now;          /* negotiated; where the ends differ, the lesser */
	struct pcicap_link most;         /* what both ends can do; 0 unless both say */
	enum host_known    up;           /* whether it is up, as the upper end says; a width of 0 says nothing */
};

/* The link right above function i; false: there is none (root bus, inside a switch, conventional PCI). */
bool     topo_link_above(const struct topo *t, struct topo_link *ret, uint32_t i);
/* Of the link whose speed and width function i has: of a port the one below it, else the one above. */
enum host_known topo_link_up(const struct topo *t, uint32_t i);
uint64_t topo_link_bandwidth(struct pcicap_link link);

enum topo_via {              /* how one hop reaches the next */
	TOPO_VIA_NONE,       /* it is the last one */
	TOPO_VIA_LINK,
	TOPO_VIA_SWITCH,     /* from port to port of one switch */
	TOPO_VIA_DEVICE,     /* two functions of one device */
	TOPO_VIA_BUS,        /* a bus that is no PCIe link */
	TOPO_VIA_ROOT,       /* inside a root complex */
	TOPO_VIA_NODES,      /* from NUMA node to NUMA node */
	TOPO_VIA_UNKNOWN,    /* a NUMA node or host bridge is not known */
	TOPO_VIA_MAX_,
};

struct topo_hop {
	uint32_t         node;     /* TOPO_NONE: a host bridge */
	const char      *root_bus; /* of a host bridge; "" unknown; borrowed */
	int              numa_node; /* -1 unknown */
	enum topo_via    via;
	struct topo_link link;     /* of TOPO_VIA_LINK */
};

struct topo_walk {
	enum topo_class  class;
	struct topo_hop *hop;       /* in the caller's arena */
	size_t           n;
	size_t           narrowest; /* the hop whose link has the least bandwidth; n: there is none */
	uint64_t         bandwidth; /* of that link; 0: no link on the way, or one that is not known */
	uint64_t         most;      /* had every link what both of its ends can do; 0: as above */
	bool             root;      /* through a root complex, which may carry less */
	int              distance;  /* SLIT, between the two NUMA nodes; 0 unknown */
};

/* -ENOMEM */
int topo_path_walk(struct topo_walk *ret, const struct topo *t, uint32_t a, uint32_t b, struct arena *arena);

/* The least that a link between two functions of different devices carries; through the root complex, if root, though a
 * bridge joins them below it. 0: as above. */
uint64_t topo_path_bandwidth(const struct topo *t, uint32_t a, uint32_t b, bool root);
/* Whether the NUMA nodes of two functions are of one socket: 1, 0; -1 unknown. */
int topo_same_socket(const struct topo *t, uint32_t a, uint32_t b);

/* docs/openapi.json, Path. -ENOENT: one of them is not on this host. */
int topo_path_json(struct json_object **ret, const struct topo *t, struct bdf a, struct bdf b, struct error *err);

/* src/topo/link.c, for topo_build(): links that run below what both ends can do become findings. -ENOMEM. */
int topo_links_check(const struct topo *t, struct inventory *inv);
