/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every rule on the settings of GPUs, NICs and ports, as it holds and as it does not; and the steps. */
#include "plan/settings.h"

#include "base/sbuf.h"
#include "support.h"

#define GPU  "0000:4c:00.0" /* of xe9680, alone with NIC PF and an NVMe drive below one switch */
#define PF   "0000:4d:00.0"
#define RP   "0000:48:01.0"
#define USP  "0000:49:00.0"
#define PORT "0000:4a:02.0" /* the NIC's */
#define GPU_PORT "0000:4a:01.0"
#define GPU2 "0000:3b:00.0"

#define RELAX 0x0010
#define EXT   0x0100
#define TAG10 0x1000
#define COMPLETER 0x10000
#define REQUESTER 0x20000

static struct host_facts *facts(struct topo *t, const char *bdf)
{
	return (struct host_facts *)topo_at(t, test_at(t, bdf))->fn->facts; /* a test may make a machine worse */
}

/* xe9680, with nothing left to be said: no port sleeps, and nobody has 10-bit tags to ask with. */
static struct topo *good(void)
{
	struct topo *t = test_topo_host("xe9680");

	for (uint32_t i = 0; i < topo_count(t); i++) {
		struct host_facts *f = (struct host_facts *)topo_at(t, i)->fn->facts;

		f->power_control = "on";
		f->cap.devcap2 &= ~(uint32_t)REQUESTER;
	}
	return t;
}

struct found {
	struct arena                  arena;
	struct plan_settings_finding *f;
	size_t                        n;
};

static struct found check(const struct topo *t, const struct bdf *fn, size_t n)
{
	struct found r = { 0 };

	assert_int_equal(plan_settings_check(&r.f, &r.n, t, fn, n, &r.arena), 0);
	return r;
}

static struct found check_pair(const struct topo *t)
{
	return check(t, (struct bdf[]){ test_bdf(PF), test_bdf(GPU) }, 2);
}

/* There is one finding, and this is it. */
static void expect(struct topo *t, const char *rule, enum plan_settings_level level, const char *bdf, bool set, const char *observed,
		   const char *fix)
{
	struct found r = check_pair(t);

	if (r.n != 1)
		fail_msg("%zu findings instead of one of %s; the first is %s: %s", r.n, rule, r.n ? r.f[0].rule : "",
			 r.n ? r.f[0].observed : "");
	assert_string_equal(r.f[0].rule, rule);
	assert_int_equal(r.f[0].level, level);
	assert_true(bdf_eq(r.f[0].bdf, test_bdf(bdf)));
	assert_int_equal(r.f[0].set, set);
	assert_true(*r.f[0].needed);
	if (!strstr(r.f[0].observed, observed))
		fail_msg("\"%s\" is not in: %s", observed, r.f[0].observed);
	if (!strstr(r.f[0].fix, fix))
		fail_msg("\"%s\" is not in: %s", fix, r.f[0].fix);
	arena_done(&r.arena);
}

static char *steps_of(const struct topo *t, const struct plan_settings_held *held, size_t nheld)
{
	const struct bdf gpu = test_bdf(GPU), pf = test_bdf(PF);
	struct plan_settings_bundle b = { .topo = t, .gpu = &gpu, .ngpus = 1, .pf = &pf, .npfs = 1, .held = held, .nheld = nheld };
	struct arena arena = { 0 };
	struct plan_settings_step *step;
	struct sbuf out = { 0 };
	char text[BDF_TEXT_MAX];
	size_t n;

	assert_int_equal(plan_settings_steps(&step, &n, &b, &arena), 0);
	for (size_t i = 0; i < n; i++)
		sbuf_addf(&out, "%s%s %s %s %s\n", step[i].early ? "early " : "", plan_step_text(step[i].kind),
			  bdf_text(text, step[i].bdf), step[i].from, step[i].to);
	arena_done(&arena);
	return sbuf_steal(&out);
}

static void expect_steps(const struct topo *t, const struct plan_settings_held *held, size_t nheld, const char *want)
{
	char *now = steps_of(t, held, nheld);

	assert_string_equal(now, want);
	free(now);
}

static void a_good_host_has_none(void **state)
{
	struct topo *t = good();
	struct found r = check_pair(t);

	(void)state;
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	r = check(t, NULL, 0); /* its storage NICs' firmware left 512 */
	for (size_t i = 0; i < r.n; i++)
		assert_string_equal(r.f[i].rule, "settings.read-request");
	arena_done(&r.arena);
	r = check(t, &(struct bdf){ .domain = 9 }, 1); /* who is not there has nothing */
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	topo_unref(t);
}

static void relaxed_ordering(void **state)
{
	static const struct {
		uint16_t vendor, device;
		bool     set;
	} roots[] = { { 0x8086, 0x352a, true },  { 0x8086, 0x2f01, false }, { 0x8086, 0x2f0e, false }, { 0x8086, 0x2f0f, true },
		      { 0x8086, 0x6f05, false }, { 0x1022, 0x1a02, false }, { 0x1022, 0x2f01, true } };
	struct topo *t = good();

	(void)state;
	facts(t, GPU)->cap.devctl &= (uint16_t)~RELAX;
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		facts(t, RP)->vendor = roots[i].vendor;
		facts(t, RP)->device = roots[i].device;
		expect(t, "settings.relaxed-ordering", PLAN_SETTINGS_SLOW, GPU, roots[i].set, "Relaxed Ordering is off",
		       roots[i].set ? "setpci -s " GPU " CAP_EXP+8.w=0010:0010" : "another host");
	}
	topo_unref(t);
}

static void read_request(void **state)
{
	struct topo *t = good();
	struct inventory *inv = (struct inventory *)topo_inventory(t);

	(void)state;
	facts(t, PF)->cap.devctl = (uint16_t)((facts(t, PF)->cap.devctl & 0x8fff) | 0x2000);
	expect(t, "settings.read-request", PLAN_SETTINGS_SLOW, PF, true, "at most 512 bytes", "setpci -s " PF " CAP_EXP+8.w=5000:7000");
	inv->cmdline = "quiet pci=pcie_bus_perf";
	expect(t, "settings.read-request", PLAN_SETTINGS_SLOW, PF, false, "at most 512 bytes", "pcie_bus_safe");
	inv->cmdline = "";
	facts(t, RP)->vendor = 0x0014;
	expect(t, "settings.read-request", PLAN_SETTINGS_SLOW, PF, false, "at most 512 bytes", "another host");
	topo_unref(t);
}

static void set_payload(struct topo *t, const char *bdf, unsigned n)
{
	facts(t, bdf)->cap.devctl = (uint16_t)((facts(t, bdf)->cap.devctl & ~0xe0) | n << 5);
}

static void payload(void **state)
{
	struct topo *t = good();

	(void)state;
	set_payload(t, GPU_PORT, 0);
	expect(t, "settings.payload", PLAN_SETTINGS_UNSAFE, GPU_PORT, false, "at most 128 bytes, those of " GPU " 256",
	       "pci=pcie_bus_safe");
	set_payload(t, GPU_PORT, 1);
	set_payload(t, RP, 2); /* of both, and said once */
	expect(t, "settings.payload", PLAN_SETTINGS_UNSAFE, RP, false, "at most 512 bytes", "pci=pcie_bus_safe");
	set_payload(t, RP, 1);
	set_payload(t, GPU_PORT, 0);
	facts(t, GPU_PORT)->cap.dev_known = false; /* not known is no mismatch: check_power and routes say what is unread */
	struct found r = check_pair(t);
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	topo_unref(t);
}

/* With ARI, function 0 decides for its whole device. */
static void payload_with_ari(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	const char *first = NULL, *second = NULL;
	char a[BDF_TEXT_MAX], b[BDF_TEXT_MAX];
	struct found r;

	(void)state;
	for (uint32_t i = 1; i < topo_count(t) && !second; i++)
		if (topo_at(t, i)->fn->facts->kind == HOST_NIC && bdf_function(topo_at(t, i)->fn->bdf) == 1) {
			second = bdf_text(b, topo_at(t, i)->fn->bdf);
			first = bdf_text(a, topo_at(t, i - 1)->fn->bdf);
		}
	assert_non_null(second);
	for (uint32_t i = 0; i < topo_count(t); i++)
		((struct host_facts *)topo_at(t, i)->fn->facts)->power_control = "on";
	facts(t, first)->cap.devctl = facts(t, second)->cap.devctl = facts(t, GPU)->cap.devctl;
	for (uint32_t up = topo_at(t, test_at(t, second))->parent; up != TOPO_NONE; up = topo_at(t, up)->parent)
		((struct host_facts *)topo_at(t, up)->fn->facts)->cap.devctl = facts(t, GPU)->cap.devctl;
	set_payload(t, second, 0);
	facts(t, second)->cap.ari = HOST_PRESENT;
	r = check(t, (struct bdf[]){ test_bdf(second) }, 1);
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	facts(t, second)->cap.ari = HOST_ABSENT;
	r = check(t, (struct bdf[]){ test_bdf(second) }, 1);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.f[0].rule, "settings.payload");
	arena_done(&r.arena);
	topo_unref(t);
}

/* Below two root ports, each path is whole, and yet a packet of one is too large for the other. */
static void payload_of_a_peer(void **state)
{
	struct topo *t = good();
	struct found r;
	size_t n = 0;

	(void)state;
	for (uint32_t up = test_at(t, GPU2); up != TOPO_NONE; up = topo_at(t, up)->parent) {
		char text[BDF_TEXT_MAX];

		set_payload(t, bdf_text(text, topo_at(t, up)->fn->bdf), 2);
	}
	r = check(t, (struct bdf[]){ test_bdf(GPU), test_bdf(GPU2) }, 2);
	assert_int_equal(r.n, 2);
	assert_true(bdf_eq(r.f[0].bdf, test_bdf(GPU2)));
	assert_non_null(strstr(r.f[0].observed, "512 bytes, those of its peer " GPU " 256"));
	assert_non_null(strstr(r.f[1].observed, "256 bytes, those of its peer " GPU2 " 512"));
	assert_non_null(strstr(r.f[0].fix, "peer2peer"));
	arena_done(&r.arena);
	r = check(t, NULL, 0); /* of the whole host, nobody said that the two are peers */
	for (size_t i = 0; i < r.n; i++)
		n += bdf_eq(r.f[i].bdf, test_bdf(GPU)) || bdf_eq(r.f[i].bdf, test_bdf(GPU2));
	assert_int_equal(n, 0);
	arena_done(&r.arena);
	topo_unref(t);
}

static void extended_tags(void **state)
{
	struct topo *t = good();

	(void)state;
	facts(t, GPU)->cap.devctl &= (uint16_t)~EXT;
	expect(t, "settings.extended-tag", PLAN_SETTINGS_SLOW, GPU, true, "32 requests", "a reboot");
	facts(t, GPU)->cap.devctl |= EXT;
	facts(t, PF)->cap.devctl &= (uint16_t)~EXT; /* the host's driver has it: it may have requests under way */
	expect(t, "settings.extended-tag", PLAN_SETTINGS_SLOW, PF, false, "32 requests", "a reboot");
	for (uint32_t i = 0; i < topo_count(t); i++)
		((struct host_facts *)topo_at(t, i)->fn->facts)->cap.devctl &= (uint16_t)~EXT;
	facts(t, PF)->cap.devcap &= ~0x20u; /* has none */
	struct found r = check_pair(t); /* the kernel keeps them off below a host bridge that cannot take them */
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	expect_steps(t, NULL, 0, "power " GPU " auto,1 on,0\n");
	topo_unref(t);
}

static void all_complete(struct topo *t)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		struct pcicap *c = &((struct host_facts *)topo_at(t, i)->fn->facts)->cap;

		c->devcap2 |= COMPLETER;
		c->dev2_known = true;
	}
}

static void tag_completers(void **state)
{
	static const char *const completers[] = { RP, USP, GPU_PORT, PF };
	struct topo *t = good();

	(void)state;
	all_complete(t);
	facts(t, GPU)->cap.devctl2 |= TAG10;
	struct found r = check_pair(t);
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	for (size_t i = 0; i < ARRAY_SIZE(completers); i++) {
		char says[64];

		facts(t, completers[i])->cap.devcap2 &= ~(uint32_t)COMPLETER;
		(void)snprintf(says, sizeof(says), "%s cannot answer those", completers[i]);
		expect(t, "settings.tag-completer", PLAN_SETTINGS_UNSAFE, GPU, false, says,
		       "setpci -s " GPU " CAP_EXP+28.w=0000:1000");
		facts(t, completers[i])->cap.dev2_known = false;
		expect(t, "settings.tag-completer", PLAN_SETTINGS_UNKNOWN, GPU, false, "is not known to answer those", "as root");
		all_complete(t);
	}
	topo_unref(t);
}

static void ports_that_sleep(void **state)
{
	struct topo *t = good();

	(void)state;
	facts(t, USP)->power_control = "auto";
	facts(t, USP)->d3cold_allowed = 1;
	expect(t, "settings.power", PLAN_SETTINGS_SLOW, USP, true, "may go to D3cold", "echo on > /sys/bus/pci/devices/" USP "/power/control");
	facts(t, USP)->d3cold_allowed = -1;
	expect(t, "settings.power", PLAN_SETTINGS_UNKNOWN, USP, true, "is not known", "echo on");
	facts(t, USP)->power_control = NULL;
	facts(t, USP)->d3cold_allowed = 1;
	expect(t, "settings.power", PLAN_SETTINGS_UNKNOWN, USP, true, "is not known", "echo on");
	facts(t, USP)->d3cold_allowed = 0;
	struct found r = check_pair(t);
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	topo_unref(t);
}

static void unread_registers(void **state)
{
	struct topo *t = good();

	(void)state;
	facts(t, GPU)->cap.dev_known = facts(t, GPU)->cap.dev2_known = false;
	expect(t, "settings.unread", PLAN_SETTINGS_UNKNOWN, GPU, false, "cannot be read", "as root");
	facts(t, GPU)->cap.pcie = HOST_ABSENT; /* conventional PCI */
	struct found r = check_pair(t);
	assert_int_equal(r.n, 0);
	arena_done(&r.arena);
	topo_unref(t);
}

/* ---- steps ---------------------------------------------------------------------------------------------- */

static void steps(void **state)
{
	struct topo *t = good();

	(void)state;
	facts(t, GPU)->power_control = "on"; /* vfio-pci will change that */
	expect_steps(t, NULL, 0, "power " GPU " auto,1 on,0\n");
	facts(t, USP)->power_control = NULL;
	facts(t, PORT)->power_control = "auto";
	facts(t, PORT)->d3cold_allowed = -1;
	facts(t, PF)->power_control = "auto";
	facts(t, GPU)->cap.devctl = 0x0020;
	facts(t, PF)->cap.devctl = 0x2936;
	expect_steps(t, NULL, 0, "early power " USP " unknown,1 on,0\n"
				 "early power " PORT " auto,- on,0\n"
				 "early power " PF " auto,1 on,0\n"
				 "power " GPU " auto,1 on,0\n"
				 "devctl " GPU " 0x0020 0x5130\n"
				 "devctl " PF " 0x2936 0x5936\n");
	facts(t, PF)->cap.devctl = 0x2836; /* no extended tags: of the host's, they are left */
	facts(t, GPU)->cap.dev_known = false;
	expect_steps(t, NULL, 0, "early power " USP " unknown,1 on,0\n"
				 "early power " PORT " auto,- on,0\n"
				 "early power " PF " auto,1 on,0\n"
				 "power " GPU " auto,1 on,0\n"
				 "devctl " PF " 0x2836 0x5836\n");
	topo_unref(t);
}

static void tags_are_set_where_all_take_them(void **state)
{
	static const char *const needed[] = { RP, USP, GPU_PORT, PF };
	struct topo *t = good();

	(void)state;
	all_complete(t);
	facts(t, GPU)->cap.devcap2 |= REQUESTER;
	facts(t, PF)->cap.devcap2 |= REQUESTER; /* not velad's to change */
	facts(t, PF)->cap.devctl2 = 0;
	facts(t, GPU)->cap.devctl2 = 0x0006;
	expect_steps(t, NULL, 0, "power " GPU " auto,1 on,0\ndevctl2 " GPU " 0x0006 0x1006\n");
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		facts(t, needed[i])->cap.devcap2 &= ~(uint32_t)COMPLETER;
		expect_steps(t, NULL, 0, "power " GPU " auto,1 on,0\n");
		facts(t, needed[i])->cap.dev2_known = false;
		expect_steps(t, NULL, 0, "power " GPU " auto,1 on,0\n");
		all_complete(t);
	}
	facts(t, GPU)->cap.devcap2 &= ~(uint32_t)REQUESTER;
	expect_steps(t, NULL, 0, "power " GPU " auto,1 on,0\n");
	topo_unref(t);
}

/* What others hold gets a step, though it is as it should be. */
static void held_ones(void **state)
{
	const struct plan_settings_held held[] = { { PLAN_STEP_DEVCTL, test_bdf(PF) }, { PLAN_STEP_POWER, test_bdf(USP) },
						   { PLAN_STEP_POWER, test_bdf("0000:5a:00.0") } };
	struct topo *t = good();

	(void)state;
	facts(t, PF)->cap.devctl = 0x5936;
	expect_steps(t, held, ARRAY_SIZE(held), "early power " USP " on,1 on,0\n"
						"power " GPU " auto,1 on,0\n"
						"devctl " PF " 0x5936 0x5936\n");
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_host_has_none),
		cmocka_unit_test(relaxed_ordering),
		cmocka_unit_test(read_request),
		cmocka_unit_test(payload),
		cmocka_unit_test(payload_with_ari),
		cmocka_unit_test(payload_of_a_peer),
		cmocka_unit_test(extended_tags),
		cmocka_unit_test(tag_completers),
		cmocka_unit_test(ports_that_sleep),
		cmocka_unit_test(unread_registers),
		cmocka_unit_test(steps),
		cmocka_unit_test(tags_are_set_where_all_take_them),
		cmocka_unit_test(held_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
