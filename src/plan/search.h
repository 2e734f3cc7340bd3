/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/search — the solver's insides (room-private; solve.c, answer.c, nics.c and nodes.c). */

#include "plan/match.h"

#define NO_LIMIT UINT16_MAX
#define WIDEST_LAST (SOLVE_WIDTHS_MAX - 1)

/* What NICs have to do for a set: none farther, narrower, on more nodes or fuller than this. */
struct bound {
	uint32_t path, width, nodes, limit;
};

#define TYPES_MAX  16
#define LEVELS_MAX 32
#define NEVER      UINT16_MAX

/* What the NICs within a class and rank can do, by Hall's theorem: GPUs that reach none but these NICs want no more VFs
 * than these have. Of path classes, where sets of NICs are apart or one in the other, that is all there is to a matching;
 * of others, a bound. */
struct level {
	uint32_t path, width, ntypes;
	uint32_t least;                                  /* VFs for all together: sharing of any set; NEVER ... */
	uint16_t near_one[SOLVE_GPUS_MAX];               /* ... and, by GPU, of a set with it */
	uint16_t of[SOLVE_GPUS_MAX];                     /* by GPU: types, by bit, of which it reaches none but the NICs */
	uint16_t limit[TYPES_MAX][SOLVE_CHOSEN_MAX + 1]; /* the least sharing with so many such GPUs; NEVER */
};

struct set {
	uint64_t gpus, home; /* home: their nodes; and ... */
	uint64_t touched;    /* ... those of NICs that they have in any case */
	uint64_t tied;       /* GPUs that must be in, because of others that are */
	uint32_t n, nodes;   /* nodes: how many are touched, at least */
	uint8_t  gpu[SOLVE_CHOSEN_MAX];
	uint32_t path, width, gpu_path, sharing; /* the least that it can have */
	const struct level *level; /* NULL: not looked at yet */
	uint32_t level_path, level_width; /* what it was when the GPUs were counted; it may have been overwritten */
	uint8_t  in[TYPES_MAX];    /* GPUs of each of its types */
	uint64_t apart;            /* VFs for all together: NICs of `nics` GPUs that share none */
	uint32_t nics;
};

struct search {
	const struct solve_host *h;
	const struct solve_free *f;
	const struct solve_want *w;
	bool         vfs;                       /* any are wanted */
	uint64_t     allowed;                   /* GPUs that have one NIC at least, where VFs are wanted */
	uint64_t     nics;                      /* that have some to give */
	uint64_t     usable, forced;            /* NICs that the set at hand can have, must have: ties */
	uint64_t     edge[SOLVE_GPUS_MAX];      /* NICs of a GPU */
	uint64_t     touched[SOLVE_GPUS_MAX];   /* its node, and that of its NICs, if they are all on one */
	uint64_t     like[SOLVE_GPUS_MAX];      /* of these the nearest, and of these the widest */
	uint8_t      nearest[SOLVE_GPUS_MAX];
	uint8_t      widest[SOLVE_CLASSES][SOLVE_GPUS_MAX]; /* rank, at this class or nearer */
	struct level level[LEVELS_MAX];
	uint32_t     nlevels;
	uint64_t     could_nics;                /* of which search_could() was asked last, and ... */
	uint32_t     could_limit;               /* ... its answer */
	struct score floor;                     /* no bundle is better */
	uint64_t     most;                      /* score_key() beyond which no set is better than the best so far */
	uint64_t     best_key;                  /* that of the best so far */
	bool         any_order;                 /* sets do not come in their order */
	bool         chained;                   /* some NICs cannot give VFs without others */
	bool         twins;                     /* the want does not tell them apart either */
	uint64_t     possible;                  /* GPUs that are not beyond it by themselves */
	struct match m;
	bool         held;                      /* m is of the best set already, with nodes extra */
	uint64_t     extra;
	bool         found;
	struct set   best;
	struct bound best_bound;
	struct score score;
};

/* Of sets that are worth the same the first is taken: the one that has the first GPU which only one of them has. */
static inline bool comes_before(uint64_t a, uint64_t b)
{
	return a & (a ^ b) & -(a ^ b);
}

static inline uint32_t lowest(uint64_t bits)
{
	return (uint32_t)__builtin_ctzll(bits);
}

extern const uint8_t search_ones[1 << SOLVE_FEW]; /* in each number */

/* Of few GPUs or nodes from a table; else by pairs, fours, bytes: without -mpopcnt the compiler would call a function. */
static inline uint32_t count(uint64_t bits)
{
	if (bits < 1u << SOLVE_FEW)
		return search_ones[bits];
	bits -= bits >> 1 & UINT64_C(0x5555555555555555);
	bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
	bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (uint32_t)(bits * UINT64_C(0x0101010101010101) >> 56);
}

/* The node that all of some NICs are on; 0: there is none. */
static inline uint64_t search_only_node(const struct search *s, uint64_t nics)
{
	uint32_t node = s->h->nic_node[lowest(nics)];

	return node < s->h->nnodes && !(nics & ~s->h->on_node[node]) ? UINT64_C(1) << node : 0;
}

/* NICs of a GPU at this class and rank or better. */
static inline uint64_t search_edges(const struct search *s, uint32_t g, uint32_t path, uint32_t width)
{
	return s->edge[g] & s->h->near[path][g] & s->h->wide[width][g];
}

/* src/plan/nics.c. False: all NICs that GPUs can have together do not have VFs for them, or one that must give some does not
 * have those, or no GPUs that can have them. */
bool search_have(const struct search *s);
void search_rank(struct search *s, uint64_t gpus, uint32_t most_path); /* their nearest and widest NICs */
/* No choice of so many VFs has a fullest NIC that is less full than this. */
uint32_t search_floor(const struct search *s);
/* Whether a matching exists with NICs on all of the nodes extra, for what m.adj or m.nics allow. */
bool search_match(struct search *s, uint64_t extra);
/* Whether the set can have its VFs within the bound; then *extra are the nodes that they add, as few as can be. */
bool search_within(struct search *s, const struct set *set, struct bound b, uint64_t *extra);
/* The same, where no fewer nodes will do, and mostly these will. */
bool search_again(struct search *s, const struct set *set, struct bound b, uint64_t *extra);
/* No bundle of the set has VFs enough within path and width on fewer nodes. */
uint32_t search_touched(struct search *s, const struct set *set);
/* Fills usable and forced; false: it cannot be a bundle. */
bool search_ties(struct search *s, const struct set *set);
/* Takes one more GPU of the set into account, or all of them: sharing is no less than the set's then; NEVER: they cannot
 * have their VFs within path and width. */
void search_limit(struct search *s, struct set *set, uint32_t g);
void search_limits(struct search *s, struct set *set, uint32_t path, uint32_t width);
/* The same of a whole set, for VFs for all together and those that are needed; false: not within path and width. */
bool search_could(struct search *s, struct set *set);

/* src/plan/score.c. Of any bundle with these GPUs, the least: what is free without them gives no fewer bundles than what is
 * free without all. */
uint32_t search_leftover(const struct search *s, uint64_t gpus);

/* src/plan/answer.c: the VFs of the best set. */
void search_answer(struct search *s, struct solve_answer *a);

/* src/plan/few.c: the same search, of hosts of up to SOLVE_FEW GPUs. */
void search_few(struct search *s);
/* src/plan/solve.c, for it: whether any set of this path and width may be better than the best so far; one more set, which
 * cannot be better than these; the best set, found. */
bool search_may_beat(const struct search *s, uint32_t path, uint32_t width);
void search_try(struct search *s, uint64_t gpus, uint32_t path, uint32_t width);
/* The set can have its VFs within; m has them then, and no other set may be tried before search_found(). */
bool search_holds(struct search *s, uint64_t gpus, struct bound b);
void search_found(struct search *s, uint64_t gpus, const struct score *score, struct bound b);
