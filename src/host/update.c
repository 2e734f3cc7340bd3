/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An inventory of now from one of before, by reading only what changed. Names of functions come in; whether they
 * came, went or differ is read, never believed. Where the tree is odd (VFs that their PF's numbers do not lead
 * to, names twice), the answer is -ESTALE, and everything is read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/change.h"
#include "host/pci.h"
#include "host/read.h"

#define ENTRIES_MAX (2u * HOST_CHANGES_MAX)
#define DEPTH_MAX   256        /* inventories that borrow from each other, and so are all kept, */
#define RECORDS_MAX (1u << 18) /* and the records of functions in them: 6 MiB */

struct entry {
	struct bdf bdf;
	bool       anew, looked, there;
	char      *target; /* of its link below sys/bus/pci/devices */
};

struct update {
	struct pci_reader       rd;
	const struct inventory *old;
	struct entry           *at; /* sorted by BDF */
	size_t                  n, now;
	struct host_function   *fn; /* those that were read, in BDF order */
	size_t                  nfn;
	struct arena            scratch;
};

/* ---- the set ---------------------------------------------------------------------------------------- */

static struct entry *entry_find(struct update *u, struct bdf bdf, size_t *place)
{
	size_t lo = 0, hi = u->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (bdf_cmp(u->at[mid].bdf, bdf) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (place)
		*place = lo;
	return lo < u->n && bdf_eq(u->at[lo].bdf, bdf) ? &u->at[lo] : NULL;
}

static int entry_add(struct update *u, struct bdf bdf, bool anew)
{
	size_t i = 0;
	struct entry *e = entry_find(u, bdf, &i);

	if (e) {
		e->anew |= anew;
		return 0;
	}
	if (u->n == ENTRIES_MAX || i < u->now) /* too many; or behind those that were read: a VF before its PF */
		return -ESTALE;
	memmove(&u->at[i + 1], &u->at[i], (u->n - i) * sizeof(*u->at));
	u->at[i] = (struct entry){ .bdf = bdf, .anew = anew };
	u->n++;
	return 0;
}

static int look(struct update *u, struct entry *e)
{
	char target[HOST_PATH_MAX], name[BDF_TEXT_MAX];
	int r = pci_link(&u->rd, target, bdf_text(name, e->bdf));

	e->looked = true;
	if (r < 0)
		return r == -ENOENT ? 0 : -ESTALE;
	e->there = true;
	e->target = arena_strdup(&u->scratch, target);
	return e->target ? 0 : -ENOMEM;
}

/* A VF's coming and going is known by its PF's numbers, and a port is the parent of what is below it. */
static int add_kin(struct update *u, struct bdf bdf, bool there, bool anew)
{
	const struct host_function *was = host_function_find(u->old, bdf);
	bool vf = was && was->facts->is_vf;
	int r = 0;

	if (was && there)
		return vf && (anew || !was->facts->shared) ? entry_add(u, was->facts->pf, false) : 0;
	if (vf)
		return entry_add(u, was->facts->pf, false);
	if (was && !host_kind_is_bridge(was->facts->kind))
		return 0;
	for (size_t i = 0; i < u->old->nfn && r == 0; i++) {
		const struct host_function *fn = &u->old->fn[i];
		uint16_t index;

		if (bdf_eq(fn->facts->parent, bdf) ||
		    (!was && there && !fn->facts->is_vf && fn->facts->cap.sriov.known == HOST_PRESENT &&
		     pci_vf_index(&index, fn->bdf, fn->facts, bdf, fn->facts->cap.sriov.total)))
			r = entry_add(u, fn->bdf, false);
	}
	return r;
}

static int look_at_all(struct update *u)
{
	size_t before;
	int r = 0;

	do { /* until no kin is new */
		before = u->n;
		for (size_t i = 0; i < u->n && r == 0; i++) {
			if (u->at[i].looked)
				continue;
			r = look(u, &u->at[i]);
			if (r == 0)
				r = add_kin(u, u->at[i].bdf, u->at[i].there, u->at[i].anew);
		}
	} while (r == 0 && u->n != before);
	return r;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static const struct host_function *a_vf_of(const struct inventory *inv, struct bdf pf)
{
	for (size_t i = 0; i < inv->nfn; i++)
		if (inv->fn[i].facts->is_vf && bdf_eq(inv->fn[i].facts->pf, pf))
			return &inv->fn[i];
	return NULL;
}

/* The range of a PF that did not change, from one of its VFs. */
static int borrow_range(struct update *u, const struct host_facts *vf)
{
	const struct host_function *pf = host_function_find(u->old, vf->pf);
	struct pci_range *range;

	for (range = u->rd.range; range; range = range->next)
		if (bdf_eq(range->bdf, vf->pf))
			return 0;
	if (!pf || !vf->shared || entry_find(u, vf->pf, NULL))
		return -ESTALE;
	range = arena_alloc(&u->rd.inv->arena, sizeof(*range));
	if (!range)
		return -ENOMEM;
	*range = (struct pci_range){ .next = u->rd.range, .bdf = vf->pf, .pf = pf->facts, .vf = vf };
	u->rd.range = range;
	return 0;
}

/* Whether what VFs have of their PF is as it was. */
static bool same_for_vfs(const struct host_facts *a, const struct host_facts *b)
{
	const struct pcicap_sriov *x = &a->cap.sriov, *y = &b->cap.sriov;

	return a->numvfs == b->numvfs && a->vendor == b->vendor && a->numa_node == b->numa_node && x->offset == y->offset &&
	       x->stride == y->stride && x->vf_device == y->vf_device && bdf_eq(a->parent, b->parent) &&
	       strcmp(a->dir, b->dir) == 0 && strcmp(a->root_bus, b->root_bus) == 0;
}

/* A PF was read: its VFs follow, unless they are as they were. */
static int add_vfs(struct update *u, const struct host_function *was, const struct host_function *fn)
{
	const struct host_function *vf = was && was->facts->numvfs + fn->facts->numvfs ? a_vf_of(u->old, fn->bdf) : NULL;
	struct pci_range *range = u->rd.range && bdf_eq(u->rd.range->bdf, fn->bdf) ? u->rd.range : NULL;
	int r = 0;

	if (fn->facts->numvfs && !range)
		return -ESTALE;
	if (vf && range && vf->facts->shared && fn->facts->vf_bar && same_for_vfs(was->facts, fn->facts) &&
	    memcmp(fn->facts->vf_bar, vf->facts->bar, sizeof(vf->facts->bar)) == 0) {
		range->vf = vf->facts;
		return 0;
	}
	for (size_t i = 0; vf && i < u->old->nfn && r == 0; i++)
		if (u->old->fn[i].facts->is_vf && bdf_eq(u->old->fn[i].facts->pf, fn->bdf))
			r = entry_add(u, u->old->fn[i].bdf, false);
	for (unsigned n = 0; n < fn->facts->numvfs && r == 0; n++) {
		struct bdf at;

		r = pci_vf_place(&at, fn->bdf, fn->facts, n) ? entry_add(u, at, false) : -ESTALE;
	}
	return r;
}

static bool same_device(const struct host_facts *a, const struct host_facts *b)
{
	return a->vendor == b->vendor && a->device == b->device && a->subvendor == b->subvendor &&
	       a->subdevice == b->subdevice && a->class == b->class && strcmp(a->dir, b->dir) == 0;
}

static int read_one(struct update *u, const struct entry *e)
{
	const struct host_function *was = host_function_find(u->old, e->bdf);
	struct host_function *fn = &u->fn[u->nfn];
	size_t nfindings = u->rd.inv->nfindings;
	char name[BDF_TEXT_MAX];
	int r = was && was->facts->is_vf ? borrow_range(u, was->facts) : 0;

	u->rd.was = was && !was->facts->is_vf && !e->anew ? was->facts : NULL;
	u->rd.was_driver = was ? was->driver : HOST_DRIVER_UNKNOWN;
	u->rd.target = e->target;
	for (bool again = r == 0; again;) {
		*fn = (struct host_function){ .bdf = e->bdf };
		r = pci_read_function(&u->rd, fn, bdf_text(name, e->bdf));
		again = r == 0 && u->rd.was && !same_device(u->rd.was, fn->facts);
		if (again) { /* another one, and nobody told */
			u->rd.was = NULL;
			u->rd.inv->nfindings = nfindings;
		}
	}
	if (r < 0)
		return r;
	u->nfn++;
	if (fn->facts->is_vf)
		return fn->vf_index == HOST_VF_UNNUMBERED ? -ESTALE : 0;
	return add_vfs(u, was, fn);
}

static int read_all(struct update *u)
{
	int r = 0;

	for (u->now = 0; u->now < u->n && r == 0;) {
		size_t i = u->now++;

		if (!u->at[i].looked)
			r = look(u, &u->at[i]);
		if (r == 0 && u->at[i].there) {
			struct entry e = u->at[i]; /* the set may grow */

			r = read_one(u, &e);
		}
	}
	return r;
}

/* ---- putting it together ---------------------------------------------------------------------------- */

/* Both are sorted; what was looked at counts only as it was read. */
static int merge(struct update *u)
{
	const struct inventory *old = u->old;
	struct inventory *inv = u->rd.inv;
	size_t i = 0, k = 0;

	if (u->n == 0)
		return 0; /* all is borrowed */
	inv->nfn = 0;
	inv->fn = arena_array(&inv->arena, old->nfn + u->nfn, sizeof(*inv->fn));
	if (!inv->fn)
		return -ENOMEM;
	while (i < old->nfn || k < u->nfn) {
		if (i < old->nfn && (k == u->nfn || bdf_cmp(old->fn[i].bdf, u->fn[k].bdf) < 0)) {
			if (!entry_find(u, old->fn[i].bdf, NULL))
				inv->fn[inv->nfn++] = old->fn[i];
			i++;
			continue;
		}
		i += i < old->nfn && bdf_eq(old->fn[i].bdf, u->fn[k].bdf);
		inv->fn[inv->nfn++] = u->fn[k++];
	}
	return 0;
}

/* What was found of the functions that are borrowed. The topology adds its own anew. */
static int keep_findings(struct update *u, bool numa, bool system)
{
	struct inventory *inv = u->rd.inv;
	const struct host_finding *fresh = inv->finding;
	size_t nfresh = inv->nfindings, most = u->old->nfindings + nfresh, n = 0;
	struct host_finding *all = arena_array(&inv->arena, most, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < u->old->nread; i++) {
		const struct host_finding *f = &u->old->finding[i];

		bool of_pci = strncmp(f->id, "pci.", 4) == 0, of_numa = strncmp(f->id, "numa.", 5) == 0;

		if (strcmp(f->id, "pci.config-short") != 0 && !(of_numa && numa) &&
		    (of_pci || of_numa || !system) && !entry_find(u, f->bdf, NULL))
			all[n++] = *f;
	}
	if (nfresh)
		memcpy(all + n, fresh, nfresh * sizeof(*fresh));
	inv->finding = all;
	inv->nfindings = n + nfresh;
	inv->findings_size = most;
	return inv->nfindings < HOST_FINDINGS_MAX ? 0 : -ESTALE;
}

static const struct host_nic *nic_of(const struct inventory *inv, struct bdf bdf)
{
	for (size_t i = 0; i < inv->system.nnics; i++)
		if (bdf_eq(inv->system.nic[i].bdf, bdf))
			return &inv->system.nic[i];
	return NULL;
}

static bool of_nics(const struct update *u, const struct host_changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->at[i].what & HOST_CHANGE_NET)
			return true;
	for (size_t i = 0; i < u->n; i++)
		if (nic_of(u->old, u->at[i].bdf))
			return true;
	for (size_t i = 0; i < u->nfn; i++)
		if (u->fn[i].facts->kind == HOST_NIC)
			return true;
	return false;
}

static unsigned net_change(const struct host_changes *c, struct bdf bdf)
{
	for (size_t i = 0; i < c->n; i++)
		if (bdf_eq(c->at[i].bdf, bdf))
			return c->at[i].what & HOST_CHANGE_NET;
	return 0;
}

/* One NIC: as it was, its links anew, or all of it anew. */
static int update_nic(struct update *u, const struct host_changes *c, const struct host_function *fn, struct host_nic *ret)
{
	const struct host_nic *was = nic_of(u->old, fn->bdf);
	const struct entry *e = entry_find(u, fn->bdf, NULL);
	int r = 0;

	if (was && !(e && e->anew)) {
		*ret = *was;
		r = net_change(c, fn->bdf) ? host_net_links(u->rd.inv, u->rd.root, fn, ret) : 1;
	}
	return r ? r : host_net_one(u->rd.inv, u->rd.root, fn, ret);
}

static int update_nics(struct update *u, const struct host_changes *c)
{
	struct inventory *inv = u->rd.inv;
	struct host_system *s = &inv->system;
	struct host_nic *nic;
	size_t n = 0;
	int r = 0;

	if (!of_nics(u, c))
		return 0;
	nic = arena_array(&inv->arena, u->old->system.nnics + u->nfn, sizeof(*nic));
	if (!nic)
		return -ENOMEM;
	for (size_t i = 0; i < inv->nfn && r >= 0; i++)
		if (inv->fn[i].facts->kind == HOST_NIC)
			r = update_nic(u, c, &inv->fn[i], &nic[n++]);
	s->nic = nic;
	s->nnics = n;
	return r < 0 ? r : 0;
}

/* What is no function's own. */
static int read_rest(struct update *u, const struct host_changes *c, struct error *err)
{
	struct inventory *inv = u->rd.inv;
	int r = keep_findings(u, c->host || c->memory, c->host);

	if (r == 0 && (c->host || c->memory)) {
		inv->node = NULL, inv->nnodes = 0;
		r = host_numa_read(inv, c->host ? NULL : u->old, u->rd.root, err);
	}
	if (r == 0 && c->memory)
		host_vfio_read(inv, u->rd.root);
	if (r == 0 && !c->host)
		return update_nics(u, c);
	if (r == 0) {
		inv->system = (struct host_system){ 0 };
		r = host_system_read(inv, u->rd.root, u->rd.kinds, err);
	}
	return r;
}

static bool can_update(const struct inventory *old, const struct host_changes *c)
{
	for (size_t i = 0; i < old->nfindings; i++)
		if (strncmp(old->finding[i].id, "pci.name-", 9) == 0)
			return false;
	return !c->lost && old->nfindings < HOST_FINDINGS_MAX && old->depth < DEPTH_MAX &&
	       (old->depth + 1) * old->nfn <= RECORDS_MAX;
}

/* All of old's but what must be its own. Memory is read for each plan: of one that has nothing else of its own, and that is
 * read anew, nothing is borrowed, and it need not be kept. */
static struct inventory *inventory_on(const struct inventory *old, const struct host_changes *c)
{
	struct inventory *inv = calloc(1, sizeof(*inv));
	const struct inventory *base = old->memory_only && c->memory ? old->base : old;

	if (!inv)
		return NULL;
	*inv = *old;
	inv->drivers_size = old->ndrivers; /* full: growing copies it */
	inv->finding = NULL, inv->nfindings = inv->findings_size = 0;
	inv->arena = (struct arena){ 0 };
	inv->refs = 1;
	inv->memory_only = c->memory && !c->host && c->n == 0;
	atomic_fetch_add(&((struct inventory *)base)->refs, 1); /* all else of it never changes */
	inv->base = base;
	inv->depth = base->depth + 1;
	return inv;
}

static int update(struct update *u, const struct host_changes *c, struct host_root *root, struct error *err)
{
	struct inventory *inv = u->rd.inv;
	int r = 0;

	for (size_t i = 0; i < c->n && r == 0; i++)
		if (c->at[i].what & HOST_CHANGE_STATE)
			r = entry_add(u, c->at[i].bdf, (c->at[i].what & HOST_CHANGE_ANEW) == HOST_CHANGE_ANEW);
	u->rd.bus_plain = u->n && host_is_plain(root, "sys/bus/pci/devices");
	if (r == 0)
		r = look_at_all(u);
	if (r == 0)
		r = read_all(u);
	if (r == 0)
		r = merge(u);
	if (r == 0)
		r = read_rest(u, c, err);
	if (r == 0)
		r = pci_config_short(inv);
	host_findings_sort(inv);
	return r;
}

int host_inventory_update(struct inventory **ret, const struct inventory *old, const struct host_changes *c,
			  struct host_root *root, const struct host_kinds *kinds, struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	struct update u = { .old = old, .rd = { .root = root, .kinds = kinds, .chunk = HOST_CHUNK_MAX } };
	int r = -ENOMEM;

	if (!can_update(old, c))
		return error_set(err, -ESTALE, "too much has changed");
	inv = inventory_on(old, c);
	u.rd.inv = inv;
	if (c->n) {
		u.at = calloc(ENTRIES_MAX, sizeof(*u.at));
		u.fn = calloc(ENTRIES_MAX, sizeof(*u.fn));
	}
	if (inv && (!c->n || (u.at && u.fn)))
		r = update(&u, c, root, err);
	arena_done(&u.scratch);
	free(u.at);
	free(u.fn);
	if (r < 0)
		return err->code ? r : error_set(err, r, r == -ENOMEM ? "no memory for an inventory" : "the tree is odd");
	*ret = steal(inv);
	return 0;
}

int host_inventory_follow(struct inventory **ret, bool *whole, const struct inventory *old, const struct host_changes *c,
			  struct host_root *root, const struct host_kinds *kinds, struct error *err)
{
	int r = old ? host_inventory_update(ret, old, c, root, kinds, err) : -ESTALE;

	*whole = r == -ESTALE;
	if (!*whole)
		return r;
	*err = ERROR_INIT;
	return host_inventory_read(ret, root, kinds, err);
}

bool host_inventory_complete(const struct inventory *inv, struct host_root *root)
{
	struct arena scratch = { 0 };
	struct host_names names;
	size_t found = 0; /* both are sorted, but of domains beyond ffff */
	bool same = host_list(root, &names, &scratch, "sys/bus/pci/devices") == 0;

	for (size_t i = 0; same && i < names.n; i++) {
		struct bdf bdf;

		if (!bdf_parse(&bdf, names.name[i]))
			continue; /* a finding already */
		same = (found < inv->nfn && bdf_eq(inv->fn[found].bdf, bdf)) || host_function_find(inv, bdf);
		found++;
	}
	arena_done(&scratch);
	return same && found >= inv->nfn;
}
