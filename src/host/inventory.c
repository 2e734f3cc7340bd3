/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts the parts of an inventory together. */
#include "host/inventory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/read.h"

struct inventory *host_inventory_free(struct inventory *inv)
{
	while (inv && atomic_fetch_sub(&inv->refs, 1) == 1) { /* not recursive: the chain may be long */
		struct inventory *base = (struct inventory *)inv->base;

		arena_done(&inv->arena);
		free(inv);
		inv = base;
	}
	return NULL;
}

static struct host_finding *finding_new(struct inventory *inv)
{
	if (inv->nfindings == inv->findings_size) {
		size_t size = inv->findings_size ? inv->findings_size * 2 : 16;
		struct host_finding *f = arena_array(&inv->arena, size, sizeof(*f));

		if (!f)
			return NULL;
		if (inv->nfindings)
			memcpy(f, inv->finding, inv->nfindings * sizeof(*f));
		inv->finding = f;
		inv->findings_size = size;
	}
	return &inv->finding[inv->nfindings];
}

int host_finding_add(struct inventory *inv, const char *id, struct bdf bdf, const char *fmt, ...)
{
	struct host_finding *f;
	va_list ap;

	if (inv->nfindings == HOST_FINDINGS_MAX)
		return 0;
	f = finding_new(inv);
	if (!f)
		return -ENOMEM;
	va_start(ap, fmt);
	*f = (struct host_finding){ .id = id, .bdf = bdf, .text = arena_vprintf(&inv->arena, fmt, ap) };
	va_end(ap);
	if (!f->text)
		return -ENOMEM;
	inv->nfindings++;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct host_finding *x = a, *y = b;
	int c = bdf_cmp(x->bdf, y->bdf);

	c = c ? c : strcmp(x->id, y->id);
	return c ? c : strcmp(x->text, y->text);
}

void host_findings_sort(struct inventory *inv)
{
	inv->nread = inv->nfindings;
	if (inv->nfindings)
		qsort(inv->finding, inv->nfindings, sizeof(*inv->finding), by_place);
}

int host_inventory_read(struct inventory **ret, struct host_root *root, const struct host_kinds *kinds,
			struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = calloc(1, sizeof(*inv));
	struct host_stats before = host_root_stats(root), after;
	int r;

	if (!inv)
		return error_set(err, -ENOMEM, "no memory for an inventory");
	inv->refs = 1;
	r = host_pci_read(inv, root, kinds, err);
	if (r == 0)
		r = host_numa_read(inv, NULL, root, err);
	if (r == 0)
		r = host_system_read(inv, root, kinds, err);
	if (r < 0)
		return r;
	host_findings_sort(inv);
	after = host_root_stats(root);
	inv->stats.syscalls = after.syscalls - before.syscalls;
	inv->stats.config_dwords = after.config_dwords - before.config_dwords;
	*ret = steal(inv);
	return 0;
}

const struct host_function *host_function_find(const struct inventory *inv, struct bdf bdf)
{
	size_t lo = 0, hi = inv->nfn;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = bdf_cmp(inv->fn[mid].bdf, bdf);

		if (c == 0)
			return &inv->fn[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

const struct host_function *host_companion_of(const struct inventory *inv, const struct host_function *fn)
{
	struct bdf b = fn->bdf;

	if (fn->facts->is_vf || fn->facts->kind != HOST_OTHER)
		return NULL;
	for (unsigned f = 0; f < 8; f++) {
		const struct host_function *gpu;

		b.devfn = (uint8_t)((b.devfn & ~7u) | f);
		gpu = host_function_find(inv, b);
		if (gpu && gpu->facts->kind == HOST_GPU)
			return gpu;
	}
	return NULL;
}

const char *host_driver_of(const struct inventory *inv, const struct host_function *fn)
{
	return fn->driver < inv->ndrivers ? inv->driver[fn->driver] : NULL;
}

const char *host_function_dir(char out[HOST_PATH_MAX], const struct host_function *fn)
{
	char name[BDF_TEXT_MAX];

	(void)snprintf(out, HOST_PATH_MAX, "%s/%s", fn->facts->dir, bdf_text(name, fn->bdf));
	return out;
}

struct host_bar host_bar_of(const struct host_function *fn, unsigned i)
{
	struct host_bar bar = fn->facts->bar[i];

	if (fn->facts->shared)
		bar.start += bar.size * fn->vf_index;
	return bar;
}

const struct host_node *host_node_find(const struct inventory *inv, int id)
{
	for (size_t i = 0; i < inv->nnodes; i++)
		if (inv->node[i].id == id)
			return &inv->node[i];
	return NULL;
}
