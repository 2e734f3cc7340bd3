/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A port's group of steps: no driver of the host for its VFs, the VFs, each of them to vfio-pci. A device's: it, and what has to go
 * along with it, to vfio-pci. A drive that a driver of the host has is left alone: it may be in use (plan/extras). */
#include "plan/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/place.h"

struct maker {
	const struct plan_pool_in *in;
	const struct inventory    *inv;
	struct plan_pool          *p;
	int64_t                    next; /* number */
};

static void new_group(struct maker *m)
{
	m->next = (m->next / PLAN_POOL_GROUP + 1) * PLAN_POOL_GROUP;
}

static int skip(struct maker *m, struct bdf bdf, const char *why)
{
	m->p->skip[m->p->nskips++] = (struct plan_pool_skip){ bdf, why };
	return why ? 0 : -ENOMEM;
}

/* ---- who is meant --------------------------------------------------------------------------------------- */

static bool is_meant(const struct maker *m, const struct plan_pool_word *w, uint32_t at)
{
	const struct host_function *fn = topo_at(m->in->topo, at)->fn;

	switch (w->what) {
	case PLAN_POOL_ALL:
		return true;
	case PLAN_POOL_KIND:
		return fn->facts->kind == w->kind;
	case PLAN_POOL_BDF:
		return bdf_eq(fn->bdf, w->bdf);
	case PLAN_POOL_RAIL:
		return topo_at(m->in->topo, at)->rail == w->rail;
	case PLAN_POOL_MODEL:
	default:
		return plan_model_is(m->in->policy, &w->model, fn->facts->vendor, fn->facts->device);
	}
}

/* The last word counts. 0: none. */
static uint16_t vfs_of(const struct maker *m, uint32_t at)
{
	uint16_t n = 0;

	for (size_t i = 0; i < m->in->conf->nvfs; i++)
		if (is_meant(m, &m->in->conf->vfs[i], at))
			n = m->in->conf->vfs[i].vfs;
	return n;
}

/* VFs by kind are those of the pool's ports. */
static bool is_bound(const struct maker *m, uint32_t at)
{
	const struct host_facts *f = topo_at(m->in->topo, at)->fn->facts;

	for (size_t i = 0; i < m->in->conf->nbind; i++) {
		const struct plan_pool_word *w = &m->in->conf->bind[i];

		if ((f->kind != HOST_VF || w->what == PLAN_POOL_BDF) && is_meant(m, w, at))
			return true;
	}
	return false;
}

static bool binds_vf(const struct maker *m, struct bdf vf)
{
	for (size_t i = 0; i < m->in->conf->nbind; i++) {
		const struct plan_pool_word *w = &m->in->conf->bind[i];

		if ((w->what == PLAN_POOL_KIND && w->kind == HOST_VF) || (w->what == PLAN_POOL_BDF && bdf_eq(w->bdf, vf)))
			return true;
	}
	return false;
}

static bool is_sick(const struct maker *m, struct bdf bdf)
{
	for (size_t i = 0; i < m->in->nsick; i++)
		if (bdf_eq(m->in->sick[i].bdf, bdf))
			return true;
	return false;
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

static int add(struct maker *m, enum plan_step_kind kind, struct bdf bdf, const char *target, const char *from, const char *to)
{
	struct plan_pool *p = m->p;
	char text[BDF_TEXT_MAX];

	p->number[p->n] = m->next++;
	p->step[p->n] = (struct plan_step){ .kind = kind, .bdf = bdf, .from = from && *from ? from : "(none)", .to = to,
					    .target = arena_strdup(&p->arena, target ? target : bdf_text(text, bdf)) };
	return to && p->step[p->n++].target ? 0 : -ENOMEM;
}

/* NULL: it may be given to vfio-pci. */
static const char *unfit(struct maker *m, const struct host_function *fn)
{
	const struct host_function *stranger = plan_group_stranger(m->in->topo, fn);
	const char *driver = host_driver_of(m->inv, fn);
	char text[BDF_TEXT_MAX];

	if (is_sick(m, fn->bdf))
		return "it is in quarantine";
	if (fn->facts->cap.dead)
		return "its config space reads as ff; reset or power-cycle it";
	if (fn->iommu_group < 0)
		return "it is in no IOMMU group; enable the IOMMU";
	if (stranger)
		return arena_printf(&m->p->arena, "its IOMMU group also has %s, which would have to go along", bdf_text(text, stranger->bdf));
	if (!driver)
		return "its driver is unknown, and could not be given back";
	if (fn->facts->numvfs_known && fn->facts->numvfs)
		return "it has VFs, which its driver would take away";
	if (fn->facts->kind == HOST_NVME && *driver && strcmp(driver, "vfio-pci") != 0)
		return arena_printf(&m->p->arena, "driver %s of the host has it, and its disks may be in use; unbind it", driver);
	return NULL;
}

static int bind_one(struct maker *m, const struct host_function *fn)
{
	return add(m, PLAN_STEP_BIND, fn->bdf, NULL, host_driver_of(m->inv, fn), "vfio-pci");
}

/* With its other functions of one group, as a guest gets them. */
static int add_device(struct maker *m, const struct host_function *fn)
{
	const char *why = unfit(m, fn);
	int r;

	if (why)
		return skip(m, fn->bdf, why);
	new_group(m);
	r = bind_one(m, fn);
	for (size_t i = 0; r == 0 && i < m->inv->nfn && fn->facts->kind == HOST_GPU; i++) {
		const struct host_function *o = &m->inv->fn[i];

		if (o != fn && bdf_same_device(o->bdf, fn->bdf) && o->iommu_group == fn->iommu_group && o->facts->kind != HOST_GPU)
			r = is_sick(m, o->bdf) ? skip(m, o->bdf, "it is in quarantine") : bind_one(m, o);
	}
	return r;
}

static int add_vf(struct maker *m, const struct host_function *pf, uint16_t i)
{
	const struct host_function *vf;
	const char *why;
	struct bdf at;

	if (!bdf_add(&at, pf->bdf, pf->facts->cap.sriov.offset + (uint32_t)i * pf->facts->cap.sriov.stride) || !binds_vf(m, at))
		return 0;
	vf = host_function_find(m->inv, at);
	why = vf ? unfit(m, vf) : is_sick(m, at) ? "it is in quarantine" : NULL;
	if (why)
		return skip(m, at, why);
	return add(m, PLAN_STEP_BIND, at, NULL, vf ? host_driver_of(m->inv, vf) : "(new)", "vfio-pci");
}

/* How many VFs the port shall have; 0: none can be made, and that is said. */
static uint16_t count_of(struct maker *m, const struct host_function *pf, uint16_t want)
{
	const struct host_facts *f = pf->facts;
	const char *driver = host_driver_of(m->inv, pf);
	uint16_t most = f->cap.sriov.known == HOST_PRESENT ? f->cap.sriov.total : 0;
	uint16_t n = want < most ? want : most;

	if (is_sick(m, pf->bdf))
		(void)skip(m, pf->bdf, "it is in quarantine");
	else if (!most)
		(void)skip(m, pf->bdf, "it can have no VFs; enable SR-IOV in its firmware (NVIDIA: mlxconfig -d DEV set SRIOV_EN=1 NUM_OF_VFS=8)");
	else if (!f->numvfs_known)
		(void)skip(m, pf->bdf, "its VF count cannot be read");
	else if (!f->numvfs && (!driver || !*driver))
		(void)skip(m, pf->bdf, "it has no driver that could make VFs");
	else if (f->numvfs && f->numvfs != n)
		(void)skip(m, pf->bdf, arena_printf(&m->p->arena, "it has %u VFs instead of %u, and VFs can only be added to none; delete who uses them, "
						   "then velactl pool release, and pool apply", f->numvfs, n));
	else if (n < want)
		(void)skip(m, pf->bdf, arena_printf(&m->p->arena, "it can have %u VFs, not %u; raise the number in its firmware", most, want));
	return is_sick(m, pf->bdf) || !f->numvfs_known || (!f->numvfs && (!driver || !*driver)) ? 0 : f->numvfs ? f->numvfs : n;
}

static int add_port(struct maker *m, const struct host_function *pf, uint16_t want)
{
	uint16_t n = count_of(m, pf, want);
	int r;

	if (!n)
		return 0;
	new_group(m);
	r = add(m, PLAN_STEP_AUTOPROBE, pf->bdf, NULL, "(unread)", "0");
	if (r == 0)
		r = add(m, PLAN_STEP_VF_COUNT, pf->bdf, NULL, arena_printf(&m->p->arena, "%u", pf->facts->numvfs),
			arena_printf(&m->p->arena, "%u", n));
	for (uint16_t i = 0; r == 0 && i < n && i < PLAN_POOL_VFS_MAX; i++)
		r = add_vf(m, pf, i);
	return r;
}

/* ---- the plan ------------------------------------------------------------------------------------------- */

static bool of_pool_port(const struct maker *m, const struct host_function *vf)
{
	uint32_t pf = topo_find(m->in->topo, vf->facts->pf);

	return pf != TOPO_NONE && topo_at(m->in->topo, pf)->fn->facts->kind == HOST_NIC && vfs_of(m, pf);
}

static int make(struct maker *m)
{
	int r = m->in->conf->nbind ? add(m, PLAN_STEP_VFIO, BDF_NONE, "vfio-pci", m->inv->vfio_pci == HOST_PRESENT ? "loaded" : m->inv->vfio_pci ==
					 HOST_ABSENT ? "absent" : "unknown", "loaded") : 0;

	for (uint32_t i = 0; r == 0 && i < m->inv->nfn; i++)
		if (m->inv->fn[i].facts->kind == HOST_NIC && vfs_of(m, i))
			r = add_port(m, &m->inv->fn[i], vfs_of(m, i));
	for (uint32_t i = 0; r == 0 && i < m->inv->nfn; i++) {
		const struct host_function *fn = &m->inv->fn[i];
		enum host_kind k = fn->facts->kind;

		if ((k == HOST_GPU || k == HOST_NVME || (k == HOST_VF && !of_pool_port(m, fn))) && is_bound(m, i))
			r = add_device(m, fn);
	}
	return r;
}

int plan_pool_make(struct plan_pool **ret, const struct plan_pool_in *in, struct error *err)
{
	auto_(plan_pool_free) struct plan_pool *p = calloc(1, sizeof(*p));
	struct maker m = { .in = in, .inv = topo_inventory(in->topo), .p = p };
	size_t most = 1 + 2 * m.inv->nfn; /* a companion counts for its GPU as well */

	for (uint32_t i = 0; p && i < m.inv->nfn; i++)
		if (m.inv->fn[i].facts->kind == HOST_NIC && vfs_of(&m, i))
			most += 2 + PLAN_POOL_VFS_MAX;
	if (p) {
		p->step = arena_array(&p->arena, most, sizeof(*p->step));
		p->number = arena_array(&p->arena, most, sizeof(*p->number));
		p->skip = arena_array(&p->arena, most, sizeof(*p->skip));
	}
	if (!p || !p->step || !p->number || !p->skip || make(&m) < 0)
		return error_set(err, -ENOMEM, "no memory for the pool's plan");
	if (p->n == 1 && in->conf->nbind) /* the module alone is for nothing */
		p->n = 0;
	*ret = steal(p);
	return 0;
}

struct plan_pool *plan_pool_free(struct plan_pool *p)
{
	if (p) {
		arena_done(&p->arena);
		free(p);
	}
	return NULL;
}

bool plan_pool_is_so(const struct plan_pool *p)
{
	for (size_t i = 0; i < p->n; i++)
		if ((p->step[i].kind == PLAN_STEP_BIND || p->step[i].kind == PLAN_STEP_VF_COUNT) && strcmp(p->step[i].from, p->step[i].to) != 0)
			return false;
	return true;
}

struct json_object *plan_pool_json(const struct plan_pool *p, const struct plan_pool_conf *conf, struct json_object *held, const char *error,
				   uint64_t operation)
{
	struct json_object *steps = json_object_new_array(), *skipped = json_object_new_array();
	struct json_out o = json_out_new();

	for (size_t i = 0; i < p->n; i++)
		plan_step_append(&o, steps, &p->step[i]);
	for (size_t i = 0; i < p->nskips; i++) {
		struct json_out s = json_out_new();

		json_add_bdf(&s, "device", p->skip[i].bdf);
		json_add_string(&s, "why", p->skip[i].why);
		json_append_out(&o, skipped, &s);
	}
	json_add_made(&o, "steps", steps);
	json_add_made(&o, "skipped", skipped);
	json_add_bool(&o, "vfs_on_demand", conf->on_demand);
	json_add(&o, "held", held);
	json_add_string(&o, "error", error);
	if (operation)
		json_add_uint(&o, "operation", operation);
	else
		json_add(&o, "operation", NULL);
	return json_finish(&o);
}
