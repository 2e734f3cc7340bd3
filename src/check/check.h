/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* check — rules about a host, each with what was observed, what is needed, and the fix. Pure: facts in, results out.
 *
 * A rule fails, passes, does not apply, or cannot be told; what cannot be told is never ok. An error means that a
 * guest cannot have its devices, that tenants are not apart, or that GPUDirect RDMA is not direct in a guest; a
 * warning, that something works worse or is about to break; the rest is info. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/bdf.h"

struct check_run;
struct error;
struct json_object;
struct plan_acs;
struct topo;

enum check_severity { CHECK_ERROR, CHECK_WARNING, CHECK_INFO, CHECK_SEVERITIES };
enum check_result { CHECK_FAIL, CHECK_UNKNOWN, CHECK_PASS, CHECK_NOT_APPLICABLE, CHECK_RESULTS };

struct check_rule {
	const char         *id;       /* "ats.absent"; NULL ends a table */
	enum check_severity severity; /* of a failure */
	const char         *title;    /* what is wrong where it fails */
	const char         *why;      /* it matters */
	const char         *source;   /* public: a specification, kernel file, manual or report */
	const char         *needed, *fix; /* unless the finding has its own */
	void (*run)(struct check_run *run);
};

struct check_finding {
	const struct check_rule *rule;
	enum check_result        result;
	struct bdf               component; /* BDF_NONE: the host */
	const char              *observed;  /* not applicable: why, or "" */
	const char              *needed, *fix; /* "" of what passes or does not apply */
};

enum check_asked { CHECK_NOT_ASKED, CHECK_ASKED_IN_VAIN, CHECK_ASKED };

struct check_stranger { /* a function that a libvirt domain has which is no instance of velad's */
	struct bdf  bdf;
	const char *domain;
	bool        runs;
};

struct check_input {
	const struct topo *topo;
	enum check_asked   asked; /* libvirt, for its domains */
	const struct check_stranger *stranger; /* by BDF; borrowed */
	size_t             nstrangers;
	unsigned           qemu; /* version as libvirt counts, major * 1000000 + minor * 1000 + release; 0 unknown */
};

struct check_report {
	struct arena          arena;
	struct plan_acs      *acs;     /* owned: findings borrow from it */
	struct check_finding *finding; /* by result and severity, then rule, then component */
	size_t                n, size;
};

/* Every rule has at least one finding. The report borrows from in->topo. -ENOMEM. */
int check_host(struct check_report **ret, const struct check_input *in, struct error *err);
struct check_report *check_report_free(struct check_report *r); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct check_report *, check_report_free);

size_t                   check_rule_count(void);
const struct check_rule *check_rule_at(size_t i);           /* by theme, in the order of the tables */
const struct check_rule *check_rule_find(const char *id); /* NULL: there is none */

/* {"checks": [...], "counts": {...}}; docs/openapi.json has it whole. NULL: no memory. */
struct json_object *check_json(const struct check_report *r);
struct json_object *check_rule_json(const struct check_rule *rule); /* NULL: no memory */
const char *check_severity_text(enum check_severity s);
const char *check_result_text(enum check_result r);
