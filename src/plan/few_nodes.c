/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which NUMA nodes the devices of a set of up to eight GPUs can be on. Up to four: every choice of them is asked what its NICs
 * have. More, up to eight places: sets of them are bits, too. A place set has room for a guest with so many cells, and its NICs
 * have as many VFs; GPUs can be on it, or on it without some places that have a NIC. That is a bound where not all GPUs reach
 * the same NICs of other nodes. */
#include "plan/few.h"

#include <string.h>

/* ---- all choices -------------------------------------------------------------------------------- */

/* GPUs on nodes that alone do not fit a guest need a NIC on another one. */
static struct sets with_nics_elsewhere(const struct few *q, struct sets some, uint32_t c)
{
	for (uint32_t h = 0; h < c; h++) {
		uint64_t nics = q->choice[c].nics & ~q->choice[h].nics & q->s->nics;
		uint32_t reach = 0;

		if ((h & ~c) || q->choice[h].cells || !any(both(some, q->choice[h].exactly)))
			continue;
		for (; nics; nics &= nics - 1)
			reach |= q->cap[lowest(nics)] ? q->reach[lowest(nics)] : 0u;
		some = but_not(some, but_not(q->choice[h].exactly, with_any(reach)));
	}
	return some;
}

/* NICs may be on other nodes than the GPUs: for all nodes that they can be on together. */
static struct sets within_choices(struct few *q, uint32_t cells)
{
	struct sets ret = none();
	uint32_t done[CHOICES_MAX], n = 0;

	for (uint32_t c = q->nchoices; c-- > 0;) {
		struct sets some = both(q->can, q->choice[c].within);
		uint32_t i = 0;

		if (!q->choice[c].cells || q->choice[c].cells > cells || !any(but_not(some, ret)))
			continue;
		while (i < n && (c & ~done[i]))
			i++;
		if (i < n) /* no better than with more nodes */
			continue;
		some = few_with_vfs(q, some, q->s->nics & q->choice[c].nics);
		ret = either(ret, q->gaps ? with_nics_elsewhere(q, some, c) : some);
		done[n++] = c;
	}
	return ret;
}

static void make_choices(struct few *q, const uint32_t *node, uint32_t n)
{
	const struct search *s = q->s;

	q->nchoices = 1u << n;
	q->fits = none();
	for (uint32_t bits = 0; bits < q->nchoices; bits++) {
		struct choice *c = &q->choice[bits];
		uint64_t nodes = 0;

		*c = (struct choice){ .nics = s->h->on_node[SOLVE_NODES_MAX], .exactly = q->can, .within = q->can };
		for (uint32_t i = 0; i < n; i++) {
			if (!(bits >> i & 1)) {
				c->exactly = but_not(c->exactly, q->home[i]);
				c->within = but_not(c->within, q->home[i]);
				continue;
			}
			nodes |= UINT64_C(1) << node[i];
			c->nics |= s->h->on_node[node[i]];
			c->exactly = both(c->exactly, q->home[i]);
		}
		c->cells = any(c->within) ? count(solve_nodes(s->h, s->w, nodes)) : 0;
		q->fits = c->cells ? either(q->fits, c->exactly) : q->fits;
		q->most_cells = c->cells > q->most_cells ? c->cells : q->most_cells;
		for (uint32_t i = 0; i < bits && c->cells && !q->gaps; i++)
			q->gaps = !(i & ~bits) && !q->choice[i].cells && any(q->choice[i].within);
	}
}

static void find_choice(struct few *q, struct bound *b)
{
	struct sets some = none();

	for (b->nodes = 0; !any(some);) {
		uint32_t next = UINT32_MAX;

		for (uint32_t c = 0; c < q->nchoices; c++)
			if (q->choice[c].cells > b->nodes && q->choice[c].cells < next)
				next = q->choice[c].cells;
		b->nodes = next;
		if (next == q->most_cells) /* all can */
			return;
		for (uint32_t c = 0; c < q->nchoices && !q->crosses; c++)
			some = q->choice[c].cells == next ? either(some, both(q->can, q->choice[c].exactly)) : some;
		if (q->crosses)
			some = few_within(q, NO_LIMIT, next);
	}
	q->can = some;
}

/* ---- places ------------------------------------------------------------------------------------- */

/* Those of some nodes. */
static uint32_t places_of(const struct few *q, uint64_t nodes)
{
	uint32_t places = 0;

	for (uint32_t p = 0; p < q->h->nplaces; p++)
		places |= (uint32_t)(nodes >> q->h->place[p] & 1) << p;
	return places;
}

/* n places with room for n cells: solve_nodes() for all at once. */
static struct sets room_for(const struct few *q, uint32_t n, uint64_t nodes)
{
	const struct solve_want *w = q->s->w;
	uint64_t base = w->nodes & w->memory.base[n] & w->cpus.base[n];
	struct sets ret = q->h->of_size[n];

	if (!(nodes & ~(base & w->memory.more[n] & w->cpus.more[n])))
		return ret;
	ret = both(ret, of_these(places_of(q, base)));
	if (w->memory.all % n)
		ret = both(ret, at_least(q->h, places_of(q, w->memory.more[n]), (uint32_t)(w->memory.all % n)));
	if (w->cpus.all % n)
		ret = both(ret, at_least(q->h, places_of(q, w->cpus.more[n]), (uint32_t)(w->cpus.all % n)));
	return ret;
}

/* With so many cells others join: as if each node had room enough. */
static void count_cells(struct few *q, uint64_t nodes)
{
	const struct solve_want *w = q->s->w;
	uint32_t n = w->cells;

	q->loose = q->loose || n > q->s->h->nnodes || (nodes & ~(w->nodes & w->memory.base[n] & w->memory.more[n] & w->cpus.base[n] & w->cpus.more[n]));
	for (uint32_t i = 0; i <= n && i <= SOLVE_FEW; i++)
		q->room[0] = either(q->room[0], q->h->of_size[i]);
}

static void find_room(struct few *q)
{
	const struct solve_want *w = q->s->w;
	uint64_t nodes = q->s->h->nnodes < SOLVE_NODES_MAX ? (UINT64_C(1) << q->s->h->nnodes) - 1 : UINT64_MAX;
	struct sets places = of_these((1u << q->h->nplaces) - 1);

	places.w[0] &= ~UINT64_C(1);
	q->many = true;
	q->any_number = w->cells && !w->any_nodes;
	q->room[0] = none();
	if (q->any_number)
		count_cells(q, nodes);
	for (uint32_t n = 1; n <= q->h->nplaces && !q->any_number; n++) {
		q->room[n] = w->any_nodes ? q->h->of_size[n] : room_for(q, n, nodes);
		q->room[0] = either(q->room[0], q->room[n]);
	}
	q->short_room = any(but_not(places, q->room[0]));
	if (!q->h->no_place || q->any_number)
		return;
	places = (struct sets){ { solve_nodes(q->s->h, w, 0) != 0 } }; /* on none that is known */
	q->room[0] = either(q->room[0], places);
	q->room[1] = either(q->room[1], places);
}

/* Sets of places whose NICs have as many VFs as a bundle; places that have any. */
struct supply {
	struct sets enough;
	uint32_t    some;
};

static struct supply look_at_places(const struct few *q)
{
	static const uint8_t itself[SOLVE_FEW] = { 1, 2, 4, 8, 16, 32, 64, 128 };
	const struct solve_host *h = q->s->h;
	uint32_t anywhere = few_have_of(q, q->cap, h->on_node[SOLVE_NODES_MAX] & q->s->nics);
	struct supply ret = { every(), 0 };
	uint8_t cap[SOLVE_FEW];

	for (uint32_t p = 0; p < q->h->nplaces && q->crosses; p++) {
		uint32_t vfs = 0;

		for (uint64_t left = h->on_node[q->h->place[p]] & q->s->nics; left; left &= left - 1)
			vfs += q->reach[lowest(left)] ? q->cap[lowest(left)] : 0;
		cap[p] = (uint8_t)(vfs < q->want ? vfs : q->want);
		ret.some |= (uint32_t)(vfs > 0) << p;
	}
	if (q->crosses && anywhere < q->want)
		ret.enough = few_have_enough(itself, cap, q->h->nplaces, 0, q->want - anywhere);
	return ret;
}

static uint32_t needed_places(const struct few *q)
{
	uint64_t nodes = 0;

	for (uint64_t left = q->s->w->needed; left; left &= left - 1)
		nodes |= q->s->h->nic_node[lowest(left)] < q->s->h->nnodes ? UINT64_C(1) << q->s->h->nic_node[lowest(left)] : 0;
	return places_of(q, nodes);
}

/* Of some sets, those that may have their devices where so many cells fit; `least` are the nodes that GPUs of any are on. */
static struct sets on_places(const struct few *q, struct sets some, struct supply from, uint32_t cells, uint32_t least)
{
	struct sets places = both(from.enough, q->room[cells > SOLVE_FEW || q->any_number ? 0 : cells]);
	uint32_t most = cells < q->h->nplaces ? cells : q->h->nplaces;

	for (uint32_t more = 0; more < q->want && least + more < most && from.some && any(places); more++)
		places = with_one_less(places, from.some);
	for (uint32_t left = q->s->w->needed ? needed_places(q) : 0; left; left &= left - 1) /* they are among them anyway */
		places = with_one_less(both(places, with(lowest(left))), left & -left);
	if (q->h->own_places)
		return both(some, places);
	for (uint32_t i = 0; i < 4; i++)
		for (uint64_t left = some.w[i]; left; left &= left - 1) {
			uint32_t on = q->h->places[64 * i + lowest(left)];

			some.w[i] &= ~(places.w[on >> 6] >> (on & 63) & 1 ? 0 : left & -left);
		}
	return some;
}

static uint32_t least_places(const struct few *q, struct sets some)
{
	uint32_t n = 0;

	while (n < SOLVE_FEW && !any(both(some, q->h->spans[n])))
		n++;
	return n;
}

/* ---- either ------------------------------------------------------------------------------------- */

struct sets few_within(struct few *q, uint32_t limit, uint32_t cells)
{
	struct sets ret = q->can;

	if (q->s->vfs)
		few_set_limit(q, limit);
	if (q->crosses && q->exact && !q->many)
		return within_choices(q, cells);
	if (!q->crosses || !q->many)
		ret = both(ret, q->fits);
	if (q->s->vfs)
		ret = few_with_vfs(q, ret, q->s->nics);
	if (!q->crosses || !q->many || !any(ret) || (cells == UINT32_MAX && !q->short_room))
		return ret;
	return on_places(q, ret, look_at_places(q), cells, least_places(q, ret));
}

void few_choose_nodes(struct few *q)
{
	const struct search *s = q->s;
	uint32_t node[NODES_MAX], n = 0;

	for (uint32_t i = 0; i < s->h->nnodes; i++) {
		uint32_t gpus = q->h->on_node[i] & (uint32_t)s->allowed;

		if (!gpus && !(s->vfs && (s->h->on_node[i] & s->nics)))
			continue;
		if (n < NODES_MAX) {
			q->home[n] = with_any(gpus);
			node[n] = i;
		}
		n++;
	}
	if (n <= NODES_MAX) {
		make_choices(q, node, n);
	} else if (q->h->nplaces > SOLVE_FEW) {
		q->exact = false;
	} else {
		find_room(q);
		q->fits = on_places(q, q->can, (struct supply){ every(), 0 }, UINT32_MAX, 0);
	}
}

void few_find_nodes(struct few *q, struct bound *b)
{
	uint32_t least = least_places(q, q->can);
	struct supply from;
	struct sets some;

	if (!q->many) {
		find_choice(q, b);
		return;
	}
	if (q->s->vfs)
		few_set_limit(q, NO_LIMIT);
	from = look_at_places(q);
	b->nodes = q->any_number ? q->s->w->cells : least + !least;
	while (!any(some = on_places(q, q->can, from, b->nodes, least)) && b->nodes < q->h->nplaces)
		b->nodes++;
	q->can = some;
}
