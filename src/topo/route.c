/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A TLP climbs from its requester port by port. Each port it enters from below may refuse it (SV, TB), send it
 * on to the root (RR, CR, UF), or, where the target is below a sibling port, let it across. From there
 * downwards nothing stops it: ACS acts on TLPs that enter a port from below. */
#include "topo/route.h"

#include <linux/pci_regs.h>
#include <string.h>

#include "base/auto.h"
#include "host/inventory.h"
#include "topo/path.h"

#define NVIDIA 0x10de
#define INTEL  0x8086

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

/* RR and EC together (6.12.3, table 6-11): with EC, RR redirects only what its vector names. */
static enum topo_rule untranslated(struct acs acs, enum host_known named)
{
	bool rr = acs.ctl & TOPO_ACS_RR;

	if (!(acs.ctl & TOPO_ACS_EC))
		return rr ? TOPO_RULE_RR : TOPO_RULE_PLAIN;
	if (named == HOST_PRESENT)
		return rr ? TOPO_RULE_RR : TOPO_RULE_EC;
	return named == HOST_ABSENT ? TOPO_RULE_EC_OPEN : TOPO_RULE_EC_UNREAD;
}

/* What the P2P bits of a port or a multi-function device do to a TLP for a peer (6.12.1, 6.12.3). named: whether
 * its Egress Control Vector names that peer. */
static enum way peer(struct walk *w, struct acs acs, uint32_t at, enum host_known named)
{
	bool completion = w->tlp.type == TOPO_COMPLETION;
	enum topo_rule rule = untranslated(acs, named);

	if (no_p2p(w, acs))
		return up(w, TOPO_RULE_NO_P2P, at);
	if (completion && acs.ctl & TOPO_ACS_CR)
		return w->tlp.relaxed ? across(w, TOPO_RULE_RO, at) : up(w, TOPO_RULE_CR, at);
	if (completion)
		return across(w, TOPO_RULE_PLAIN, at);
	if (w->tlp.translated && acs.ctl & TOPO_ACS_DT)
		return across(w, TOPO_RULE_DT, at);
	if (rule == TOPO_RULE_EC || rule == TOPO_RULE_EC_UNREAD)
		return end(w, rule == TOPO_RULE_EC ? TOPO_BLOCKED : TOPO_UNDECIDED, rule, at);
	return rule == TOPO_RULE_RR ? up(w, rule, at) : across(w, rule, at);
}

static bool one_host_bridge(const struct walk *w, uint32_t i, uint32_t k)
{
	const char *a = facts_of(w, i)->root_bus;

	return *a && strcmp(a, facts_of(w, k)->root_bus) == 0;
}

/* Whether a port's Egress Control Vector names another port of the same switch, or of the same root complex, which
 * is known only of one root bus. */
static enum host_known names_port(const struct walk *w, uint32_t at, uint32_t to)
{
	const struct host_facts *a = facts_of(w, at), *b = facts_of(w, to);

	if (!b->cap.port_known || (a->kind == HOST_ROOT_PORT && !one_host_bridge(w, at, to)))
		return HOST_UNKNOWN;
	return pcicap_egress(&a->cap.acs, b->cap.port);
}

/* Whether a function's names another function of its device (7.7.11.4): by its number, with ARI modulo the vector's
 * size, or by its function group where function 0 has those enabled (7.8.8.3). */
static enum host_known names_function(const struct walk *w, uint32_t at, uint32_t to)
{
	struct bdf a = topo_at(w->t, at)->fn->bdf, b = topo_at(w->t, to)->fn->bdf, first = { a.domain, a.bus, 0 };
	const struct pcicap *c = &facts_of(w, at)->cap, *peer = &facts_of(w, to)->cap, *zero;
	uint32_t i = topo_find(w->t, first);

	if (c->ari == HOST_ABSENT)
		return bdf_same_device(a, b) ? pcicap_egress(&c->acs, b.devfn & 7) : HOST_UNKNOWN;
	zero = i == TOPO_NONE ? NULL : &facts_of(w, i)->cap;
	if (c->ari == HOST_UNKNOWN || !zero || zero->ari_groups.known != HOST_PRESENT || !c->acs.egress_bits)
		return HOST_UNKNOWN;
	if (!(zero->ari_groups.ctl & PCI_ARI_CTRL_ACS))
		return pcicap_egress(&c->acs, b.devfn % c->acs.egress_bits);
	return peer->ari_groups.known == HOST_PRESENT ? pcicap_egress(&c->acs, PCI_ARI_CTRL_FG(peer->ari_groups.ctl)) : HOST_UNKNOWN;
}

/* ---- beside: a peer on the same bus that is no switch port -------------------------------------------- */

uint32_t topo_physical(const struct topo *t, uint32_t i)
{
	const struct host_facts *f = topo_at(t, i)->fn->facts;
	uint32_t pf = f->is_vf ? topo_find(t, f->pf) : i;

	return pf == TOPO_NONE ? i : pf;
}

/* VFs have no ACS of their own that counts here: the device is judged by its PF's, but for the vector, which is each
 * function's own. */
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
	return peer(w, acs, at, at == from ? names_function(w, at, to) : HOST_UNKNOWN);
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

/* Xeons E5 to E5 v3, whose host bridges the kernel trusts among their own ports only: not over QPI. */
static bool old_xeon_known(const struct walk *w, uint32_t port)
{
	static const uint16_t bridges[] = { 0x3c00, 0x3c01, 0x2f00, 0x2f01 };
	struct bdf at = topo_at(w->t, port)->fn->bdf;
	uint32_t i = topo_find(w->t, (struct bdf){ at.domain, at.bus, 0 });

	if (i == TOPO_NONE || facts_of(w, i)->vendor != INTEL || !one_host_bridge(w, i, port) || !one_host_bridge(w, port, w->b))
		return false;
	for (size_t k = 0; k < ARRAY_SIZE(bridges); k++)
		if (facts_of(w, i)->device == bridges[k])
			return true;
	return false;
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
	return old_xeon_known(w, port);
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
	uint32_t to = towards(w, TOPO_NONE);
	bool straight = completion ? !(acs.ctl & TOPO_ACS_CR) || w->tlp.relaxed : w->tlp.translated && acs.ctl & TOPO_ACS_DT;

	enum topo_rule rule;

	if (!is_pcie_port(w, to))
		return end(w, TOPO_UNDECIDED, TOPO_RULE_RCIEP, port);
	if (acs.known == HOST_ABSENT)
		return end(w, TOPO_UNDECIDED, TOPO_RULE_ROOT_OPEN, port);
	if (no_p2p(w, acs))
		return reflect(w, port, TOPO_RULE_NO_P2P);
	if (straight && !platform_known(w, port))
		return end(w, TOPO_UNDECIDED, TOPO_RULE_PLATFORM, port);
	if (straight) {
		(void)peer(w, acs, port, HOST_UNKNOWN);
		descend(w, TOPO_NONE);
		return WAY_END;
	}
	rule = completion ? TOPO_RULE_CR : untranslated(acs, names_port(w, port, to));
	if (rule == TOPO_RULE_CR || rule == TOPO_RULE_RR)
		return reflect(w, port, rule);
	if (rule == TOPO_RULE_EC)
		return end(w, TOPO_BLOCKED, rule, port);
	return end(w, TOPO_UNDECIDED, rule == TOPO_RULE_EC_UNREAD ? rule : TOPO_RULE_ROOT_OPEN, port);
}

static enum way at_pcie_port(struct walk *w, uint32_t port)
{
	bool root = facts_of(w, port)->kind == HOST_ROOT_PORT;
	uint32_t to = towards(w, topo_at(w->t, port)->parent);
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
	if (to == TOPO_NONE)
		return up(w, TOPO_RULE_PASS, port);
	return acs.known == HOST_ABSENT ? across(w, TOPO_RULE_NO_ACS, port) : peer(w, acs, port, names_port(w, port, to));
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

const char *topo_route_through(const struct topo_route *r, const struct topo *t, uint32_t a, uint32_t b)
{
	enum topo_class path = topo_path(t, a, b);
	int same = path == TOPO_SYS ? topo_same_socket(t, a, b) : 1; /* a socket may have several NUMA nodes */

	if (r->verdict == TOPO_BLOCKED || r->verdict == TOPO_UNDECIDED || path == TOPO_UNKNOWN || same < 0)
		return NULL;
	if (r->verdict == TOPO_DIRECT && path <= TOPO_PXB)
		return "switch";
	return same ? "root-complex" : "sockets";
}

uint64_t topo_route_bandwidth(const struct topo_route *r, const struct topo *t, uint32_t a, uint32_t b)
{
	if (r->verdict == TOPO_BLOCKED || r->verdict == TOPO_UNDECIDED)
		return 0;
	return topo_path_bandwidth(t, a, b, r->verdict == TOPO_REDIRECTED);
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
	[TOPO_RULE_EC] = { "ec", "is refused: P2P Egress Control names that peer, and Request Redirect is off" },
	[TOPO_RULE_EC_OPEN] = { "ec-open", "goes straight across: P2P Egress Control is on and does not name that peer, whatever RR says" },
	[TOPO_RULE_EC_UNREAD] = { "ec-unread", "meets P2P Egress Control, and what it says of that peer cannot be read" },
	[TOPO_RULE_ROOT_OPEN] = { "root-open", "reaches a root port that redirects nothing; what the root complex does is not specified" },
	[TOPO_RULE_PLATFORM] = { "platform", "reaches the root complex; whether this one passes peer requests is not known" },
	[TOPO_RULE_RCIEP] = { "rciep", "moves inside the root complex, where no rule is specified" },
	[TOPO_RULE_MF_NO_ACS] = { "mf-no-acs", "may be routed inside the multi-function device, which has no ACS" },
	[TOPO_RULE_UNREAD] = { "unread", "meets a port whose ACS cannot be read (read as root)" },
	[TOPO_RULE_SHAPE] = { "shape", "is between things that are not two endpoints of one PCIe tree" },
	[TOPO_RULE_ATS] = { "ats", "depends on whether its requests are translated (ATS), which is not known" },
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
