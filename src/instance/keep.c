/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ACS control of the ports that running guests need: a reset of a port, or of what is above it, puts it back to the
 * kernel's default, which has no Direct Translated P2P (pci_enable_acs(), drivers/pci/pci.c), and tells nobody. So it
 * is read again, set again where it was lost, and said to the instance; with it what was seen of other things. */
#include "instance/keep.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "instance/manager.h"
#include "instance/state.h"
#include "instance/steps.h"
#include "instance/store.h"

/* Instances that share a port all lost what is lost there: so it is read once for all, and all are looked at before any
 * is mended. */
static void look(struct inst_manager *m, struct kept *k)
{
	const struct kept *first = &m->keep.at[k->first];
	struct steps_acs want;

	k->lost = false;
	if (first == k) {
		k->err = ERROR_INIT;
		k->seen = m->env.act.ops->word(m->env.act.self, &k->was, k->bdf, ACT_ACS, 0, 0, &k->err);
	} else {
		k->was = first->was;
		k->err = first->seen < 0 ? first->err : ERROR_INIT;
	}
	k->r = first->seen < 0 ? first->seen : steps_acs_read(&want, &k->step, &k->err);
	if (k->r < 0)
		return;
	k->lost = (k->was & want.set) != want.set || k->was & want.clear;
	if ((k->was & ~(PCI_ACS_DT | PCI_ACS_TB)) != want.rest)
		k->r = error_set(&k->err, -ESTALE, "ACS control of port %s is 0x%02x, and was %s when the plan was made: other bits than "
				 "velad sets have changed, isolation may be lost; set them again, or delete the guest",
				 k->device, k->was, k->step.from);
}

static void mend(struct inst_manager *m, struct kept *k)
{
	struct error err = ERROR_INIT;
	struct steps_acs want;
	uint16_t now;

	if (k->lost && steps_acs_read(&want, &k->step, &err) == 0 &&
	    m->env.act.ops->word(m->env.act.self, &now, k->bdf, ACT_ACS, want.set, want.clear, &err) < 0) {
		k->r = err.code;
		k->err = err;
		k->lost = false; /* as it was: it is not kept */
	}
}

/* ---- findings --------------------------------------------------------------------------------------- */

/* Said to one instance in one transaction: to its findings, and to the journal once it is committed. */
struct telling {
	struct store_tx *tx;
	const char      *instance;
	int              r;
	struct error    *err;
};

static void add(struct telling *t, const struct kept *k, const char *rule, const char *text)
{
	struct rows_finding f = { .rule = rule, .device = k->device, .text = text };

	f.first = f.last = time(NULL);
	if (t->r == 0)
		t->r = rows_finding_add(t->tx, t->instance, &f, t->err);
}

static void add_lost(struct telling *t, const struct kept *k)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "ACS control was 0x%02x instead of %s; velad has set it again", k->was, k->step.to);
	add(t, k, "acs.lost", text);
}

static void add_errors(struct telling *t, const struct kept *k)
{
	const struct {
		const char *rule, *what;
		uint64_t    more, all;
	} kinds[] = {
		{ "aer.correctable", "correctable", k->more.correctable, k->aer.correctable },
		{ "aer.nonfatal", "uncorrectable, not fatal", k->more.nonfatal, k->aer.nonfatal },
		{ "aer.fatal", "fatal: the link below was reset", k->more.fatal, k->aer.fatal },
	};
	char text[160];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!kinds[i].more)
			continue;
		(void)snprintf(text, sizeof(text), "%" PRIu64 " PCIe errors more, %" PRIu64 " in all (%s)", kinds[i].more, kinds[i].all,
			       kinds[i].what);
		add(t, k, kinds[i].rule, text);
		log_warning("instance %s: %s: %s", t->instance, k->device, text);
	}
}

/* What makes the instance degraded. */
static bool is_bad(const struct kept *k)
{
	return k->r < 0 && (k->kind == KEPT_PORT || k->required);
}

static const char *rule_of(const struct kept *k)
{
	return k->kind == KEPT_PORT ? "acs.not-kept" : k->ats == INST_ATS_OFF ? "ats.off" : "ats.unread";
}

/* Said already: it is degraded for this reason. */
static bool is_known(const struct kept *bad)
{
	return bad->state == INST_DEGRADED && strcmp(bad->error, bad->err.text) == 0;
}

static bool is_untold(const struct kept *k)
{
	return k->kind == KEPT_NIC && k->r < 0 && !k->required && !k->told;
}

static void tell(const struct kept *k, size_t n, const struct kept *bad, enum inst_state now)
{
	for (size_t i = 0; i < n; i++) {
		if (k[i].lost)
			log_warning("instance %s: ACS control of port %s was 0x%02x instead of %s; set again", k->instance, k[i].device,
				    k[i].was, k[i].step.to);
		if (is_untold(&k[i]))
			log_warning("instance %s: %s", k->instance, k[i].err.text);
	}
	if (bad && !is_known(bad))
		log_err("instance %s is degraded: %s", k->instance, bad->err.text);
	if (now == INST_RUNNING && k->state == INST_DEGRADED)
		log_info("instance %s: degraded -> running, what it needs is as planned again", k->instance);
}

static void add_all(struct telling *t, const struct kept *k, size_t n, const struct kept *bad)
{
	for (size_t i = 0; i < n; i++) {
		if (k[i].lost)
			add_lost(t, &k[i]);
		if (is_untold(&k[i]))
			add(t, &k[i], rule_of(&k[i]), k[i].err.text);
		add_errors(t, &k[i]);
	}
	if (bad && !is_known(bad))
		add(t, bad, rule_of(bad), bad->err.text);
}

/* Of one instance: what was found, and whether it is whole. bad NULL: it is. */
static int commit(struct inst_manager *m, const struct kept *k, size_t n, const struct kept *bad, struct arena *arena,
		  struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	enum inst_state next = bad ? INST_DEGRADED : INST_RUNNING;
	struct rows_instance *in = NULL;
	struct telling t = { .instance = k->instance, .err = err };

	t.r = store_begin(&tx, m->store, err);
	if (t.r == 0)
		t.r = rows_instance_find(tx, &in, k->instance, arena, err);
	if (t.r < 0 || !in || in->state != k->state)
		return t.r; /* stopped or being deleted meanwhile: then it has nothing to be kept */
	if (!bad && !m->adopt.asked)
		next = in->state; /* whether it runs is not known */
	t.tx = tx;
	add_all(&t, k, n, bad);
	if (t.r == 0 && in->state != next)
		t.r = inst_enter(tx, in, next, bad ? bad->err.text : NULL, err);
	else if (t.r == 0 && bad && !is_known(bad))
		t.r = rows_instance_error(tx, in->name, bad->err.text, err);
	if (t.r == 0)
		t.r = store_commit(tx, err);
	if (t.r == 0)
		tell(k, n, bad, in->state);
	return t.r;
}

/* Does not ask the store as long as nothing is new. */
static int settle(struct inst_manager *m, struct kept *k, size_t n, bool *changed, struct error *err)
{
	const struct kept *bad = NULL;
	struct arena arena = { 0 };
	bool news = false;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_bad(&k[i]) && !bad)
			bad = &k[i];
		*changed = *changed || k[i].lost;
		news = news || k[i].lost || is_untold(&k[i]) || k[i].more.correctable || k[i].more.nonfatal || k[i].more.fatal;
	}
	if (news || (bad && !is_known(bad)) || (!bad && k->state == INST_DEGRADED && m->adopt.asked))
		r = commit(m, k, n, bad, &arena, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		k[i].told = k[i].told || is_untold(&k[i]);
		k[i].more = (struct host_aer){ 0 };
		k[i].lost = false;
	}
	arena_done(&arena);
	return r;
}

static int look_at_all(struct inst_manager *m, enum keep_what what, struct error *err)
{
	struct keep *k = &m->keep;
	bool lost = false, changed = false, anew = false;
	int r = 0;

	for (size_t i = 0; i < k->n; i++) {
		if (k->at[i].kind == KEPT_PORT)
			look(m, &k->at[i]);
		lost = lost || k->at[i].lost;
		anew = anew || (k->at[i].kind != KEPT_PORT && !k->at[i].looked);
	}
	for (size_t i = 0; i < k->n; i++)
		mend(m, &k->at[i]);
	if (what == KEEP_ALL || lost || anew) { /* what took the bits may have left other traces */
		keep_aer(m);
		keep_ats(m);
	}
	for (size_t i = 0, to; r == 0 && i < k->n; i = to) {
		for (to = i; to < k->n && strcmp(k->at[to].instance, k->at[i].instance) == 0; to++)
			;
		r = settle(m, &k->at[i], to - i, &changed, err);
	}
	if (changed && m->env.changed)
		m->env.changed(m->env.self);
	return r;
}

int keep_look(struct inst_manager *m, enum keep_what what, struct error *err)
{
	int r;

	if (!m->adopt.tried)
		return 0; /* a guest that the store has as running may have ended with the host, and needs nothing */
	(void)pthread_mutex_lock(&m->keep.lock);
	r = keep_list(m, err);
	if (r == 0)
		r = look_at_all(m, what, err);
	(void)pthread_mutex_unlock(&m->keep.lock);
	return r;
}
