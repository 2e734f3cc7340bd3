/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What running guests need is kept: lost ACS bits come back, what cannot come back makes them degraded, and where
 * there is nothing to keep, nobody looks. */
#include "instance/fixture.h"

#include <sys/stat.h>

#include "base/clock.h"

struct kept {
	struct fx fx;
	char     *before;
};

/* Two guests below the same ports. */
static void kept_new(struct kept *k, unsigned seconds)
{
	*k = (struct kept){ 0 };
	fx_new(&k->fx);
	k->fx.keep_seconds = seconds;
	k->before = fake_text(k->fx.machine);
	fx_open(&k->fx);
	fx_create_done(&k->fx, &fx_a);
	fx_create_done(&k->fx, &fx_b);
	assert_int_equal(fake_port_ctl(k->fx.machine, 0), 0x5d);
	assert_int_equal(fake_port_ctl(k->fx.machine, 1), 0x5d);
}

static void kept_done(struct kept *k)
{
	assert_true(fx_wait(&k->fx, fx_delete(&k->fx, "a")));
	assert_int_equal(fake_port_ctl(k->fx.machine, 0), 0x5d); /* b has it */
	assert_true(fx_wait(&k->fx, fx_delete(&k->fx, "b")));
	fx_expect_machine(&k->fx, k->before);
	free(k->before);
	fx_done(&k->fx);
}

/* Has the worker look at the ports; which call comes next can be waited for. */
static void look(struct kept *k)
{
	fake_forget_last(k->fx.machine);
	inst_machine_changed(k->fx.m);
}

static void await_port(struct kept *k, size_t port, uint16_t ctl)
{
	for (int i = 0; i < 100000 && fake_port_ctl(k->fx.machine, port) != ctl; i++)
		fx_nap();
	assert_int_equal(fake_port_ctl(k->fx.machine, port), ctl);
}

static json_object *instance(struct kept *k, const char *name)
{
	struct error err = ERROR_INIT;
	json_object *o = NULL;

	if (inst_json(k->fx.m, &o, name, &err) < 0)
		fail_msg("%s", err.text);
	return o;
}

/* "acs.lost 0000:17:01.0 2; ": the findings of an instance, waited for, as they are committed after the write. */
static void await_findings(struct kept *k, const char *name, const char *want)
{
	char text[256] = "";

	for (int i = 0; i < 100000; i++) {
		json_object *o = instance(k, name), *list = json_object_object_get(o, "findings");
		size_t len = 0;

		text[0] = '\0';
		for (size_t f = 0; f < json_object_array_length(list); f++) {
			json_object *one = json_object_array_get_idx(list, f);

			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s %s; ", fx_string(one, "rule"),
						fx_string(one, "device"), fx_string(one, "times"));
			assert_non_null(fx_string(one, "first"));
			assert_non_null(strstr(fx_string(one, "text"), fx_string(one, "device")));
		}
		json_object_put(o);
		if (strcmp(text, want) == 0)
			return;
		fx_nap();
	}
	assert_string_equal(text, want);
}

static void expect_error(struct kept *k, const char *name, const char *word)
{
	json_object *o = instance(k, name);
	const char *error = fx_string(o, "error");

	if (!error || !strstr(error, word))
		fail_msg("\"%s\" lacks \"%s\"", error ? error : "", word);
	json_object_put(o);
}

static void comes_back(void **state)
{
	unsigned changed;
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	changed = k.fx.changed;
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 1; ");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; "); /* both were without */
	fake_port_is(k.fx.machine, 0, 0x1d);
	fake_port_is(k.fx.machine, 1, 0x1f);
	look(&k);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 2; acs.lost " FAKE_PORT_TB " 1; ");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 2; acs.lost " FAKE_PORT_TB " 1; ");
	await_port(&k, 1, 0x5d);
	fx_expect_state(&k.fx, "a", "running");
	fx_expect_state(&k.fx, "b", "running");
	fx_close(&k.fx); /* so that the worker has told */
	assert_int_equal(k.fx.changed, changed + 2);
	fx_open(&k.fx);
	kept_done(&k);
}

/* What a reset takes away while velad looks is told to all whom it concerns, not to whom was looked at last. */
static void between_two(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	FAKE_LOCKED(k.fx.machine, k.fx.machine->lose_after_read = true);
	look(&k);
	for (int i = 0; i < 100000 && fake_port_ctl(k.fx.machine, 0) != 0x1d; i++)
		fx_nap();
	look(&k);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 1; ");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; ");
	kept_done(&k);
}

static void at_start(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	fx_close(&k.fx);
	fake_port_is(k.fx.machine, 0, 0x1d);
	fx_open(&k.fx);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; ");
	kept_done(&k);
}

/* An operation resets devices: when it is done, all that run have their ports. */
static void after_operation(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	fake_port_is(k.fx.machine, 1, 0x1d);
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "a")));
	await_port(&k, 1, 0x5d);
	assert_true(fx_wait(&k.fx, fx_create(&k.fx, &fx_a)));
	fx_await_call(&k.fx, "domain");
	kept_done(&k);
}

static void on_timer(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 1);
	fake_port_is(k.fx.machine, 0, 0x1d);
	await_port(&k, 0, 0x5d);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 1; ");
	kept_done(&k);
}

static unsigned calls(struct kept *k)
{
	unsigned n;

	FAKE_LOCKED(k->fx.machine, n = k->fx.machine->calls);
	return n;
}

static void nothing_to_keep(void **state)
{
	struct kept k = { 0 };
	unsigned before;

	(void)state;
	fx_new(&k.fx);
	k.fx.keep_seconds = 1;
	fx_open(&k.fx);
	fx_create_done(&k.fx, &fx_c); /* a GPU without VFs */
	do { /* the worker may still be looking at what it made */
		before = calls(&k);
		(void)nanosleep(&(struct timespec){ .tv_nsec = 300 * 1000 * 1000 }, NULL);
	} while (calls(&k) != before);
	(void)nanosleep(&(struct timespec){ .tv_sec = 2, .tv_nsec = 500 * 1000 * 1000 }, NULL);
	assert_int_equal(calls(&k), before);
	fx_done(&k.fx);
}

static void degraded(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	FAKE_LOCKED(k.fx.machine, k.fx.machine->port[0].w.stuck[ACT_ACS] = FAKE_DT);
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	fx_await_state(&k.fx, "b", "degraded");
	expect_error(&k, "a", "acs_set: control is 0x1d after 0x5d");
	await_findings(&k, "a", "acs.not-kept " FAKE_PORT " 1; ");
	look(&k); /* no better: it was said */
	fx_await_call(&k.fx, "acs_set");
	await_findings(&k, "a", "acs.not-kept " FAKE_PORT " 1; ");
	fx_close(&k.fx);
	fx_open(&k.fx); /* nor is it forgotten */
	fx_expect_state(&k.fx, "b", "degraded");
	FAKE_LOCKED(k.fx.machine, k.fx.machine->port[0].w.stuck[ACT_ACS] = 0);
	look(&k);
	fx_await_state(&k.fx, "a", "running");
	fx_await_state(&k.fx, "b", "running");
	await_findings(&k, "b", "acs.lost " FAKE_PORT " 1; acs.not-kept " FAKE_PORT " 1; ");
	assert_int_equal(fake_port_ctl(k.fx.machine, 0), 0x5d);
	kept_done(&k);
}

/* A port that fell off the bus; one whose other bits somebody changed, which velad does not set. */
static void not_its_own(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	FAKE_LOCKED(k.fx.machine, k.fx.machine->port[1].w.dead = true);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	expect_error(&k, "a", "port " FAKE_PORT_TB " reads as ff");
	FAKE_LOCKED(k.fx.machine, k.fx.machine->port[1].w.dead = false; k.fx.machine->port[1].w.now[ACT_ACS] = 0x42);
	look(&k);
	await_findings(&k, "a", "acs.lost " FAKE_PORT_TB " 1; acs.not-kept " FAKE_PORT_TB " 2; "); /* another reason; TransBlk is cleared again */
	expect_error(&k, "a", "ACS control of port " FAKE_PORT_TB " is 0x42");
	await_port(&k, 1, 0x40);
	fake_port_is(k.fx.machine, 1, 0x5d);
	look(&k);
	fx_await_state(&k.fx, "a", "running");
	fx_await_state(&k.fx, "b", "running");
	fake_port_is(k.fx.machine, 0, 0x00);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	fx_await_state(&k.fx, "b", "degraded");
	expect_error(&k, "b", "ACS control of port " FAKE_PORT " is 0x00, and was 0x1d when the plan was made");
	assert_int_equal(fake_port_ctl(k.fx.machine, 0), 0x40); /* what is its own, it keeps */
	fake_domain_is(k.fx.machine, "b", ACT_DOMAIN_SHUTOFF); /* a guest that stops needs nothing */
	inst_domain_changed(k.fx.m, "b", ACT_DOMAIN_SHUTOFF);
	fx_await_state(&k.fx, "b", "stopped");
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	fx_await_state(&k.fx, "a", "running");
	fx_await_state(&k.fx, "b", "stopped");
	fake_port_is(k.fx.machine, 0, 0x00);
	look(&k);
	fx_await_state(&k.fx, "a", "degraded");
	fake_port_is(k.fx.machine, 0, 0x1d);
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "a"))); /* as it is */
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "b")));
	fx_expect_machine(&k.fx, k.before);
	free(k.before);
	fx_done(&k.fx);
}

/* ---- beside operations ------------------------------------------------------------------------------ */

/* What is lost comes back at the next look, and looks do not wait for the worker, which is in libvirt here. */
static void while_others_start(void **state)
{
	struct kept k;
	uint64_t op;

	(void)state;
	kept_new(&k, 0);
	fx_close(&k.fx);
	k.fx.keep_ms = 50;
	fx_open(&k.fx);
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "a")));
	fake_pause(k.fx.machine, "domain_start");
	op = fx_create(&k.fx, &fx_c);
	fx_await_state(&k.fx, "c", "provisioning");
	for (unsigned i = 1; i <= 3; i++) {
		unsigned before = calls(&k), late;
		uint64_t from = clock_ms();
		char want[64];

		fake_port_is(k.fx.machine, 0, 0x1d);
		await_port(&k, 0, 0x5d);
		/* a look that was under way, the one that finds it, the writing of two bytes and reading them; not more, but those that came while
		 * this thread did not */
		late = 2 * (unsigned)((clock_ms() - from) / k.fx.keep_ms);
		assert_in_range(calls(&k) - before, 1, 2 + 2 + 2 + 2 + late);
		(void)snprintf(want, sizeof(want), "acs.lost " FAKE_PORT " %u; ", i);
		await_findings(&k, "b", want);
	}
	fx_expect_state(&k.fx, "c", "provisioning");
	fake_pause(k.fx.machine, "");
	assert_true(fx_wait(&k.fx, op));
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "c")));
	assert_true(fx_wait(&k.fx, fx_delete(&k.fx, "b")));
	fx_expect_machine(&k.fx, k.before); /* nobody set again what was given back */
	free(k.before);
	fx_done(&k.fx);
}

/* Guests come and go below the same ports as fast as they can, and as fast as can be looked at them. */
static void given_back(void **state)
{
	struct kept k;

	(void)state;
	kept_new(&k, 0);
	for (int i = 0; i < 20; i++) {
		uint64_t op = fx_delete(&k.fx, "a");

		for (int n = 0; n < 50; n++) {
			inst_machine_changed(k.fx.m);
			fx_nap();
		}
		assert_true(fx_wait(&k.fx, op));
		op = fx_delete(&k.fx, "b");
		for (int n = 0; n < 50; n++) {
			inst_machine_changed(k.fx.m);
			fx_nap();
		}
		assert_true(fx_wait(&k.fx, op));
		fx_expect_machine(&k.fx, k.before);
		assert_true(fx_wait(&k.fx, fx_create(&k.fx, &fx_a)));
		assert_true(fx_wait(&k.fx, fx_create(&k.fx, &fx_b)));
	}
	kept_done(&k);
}

/* ---- ATS -------------------------------------------------------------------------------------------- */

#define VF0 "0000:1a:00.1" /* of fx_a */
#define VF1 "0000:1a:00.2"

static void await_ats(struct kept *k, const char *name, const char *want)
{
	char text[256] = "";

	for (int i = 0; i < 100000 && strcmp(text, want) != 0; i++) {
		json_object *o = instance(k, name), *bundle = json_object_object_get(o, "bundle");
		size_t len = 0;

		for (size_t list = 0; list < 2; list++) {
			json_object *a = json_object_object_get(bundle, list ? "vfs" : "gpus");

			for (size_t n = 0; n < json_object_array_length(a); n++)
				len += (size_t)snprintf(text + len, sizeof(text) - len, "%s ", fx_string(json_object_array_get_idx(a, n), "ats"));
		}
		json_object_put(o);
		fx_nap();
	}
	assert_string_equal(text, want);
}

static void one_new(struct kept *k, const char *gdr, bool ats, const char *state)
{
	struct fx_want w = fx_a;

	w.gdr = gdr;
	*k = (struct kept){ 0 };
	fx_new(&k->fx);
	k->fx.machine->no_ats = !ats;
	k->before = fake_text(k->fx.machine);
	fx_open(&k->fx);
	fx_create_done(&k->fx, &w);
	fx_await_state(&k->fx, "a", state);
}

static void one_done(struct kept *k)
{
	assert_true(fx_wait(&k->fx, fx_delete(&k->fx, "a")));
	fx_expect_machine(&k->fx, k->before);
	free(k->before);
	fx_done(&k->fx);
}

/* As libvirt tells that the guest was reset. */
static void look_at_all(struct kept *k)
{
	inst_domain_changed(k->fx.m, "a", ACT_DOMAIN_RUNNING);
}

static void ats_is_confirmed(void **state)
{
	struct kept k;

	(void)state;
	one_new(&k, "required", true, "running");
	await_ats(&k, "a", "on on on ");
	await_findings(&k, "a", "");
	fake_domain_is(k.fx.machine, "a", ACT_DOMAIN_SHUTOFF); /* then there is nothing to see */
	inst_domain_changed(k.fx.m, "a", ACT_DOMAIN_SHUTOFF);
	fx_await_state(&k.fx, "a", "stopped");
	{
		json_object *o = instance(&k, "a");
		json_object *vfs = json_object_object_get(json_object_object_get(o, "bundle"), "vfs");

		assert_null(json_object_object_get(json_object_array_get_idx(vfs, 0), "ats"));
		json_object_put(o);
	}
	one_done(&k);
}

static void ats_is_required(void **state)
{
	struct kept k;

	(void)state;
	one_new(&k, "required", false, "degraded");
	expect_error(&k, "a", "ATS of " VF0 " is not enabled although its guest runs");
	await_findings(&k, "a", "ats.off " VF0 " 1; ");
	await_ats(&k, "a", "off off off ");
	look_at_all(&k);
	fx_close(&k.fx);
	fx_open(&k.fx); /* nor is it forgotten */
	inst_machine_changed(k.fx.m);
	fx_expect_state(&k.fx, "a", "degraded");
	await_findings(&k, "a", "ats.off " VF0 " 1; ");
	fake_ats_is(k.fx.machine, test_bdf(VF0), FAKE_ATS);
	look_at_all(&k); /* there is another */
	await_findings(&k, "a", "ats.off " VF0 " 1; ats.off " VF1 " 1; ");
	fake_ats_is(k.fx.machine, test_bdf(VF1), FAKE_ATS);
	look_at_all(&k);
	fx_await_state(&k.fx, "a", "running"); /* whatever the GPU's is */
	await_ats(&k, "a", "off on on ");
	FAKE_LOCKED(k.fx.machine, fake_find(k.fx.machine, test_bdf(VF1))->w.dead = true);
	look_at_all(&k);
	fx_await_state(&k.fx, "a", "degraded");
	await_ats(&k, "a", "off on unknown ");
	await_findings(&k, "a", "ats.off " VF0 " 1; ats.off " VF1 " 1; ats.unread " VF1 " 1; ");
	FAKE_LOCKED(k.fx.machine, fake_find(k.fx.machine, test_bdf(VF1))->w.dead = false);
	look_at_all(&k);
	fx_await_state(&k.fx, "a", "running");
	one_done(&k);
}

static void ats_is_preferred(void **state)
{
	struct kept k;

	(void)state;
	one_new(&k, "preferred", false, "running");
	await_findings(&k, "a", "ats.off " VF0 " 1; ats.off " VF1 " 1; ");
	look_at_all(&k); /* it was said */
	await_ats(&k, "a", "off off off ");
	fake_ats_is(k.fx.machine, test_bdf(VF0), FAKE_ATS);
	look_at_all(&k);
	await_ats(&k, "a", "off on off ");
	fake_ats_is(k.fx.machine, test_bdf(VF0), 0);
	look_at_all(&k);
	await_findings(&k, "a", "ats.off " VF0 " 2; ats.off " VF1 " 1; ");
	FAKE_LOCKED(k.fx.machine, fake_find(k.fx.machine, test_bdf(VF0))->w.has = 0); /* a NIC that has none: the plan said so */
	look_at_all(&k);
	await_ats(&k, "a", "off off off ");
	fx_expect_state(&k.fx, "a", "running");
	await_findings(&k, "a", "ats.off " VF0 " 2; ats.off " VF1 " 1; ");
	FAKE_LOCKED(k.fx.machine, fake_find(k.fx.machine, test_bdf(VF0))->w.has = 1u << ACT_ATS | 1u << ACT_DEVCTL | 1u << ACT_DEVCTL2);
	one_done(&k);
}

/* A function level reset: off for a moment. */
static void ats_of_a_moment(void **state)
{
	struct kept k;

	(void)state;
	one_new(&k, "required", true, "running");
	fake_forget_last(k.fx.machine);
	FAKE_LOCKED(k.fx.machine, fake_find(k.fx.machine, test_bdf(VF0))->w.now[ACT_ATS] = 0);
	look_at_all(&k);
	fx_await_call(&k.fx, "ats");
	(void)nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
	fake_ats_is(k.fx.machine, test_bdf(VF0), FAKE_ATS);
	fx_close(&k.fx); /* the look is over */
	fx_open(&k.fx);
	fx_expect_state(&k.fx, "a", "running");
	await_findings(&k, "a", "");
	one_done(&k);
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static void counters(struct kept *k, const char *bdf, unsigned correctable, unsigned fatal)
{
	static const char *const names[] = { "aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal" };
	static const char *const totals[] = { "TOTAL_ERR_COR", "TOTAL_ERR_NONFATAL", "TOTAL_ERR_FATAL" };
	const unsigned n[] = { correctable, 0, fatal };
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", k->fx.dir, bdf);
	for (char *p = path + strlen(k->fx.dir) + 1; p; p = strchr(p + 1, '/')) {
		if (*p == '/')
			*p = '\0';
		(void)mkdir(path, 0755);
		if (!*p)
			*p = '/';
	}
	(void)mkdir(path, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char file[320];
		FILE *f;

		(void)snprintf(file, sizeof(file), "%s/%s", path, names[i]);
		f = fopen(file, "we");
		assert_non_null(f);
		assert_true(fprintf(f, "RxErr %u\nMalfTLP 0\n%s %u\n", n[i], totals[i], n[i]) > 0);
		assert_int_equal(fclose(f), 0);
	}
}

static void expect_text(struct kept *k, const char *rule, const char *word)
{
	json_object *o = instance(k, "a"), *list = json_object_object_get(o, "findings");
	bool found = false;

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *one = json_object_array_get_idx(list, i);

		found = found || (strcmp(fx_string(one, "rule"), rule) == 0 && strstr(fx_string(one, "text"), word));
	}
	assert_true(found);
	json_object_put(o);
}

static void errors_are_told(void **state)
{
	struct error err = ERROR_INIT;
	struct kept k;

	(void)state;
	one_new(&k, "required", true, "running");
	fx_close(&k.fx);
	counters(&k, FAKE_PORT, 7, 1);
	counters(&k, VF0, 0, 0);
	assert_int_equal(host_root_open(&k.fx.root, k.fx.dir, &err), 0);
	fx_open(&k.fx);
	await_ats(&k, "a", "on on on ");
	await_findings(&k, "a", ""); /* what was before is none of the guest's */
	counters(&k, FAKE_PORT, 9, 1);
	look_at_all(&k);
	await_findings(&k, "a", "aer.correctable " FAKE_PORT " 1; ");
	expect_text(&k, "aer.correctable", FAKE_PORT ": 2 PCIe errors more, 9 in all (correctable)");
	counters(&k, FAKE_PORT, 9, 2); /* and with the link, the bits are gone */
	counters(&k, VF0, 1, 0);
	fake_port_is(k.fx.machine, 0, 0x1d);
	look(&k);
	await_findings(&k, "a", "acs.lost " FAKE_PORT " 1; aer.correctable " FAKE_PORT " 1; aer.correctable " VF0 " 1; aer.fatal " FAKE_PORT " 1; ");
	expect_text(&k, "aer.fatal", "1 PCIe errors more, 2 in all (fatal: the link below was reset)");
	await_port(&k, 0, 0x5d);
	fx_close(&k.fx);
	host_root_close(k.fx.root);
	k.fx.root = NULL;
	fx_open(&k.fx);
	one_done(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back), cmocka_unit_test(at_start),	  cmocka_unit_test(after_operation),
		cmocka_unit_test(between_two),
		cmocka_unit_test(on_timer),   cmocka_unit_test(nothing_to_keep), cmocka_unit_test(degraded),
		cmocka_unit_test(not_its_own), cmocka_unit_test(while_others_start), cmocka_unit_test(given_back),
		cmocka_unit_test(ats_is_confirmed), cmocka_unit_test(ats_is_required), cmocka_unit_test(ats_is_preferred),
		cmocka_unit_test(ats_of_a_moment), cmocka_unit_test(errors_are_told),
	};

	log_init((enum log_level)0); /* failures are what is tested here */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
