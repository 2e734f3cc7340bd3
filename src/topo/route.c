/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A TLP climbs from its requester port by port. Each port it enters from below may refuse it (SV, TB), send it
 * on to the root (RR, CR, UF), or, where the target is below a sibling port, let it across. From there
 * downwards nothing stops it: ACS acts on TLPs that enter a port from below. */
#include "topo/route.h"

#include <string.h>

#include "base/auto.h"
#include "host/inventory.h"

#define NVIDIA 0x10de

struct walk {
	struct topo_route *ret;
	const struct topo *t;
	const uint16_t    *ctl;
	uint32_t           a, b;
	struct topo_tlp    tlp;
};

struct acs {
	enum host_known known;
	uint16_t        cap, ctl;
};

enum way { WAY_UP, WAY_ACROSS, WAY_END };

static const struct host_facts *facts_of(const struct walk *w, uint32_t i)
{
	return topo_at(w->t, i)->fn->facts;
}

static struct acs acs_of(const struct walk *w, uint32_t i)
{
	const struct pcicap_acs *acs = &facts_of(w, i)->cap.acs;

	return (struct acs){ acs->known, acs->cap, w->ctl ? w->ctl[i] : acs->ctl };
}

static void pass(struct walk *w, uint32_t node, enum topo_rule rule)
{
	struct topo_route *r = w->ret;

	if (r->nports < TOPO_ROUTE_PORTS)
		r->port[r->nports++] = (struct topo_route_port){ node, rule };
}

static enum way end(struct walk *w, enum topo_verdict verdict, enum topo_rule rule, uint32_t node)
{
	w->ret->verdict = verdict;
	w->ret->rule = rule;
	w->ret->decided = node;
	pass(w, node, rule);
	return WAY_END;
}

static enum way up(struct walk *w, enum topo_rule rule, uint32_t node)
{
	if (w->ret->rule == TOPO_RULE_PASS && rule != TOPO_RULE_PASS) { /* the first that sends it away decided */
		w->ret->rule = rule;
		w->ret->decided = node;
	}
	pass(w, node, rule);
	return WAY_UP;
}

static enum way across(struct walk *w, enum topo_rule rule, uint32_t node)
{
	(void)end(w, TOPO_DIRECT, rule, node);
	return WAY_ACROSS;
}

static bool below(const struct walk *w, uint32_t i, uint32_t bridge)
{
	while (i != TOPO_NONE && i != bridge)
		i = topo_at(w->t, i)->parent;
	return i == bridge;
}

/* Which child of `bridge` leads to b (or is b); TOPO_NONE. */
static uint32_t towards(const struct walk *w, uint32_t bridge)
{
	uint32_t i = w->b;

	while (i != TOPO_NONE && topo_at(w->t, i)->parent != bridge)
		i = topo_at(w->t, i)->parent;
	return i;
}

/* The ports below `top`, down to b. */
static void descend(struct walk *w, uint32_t top)
{
	uint32_t chain[TOPO_ROUTE_PORTS], i = topo_at(w->t, w->b)->parent;
	size_t n = 0;

	for (; i != TOPO_NONE && i != top && n < ARRAY_SIZE(chain); i = topo_at(w->t, i)->parent)
		chain[n++] = i;
	while (n--)
		pass(w, chain[n], TOPO_RULE_PASS);
}

/* RR is required of whatever routes to peers, so what has ACS without it does not; the kernel takes missing bits
 * for set, too (pci_acs_flags_enabled(), drivers/pci/pci.c). */
static bool no_p2p(const struct walk *w, struct acs acs)
{
	return acs.known == HOST_PRESENT && !(acs.cap & TOPO_ACS_RR) && !(w->tlp.translated && acs.ctl & TOPO_ACS_DT);
}

/* What the P2P bits of a port or a multi-function device do to a TLP for a peer (6.12.1, 6.12.3). EC with RR
 * would redirect what its vector names, and EC alone refuse it; the vector is not read. */
static enum way peer(struct walk *w, struct acs acs, uint32_t at)
{
	bool completion = w->tlp.type == TOPO_COMPLETION;

	if (no_p2p(w, acs))
		return up(w, TOPO_RULE_NO_P2P, at);
	if (completion && acs.ctl & TOPO_ACS_CR)
		return w->tlp.relaxed ? across(w, TOPO_RULE_RO, at) : up(w, TOPO_RULE_CR, at);
	if (completion)
		return across(w, TOPO_RULE_PLAIN, at);
	if (w->tlp.translated && acs.ctl & TOPO_ACS_DT)
		return across(w, TOPO_RULE_DT, at);
	if (acs.ctl & TOPO_ACS_EC)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_EC, at);
	return acs.ctl & TOPO_ACS_RR ? up(w, TOPO_RULE_RR, at) : across(w, TOPO_RULE_PLAIN, at);
}

/* ---- beside: a peer on the same bus that is no switch port -------------------------------------------- */

uint32_t topo_physical(const struct topo *t, uint32_t i)
{
	const struct host_facts *f = topo_at(t, i)->fn->facts;
	uint32_t pf = f->is_vf ? topo_find(t, f->pf) : i;

	return pf == TOPO_NONE ? i : pf;
}

/* VFs have no ACS of their own that counts here: the device is judged by its PF's. */
static enum way inside(struct walk *w, uint32_t from, uint32_t to)
{
	uint32_t at = topo_physical(w->t, from);
	struct acs acs = acs_of(w, at);

	if (acs.known == HOST_UNKNOWN)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_UNREAD, at);
	if (acs.known == HOST_ABSENT && at == topo_physical(w->t, to))
		return up(w, TOPO_RULE_VF_NEVER, at);
	if (acs.known == HOST_ABSENT)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_MF_NO_ACS, at);
	if (!(acs.cap & (TOPO_ACS_RR | TOPO_ACS_CR | TOPO_ACS_EC | TOPO_ACS_DT)))
		return up(w, TOPO_RULE_MF_NEVER, at);
	return peer(w, acs, at);
}

static bool is_pcie_port(const struct walk *w, uint32_t i)
{
	enum host_kind kind = facts_of(w, i)->kind;

	return kind == HOST_ROOT_PORT || kind == HOST_DSP;
}

static bool is_conventional(const struct walk *w, uint32_t bridge)
{
	const struct pcicap *cap = &facts_of(w, bridge)->cap;

	return cap->type == PCICAP_TO_PCI || cap->pcie == HOST_ABSENT;
}

static bool same_device(const struct walk *w, uint32_t a, uint32_t b)
{
	return bdf_same_device(topo_at(w->t, topo_physical(w->t, a))->fn->bdf, topo_at(w->t, topo_physical(w->t, b))->fn->bdf);
}

/* A link has one device at its end, and with ARI its device number means nothing. */
static enum way beside(struct walk *w, uint32_t c)
{
	uint32_t bridge = topo_at(w->t, c)->parent, other = towards(w, bridge);

	if (other == TOPO_NONE || other == c)
		return WAY_UP;
	if (bridge == TOPO_NONE)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_RCIEP, c);
	if (facts_of(w, bridge)->cap.pcie == HOST_UNKNOWN)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_UNREAD, bridge);
	if (is_conventional(w, bridge))
		return across(w, TOPO_RULE_BUS, bridge);
	if (is_pcie_port(w, bridge) || same_device(w, c, other))
		return inside(w, c, other);
	return end(w, TOPO_UNDECIDED, TOPO_RULE_SHAPE, c);
}

/* ---- ports ------------------------------------------------------------------------------------------- */

/* SV and TB, wherever a request enters from below. */
static enum topo_rule refusal(const struct walk *w, struct acs acs, uint32_t port)
{
	const struct pcicap *cap = &facts_of(w, port)->cap;
	uint8_t bus = topo_at(w->t, w->a)->fn->bdf.bus;

	if (w->tlp.type == TOPO_COMPLETION || acs.known != HOST_PRESENT)
		return TOPO_RULE_PASS;
	if (acs.ctl & TOPO_ACS_SV && (bus < cap->secondary || bus > cap->subordinate))
		return TOPO_RULE_SV;
	return w->tlp.translated && acs.ctl & TOPO_ACS_TB ? TOPO_RULE_TB : TOPO_RULE_PASS;
}

/* Whether a root complex passes requests between its ports, as the kernel judges it for P2PDMA
 * (drivers/pci/p2pdma.c: cpu_supports_p2pdma() has AMD since Zen, the host bridge table the Xeons since
 * Skylake). For Grace, whose root ports are NVIDIA's, NVIDIA's rules build on it (rdma-core, rdma_topo). */
static bool platform_known(const struct walk *w, uint32_t port)
{
	static const char *const xeons[] = { "Platinum", "Gold", "Silver", "Bronze", "Xeon(R) 6", "Max 9" };
	const char *model = topo_inventory(w->t)->cpu_model;

	if (facts_of(w, port)->vendor == NVIDIA || strstr(model, "EPYC") || strstr(model, "Ryzen"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(xeons); i++) /* Emerald Rapids says INTEL(R) XEON(R) PLATINUM */
		if (strcasestr(model, "Xeon(R)") && strcasestr(model, xeons[i]))
			return true;
	return false;
}

/* Sent to the root complex; it comes back down, if that does such things. */
static enum way reflect(struct walk *w, uint32_t port, enum topo_rule rule)
{
	w->ret->iommu = true;
	if (!platform_known(w, port))
		return end(w, TOPO_UNDECIDED, TOPO_RULE_PLATFORM, port);
	(void)up(w, rule, port);
	w->ret->verdict = TOPO_REDIRECTED;
	w->ret->turn = port;
	descend(w, rule == TOPO_RULE_TURN ? port : TOPO_NONE);
	return WAY_END;
}

/* To another root port. Between root ports that redirect nothing, the root complex may do as it likes. */
static enum way cross_root(struct walk *w, struct acs acs, uint32_t port)
{
	bool completion = w->tlp.type == TOPO_COMPLETION;
	bool straight = completion ? !(acs.ctl & TOPO_ACS_CR) || w->tlp.relaxed : w->tlp.translated && acs.ctl & TOPO_ACS_DT;

	if (!is_pcie_port(w, towards(w, TOPO_NONE)))
		return end(w, TOPO_UNDECIDED, TOPO_RULE_RCIEP, port);
	if (acs.known == HOST_ABSENT)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_ROOT_OPEN, port);
	if (no_p2p(w, acs))
		return reflect(w, port, TOPO_RULE_NO_P2P);
	if (straight && !platform_known(w, port))
		return end(w, TOPO_UNDECIDED, TOPO_RULE_PLATFORM, port);
	if (straight) {
		(void)peer(w, acs, port);
		descend(w, TOPO_NONE);
		return WAY_END;
	}
	if (!completion && acs.ctl & TOPO_ACS_EC)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_EC, port);
	if (!completion && !(acs.ctl & TOPO_ACS_RR))
		return end(w, TOPO_UNDECIDED, TOPO_RULE_ROOT_OPEN, port);
	return reflect(w, port, completion ? TOPO_RULE_CR : TOPO_RULE_RR);
}

static enum way at_pcie_port(struct walk *w, uint32_t port)
{
	bool root = facts_of(w, port)->kind == HOST_ROOT_PORT;
	struct acs acs = acs_of(w, port);
	enum topo_rule no = refusal(w, acs, port);

	if (acs.known == HOST_UNKNOWN)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_UNREAD, port);
	if (no != TOPO_RULE_PASS)
		return end(w, TOPO_BLOCKED, no, port);
	if (below(w, w->b, port)) {
		if (acs.known != HOST_PRESENT || !(acs.ctl & TOPO_ACS_UF)) /* a root port may, of a switch it is an error */
			return end(w, root ? TOPO_UNDECIDED : TOPO_BLOCKED, TOPO_RULE_NO_UF, port);
		return root ? reflect(w, port, TOPO_RULE_TURN) : up(w, TOPO_RULE_UF, port);
	}
	if (root)
		return cross_root(w, acs, port);
	if (towards(w, topo_at(w->t, port)->parent) == TOPO_NONE)
		return up(w, TOPO_RULE_PASS, port);
	return acs.known == HOST_ABSENT ? across(w, TOPO_RULE_NO_ACS, port) : peer(w, acs, port);
}

static enum way at_port(struct walk *w, uint32_t port)
{
	if (is_pcie_port(w, port))
		return at_pcie_port(w, port);
	if (facts_of(w, port)->kind == HOST_USP || is_conventional(w, port))
		return up(w, TOPO_RULE_PASS, port);
	return end(w, TOPO_UNDECIDED, TOPO_RULE_UNREAD, port);
}

static void climb(struct walk *w)
{
	for (uint32_t c = w->a, port;; c = port) {
		enum way way = is_pcie_port(w, c) ? WAY_UP : beside(w, c);

		port = topo_at(w->t, c)->parent;
		if (way == WAY_ACROSS)
			descend(w, port);
		else if (way == WAY_UP && port == TOPO_NONE)
			way = end(w, TOPO_UNDECIDED, TOPO_RULE_RCIEP, c);
		if (way != WAY_UP)
			return;
		way = at_port(w, port);
		if (way == WAY_ACROSS)
			descend(w, topo_at(w->t, port)->parent);
		if (way != WAY_UP)
			return;
	}
}

static bool is_endpoint(const struct topo *t, uint32_t i)
{
	return !host_kind_is_bridge(topo_at(t, i)->fn->facts->kind);
}

void topo_route(struct topo_route *ret, const struct topo *t, const uint16_t *ctl, uint32_t a, uint32_t b,
		struct topo_tlp tlp)
{
	struct walk w = { .ret = ret, .t = t, .ctl = ctl, .a = a, .b = b, .tlp = tlp };

	*ret = (struct topo_route){ .verdict = TOPO_UNDECIDED, .rule = TOPO_RULE_SHAPE, .decided = TOPO_NONE, .turn = TOPO_NONE };
	if (a == b || !is_endpoint(t, a) || !is_endpoint(t, b))
		return;
	ret->rule = TOPO_RULE_PASS;
	climb(&w);
}

const char *topo_route_through(const struct topo_route *r, enum topo_class path)
{
	if (r->verdict == TOPO_BLOCKED || r->verdict == TOPO_UNDECIDED || path == TOPO_UNKNOWN)
		return NULL;
	if (r->verdict == TOPO_DIRECT && path <= TOPO_PXB)
		return "switch";
	return path == TOPO_SYS ? "sockets" : "root-complex";
}

const char *topo_verdict_text(enum topo_verdict v)
{
	static const char *const text[] = { "direct", "redirected", "blocked", "unknown" };

	return text[v];
}

static const struct {
	const char *id, *text;
} rules[TOPO_RULE_MAX_] = {
	[TOPO_RULE_PASS] = { "pass", "passes" },
	[TOPO_RULE_PLAIN] = { "plain", "goes straight across: no ACS bit turns it away" },
	[TOPO_RULE_NO_ACS] = { "no-acs", "goes straight across: the port has no ACS" },
	[TOPO_RULE_RO] = { "ro", "goes straight across: CR spares completions with Relaxed Ordering" },
	[TOPO_RULE_DT] = { "dt", "goes straight across: Direct Translated P2P lets translated requests through" },
	[TOPO_RULE_BUS] = { "bus", "reaches it on the same conventional PCI bus" },
	[TOPO_RULE_RR] = { "rr", "is sent up: P2P Request Redirect" },
	[TOPO_RULE_CR] = { "cr", "is sent up: P2P Completion Redirect, and it has no Relaxed Ordering" },
	[TOPO_RULE_NO_P2P] = { "no-p2p", "is sent up: the port's ACS has no Request Redirect, so it routes to no peer" },
	[TOPO_RULE_UF] = { "uf", "is forwarded up: Upstream Forwarding" },
	[TOPO_RULE_TURN] = { "turn", "turns round in the root complex, through the IOMMU" },
	[TOPO_RULE_SV] = { "sv", "is refused: Source Validation, the requester's bus is not below this port" },
	[TOPO_RULE_TB] = { "tb", "is refused: Translation Blocking" },
	[TOPO_RULE_NO_UF] = { "no-uf", "would have to go back the way it came, and Upstream Forwarding is off" },
	[TOPO_RULE_EC] = { "ec", "meets P2P Egress Control, whose vector velad does not read" },
	[TOPO_RULE_ROOT_OPEN] = { "root-open", "reaches a root port that redirects nothing; what the root complex does is not specified" },
	[TOPO_RULE_PLATFORM] = { "platform", "reaches the root complex; whether this one passes peer requests is not known" },
	[TOPO_RULE_RCIEP] = { "rciep", "moves inside the root complex, where no rule is specified" },
	[TOPO_RULE_MF_NO_ACS] = { "mf-no-acs", "may be routed inside the multi-function device, which has no ACS" },
	[TOPO_RULE_UNREAD] = { "unread", "meets a port whose ACS cannot be read (read as root)" },
	[TOPO_RULE_SHAPE] = { "shape", "is between things that are not two endpoints of one PCIe tree" },
	[TOPO_RULE_ATS] = { "ats", "depends on ATS, which cannot be read (read as root)" },
	[TOPO_RULE_MF_NEVER] = { "mf-never", "leaves the device: its ACS says that it never routes between its functions" },
	[TOPO_RULE_VF_NEVER] = { "vf-never", "leaves the device: without ACS it does not route between its VFs" },
};

const char *topo_rule_id(enum topo_rule r)
{
	return rules[r].id;
}

const char *topo_rule_text(enum topo_rule r)
{
	return rules[r].text;
}
