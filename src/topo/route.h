/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* topo/route — where a transaction between two functions really goes, walked port by port under given ACS
 * bits as the PCIe Base Specification 6.0, section 6.12, says. Pure. An ACS capability that cannot be read
 * or is not there is never taken for isolation, nor for a direct path where the rules leave it open. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo/topo.h"

/* ACS control and capability bits (7.7.11) */
#define TOPO_ACS_SV 0x01 /* Source Validation */
#define TOPO_ACS_TB 0x02 /* Translation Blocking */
#define TOPO_ACS_RR 0x04 /* P2P Request Redirect */
#define TOPO_ACS_CR 0x08 /* P2P Completion Redirect */
#define TOPO_ACS_UF 0x10 /* Upstream Forwarding */
#define TOPO_ACS_EC 0x20 /* P2P Egress Control */
#define TOPO_ACS_DT 0x40 /* Direct Translated P2P */

enum topo_tlp_type { TOPO_WRITE, TOPO_READ, TOPO_COMPLETION };

struct topo_tlp {
	enum topo_tlp_type type;
	bool translated; /* the address came from ATS (AT = 10b); not of completions */
	bool relaxed;    /* of completions: with the Relaxed Ordering attribute */
};

enum topo_verdict {
	TOPO_DIRECT,     /* stays below the root complex, or goes between root ports untouched */
	TOPO_REDIRECTED, /* up to the root complex and its IOMMU, and from there to the target */
	TOPO_BLOCKED,    /* a port refuses it */
	TOPO_UNDECIDED,  /* not known: see the rule */
};

enum topo_rule {
	TOPO_RULE_PASS,       /* nothing is decided here */
	TOPO_RULE_PLAIN,      /* direct: no bit turns it away */
	TOPO_RULE_NO_ACS,     /* direct: the port has no ACS */
	TOPO_RULE_RO,         /* direct although CR is set: a completion with Relaxed Ordering */
	TOPO_RULE_DT,         /* direct whatever RR and EC say: a translated request */
	TOPO_RULE_BUS,        /* direct: one conventional PCI bus, everybody hears everything */
	TOPO_RULE_RR,         /* redirected: a request */
	TOPO_RULE_CR,         /* redirected: a completion without Relaxed Ordering */
	TOPO_RULE_NO_P2P,     /* redirected: its ACS has no RR, so it routes to no peer port at all (6.12.1.1) */
	TOPO_RULE_UF,         /* forwarded up, as it would leave by the port that it came through */
	TOPO_RULE_TURN,       /* the root port turns it round */
	TOPO_RULE_SV,         /* blocked: the requester's bus is not below the port */
	TOPO_RULE_TB,         /* blocked: a translated request */
	TOPO_RULE_NO_UF,      /* it would leave by the port that it came through: blocked by a switch, unknown of a root port */
	TOPO_RULE_EC,         /* blocked: egress control names what it would leave by */
	TOPO_RULE_EC_OPEN,    /* direct whatever RR says: egress control does not name what it would leave by */
	TOPO_RULE_EC_UNREAD,  /* unknown: egress control is on, and what it says of this peer cannot be read */
	TOPO_RULE_ROOT_OPEN,  /* unknown: between root ports that redirect nothing */
	TOPO_RULE_PLATFORM,   /* unknown: whether this root complex passes peer requests */
	TOPO_RULE_RCIEP,      /* unknown: inside the root complex */
	TOPO_RULE_MF_NO_ACS,  /* unknown: a multi-function device without ACS may route between its functions */
	TOPO_RULE_UNREAD,     /* unknown: the port's config space or ACS cannot be read */
	TOPO_RULE_SHAPE,      /* unknown: not two endpoints, or no shape that PCIe has */
	TOPO_RULE_ATS,        /* unknown: whether the NIC's requests are translated (topo/gdr) */
	TOPO_RULE_MF_NEVER,   /* leaves the device: its ACS has no peer-to-peer bits (6.12.1.2) */
	TOPO_RULE_VF_NEVER,   /* leaves the device: with VFs, without ACS; it must have ACS to route between them */
	TOPO_RULE_MAX_,
};

#define TOPO_ROUTE_PORTS 64

struct topo_route_port {
	uint32_t       node;
	enum topo_rule rule;
};

struct topo_route {
	enum topo_verdict verdict;
	enum topo_rule    rule;    /* what decided */
	uint32_t          decided; /* the port, or the function of a multi-function device, that did; TOPO_NONE */
	uint32_t          turn;    /* redirected: the root port it turns round at; else TOPO_NONE */
	bool              iommu;   /* it reaches the root complex, where an IOMMU sees it, whatever becomes of it there */
	struct topo_route_port port[TOPO_ROUTE_PORTS]; /* passed, in order, as far as it is known to come */
	size_t            nports;
};

/* From function a to function b. ctl: ACS control words by node, instead of those read; NULL: those read. */
void topo_route(struct topo_route *ret, const struct topo *t, const uint16_t *ctl, uint32_t a, uint32_t b,
		struct topo_tlp tlp);

/* The function whose ACS and ATS capabilities count: of a VF its PF, else itself. */
uint32_t topo_physical(const struct topo *t, uint32_t i);

/* What a TLP from a to b with this route crosses at worst: "switch", "root-complex", "sockets"; NULL: not known, or blocked. */
const char *topo_route_through(const struct topo_route *r, const struct topo *t, uint32_t a, uint32_t b);
/* What the narrowest link that it really passes carries (topo/path.h); 0: not known, or blocked. */
uint64_t topo_route_bandwidth(const struct topo_route *r, const struct topo *t, uint32_t a, uint32_t b);
const char *topo_verdict_text(enum topo_verdict v); /* "direct", "redirected", "blocked", "unknown" */
const char *topo_rule_id(enum topo_rule r);         /* "rr", "dt", ... as in JSON */
const char *topo_rule_text(enum topo_rule r);       /* a clause for people */
