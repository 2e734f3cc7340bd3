/* SPDX-License-Identifier: GPL-2.0-or-later */
/* First where each device of each instance is now, then each instance with its domain, then what is left of libvirt's domains: their
 * devices are taken by somebody whom velad does not know. No domain is touched here, whoever made it. */
#include "instance/reconcile.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "host/vpd.h"
#include "instance/reconcile_rules.h"
#include "instance/reconcile_where.h"
#include "instance/state.h"

static void decide(struct work *w, struct reconcile_decision d)
{
	if (w->n == w->size) {
		size_t size = w->size ? 2 * w->size : 64;
		struct reconcile_decision *list = arena_array(w->arena, size, sizeof(*list));

		if (!list) {
			w->oom = true;
			return;
		}
		if (w->n)
			memcpy(list, w->list, w->n * sizeof(*list));
		w->list = list;
		w->size = size;
	}
	w->list[w->n++] = d;
}

static const char *__attribute__((format(printf, 2, 3))) say(struct work *w, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = arena_vprintf(w->arena, fmt, ap);
	va_end(ap);
	w->oom = w->oom || !text;
	return text ? text : "";
}

/* True: it is new. */
static bool note(struct work *w, const struct reconcile_instance *in, const char *rule, const char *device, const char *text)
{
	device = device ? device : in->name;
	for (size_t i = 0; i < in->nnotes; i++)
		if (strcmp(in->note[i].rule, rule) == 0 && strcmp(in->note[i].device, device) == 0) {
			w->wanted[i] = true;
			if (strcmp(in->note[i].text, text) == 0)
				return false;
		}
	decide(w, (struct reconcile_decision){ .kind = RECONCILE_NOTE, .instance = in->name, .rule = rule, .device = device, .text = text });
	return true;
}

static bool note_of(struct work *w, const struct held *h, const char *rule, const char *text)
{
	char name[BDF_TEXT_MAX];

	return note(w, h->in, rule, say(w, "%s", bdf_text(name, h->at)), text);
}

/* ---- who holds what ------------------------------------------------------------------------------------------ */

static int hold_all(struct work *w, struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < w->in->ninstances; i++)
		n += w->in->instance[i].n;
	w->held = arena_array(w->arena, n, sizeof(*w->held));
	w->guest = arena_array(w->arena, w->in->ninstances, sizeof(*w->guest));
	if (!w->held || !w->guest)
		return error_set(err, -ENOMEM, "no memory to compare instances with the machine");
	for (size_t i = 0; i < w->in->ninstances; i++) {
		const struct reconcile_instance *in = &w->in->instance[i];

		for (size_t k = 0; k < in->n; k++)
			w->held[w->nheld++] = (struct held){ .in = in, .device = &in->device[k], .at = in->device[k].bdf };
		for (size_t k = 0; k < w->in->nguests && w->in->asked; k++)
			if (strcmp(w->in->guest[k].uuid, in->uuid) == 0)
				w->guest[i] = &w->in->guest[k];
	}
	return 0;
}

/* ---- devices of an instance ------------------------------------------------------------------------------ */

static void note_moved(struct work *w, const struct held *h)
{
	const struct held *other = where_holder(w, h->found, h);
	char now[BDF_TEXT_MAX];

	(void)bdf_text(now, h->found);
	if (other)
		note_of(w, h, ELSEWHERE, say(w, "its card, serial number %s, is at %s now, which instance %s holds; delete one of the two",
					     h->device->serial, now, other->in->name));
	else
		note_of(w, h, ELSEWHERE, say(w, "its card, serial number %s, is at %s now, and cannot be followed there: %s", h->device->serial, now,
					     where_is_foreign(w, h->found) ? "another domain has it" : "the guest runs, or libvirt cannot be asked"));
}

static void quarantine(struct work *w, const struct held *h, struct bdf bdf)
{
	if (bdf_in(w->in->sick, w->in->nsick, bdf) || where_holder(w, bdf, NULL) || where_is_foreign(w, bdf))
		return;
	for (size_t i = 0; i < w->n; i++)
		if (w->list[i].kind == RECONCILE_QUARANTINE && bdf_eq(w->list[i].bdf, bdf))
			return;
	decide(w, (struct reconcile_decision){ .kind = RECONCILE_QUARANTINE, .bdf = bdf,
		.text = say(w, "several devices have the serial number %s, and which of them is that of instance %s is not known",
			    h->device->serial, h->in->name) });
}

/* Any of them may have in it what the tenant left. */
static void note_twice(struct work *w, const struct held *h)
{
	bool board = strncmp(h->device->serial, VPD_SERIAL_MARK, strlen(VPD_SERIAL_MARK)) == 0;

	if (board) { /* of many GPUs: nothing says that they are not what they were */
		note_of(w, h, ELSEWHERE, say(w, "several devices have the serial number %s, of their board; which one it is is not known: delete the "
					     "instance", h->device->serial));
		return;
	}
	note_of(w, h, ELSEWHERE, say(w, "several devices have its serial number, %s; those that are free are in quarantine until an operator says "
				     "which one it is", h->device->serial));
	for (size_t i = 0; i < w->in->nfunctions; i++)
		if (!w->in->function[i].vf && strcmp(w->in->function[i].serial, h->device->serial) == 0)
			quarantine(w, h, w->in->function[i].bdf);
}

/* What a delete would give back is not of the card that is there now. */
static void note_gone(struct work *w, const struct held *h)
{
	bool is_new;

	if (!h->other)
		is_new = note_of(w, h, MISSING, say(w, "it is not there%s; put the card back, or delete the instance", where_is_vf(h->device) ? ", nor is its PF" : ""));
	else
		is_new = note_of(w, h, MISSING, say(w, "another card is in its place: its serial number is %s, and was %s", h->other, h->device->serial));
	if (is_new && h->other && !where_runs(w, h->in) && w->in->asked)
		decide(w, (struct reconcile_decision){ .kind = RECONCILE_VOID, .instance = h->in->name, .bdf = h->at, .text = "another card is in its place" });
}

/* Of one that runs: its guest has lost it. */
static void check_driver(struct work *w, const struct held *h)
{
	const struct reconcile_function *f = where_function(w, h->at);

	if (!f && where_is_vf(h->device) && h->where == HERE)
		note_of(w, h, MISSING, "its PF has no such VF any more, and the guest runs");
	if (f && f->driver && strcmp(f->driver, "vfio-pci") != 0)
		note_of(w, h, BOUND, say(w, "it has %s%s, and the guest runs: somebody took it from vfio-pci", *f->driver ? "the driver " : "no driver",
					 f->driver));
}

/* Guests that share a group are not apart, and only one of them can start. */
static void check_group(struct work *w, const struct held *h)
{
	const struct reconcile_function *f = where_function(w, h->at);

	for (size_t i = 0; f && f->group >= 0 && i < w->nheld; i++) {
		const struct held *o = &w->held[i];
		const struct reconcile_function *g = o->in != h->in ? where_function(w, o->at) : NULL;
		char name[BDF_TEXT_MAX];

		if (!g || g->group != f->group)
			continue;
		note_of(w, h, GROUP, say(w, "it is in one IOMMU group with %s of instance %s: the two are not apart", bdf_text(name, g->bdf), o->in->name));
		return;
	}
}

static void check_device(struct work *w, const struct held *h)
{
	if (!bdf_eq(h->at, h->device->bdf))
		decide(w, (struct reconcile_decision){ .kind = RECONCILE_MOVE, .instance = h->in->name, .bdf = h->device->bdf, .to = h->at, .pf = h->pf,
			.text = say(w, "its card, serial number %s, is in another place", h->device->serial) });
	else if (h->where == MOVED)
		note_moved(w, h);
	else if (h->where == TWICE)
		note_twice(w, h);
	else if (h->where == GONE)
		note_gone(w, h);
	if (where_runs(w, h->in))
		check_driver(w, h);
	check_group(w, h);
}

static void check_devices(struct work *w, const struct reconcile_instance *in)
{
	for (size_t i = 0; i < w->nheld && w->in->read; i++)
		if (w->held[i].in == in)
			check_device(w, &w->held[i]);
}

/* ---- an instance and its domain -------------------------------------------------------------------------- */

static void enter(struct work *w, const struct reconcile_instance *in, enum reconcile_kind kind, enum inst_state state, const char *text)
{
	decide(w, (struct reconcile_decision){ .kind = kind, .instance = in->name, .state = state, .text = text });
}

static void keep(struct work *w, const struct reconcile_instance *in, const char *text)
{
	enter(w, in, RECONCILE_KEEP, in->state, text);
}

/* The host was booted since it was started: all that its steps did is gone. */
static bool rebooted(const struct work *w, const struct reconcile_instance *in)
{
	return w->in->read && *w->in->boot && *in->boot && strcmp(w->in->boot, in->boot) != 0;
}

static bool is_whole(const struct work *w, const struct reconcile_instance *in)
{
	for (size_t i = 0; i < w->nheld; i++)
		if (w->held[i].in == in && (w->held[i].where != HERE || where_is_foreign(w, w->held[i].at)))
			return false;
	return true;
}

/* Its cards are all there, some in other places, where they are its own from now on. */
static bool is_followed(const struct work *w, const struct reconcile_instance *in)
{
	for (size_t i = 0; i < w->nheld; i++) {
		const struct held *h = &w->held[i];

		if (h->in == in && ((h->where != HERE && bdf_eq(h->at, h->device->bdf)) || where_is_foreign(w, h->at)))
			return false;
	}
	return true;
}

static void booted(struct work *w, const struct reconcile_instance *in)
{
	bool again = w->in->restart && is_followed(w, in);

	enter(w, in, RECONCILE_STATE, INST_STOPPED, again ? NULL :
		      say(w, "the host was booted again while it ran%s; a start makes its devices ready again, which it keeps",
			  w->in->restart ? ", and its devices are not all as they were" : ""));
	if (again)
		note(w, in, TO_START, NULL, is_whole(w, in) ? "the host was booted again while it ran; [guests] on_host_boot is restart" :
		     "the host was booted again while it ran, and its cards are in other places: it is planned anew and started");
}

/* The instance runs, by the store, and its domain does not. */
static void ended(struct work *w, const struct reconcile_instance *in, const struct act_guest *g)
{
	if (rebooted(w, in)) {
		booted(w, in);
	} else if (!g) {
		enter(w, in, RECONCILE_ENDED, INST_STOPPING, RECONCILE_GONE);
	} else if (g->state == ACT_DOMAIN_CRASHED) {
		enter(w, in, RECONCILE_CRASHED, INST_STOPPING, "the guest ended by a fault");
	} else {
		enter(w, in, RECONCILE_ENDED, INST_STOPPING, NULL);
	}
}

/* NULL: libvirt could be asked. */
static const char *said_unknown(const struct reconcile_instance *in)
{
	for (size_t i = 0; i < in->nnotes; i++)
		if (strcmp(in->note[i].rule, LIBVIRT_UNKNOWN) == 0)
			return in->note[i].text;
	return NULL;
}

static void started(struct work *w, const struct reconcile_instance *in)
{
	if (in->state == INST_STOPPED || (in->state == INST_DEGRADED && said_unknown(in))) /* what else it lacks is seen at once (instance/keep) */
		enter(w, in, RECONCILE_STATE, INST_RUNNING, NULL);
	else
		keep(w, in, "its guest runs");
	if (w->in->read && *w->in->boot && !*in->boot)
		decide(w, (struct reconcile_decision){ .kind = RECONCILE_BOOT, .instance = in->name, .text = "its guest runs" });
	if (rebooted(w, in))
		note(w, in, UNPROVISIONED, NULL, "its domain was started since the host booted, and not by velad: VF settings, ACS and the like may "
		     "not be there; stop and start it");
}

/* Whether it runs is not known, so it is not "running". What velad stopped stays so. */
static void unknown(struct work *w, const struct reconcile_instance *in)
{
	const char *said = said_unknown(in), *text = said;

	if (!said || in->state != INST_DEGRADED) /* else the state is by this already, and it says what it was before */
		text = say(w, "libvirt has not answered: it was %s when it was seen last", inst_state_text(in->state));
	note(w, in, LIBVIRT_UNKNOWN, NULL, text);
	if (in->state == INST_RUNNING)
		enter(w, in, RECONCILE_STATE, INST_DEGRADED, text);
	else
		keep(w, in, "libvirt cannot be asked");
}

static void check_settled(struct work *w, const struct reconcile_instance *in)
{
	const struct act_guest *g = where_guest(w, in);

	if (!w->in->asked) {
		unknown(w, in);
	} else if (where_runs(w, in)) {
		started(w, in);
	} else if (in->state == INST_STOPPED) {
		keep(w, in, g ? "its guest is off" : "it has no domain; a start defines it");
	} else {
		ended(w, in, g);
	}
}

static void check_domain(struct work *w, const struct reconcile_instance *in)
{
	const struct act_guest *g = where_guest(w, in);

	if (!g)
		return;
	if (strcmp(g->name, in->domain) != 0)
		decide(w, (struct reconcile_decision){ .kind = RECONCILE_DOMAIN, .instance = in->name, .domain = g->name,
			.text = say(w, "its domain is called %s now, and was %s", g->name, in->domain) });
	if (strcmp(g->name, in->name) != 0)
		note(w, in, RENAMED, NULL, say(w, "somebody has renamed its domain to %s; it is known by its uuid", g->name));
	if (g->loses && *g->loses)
		note(w, in, P2P_LOST, NULL, say(w, "somebody has set %s in its domain, by which devices do not reach each other; stop and start it", g->loses));
}

static void check_shared(struct work *w, const struct reconcile_instance *in)
{
	for (size_t i = 0; i < w->nheld; i++) {
		const struct act_guest *g = w->held[i].in == in ? where_taker(w, w->held[i].at) : NULL;

		if (g)
			note_of(w, &w->held[i], SHARED, say(w, "domain %s, which velad does not know, has it too, and is %s; take it out of there",
							    g->name, g->state == ACT_DOMAIN_RUNNING ? "running" : "off"));
	}
}

static bool is_settled(enum inst_state s)
{
	return s == INST_RUNNING || s == INST_DEGRADED || s == INST_STOPPED;
}

/* Whether it was looked at what the rule is about. */
static bool was_looked_at(const struct work *w, const struct reconcile_instance *in, const char *rule)
{
	if (strcmp(rule, LIBVIRT_UNKNOWN) == 0)
		return true;
	if (strcmp(rule, RENAMED) == 0 || strcmp(rule, SHARED) == 0)
		return w->in->asked;
	if (strcmp(rule, P2P_LOST) == 0)
		return w->in->asked && !(where_guest(w, in) && !where_guest(w, in)->loses);
	if (strcmp(rule, RUNS) == 0)
		return w->in->asked && !in->busy;
	return w->in->asked && w->in->read && !in->busy;
}

static void forget(struct work *w, const struct reconcile_instance *in)
{
	for (size_t i = 0; i < in->nnotes; i++)
		if (!w->wanted[i] && reconcile_finds(in->note[i].rule) && was_looked_at(w, in, in->note[i].rule))
			decide(w, (struct reconcile_decision){ .kind = RECONCILE_FORGET, .instance = in->name, .rule = in->note[i].rule,
				.device = in->note[i].device, .text = "it is not so any more" });
}

static void check_instance(struct work *w, const struct reconcile_instance *in)
{
	w->wanted = arena_array(w->arena, in->nnotes + 1, sizeof(*w->wanted));
	w->oom = w->oom || !w->wanted;
	if (w->oom)
		return;
	check_domain(w, in);
	check_shared(w, in);
	if (in->busy) {
		enter(w, in, RECONCILE_RESUME, in->state, "an operation waits or runs");
	} else if (is_settled(in->state)) {
		check_settled(w, in);
		check_devices(w, in);
	} else {
		if (in->state == INST_FAILED)
			keep(w, in, "it failed");
		else
			enter(w, in, RECONCILE_STATE, INST_FAILED, say(w, "it was %s, and the store has no operation that would bring it to an end; "
								       "delete it", inst_state_text(in->state)));
		if (where_runs(w, in))
			note(w, in, RUNS, NULL, "its domain runs, though the instance failed; delete it");
		check_devices(w, in);
	}
	forget(w, in);
}

/* ---- domains of nobody ------------------------------------------------------------------------------------ */

static void take(struct work *w, struct bdf bdf, const struct act_guest *g)
{
	bool running = g->state == ACT_DOMAIN_RUNNING;

	for (size_t i = 0; i < w->in->nforeign; i++) {
		const struct reconcile_foreign *f = &w->in->foreign[i];

		if (bdf_eq(f->bdf, bdf) && f->runs == running && strcmp(f->domain, g->name) == 0 && strcmp(f->uuid, g->uuid) == 0)
			return;
	}
	for (size_t i = 0; i < w->n; i++)
		if (w->list[i].kind == RECONCILE_FOREIGN && bdf_eq(w->list[i].bdf, bdf))
			return;
	decide(w, (struct reconcile_decision){ .kind = RECONCILE_FOREIGN, .bdf = bdf, .domain = g->name, .uuid = g->uuid, .runs = running,
		.text = say(w, "domain %s has it, which %s", g->name, g->ours ? "carries velad's mark and is no instance's" : "velad does not know") });
}

static void check_foreign(struct work *w)
{
	for (size_t i = 0; i < w->in->nforeign; i++) {
		const struct reconcile_foreign *f = &w->in->foreign[i];

		if (where_holder(w, f->bdf, NULL) || !where_is_foreign(w, f->bdf))
			decide(w, (struct reconcile_decision){ .kind = RECONCILE_FREE, .bdf = f->bdf, .domain = f->domain, .uuid = f->uuid,
				.text = say(w, "domain %s has it no more", f->domain) });
	}
	for (size_t i = 0; i < w->in->nguests; i++)
		for (size_t k = 0; k < w->in->guest[i].n; k++) {
			struct bdf bdf = w->in->guest[i].device[k];
			const struct act_guest *g = where_taker(w, bdf);

			if (g && !where_holder(w, bdf, NULL))
				take(w, bdf, g);
		}
}

int reconcile(struct reconcile_decision **ret, size_t *n, const struct reconcile_input *in, struct arena *arena, struct error *err)
{
	struct work w = { .in = in, .arena = arena };
	int r = hold_all(&w, err);

	if (r < 0)
		return r;
	where_locate(&w);
	for (size_t i = 0; i < in->ninstances; i++)
		check_instance(&w, &in->instance[i]);
	if (in->asked)
		check_foreign(&w);
	if (w.oom)
		return error_set(err, -ENOMEM, "no memory to compare instances with the machine");
	*ret = w.list;
	*n = w.n;
	return 0;
}
