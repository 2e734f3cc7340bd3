/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/lease.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <time.h>

#include "base/arena.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "base/json.h"
#include "plan/plan.h"

#define USEC 1000000

static struct lease *lease_free(struct lease *lease)
{
	if (!lease)
		return NULL;
	for (size_t i = 0; i < lease->n; i++) {
		json_object_put(lease->bundle[i].request);
		plan_free(lease->bundle[i].plan);
	}
	free(lease);
	return NULL;
}
AUTO_DEFINE(struct lease *, lease_free);

void leases_drop(struct leases *l, struct lease *lease)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (l->at[i] != lease)
			l->at[n++] = l->at[i];
	l->n = n;
	lease_free(lease);
}

/* keep: one that the caller is at work with */
static void expire(struct leases *l, uint64_t now, const struct lease *keep)
{
	for (size_t i = l->n; i > 0; i--)
		if (l->at[i - 1]->until <= now && l->at[i - 1] != keep)
			leases_drop(l, l->at[i - 1]);
}

void leases_done(struct leases *l)
{
	expire(l, UINT64_MAX, NULL);
}

int leases_room(struct leases *l, uid_t uid, uint64_t now, struct error *err)
{
	size_t own = 0;

	if (uid == (uid_t)-1)
		return error_set(err, -EPERM, "a lease has an owner, and who asks for this one is not known");
	expire(l, now, NULL);
	for (size_t i = 0; i < l->n; i++)
		own += l->at[i]->uid == uid;
	if (own >= LEASES_UID_MAX)
		return error_set(err, -EBUSY, "uid %u has %d leases already; use or release one (velactl leases), or wait until one ends",
				 (unsigned)uid, LEASES_UID_MAX);
	if (l->n == LEASES_MAX)
		return error_set(err, -EBUSY, "this host has %d leases already; try again when one has ended", LEASES_MAX);
	return 0;
}

static int name(struct lease *lease, struct error *err)
{
	sd_id128_t id;
	int r = sd_id128_randomize(&id);

	if (r < 0)
		return error_set(err, r, "cannot make a random number: %s", strerror(-r));
	for (size_t i = 0; i < 8; i++)
		(void)snprintf(lease->id + 2 * i, 3, "%02x", id.bytes[i]);
	return 0;
}

int leases_add(struct leases *l, struct lease **ret, uid_t uid, uint64_t now, unsigned seconds,
	       struct lease_bundle *bundle, size_t n, struct error *err)
{
	auto_(lease_free) struct lease *lease = calloc(1, sizeof(*lease));
	int r = lease ? leases_room(l, uid, now, err) : error_set(err, -ENOMEM, "no memory for a lease");

	if (r == 0)
		r = name(lease, err);
	if (r < 0)
		return r;
	lease->uid = uid;
	lease->seconds = seconds;
	lease->until = now + (uint64_t)seconds * USEC;
	lease->expires = (int64_t)time(NULL) + seconds;
	for (size_t i = 0; i < n; i++)
		lease->bundle[lease->n++] = (struct lease_bundle){ .request = steal(bundle[i].request), .plan = steal(bundle[i].plan) };
	*ret = l->at[l->n++] = lease;
	lease = NULL;
	return 0;
}

int leases_find(struct leases *l, struct lease **ret, const char *id, uid_t uid, uint64_t now, struct error *err)
{
	expire(l, now, NULL);
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->at[i]->id, id) == 0 && (uid == 0 || l->at[i]->uid == uid)) {
			*ret = l->at[i];
			return 0;
		}
	return error_set(err, -ENOENT, "there is no lease %.40s of yours: it has ended, was used or released; plan again", id);
}

void leases_use(struct leases *l, struct lease *lease, size_t bundle)
{
	bool left = false;

	lease->bundle[bundle].plan = plan_free(lease->bundle[bundle].plan);
	for (size_t i = 0; i < lease->n; i++)
		left = left || lease->bundle[i].plan;
	if (!left)
		leases_drop(l, lease);
}

static size_t devices(const struct plan *p)
{
	return p ? p->ngpus + p->nvfs + p->ncompanions + p->nextras : 0;
}

/* A lease may end while a thread plans beside it. */
static int own_cpus(struct plan_room *room, size_t n, struct arena *arena)
{
	for (size_t i = 0; i < n; i++) {
		struct cpuset *cpus = room[i].cpus ? arena_alloc(arena, sizeof(*cpus)) : NULL;

		if (room[i].cpus && !cpus)
			return -ENOMEM;
		if (cpus)
			*cpus = *room[i].cpus;
		room[i].cpus = cpus;
	}
	return 0;
}

int leases_hold(struct leases *l, uint64_t now, const struct lease *except, size_t bundle, struct plan_input *in, struct arena *arena,
		struct error *err)
{
	size_t ntaken = in->ntaken, nrooms = in->nrooms, n;
	struct plan_taken *taken;
	struct plan_room *room;

	expire(l, now, except);
	for (size_t i = 0; i < l->n; i++)
		for (size_t b = 0; b < l->at[i]->n; b++) {
			ntaken += devices(l->at[i]->bundle[b].plan);
			nrooms += l->at[i]->bundle[b].plan ? l->at[i]->bundle[b].plan->ncells : 0;
		}
	taken = arena_array(arena, ntaken + 1, sizeof(*taken));
	room = arena_array(arena, nrooms + 1, sizeof(*room));
	if (!taken || !room)
		return error_set(err, -ENOMEM, "no memory for the leases");
	if (in->ntaken)
		memcpy(taken, in->taken, in->ntaken * sizeof(*taken));
	if (in->nrooms)
		memcpy(room, in->room, in->nrooms * sizeof(*room));
	for (size_t i = 0; i < l->n; i++) {
		const char *owner = arena_printf(arena, "lease %s", l->at[i]->id);

		if (!owner)
			return error_set(err, -ENOMEM, "no memory for the leases");
		for (size_t b = 0; b < l->at[i]->n; b++) {
			const struct plan *p = l->at[i]->bundle[b].plan;

			if (!p || (l->at[i] == except && b == bundle))
				continue;
			plan_take(taken, &in->ntaken, p, owner);
			n = plan_rooms(&room[in->nrooms], p, owner);
			if (own_cpus(&room[in->nrooms], n, arena) < 0)
				return error_set(err, -ENOMEM, "no memory for the leases");
			in->nrooms += n;
		}
	}
	in->taken = taken;
	in->room = room;
	return 0;
}

json_object *lease_json(const struct lease *lease)
{
	json_object *list = json_object_new_array();
	struct json_out o = json_out_new();

	json_add_string(&o, "id", lease->id);
	json_add_uint(&o, "uid", lease->uid);
	json_add_time(&o, "expires", lease->expires);
	json_add_uint(&o, "seconds", lease->seconds);
	for (size_t i = 0; i < lease->n; i++) {
		const struct plan *p = lease->bundle[i].plan;
		json_object *gpus = json_object_new_array(), *vfs = json_object_new_array();
		struct json_out b = json_out_new();
		char text[BDF_TEXT_MAX];

		for (size_t g = 0; p && g < p->ngpus; g++)
			json_append(&b, gpus, json_object_new_string(bdf_text(text, p->gpu[g])));
		for (size_t v = 0; p && v < p->nvfs; v++)
			json_append(&b, vfs, json_object_new_string(bdf_text(text, p->vf[v].bdf)));
		json_add(&b, "gpus", gpus);
		json_add(&b, "vfs", vfs);
		json_add_bool(&b, "used", !p);
		json_append_out(&o, list, &b);
	}
	json_add(&o, "bundles", list);
	return json_finish(&o);
}

json_object *leases_json(struct leases *l, uid_t uid, uint64_t now)
{
	json_object *list = json_object_new_array();
	struct json_out o = json_out_new();

	expire(l, now, NULL);
	for (size_t i = 0; i < l->n; i++)
		if (uid == 0 || l->at[i]->uid == uid)
			json_append(&o, list, lease_json(l->at[i]));
	json_add(&o, "leases", list);
	return json_finish(&o);
}
