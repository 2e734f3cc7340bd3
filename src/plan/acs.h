/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/acs — the smallest set of ACS control writes that makes wanted GPU-NIC pairs direct. Pure.
 *
 * At run time only two kinds of bits are touched: Direct Translated P2P is set, Translation Blocking is cleared, each only
 * where a wanted route needs it and the port's capability has it. Neither has a part in how the kernel formed
 * the IOMMU groups (REQ_ACS_FLAGS, drivers/iommu/iommu.c), and no untranslated request is routed otherwise
 * than before, so groups and isolation stay as they were. What does change groups is said as a kernel argument only. */

#include "base/arena.h"
#include "base/auto.h"
#include "base/bdf.h"
#include "topo/ats.h"
#include "topo/gdr.h"

struct error;

struct plan_acs_want {
	struct bdf nic, gpu; /* nic: PF, VF or data-direct function */
};

enum plan_acs_state {
	PLAN_ACS_DIRECT,     /* as it is */
	PLAN_ACS_PLANNED,    /* by the writes below */
	PLAN_ACS_BOOT,       /* by the kernel argument only: it changes IOMMU groups */
	PLAN_ACS_IMPOSSIBLE, /* no write can: why and fix say what stands in the way */
	PLAN_ACS_UNKNOWN,    /* something that matters cannot be read */
};

struct plan_acs_pair {
	struct bdf          nic, gpu;
	enum topo_class     path;
	enum host_known     ats;   /* the capability */
	enum topo_ats_state translated; /* whether requests will be */
	bool                hinges;     /* on that: the ports alone would let it be direct, as state has it; now, then, why and fix know better */
	enum plan_acs_state state;
	enum topo_verdict   now, then; /* the worst of the pair's transactions, before and after */
	enum topo_verdict   boot;      /* and after a boot with the kernel argument; of plan_acs_all() */
	enum topo_rule      rule;      /* what decides the worst one after */
	struct bdf          port;      /* where; BDF_NONE */
	const char         *through;   /* of the worst one after: topo_route_through(); NULL */
	const char         *why, *fix; /* "" where there is nothing to say */
};

struct plan_acs_write {
	struct bdf port;
	uint16_t   cap, from, to; /* ACS capability and control words; from: as it is */
};

/* A port of the kernel argument, which says all of its word. */
struct plan_acs_boot {
	struct bdf port;
	uint16_t   cap, to;
	bool       regroups; /* other bits than the kernel's default of those that it forms IOMMU groups by */
};

/* Endpoints that share an IOMMU group once the kernel argument is obeyed, and would not without it; VFs are where their
 * PF is. */
struct plan_acs_shared {
	const struct bdf *fn;
	size_t            n;
};

struct plan_acs {
	struct arena           arena;
	struct plan_acs_pair  *pair;  /* as they were wanted */
	size_t                 npairs;
	struct plan_acs_write *write; /* by port */
	size_t                 nwrites;
	struct plan_acs_boot  *at_boot; /* by port: what makes direct whatever can be, from the kernel's default on */
	size_t                 nboot;
	struct plan_acs_shared *shared;
	size_t                 nshared;
	const char            *boot;    /* these as a kernel argument; "" none needed */
	const char            *grub;    /* the same as a file for /etc/default/grub.d; "" */
	bool                   booted;  /* this kernel was started with it */
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
/* The plan for them, with its kernel argument. By the argument alone come pairs of a data-direct function, whose requests
 * are untranslated by design; with `exclusive`, for a host whose devices all go to one tenant, also those of NICs without
 * ATS: redirects are cleared, and all that reaches another without the IOMMU then comes to share one group. */
int plan_acs_all(struct plan_acs **ret, const struct topo *t, bool exclusive, struct error *err);
/* The same writes, and one from and to the same word for each port that must stay as it is: what steps hold. */
int plan_acs_steps(struct plan_acs **ret, const struct topo *t, const struct plan_acs_held *held, size_t n, struct error *err);
struct plan_acs *plan_acs_free(struct plan_acs *p); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct plan_acs *, plan_acs_free);

struct json_object;
/* {"pairs": [...], "writes": [...], "boot": ..., ...}; docs/openapi.json has it whole. held is taken; NULL: not known, for
 * there is no velad. NULL: no memory. */
struct json_object *plan_acs_json(const struct plan_acs *p, struct json_object *held);
const char *plan_acs_state_text(enum plan_acs_state s);
