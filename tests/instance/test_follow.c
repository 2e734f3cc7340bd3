/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is in quarantine is a card, not a place, where it has a serial number. */
#include "base/sbuf.h"
#include "instance/fixture.h"
#include "plan/plan.h"

#define HERE  "0000:19:00.0"
#define THERE "0000:3b:00.0"
#define PF    "0000:1a:00.0"
#define VF    "0000:1a:00.1"
#define A     0x48b02d0000000001
#define B     0x48b02d0000000002

struct card {
	const char *bdf;
	uint64_t    serial; /* 0 none */
	const char *pf;
	const char *vpd;    /* what VPD has; NULL: there is none */
};

static void add_card(struct sbuf *out, const struct card *c)
{
	char dir[64];

	(void)snprintf(dir, sizeof(dir), "sys/devices/pci0000:10/%s", c->bdf);
	sbuf_addf(out, "sys/bus/pci/devices/%s -> ../../../devices/pci0000:10/%s\n", c->bdf, c->bdf);
	sbuf_addf(out, "%s/uevent\tPCI_CLASS=30200\\nPCI_ID=10DE:2330\n", dir);
	if (c->pf) {
		sbuf_addf(out, "%s/physfn -> ../%s\n", dir, c->pf);
		return;
	}
	sbuf_addf(out, "%s/config\tbytes 4096\n 000: de 10 30 23 06 00 10 00 00 00 02 03 00 00 00 00\n", dir);
	sbuf_add(out, " 030: 00 00 00 00 60 00 00 00 00 00 00 00 00 00 00 00\n 060: 10 00 02 00 00 00 00 10 00 00 00 00 05 01 00 00\n");
	if (c->serial) {
		sbuf_add(out, " 100: 03 00 01 00");
		for (int i = 0; i < 8; i++)
			sbuf_addf(out, " %02x", (unsigned)(c->serial >> 8 * i & 0xff));
		sbuf_add(out, " 00 00 00 00\n");
	}
	if (c->vpd) {
		size_t n = strlen(c->vpd);

		sbuf_addf(out, "%s/vpd\tbytes %zu\n 000: 90 %02zx 00 53 4e %02zx", dir, n + 7, n + 3, n);
		for (size_t i = 0; i < n; i++)
			sbuf_addf(out, " %02x", (unsigned char)c->vpd[i]);
		sbuf_add(out, " 78\n");
	}
}

static struct topo *machine(const struct card *cards, size_t n)
{
	struct sbuf text = { 0 };
	autofree char *made = NULL;

	sbuf_add(&text, TEXT_MAGIC_LINE);
	for (size_t i = 0; i < n && cards[i].bdf; i++)
		add_card(&text, &cards[i]);
	made = sbuf_steal(&text);
	assert_non_null(made);
	return test_topo_text(made);
}

/* "0000:19:00.0 ..." */
static void expect(struct fx *fx, const struct topo *t, const char *want)
{
	struct error err = ERROR_INIT;
	struct plan_sick *sick = NULL;
	struct arena arena = { 0 };
	struct sbuf all = { 0 };
	autofree char *got = NULL;
	char text[BDF_TEXT_MAX];
	size_t n = 0;

	assert_int_equal(inst_quarantined(fx->m, &sick, &n, t, &arena, &err), 0);
	sbuf_add(&all, "");
	for (size_t i = 0; i < n; i++)
		sbuf_addf(&all, "%s%s", i ? " " : "", bdf_text(text, sick[i].bdf));
	got = sbuf_steal(&all);
	assert_string_equal(got, want);
	arena_done(&arena);
}

static void put(struct fx *fx, const char *bdf, const struct topo *t)
{
	struct error err = ERROR_INIT;

	if (inst_quarantine_add(fx->m, test_bdf(bdf), "Xid 79", t, &err) < 0)
		fail_msg("%s", err.text);
}

static void places(void **state)
{
	static const struct {
		const char *bdf;
		struct card before[3], after[3];
		const char *want;
	} t[] = {
		{ HERE, { { HERE, A, NULL } }, { { HERE, A, NULL }, { THERE, B, NULL } }, HERE },
		{ HERE, { { HERE, A, NULL } }, { { HERE, B, NULL } }, "" }, /* replaced */
		{ HERE, { { HERE, A, NULL } }, { { HERE, B, NULL }, { THERE, A, NULL } }, THERE }, /* both changed places */
		{ HERE, { { HERE, A, NULL } }, { { THERE, A, NULL } }, THERE },
		{ HERE, { { HERE, A, NULL } }, { { HERE, 0, NULL } }, HERE }, /* what cannot be read is the same */
		{ HERE, { { HERE, A, NULL } }, { { HERE, 0, NULL }, { THERE, A, NULL } }, HERE " " THERE },
		{ HERE, { { HERE, A, NULL } }, { { THERE, B, NULL } }, HERE }, /* not there: whatever comes without a number is it */
		{ HERE, { { HERE, A, NULL } }, { { THERE, A, NULL }, { "0000:5d:00.0", A, NULL } }, THERE " 0000:5d:00.0" },
		{ HERE, { { HERE, A, NULL } }, { { HERE, A, NULL }, { THERE, A, NULL } }, HERE }, /* all cards of a vendor have this number */
		{ HERE, { { HERE, A, NULL } }, { { HERE, B, NULL }, { "0000:3b:00.1", A, NULL } }, "" }, /* another function of the card */
		{ HERE, { { HERE, 0, NULL } }, { { HERE, B, NULL } }, HERE },
		{ HERE, { { HERE, 0, NULL } }, { { THERE, B, NULL } }, HERE },
		{ VF, { { PF, A, NULL }, { VF, 0, PF } }, { { PF, A, NULL }, { VF, 0, PF } }, VF },
		{ VF, { { PF, A, NULL }, { VF, 0, PF } }, { { PF, A, NULL } }, VF }, /* its PF has no VFs now */
		{ VF, { { PF, A, NULL }, { VF, 0, PF } }, { { PF, B, NULL }, { VF, 0, PF } }, "" },
		{ VF, { { PF, A, NULL }, { VF, 0, PF } }, { { PF, B, NULL }, { THERE, A, NULL } }, "0000:3b:00.1" },
		{ HERE, { { HERE, 0, NULL, "mt1" } }, { { HERE, 0, NULL, "mt2" }, { THERE, 0, NULL, "mt1" } }, THERE }, /* by VPD */
		{ HERE, { { HERE, 0, NULL, "mt1" } }, { { HERE, 0, NULL, "mt2" } }, "" },
		{ HERE, { { HERE, 0, NULL, "mt1" } }, { { HERE, 0, NULL, NULL } }, HERE }, /* what cannot be read is the same */
		{ HERE, { { HERE, 0, NULL, "mt1" } }, { { HERE, 0, NULL, "mt1" }, { THERE, 0, NULL, "mt1" } }, HERE }, /* a board's */
		{ HERE, { { HERE, A, NULL, "mt1" } }, { { HERE, B, NULL, "mt1" }, { THERE, A, NULL, "mt2" } }, THERE }, /* the card's own counts */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		auto_(topo_unref) struct topo *before = machine(t[i].before, 3), *after = machine(t[i].after, 3);
		struct fx fx;

		fx_new(&fx);
		fx_open(&fx);
		put(&fx, t[i].bdf, before);
		expect(&fx, before, t[i].bdf);
		expect(&fx, after, t[i].want);
		expect(&fx, after, t[i].want); /* and that is all */
		fx_reopen(&fx);
		expect(&fx, NULL, t[i].want);
		fx_done(&fx);
	}
}

static bool is_replaced(struct fx *fx)
{
	json_object *list = fx_quarantine(fx);
	bool is = json_object_get_boolean(json_object_object_get(json_object_array_get_idx(list, 0), "replaced"));

	assert_int_equal(json_object_array_length(list), 1);
	json_object_put(list);
	return is;
}

/* The new card is given; the old one is in quarantine again when it comes back, until somebody says that it never will. */
static void replaced(void **state)
{
	auto_(topo_unref) struct topo *a = machine((struct card[]){ { HERE, A, NULL } }, 1), *b = machine((struct card[]){ { HERE, B, NULL } }, 1);
	struct error err = ERROR_INIT;
	uint64_t op = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	put(&fx, HERE, a);
	assert_false(is_replaced(&fx));
	assert_int_equal(fx_try_create(&fx, &fx_a, &op, &err), -EBUSY);
	expect(&fx, b, "");
	assert_true(is_replaced(&fx));
	fx_create_done(&fx, &fx_a);
	assert_true(fx_wait(&fx, fx_delete(&fx, "a")));
	expect(&fx, b, "");
	expect(&fx, a, HERE);
	assert_false(is_replaced(&fx));
	expect(&fx, b, "");
	put(&fx, HERE, b); /* the new one, too */
	err = ERROR_INIT;
	assert_int_equal(inst_quarantine_add(fx.m, test_bdf(HERE), "again", b, &err), -EEXIST);
	expect(&fx, b, HERE);
	(void)snprintf(fake_find(fx.machine, test_bdf(HERE))->serial, ACT_SERIAL_MAX, "%016llx", (unsigned long long)B);
	for (int i = 0; i < 2; i++) { /* first what is there, then what is gone */
		assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(HERE), b, &err), 0);
		assert_true(fx_wait(&fx, op));
		expect(&fx, b, "");
	}
	assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(HERE), b, &err), -ENOENT);
	expect(&fx, a, "");
	fx_done(&fx);
}

/* Released where it is now. */
static void moved(void **state)
{
	auto_(topo_unref) struct topo *a = machine((struct card[]){ { HERE, A, NULL } }, 1), *b = machine((struct card[]){ { THERE, A, NULL } }, 1);
	struct error err = ERROR_INIT;
	uint64_t op = 0;
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx_open(&fx);
	put(&fx, HERE, a);
	assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(HERE), b, &err), -ENOENT);
	err = ERROR_INIT;
	assert_int_equal(inst_quarantine_release(fx.m, &op, test_bdf(THERE), b, &err), 0);
	assert_true(fx_wait(&fx, op));
	expect(&fx, b, "");
	expect(&fx, a, "");
	fx_done(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(places), cmocka_unit_test(replaced), cmocka_unit_test(moved) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
