/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A partition of NVSwitches is activated before its guest starts and deactivated after it has ended (NVIDIA, Fabric Manager
 * User Guide, "Shared NVSwitch Virtualization Model"). What fmpm says of its success is not believed: the list is read
 * again. Two at once would each see the list of before the other, so there is one at a time. */
#include "act/act.h"
#include "act/partition.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "host/system.h"

#define LIST_MS   10000
#define CHANGE_MS 90000 /* NVLinks are trained meanwhile */

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static const struct host_partition *find(const struct host_fabric *f, unsigned id)
{
	for (size_t i = 0; i < f->npartitions; i++)
		if (f->partition[i].id == id)
			return &f->partition[i];
	return NULL;
}

static bool overlap(const struct host_partition *a, const struct host_partition *b)
{
	for (size_t i = 0; i < a->ngpus; i++)
		for (size_t k = 0; k < b->ngpus; k++)
			if (a->gpu[i].module == b->gpu[k].module)
				return true;
	return false;
}

static int look(struct host_root *root, const char *fmpm, struct host_fabric *ret, const struct host_partition **p, unsigned id,
		struct arena *arena, struct error *err)
{
	int r = host_fabric_do(ret, arena, root, fmpm, "-l", NULL, LIST_MS, err);

	if (r < 0)
		return r;
	*p = find(ret, id);
	return *p ? 0 : error_set(err, -ENODEV, "Fabric Manager has no partition %u", id);
}

static int not_overlapping(const struct host_fabric *f, const struct host_partition *p, struct error *err)
{
	for (size_t i = 0; i < f->npartitions; i++)
		if (f->partition[i].active && overlap(&f->partition[i], p))
			return error_set(err, -EBUSY, "it has a GPU in common with partition %u, which is active; deactivate that (fmpm -d %u) "
					 "if nobody needs it", f->partition[i].id, f->partition[i].id);
	return 0;
}

static int change(struct host_root *root, const char *fmpm, bool *ret, unsigned id, enum act_want want, struct arena *arena,
		  struct error *err)
{
	const struct host_partition *p;
	struct host_fabric f;
	struct error said = ERROR_INIT;
	char number[12];
	int r = look(root, fmpm, &f, &p, id, arena, err);

	if (r == 0 && want != ACT_LOOK && p->active != (want == ACT_ON)) {
		r = want == ACT_ON ? not_overlapping(&f, p, err) : 0;
		(void)snprintf(number, sizeof(number), "%u", id);
		if (r == 0) {
			(void)host_fabric_do(NULL, arena, root, fmpm, want == ACT_ON ? "-a" : "-d", number, CHANGE_MS, &said); /* seen below */
			r = look(root, fmpm, &f, &p, id, arena, err);
		}
		if (r == 0 && p->active != (want == ACT_ON))
			r = error_set(err, said.code ? said.code : -EIO, "it is still %s: %s", p->active ? "active" : "inactive",
				      said.code ? said.text : "Fabric Manager says it was done; see its log");
	}
	if (r == 0)
		*ret = p->active;
	return r;
}

int act_partition(struct host_root *root, const char *fmpm, bool *ret, unsigned id, enum act_want want, struct error *err)
{
	struct arena arena = { 0 };
	int r;

	if (!*fmpm)
		return error_set(err, -ENODEV, "velad.conf names no [host] fmpm, which partitions need");
	(void)pthread_mutex_lock(&one_at_a_time);
	r = change(root, fmpm, ret, id, want, &arena, err);
	(void)pthread_mutex_unlock(&one_at_a_time);
	arena_done(&arena);
	return r;
}
