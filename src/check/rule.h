/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* check/rule — what a rule's function says with (room-private). Each theme has its table, ended by an id NULL. */

#include "check/check.h"
#include "host/inventory.h"
#include "plan/acs.h"
#include "plan/settings.h"
#include "topo/topo.h"

struct check_run {
	struct check_report      *report;
	const struct check_rule  *rule;
	const struct check_input *in;
	const struct topo        *t;
	const struct inventory   *inv;
	const struct plan_acs    *acs; /* for every GPU with the NICs near it */
	const struct plan_settings_finding *settings;
	size_t                    nsettings;
	size_t                    passed;
	const char               *passed_as; /* what a single one that passed says */
	bool                      said;   /* anything at all */
	bool                      oom;
};

extern const struct check_rule check_iommu_rules[], check_group_rules[], check_boot_rules[], check_acs_rules[], check_device_rules[], check_ats_rules[], check_settings_rules[],
	check_nic_rules[], check_guest_rules[], check_found_rules[];

/* With the rule's own needed and fix. */
struct check_finding *check_fail(struct check_run *run, struct bdf bdf, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* fix: how it could be told. */
void check_unknown(struct check_run *run, struct bdf bdf, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void check_pass(struct check_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Instead of the rule's; f NULL, as check_fail() returns without memory, is fine. */
void check_fix(struct check_run *run, struct check_finding *f, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void check_needed(struct check_run *run, struct check_finding *f, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* src/check/facts.c: what several rules ask */
extern const char check_as_root[]; /* the fix of what only root can read */
bool check_is_given(enum host_kind kind); /* to guests: GPUs and VFs */
bool check_is_short(const struct host_facts *f); /* it answers, but its capabilities cannot be read: not root */
const struct host_module *check_module(const struct check_run *run, const char *name); /* NULL: it is not loaded */
const char *check_param(const struct host_module *m, const char *name); /* NULL: unknown; m NULL is fine */
/* Is the host's QEMU (major * 1000000 + minor * 1000 + release) at least that? what: of the host, that needs it. */
void check_qemu_since(struct check_run *run, unsigned least, const char *what);
/* The next option of the command line that begins so, behind that beginning; NULL: no more. *at starts at 0. */
const char *check_option(const struct check_run *run, size_t *at, const char *beginning);
/* How much of a finding's text is what was observed: behind the last "; " it may say what to do, which the rule's fix does. */
size_t check_said(const char *text);
