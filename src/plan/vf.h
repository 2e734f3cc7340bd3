/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/vf — what a PF's driver lets be set of its VFs, in the words of ip-link(8), as values. Pure. A guest's VF has what
 * was asked for and its own address; all else is at its default, whoever had the VF before. */

#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct json_object;
struct plan;

enum plan_vf_attr {
	PLAN_VF_MAC,         /* 48 bits; 0: the driver's choice */
	PLAN_VF_VLAN,        /* 0 none */
	PLAN_VF_QOS,
	PLAN_VF_PROTOCOL,    /* 0x8100 802.1Q, 0x88a8 802.1ad */
	PLAN_VF_TRUST,       /* it may be promiscuous and have other addresses */
	PLAN_VF_SPOOF_CHECK, /* it may send as itself only */
	PLAN_VF_MIN_RATE,    /* Mb/s; 0 none */
	PLAN_VF_MAX_RATE,
	PLAN_VF_LINK_STATE,  /* 0 as the port's, 1 up, 2 down (IFLA_VF_LINK_STATE_*) */
	PLAN_VF_NODE_GUID,   /* InfiniBand's */
	PLAN_VF_PORT_GUID,
	PLAN_VF_ATTR_MAX_,
};

#define PLAN_VF_BIT(a)   (1u << (a))
#define PLAN_VF_GUIDS    (PLAN_VF_BIT(PLAN_VF_NODE_GUID) | PLAN_VF_BIT(PLAN_VF_PORT_GUID))
#define PLAN_VF_ADDRESS  (PLAN_VF_BIT(PLAN_VF_MAC) | PLAN_VF_GUIDS)
#define PLAN_VF_AUTO     UINT64_MAX /* of an address: made from the instance's uuid */
#define PLAN_VF_TEXT_MAX 320

struct plan_vf_settings {
	uint32_t has; /* bits: those that are known, or wanted */
	uint64_t value[PLAN_VF_ATTR_MAX_];
};

/* "mac=52:54:00:12:34:56 vlan=100"; commas will do. -EINVAL names key and fix. */
int  plan_vf_parse(struct plan_vf_settings *ret, const char *text, struct error *err);
const char *plan_vf_text(char out[PLAN_VF_TEXT_MAX], const struct plan_vf_settings *s); /* returns out */
/* One JSON object, its keys read through a field table; values that do not go together are refused, too. */
int  plan_vf_read(struct plan_vf_settings *ret, struct json_object *obj, const char *where, struct arena *arena,
		  struct error *err);
struct json_object *plan_vf_json(const struct plan_vf_settings *s); /* NULL: no memory */

/* Names with blanks between them, or "none", as bits. -EINVAL names the one that is none. */
int plan_vf_bits(uint32_t *ret, const char *names, struct error *err);

/* What a VF with these wishes shall have: a VF with GUIDs is InfiniBand's. */
struct plan_vf_settings plan_vf_whole(const struct plan_vf_settings *asked);
/* Bits of what has to be set so that `now` is as wanted, of what the driver has at all. */
uint32_t plan_vf_changes(const struct plan_vf_settings *now, const struct plan_vf_settings *want);
/* The first of those bits, with all that the kernel sets by the same message. 0 at the end. */
uint32_t plan_vf_group(uint32_t changes);
struct plan_vf_settings plan_vf_pick(const struct plan_vf_settings *s, uint32_t bits);
/* "mac and vlan" */
const char *plan_vf_names(char out[PLAN_VF_TEXT_MAX], uint32_t bits);

/* Addresses that are still PLAN_VF_AUTO, of VFs and in steps, from the instance's uuid. -ENOMEM. */
int plan_identify(struct plan *plan, const char *uuid);
