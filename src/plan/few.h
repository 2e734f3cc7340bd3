/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/few — the search on hosts of up to eight GPUs (room-private; few.c, few_vfs.c and few_nodes.c). */

#include "plan/search.h"
#include "plan/sets.h"

#define NODES_MAX   4 /* that devices are on: all choices of them are looked at */
#define CHOICES_MAX (1 << NODES_MAX)
#define GROUPS_MAX  16
#define SERVED_MAX  4

struct choice { /* nodes that the devices may be on */
	uint64_t    nics;
	uint32_t    cells;           /* of a guest there; 0: it does not fit */
	struct sets exactly, within; /* whose GPUs are on all of them, on none but them */
};

/* Sets that can have the same NICs, and must have some of each of the same: ties. */
struct group {
	struct sets sets;
	uint64_t    nics, forced;
};

/* GPUs whose NICs have enough for one; of these, those whose NICs do not have enough for all that share any with it. */
struct alone {
	uint32_t enough, tight;
};

struct few {
	struct search       *s;
	const struct solve_few *h;
	struct sets   can;                   /* that are still in the race */
	uint32_t      want;                  /* VFs in all */
	uint8_t       own[SOLVE_NICS_MAX];   /* by NIC: GPUs that may have its VFs ... */
	uint8_t       reach[SOLVE_NICS_MAX]; /* ... within path and width at hand */
	uint64_t      edge[SOLVE_FEW];       /* by GPU: NICs that it reaches */
	uint16_t      most[SOLVE_NICS_MAX];  /* VFs that a NIC can give, at most as many as are wanted; and ... */
	uint8_t       cap[SOLVE_NICS_MAX];   /* ... within the limit */
	uint32_t      limit;
	struct alone  alone;                 /* of all NICs, without a limit */
	uint64_t      sharers;               /* by GPU, in bytes: count_sharers() */
	bool          crosses, changed;      /* some reach NICs on other nodes; not the same as at the level before */
	bool          may, alike;            /* GPUs enough have VFs there; all that have some reach the same NICs */
	struct sets   home[NODES_MAX];       /* with a GPU on the node */
	struct choice choice[CHOICES_MAX];   /* by bits: of the nodes that there are */
	uint32_t      nchoices;
	struct group  group[GROUPS_MAX];
	uint32_t      ngroups;
	bool          many;                  /* nodes: no choices, but ... */
	struct sets   room[SOLVE_FEW + 1];   /* ... by the number of cells, sets of places where a guest fits; 0: with any */
	bool          any_number, short_room; /* always; it does not fit everywhere */
	bool          gaps;                  /* a guest may fit only if one of its NICs is elsewhere */
	bool          exact;                 /* bits say all there is; or, if loose, ... */
	bool          loose;                 /* ... no set is better than they say, but one may be worse */
	struct sets   fits;                  /* a guest does, on the nodes of their GPUs */
	uint32_t      most_cells;
};

/* src/plan/few_vfs.c */
void few_set_limit(struct few *q, uint32_t limit);
/* Reaches within these. False: too few GPUs have VFs there. changed: they do not reach the same as before. */
bool few_see_level(struct few *q, uint32_t path, uint32_t width);
/* Of `all`, sets that can have their VFs of these NICs, within path, width and limit at hand. */
struct sets few_with_vfs(const struct few *q, struct sets all, uint64_t nics);
/* Sets that have VFs for `vfs`, and `each` for each GPU: by what of n ports each has, and who reaches it. */
struct sets few_have_enough(const uint8_t *reach, const uint8_t *cap, uint32_t n, uint32_t each, uint32_t vfs);

/* src/plan/few_nodes.c: which NUMA nodes the devices can be on. */
void few_choose_nodes(struct few *q);
/* Of those that can, the ones that can within this; with no more cells than that. */
struct sets few_within(struct few *q, uint32_t limit, uint32_t cells);
/* The fewest nodes. */
void few_find_nodes(struct few *q, struct bound *b);

static inline uint64_t bytes(const uint8_t *p)
{
	uint64_t ret;

	memcpy(&ret, p, sizeof(ret));
	return ret;
}

/* VFs of some NICs: bytes that are added by twos, fours, all. */
static inline uint32_t few_have_of(const struct few *q, const uint8_t *cap, uint64_t nics)
{
	uint64_t have = 0;

	for (; nics; nics >>= 8, cap += 8) {
		uint64_t some = bytes(cap) & q->h->bytes[nics & 0xff] * 0xff;

		have += (some & UINT64_C(0x00ff00ff00ff00ff)) + (some >> 8 & UINT64_C(0x00ff00ff00ff00ff));
	}
	return (uint32_t)(have * UINT64_C(0x0001000100010001) >> 48);
}
