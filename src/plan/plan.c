/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a request to a plan: candidates, search, bundle, steps; or the reasons why there is none. */
#include "plan/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "base/strtab.h"
#include "plan/memo.h"
#include "plan/place.h"
#include "plan/reset.h"
#include "plan/settings.h"

static const char *const step_names[PLAN_STEP_MAX_] = {
	[PLAN_STEP_DISK] = "disk",
	[PLAN_STEP_SEED] = "seed",
	[PLAN_STEP_IMAGE] = "image",
	[PLAN_STEP_VFIO] = "vfio",
	[PLAN_STEP_AUTOPROBE] = "autoprobe",
	[PLAN_STEP_VF_COUNT] = "vf-count",
	[PLAN_STEP_BIND] = "bind",
	[PLAN_STEP_LEND] = "lend",
	[PLAN_STEP_SCRUB] = "scrub",
	[PLAN_STEP_RESET] = "reset",
	[PLAN_STEP_VF] = "vf",
	[PLAN_STEP_POWER] = "power",
	[PLAN_STEP_DEVCTL] = "devctl",
	[PLAN_STEP_DEVCTL2] = "devctl2",
	[PLAN_STEP_ACS] = "acs",
	[PLAN_STEP_PARTITION] = "partition",
	[PLAN_STEP_DOMAIN] = "domain",
};

const char *plan_step_text(enum plan_step_kind k)
{
	return strtab_text(step_names, PLAN_STEP_MAX_, (int)k);
}

int plan_step_parse(const char *text)
{
	return strtab_find(step_names, PLAN_STEP_MAX_, text);
}

bool plan_step_of_function(enum plan_step_kind k)
{
	return k != PLAN_STEP_DISK && k != PLAN_STEP_SEED && k != PLAN_STEP_IMAGE && k != PLAN_STEP_VFIO && k != PLAN_STEP_PARTITION && k != PLAN_STEP_DOMAIN;
}

struct plan *plan_free(struct plan *p)
{
	if (p) {
		json_object_put(p->rank_map);
		arena_done(&p->arena);
		free(p);
	}
	return NULL;
}

static const char *text_or_empty(const char *s)
{
	return s ? s : "";
}

void place_reason(struct plan *p, const char *rule, struct bdf device, const char *needed, const char *fmt, ...)
{
	struct plan_reason *r = &p->reason[p->nreasons];
	char text[BDF_TEXT_MAX];
	va_list ap;

	if (p->nreasons == PLAN_REASONS_MAX)
		return;
	va_start(ap, fmt);
	*r = (struct plan_reason){
		.rule = rule,
		.device = bdf_is_none(device) ? "" : text_or_empty(arena_strdup(&p->arena, bdf_text(text, device))),
		.observed = text_or_empty(arena_vprintf(&p->arena, fmt, ap)),
		.needed = needed,
	};
	va_end(ap);
	p->nreasons++;
}

/* ---- why not ------------------------------------------------------------------------------------ */

/* The kernel uses AMD's and Arm's without being told. */
const char *plan_iommu_fix(const struct inventory *inv)
{
	if (inv->virtual == HOST_PRESENT)
		return "a virtual IOMMU, which only the host of this virtual machine can give it (QEMU: -device "
		       "intel-iommu,caching-mode=on; in the guest intel_iommu=on)";
	if (strstr(inv->cpu_vendor, "AMD"))
		return "AMD-Vi on in the BIOS, and iommu=pt on the kernel command line";
	if (strcmp(inv->cpu_vendor, "ARM") == 0)
		return "the SMMU on in the firmware's setup";
	return "VT-d on in the BIOS, and intel_iommu=on iommu=pt on the kernel command line; then a reboot";
}

/* Nobody is beside an exclusive guest. */
static bool not_alone(struct place *p)
{
	for (size_t i = 0; i < p->in->nrooms; i++) {
		const struct plan_room *o = &p->in->room[i];

		if (place_gone(p, o->owner))
			continue;
		if (o->exclusive)
			place_reason(p->plan, "host.exclusive", BDF_NONE, "that guest deleted, or another host", "%s has the whole host", o->owner);
		else if (p->in->request->exclusive)
			place_reason(p->plan, "host.shared", BDF_NONE, "it deleted, or another host", "%s is there, and the whole host is wanted", o->owner);
		else
			continue;
		return true;
	}
	return false;
}

/* The IOMMU is off, or has no groups: nothing can be passed through, and one reason is enough. */
static bool iommu_off(struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);

	if (!p->gpus && !p->in->request->vfs && !p->in->request->nvme)
		return false;
	for (size_t i = 0; i < inv->nfn; i++)
		if (inv->fn[i].iommu_group >= 0)
			return false;
	place_reason(p->plan, "iommu.off", BDF_NONE, plan_iommu_fix(inv), "no function of this %s has an IOMMU group: %s",
		     inv->virtual == HOST_PRESENT ? "virtual machine" : "host",
		     inv->virtual == HOST_PRESENT ? "it has no IOMMU, or that is off" : "the IOMMU is off");
	return true;
}

/* ---- the bundle --------------------------------------------------------------------------------- */

static int by_bdf(const void *a, const void *b)
{
	return bdf_cmp(*(const struct bdf *)a, *(const struct bdf *)b);
}

static void take_vfs(struct place *p)
{
	const struct place_choice *c = &p->best;
	struct plan *plan = p->plan;
	uint16_t next[PLACE_NICS_MAX] = { 0 };

	for (uint32_t v = 0; v < c->nvfs; v++) {
		const struct place_nic *nic = &p->nic[c->vf_nic[v]];
		bool has_gpu = c->vf_gpu[v] != 0xff;
		uint16_t k = next[c->vf_nic[v]]++;

		plan->vf[plan->nvfs++] = (struct plan_vf){
			.bdf = nic->vf[k],
			.pf = topo_at(p->in->topo, nic->node)->fn->bdf,
			.index = nic->index[k],
			.gpu = has_gpu ? plan->gpu[c->vf_gpu[v]] : BDF_NONE,
			.path = has_gpu ? (enum topo_class)p->path[c->gpu[c->vf_gpu[v]]][c->vf_nic[v]] : TOPO_SELF,
			.exists = nic->exists,
		};
	}
}

/* Other functions of a GPU's device that share its group: they go along, in the same slot. */
static int take_companions(struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	struct plan *plan = p->plan;

	plan->companion = arena_array(&plan->arena, plan->ngpus * 8, sizeof(*plan->companion));
	for (size_t g = 0; g < plan->ngpus && plan->companion; g++) {
		const struct host_function *gpu = host_function_find(inv, plan->gpu[g]);

		for (unsigned f = 0; f < 8; f++) {
			struct bdf b = gpu->bdf;
			const struct host_function *fn;

			b.devfn = (uint8_t)((b.devfn & ~7u) | f);
			fn = host_function_find(inv, b);
			if (fn && fn != gpu && fn->iommu_group == gpu->iommu_group && fn->facts->kind != HOST_GPU)
				plan->companion[plan->ncompanions++] = (struct plan_companion){ .bdf = b, .of = gpu->bdf };
		}
	}
	return plan->companion ? 0 : -ENOMEM;
}

static void take_partition(struct place *p)
{
	const struct plan_partition *of;
	uint64_t set = 0;

	for (uint32_t g = 0; g < p->best.ngpus; g++)
		set |= UINT64_C(1) << p->best.gpu[g];
	of = plan_partition_of(&p->partitions, set);
	p->plan->partitioned = of && of->id >= 0;
	p->plan->partition = p->plan->partitioned ? (unsigned)of->id : 0;
}

static int take(struct place *p)
{
	struct plan *plan = p->plan;
	int r;

	take_partition(p);
	for (uint32_t g = 0; g < p->best.ngpus; g++) {
		const struct host_function *fn = topo_at(p->in->topo, p->gpu[p->best.gpu[g]].node)->fn;

		plan->gpu_node[plan->ngpus] = fn->facts->numa_node;
		plan->gpu[plan->ngpus++] = fn->bdf;
	}
	take_vfs(p);
	plan->worst_path = p->best.worst_path;
	plan->gpu_path = p->best.gpu_path;
	place_take_extras(p);
	r = place_cells(p, p->best.nodes);
	return r < 0 ? r : take_companions(p);
}

/* ---- the steps ---------------------------------------------------------------------------------- */

static int add_step(struct plan *plan, enum plan_step_kind kind, struct bdf bdf, const char *target,
		    const char *from, const char *to)
{
	struct plan_step *s = &plan->step[plan->nsteps++];
	char text[BDF_TEXT_MAX];

	*s = (struct plan_step){
		.kind = kind,
		.bdf = bdf,
		.target = arena_strdup(&plan->arena, target ? target : bdf_text(text, bdf)),
		.from = from && *from ? arena_strdup(&plan->arena, from) : "(none)",
		.to = to,
	};
	return s->target && s->from && s->to ? 0 : -ENOMEM;
}

/* One step per NIC port that gives VFs. It stands there also when the VFs exist: then it changes nothing,
 * but whoever gives the port back last knows that others still held it. */
static int add_vf_count(struct place *p, uint32_t n)
{
	const struct host_function *pf = topo_at(p->in->topo, p->nic[n].node)->fn;
	struct plan *plan = p->plan;
	const char *from = arena_printf(&plan->arena, "%u", pf->facts->numvfs);
	const char *to = arena_printf(&plan->arena, "%u", p->nic[n].exists ? pf->facts->numvfs : p->nic[n].make);

	return add_step(plan, PLAN_STEP_VF_COUNT, pf->bdf, NULL, from, to);
}

static bool is_companion(const struct plan *p, struct bdf bdf)
{
	for (size_t i = 0; i < p->ncompanions; i++)
		if (bdf_eq(p->companion[i].bdf, bdf))
			return true;
	return false;
}

/* A GPU's audio that has no reset of its own goes without: it has nothing to hide, and its GPU is the one that counts. */
static bool has_reset(const struct place *p, struct bdf bdf)
{
	const struct host_function *fn = host_function_find(topo_inventory(p->in->topo), bdf);
	const struct plan_reset_in in = { .methods = fn && fn->facts->reset_methods ? fn->facts->reset_methods : "", .fn = bdf,
					  .bus = p->plan->gpu, .nbus = p->plan->ngpus };
	struct bdf hit;

	return !is_companion(p->plan, bdf) || plan_reset_choose(&hit, &in) == PLAN_RESET_FUNCTION;
}

/* What a reset step is shown to come back by, where that is not a reset of its own. VFs have that (PCIe 6.0, 6.6.2); theirs is not read. */
static const char *reset_from(const struct place *p, struct bdf bdf, const struct bdf *all, size_t n)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	const struct host_function *fn = host_function_find(inv, bdf), *o;
	struct plan_reset_in in = { .fn = bdf, .mine = all, .nmine = n };
	struct bdf bus[256], hit; /* a bus has no more, with ARI */

	if (!fn || fn->facts->is_vf || !fn->facts->reset_methods)
		return "reset";
	for (o = fn; o > inv->fn && o[-1].bdf.domain == bdf.domain && o[-1].bdf.bus == bdf.bus; o--)
		;
	for (; o < inv->fn + inv->nfn && o->bdf.domain == bdf.domain && o->bdf.bus == bdf.bus && in.nbus < ARRAY_SIZE(bus); o++)
		if (o != fn && !o->facts->is_vf)
			bus[in.nbus++] = o->bdf;
	in.methods = fn->facts->reset_methods;
	in.bus = bus;
	switch (plan_reset_choose(&hit, &in)) {
	case PLAN_RESET_NONE:
		return "none";
	case PLAN_RESET_BUS:
	case PLAN_RESET_TOGETHER:
		return "bus";
	case PLAN_RESET_HITS:
		return "shared";
	default:
		return "reset";
	}
}

/* Reverted from the last to the first, so that all are reset side by side, then scrubbed, then verified. */
static int add_lends(struct place *p, const struct bdf *all, size_t n)
{
	static const struct {
		enum plan_step_kind kind;
		const char         *from, *to;
	} steps[] = {
		{ PLAN_STEP_LEND, "clean", "lent" },
		{ PLAN_STEP_SCRUB, "scrubbed", "used" },
		{ PLAN_STEP_RESET, "reset", "used" },
	};
	int r = 0;

	for (size_t k = 0; k < ARRAY_SIZE(steps); k++)
		for (size_t i = 0; i < n && r == 0; i++)
			if ((steps[k].kind != PLAN_STEP_SCRUB || p->in->policy.scrub) &&
			    (steps[k].kind != PLAN_STEP_RESET || has_reset(p, all[i])))
				r = add_step(p->plan, steps[k].kind, all[i], NULL,
					     steps[k].kind == PLAN_STEP_RESET ? reset_from(p, all[i], all, n) : steps[k].from, steps[k].to);
	return r;
}

static int add_binds(struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	struct plan *plan = p->plan;
	size_t n = 0;
	struct bdf *all = arena_array(&plan->arena, plan->ngpus + plan->ncompanions + plan->nvfs + plan->nextras, sizeof(*all));
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < plan->ngpus; i++)
		all[n++] = plan->gpu[i];
	for (size_t i = 0; r == 0 && i < plan->ncompanions; i++)
		all[n++] = plan->companion[i].bdf;
	for (size_t i = 0; r == 0 && i < plan->nvfs; i++)
		all[n++] = plan->vf[i].bdf;
	for (size_t i = 0; r == 0 && i < plan->nextras; i++)
		all[n++] = plan->extra[i].bdf;
	if (r == 0 && n)
		qsort(all, n, sizeof(*all), by_bdf);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct host_function *fn = host_function_find(inv, all[i]);

		r = add_step(plan, PLAN_STEP_BIND, all[i], NULL, fn ? host_driver_of(inv, fn) : "(new)", "vfio-pci");
	}
	return r < 0 ? r : add_lends(p, all, n);
}

/* An address of its own: what a port is that says nothing of itself shows when the step is done. */
static struct plan_vf_settings vf_settings(const struct place *p, size_t i)
{
	const struct plan_request *req = p->in->request;
	struct plan_vf_settings s = { 0 };
	uint32_t address;

	if (req->nvf_sets)
		s = req->vf[req->nvf_sets == 1 ? 0 : i];
	address = s.has & PLAN_VF_GUIDS || place_is_infiniband(topo_inventory(p->in->topo), p->plan->vf[i].pf) ? PLAN_VF_GUIDS :
		  PLAN_VF_BIT(PLAN_VF_MAC);
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (address & ~s.has & PLAN_VF_BIT(a))
			s.value[a] = PLAN_VF_AUTO;
	s.has |= address;
	return s;
}

static int add_vfs(struct place *p)
{
	struct plan *plan = p->plan;
	char text[PLAN_VF_TEXT_MAX];
	int r = 0;

	for (size_t i = 0; i < plan->nvfs && r == 0; i++) {
		plan->vf[i].set = vf_settings(p, i);
		r = add_step(plan, PLAN_STEP_VF, plan->vf[i].bdf, NULL, plan->vf[i].exists ? "(unread)" : "(new)",
			     arena_strdup(&plan->arena, plan_vf_text(text, &plan->vf[i].set)));
	}
	return r;
}

static int add_acs(struct place *p)
{
	struct plan *plan = p->plan;
	int r = 0;

	for (size_t i = 0; p->acs && i < p->acs->nwrites && r == 0; i++) {
		const struct plan_acs_write *w = &p->acs->write[i];

		r = add_step(plan, PLAN_STEP_ACS, w->port, NULL, arena_printf(&plan->arena, "0x%02x", w->from),
			     arena_printf(&plan->arena, "0x%02x", w->to));
	}
	return r;
}

static int add_settings(struct place *p, bool early)
{
	int r = 0;

	for (size_t i = 0; i < p->nsettings && r == 0; i++)
		if (p->settings[i].early == early)
			r = add_step(p->plan, p->settings[i].kind, p->settings[i].bdf, NULL, p->settings[i].from, p->settings[i].to);
	return r;
}

/* First of all: what is wrong with an image shows before a device was touched. */
static int add_disks(struct plan *plan, const struct plan_seed *s, const char *name)
{
	char size[SIZE_TEXT_MAX] = "";
	int r = 0;

	if (s->disk_size)
		(void)size_text(size, s->disk_size);
	if (s->image)
		r = add_step(plan, PLAN_STEP_DISK, BDF_NONE, arena_printf(&plan->arena, "%s.disk", name), "absent",
			     arena_printf(&plan->arena, "%s%s%s", s->image, *size ? " " : "", size));
	for (size_t i = 0; i < s->ndisks && r == 0; i++)
		r = add_step(plan, PLAN_STEP_DISK, BDF_NONE, arena_printf(&plan->arena, "%s.data%zu", name, i), "absent",
			     arena_strdup(&plan->arena, size_text(size, s->disk[i])));
	if (plan_seed_wanted(s) && r == 0)
		r = add_step(plan, PLAN_STEP_SEED, BDF_NONE, arena_printf(&plan->arena, "%s.seed", name), "absent", "written");
	return r;
}

static int make_steps(struct place *p)
{
	const struct inventory *inv = topo_inventory(p->in->topo);
	struct plan *plan = p->plan;
	bool used[PLACE_NICS_MAX] = { false };
	const char *name = *p->in->request->name ? p->in->request->name : "(unnamed)";
	int r = 0;

	plan->step = arena_array(&plan->arena, 5 + PLAN_DISKS_MAX + PLACE_NICS_MAX + plan->nvfs + 4 * (plan->ngpus + plan->ncompanions + plan->nvfs + plan->nextras) +
					       p->nsettings + (p->acs ? p->acs->nwrites : 0), sizeof(*plan->step));
	if (!plan->step)
		return -ENOMEM;
	r = add_disks(plan, &p->in->request->seed, name);
	if (plan->ngpus + plan->nvfs + plan->nextras && r == 0)
		r = add_step(plan, PLAN_STEP_VFIO, BDF_NONE, "vfio-pci", inv->vfio_pci == HOST_PRESENT ? "loaded" : inv->vfio_pci == HOST_ABSENT ? "absent" : "unknown",
			     "loaded");
	for (uint32_t v = 0; v < p->best.nvfs; v++)
		used[p->best.vf_nic[v]] = true;
	for (uint32_t n = 0; n < p->nnics && r == 0; n++)
		if (used[n])
			r = add_vf_count(p, n);
	if (r == 0)
		r = add_settings(p, true);
	if (r == 0)
		r = add_binds(p);
	if (r == 0)
		r = add_vfs(p);
	if (r == 0)
		r = add_settings(p, false);
	if (r == 0)
		r = add_acs(p);
	if (r == 0 && plan->partitioned)
		r = add_step(plan, PLAN_STEP_PARTITION, BDF_NONE, arena_printf(&plan->arena, "%u", plan->partition), "inactive", "active");
	if (r == 0)
		r = add_step(plan, PLAN_STEP_DOMAIN, BDF_NONE, name, "absent", "running");
	return r;
}

struct place *place_close(struct place *p)
{
	if (p) {
		plan_acs_free(p->candidates);
		plan_acs_free(p->acs);
		memo_done(p->memo, p->host, p->lent);
		free(p);
	}
	return NULL;
}

static void take_back(struct plan *plan)
{
	plan->ngpus = plan->nvfs = plan->ncompanions = plan->nextras = plan->ncells = plan->nmoved = plan->nnotes = 0;
}

/* The bundle that was found, unless its routes forbid it. */
static int settle(struct place *p, struct error *err)
{
	struct plan *plan = p->plan;
	int r;

	p->refused = p->learnt = false;
	r = take(p);
	if (r == 0)
		r = place_routes(p, err);
	plan->fits = r == 0 && !p->refused;
	if (!plan->fits) {
		take_back(plan);
		return r;
	}
	plan->nreasons = 0; /* what was left out does not matter: others were chosen */
	place_why_this(p);
	place_losses(p);
	r = place_settings(p);
	return r < 0 ? r : make_steps(p);
}

/* The best bundle that its routes allow. One that they forbid tells what else they would, and the search goes on. */
static int find(struct place *p, struct error *err)
{
	bool again = place_solve(p), refused = again;
	int r = 0;

	if (!again)
		place_why_not(p);
	else
		p->plan->nreasons = 0;
	while (r == 0 && again) {
		r = settle(p, err);
		refused = r == 0 && !p->plan->fits;
		again = refused && p->learnt && place_solve(p);
	}
	if (refused)
		place_nearest(p);
	return r;
}

int place_open(struct place **ret, struct plan *plan, const struct plan_input *in, struct error *err)
{
	auto_(place_close) struct place *p = calloc(1, sizeof(*p));
	int r = 0;

	if (!p)
		return error_set(err, -ENOMEM, "no memory for a plan");
	p->in = in;
	p->memo = in->memo;
	p->host = calloc(1, sizeof(*p->host));
	if (!p->host)
		return error_set(err, -ENOMEM, "no memory for a plan");
	p->plan = plan;
	plan->generation = topo_generation(in->topo);
	plan->exclusive = in->request->exclusive;
	plan->host_cores = in->policy.host_cores;
	plan->root_ports = in->request->root_ports;
	p->gpus = place_gpus_wanted(p);
	p->off = not_alone(p) || iommu_off(p);
	if (!p->off)
		r = place_candidates(p, err);
	if (!p->off && r == 0)
		r = place_prepare(p, err);
	if (r < 0)
		return r;
	if (!p->off)
		place_ask(p);
	*ret = steal(p);
	return 0;
}

int plan_make(struct plan **ret, const struct plan_input *in, struct error *err)
{
	auto_(plan_free) struct plan *plan = calloc(1, sizeof(*plan));
	auto_(place_close) struct place *p = NULL;
	int r = plan ? place_open(&p, plan, in, err) : error_set(err, -ENOMEM, "no memory for a plan");

	if (r < 0)
		return r;
	if (!p->off)
		r = find(p, err);
	if (r < 0)
		return err->code ? r : error_set(err, r, "no memory for a plan");
	*ret = steal(plan);
	return 0;
}

void plan_take(struct plan_taken *taken, size_t *n, const struct plan *p, const char *owner)
{
	for (size_t i = 0; i < p->ngpus; i++)
		taken[(*n)++] = (struct plan_taken){ p->gpu[i], owner };
	for (size_t i = 0; i < p->nvfs; i++)
		taken[(*n)++] = (struct plan_taken){ p->vf[i].bdf, owner };
	for (size_t i = 0; i < p->nextras; i++)
		taken[(*n)++] = (struct plan_taken){ p->extra[i].bdf, owner };
	for (size_t i = 0; i < p->ncompanions; i++)
		taken[(*n)++] = (struct plan_taken){ p->companion[i].bdf, owner };
}
