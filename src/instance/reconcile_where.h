/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/reconcile_where — where each device of each instance is now, and who else has it: the first half of instance/reconcile. */

#include "act/act.h"
#include "base/bdf.h"
#include "instance/reconcile.h"

enum whereabouts { UNSAID, HERE, MOVED, GONE, TWICE };

struct held { /* one device of one instance */
	const struct reconcile_instance *in;
	const struct reconcile_device   *device;
	enum whereabouts                 where;
	struct bdf                       at;    /* where it is to be from now on */
	struct bdf                       found, pf; /* of MOVED; pf: of a VF */
	const char                      *other; /* serial of what is in its place; NULL: nothing is */
};

struct work {
	const struct reconcile_input *in;
	struct arena                 *arena;
	struct reconcile_decision    *list;
	size_t                        n, size;
	struct held                  *held;
	size_t                        nheld;
	bool                         *wanted; /* of the notes of the instance that is looked at */
	const struct act_guest      **guest;  /* of each instance; NULL none */
	bool                          oom;
};

const struct reconcile_function *where_function(const struct work *w, struct bdf bdf);
bool where_is_foreign(const struct work *w, struct bdf bdf);
const struct held *where_holder(const struct work *w, struct bdf bdf, const struct held *but);
const struct act_guest *where_taker(const struct work *w, struct bdf bdf);
const struct act_guest *where_guest(const struct work *w, const struct reconcile_instance *in);
bool where_runs(const struct work *w, const struct reconcile_instance *in);
bool where_is_vf(const struct reconcile_device *d);
void where_locate(struct work *w);
