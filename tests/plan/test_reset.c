/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which resets are allowed, held against what the kernel does with each word of reset_method: whom it hits. */
#include "plan/reset.h"

#include <string.h>

#include "host/inventory.h"
#include "host/kind.h"
#include "host/root.h"
#include "synth.h"
#include "topo/topo.h"

#define HOSTS  400
#define AROUND 64

static const char *const words[] = { "device_specific", "acpi", "flr", "af_flr", "pm", "bus", "cxl_bus" };

static void table(void **state)
{
	static const struct {
		const char     *methods;
		unsigned        bus, vfs, mine; /* functions at 17:00.1.., 18:00.1..; mine: so many of bus, and the VFs if 9 */
		enum plan_reset want;
	} t[] = {
		{ "flr bus", 0, 0, 0, PLAN_RESET_FUNCTION }, { "flr bus", 2, 0, 0, PLAN_RESET_FUNCTION },
		{ "pm bus", 1, 0, 0, PLAN_RESET_FUNCTION },  { "bus", 0, 0, 0, PLAN_RESET_BUS },
		{ "bus\n", 1, 0, 0, PLAN_RESET_HITS },	     { "bus", 1, 0, 1, PLAN_RESET_TOGETHER },
		{ "bus", 2, 0, 1, PLAN_RESET_HITS },	     { "flr", 0, 3, 0, PLAN_RESET_HITS },
		{ "flr", 0, 3, 9, PLAN_RESET_FUNCTION },     { "", 0, 0, 0, PLAN_RESET_NONE },
		{ "\n", 1, 1, 0, PLAN_RESET_NONE },	     { "unheard-of", 1, 0, 0, PLAN_RESET_HITS },
		{ "flrx", 1, 0, 0, PLAN_RESET_HITS },	     { "fl", 0, 0, 0, PLAN_RESET_BUS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct bdf at[8], hit;

		for (unsigned k = 0; k < 4; k++) {
			at[k] = (struct bdf){ .bus = 0x17, .devfn = (uint8_t)(k + 1) };
			at[4 + k] = (struct bdf){ .bus = 0x18, .devfn = (uint8_t)(k + 1) };
		}
		const struct plan_reset_in in = { .methods = t[i].methods, .fn = { .bus = 0x17 }, .bus = at, .nbus = t[i].bus,
						  .vf = at + 4, .nvfs = t[i].vfs, .mine = t[i].mine == 9 ? at + 4 : at,
						  .nmine = t[i].mine == 9 ? 4 : t[i].mine };

		if (plan_reset_choose(&hit, &in) != t[i].want)
			fail_msg("row %zu: %d is not %d", i, plan_reset_choose(&hit, &in), t[i].want);
		assert_int_equal(bdf_is_none(hit), t[i].want != PLAN_RESET_HITS);
	}
}

struct around {
	struct bdf bus[AROUND], vf[AROUND], mine[AROUND];
	size_t     nbus, nvfs, nmine;
};

/* VFs are on a bus of their own, and no neighbours of their PF to the kernel. */
static void look(struct around *a, const struct topo *t, uint32_t at, uint64_t *seed)
{
	const struct host_function *fn = topo_at(t, at)->fn;

	*a = (struct around){ 0 };
	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct host_function *o = topo_at(t, i)->fn;

		if (i == at || a->nbus + a->nvfs == AROUND)
			continue;
		if (o->facts->is_vf && bdf_eq(o->facts->pf, fn->bdf))
			a->vf[a->nvfs++] = o->bdf;
		else if (o->bdf.domain == fn->bdf.domain && o->bdf.bus == fn->bdf.bus)
			a->bus[a->nbus++] = o->bdf;
		else
			continue;
		if (synth_random(seed, 3))
			a->mine[a->nmine++] = o->bdf;
	}
}

static bool owned(const struct around *a, const struct bdf *at, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < a->nmine; k++)
			found += bdf_eq(at[i], a->mine[k]);
	return found == n;
}

/* May the kernel, trying all words in turn, hit somebody else's function? */
static bool kernel_hits(const struct around *a, const char *methods)
{
	if (!owned(a, a->vf, a->nvfs))
		return true;
	/* pci_parent_bus_reset() refuses with anybody on the bus; before that its caller is asked to care */
	return !strstr(methods, "flr") && !strstr(methods, "pm") && !strstr(methods, "acpi") &&
	       !strstr(methods, "device_specific") && !owned(a, a->bus, a->nbus);
}

static size_t try_host(const struct synth *s, uint64_t *seed, size_t *allowed)
{
	autofree char *text = synth_text(s);
	struct topo *t = test_topo_text(text);
	struct around a;
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(t); i++, n++) {
		char methods[64] = "";
		struct bdf hit;
		size_t words_n = synth_random(seed, 3);

		for (size_t w = 0; w < words_n; w++)
			(void)snprintf(methods + strlen(methods), sizeof(methods) - strlen(methods), "%s%s", w ? " " : "",
				       words[synth_random(seed, ARRAY_SIZE(words))]);
		look(&a, t, i, seed);
		enum plan_reset how = plan_reset_choose(&hit, &(struct plan_reset_in){
			.methods = methods, .fn = topo_at(t, i)->fn->bdf, .bus = a.bus, .nbus = a.nbus, .vf = a.vf, .nvfs = a.nvfs,
			.mine = a.mine, .nmine = a.nmine });
		bool goes = how == PLAN_RESET_FUNCTION || how == PLAN_RESET_BUS;

		*allowed += goes;
		if (goes && kernel_hits(&a, methods))
			fail_msg("seed %llu: \"%s\" hits a neighbour", (unsigned long long)s->seed, methods);
		assert_int_equal(how == PLAN_RESET_NONE, !*methods);
		assert_int_equal(how == PLAN_RESET_HITS, *methods && kernel_hits(&a, methods));
	}
	(void)topo_unref(t);
	return n;
}

static void neighbours(void **state)
{
	size_t n = 0, allowed = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= HOSTS; seed++) {
		uint64_t random = seed;
		const struct synth s = { .nodes = 1 + synth_random(&random, 2), .bridges = 1, .switches = 1 + synth_random(&random, 2),
					 .gpus = 1 + synth_random(&random, 3), .nics = 1 + synth_random(&random, 2),
					 .total_vfs = 4, .free_mib = 4096, .seed = seed };

		n += try_host(&s, &random, &allowed);
	}
	assert_true(n > 10 * HOSTS);
	assert_true(allowed > n / 10 && allowed < n);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(table), cmocka_unit_test(neighbours) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
