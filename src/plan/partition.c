/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Partitions of NVSwitch boards: Fabric Manager's rows, or the board's table, as sets of GPUs. Overlap with a partition
 * that is active forbids: Fabric Manager would refuse it, and whoever activated it has those GPUs. */
#include "plan/partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/inventory.h"
#include "plan/place.h"
#include "topo/rail.h"

#define SET_TEXT_MAX 256

static unsigned count(uint64_t set)
{
	return (unsigned)__builtin_popcountll(set);
}

/* "{1,3}" */
static const char *set_text(char buf[SET_TEXT_MAX], uint64_t modules)
{
	size_t n = (size_t)snprintf(buf, SET_TEXT_MAX, "{");

	for (unsigned m = 0; m < 64; m++)
		if (modules >> m & 1)
			n += (size_t)snprintf(buf + n, SET_TEXT_MAX - n, "%s%u", n > 1 ? "," : "", m);
	(void)snprintf(buf + n, SET_TEXT_MAX - n, "}");
	return buf;
}

/* ---- module ids ---------------------------------------------------------------------------------- */

/* -1: nobody says; -2: Fabric Manager and velad.conf say different ones. */
static int module_of(const struct topo *t, const struct plan_boards *b, struct bdf gpu)
{
	int fm = host_fabric_module(&topo_inventory(t)->system.fabric, gpu);

	for (size_t i = 0; b && i < b->nmodules; i++)
		if (bdf_eq(b->module[i].gpu, gpu))
			return fm >= 0 && fm != b->module[i].module ? -2 : b->module[i].module;
	return fm < PLAN_MODULES_MAX ? fm : -1;
}

/* Bits of the GPUs that have these modules. A module that two GPUs claim is neither's. */
static void map_modules(struct plan_partitions *p, const struct topo *t, const struct plan_boards *b,
			int owner[PLAN_MODULES_MAX])
{
	for (size_t m = 0; m < PLAN_MODULES_MAX; m++)
		owner[m] = -1;
	for (size_t i = 0; i < p->ngpus; i++) {
		int m = p->fabric >> i & 1 ? module_of(t, b, topo_at(t, p->gpu[i])->fn->bdf) : -1;

		if (m < 0) {
			p->unknown |= p->fabric & UINT64_C(1) << i;
		} else if (owner[m] >= 0) {
			p->unknown |= UINT64_C(1) << i | UINT64_C(1) << owner[m];
		} else {
			owner[m] = (int)i;
		}
	}
	for (size_t m = 0; m < PLAN_MODULES_MAX; m++)
		if (owner[m] >= 0 && p->unknown >> owner[m] & 1)
			owner[m] = -1;
}

/* ---- the rows ------------------------------------------------------------------------------------ */

static void add_row(struct plan_partitions *p, int id, uint64_t modules, bool active, const int owner[PLAN_MODULES_MAX])
{
	struct plan_partition *row = &p->at[p->n];

	if (p->n == PLAN_PARTITIONS_MAX || !modules)
		return;
	*row = (struct plan_partition){ .id = id, .modules = modules, .active = active, .whole = true, .blocked = -1 };
	for (unsigned m = 0; m < PLAN_MODULES_MAX; m++) {
		if (!(modules >> m & 1))
			continue;
		if (owner[m] >= 0)
			row->gpus |= UINT64_C(1) << owner[m];
		else
			row->whole = false;
	}
	p->n++;
}

static void rows_of_fabric_manager(struct plan_partitions *p, const struct host_fabric *f, const int owner[PLAN_MODULES_MAX])
{
	for (size_t i = 0; i < f->npartitions; i++) {
		uint64_t modules = 0;
		bool ok = true;

		for (size_t g = 0; g < f->partition[i].ngpus; g++) {
			ok = ok && f->partition[i].gpu[g].module < PLAN_MODULES_MAX;
			modules |= ok ? UINT64_C(1) << f->partition[i].gpu[g].module : 0;
		}
		if (ok)
			add_row(p, (int)f->partition[i].id, modules, f->partition[i].active, owner);
	}
	if (p->n == 0)
		p->why = "Fabric Manager lists no partition";
}

static bool board_has(const struct plan_board *b, const struct host_facts *f)
{
	for (size_t i = 0; i < b->ngpus; i++)
		if (b->gpu[i].vendor == f->vendor && b->gpu[i].device == f->device)
			return true;
	return false;
}

static void rows_of_board(struct plan_partitions *p, const struct topo *t, const struct plan_boards *b,
			  const int owner[PLAN_MODULES_MAX])
{
	const struct plan_board *found = NULL;

	for (size_t k = b ? b->n : 0; k > 0 && !found; k--) { /* the last: a drop-in's goes before the built-in one */
		bool all = true;

		for (size_t i = 0; i < p->ngpus; i++)
			all = all && (!(p->fabric >> i & 1) || board_has(&b->board[k - 1], topo_at(t, p->gpu[i])->fn->facts));
		found = all ? &b->board[k - 1] : NULL;
	}
	for (size_t s = 0; found && s < found->nsets; s++)
		add_row(p, -1, found->set[s], false, owner);
	if (!found)
		p->why = "Fabric Manager does not list its partitions, and no board of [partitions] in velad.conf has these GPUs";
}

/* ---- what can be given --------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	if (count(x) != count(y))
		return count(x) < count(y) ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void settle(struct plan_partitions *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct plan_partition *row = &p->at[i];
		bool twice = false;

		for (size_t k = 0; k < p->n && row->blocked < 0; k++)
			if (p->at[k].active && p->at[k].modules & row->modules)
				row->blocked = (int)k;
		for (size_t k = 0; k < p->nallowed; k++)
			twice = twice || p->allowed[k] == row->gpus;
		if (row->whole && row->blocked < 0 && !twice)
			p->allowed[p->nallowed++] = row->gpus;
	}
	qsort(p->allowed, p->nallowed, sizeof(p->allowed[0]), by_size);
}

static bool has_switches(const struct topo *t)
{
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->kind == HOST_NVSWITCH)
			return true;
	return false;
}

static enum plan_fabric mode_of(const struct host_fabric *f, const struct plan_boards *b)
{
	if (b && b->shared)
		return b->shared > 0 ? PLAN_FABRIC_SHARED : PLAN_FABRIC_NONE;
	if (f->mode > 0 || (f->partitions_known && f->npartitions))
		return PLAN_FABRIC_SHARED;
	return f->mode == 0 ? PLAN_FABRIC_WHOLE : PLAN_FABRIC_NONE;
}

#define NVIDIA 0x10de

/* Blackwell's NVSwitches are no PCI functions of the host (its driver reaches them through ConnectX-7 bridges): that they are shared out,
 * somebody says, and a GPU is on them if a board has its model, or it has a module id. */
static bool is_told(const struct topo *t, const struct plan_boards *b, const struct host_function *gpu)
{
	bool board = module_of(t, b, gpu->bdf) != -1;

	for (size_t k = 0; b && k < b->n && !board; k++)
		board = board_has(&b->board[k], gpu->facts);
	return board && mode_of(&topo_inventory(t)->system.fabric, b) == PLAN_FABRIC_SHARED;
}

void plan_partitions_find(struct plan_partitions *ret, const struct topo *t, const struct plan_boards *boards,
			  const uint32_t *gpu, size_t ngpus, uint64_t gone)
{
	const struct host_fabric *f = &topo_inventory(t)->system.fabric;
	bool switches = has_switches(t);
	int owner[PLAN_MODULES_MAX];

	*ret = (struct plan_partitions){ .ngpus = ngpus < 64 ? ngpus : 64 };
	for (size_t i = 0; i < ret->ngpus; i++) {
		/* on a host with NVSwitches every NVIDIA GPU may be on them: of several models nobody says which are not */
		const struct host_function *fn = topo_at(t, gpu[i])->fn;
		bool on = fn->facts->vendor == NVIDIA && (switches || topo_nvlink_domain(t, gpu[i]) >= 0 || is_told(t, boards, fn));

		ret->gpu[i] = gpu[i];
		ret->fabric |= on ? UINT64_C(1) << i : 0;
	}
	ret->mode = ret->fabric ? mode_of(f, boards) : PLAN_FABRIC_NONE;
	if (ret->mode != PLAN_FABRIC_SHARED) {
		ret->fabric = ret->mode == PLAN_FABRIC_NONE ? 0 : ret->fabric;
		return;
	}
	map_modules(ret, t, boards, owner);
	if (f->partitions_known)
		rows_of_fabric_manager(ret, f, owner);
	else
		rows_of_board(ret, t, boards, owner);
	for (size_t i = 0; i < ret->n; i++)
		ret->at[i].active = ret->at[i].active && !(ret->at[i].gpus & gone);
	settle(ret);
}

const struct plan_partition *plan_partition_of(const struct plan_partitions *p, uint64_t set)
{
	for (size_t i = 0; i < p->n && (set & p->fabric); i++)
		if (p->at[i].whole && p->at[i].gpus == (set & p->fabric))
			return &p->at[i];
	return NULL;
}

/* ---- why not ------------------------------------------------------------------------------------- */

static void say_unknown(const struct plan_partitions *p, const struct topo *t, struct plan *plan, uint64_t free)
{
	for (size_t i = 0; i < p->ngpus; i++)
		if (free & p->unknown & UINT64_C(1) << i)
			place_reason(plan, "partition.module-unknown", topo_at(t, p->gpu[i])->fn->bdf,
				     "its module id (nvidia-smi -q, \"Module ID\") as a line module = BDF=ID in [partitions] of velad.conf",
				     "it is on NVSwitches, and Fabric Manager and velad.conf do not say one module id for it");
}

static void say_row(const struct plan_partitions *p, struct plan *plan, const struct plan_partition *row, uint64_t free)
{
	const struct plan_partition *by = row->blocked < 0 ? NULL : &p->at[row->blocked];
	char set[SET_TEXT_MAX], other[SET_TEXT_MAX];

	set_text(set, row->modules);
	if (by && by == row)
		place_reason(plan, "partition.active", BDF_NONE, "it deactivated (fmpm -d), or another partition",
			     "partition %d %s is active in Fabric Manager", row->id, set);
	else if (by)
		place_reason(plan, "partition.active", BDF_NONE, "that deactivated (fmpm -d), or another partition",
			     "partition %d %s has a GPU in common with partition %d %s, which is active", row->id, set, by->id,
			     set_text(other, by->modules));
	else if (row->whole && row->gpus & ~free && row->gpus & free)
		place_reason(plan, "partition.held", BDF_NONE, "its other GPUs given back, or another partition",
			     "of partition %s only %u of %u GPUs can be given", set, count(row->gpus & free), count(row->modules));
}

void plan_partitions_say(const struct plan_partitions *p, const struct topo *t, struct plan *plan, uint64_t free, unsigned want)
{
	char sizes[SET_TEXT_MAX] = "";
	uint64_t seen = 0;

	if (p->mode != PLAN_FABRIC_SHARED || !want || (free & ~p->fabric && count(free & ~p->fabric) >= want))
		return;
	for (size_t i = 0; i < p->nallowed; i++)
		if (count(p->allowed[i]) == want && !(p->allowed[i] & ~free))
			return;
	if (p->why)
		place_reason(plan, "partition.none", BDF_NONE, "nvidia-fabricmanager running, and [host] fmpm; or the board in [partitions]",
			     "the GPUs are on NVSwitches that are shared out, and %s", p->why);
	say_unknown(p, t, plan, free);
	for (size_t i = 0; i < p->n; i++) {
		seen |= UINT64_C(1) << (count(p->at[i].modules) & 63);
		if (count(p->at[i].modules) == want)
			say_row(p, plan, &p->at[i], free);
	}
	if (!p->n || seen >> (want & 63) & 1)
		return;
	for (unsigned k = 1; k < 64; k++)
		if (seen >> k & 1)
			(void)snprintf(sizes + strlen(sizes), sizeof(sizes) - strlen(sizes), "%s%u", *sizes ? ", " : "", k);
	place_reason(plan, "partition.size", BDF_NONE, "as many GPUs as a partition has",
		     "partitions of these NVSwitches have %s GPUs, %u are wanted", sizes, want);
}
