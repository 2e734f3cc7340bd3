/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Greedy and minimal: a bit changes only when a wanted transaction meets it on its way and nothing else stops
 * that transaction for good. What a pair that cannot be had had changed is taken back. */
#include "plan/acs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/acs_boot.h"

#define MELLANOX 0x15b3
#define NVIDIA	 0x10de

struct work {
	struct plan_acs   *plan;
	const struct topo *t;
	const uint16_t    *base; /* by node, where it starts from */
	bool               hypothetical; /* base is not what is there: what stands in the way is said of what is */
	uint16_t          *ctl;  /* by node, as planned so far */
	uint16_t          *kept; /* the same before the pair in hand */
};

static const struct host_facts *facts_at(const struct work *w, uint32_t i)
{
	return topo_at(w->t, i)->fn->facts;
}

uint32_t plan_acs_turned_at(const struct topo_route *r)
{
	for (size_t i = 0; i < r->nports; i++)
		if (r->port[i].rule == TOPO_RULE_RR || r->port[i].rule == TOPO_RULE_NO_P2P ||
		    r->port[i].rule == TOPO_RULE_EC || r->port[i].rule == TOPO_RULE_EC_UNREAD || r->port[i].rule == TOPO_RULE_ROOT_OPEN)
			return r->port[i].node;
	return TOPO_NONE;
}

/* One bit nearer to direct, if a bit stands in this transaction's way. */
static bool remedy(struct work *w, const struct topo_route *r, bool translated)
{
	uint32_t port = plan_acs_turned_at(r);

	if (r->verdict == TOPO_DIRECT || !translated)
		return false;
	if (port != TOPO_NONE) {
		if (!(facts_at(w, port)->cap.acs.cap & TOPO_ACS_DT) || w->ctl[port] & TOPO_ACS_DT)
			return false;
		w->ctl[port] |= TOPO_ACS_DT;
		return true;
	}
	if (r->rule != TOPO_RULE_TB)
		return false;
	w->ctl[r->decided] &= (uint16_t)~TOPO_ACS_TB;
	return true;
}

static void solve(struct work *w, struct topo_gdr *g, uint32_t nic, uint32_t gpu)
{
	bool changed = true;

	memcpy(w->kept, w->ctl, topo_count(w->t) * sizeof(*w->ctl));
	while (changed) {
		topo_gdr(g, w->t, w->ctl, topo_gdr_ats(w->t, nic), nic, gpu);
		changed = remedy(w, &g->part[TOPO_GDR_WRITE], g->ats == HOST_PRESENT) ||
			  remedy(w, &g->part[TOPO_GDR_READ], g->ats == HOST_PRESENT);
	}
	if (g->part[g->worst].verdict == TOPO_DIRECT)
		return;
	memcpy(w->ctl, w->kept, topo_count(w->t) * sizeof(*w->ctl));
	topo_gdr(g, w->t, w->ctl, topo_gdr_ats(w->t, nic), nic, gpu);
}

/* ---- why not, and what would help ---------------------------------------------------------------------- */

static int say(struct work *w, const char **ret, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int say(struct work *w, const char **ret, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	*ret = arena_vprintf(&w->plan->arena, fmt, ap);
	va_end(ap);
	return *ret ? 0 : -ENOMEM;
}

static int explain_ats(struct work *w, struct plan_acs_pair *p, uint32_t nic)
{
	char name[BDF_TEXT_MAX];
	int r;

	(void)bdf_text(name, topo_at(w->t, nic)->fn->bdf);
	if (facts_at(w, nic)->cap.pcie == HOST_ABSENT) {
		r = say(w, &p->why, "%s is a conventional PCI device, which has no ATS, so its requests are untranslated, and those have to pass "
			"the IOMMU", name);
		return r < 0 ? r : say(w, &p->fix, "use a PCIe NIC that has ATS, below the GPU's own PCIe switch");
	}
	r = say(w, &p->why, "%s has no ATS capability, so its requests are untranslated, and those have to pass the IOMMU", name);
	if (r == 0 && facts_at(w, nic)->vendor == MELLANOX)
		r = say(w, &p->fix, "mlxconfig -d %s set ATS_ENABLED=true, then reboot the host", name);
	else if (r == 0)
		r = say(w, &p->fix, "switch ATS on in its firmware or by its vendor's tool; without it there is no direct path in a guest");
	return r;
}

static int explain(struct work *w, struct plan_acs_pair *p, const struct topo_gdr *g, uint32_t nic)
{
	const struct topo_route *worst = &g->part[g->worst];
	bool turned = worst->rule == TOPO_RULE_RR || worst->rule == TOPO_RULE_NO_P2P;
	char port[BDF_TEXT_MAX];
	int r;

	(void)bdf_text(port, p->port);
	if (turned && facts_at(w, worst->decided)->kind == HOST_ROOT_PORT && facts_at(w, worst->decided)->vendor == NVIDIA)
		return say(w, &p->why, "they are below different root ports of a CPU of NVIDIA's, where NIC and GPU reach each other through "
			   "the root complex by design, with ATS off"); /* rdma_topo's NUMA complex: its check wants no ATS */
	if (turned && g->ats == HOST_ABSENT && facts_at(w, worst->decided)->cap.acs.cap & TOPO_ACS_DT) /* else it would not help */
		return explain_ats(w, p, topo_physical(w->t, nic));
	if (turned && facts_at(w, worst->decided)->kind == HOST_ROOT_PORT)
		r = say(w, &p->why, "they are below different root ports, and root port %s has no Direct Translated P2P (ACSCap 0x%02x): "
			"it goes %s", port, facts_at(w, worst->decided)->cap.acs.cap,
			p->through && strcmp(p->through, "sockets") == 0 ? "from socket to socket" : "through the root complex");
	else if (turned)
		r = say(w, &p->why, "port %s has no Direct Translated P2P (ACSCap 0x%02x)", port,
			facts_at(w, worst->decided)->cap.acs.cap);
	else
		r = say(w, &p->why, "at %s the transaction %s", port, topo_rule_text(worst->rule));
	if (r < 0)
		return r;
	switch (worst->rule) {
	case TOPO_RULE_RR:
	case TOPO_RULE_NO_P2P:
		return say(w, &p->fix, "use a NIC below the GPU's own PCIe switch");
	case TOPO_RULE_UNREAD:
	case TOPO_RULE_ATS:
		return say(w, &p->fix, "read the host as root");
	case TOPO_RULE_EC:
	case TOPO_RULE_EC_UNREAD:
		return say(w, &p->fix, "switch EgressCtrl of %s off in firmware", port);
	case TOPO_RULE_PLATFORM:
	case TOPO_RULE_ROOT_OPEN:
		return say(w, &p->fix, "use a NIC below the GPU's own PCIe switch; this root complex is not known to pass peer requests");
	default:
		return 0;
	}
}

/* What is direct by the ports' words, and of translated requests only, is so if they will be. */
static int judge_ats(struct work *w, struct plan_acs_pair *p, uint32_t nic, uint32_t gpu)
{
	bool direct = p->state == PLAN_ACS_DIRECT || p->state == PLAN_ACS_PLANNED;
	struct topo_route plain;
	struct topo_ats ats;
	int r = topo_ats(&ats, w->t, nic, facts_at(w, nic)->kind == HOST_NIC, &w->plan->arena);

	p->translated = ats.state;
	topo_route(&plain, w->t, w->ctl, nic, gpu, (struct topo_tlp){ .type = TOPO_WRITE });
	p->hinges = direct && p->ats == HOST_PRESENT && plain.verdict != TOPO_DIRECT;
	if (r < 0 || !p->hinges || ats.state == TOPO_ATS_OK)
		return r;
	p->then = ats.state == TOPO_ATS_NO ? plain.verdict : TOPO_UNDECIDED;
	p->now = p->now == TOPO_DIRECT ? p->then : p->now;
	p->why = ats.observed;
	p->fix = ats.fix;
	return 0;
}

static int judge(struct work *w, struct plan_acs_pair *p, uint32_t nic, uint32_t gpu)
{
	struct topo_gdr now, then;
	const struct topo_route *worst;
	bool direct;

	topo_gdr(&now, w->t, NULL, topo_gdr_ats(w->t, nic), nic, gpu);
	solve(w, &then, nic, gpu);
	p->path = topo_path(w->t, nic, gpu);
	p->ats = then.ats;
	p->now = now.part[now.worst].verdict;
	if (then.part[then.worst].verdict != TOPO_DIRECT && w->hypothetical)
		then = now;
	direct = then.part[then.worst].verdict == TOPO_DIRECT;
	worst = &then.part[then.worst];
	p->then = worst->verdict;
	p->rule = worst->rule;
	p->port = worst->decided == TOPO_NONE ? BDF_NONE : topo_at(w->t, worst->decided)->fn->bdf;
	p->through = topo_route_through(worst, w->t, nic, gpu);
	p->why = p->fix = "";
	if (direct) {
		p->state = p->now == TOPO_DIRECT ? PLAN_ACS_DIRECT : PLAN_ACS_PLANNED;
		return judge_ats(w, p, nic, gpu);
	}
	p->state = p->then == TOPO_UNDECIDED ? PLAN_ACS_UNKNOWN : PLAN_ACS_IMPOSSIBLE;
	return judge_ats(w, p, nic, gpu) < 0 ? -ENOMEM : explain(w, p, &then, nic);
}

/* ---- the writes ---------------------------------------------------------------------------------------- */

/* Direct Translated P2P is only ever set, Translation Blocking only ever cleared. */
static uint16_t written(uint16_t now, uint16_t planned)
{
	return (uint16_t)((now | (planned & TOPO_ACS_DT)) & (planned | ~TOPO_ACS_TB));
}

static int collect(struct work *w)
{
	struct plan_acs *p = w->plan;

	p->write = arena_array(&p->arena, topo_count(w->t), sizeof(*p->write));
	for (uint32_t i = 0; p->write && i < topo_count(w->t); i++) {
		const struct topo_node *node = topo_at(w->t, i);
		const struct pcicap_acs *acs = &node->fn->facts->cap.acs;

		if (w->ctl[i] != w->base[i])
			p->write[p->nwrites++] = (struct plan_acs_write){ node->fn->bdf, acs->cap, acs->ctl,
									  written(acs->ctl, w->ctl[i]) };
	}
	return p->write ? 0 : -ENOMEM;
}

/* ---- wants --------------------------------------------------------------------------------------------- */

static int find(const struct topo *t, uint32_t *ret, struct bdf bdf, bool gpu, struct error *err)
{
	char text[BDF_TEXT_MAX];
	enum host_kind kind;

	*ret = topo_find(t, bdf);
	if (*ret == TOPO_NONE)
		return error_set(err, -ENOENT, "there is no function %s; velactl topo lists them", bdf_text(text, bdf));
	kind = topo_at(t, *ret)->fn->facts->kind;
	if (gpu ? kind != HOST_GPU : !topo_gdr_by(kind) && kind != HOST_VF)
		return error_set(err, -EINVAL, "%s is a %s, not a %s", bdf_text(text, bdf), host_kind_text(kind),
				 gpu ? "GPU" : "NIC, VF or data-direct function");
	return 0;
}

static int plan_pairs(struct work *w, const struct plan_acs_want *want, size_t n, struct error *err)
{
	struct plan_acs *p = w->plan;
	int r = 0;

	p->pair = arena_array(&p->arena, n, sizeof(*p->pair));
	if (!p->pair)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct plan_acs_pair *pair = &p->pair[p->npairs++];
		uint32_t nic = TOPO_NONE, gpu = TOPO_NONE;

		pair->nic = want[i].nic;
		pair->gpu = want[i].gpu;
		r = find(w->t, &nic, want[i].nic, false, err);
		if (r == 0)
			r = find(w->t, &gpu, want[i].gpu, true, err);
		if (r == 0)
			r = judge(w, pair, nic, gpu);
	}
	return r;
}

uint16_t *plan_acs_words(const struct topo *t, const struct plan_acs *p, struct arena *arena)
{
	uint16_t *ctl = arena_array(arena, topo_count(t), sizeof(*ctl));

	for (uint32_t i = 0; ctl && i < topo_count(t); i++)
		ctl[i] = topo_at(t, i)->fn->facts->cap.acs.ctl;
	for (size_t i = 0; ctl && p && i < p->nwrites; i++)
		ctl[topo_find(t, p->write[i].port)] = p->write[i].to;
	return ctl;
}

uint16_t *plan_acs_base(const struct topo *t, const struct plan_acs_held *held, size_t n, struct arena *arena)
{
	uint16_t *ctl = plan_acs_words(t, NULL, arena);

	for (uint32_t i = 0; ctl && i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->cap.acs.cap & TOPO_ACS_DT)
			ctl[i] &= (uint16_t)~TOPO_ACS_DT;
	for (size_t i = 0; ctl && i < n; i++) {
		uint32_t at = topo_find(t, held[i].port);

		if (at != TOPO_NONE)
			ctl[at] |= held[i].was & TOPO_ACS_TB;
	}
	return ctl;
}

int plan_acs_make(struct plan_acs **ret, const struct topo *t, const uint16_t *base, const struct plan_acs_want *want,
		  size_t n, struct error *err)
{
	auto_(plan_acs_free) struct plan_acs *p = calloc(1, sizeof(*p));
	struct work w = { .plan = p, .t = t, .base = base, .hypothetical = base };
	int r = p ? 0 : -ENOMEM;

	if (r == 0) {
		p->boot = p->grub = p->warning = "";
		w.ctl = arena_array(&p->arena, topo_count(t), sizeof(*w.ctl));
		w.kept = arena_array(&p->arena, topo_count(t), sizeof(*w.kept));
		w.base = base ? base : plan_acs_words(t, NULL, &p->arena);
		r = w.ctl && w.kept && w.base ? 0 : -ENOMEM;
	}
	if (r == 0) {
		memcpy(w.ctl, w.base, topo_count(t) * sizeof(*w.ctl));
		r = plan_pairs(&w, want, n, err);
	}
	if (r == 0)
		r = collect(&w);
	if (r < 0)
		return err->code ? err->code : error_set(err, r, "no memory for an ACS plan");
	*ret = steal(p);
	return 0;
}

static enum topo_class nearest(const struct topo *t, uint32_t gpu)
{
	enum topo_class best = TOPO_CLASS_MAX_;

	for (uint32_t i = 0; i < topo_count(t); i++) {
		enum topo_class c = topo_gdr_by(topo_at(t, i)->fn->facts->kind) ? topo_path(t, i, gpu) : TOPO_CLASS_MAX_;

		best = c < best ? c : best;
	}
	return best;
}

int plan_acs_wants(struct plan_acs_want **ret, size_t *n, const struct topo *t, struct arena *arena)
{
	size_t gpus = 0, nics = 0;

	for (uint32_t i = 0; i < topo_count(t); i++) {
		gpus += topo_at(t, i)->fn->facts->kind == HOST_GPU;
		nics += topo_gdr_by(topo_at(t, i)->fn->facts->kind);
	}
	*n = 0;
	*ret = arena_array(arena, gpus * nics, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (uint32_t g = 0; g < topo_count(t); g++) {
		enum topo_class most;

		if (topo_at(t, g)->fn->facts->kind != HOST_GPU)
			continue;
		most = nearest(t, g);
		most = most < TOPO_PXB ? TOPO_PXB : most;
		for (uint32_t i = 0; i < topo_count(t); i++)
			if (topo_gdr_by(topo_at(t, i)->fn->facts->kind) && topo_path(t, i, g) <= most)
				(*ret)[(*n)++] = (struct plan_acs_want){ topo_at(t, i)->fn->bdf, topo_at(t, g)->fn->bdf };
	}
	return 0;
}

int plan_acs_all(struct plan_acs **ret, const struct topo *t, bool exclusive, struct error *err)
{
	auto_(plan_acs_free) struct plan_acs *p = NULL;
	struct plan_acs_want *want;
	struct arena arena = { 0 };
	size_t n;
	int r = plan_acs_wants(&want, &n, t, &arena);

	if (r == 0)
		r = plan_acs_make(&p, t, NULL, want, n, err);
	if (r == 0)
		r = plan_acs_boot(p, t, exclusive);
	arena_done(&arena);
	if (r < 0)
		return err->code ? err->code : error_set(err, r, "no memory for an ACS plan");
	*ret = steal(p);
	return 0;
}

int plan_acs_steps(struct plan_acs **ret, const struct topo *t, const struct plan_acs_held *held, size_t n, struct error *err)
{
	struct plan_acs_want *want;
	struct arena arena = { 0 };
	uint16_t *base = plan_acs_base(t, held, n, &arena);
	size_t nwant;
	int r = base ? plan_acs_wants(&want, &nwant, t, &arena) : -ENOMEM;

	r = r < 0 ? error_set(err, r, "no memory for an ACS plan") : plan_acs_make(ret, t, base, want, nwant, err);
	arena_done(&arena);
	return r;
}

struct plan_acs *plan_acs_free(struct plan_acs *p)
{
	if (p) {
		arena_done(&p->arena);
		free(p);
	}
	return NULL;
}

const char *plan_acs_state_text(enum plan_acs_state s)
{
	static const char *const text[] = { "direct", "planned", "boot", "impossible", "unknown" };

	return text[s];
}
