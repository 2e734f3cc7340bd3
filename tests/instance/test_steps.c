/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Single steps: what each refuses, what it writes down first, what its revert leaves alone. */
#include "instance/steps.h"

#include "instance/fixture.h"
#include "instance/op.h"
#include "instance/rows.h"
#include "instance/store.h"

#define PF  "0000:1a:00.0"
#define GPU "0000:19:00.0"

struct bench {
	struct fx        fx;
	struct store    *store;
	struct arena     arena;
	struct rows_step step[8];
	struct steps     steps;
	char            *before;
};

/* An instance "a" that is being provisioned, without steps. */
static void bench_new(struct bench *b)
{
	struct rows_instance in = { "a", "u", INST_PROVISIONING, NULL, 5, "{}", "{}", 0 };
	auto_(store_end) struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;

	*b = (struct bench){ 0 };
	fx_new(&b->fx);
	assert_int_equal(store_open(&b->store, b->fx.store, &err), 0);
	assert_int_equal(store_begin(&tx, b->store, &err), 0);
	assert_int_equal(op_add(tx, &in.operation, OP_CREATE, "a", 5, &err), 0);
	assert_int_equal(rows_instance_add(tx, &in, &err), 0);
	assert_int_equal(store_commit(tx, &err), 0);
	b->steps = (struct steps){ .store = b->store, .act = fake_act(b->fx.machine), .instance = "a",
				   .xml = "<domain/>", .step = b->step };
	b->before = fake_text(b->fx.machine);
}

static void bench_done(struct bench *b)
{
	free(b->before);
	arena_done(&b->arena);
	(void)store_close(b->store);
	fx_done(&b->fx);
}

static void bench_add(struct bench *b, enum plan_step_kind kind, const char *target, const char *from,
		      const char *to)
{
	struct rows_step *s = &b->step[b->steps.n];
	auto_(store_end) struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;

	*s = (struct rows_step){ (int64_t)b->steps.n++, kind, target, BDF_NONE, from, to, STEP_PENDING };
	if (plan_step_of_function(kind))
		s->bdf = test_bdf(target);
	assert_int_equal(store_begin(&tx, b->store, &err), 0);
	assert_int_equal(rows_step_add(tx, "a", s, &err), 0);
	assert_int_equal(store_commit(tx, &err), 0);
}

static void apply_all(struct bench *b)
{
	struct error err = ERROR_INIT;

	if (steps_apply(&b->steps, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < b->steps.n; i++)
		assert_int_equal(b->step[i].state, STEP_DONE);
}

static void revert_all(struct bench *b)
{
	struct error err = ERROR_INIT;

	if (steps_revert(&b->steps, &err) < 0)
		fail_msg("%s", err.text);
}

static void refused(struct bench *b, int code, const char *text)
{
	struct error err = ERROR_INIT;

	assert_int_equal(steps_apply(&b->steps, &err), code);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" lacks \"%s\"", err.text, text);
	revert_all(b);
}

/* What the store has; the memory of `steps` is not asked. */
static const char *stored(struct bench *b, const char *sql)
{
	auto_(store_end) struct store_tx *tx = NULL;
	auto_(store_query_free) struct store_rows *q = NULL;
	struct error err = ERROR_INIT;
	int r;

	assert_int_equal(store_begin(&tx, b->store, &err), 0);
	assert_int_equal(store_query(tx, &q, sql, NO_ARGS, &err), 0);
	r = store_next(q, &err);
	assert_true(r >= 0);
	return r ? arena_strdup(&b->arena, store_text(q, 0)) : "(no row)";
}

static void whole_way(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	bench_add(&b, PLAN_STEP_VF_COUNT, PF, "0", "8");
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	bench_add(&b, PLAN_STEP_BIND, "0000:3b:00.0", "(none)", "vfio-pci");
	bench_add(&b, PLAN_STEP_BIND, "0000:1a:00.1", "(new)", "vfio-pci");
	bench_add(&b, PLAN_STEP_DOMAIN, "a", "absent", "running");
	apply_all(&b);
	assert_string_equal(stored(&b, "SELECT old FROM step WHERE target = '" PF "'"), "0");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" GPU "'"), "nvidia/");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '0000:3b:00.0'"), "/nothing/at all");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '0000:1a:00.1'"), "mlx5_core/");
	assert_string_equal(stored(&b, "SELECT group_concat(DISTINCT state) FROM step"), "done");
	assert_int_equal(fake_domain_find(b.fx.machine, "a")->state, ACT_DOMAIN_RUNNING);
	revert_all(&b);
	fx_expect_machine(&b.fx, b.before);
	assert_true(b.fx.machine->vfio); /* stays */
	assert_string_equal(stored(&b, "SELECT group_concat(DISTINCT state) FROM step"), "reverted");
	assert_string_equal(stored(&b, "SELECT count(*) FROM original"), "0");
	revert_all(&b); /* once more does nothing */
	fx_expect_machine(&b.fx, b.before);
	bench_done(&b);
}

/* A machine on which everything is so already is not touched, before or after. */
static void already_so(void **state)
{
	struct act_driver vfio = { "vfio-pci", "vfio-pci" };
	struct error err = ERROR_INIT;
	autofree char *before = NULL;
	struct bench b;

	(void)state;
	bench_new(&b);
	b.fx.machine->vfio = true;
	assert_int_equal(fake_vf_count_set(b.fx.machine, test_bdf(PF), 4, &err), 0);
	assert_int_equal(fake_driver_set(b.fx.machine, test_bdf(GPU), &vfio, &err), 0);
	before = fake_text(b.fx.machine);
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "loaded", "loaded");
	bench_add(&b, PLAN_STEP_VF_COUNT, PF, "4", "3");
	bench_add(&b, PLAN_STEP_BIND, GPU, "vfio-pci", "vfio-pci");
	fake_break(b.fx.machine, "driver_set"); /* none is to come */
	apply_all(&b);
	fx_expect_machine(&b.fx, before);
	revert_all(&b);
	fx_expect_machine(&b.fx, before);
	bench_done(&b);
}

/* VFs that velad did not make are not its to make again or to remove. */
static void foreign_vfs(void **state)
{
	struct error err = ERROR_INIT;
	struct bench b;

	(void)state;
	bench_new(&b);
	assert_int_equal(fake_vf_count_set(b.fx.machine, test_bdf(PF), 4, &err), 0);
	bench_add(&b, PLAN_STEP_VF_COUNT, PF, "4", "4");
	apply_all(&b);
	assert_int_equal(fake_vf_count_set(b.fx.machine, test_bdf(PF), 0, &err), 0); /* their owner */
	revert_all(&b);
	fx_expect_machine(&b.fx, b.before);
	bench_done(&b);
}

/* Bound to vfio-pci by its id table only, a function could be taken by another driver at the next probe. */
static void bound_without_override(void **state)
{
	struct act_driver vfio = { "vfio-pci", "" };
	struct error err = ERROR_INIT;
	autofree char *before = NULL;
	struct bench b;

	(void)state;
	bench_new(&b);
	b.fx.machine->vfio = true;
	assert_int_equal(fake_driver_set(b.fx.machine, test_bdf(GPU), &vfio, &err), 0);
	before = fake_text(b.fx.machine);
	bench_add(&b, PLAN_STEP_BIND, GPU, "vfio-pci", "vfio-pci");
	apply_all(&b);
	assert_string_equal(fake_find(b.fx.machine, test_bdf(GPU))->d.override, "vfio-pci");
	revert_all(&b);
	fx_expect_machine(&b.fx, before);
	bench_done(&b);
}

static void refusals(void **state)
{
	struct act_driver vfio = { "vfio-pci", "" };
	struct error err = ERROR_INIT;
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_BIND, "0000:1a:00.3", "(new)", "vfio-pci");
	refused(&b, -ENODEV, "step bind 0000:1a:00.3: this host has no such function");
	b.steps.n = 0;
	bench_done(&b);

	bench_new(&b);
	assert_int_equal(fake_vf_count_set(b.fx.machine, test_bdf(PF), 2, &err), 0);
	bench_add(&b, PLAN_STEP_VF_COUNT, PF, "0", "8");
	refused(&b, -EBUSY, "step vf-count " PF ": it has 2 VFs already and 8 are needed");
	assert_int_equal(fake_count(b.fx.machine, 3), 2);
	bench_done(&b);

	bench_new(&b);
	b.fx.machine->vfio = true;
	assert_int_equal(fake_driver_set(b.fx.machine, test_bdf(GPU), &vfio, &err), 0);
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	refused(&b, -ESTALE, "somebody else bound it to vfio-pci");
	bench_done(&b);

	bench_new(&b);
	assert_int_equal(fake_domain_start(b.fx.machine, "a", "<theirs/>", &err), 0);
	bench_add(&b, PLAN_STEP_DOMAIN, "a", "absent", "running");
	refused(&b, -EEXIST, "step domain a: libvirt has a domain of that name");
	assert_string_equal(fake_domain_find(b.fx.machine, "a")->xml, "<theirs/>"); /* not ours to remove */
	bench_done(&b);
}

/* Another driver than the plan saw is fine where nobody can be using the function; it is what comes back. */
static void other_driver(void **state)
{
	struct act_driver other = { "nouveau", "" };
	struct error err = ERROR_INIT;
	autofree char *before = NULL;
	struct bench b;

	(void)state;
	bench_new(&b);
	b.fx.machine->vfio = true;
	assert_int_equal(fake_driver_set(b.fx.machine, test_bdf(GPU), &other, &err), 0);
	before = fake_text(b.fx.machine);
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	apply_all(&b);
	revert_all(&b);
	fx_expect_machine(&b.fx, before);
	bench_done(&b);
}

static void revert_goes_on(void **state)
{
	struct error err = ERROR_INIT;
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	bench_add(&b, PLAN_STEP_VF_COUNT, PF, "0", "8");
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	bench_add(&b, PLAN_STEP_DOMAIN, "a", "absent", "running");
	apply_all(&b);
	fake_break(b.fx.machine, "driver_set");
	assert_int_equal(steps_revert(&b.steps, &err), 0); /* what is stuck is in quarantine, with the driver that it is to have */
	assert_string_equal(stored(&b, "SELECT reason FROM quarantine WHERE bdf = '" GPU "'"), "it is not given back as it was: driver_set is broken");
	assert_string_equal(stored(&b, "SELECT driver FROM quarantine"), "nvidia/");
	assert_string_equal(stored(&b, "SELECT group_concat(state) FROM (SELECT state FROM step ORDER BY seq)"),
			    "reverted,reverted,failed,reverted");
	assert_null(fake_domain_find(b.fx.machine, "a"));
	assert_int_equal(fake_count(b.fx.machine, 3), 0);
	bench_done(&b);
}

/* Below a guest that cannot be stopped nothing may be pulled away. */
static void guest_that_stays(void **state)
{
	struct error err = ERROR_INIT;
	autofree char *running = NULL;
	struct bench b;

	(void)state;
	bench_new(&b);
	b.steps.xml = "<domain> " GPU " </domain>";
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	bench_add(&b, PLAN_STEP_DOMAIN, "a", "absent", "running");
	apply_all(&b);
	running = fake_text(b.fx.machine);
	fake_break(b.fx.machine, "domain_stop");
	assert_int_equal(steps_revert(&b.steps, &err), -EIO);
	fx_expect_machine(&b.fx, running);
	assert_int_equal(b.step[1].state, STEP_DONE);
	assert_int_equal(b.step[2].state, STEP_FAILED);
	fake_break(b.fx.machine, "");
	revert_all(&b);
	fx_expect_machine(&b.fx, b.before);
	bench_done(&b);
}

/* A device that was pulled, and VFs that a reboot took, do not keep an instance from going. */
static void vanished(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	bench_add(&b, PLAN_STEP_VF_COUNT, PF, "0", "8");
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	bench_add(&b, PLAN_STEP_BIND, "0000:1a:00.1", "(new)", "vfio-pci");
	apply_all(&b);
	for (size_t i = 0; i < b.fx.machine->nfns; i++)
		if (b.fx.machine->fn[i].pf == 3 || i == 0 || i == 3)
			b.fx.machine->fn[i].there = false;
	revert_all(&b);
	assert_string_equal(stored(&b, "SELECT group_concat(DISTINCT state) FROM step"), "reverted");
	assert_string_equal(stored(&b, "SELECT count(*) FROM original"), "0");
	bench_done(&b);
}

#define PORT    FAKE_PORT
#define PORT_TB FAKE_PORT_TB

/* Of the control word only DT and TB are velad's: what else changes meanwhile stays. */
static void acs_bits(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_ACS, PORT, "0x1d", "0x5d");
	bench_add(&b, PLAN_STEP_ACS, PORT_TB, "0x1f", "0x1d");
	apply_all(&b);
	assert_int_equal(fake_port_ctl(b.fx.machine, 0), 0x5d);
	assert_int_equal(fake_port_ctl(b.fx.machine, 1), 0x1d); /* DT was not asked for */
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" PORT "'"), "0x00");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" PORT_TB "'"), "0x02");
	fake_port_is(b.fx.machine, 0, 0x7c);
	revert_all(&b);
	assert_int_equal(fake_port_ctl(b.fx.machine, 0), 0x3c);
	assert_int_equal(fake_port_ctl(b.fx.machine, 1), 0x1f);
	assert_string_equal(stored(&b, "SELECT count(*) FROM original"), "0");
	bench_done(&b);
}

/* A port that is as wanted is held, not written; and stays so. */
static void acs_already(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	fake_port_is(b.fx.machine, 0, 0x5d);
	bench_add(&b, PLAN_STEP_ACS, PORT, "0x5d", "0x5d");
	fake_break(b.fx.machine, "acs_set");
	apply_all(&b);
	fake_break(b.fx.machine, "");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" PORT "'"), "0x40");
	fake_port_is(b.fx.machine, 0, 0x1d); /* a reset */
	revert_all(&b);
	assert_int_equal(fake_port_ctl(b.fx.machine, 0), 0x5d);
	bench_done(&b);
}

static void acs_refusals(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_ACS, PORT, "0x1d", "0x5d");
	fake_port_is(b.fx.machine, 0, 0x11); /* isolation is not what the plan was made with */
	refused(&b, -ESTALE, "step acs " PORT ": its ACS control is 0x11, and was 0x1d");
	fake_port_is(b.fx.machine, 0, 0x1d);
	fake_break(b.fx.machine, "acs_set");
	refused(&b, -EIO, "acs_set is broken");
	fake_break(b.fx.machine, "");
	b.fx.machine->port[0].w.stuck[ACT_ACS] = FAKE_DT;
	b.step[0].state = STEP_PENDING;
	refused(&b, -EIO, "acs_set: control is 0x1d after 0x5d");
	b.fx.machine->port[0].w.stuck[ACT_ACS] = 0;
	b.fx.machine->port[0].w.dead = true;
	b.step[0].state = STEP_PENDING;
	refused(&b, -EIO, "reads as ff");
	b.fx.machine->port[0].w.dead = false;
	fx_expect_machine(&b.fx, b.before);
	bench_done(&b);
}

/* Gone from the bus is given back; there but dead is not, until it answers. */
static void acs_gone(void **state)
{
	struct error err = ERROR_INIT;
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_ACS, PORT, "0x1d", "0x5d");
	bench_add(&b, PLAN_STEP_ACS, PORT_TB, "0x1f", "0x5d");
	apply_all(&b);
	b.fx.machine->port[0].w.dead = true;
	b.fx.machine->port[1].gone = true;
	assert_int_equal(steps_revert(&b.steps, &err), -EIO);
	assert_non_null(strstr(err.text, "step acs " PORT ": port " PORT " reads as ff"));
	assert_string_equal(stored(&b, "SELECT group_concat(target) FROM original"), PORT);
	b.fx.machine->port[0].w.dead = false;
	revert_all(&b);
	assert_int_equal(fake_port_ctl(b.fx.machine, 0), 0x1d);
	assert_string_equal(stored(&b, "SELECT count(*) FROM original"), "0");
	bench_done(&b);
}

static struct fake_words *words(struct bench *b, const char *bdf)
{
	return fake_words(b->fx.machine, test_bdf(bdf));
}

/* Flags are only set, read requests only grow, and back come these and nothing else. */
static void devctl_bits(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_DEVCTL, PF, "0x2820", "0x5930");
	bench_add(&b, PLAN_STEP_DEVCTL, GPU, "0x3820", "0x3830");
	bench_add(&b, PLAN_STEP_DEVCTL2, GPU, "0x0000", "0x1000");
	words(&b, GPU)->now[ACT_DEVCTL] = 0x5927; /* more than was asked for */
	apply_all(&b);
	assert_int_equal(words(&b, PF)->now[ACT_DEVCTL], 0x5930);
	assert_int_equal(words(&b, GPU)->now[ACT_DEVCTL], 0x5937);
	assert_int_equal(words(&b, GPU)->now[ACT_DEVCTL2], 0x1000);
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" PF "'"), "0x2000");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" GPU "' AND kind = 'devctl'"), "0x5100");
	words(&b, PF)->now[ACT_DEVCTL] = 0x394f; /* what the guest, or a driver, has made of it */
	words(&b, GPU)->now[ACT_DEVCTL2] = 0x1406;
	revert_all(&b);
	assert_int_equal(words(&b, PF)->now[ACT_DEVCTL], 0x284f);
	assert_int_equal(words(&b, GPU)->now[ACT_DEVCTL], 0x5927);
	assert_int_equal(words(&b, GPU)->now[ACT_DEVCTL2], 0x0406);
	assert_string_equal(stored(&b, "SELECT count(*) FROM original"), "0");
	bench_done(&b);
}

/* Bits that take no write are no failure; the instance has it as a finding. A write that fails is one. */
static void devctl_hard_wired(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_DEVCTL, PF, "0x2820", "0x5830");
	words(&b, PF)->stuck[ACT_DEVCTL] = 0x0010;
	apply_all(&b);
	assert_int_equal(words(&b, PF)->now[ACT_DEVCTL], 0x5820);
	assert_string_equal(stored(&b, "SELECT rule || ' ' || device FROM finding"), "settings.hard-wired " PF);
	revert_all(&b);
	words(&b, PF)->stuck[ACT_DEVCTL] = 0;
	fx_expect_machine(&b.fx, b.before);
	b.step[0].state = STEP_PENDING;
	fake_break(b.fx.machine, "devctl_set");
	refused(&b, -EIO, "step devctl " PF ": devctl_set is broken");
	fake_break(b.fx.machine, "");
	words(&b, PF)->dead = true;
	b.step[0].state = STEP_PENDING;
	refused(&b, -EIO, "reads as ff");
	words(&b, PF)->dead = false;
	fx_expect_machine(&b.fx, b.before);
	bench_done(&b);
}

static void power_and_back(void **state)
{
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_POWER, PORT, "unknown,1", "on,0");
	bench_add(&b, PLAN_STEP_POWER, PORT_TB, "on,-", "on,0");
	b.fx.machine->port[1].w.power = (struct act_power){ "on", -1 }; /* a kernel without ACPI */
	apply_all(&b);
	assert_string_equal(words(&b, PORT)->power.control, "on");
	assert_int_equal(words(&b, PORT)->power.d3cold, 0);
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" PORT "'"), "auto,1");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE target = '" PORT_TB "'"), "on,-");
	fake_break(b.fx.machine, "power_set");
	assert_int_equal(steps_revert(&b.steps, &(struct error){ 0 }), -EIO);
	fake_break(b.fx.machine, "");
	revert_all(&b);
	b.fx.machine->port[1].w.power = (struct act_power){ "auto", 1 };
	fx_expect_machine(&b.fx, b.before);
	b.step[0].state = b.step[1].state = STEP_PENDING;
	b.step[0].to = "asleep";
	refused(&b, -EINVAL, "\"asleep\" does not say whether it may sleep");
	bench_done(&b);
}

/* "auto" was vfio-pci's word. Once another driver has the function, it is not written to it. */
static void power_of_vfio(void **state)
{
	struct store_tx *tx = NULL;
	struct error err = ERROR_INIT;
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	bench_add(&b, PLAN_STEP_POWER, GPU, "auto,1", "on,0");
	apply_all(&b);
	assert_string_equal(words(&b, GPU)->power.control, "on");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'power'"), "auto,1,vfio-pci");
	fake_break(b.fx.machine, "power_set");
	assert_int_equal(steps_revert(&b.steps, &err), 0);
	fake_break(b.fx.machine, "");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'power'"), "auto,1,vfio-pci"); /* for its release */
	assert_string_equal(stored(&b, "SELECT reason FROM quarantine"), "it is not given back as it was: power_set is broken");
	assert_int_equal(store_begin(&tx, b.store, &err), 0);
	assert_int_equal(store_exec(tx, "DELETE FROM quarantine", NO_ARGS, &err), 0);
	assert_int_equal(store_commit(tx, &err), 0);
	tx = store_end(tx);
	fake_find(b.fx.machine, test_bdf(GPU))->d = (struct act_driver){ .driver = "nvidia" };
	revert_all(&b);
	assert_int_equal(words(&b, GPU)->power.d3cold, 1);
	fx_expect_machine(&b.fx, b.before);
	bench_done(&b);
}

/* ---- settings of VFs ------------------------------------------------------------------------------------ */

#define VF    "0000:1a:00.1"
#define FRESH "mac=00:00:00:00:00:00 vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=off min_rate=0 max_rate=0 link_state=auto"

static void vf_bench(struct bench *b, const char *to)
{
	bench_new(b);
	bench_add(b, PLAN_STEP_VF_COUNT, PF, "0", "8");
	apply_all(b);
	bench_add(b, PLAN_STEP_VF, VF, "(new)", to);
}

static void assert_vf(struct bench *b, const char *text)
{
	char now[PLAN_VF_TEXT_MAX];

	assert_string_equal(plan_vf_text(now, &fake_find(b->fx.machine, test_bdf(VF))->set), text);
}

static void vf_set_and_back(void **state)
{
	struct bench b;

	(void)state;
	vf_bench(&b, "mac=02:00:00:00:00:01 vlan=7 trust=on max_rate=1000");
	apply_all(&b);
	assert_vf(&b, "mac=02:00:00:00:00:01 vlan=7 qos=0 vlan_protocol=802.1Q trust=on spoof_check=on min_rate=0 max_rate=1000 link_state=auto");
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'vf'"), FRESH);
	assert_string_equal(stored(&b, "SELECT rule FROM finding"), "(no row)"); /* a fresh VF is as it should be */
	b.steps.step++, b.steps.n--;
	revert_all(&b);
	assert_vf(&b, FRESH);
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'vf'"), "(no row)");
	bench_done(&b);
}

/* What a tenant before left is not the next one's; what an operator had set comes back. */
static void vf_left(void **state)
{
	static const char left[] = "mac=0a:00:00:00:00:09 vlan=9 qos=1 vlan_protocol=802.1ad trust=on spoof_check=off min_rate=5 max_rate=10 link_state=up";
	struct error err = ERROR_INIT;
	struct bench b;

	(void)state;
	vf_bench(&b, "mac=02:00:00:00:00:01");
	assert_int_equal(plan_vf_parse(&fake_find(b.fx.machine, test_bdf(VF))->set, left, &err), 0);
	apply_all(&b);
	assert_vf(&b, "mac=02:00:00:00:00:01 vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=on min_rate=0 max_rate=0 link_state=auto");
	assert_string_equal(stored(&b, "SELECT text FROM finding WHERE rule = 'vf.left'"),
			    VF " was left with vlan=9 qos=1 vlan_protocol=802.1ad trust=on min_rate=5 max_rate=10 link_state=up by whoever had it "
			    "before; it is set back first");
	b.steps.step++, b.steps.n--;
	revert_all(&b);
	assert_vf(&b, left);
	bench_done(&b);
}

/* The store keeps what was there before the first attempt, whatever a failed one left. */
static void vf_retry(void **state)
{
	struct bench b;
	struct error err = ERROR_INIT;

	(void)state;
	vf_bench(&b, "mac=02:00:00:00:00:01 trust=on");
	fake_arm(b.fx.machine, FAKE_FAIL, FAKE_AFTER, 5, true); /* two looks, the MAC is set, and nothing answers from trust on */
	assert_int_equal(steps_apply(&b.steps, &err), -EIO);
	fake_disarm(b.fx.machine);
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'vf'"), FRESH);
	b.step[1].state = STEP_PENDING;
	apply_all(&b);
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'vf'"), FRESH);
	b.steps.step++, b.steps.n--;
	revert_all(&b);
	assert_vf(&b, FRESH);
	bench_done(&b);
}

/* The same of GUIDs, which are two messages: one that failed between them, and its retry, do not make the new one the
 * original (ib-sriov-cni 217). What was zero, by which RDMA's connection manager finds nobody, is not while a guest has it. */
static void vf_guid_retry(void **state)
{
	static const char *const before[] = { "link_state=auto node_guid=0a:00:00:00:00:00:00:09 port_guid=0a:00:00:00:00:00:00:08",
					      "link_state=auto node_guid=00:00:00:00:00:00:00:00 port_guid=00:00:00:00:00:00:00:00" };
	static const char wanted[] = "node_guid=02:00:00:00:00:00:00:01 port_guid=02:00:00:00:00:00:00:01";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		struct error err = ERROR_INIT;
		char now[PLAN_VF_TEXT_MAX];
		struct bench b;

		vf_bench(&b, wanted);
		assert_int_equal(plan_vf_parse(&fake_find(b.fx.machine, test_bdf(VF))->set, before[i], &err), 0);
		fake_arm(b.fx.machine, FAKE_FAIL, FAKE_AFTER, 4, true); /* two looks, the node's is set, and nothing answers after it */
		assert_int_equal(steps_apply(&b.steps, &err), -EIO);
		fake_disarm(b.fx.machine);
		assert_non_null(strstr(plan_vf_text(now, &fake_find(b.fx.machine, test_bdf(VF))->set), "node_guid=02:00:00:00:00:00:00:01"));
		b.step[1].state = STEP_PENDING;
		apply_all(&b);
		assert_vf(&b, "link_state=auto node_guid=02:00:00:00:00:00:00:01 port_guid=02:00:00:00:00:00:00:01");
		assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'vf'"), before[i]);
		b.steps.step++, b.steps.n--;
		revert_all(&b);
		assert_vf(&b, before[i]);
		bench_done(&b);
	}
}

static void vf_refused(void **state)
{
	struct bench b;

	(void)state;
	vf_bench(&b, "mac=02:00:00:00:00:01 link_state=up");
	b.fx.machine->vf_refuses = PLAN_VF_BIT(PLAN_VF_LINK_STATE);
	refused(&b, -ENXIO, "the driver refuses it; change the request, or list it in [vf] may_refuse");
	bench_done(&b);
	vf_bench(&b, "mac=02:00:00:00:00:01 link_state=up");
	b.fx.machine->vf_ignores = PLAN_VF_BIT(PLAN_VF_LINK_STATE); /* it says yes, and does nothing */
	refused(&b, -ENXIO, "and did nothing");
	bench_done(&b);
	vf_bench(&b, "mac=02:00:00:00:00:01 trust=on");
	fake_find(b.fx.machine, test_bdf(VF))->set.has &= ~PLAN_VF_BIT(PLAN_VF_TRUST);
	refused(&b, -ENXIO, "has no trust; leave it out of the request, or list it in [vf] may_refuse");
	bench_done(&b);
	vf_bench(&b, "mac=02:00:00:00:00:01 link_state=up");
	b.fx.machine->vf_refuses = PLAN_VF_BIT(PLAN_VF_LINK_STATE);
	b.steps.vf_may_refuse = PLAN_VF_BIT(PLAN_VF_LINK_STATE);
	apply_all(&b);
	assert_vf(&b, "mac=02:00:00:00:00:01 vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=on min_rate=0 max_rate=0 link_state=auto");
	assert_string_equal(stored(&b, "SELECT rule FROM finding"), "vf.refused");
	bench_done(&b);
}

/* What cannot be set is right for who asked for nothing, and said. */
static void vf_unseen(void **state)
{
	struct bench b;

	(void)state;
	vf_bench(&b, "mac=02:00:00:00:00:01");
	b.fx.machine->no_interface = true;
	apply_all(&b);
	assert_string_equal(stored(&b, "SELECT rule FROM finding"), "vf.unseen");
	revert_all(&b);
	bench_done(&b);
	vf_bench(&b, "mac=02:00:00:00:00:01 vlan=5");
	b.fx.machine->no_interface = true;
	refused(&b, -ENETDOWN, "no network interface");
	bench_done(&b);
}

/* What was done before and is so still costs no commit, and what its target was stays written down. What is not so any more is done
 * again, and so is what needs it. */
static void done_before(void **state)
{
	struct steps_rest *rest = NULL;
	struct error err = ERROR_INIT;
	uint64_t commits;
	struct bench b;

	(void)state;
	bench_new(&b);
	bench_add(&b, PLAN_STEP_VFIO, "vfio-pci", "absent", "loaded");
	bench_add(&b, PLAN_STEP_BIND, GPU, "nvidia", "vfio-pci");
	bench_add(&b, PLAN_STEP_DEVCTL, GPU, "0x2010", "0x5010");
	b.steps.rest = &rest;
	apply_all(&b);
	rest = steps_rest_free(rest); /* the store does not have the last as done: it is looked at all the same */
	assert_string_equal(stored(&b, "SELECT group_concat(state) FROM step"), "done,done,begun");
	commits = store_commits(b.store);
	apply_all(&b);
	rest = steps_rest_free(rest);
	assert_int_equal(store_commits(b.store), commits);

	b.steps.rest = NULL;
	{
		auto_(store_end) struct store_tx *tx = NULL;

		assert_int_equal(store_begin(&tx, b.store, &err), 0);
		assert_int_equal(store_exec(tx, "DELETE FROM original WHERE kind = 'bind'", NO_ARGS, &err), 0);
		assert_int_equal(store_commit(tx, &err), 0);
	}
	apply_all(&b);
	assert_string_equal(stored(&b, "SELECT value FROM original WHERE kind = 'bind'"), "vfio-pci/vfio-pci");

	(void)snprintf(fake_find(b.fx.machine, test_bdf(GPU))->d.driver, ACT_DRIVER_MAX, "nvidia");
	fake_words(b.fx.machine, test_bdf(GPU))->now[ACT_DEVCTL] = 0x2010;
	apply_all(&b);
	assert_string_equal(fake_find(b.fx.machine, test_bdf(GPU))->d.driver, "vfio-pci");
	assert_int_equal(fake_words(b.fx.machine, test_bdf(GPU))->now[ACT_DEVCTL], 0x5010);
	bench_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_way),
		cmocka_unit_test(already_so),
		cmocka_unit_test(done_before),
		cmocka_unit_test(foreign_vfs),
		cmocka_unit_test(bound_without_override),
		cmocka_unit_test(refusals),
		cmocka_unit_test(other_driver),
		cmocka_unit_test(revert_goes_on),
		cmocka_unit_test(guest_that_stays),
		cmocka_unit_test(vanished),
		cmocka_unit_test(acs_bits),
		cmocka_unit_test(acs_already),
		cmocka_unit_test(acs_refusals),
		cmocka_unit_test(acs_gone),
		cmocka_unit_test(devctl_bits),
		cmocka_unit_test(devctl_hard_wired),
		cmocka_unit_test(power_and_back),
		cmocka_unit_test(power_of_vfio),
		cmocka_unit_test(vf_set_and_back),
		cmocka_unit_test(vf_left),
		cmocka_unit_test(vf_retry),
		cmocka_unit_test(vf_guid_retry),
		cmocka_unit_test(vf_refused),
		cmocka_unit_test(vf_unseen),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
