/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reconciliation: a table of what can have happened, one row each, with the decisions word for word; then random stores, libvirts and
 * machines, on which the invariants hold. */
#include "instance/reconcile.h"

#include "base/sbuf.h"
#include "base/strtab.h"
#include "instance/state.h"
#include "support.h"

#define MANY 8

static const char *const kinds[RECONCILE_KIND_MAX_] = {
	[RECONCILE_KEEP] = "keep",     [RECONCILE_RESUME] = "resume",   [RECONCILE_STATE] = "state",     [RECONCILE_CRASHED] = "crashed", [RECONCILE_ENDED] = "ended",
	[RECONCILE_BOOT] = "boot",       [RECONCILE_DOMAIN] = "domain",   [RECONCILE_MOVE] = "move",     [RECONCILE_VOID] = "void",
	[RECONCILE_NOTE] = "note",     [RECONCILE_FORGET] = "forget",   [RECONCILE_FOREIGN] = "foreign", [RECONCILE_FREE] = "free",
	[RECONCILE_QUARANTINE] = "quarantine",
};

static const char *kind_text(enum reconcile_kind k)
{
	return strtab_text(kinds, RECONCILE_KIND_MAX_, k);
}

/* ---- a small language for rows ---------------------------------------------------------------------------- */

struct world {
	struct reconcile_instance in[MANY];
	struct reconcile_device   device[MANY][MANY];
	struct reconcile_note     notes[MANY][4 * MANY];
	struct act_guest          guest[MANY];
	struct bdf                has[MANY][MANY];
	struct reconcile_foreign  foreign[8 * MANY];
	struct reconcile_function fn[8 * MANY];
	struct bdf                sick[8 * MANY];
	struct reconcile_input    input;
	struct arena              arena; /* of the last answer, and of what was taken over from it */
};

static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->input = (struct reconcile_input){ .instance = w->in, .foreign = w->foreign, .sick = w->sick, .asked = true, .guest = w->guest, .read = true,
					     .boot = "b1", .function = w->fn };
	return w;
}

static void world_free(struct world *w)
{
	arena_done(&w->arena);
	free(w);
}

static struct reconcile_instance *instance(struct world *w, const char *name, const char *uuid, enum inst_state state, const char *boot)
{
	size_t i = w->input.ninstances++;

	w->in[i] = (struct reconcile_instance){ .name = name, .uuid = uuid, .domain = name, .state = state, .boot = boot,
						.device = w->device[i], .note = w->notes[i] };
	return &w->in[i];
}

static void device(struct world *w, struct reconcile_instance *in, const char *bdf, const char *serial, const char *pf)
{
	struct reconcile_device *d = &w->device[in - w->in][in->n++];

	*d = (struct reconcile_device){ test_bdf(bdf), pf ? test_bdf(pf) : BDF_NONE, serial };
}

static struct act_guest *guest(struct world *w, const char *name, const char *uuid, enum act_domain state, const char *bdf)
{
	size_t i = w->input.nguests++;
	struct act_guest *g = &w->guest[i];

	*g = (struct act_guest){ .name = name, .state = state, .known = true, .device = w->has[i] };
	(void)snprintf(g->uuid, sizeof(g->uuid), "%s", uuid);
	if (bdf)
		w->has[i][g->n++] = test_bdf(bdf);
	return g;
}

static struct reconcile_function *function(struct world *w, const char *bdf, const char *serial, const char *driver)
{
	struct reconcile_function *f = &w->fn[w->input.nfunctions++];

	*f = (struct reconcile_function){ .bdf = test_bdf(bdf), .serial = serial, .driver = driver, .group = -1 };
	return f;
}

static void foreign(struct world *w, const char *bdf, const char *domain, const char *uuid, bool runs)
{
	w->foreign[w->input.nforeign++] = (struct reconcile_foreign){ test_bdf(bdf), domain, uuid, runs };
}

static void noted(struct world *w, struct reconcile_instance *in, const char *rule, const char *at, const char *text)
{
	w->notes[in - w->in][in->nnotes++] = (struct reconcile_note){ rule, at, text };
}

/* Instance a has a GPU and a VF, and its domain. */
static struct reconcile_instance *usual(struct world *w, enum inst_state state, enum act_domain domain)
{
	struct reconcile_instance *in = instance(w, "a", "ua", state, "b1");

	device(w, in, "0000:19:00.0", "gpu1", NULL);
	device(w, in, "0000:1a:00.2", "nic1", "0000:1a:00.0");
	if (domain != ACT_DOMAIN_ABSENT)
		guest(w, "a", "ua", domain, "0000:19:00.0");
	function(w, "0000:19:00.0", "gpu1", "vfio-pci");
	function(w, "0000:1a:00.0", "nic1", "mlx5_core");
	function(w, "0000:1a:00.2", "nic1", "vfio-pci")->vf = true;
	function(w, "0000:3b:00.0", "gpu2", "nvidia");
	return in;
}

/* ---- what is asserted of each answer ------------------------------------------------------------------------ */

static void line(struct sbuf *b, const struct reconcile_decision *d)
{
	char bdf[BDF_TEXT_MAX], to[BDF_TEXT_MAX];
	bool state = d->kind >= RECONCILE_STATE && d->kind <= RECONCILE_CRASHED;

	sbuf_addf(b, "%s", kind_text(d->kind));
	if (d->instance)
		sbuf_addf(b, " %s", d->instance);
	if (state)
		sbuf_addf(b, " %s", inst_state_text(d->state));
	if (d->kind == RECONCILE_VOID)
		sbuf_addf(b, " %s", bdf_text(bdf, d->bdf));
	if (d->kind == RECONCILE_MOVE)
		sbuf_addf(b, " %s %s", bdf_text(bdf, d->bdf), bdf_text(to, d->to));
	if (!d->instance)
		sbuf_addf(b, " %s", bdf_text(bdf, d->bdf));
	if (d->domain)
		sbuf_addf(b, " %s", d->domain);
	if (d->rule)
		sbuf_addf(b, " %s %s", d->rule, d->device);
	sbuf_addf(b, "\n");
}

static const struct reconcile_decision *answer(struct world *w, size_t *n)
{
	struct reconcile_decision *d = NULL;
	struct error err = ERROR_INIT;

	*n = 0;
	assert_int_equal(reconcile(&d, n, &w->input, &w->arena, &err), 0);
	for (size_t i = 0; i < *n; i++) {
		assert_true(d[i].text || d[i].kind == RECONCILE_STATE || d[i].kind == RECONCILE_ENDED);
		assert_true(!d[i].text || *d[i].text);
	}
	return d;
}

static bool lasts(enum reconcile_kind k)
{
	return k == RECONCILE_KEEP || k == RECONCILE_RESUME;
}

/* What a manager does with the answer, on the world. */
static void apply_foreign(struct world *w, const struct reconcile_decision *d)
{
	size_t i = 0;

	while (i < w->input.nforeign && !bdf_eq(w->foreign[i].bdf, d->bdf))
		i++;
	if (d->kind == RECONCILE_FOREIGN) {
		assert_true(i < ARRAY_SIZE(w->foreign));
		w->foreign[i] = (struct reconcile_foreign){ d->bdf, d->domain, d->uuid, d->runs };
		w->input.nforeign += i == w->input.nforeign;
		return;
	}
	assert_true(i < w->input.nforeign); /* nothing is freed that was not taken */
	w->foreign[i] = w->foreign[--w->input.nforeign];
}

static void apply_note(struct world *w, struct reconcile_instance *in, const struct reconcile_decision *d)
{
	struct reconcile_note *notes = w->notes[in - w->in];
	size_t i = 0;

	while (i < in->nnotes && (strcmp(notes[i].rule, d->rule) != 0 || strcmp(notes[i].device, d->device) != 0))
		i++;
	if (d->kind == RECONCILE_NOTE) {
		assert_true(i < ARRAY_SIZE(w->notes[0]));
		notes[i] = (struct reconcile_note){ d->rule, d->device, d->text };
		in->nnotes += i == in->nnotes;
		return;
	}
	assert_true(i < in->nnotes);
	notes[i] = notes[--in->nnotes];
}

static void apply_move(struct world *w, struct reconcile_instance *in, const struct reconcile_decision *d, const bool *done)
{
	struct reconcile_device *all = w->device[in - w->in];

	for (size_t i = 0; i < in->n; i++) {
		if (done[i] || !bdf_eq(all[i].bdf, d->bdf))
			continue;
		assert_int_equal(bdf_eq(all[i].pf, BDF_NONE), bdf_eq(d->pf, BDF_NONE));
		all[i].pf = d->pf;
		all[i].bdf = d->to;
		((bool *)done)[i] = true;
		return;
	}
	fail_msg("a device was moved that %s does not have", in->name);
}

static void apply(struct world *w, const struct reconcile_decision *d, size_t n)
{
	bool done[MANY][MANY] = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct reconcile_instance *in = NULL;

		for (size_t k = 0; k < w->input.ninstances; k++)
			if (d[i].instance && strcmp(w->in[k].name, d[i].instance) == 0)
				in = &w->in[k];
		switch (d[i].kind) {
		case RECONCILE_ENDED:
		case RECONCILE_CRASHED:
			in->busy = true; /* by the operation that passes it through the gate */
			in->state = d[i].state;
			break;
		case RECONCILE_STATE:
			in->state = d[i].state;
			break;
		case RECONCILE_BOOT:
			in->boot = w->input.boot;
			break;
		case RECONCILE_DOMAIN:
			in->domain = d[i].domain;
			break;
		case RECONCILE_MOVE:
			apply_move(w, in, &d[i], done[in - w->in]);
			break;
		case RECONCILE_NOTE:
		case RECONCILE_FORGET:
			apply_note(w, in, &d[i]);
			break;
		case RECONCILE_FOREIGN:
		case RECONCILE_FREE:
			apply_foreign(w, &d[i]);
			break;
		case RECONCILE_QUARANTINE:
			assert_true(w->input.nsick < ARRAY_SIZE(w->sick));
			w->sick[w->input.nsick++] = d[i].bdf;
			break;
		default:
			break;
		}
	}
}

/* The answer is `want`, a line each; what is done is done: another look has nothing to do. */
static void expect(struct world *w, const char *want)
{
	struct sbuf b = { 0 };
	size_t n;
	const struct reconcile_decision *d = answer(w, &n);
	autofree char *text = NULL;

	for (size_t i = 0; i < n; i++)
		line(&b, &d[i]);
	sbuf_addf(&b, "%s", "");
	text = sbuf_steal(&b);
	assert_string_equal(text ? text : "", want);
	apply(w, d, n);
	d = answer(w, &n);
	for (size_t i = 0; i < n; i++)
		if (!lasts(d[i].kind))
			fail_msg("it has still to do: %s %s %s", kind_text(d[i].kind), d[i].rule ? d[i].rule : "", d[i].text);
	world_free(w);
}

static const char *text_of(struct world *w, enum reconcile_kind kind)
{
	size_t n;
	const struct reconcile_decision *d = answer(w, &n);

	for (size_t i = 0; i < n; i++)
		if (d[i].kind == kind)
			return d[i].text ? d[i].text : "";
	fail_msg("nothing is to be done of kind %s", kind_text(kind));
	return NULL;
}

static void expect_text(struct world *w, enum reconcile_kind kind, const char *part)
{
	const char *text = text_of(w, kind);

	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

static void as_it_was(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	expect(w, "keep a\n");
	w = world_new();
	usual(w, INST_DEGRADED, ACT_DOMAIN_RUNNING);
	expect(w, "keep a\n");
	w = world_new();
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	expect(w, "keep a\n");
	w = world_new();
	usual(w, INST_STOPPED, ACT_DOMAIN_ABSENT);
	expect(w, "keep a\n");
	w = world_new();
	usual(w, INST_FAILED, ACT_DOMAIN_ABSENT);
	expect(w, "keep a\n");
}

/* An operation of an earlier daemon is brought to its end by the queue, whatever the domain does. */
static void in_flight(void **state)
{
	static const enum inst_state states[] = { INST_PLANNED, INST_PROVISIONING, INST_STOPPING, INST_DELETING, INST_RUNNING, INST_STOPPED };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		for (int d = ACT_DOMAIN_ABSENT; d <= ACT_DOMAIN_CRASHED; d++) {
			struct world *w = world_new();

			usual(w, states[i], (enum act_domain)d)->busy = true;
			expect(w, "resume a\n");
		}
}

/* No operation, and in a state that only an operation leaves: the store lost it. */
static void stuck(void **state)
{
	static const enum inst_state states[] = { INST_PLANNED, INST_PROVISIONING, INST_STOPPING, INST_DELETING };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct world *w = world_new();

		usual(w, states[i], ACT_DOMAIN_ABSENT);
		expect_text(w, RECONCILE_STATE, inst_state_text(states[i]));
		expect(w, "state a failed\n");
		w = world_new();
		usual(w, states[i], ACT_DOMAIN_RUNNING);
		expect(w, "state a failed\nnote a guest.runs a\n");
	}
}

static void running_but_unknown(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	guest(w, "other", "uo", ACT_DOMAIN_RUNNING, "0000:3b:00.0");
	guest(w, "plain", "up", ACT_DOMAIN_RUNNING, NULL);
	expect_text(w, RECONCILE_FOREIGN, "which velad does not know");
	expect(w, "keep a\nforeign 0000:3b:00.0 other\n");

	w = world_new(); /* one of velad's of which its store has nothing */
	guest(w, "lost", "ul", ACT_DOMAIN_RUNNING, "0000:3b:00.0")->ours = true;
	expect_text(w, RECONCILE_FOREIGN, "carries velad's mark");
	expect(w, "foreign 0000:3b:00.0 lost\n");

	w = world_new(); /* of the same name, and another uuid */
	usual(w, INST_STOPPED, ACT_DOMAIN_ABSENT);
	guest(w, "a", "ux", ACT_DOMAIN_RUNNING, "0000:3b:00.0");
	expect(w, "keep a\nforeign 0000:3b:00.0 a\n");

	w = world_new(); /* it is off, and may be started at any time; then two want it, and the one that runs has it */
	guest(w, "off", "u1", ACT_DOMAIN_SHUTOFF, "0000:3b:00.0");
	guest(w, "on", "u2", ACT_DOMAIN_RUNNING, "0000:3b:00.0");
	foreign(w, "0000:3b:00.0", "off", "u1", false);
	expect(w, "foreign 0000:3b:00.0 on\n");
}

static void unknown_goes(void **state)
{
	struct world *w = world_new();

	(void)state;
	foreign(w, "0000:3b:00.0", "other", "uo", true);
	expect(w, "free 0000:3b:00.0 other\n");
	w = world_new(); /* stopped */
	foreign(w, "0000:3b:00.0", "other", "uo", true);
	guest(w, "other", "uo", ACT_DOMAIN_SHUTOFF, "0000:3b:00.0");
	expect(w, "foreign 0000:3b:00.0 other\n");
	w = world_new(); /* renamed */
	foreign(w, "0000:3b:00.0", "other", "uo", true);
	guest(w, "new", "uo", ACT_DOMAIN_RUNNING, "0000:3b:00.0");
	expect(w, "foreign 0000:3b:00.0 new\n");
	w = world_new(); /* its XML cannot be read */
	foreign(w, "0000:3b:00.0", "other", "uo", true);
	guest(w, "other", "uo", ACT_DOMAIN_RUNNING, NULL)->known = false;
	expect(w, "");
	w = world_new(); /* libvirt cannot be asked */
	foreign(w, "0000:3b:00.0", "other", "uo", true);
	w->input.asked = false;
	expect(w, "");
}

/* It has what an instance has: it stays the instance's, and both are told. */
static void shared(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	guest(w, "other", "uo", ACT_DOMAIN_RUNNING, "0000:19:00.0");
	expect_text(w, RECONCILE_NOTE, "domain other, which velad does not know, has it too, and is running");
	expect(w, "note a device.foreign 0000:19:00.0\nkeep a\n");
	w = world_new();
	noted(w, usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF), "device.foreign", "0000:19:00.0", "as above");
	foreign(w, "0000:19:00.0", "other", "uo", true); /* as an instance took it, it stopped being free to others */
	expect(w, "keep a\nforget a device.foreign 0000:19:00.0\nfree 0000:19:00.0 other\n");
}

static void known_but_gone(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_ABSENT);
	expect_text(w, RECONCILE_ENDED, "somebody undefined it");
	expect(w, "ended a stopping\n");
	w = world_new();
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF);
	expect(w, "ended a stopping\n");
	w = world_new();
	usual(w, INST_DEGRADED, ACT_DOMAIN_CRASHED);
	expect(w, "crashed a stopping\n");
	w = world_new();
	usual(w, INST_STOPPED, ACT_DOMAIN_RUNNING);
	expect(w, "state a running\n");
	w = world_new();
	usual(w, INST_FAILED, ACT_DOMAIN_RUNNING);
	expect(w, "keep a\nnote a guest.runs a\n");
}

static void renamed(void **state)
{
	struct reconcile_instance *in;
	struct world *w = world_new();

	(void)state;
	in = usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->guest[0].name = "b";
	expect(w, "domain a b\nnote a domain.renamed a\nkeep a\n");
	w = world_new(); /* and again, and stopped by that */
	in = usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF);
	in->domain = "b";
	noted(w, in, "domain.renamed", "a", "somebody has renamed its domain to b; it is known by its uuid");
	w->guest[0].name = "c";
	expect(w, "domain a c\nnote a domain.renamed a\nended a stopping\n");
	w = world_new(); /* back */
	in = usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	in->domain = "b";
	noted(w, in, "domain.renamed", "a", "somebody has renamed its domain to b; it is known by its uuid");
	expect(w, "domain a a\nkeep a\nforget a domain.renamed a\n");
	w = world_new(); /* while an operation waits: that must look for it under this name, too */
	in = usual(w, INST_DELETING, ACT_DOMAIN_RUNNING);
	in->busy = true;
	w->guest[0].name = "b";
	expect(w, "domain a b\nnote a domain.renamed a\nresume a\n");
}

/* Someone has edited it, or the host's hook. What is not known is not forgotten. */
static void loses_peer_to_peer(void **state)
{
	static const char text[] = "somebody has set x-no-mmap (ua-gpu0) in its domain, by which devices do not reach each other; stop and start it";
	struct reconcile_instance *in;
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->guest[0].loses = "x-no-mmap (ua-gpu0)";
	expect(w, "note a guest.p2p-lost a\nkeep a\n");
	w = world_new();
	in = usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	noted(w, in, "guest.p2p-lost", "a", text);
	w->guest[0].loses = "x-no-mmap (ua-gpu0)";
	expect(w, "keep a\n");
	w = world_new();
	in = usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	noted(w, in, "guest.p2p-lost", "a", text);
	expect(w, "keep a\n");
	w = world_new();
	in = usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	noted(w, in, "guest.p2p-lost", "a", text);
	w->guest[0].loses = "";
	expect(w, "keep a\nforget a guest.p2p-lost a\n");
}

static void libvirt_absent(void **state)
{
	static const enum inst_state states[] = { INST_RUNNING, INST_DEGRADED, INST_STOPPED };
	struct reconcile_instance *in;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct world *w = world_new();

		usual(w, states[i], ACT_DOMAIN_ABSENT);
		w->input.asked = false;
		w->fn[0].serial = "another"; /* nor is anything moved */
		w->fn[3].serial = "gpu1";
		expect_text(w, RECONCILE_NOTE, inst_state_text(states[i]));
		expect(w, states[i] == INST_RUNNING ? "note a libvirt.unknown a\nstate a degraded\nnote a device.elsewhere 0000:19:00.0\n" :
						      "note a libvirt.unknown a\nkeep a\nnote a device.elsewhere 0000:19:00.0\n");
	}
	for (int d = ACT_DOMAIN_ABSENT; d <= ACT_DOMAIN_RUNNING; d++) { /* and back */
		struct world *w = world_new();

		in = usual(w, INST_DEGRADED, (enum act_domain)d);
		noted(w, in, "libvirt.unknown", "a", "libvirt has not answered: it was running when it was seen last");
		expect(w, d == ACT_DOMAIN_RUNNING ? "state a running\nforget a libvirt.unknown a\n" : "ended a stopping\nforget a libvirt.unknown a\n");
	}
}

static void host_booted(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF)->boot = "b0";
	expect_text(w, RECONCILE_STATE, "the host was booted again");
	expect(w, "state a stopped\n");
	w = world_new();
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF)->boot = "b0";
	w->input.restart = true;
	w->fn[2] = w->fn[3]; /* VFs come with the start */
	w->input.nfunctions--;
	expect(w, "state a stopped\nnote a guest.to-start a\n");
	w = world_new(); /* it was stopped before, and stays so */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF)->boot = "b0";
	w->input.restart = true;
	expect(w, "keep a\n");
	w = world_new(); /* the same boot: it ended by itself */
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF);
	w->input.restart = true;
	expect(w, "ended a stopping\n");
	w = world_new(); /* libvirt has started it by itself, without velad's steps */
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING)->boot = "b0";
	w->input.restart = true;
	expect(w, "keep a\nnote a guest.unprovisioned a\n");
	w = world_new(); /* its card did not come back */
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF)->boot = "b0";
	w->input.restart = true;
	w->fn[0] = w->fn[3];
	w->input.nfunctions = 3;
	expect(w, "state a stopped\nnote a device.missing 0000:19:00.0\n");
}

/* velad was upgraded: the older one did not write down in which boot it started a guest. */
static void upgraded(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING)->boot = "";
	expect(w, "keep a\nboot a\n");
	w = world_new();
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF)->boot = "";
	w->input.restart = true;
	expect(w, "ended a stopping\n"); /* whether the host was booted is not known; the gate looks at the drivers */
	w = world_new();
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->input.boot = "";
	expect(w, "keep a\n");
}

static void bound_elsewhere(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->fn[0].driver = "nvidia";
	w->fn[2].driver = "";
	expect_text(w, RECONCILE_NOTE, "it has the driver nvidia, and the guest runs");
	expect(w, "keep a\nnote a device.bound 0000:19:00.0\nnote a device.bound 0000:1a:00.2\n");
	w = world_new();
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->fn[0].driver = NULL;
	expect(w, "keep a\n");
	w = world_new(); /* a start binds it again */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	w->fn[0].driver = "nvidia";
	expect(w, "keep a\n");
	w = world_new(); /* the VFs of the PF are gone below the guest */
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->fn[2] = w->fn[3];
	w->input.nfunctions--;
	expect(w, "keep a\nnote a device.missing 0000:1a:00.2\n");
}

/* After a kernel upgrade groups have other numbers: they are no key. That two guests share one now is worth a word. */
static void groups_changed(void **state)
{
	struct reconcile_instance *b;
	struct world *w = world_new();

	(void)state;
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	for (size_t i = 0; i < w->input.nfunctions; i++)
		w->fn[i].group = (int)(40 - i);
	expect(w, "keep a\n");
	w = world_new();
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	b = instance(w, "b", "ub", INST_STOPPED, "b1");
	device(w, b, "0000:3b:00.0", "gpu2", NULL);
	w->fn[0].group = w->fn[3].group = 7;
	expect(w, "keep a\nnote a group.shared 0000:19:00.0\nkeep b\nnote b group.shared 0000:3b:00.0\n");
}

static void renumbered(void **state)
{
	struct reconcile_instance *b;
	struct world *w = world_new();

	(void)state;
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF)->boot = "b0"; /* all is one bus further */
	w->fn[0].bdf = test_bdf("0000:1a:00.0");
	w->fn[1].bdf = test_bdf("0000:1b:00.0");
	w->fn[2] = w->fn[3];
	w->input.nfunctions--;
	expect(w, "keep a\nmove a 0000:19:00.0 0000:1a:00.0\nmove a 0000:1a:00.2 0000:1b:00.2\n");
	w = world_new(); /* two instances have changed places */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	b = instance(w, "b", "ub", INST_STOPPED, "b1");
	device(w, b, "0000:3b:00.0", "gpu2", NULL);
	w->fn[0].serial = "gpu2";
	w->fn[3].serial = "gpu1";
	expect(w, "keep a\nmove a 0000:19:00.0 0000:3b:00.0\nkeep b\nmove b 0000:3b:00.0 0000:19:00.0\n");
	w = world_new(); /* into the place of one whose own card is gone: that keeps the place */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	b = instance(w, "b", "ub", INST_STOPPED, "b1");
	device(w, b, "0000:3b:00.0", "gpu3", NULL);
	w->fn[0].serial = "gpu2";
	w->fn[3].serial = "gpu1";
	expect_text(w, RECONCILE_NOTE, "is at 0000:3b:00.0 now, which instance b holds");
	expect(w, "keep a\nnote a device.elsewhere 0000:19:00.0\nkeep b\nnote b device.missing 0000:3b:00.0\nvoid b 0000:3b:00.0\n");
	w = world_new(); /* to where another domain has it */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	w->fn[0].serial = "gpu2";
	w->fn[3].serial = "gpu1";
	guest(w, "other", "uo", ACT_DOMAIN_SHUTOFF, "0000:3b:00.0");
	expect_text(w, RECONCILE_NOTE, "another domain has it");
	expect(w, "keep a\nnote a device.elsewhere 0000:19:00.0\nforeign 0000:3b:00.0 other\n");
	w = world_new(); /* the host was booted, it moved, and guests are to be started again: somebody has to look at it first */
	usual(w, INST_RUNNING, ACT_DOMAIN_SHUTOFF)->boot = "b0";
	w->input.restart = true;
	w->fn[0].bdf = test_bdf("0000:18:00.0");
	expect(w, "state a stopped\nnote a guest.to-start a\nmove a 0000:19:00.0 0000:18:00.0\n");
}

static void another_card(void **state)
{
	struct world *w = world_new();

	(void)state;
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	w->fn[0].serial = "gpu9";
	expect_text(w, RECONCILE_NOTE, "its serial number is gpu9, and was gpu1");
	expect(w, "keep a\nnote a device.missing 0000:19:00.0\nvoid a 0000:19:00.0\n");
	w = world_new(); /* without a serial number it is its BDF */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	w->device[0][0].serial = "";
	w->fn[0].serial = "gpu9";
	expect(w, "keep a\n");
	w = world_new(); /* several that may be it */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	w->fn[0].serial = "gpu9";
	w->fn[3].serial = "gpu1";
	function(w, "0000:4b:00.0", "gpu1", "nvidia");
	expect(w, "keep a\nnote a device.elsewhere 0000:19:00.0\nquarantine 0000:3b:00.0\nquarantine 0000:4b:00.0\n");
	w = world_new(); /* the number is of a board, by VPD: that is no reason to take all of its GPUs away */
	usual(w, INST_STOPPED, ACT_DOMAIN_SHUTOFF);
	w->device[0][0].serial = "vpd:board";
	w->fn[0].serial = "gpu9";
	w->fn[3].serial = "vpd:board";
	function(w, "0000:4b:00.0", "vpd:board", "nvidia");
	expect_text(w, RECONCILE_NOTE, "of their board");
	expect(w, "keep a\nnote a device.elsewhere 0000:19:00.0\n");
	w = world_new(); /* the machine cannot be read */
	usual(w, INST_RUNNING, ACT_DOMAIN_RUNNING);
	w->fn[0].serial = "gpu9";
	w->input.read = false;
	expect(w, "keep a\n");
}

/* ---- random worlds -------------------------------------------------------------------------------------------- */

static uint64_t current_seed; /* of the world that failed */

static uint64_t seed_of(uint64_t *s)
{
	*s ^= *s << 13; /* xorshift64, Marsaglia 2003 */
	*s ^= *s >> 7;
	return *s ^= *s << 17;
}

static unsigned roll(uint64_t *s, unsigned n)
{
	return (unsigned)(seed_of(s) >> 33) % n;
}

static const char *const bdfs[] = { "0000:10:00.0", "0000:10:00.1", "0000:11:00.0", "0000:12:00.0", "0000:13:00.0", "0000:14:00.0" };
static const char *const vfs[] = { "0000:10:00.2", "0000:10:00.3", "0000:11:00.2", "0000:12:00.2", "0000:13:00.2", "0000:14:00.2" };
static const char *const serials[] = { "s0", "s1", "s2", "s3", "" };
static const char *const boots[] = { "b0", "b1", "" };
static const char *const names[] = { "a", "b", "c", "d" };
static const char *const uuids[] = { "ua", "ub", "uc", "ud", "ue", "uf" };

/* No function is held twice, as the store sees to. */
static void random_instances(struct world *w, uint64_t *s)
{
	bool taken[2 * ARRAY_SIZE(bdfs)] = { 0 };

	for (size_t i = 0; i < 1 + roll(s, 3); i++) {
		struct reconcile_instance *in = instance(w, names[i], uuids[i], (enum inst_state)roll(s, INST_DELETED), boots[roll(s, 3)]);

		in->state = roll(s, 8) == 0 ? INST_FAILED : in->state;
		in->busy = roll(s, 4) == 0;
		in->domain = names[roll(s, 4) == 0 ? roll(s, 4) : i];
		for (size_t k = 0; k < 1 + roll(s, 4); k++) {
			unsigned at = roll(s, 2 * ARRAY_SIZE(bdfs)), n = at / 2;

			if (taken[at])
				continue;
			taken[at] = true;
			device(w, in, at & 1 ? vfs[n] : bdfs[n], serials[roll(s, 5)], at & 1 ? bdfs[n == 1 ? 0 : n] : NULL);
		}
	}
}

static void random_world(struct world *w, uint64_t *s)
{
	random_instances(w, s);
	for (size_t i = 0; i < ARRAY_SIZE(uuids); i++) {
		struct act_guest *g = roll(s, 3) ? guest(w, names[roll(s, 4)], uuids[i], (enum act_domain)(1 + roll(s, 3)), NULL) : NULL;

		for (unsigned k = 0; g && k < roll(s, 4); k++)
			w->has[w->input.nguests - 1][g->n++] = test_bdf(roll(s, 3) ? bdfs[roll(s, 6)] : vfs[roll(s, 6)]);
		if (g && roll(s, 6) == 0) {
			g->known = false;
			g->n = 0;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(bdfs); i++) {
		if (roll(s, 5))
			function(w, bdfs[i], serials[roll(s, 5)], roll(s, 2) ? "vfio-pci" : "nvidia")->group = (int)roll(s, 6);
		if (roll(s, 2)) {
			struct reconcile_function *f = function(w, vfs[i], "", roll(s, 2) ? "vfio-pci" : "mlx5_core");

			f->vf = true;
			f->group = (int)roll(s, 6);
		}
		if (roll(s, 4) == 0)
			foreign(w, bdfs[i], names[roll(s, 4)], uuids[roll(s, 6)], roll(s, 2));
		if (roll(s, 8) == 0)
			w->sick[w->input.nsick++] = test_bdf(bdfs[i]);
	}
	w->input.asked = roll(s, 4);
	w->input.read = roll(s, 6);
	w->input.boot = boots[roll(s, 3)];
	w->input.restart = roll(s, 2);
}

static const struct reconcile_instance *instance_of(const struct world *w, const struct act_guest *g)
{
	for (size_t i = 0; i < w->input.ninstances; i++)
		if (strcmp(w->in[i].uuid, g->uuid) == 0)
			return &w->in[i];
	return NULL;
}

/* Instances that hold it, domains of nobody that are noted as having it. */
static void count_holders(const struct world *w, struct bdf bdf, unsigned *instances, unsigned *domains)
{
	*instances = *domains = 0;
	for (size_t i = 0; i < w->input.ninstances; i++)
		for (size_t k = 0; k < w->in[i].n; k++)
			*instances += bdf_eq(w->in[i].device[k].bdf, bdf);
	for (size_t i = 0; i < w->input.nforeign; i++)
		*domains += bdf_eq(w->foreign[i].bdf, bdf);
}

static void check_one_holder(const struct world *w)
{
	unsigned instances, domains;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(bdfs); i++) {
		count_holders(w, test_bdf(i & 1 ? vfs[i / 2] : bdfs[i / 2]), &instances, &domains);
		assert_true(instances <= 1 && domains <= 1);
		assert_true(!w->input.asked || instances + domains <= 1);
	}
	for (size_t i = 0; i < w->input.nguests && w->input.asked; i++) /* what any domain has is somebody's */
		for (size_t k = 0; k < w->guest[i].n && !instance_of(w, &w->guest[i]); k++) {
			count_holders(w, w->guest[i].device[k], &instances, &domains);
			assert_int_equal(instances + domains, 1);
		}
}

static void check_guests_keep(const struct world *before, const struct world *after)
{
	for (size_t i = 0; i < before->input.nguests && before->input.asked; i++) {
		const struct reconcile_instance *in = instance_of(before, &before->guest[i]);

		if (!in || before->guest[i].state != ACT_DOMAIN_RUNNING)
			continue;
		assert_memory_equal(before->device[in - before->in], after->device[in - before->in], sizeof(before->device[0]));
	}
}

/* Nothing that was held is free or moved, and no state is another one, but that none is "running". */
static void check_unknown(const struct world *before, const struct world *after)
{
	assert_memory_equal(before->device, after->device, sizeof(before->device));
	assert_int_equal(before->input.nforeign, after->input.nforeign);
	for (size_t i = 0; i < before->input.nforeign; i++)
		assert_true(bdf_eq(before->foreign[i].bdf, after->foreign[i].bdf));
	for (size_t i = 0; i < before->input.ninstances; i++)
		if (before->in[i].busy || before->in[i].state == INST_DEGRADED || before->in[i].state == INST_STOPPED ||
		    before->in[i].state == INST_FAILED)
			assert_int_equal(before->in[i].state, after->in[i].state);
		else if (before->in[i].state == INST_RUNNING)
			assert_int_equal(after->in[i].state, INST_DEGRADED);
}

static void check_moves(const struct world *w, const struct reconcile_decision *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool same = false;

		if (d[i].kind != RECONCILE_MOVE)
			continue;
		for (size_t k = 0; k < w->input.nguests; k++) /* into no domain's hands */
			assert_false(!instance_of(w, &w->guest[k]) && bdf_in(w->guest[k].device, w->guest[k].n, d[i].to));
		for (size_t k = 0; k < w->input.nfunctions; k++)
			same = same || (!w->fn[k].vf && *w->fn[k].serial);
		assert_true(same);
	}
}

static void check_states(const struct world *w, const struct reconcile_decision *d, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < w->input.ninstances; k++)
			if ((d[i].kind == RECONCILE_STATE || d[i].kind == RECONCILE_ENDED || d[i].kind == RECONCILE_CRASHED) && strcmp(w->in[k].name, d[i].instance) == 0)
				assert_true(inst_state_may(w->in[k].state, d[i].state) && !w->in[k].busy);
}

/* A device of a stopped instance follows its card wherever nobody is: afterwards each is at its card, or that is said. */
static void one_world(uint64_t seed)
{
	uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
	struct world *w = world_new(), before;
	const struct reconcile_decision *d;
	size_t n;

	random_world(w, &s);
	before = *w;
	d = answer(w, &n);
	check_moves(w, d, n);
	check_states(w, d, n);
	apply(w, d, n);
	check_one_holder(w);
	check_guests_keep(&before, w);
	if (!before.input.asked)
		check_unknown(&before, w);
	d = answer(w, &n);
	for (size_t i = 0; i < n; i++)
		if (!lasts(d[i].kind))
			fail_msg("it has still to do: %s %s %s", kind_text(d[i].kind), d[i].rule ? d[i].rule : "", d[i].text);
	world_free(w);
}

static void random_worlds(void **state)
{
	const char *many = getenv("VELAD_WORLDS"), *first = getenv("VELAD_SEED");
	uint64_t n = many ? strtoull(many, NULL, 10) : 20000, from = first ? strtoull(first, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = from; seed < from + n; seed++) {
		current_seed = seed;
		one_world(seed);
	}
}

static int say_seed(void **state)
{
	(void)state;
	print_message("the last world: VELAD_SEED=%llu VELAD_WORLDS=1\n", (unsigned long long)current_seed);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_it_was),
		cmocka_unit_test(in_flight),
		cmocka_unit_test(stuck),
		cmocka_unit_test(running_but_unknown),
		cmocka_unit_test(unknown_goes),
		cmocka_unit_test(shared),
		cmocka_unit_test(known_but_gone),
		cmocka_unit_test(renamed),
		cmocka_unit_test(loses_peer_to_peer),
		cmocka_unit_test(libvirt_absent),
		cmocka_unit_test(host_booted),
		cmocka_unit_test(upgraded),
		cmocka_unit_test(bound_elsewhere),
		cmocka_unit_test(groups_changed),
		cmocka_unit_test(renumbered),
		cmocka_unit_test(another_card),
		cmocka_unit_test_teardown(random_worlds, say_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
