/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/acs — the smallest set of ACS control writes that makes wanted GPU-NIC pairs direct. Pure.
 *
 * Only two kinds of bits are touched: Direct Translated P2P is set, Translation Blocking is cleared, each only
 * where a wanted route needs it and the port's capability has it. Neither has a part in how the kernel formed
 * the IOMMU groups (REQ_ACS_FLAGS, drivers/iommu/iommu.c), and no untranslated request is routed otherwise
 * than before, so groups and isolation stay as they were. */

#include "base/arena.h"
#include "base/auto.h"
#include "base/bdf.h"
#include "topo/gdr.h"

struct error;

struct plan_acs_want {
	struct bdf nic, gpu; /* nic: PF, VF or data-direct function */
};

enum plan_acs_state {
	PLAN_ACS_DIRECT,     /* as it is */
	PLAN_ACS_PLANNED,    /* by the writes below */
	PLAN_ACS_IMPOSSIBLE, /* no write can: why and fix say what stands in the way */
	PLAN_ACS_UNKNOWN,    /* something that matters cannot be read */
};

struct plan_acs_pair {
	struct bdf          nic, gpu;
	enum topo_class     path;
	enum host_known     ats;
	enum plan_acs_state state;
	enum topo_verdict   now, then; /* the worst of the pair's transactions, before and after */
	enum topo_rule      rule;      /* what decides the worst one after */
	struct bdf          port;      /* where; BDF_NONE */
	const char         *why, *fix; /* "" where there is nothing to say */
};

struct plan_acs_write {
	struct bdf port;
	uint16_t   cap, from, to; /* ACS capability and control words; from: as it is */
};

struct plan_acs {
	struct arena           arena;
	struct plan_acs_pair  *pair;  /* as they were wanted */
	size_t                 npairs;
	struct plan_acs_write *write; /* by port */
	size_t                 nwrites;
	const char            *boot;    /* a kernel argument with the same effect that outlives resets; "" none needed */
	const char            *warning; /* about boot, for this host's kernel; "" */
};

/* base: ACS control words by node that the writes start from; NULL: those read. What a write takes away from base
 * it takes away from the word that is there, and so on: with a base that lacks bits which are set, a write from
 * and to the same word says that the wanted routes need the port as it is.
 * -ENOENT: there is no such function; -EINVAL: it is none of the kind. */
int plan_acs_make(struct plan_acs **ret, const struct topo *t, const uint16_t *base, const struct plan_acs_want *want,
		  size_t n, struct error *err);
/* A port that instances hold, with what Direct Translated P2P and Translation Blocking were before them. */
struct plan_acs_held {
	struct bdf port;
	uint16_t   was;
};

/* The control words by node as they are, or as p's writes leave them (p NULL: none). NULL: no memory. */
uint16_t *plan_acs_words(const struct topo *t, const struct plan_acs *p, struct arena *arena);
/* A base in which nothing is as wanted yet: no port has Direct Translated P2P, and what instances cleared is set. So
 * the writes name every port that a route needs, also one that somebody else has set already. NULL: no memory. */
uint16_t *plan_acs_base(const struct topo *t, const struct plan_acs_held *held, size_t n, struct arena *arena);
/* What an operator would want without saying more: each GPU with every NIC, or data-direct function of one, below
 * a common switch; a GPU that has none, with the nearest. The array is in the arena. */
int plan_acs_wants(struct plan_acs_want **ret, size_t *n, const struct topo *t, struct arena *arena);
/* The plan for them. */
int plan_acs_all(struct plan_acs **ret, const struct topo *t, struct error *err);
struct plan_acs *plan_acs_free(struct plan_acs *p); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct plan_acs *, plan_acs_free);

struct json_object;
/* {"pairs": [...], "writes": [...], "boot": ..., "warning": ...}; docs/openapi.json has it whole. NULL: no memory. */
struct json_object *plan_acs_json(const struct plan_acs *p);
const char *plan_acs_state_text(enum plan_acs_state s);
