/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What pci=config_acs= has to say. It starts from what the kernel sets by itself, not from what is there now, for the
 * argument replaces the word of each port that it names. Three things are done, each only where a wanted pair needs it:
 * Direct Translated P2P is set; where requests are untranslated, P2P Request Redirect is cleared at the NIC's port and P2P
 * Completion Redirect at the GPU's; and then Source Validation is cleared at a port above their switch, because the kernel
 * would otherwise give functions groups of their own that reach each other without the IOMMU (rdma_topo of rdma-core
 * does the same for the same reason). In the end whatever turned out not to be needed is taken back. */
#include "plan/acs_boot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sbuf.h"
#include "topo/group.h"

#define REQ_ACS_FLAGS (TOPO_ACS_SV | TOPO_ACS_RR | TOPO_ACS_CR | TOPO_ACS_UF) /* drivers/iommu/iommu.c; the default, too */
#define CMDLINE_MAX   2048 /* COMMAND_LINE_SIZE of x86 and arm64 */

struct boot {
	struct plan_acs   *plan;
	const struct topo *t;
	bool               exclusive;
	uint16_t          *base; /* by node: without the argument */
	uint16_t          *ctl;  /* with it */
	uint16_t          *kept;
	uint32_t          *group, *group_base; /* topo_groups() of these */
	bool              *direct; /* by pair: so with the argument */
};

static const struct host_facts *facts_at(const struct boot *b, uint32_t i)
{
	return topo_at(b->t, i)->fn->facts;
}

/* What the kernel ORs onto firmware's word if there is an IOMMU (pci_enable_acs(), drivers/pci/pci.c). That somebody has
 * set Direct Translated P2P by hand, or cleared a redirect, does not last. */
static void default_words(const struct boot *b)
{
	bool iommu = topo_inventory(b->t)->iommu != HOST_ABSENT;

	for (uint32_t i = 0; i < topo_count(b->t); i++) {
		const struct pcicap_acs *acs = &facts_at(b, i)->cap.acs;

		b->base[i] = (uint16_t)((acs->ctl | (iommu ? REQ_ACS_FLAGS & acs->cap : 0)) & ~TOPO_ACS_DT);
	}
	memcpy(b->ctl, b->base, topo_count(b->t) * sizeof(*b->ctl));
}

/* A port that is named has all of its word said, and Translation Blocking and Egress Control are never set. */
static bool change(const struct boot *b, uint32_t port, uint16_t set, uint16_t clear)
{
	uint16_t cap = facts_at(b, port)->cap.acs.cap, was = b->ctl[port];

	if ((set | clear) & ~cap)
		return false;
	b->ctl[port] = (uint16_t)((was | set) & ~(clear | TOPO_ACS_TB | TOPO_ACS_EC));
	return b->ctl[port] != was;
}

/* ---- one pair ------------------------------------------------------------------------------------------- */

/* Whether redirects may be cleared for it. */
static bool may_open(const struct boot *b, uint32_t nic)
{
	return b->exclusive || facts_at(b, nic)->kind == HOST_DATA_DIRECT;
}

static bool open_request(const struct boot *b, uint32_t nic, uint32_t port)
{
	return may_open(b, nic) && facts_at(b, port)->kind == HOST_DSP && change(b, port, 0, TOPO_ACS_RR);
}

/* One bit nearer to direct. */
static bool remedy(const struct boot *b, const struct topo_gdr *g, const struct topo_route *r, uint32_t nic)
{
	uint32_t port = plan_acs_turned_at(r);

	if (r->verdict == TOPO_DIRECT)
		return false;
	if (port == TOPO_NONE) /* else it does not get to where it is refused */
		return r->rule == TOPO_RULE_TB && change(b, r->decided, 0, TOPO_ACS_TB);
	if (g->ats == HOST_PRESENT && facts_at(b, nic)->kind != HOST_DATA_DIRECT && change(b, port, TOPO_ACS_DT, 0))
		return true;
	return open_request(b, nic, port);
}

/* Whether the NIC's requests cross a port whose redirect is cleared. Then the answer must cross, too, with Relaxed Ordering
 * or without: nobody says which it has. */
static bool is_open(const struct boot *b, const struct topo_gdr *g)
{
	const struct topo_route *r = &g->part[TOPO_GDR_READ];

	return r->verdict == TOPO_DIRECT && b->base[r->decided] & ~b->ctl[r->decided] & TOPO_ACS_RR && r->rule != TOPO_RULE_DT;
}

static struct topo_route plain_answer(const struct boot *b, uint32_t nic, uint32_t gpu)
{
	struct topo_route r;

	topo_route(&r, b->t, b->ctl, gpu, nic, (struct topo_tlp){ .type = TOPO_COMPLETION });
	return r;
}

static bool open_answer(const struct boot *b, uint32_t nic, uint32_t gpu)
{
	struct topo_route r = plain_answer(b, nic, gpu);

	for (size_t i = 0; i < r.nports; i++) /* the route's own rule may be what an unknown root complex would do with it */
		if (r.port[i].rule == TOPO_RULE_CR && facts_at(b, r.port[i].node)->kind == HOST_DSP)
			return change(b, r.port[i].node, 0, TOPO_ACS_CR);
	return false;
}

static bool is_direct(const struct boot *b, uint32_t nic, uint32_t gpu)
{
	struct topo_gdr g;

	topo_gdr(&g, b->t, b->ctl, topo_gdr_ats(b->t, nic), nic, gpu);
	return g.part[g.worst].verdict == TOPO_DIRECT && (!is_open(b, &g) || plain_answer(b, nic, gpu).verdict == TOPO_DIRECT);
}

/* ---- groups --------------------------------------------------------------------------------------------- */

/* All endpoints below a switch, of whose ports one lets requests across, are of one group. */
static bool is_one_group(const struct boot *b, uint32_t usp)
{
	uint32_t one = TOPO_NONE;

	for (uint32_t i = 0; i < topo_count(b->t); i++) {
		uint32_t up = topo_at(b->t, i)->parent;

		while (up != TOPO_NONE && up != usp)
			up = topo_at(b->t, up)->parent;
		if (up == TOPO_NONE || host_kind_is_bridge(facts_at(b, i)->kind))
			continue;
		if (one == TOPO_NONE)
			one = b->group[i];
		if (b->group[i] != one)
			return false;
	}
	return true;
}

/* Of what was not so without the argument. */
static bool groups_are_true(const struct boot *b)
{
	bool all = true;

	topo_groups(b->group, b->t, b->ctl);
	for (uint32_t i = 0; i < topo_count(b->t) && all; i++)
		if (b->base[i] & ~b->ctl[i] & TOPO_ACS_RR)
			all = is_one_group(b, topo_at(b->t, i)->parent);
	return all;
}

/* By Source Validation of the nearest port above the switch that has it. */
static bool force_group(const struct boot *b, uint32_t open)
{
	if (groups_are_true(b))
		return true;
	for (uint32_t up = topo_at(b->t, open)->parent; up != TOPO_NONE; up = topo_at(b->t, up)->parent) {
		uint16_t was = b->ctl[up];

		if (facts_at(b, up)->kind == HOST_USP || !change(b, up, 0, TOPO_ACS_SV))
			continue;
		if (groups_are_true(b))
			return true;
		b->ctl[up] = was;
	}
	return false;
}

/* Whether it is direct with the argument as it is then; what it had changed is taken back if not. */
static bool solve(struct boot *b, bool *grew, uint32_t nic, uint32_t gpu)
{
	struct topo_gdr g;
	bool changed = true;

	memcpy(b->kept, b->ctl, topo_count(b->t) * sizeof(*b->ctl));
	while (changed) {
		topo_gdr(&g, b->t, b->ctl, topo_gdr_ats(b->t, nic), nic, gpu);
		changed = remedy(b, &g, &g.part[TOPO_GDR_WRITE], nic) || remedy(b, &g, &g.part[TOPO_GDR_READ], nic) ||
			  (is_open(b, &g) && may_open(b, nic) && open_answer(b, nic, gpu));
	}
	if (is_direct(b, nic, gpu) && force_group(b, g.part[TOPO_GDR_READ].decided)) {
		*grew = *grew || memcmp(b->kept, b->ctl, topo_count(b->t) * sizeof(*b->ctl)) != 0;
		return true;
	}
	memcpy(b->ctl, b->kept, topo_count(b->t) * sizeof(*b->ctl));
	return false;
}

/* A port that one pair names loses Egress Control, by which another may have been direct: so until nothing changes. */
static void solve_all(struct boot *b)
{
	bool grew = true;

	while (grew) {
		grew = false;
		for (size_t i = 0; i < b->plan->npairs; i++)
			b->direct[i] = solve(b, &grew, topo_find(b->t, b->plan->pair[i].nic), topo_find(b->t, b->plan->pair[i].gpu));
	}
}

/* ---- no more than is needed ----------------------------------------------------------------------------- */

static bool holds(const struct boot *b)
{
	for (size_t i = 0; i < b->plan->npairs; i++)
		if (b->direct[i] && !is_direct(b, topo_find(b->t, b->plan->pair[i].nic), topo_find(b->t, b->plan->pair[i].gpu)))
			return false;
	return groups_are_true(b);
}

/* The word of a port without one of its bits' changes; without any, it need not be named, if that will do. */
static bool prune_bit(const struct boot *b, uint32_t port, uint16_t bit)
{
	uint16_t was = b->ctl[port];

	b->ctl[port] ^= bit;
	if (!((b->ctl[port] ^ b->base[port]) & ~(TOPO_ACS_TB | TOPO_ACS_EC))) {
		uint16_t without = b->ctl[port];

		b->ctl[port] = b->base[port];
		if (holds(b))
			return true;
		b->ctl[port] = without;
	}
	if (holds(b))
		return true;
	b->ctl[port] = was;
	return false;
}

/* A bit that one pair needed may be more than another's would do without it; and with one less, another may go. */
static void prune(const struct boot *b)
{
	bool less = true;

	while (less) {
		less = false;
		for (uint32_t i = 0; i < topo_count(b->t); i++)
			for (uint16_t bit = TOPO_ACS_SV; bit <= TOPO_ACS_DT; bit = (uint16_t)(bit << 1))
				if ((b->ctl[i] ^ b->base[i]) & bit & ~(TOPO_ACS_TB | TOPO_ACS_EC))
					less = prune_bit(b, i, bit) || less;
	}
}

/* ---- words ---------------------------------------------------------------------------------------------- */

static int collect_ports(struct boot *b)
{
	struct plan_acs *p = b->plan;

	p->at_boot = arena_array(&p->arena, topo_count(b->t), sizeof(*p->at_boot));
	for (uint32_t i = 0; p->at_boot && i < topo_count(b->t); i++) {
		uint16_t cap = facts_at(b, i)->cap.acs.cap, wanted = REQ_ACS_FLAGS & cap;

		if (b->ctl[i] != b->base[i])
			p->at_boot[p->nboot++] = (struct plan_acs_boot){ topo_at(b->t, i)->fn->bdf, cap, b->ctl[i] & cap,
									 (b->ctl[i] & wanted) != wanted };
	}
	return p->at_boot ? 0 : -ENOMEM;
}

/* Endpoints of the group that node i stands for; those that are in it without the argument, too, if base is given. */
static size_t members(const struct boot *b, struct bdf *ret, uint32_t group)
{
	uint32_t first = TOPO_NONE;
	bool apart = false;
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(b->t); i++) {
		if (b->group[i] != group || host_kind_is_bridge(facts_at(b, i)->kind) || facts_at(b, i)->is_vf)
			continue;
		first = first == TOPO_NONE ? i : first;
		apart = apart || b->group_base[i] != b->group_base[first];
		ret[n++] = topo_at(b->t, i)->fn->bdf;
	}
	return apart ? n : 0;
}

static int collect_shared(struct boot *b)
{
	struct plan_acs *p = b->plan;
	struct bdf *fn = arena_array(&p->arena, topo_count(b->t), sizeof(*fn));
	size_t used = 0;

	p->shared = arena_array(&p->arena, topo_count(b->t), sizeof(*p->shared));
	if (!fn || !p->shared)
		return -ENOMEM;
	topo_groups(b->group, b->t, b->ctl);
	topo_groups(b->group_base, b->t, b->base);
	for (uint32_t i = 0; i < topo_count(b->t); i++) {
		size_t n = b->group[i] == i ? members(b, fn + used, i) : 0;

		if (n)
			p->shared[p->nshared++] = (struct plan_acs_shared){ fn + used, n };
		used += n;
	}
	return 0;
}

/* "1011101", highest bit first. Every bit is said: x would mean what firmware left, not what the kernel sets. */
static void add_flags(struct sbuf *s, uint16_t bits)
{
	for (int i = 6; i >= 0; i--)
		sbuf_add(s, bits >> i & 1 ? "1" : "0");
}

static int finish(struct plan_acs *p, const char **ret, struct sbuf *s)
{
	*ret = s->failed ? NULL : arena_strdup(&p->arena, s->text ? s->text : "");
	sbuf_done(s);
	return *ret ? 0 : -ENOMEM;
}

/* The semicolons are GRUB's to see as part of a word: it takes the inner quotes away. */
static int write_argument(struct boot *b)
{
	struct plan_acs *p = b->plan;
	struct sbuf s = { 0 }, file = { 0 };
	char text[BDF_TEXT_MAX];
	int r;

	for (size_t i = 0; i < p->nboot; i++) {
		sbuf_add(&s, i ? ";" : "pci=config_acs=");
		add_flags(&s, p->at_boot[i].to);
		sbuf_addf(&s, "@%s", bdf_text(text, p->at_boot[i].port));
	}
	r = finish(p, &p->boot, &s);
	if (r == 0 && p->nboot)
		sbuf_addf(&file, "# /etc/default/grub.d/90-velad-acs.cfg: then update-grub, and reboot\n"
				 "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX \\\"%s\\\"\"\n", p->boot);
	return r < 0 ? r : finish(p, &p->grub, &file);
}

/* config_acs= came with 6.11 (47c8846a49ba). Until it was mended it lost what came after the first device, and a 0 did not
 * clear what firmware had set. */
static const char *kernel_warning(const struct plan_acs *p, const char *kernel)
{
	unsigned major = 0, minor = 0;
	bool regroups = false;

	if (sscanf(kernel, "%u.%u", &major, &minor) != 2)
		return NULL;
	for (size_t i = 0; i < p->nboot; i++)
		regroups = regroups || p->at_boot[i].regroups;
	if (major < 6 || (major == 6 && minor < 11))
		return regroups ? "has no config_acs=, which came with 6.11; disable_acs_redir= clears redirects but leaves IOMMU groups that "
				  "claim more isolation than there is: take a newer kernel" :
				  "has no config_acs=, which came with 6.11; velactl acs apply sets the bits at run time, and velad keeps them";
	if (!host_kernel_config_acs_mended(kernel) && (p->nboot > 1 || regroups))
		return "may take only the first device of config_acs=, and not clear what firmware has set (mended in 6.15 and later stable "
		       "releases): look for \"Can't parse ACS command line parameter\" in its log, and at velactl acs show";
	return NULL;
}

static int warn(struct boot *b)
{
	const struct inventory *inv = topo_inventory(b->t);
	struct plan_acs *p = b->plan;
	struct sbuf s = { 0 };
	const char *kernel = kernel_warning(p, inv->kernel);

	p->booted = p->nboot && strstr(inv->cmdline, p->boot);
	if (p->nboot && kernel)
		sbuf_addf(&s, "kernel %s %s", inv->kernel, kernel);
	if (p->nboot && !p->booted && strstr(inv->cmdline, "config_acs="))
		sbuf_addf(&s, "%sit was started with another config_acs=, of which only the last counts: put this in its place", kernel ? "; " : "");
	if (p->nboot && !p->booted && strlen(inv->cmdline) + strlen(p->boot) + 1 >= CMDLINE_MAX)
		sbuf_addf(&s, "%sthe kernel's command line would be longer than %d", s.len ? "; " : "", CMDLINE_MAX - 1);
	return finish(p, &p->warning, &s);
}

/* ---- the plan's pairs ----------------------------------------------------------------------------------- */

static int upgrade(struct boot *b, struct plan_acs_pair *pair)
{
	uint32_t nic = topo_find(b->t, pair->nic), gpu = topo_find(b->t, pair->gpu);
	struct topo_gdr g;

	topo_gdr(&g, b->t, b->ctl, topo_gdr_ats(b->t, nic), nic, gpu);
	pair->boot = g.part[g.worst].verdict;
	if (pair->boot == TOPO_DIRECT && is_open(b, &g))
		pair->boot = plain_answer(b, nic, gpu).verdict;
	if (pair->boot != TOPO_DIRECT || pair->state != PLAN_ACS_IMPOSSIBLE)
		return 0;
	pair->state = PLAN_ACS_BOOT;
	pair->then = TOPO_DIRECT;
	pair->rule = g.part[g.worst].rule;
	pair->port = topo_at(b->t, g.part[g.worst].decided)->fn->bdf;
	pair->through = topo_route_through(&g.part[g.worst], b->t, nic, gpu);
	pair->fix = arena_printf(&b->plan->arena, "%s%sfor one tenant only, the kernel argument below and a reboot", pair->fix,
				 *pair->fix ? "; or, " : "");
	return pair->fix ? 0 : -ENOMEM;
}

static int make_arrays(struct boot *b)
{
	struct arena *a = &b->plan->arena;
	size_t n = topo_count(b->t);

	b->base = arena_array(a, n, sizeof(*b->base));
	b->ctl = arena_array(a, n, sizeof(*b->ctl));
	b->kept = arena_array(a, n, sizeof(*b->kept));
	b->group = arena_array(a, n, sizeof(*b->group));
	b->group_base = arena_array(a, n, sizeof(*b->group_base));
	b->direct = arena_array(a, b->plan->npairs, sizeof(*b->direct));
	return b->base && b->ctl && b->kept && b->group && b->group_base && b->direct ? 0 : -ENOMEM;
}

int plan_acs_boot(struct plan_acs *p, const struct topo *t, bool exclusive)
{
	struct boot b = { .plan = p, .t = t, .exclusive = exclusive };
	int r = make_arrays(&b);

	if (r < 0)
		return r;
	default_words(&b);
	solve_all(&b);
	prune(&b);
	for (size_t i = 0; i < p->npairs && r == 0; i++)
		r = upgrade(&b, &p->pair[i]);
	if (r == 0)
		r = collect_ports(&b);
	if (r == 0)
		r = collect_shared(&b);
	if (r == 0)
		r = write_argument(&b);
	return r < 0 ? r : warn(&b);
}
