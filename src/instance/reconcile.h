/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/reconcile — what the store has, what libvirt says and what the machine is, held against each other: what became of
 * instances, domains and devices while no velad was there, or behind its back. Pure. A device is known by its serial number and
 * function number where it has a serial number, else by its BDF. What is not known is never taken for gone: it changes nothing. */

#include <stdbool.h>
#include <stddef.h>

#include "act/act.h"
#include "instance/instance.h"

struct arena;
struct error;

struct reconcile_device {
	struct bdf  bdf, pf; /* pf: of a VF; BDF_NONE */
	const char *serial;  /* when it was lent; of a VF its PF's; "" unknown */
};

struct reconcile_note { /* a finding of an instance that is one of reconcile_rules */
	const char *rule, *device, *text; /* device: a BDF, or the name of the instance */
};

struct reconcile_instance {
	const char     *name, *uuid;
	const char     *domain; /* the name of its domain */
	enum inst_state state;
	bool            busy;   /* an operation waits or runs, which brings it into a state */
	const char     *boot;   /* id of the boot in which it was started last; "" unknown */
	const struct reconcile_device *device;
	size_t          n;
	const struct reconcile_note *note; /* that the store has */
	size_t          nnotes;
};

struct reconcile_foreign { /* a function that a domain has which is no instance's */
	struct bdf  bdf;
	const char *domain, *uuid;
	bool        runs;
};

struct reconcile_function { /* physical ones, and VFs that instances hold */
	struct bdf  bdf;
	bool        vf;
	const char *serial; /* "" none, or unknown */
	const char *driver; /* "" none; NULL unknown */
	int         group;  /* of the IOMMU; -1 none, or unknown. It may be another one after each boot, and is no key */
};

struct reconcile_input {
	const struct reconcile_instance *instance; /* by name */
	size_t                           ninstances;
	const struct reconcile_foreign  *foreign;  /* as the store has them, by BDF */
	size_t                           nforeign;
	const struct bdf                *sick;     /* in quarantine */
	size_t                           nsick;
	bool                             asked;    /* false: libvirt cannot be asked, and guest says nothing */
	const struct act_guest          *guest;
	size_t                           nguests;
	bool                             read;     /* false: the machine could not be read, and what is below says nothing */
	const char                      *boot;     /* id of this boot; "" unknown */
	const struct reconcile_function *function; /* by BDF */
	size_t                           nfunctions;
	bool                             restart;  /* guests that ran when the host went down are started again */
};

#define RECONCILE_GONE "its domain is gone: somebody undefined it; a start defines it again"

enum reconcile_kind {
	RECONCILE_KEEP,    /* the instance is as the store has it */
	RECONCILE_RESUME,  /* its operation goes on, and says what becomes of it */
	RECONCILE_STATE,   /* it enters `state`; text: its error; NULL none */
	RECONCILE_ENDED,   /* the same, for its guest ended: what it had passes the gate, and then it is stopped */
	RECONCILE_CRASHED, /* likewise, by a fault */
	RECONCILE_BOOT,    /* it was started in this boot */
	RECONCILE_DOMAIN,  /* its domain is called `domain` now */
	RECONCILE_MOVE,    /* its device `bdf` is at `to` now, and its PF at `pf` */
	RECONCILE_VOID,    /* another card is where its device `bdf` was: nothing of it is to be given back there */
	RECONCILE_NOTE,    /* a finding: rule, device, text */
	RECONCILE_FORGET,  /* a finding that is none any more: rule, device */
	RECONCILE_FOREIGN, /* `bdf` is taken by `domain`; or that is new about it */
	RECONCILE_FREE,    /* it is not any more */
	RECONCILE_QUARANTINE, /* `bdf` may be a device of an instance: text says of which */
	RECONCILE_KIND_MAX_,
};

struct reconcile_decision {
	enum reconcile_kind kind;
	const char         *instance; /* NULL: of none */
	enum inst_state     state;
	struct bdf          bdf, to, pf; /* pf: BDF_NONE of what is no VF */
	const char         *domain, *uuid, *rule, *device;
	bool                runs; /* the foreign domain */
	const char         *text; /* why, for people; never NULL but where it says so */
};

/* The decisions in the order in which they are to be done, in the arena; texts are the input's, or in the arena. Done, another call
 * has only RECONCILE_KEEP and RECONCILE_RESUME. -ENOMEM. */
int reconcile(struct reconcile_decision **ret, size_t *n, const struct reconcile_input *in, struct arena *arena, struct error *err);
