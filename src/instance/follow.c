/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is in quarantine goes where its card is: a card that moved is not free at its new place, and one that took its place is. Only
 * a serial number says so: what has none, or cannot be read, is the card that was there. A VF is where its PF is. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "host/inventory.h"
#include "host/vpd.h"
#include "instance/manager.h"
#include "instance/quarantine.h"
#include "instance/store.h"
#include "topo/topo.h"

static uint32_t routing_id(struct bdf b)
{
	return (uint32_t)b.bus << 8 | b.devfn;
}

static bool is_vf(const struct quarantine *q)
{
	return !bdf_is_none(q->pf);
}

static bool is_card(const struct host_function *fn, const char *serial)
{
	char text[VPD_SERIAL_MAX];

	return strcmp(host_serial_text(text, fn->facts), serial) == 0;
}

/* Where it is if its physical function is at `at`. */
static bool place(struct quarantine *ret, const struct quarantine *q, struct bdf at)
{
	*ret = *q;
	ret->bdf = at;
	ret->hangs = false;
	if (!is_vf(q))
		return true;
	ret->pf = at;
	return routing_id(q->bdf) > routing_id(q->pf) && bdf_add(&ret->bdf, at, routing_id(q->bdf) - routing_id(q->pf));
}

/* 1: it was not there. */
static int put_at(struct store_tx *tx, const struct quarantine *q, const struct quarantine *was, struct error *err)
{
	char from[BDF_TEXT_MAX], to[BDF_TEXT_MAX];
	struct arena arena = { 0 };
	struct quarantine *there = NULL;
	int r = quarantine_find(tx, &there, q->bdf, q->serial, &arena, err);

	if (r == 0 && !there) {
		log_warning("%s, which is in quarantine, is at %s now: its card has the serial number %s", bdf_text(from, was->bdf),
			    bdf_text(to, q->bdf), q->serial);
		r = quarantine_put(tx, q, err);
		r = r < 0 ? r : 1;
	}
	arena_done(&arena);
	return r;
}

/* Where else the card is: usually at one place at most, but serial numbers may be those of several. */
static int put_elsewhere(struct store_tx *tx, const struct inventory *inv, const struct quarantine *q, bool *found, struct error *err)
{
	struct bdf physical = is_vf(q) ? q->pf : q->bdf;
	int r = 0, any = 0;

	for (size_t i = 0; r >= 0 && i < inv->nfn; i++) {
		const struct host_function *o = &inv->fn[i];
		struct quarantine at;

		if (bdf_eq(o->bdf, physical) || o->facts->is_vf || !is_card(o, q->serial) || bdf_function(o->bdf) != bdf_function(physical) ||
		    !place(&at, q, o->bdf))
			continue;
		*found = true;
		r = put_at(tx, &at, q, err);
		any |= r > 0;
	}
	return r < 0 ? r : any;
}

/* 1: something changed. */
static int follow(struct store_tx *tx, const struct inventory *inv, const struct quarantine *q, struct error *err)
{
	const struct host_function *fn = host_function_find(inv, is_vf(q) ? q->pf : q->bdf);
	char text[VPD_SERIAL_MAX];
	bool unknown = fn && !*host_serial_text(text, fn->facts), away = fn && !unknown && !is_card(fn, q->serial), found = false;
	int r = fn && !unknown && !away ? 0 : put_elsewhere(tx, inv, q, &found, err), more = 0;

	if (r >= 0 && found && !unknown)
		more = quarantine_drop(tx, q, err);
	else if (r >= 0 && q->away != away)
		more = quarantine_set_away(tx, q, away, err);
	else
		return r;
	return more < 0 ? more : 1;
}

int quarantine_follow(struct inst_manager *m, const struct topo *topo, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct arena arena = { 0 };
	struct quarantine *q = NULL;
	bool any = false;
	size_t n = 0;
	int r = topo ? store_begin(&tx, m->store, err) : 0;

	if (r == 0 && topo)
		r = quarantine_list(tx, &q, &n, &arena, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = !q[i].serial ? 0 : follow(tx, topo_inventory(topo), &q[i], err);
		any = any || r > 0;
		r = r > 0 ? 0 : r;
	}
	if (r == 0 && any)
		r = store_commit(tx, err);
	arena_done(&arena);
	return r;
}
