/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ACS control of the ports that running guests need: a reset of a port, or of what is above it, puts it back to the
 * kernel's default, which has no Direct Translated P2P (pci_enable_acs(), drivers/pci/pci.c), and tells nobody. So it
 * is read again, set again where it was lost, and said to the instance. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "instance/manager.h"
#include "instance/state.h"
#include "instance/steps.h"
#include "instance/store.h"

struct port {
	const struct rows_held *held;
	uint16_t                was; /* control, when it was lost */
	bool                    lost;
	int                     r;   /* what is wrong and stays so: err */
	struct error            err;
};

/* Instances that share a port all lost what is lost there: so all are looked at before any is mended. */
static void look(struct inst_manager *m, struct port *p)
{
	struct steps_acs want;

	p->r = steps_acs_read(&want, &p->held->step, &p->err);
	if (p->r == 0)
		p->r = m->env.act.ops->word(m->env.act.self, &p->was, p->held->step.bdf, ACT_ACS, 0, 0, &p->err);
	if (p->r < 0)
		return;
	p->lost = (p->was & want.set) != want.set || p->was & want.clear;
	if ((p->was & ~(PCI_ACS_DT | PCI_ACS_TB)) != want.rest)
		p->r = error_set(&p->err, -ESTALE, "ACS control of port %s is 0x%02x, and was %s when the plan was made: other bits than "
				 "velad sets have changed, isolation may be lost; set them again, or delete the guest",
				 p->held->step.target, p->was, p->held->step.from);
}

static void mend(struct inst_manager *m, struct port *p)
{
	struct error err = ERROR_INIT;
	struct steps_acs want;
	uint16_t now;

	if (p->lost && steps_acs_read(&want, &p->held->step, &err) == 0 &&
	    m->env.act.ops->word(m->env.act.self, &now, p->held->step.bdf, ACT_ACS, want.set, want.clear, &err) < 0) {
		p->r = err.code;
		p->err = err;
		p->lost = false; /* as it was: it is not kept */
	}
}

static int add_finding(struct store_tx *tx, const struct port *p, bool lost, struct error *err)
{
	struct rows_finding f = { .rule = lost ? "acs.lost" : "acs.not-kept", .device = p->held->step.target };
	char text[128];

	(void)snprintf(text, sizeof(text), "ACS control was 0x%02x instead of %s; velad has set it again", p->was,
		       p->held->step.to);
	f.text = lost ? text : p->err.text;
	f.first = f.last = time(NULL);
	return rows_finding_add(tx, p->held->instance, &f, err);
}

/* Said already: it is degraded for this reason. */
static bool is_known(const struct rows_instance *in, const struct port *bad)
{
	return in->state == INST_DEGRADED && in->error && strcmp(in->error, bad->err.text) == 0;
}

static void tell(const struct rows_instance *in, const struct port *p, size_t n, const struct port *bad)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].lost)
			log_warning("instance %s: ACS control of port %s was 0x%02x instead of %s; set again", in->name,
				    p[i].held->step.target, p[i].was, p[i].held->step.to);
	if (bad && !is_known(in, bad))
		log_err("instance %s is degraded: %s", in->name, bad->err.text);
	if (!bad && in->state == INST_DEGRADED)
		log_info("instance %s: degraded -> running, its ports are as planned again", in->name);
}

/* Of one instance: what was found, and whether it is whole. bad NULL: it is. */
static int commit(struct inst_manager *m, const struct port *p, size_t n, const struct port *bad, struct arena *arena,
		  struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	enum inst_state next = bad ? INST_DEGRADED : INST_RUNNING;
	struct rows_instance *in = NULL;
	bool known;
	int r;

	r = store_begin(&tx, m->store, err);
	if (r == 0)
		r = rows_instance_find(tx, &in, p->held->instance, arena, err);
	if (r < 0 || !in || in->state != p->held->state)
		return r; /* stopped or being deleted meanwhile: then it has nothing to be kept */
	tell(in, p, n, bad);
	known = bad && is_known(in, bad);
	for (size_t i = 0; i < n && r == 0; i++)
		if (p[i].lost)
			r = add_finding(tx, &p[i], true, err);
	if (r == 0 && bad && !known)
		r = add_finding(tx, bad, false, err);
	if (r == 0 && in->state != next)
		r = inst_enter(tx, in, next, bad ? bad->err.text : NULL, err);
	else if (r == 0 && bad && !known)
		r = rows_instance_error(tx, in->name, bad->err.text, err);
	return r == 0 ? store_commit(tx, err) : r;
}

/* Does not ask the store as long as all is well. */
static int settle(struct inst_manager *m, const struct port *p, size_t n, bool *changed, struct error *err)
{
	const struct port *bad = NULL;
	struct arena arena = { 0 };
	bool lost = false;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		lost = lost || p[i].lost;
		if (p[i].r < 0 && !bad)
			bad = &p[i];
	}
	if (lost || bad || p->held->state == INST_DEGRADED)
		r = commit(m, p, n, bad, &arena, err);
	*changed = *changed || lost;
	arena_done(&arena);
	return r;
}

static int keep(struct inst_manager *m, const struct rows_held *held, size_t n, struct arena *arena, struct error *err)
{
	struct port *port = arena_array(arena, n, sizeof(*port));
	bool changed = false;
	int r = port ? 0 : error_set(err, -ENOMEM, "no memory to look at %zu ports", n);

	for (size_t i = 0; r == 0 && i < n; i++) {
		port[i].held = &held[i];
		look(m, &port[i]);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		mend(m, &port[i]);
	for (size_t i = 0, k; r == 0 && i < n; i = k) {
		for (k = i; k < n && strcmp(held[k].instance, held[i].instance) == 0; k++)
			;
		r = settle(m, &port[i], k - i, &changed, err);
	}
	if (changed && m->env.changed)
		m->env.changed(m->env.self);
	return r;
}

int keep_all(struct inst_manager *m, struct error *err)
{
	struct arena arena = { 0 };
	struct store_tx *tx = NULL;
	struct rows_held *held = NULL;
	size_t n = 0;
	int r = store_begin(&tx, m->store, err);

	if (r == 0)
		r = rows_held(tx, &held, &n, PLAN_STEP_ACS, &arena, err);
	tx = store_end(tx);
	m->keeping = n > 0;
	if (r == 0 && n)
		r = keep(m, held, n, &arena, err);
	arena_done(&arena);
	return r;
}
