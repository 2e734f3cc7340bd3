/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One table of rules over the functions of a bundle and the ports above them, and the steps that mend what may be
 * mended while the host runs. A register that cannot be read gives a finding and no step. */
#include "plan/settings.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "host/inventory.h"
#include "topo/topo.h"

#define READRQ_MAX    5 /* 4096 bytes, 128 << n */
#define DEVCTL2_TAG10 0x1000  /* 10-Bit Tag Requester Enable; PCIe 6.0, 7.5.3.15 and 7.5.3.16 */
#define DEVCAP2_COMPLETER 0x10000
#define DEVCAP2_REQUESTER 0x20000

struct check {
	const struct topo            *t;
	const uint32_t               *fn; /* nodes */
	size_t                        nfn;
	bool                          whole; /* of the host: functions are not compared with each other */
	struct arena                 *arena;
	struct plan_settings_finding *found;
	size_t                        n;
	int                           r;
};

static const struct host_facts *facts(const struct topo *t, uint32_t i)
{
	return topo_at(t, i)->fn->facts;
}

static const struct pcicap *cap_of(const struct topo *t, uint32_t i)
{
	return &facts(t, i)->cap;
}

static const char *name_of(char out[BDF_TEXT_MAX], const struct topo *t, uint32_t i)
{
	return bdf_text(out, topo_at(t, i)->fn->bdf);
}

static unsigned readrq(uint16_t devctl)
{
	return (devctl & PCI_EXP_DEVCTL_READRQ) >> 12;
}

static unsigned payload(uint16_t devctl)
{
	return (devctl & PCI_EXP_DEVCTL_PAYLOAD) >> 5;
}

/* ---- what may not be set -------------------------------------------------------------------------------- */

static uint32_t root_port(const struct topo *t, uint32_t i)
{
	while (topo_at(t, i)->parent != TOPO_NONE)
		i = topo_at(t, i)->parent;
	return facts(t, i)->kind == HOST_ROOT_PORT ? i : TOPO_NONE;
}

/* Below these the kernel itself clears Relaxed Ordering: their completions go wrong with it
 * (quirk_relaxedordering_disable(), drivers/pci/quirks.c). */
static bool forbids_relaxed(const struct topo *t, uint32_t i)
{
	static const struct {
		uint16_t vendor, first, last;
	} known[] = {
		{ 0x8086, 0x2f01, 0x2f0e }, /* Haswell */
		{ 0x8086, 0x6f01, 0x6f0e }, /* Broadwell */
		{ 0x1022, 0x1a00, 0x1a02 }, /* A1100 */
	};
	uint32_t rp = root_port(t, i);

	for (size_t k = 0; rp != TOPO_NONE && k < ARRAY_SIZE(known); k++)
		if (facts(t, rp)->vendor == known[k].vendor && facts(t, rp)->device >= known[k].first &&
		    facts(t, rp)->device <= known[k].last)
			return true;
	return false;
}

/* pcie_bus_perf allows functions a greater payload than what is above the others has, and relies on read requests that
 * are no greater (pcie_set_readrq(), drivers/pci/pci.c). And Loongson's ports take no more than firmware set
 * (loongson_mrrs_quirk(), drivers/pci/controller/pci-loongson.c). */
static bool forbids_readrq(const struct topo *t, uint32_t i)
{
	uint32_t rp = root_port(t, i);

	return strstr(topo_inventory(t)->cmdline, "pcie_bus_perf") || (rp != TOPO_NONE && facts(t, rp)->vendor == 0x0014);
}

/* The kernel enables extended tags on every function, or on none of a host bridge that cannot take them
 * (pci_configure_extended_tags(), drivers/pci/probe.c): one that has them shows that these may, too. */
static bool extended_tags_work(const struct topo *t, uint32_t i)
{
	const char *bridge = facts(t, i)->root_bus;

	for (uint32_t k = 0; *bridge && k < topo_count(t); k++)
		if (cap_of(t, k)->dev_known && cap_of(t, k)->devctl & PCI_EXP_DEVCTL_EXT_TAG &&
		    strcmp(facts(t, k)->root_bus, bridge) == 0)
			return true;
	return false;
}

static enum host_known completes_tag10(const struct topo *t, uint32_t i)
{
	const struct pcicap *c = cap_of(t, i);

	return !c->dev2_known ? HOST_UNKNOWN : c->devcap2 & DEVCAP2_COMPLETER ? HOST_PRESENT : HOST_ABSENT;
}

/* Who completes requests of function i: the root complex, by the word of its port; switches on the way, when they answer
 * with an error; and the other functions. The first that cannot take 10-bit tags, or is not known to (PCIe 6.0,
 * 2.2.6.2). */
static enum host_known tag10_completers(const struct topo *t, uint32_t *at, uint32_t i, const uint32_t *fn, size_t nfn)
{
	enum host_known worst = root_port(t, i) == TOPO_NONE ? HOST_UNKNOWN : HOST_PRESENT;

	*at = i;
	for (uint32_t up = topo_at(t, i)->parent; up != TOPO_NONE && worst != HOST_ABSENT; up = topo_at(t, up)->parent)
		if (completes_tag10(t, up) != HOST_PRESENT)
			worst = completes_tag10(t, *at = up);
	for (size_t k = 0; k < nfn && worst != HOST_ABSENT; k++)
		if (fn[k] != i && completes_tag10(t, fn[k]) != HOST_PRESENT)
			worst = completes_tag10(t, *at = fn[k]);
	return worst;
}

/* ---- findings ------------------------------------------------------------------------------------------- */

static const char *texts(struct check *c, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static const char *text(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static const char *texts(struct check *c, const char *fmt, va_list ap)
{
	const char *s = arena_vprintf(c->arena, fmt, ap);

	if (!s)
		c->r = -ENOMEM;
	return s ? s : "";
}

static const char *text(struct check *c, const char *fmt, ...)
{
	const char *s;
	va_list ap;

	va_start(ap, fmt);
	s = texts(c, fmt, ap);
	va_end(ap);
	return s;
}

static struct plan_settings_finding *find(struct check *c, const char *rule, enum plan_settings_level level, uint32_t i)
{
	struct plan_settings_finding *f = &c->found[c->n++];

	*f = (struct plan_settings_finding){ .rule = rule, .level = level, .bdf = topo_at(c->t, i)->fn->bdf };
	return f;
}

/* By setpci: bits of the word at CAP_EXP + at. */
static const char *by_hand(struct check *c, uint32_t i, unsigned at, unsigned bits, unsigned mask)
{
	char name[BDF_TEXT_MAX];

	return text(c, "setpci -s %s CAP_EXP+%x.w=%04x:%04x", name_of(name, c->t, i), at, bits, mask);
}

static bool is_unread(struct check *c, uint32_t i)
{
	struct plan_settings_finding *f;

	if (cap_of(c->t, i)->dev_known)
		return false;
	if (cap_of(c->t, i)->pcie == HOST_ABSENT)
		return true; /* conventional PCI has none of it */
	f = find(c, "settings.unread", PLAN_SETTINGS_UNKNOWN, i);
	f->observed = "its device control cannot be read: whether it uses relaxed ordering, large reads and tags is not known";
	f->needed = "all of its config space";
	f->fix = "read the host as root";
	return true;
}

static void check_relaxed(struct check *c, uint32_t i)
{
	struct plan_settings_finding *f;
	char rp[BDF_TEXT_MAX];

	if (cap_of(c->t, i)->devctl & PCI_EXP_DEVCTL_RELAX_EN)
		return;
	f = find(c, "settings.relaxed-ordering", PLAN_SETTINGS_SLOW, i);
	f->needed = "Relaxed Ordering on: with it, answers pass redirecting ports, and writes overtake each other";
	f->set = !forbids_relaxed(c->t, i);
	if (f->set) {
		f->observed = "Relaxed Ordering is off";
		f->fix = by_hand(c, i, PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_RELAX_EN, PCI_EXP_DEVCTL_RELAX_EN);
	} else {
		f->observed = text(c, "Relaxed Ordering is off, as the kernel wants it below root port %s, whose completions go wrong with it",
				   name_of(rp, c->t, root_port(c->t, i)));
		f->fix = "another host";
	}
}

static void check_readrq(struct check *c, uint32_t i)
{
	unsigned now = readrq(cap_of(c->t, i)->devctl);
	struct plan_settings_finding *f;

	if (now >= READRQ_MAX)
		return;
	f = find(c, "settings.read-request", PLAN_SETTINGS_SLOW, i);
	f->observed = text(c, "it reads at most %u bytes at once", 128u << now);
	f->needed = "4096";
	f->set = !forbids_readrq(c->t, i);
	if (f->set)
		f->fix = by_hand(c, i, PCI_EXP_DEVCTL, READRQ_MAX << 12, PCI_EXP_DEVCTL_READRQ);
	else
		f->fix = "pci=pcie_bus_safe instead of pcie_bus_perf on the kernel command line; on Loongson, another host";
}

/* With ARI, function 0 has the say for all of its device (7.5.3.4). */
static uint16_t payload_word(const struct topo *t, uint32_t i)
{
	struct bdf zero = topo_at(t, i)->fn->bdf;
	uint32_t at;

	zero.devfn &= (uint8_t)~7u;
	at = cap_of(t, i)->ari == HOST_PRESENT ? topo_find(t, zero) : TOPO_NONE;
	return cap_of(t, at != TOPO_NONE && cap_of(t, at)->dev_known ? at : i)->devctl;
}

static void say_payload(struct check *c, uint32_t i, unsigned mine, const char *who, uint32_t other, unsigned its)
{
	struct plan_settings_finding *f;
	char name[BDF_TEXT_MAX];

	for (size_t k = 0; k < c->n; k++)
		if (strcmp(c->found[k].rule, "settings.payload") == 0 && bdf_eq(c->found[k].bdf, topo_at(c->t, i)->fn->bdf))
			return; /* of a port with one below it is enough */
	f = find(c, "settings.payload", PLAN_SETTINGS_UNSAFE, i);
	f->observed = text(c, "its packets carry at most %u bytes, those of %s%s %u", 128u << mine, who,
			   name_of(name, c->t, other), 128u << its);
	f->needed = "one size all the way, for who takes smaller packets drops the larger";
	f->fix = "pci=pcie_bus_safe on the kernel command line, or pcie_bus_peer2peer for those below several root ports";
}

/* A TLP that is larger than its receiver's payload size is malformed (2.2.2, 7.5.3.4). The ports above a function send to
 * it, too, so all must be equal; as must be those of peers below several root ports. */
static void check_payload(struct check *c, uint32_t i)
{
	unsigned mine = payload(payload_word(c->t, i)), its;

	for (uint32_t up = topo_at(c->t, i)->parent; up != TOPO_NONE; up = topo_at(c->t, up)->parent) {
		its = payload(cap_of(c->t, up)->devctl);
		if (cap_of(c->t, up)->dev_known && its != mine) {
			say_payload(c, up, its, "", i, mine);
			return;
		}
	}
	for (size_t k = 0; !c->whole && k < c->nfn; k++) {
		its = payload(payload_word(c->t, c->fn[k]));
		if (cap_of(c->t, c->fn[k])->dev_known && its != mine) {
			say_payload(c, i, mine, "its peer ", c->fn[k], its);
			return;
		}
	}
}

/* Off below all of a host bridge, they are so for good. */
static void check_extended(struct check *c, uint32_t i)
{
	const struct pcicap *cap = cap_of(c->t, i);
	struct plan_settings_finding *f;

	if (!(cap->devcap & PCI_EXP_DEVCAP_EXT_TAG) || cap->devctl & PCI_EXP_DEVCTL_EXT_TAG || !extended_tags_work(c->t, i))
		return;
	f = find(c, "settings.extended-tag", PLAN_SETTINGS_SLOW, i);
	f->observed = "it has 5-bit tags: 32 requests under way at most";
	f->needed = "8-bit tags";
	f->fix = "a reboot: the kernel enables them, and something has switched them off since";
	f->set = facts(c->t, i)->kind == HOST_GPU;
}

static void check_tag10(struct check *c, uint32_t i)
{
	const struct pcicap *cap = cap_of(c->t, i);
	struct plan_settings_finding *f;
	enum host_known known;
	char name[BDF_TEXT_MAX];
	uint32_t at;

	if (!cap->dev2_known || !(cap->devctl2 & DEVCTL2_TAG10))
		return;
	known = tag10_completers(c->t, &at, i, c->whole ? NULL : c->fn, c->whole ? 0 : c->nfn);
	if (known == HOST_PRESENT)
		return;
	f = find(c, "settings.tag-completer", known == HOST_ABSENT ? PLAN_SETTINGS_UNSAFE : PLAN_SETTINGS_UNKNOWN, i);
	f->observed = text(c, "it asks with 10-bit tags, and %s %s", at == i ? "its root port" : name_of(name, c->t, at),
			   known == HOST_ABSENT ? "cannot answer those" : "is not known to answer those");
	f->needed = "10-Bit Tag Completer at whatever it asks, or 10-Bit Tag Requester off";
	f->fix = known == HOST_ABSENT ? "10-bit tags off in firmware; or, while nothing uses it, " : "read the host as root";
	if (known == HOST_ABSENT)
		f->fix = text(c, "%s%s", f->fix, by_hand(c, i, PCI_EXP_DEVCTL2, 0, DEVCTL2_TAG10));
}

/* Of a port: what is below goes down with it, and what was set there is gone. */
static void check_power(struct check *c, uint32_t i)
{
	const struct host_facts *f = facts(c->t, i);
	bool is_auto = f->power_control && strcmp(f->power_control, "auto") == 0;
	struct plan_settings_finding *found;
	char name[BDF_TEXT_MAX];

	if (f->d3cold_allowed == 0 || (f->power_control && !is_auto))
		return;
	found = find(c, "settings.power", is_auto && f->d3cold_allowed > 0 ? PLAN_SETTINGS_SLOW : PLAN_SETTINGS_UNKNOWN, i);
	found->observed = found->level == PLAN_SETTINGS_UNKNOWN ?
			  "whether it may go to D3cold by itself is not known" :
			  "it may go to D3cold by itself, when all below it sleeps: what was set there and below is lost then";
	found->needed = "power/control on, or d3cold_allowed 0";
	found->set = true;
	(void)name_of(name, c->t, i);
	found->fix = text(c, "echo on > /sys/bus/pci/devices/%s/power/control", name);
}

static void check_function(struct check *c, uint32_t i)
{
	static void (*const rules[])(struct check *c, uint32_t i) = {
		check_relaxed, check_readrq, check_payload, check_extended, check_tag10,
	};

	if (is_unread(c, i))
		return;
	for (size_t k = 0; k < ARRAY_SIZE(rules); k++)
		rules[k](c, i);
}

/* ---- the functions and what is above them --------------------------------------------------------------- */

static int by_node(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static size_t once(uint32_t *list, size_t n)
{
	size_t k = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_node);
	for (size_t i = 0; i < n; i++)
		if (k == 0 || list[k - 1] != list[i])
			list[k++] = list[i];
	return k;
}

/* Nodes are in BDF order. Room for all of the topology. */
static size_t nodes(uint32_t *ret, const struct topo *t, const struct bdf *fn, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t at = topo_find(t, fn[i]);

		if (at != TOPO_NONE && k < topo_count(t))
			ret[k++] = at;
	}
	return once(ret, k);
}

static size_t all_nodes(uint32_t *ret, const struct topo *t)
{
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++)
		if (facts(t, i)->kind == HOST_GPU || facts(t, i)->kind == HOST_NIC)
			ret[n++] = i;
	return n;
}

static size_t ports_above(uint32_t *ret, const struct topo *t, const uint32_t *fn, size_t n, struct arena *arena)
{
	bool *seen = arena_array(arena, topo_count(t), sizeof(*seen));
	size_t k = 0;

	for (size_t i = 0; seen && i < n; i++)
		for (uint32_t up = topo_at(t, fn[i])->parent; up != TOPO_NONE && !seen[up]; up = topo_at(t, up)->parent) {
			seen[up] = true;
			ret[k++] = up;
		}
	return seen ? once(ret, k) : SIZE_MAX;
}

#define RULES_MAX 8 /* findings of one function */

int plan_settings_check(struct plan_settings_finding **ret, size_t *n, const struct topo *t, const struct bdf *fn,
			size_t nfn, struct arena *arena)
{
	uint32_t *at = arena_array(arena, topo_count(t), sizeof(*at)), *port = arena_array(arena, topo_count(t), sizeof(*port));
	struct check c = { .t = t, .fn = at, .whole = !fn, .arena = arena };
	size_t nports;

	if (!at || !port)
		return -ENOMEM;
	c.nfn = fn ? nodes(at, t, fn, nfn) : all_nodes(at, t);
	nports = ports_above(port, t, at, c.nfn, arena);
	c.found = nports == SIZE_MAX ? NULL : arena_array(arena, c.nfn * RULES_MAX + nports, sizeof(*c.found));
	if (!c.found)
		return -ENOMEM;
	for (size_t i = 0; i < c.nfn; i++)
		check_function(&c, at[i]);
	for (size_t i = 0; i < nports; i++)
		check_power(&c, port[i]);
	*ret = c.found;
	*n = c.n;
	return c.r;
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

struct making {
	const struct plan_settings_bundle *b;
	struct plan_settings_step         *step;
	size_t                             n;
	struct arena                      *arena;
	int                                r;
};

static void add(struct making *m, enum plan_step_kind kind, uint32_t i, const char *from, const char *to, bool early)
{
	if (!from || !to)
		m->r = -ENOMEM;
	m->step[m->n++] = (struct plan_settings_step){ .kind = kind, .bdf = topo_at(m->b->topo, i)->fn->bdf, .from = from,
						       .to = to, .early = early };
}

static bool is_held(const struct making *m, enum plan_step_kind kind, uint32_t i)
{
	for (size_t k = 0; k < m->b->nheld; k++)
		if (m->b->held[k].kind == kind && bdf_eq(m->b->held[k].bdf, topo_at(m->b->topo, i)->fn->bdf))
			return true;
	return false;
}

/* vfio-pci lets what it is bound to sleep, whatever was set before (vfio_pci_core_register_device(),
 * drivers/vfio/pci/vfio_pci_core.c). */
static void add_power(struct making *m, uint32_t i, bool bound)
{
	const struct host_facts *f = facts(m->b->topo, i);
	const char *control = bound ? "auto" : f->power_control ? f->power_control : "unknown";
	const char *d3cold = f->d3cold_allowed < 0 ? "-" : f->d3cold_allowed ? "1" : "0";

	if (strcmp(control, "on") != 0 || is_held(m, PLAN_STEP_POWER, i))
		add(m, PLAN_STEP_POWER, i, arena_printf(m->arena, "%s,%s", control, d3cold), PLAN_POWER_AWAKE, !bound);
}

static void add_word(struct making *m, enum plan_step_kind kind, uint32_t i, uint16_t from, uint16_t to)
{
	if (from != to || is_held(m, kind, i))
		add(m, kind, i, arena_printf(m->arena, "0x%04x", from), arena_printf(m->arena, "0x%04x", to), false);
}

static void add_devctl(struct making *m, uint32_t i)
{
	const struct topo *t = m->b->topo;
	const struct pcicap *c = cap_of(t, i);
	uint16_t to = c->devctl;

	if (!c->dev_known)
		return;
	if (!forbids_relaxed(t, i))
		to |= PCI_EXP_DEVCTL_RELAX_EN;
	if (!forbids_readrq(t, i) && readrq(to) < READRQ_MAX)
		to = (uint16_t)((to & ~PCI_EXP_DEVCTL_READRQ) | READRQ_MAX << 12);
	if (facts(t, i)->kind == HOST_GPU && c->devcap & PCI_EXP_DEVCAP_EXT_TAG && extended_tags_work(t, i))
		to |= PCI_EXP_DEVCTL_EXT_TAG;
	add_word(m, PLAN_STEP_DEVCTL, i, c->devctl, to);
}

static void add_devctl2(struct making *m, uint32_t i, const uint32_t *fn, size_t nfn)
{
	const struct topo *t = m->b->topo;
	const struct pcicap *c = cap_of(t, i);
	uint16_t to = c->devctl2;
	uint32_t at;

	if (!c->dev2_known || facts(t, i)->kind != HOST_GPU)
		return;
	if (c->devcap2 & DEVCAP2_REQUESTER && tag10_completers(t, &at, i, fn, nfn) == HOST_PRESENT)
		to |= DEVCTL2_TAG10;
	add_word(m, PLAN_STEP_DEVCTL2, i, c->devctl2, to);
}

int plan_settings_steps(struct plan_settings_step **ret, size_t *n, const struct plan_settings_bundle *b,
			struct arena *arena)
{
	struct making m = { .b = b, .arena = arena };
	size_t count = topo_count(b->topo), nfn, nports;
	struct bdf *both = arena_array(arena, b->ngpus + b->npfs, sizeof(*both));
	uint32_t *fn = arena_array(arena, count, sizeof(*fn)), *port = arena_array(arena, count, sizeof(*port));

	if (!both || !fn || !port)
		return -ENOMEM;
	for (size_t i = 0; i < b->ngpus + b->npfs; i++)
		both[i] = i < b->ngpus ? b->gpu[i] : b->pf[i - b->ngpus];
	nfn = nodes(fn, b->topo, both, b->ngpus + b->npfs);
	nports = ports_above(port, b->topo, fn, nfn, arena);
	m.step = nports == SIZE_MAX ? NULL : arena_array(arena, nports + b->ncompanions + 3 * nfn, sizeof(*m.step));
	if (!m.step)
		return -ENOMEM;
	for (size_t i = 0; i < nports; i++)
		add_power(&m, port[i], false);
	for (size_t i = 0; i < nfn; i++)
		if (facts(b->topo, fn[i])->kind != HOST_GPU)
			add_power(&m, fn[i], false);
	for (size_t i = 0; i < nfn; i++)
		if (facts(b->topo, fn[i])->kind == HOST_GPU)
			add_power(&m, fn[i], true);
	for (size_t i = 0; i < b->ncompanions; i++)
		if (topo_find(b->topo, b->companion[i]) != TOPO_NONE)
			add_power(&m, topo_find(b->topo, b->companion[i]), true);
	for (size_t i = 0; i < nfn; i++)
		add_devctl(&m, fn[i]);
	for (size_t i = 0; i < nfn; i++)
		add_devctl2(&m, fn[i], fn, nfn);
	*ret = m.step;
	*n = m.n;
	return m.r;
}
