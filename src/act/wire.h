/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/wire — what velad asks of velad-helper, and its answer: one message of a fixed size each way on a SOCK_SEQPACKET Unix
 * socket. Both ends are of one build and one machine, so the bytes are the struct's; WIRE_VERSION says so. No message
 * names a path: functions by their BDF, files and words by number. */

#include <stddef.h>
#include <stdint.h>

#include "act/act.h"
#include "base/bdf.h"
#include "plan/vf.h"

struct error;

#define WIRE_VERSION 2u
#define WIRE_LOG_DROP 0xffff /* remove them all */

enum wire_verb {
	WIRE_NONE,
	WIRE_OPEN,       /* number of enum wire_file; the answer brings a descriptor */
	WIRE_VFIO_LOAD,
	WIRE_VF_COUNT,   /* number */
	WIRE_AUTOPROBE,  /* set: of enum act_want, ACT_ON or ACT_OFF */
	WIRE_DRIVER,     /* driver */
	WIRE_WORD,       /* number of enum act_word, set, clear */
	WIRE_POWER,      /* power */
	WIRE_PARTITION,  /* number: Fabric Manager's, set: of enum act_want; the answer's word: active */
	WIRE_RESET,
	WIRE_VF,         /* vf_has, vf_value: settings of a VF that the kernel sets by one message; without any it only looks */
	WIRE_SCRUB,      /* the program is of the helper's own velad.conf */
	WIRE_LOG,        /* driver.driver: a guest's name; number: which file of its console's log, whose descriptor the answer
			  * brings, or WIRE_LOG_DROP. The directory is of the helper's own velad.conf */
	WIRE_VERB_MAX_,
};

/* Files of a function that only root may read, config beyond its header among them (pci_read_config(),
 * drivers/pci/pci-sysfs.c, looks at the credentials of who opened it); and sockets of the host's network namespace, which
 * velad is not in. The latter have no function. */
enum wire_file { WIRE_CONFIG, WIRE_VPD, WIRE_UEVENTS, WIRE_LINKS, WIRE_DEVLINK, WIRE_PARTITIONS, WIRE_FILE_MAX_ };

/* Fields that a verb does not have are zero. */
struct wire_call {
	uint32_t          version;
	uint32_t          verb;
	uint32_t          domain;
	uint8_t           bus, devfn;
	uint16_t          number, set, clear;
	struct act_driver driver;
	struct act_power  power;
	uint8_t           zero[7];
	uint32_t          vf_has;
	uint64_t          vf_value[PLAN_VF_ATTR_MAX_]; /* zero where vf_has has no bit */
};

struct wire_answer {
	uint32_t         version;
	int32_t          code; /* 0, or a negative errno */
	uint16_t         word; /* of WIRE_WORD, WIRE_PARTITION */
	struct act_power power; /* of WIRE_POWER */
	char             text[508]; /* of an error */
	uint8_t          zero[5];
	uint32_t         vf_has; /* of WIRE_VF */
	uint64_t         vf_value[PLAN_VF_ATTR_MAX_];
};

const char *wire_verb_text(enum wire_verb v);
const char *wire_file_text(enum wire_file f); /* its name in sysfs, or the socket's for host_root_ask() */
int         wire_file_find(const char *name); /* -1 if it is none */

struct wire_call wire_call(enum wire_verb verb, struct bdf fn);
struct bdf       wire_call_fn(const struct wire_call *c);

/* From whatever bytes. -EPROTO: they are not such a message; -EPERM: an argument that no machine could justify, such as
 * a bit that is not act.h's. The text names it. */
int wire_call_read(struct wire_call *ret, const void *bytes, size_t len, struct error *err);
int wire_answer_read(struct wire_answer *ret, const void *bytes, size_t len, struct error *err);
