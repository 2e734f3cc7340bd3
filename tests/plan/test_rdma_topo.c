/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What rdma_topo of rdma-core wants of each port's ACS word (kernel-boot/rdma_topo, compute_acs() of its three kinds of
 * complex and of the whole), told apart here by ids and parents alone, beside what velad's plan leaves there, at run time
 * and after a boot with its kernel argument. Every difference is in the table, with its reason. */
#include "plan/acs.h"

#include "support.h"

enum type { INLINE_VIRT, INLINE_METAL, DATA_DIRECT, NUMA };
enum role { NONE, NIC_DSP, GPU_DSP, ROOT, OTHER, ROLES };

/* Bits 6 to 0: DT EC UF CR RR TB SV; x: left as it is. */
static const char *const wanted[][ROLES] = {
	[INLINE_VIRT] = { [NIC_DSP] = "1x111x1", [GPU_DSP] = "xx111x1", [ROOT] = "xx111x1", [OTHER] = "xx111x1" },
	[INLINE_METAL] = { [NIC_DSP] = "xx000x0", [GPU_DSP] = "xx000x0", [ROOT] = "xx000x0", [OTHER] = "xx000x0" },
	[DATA_DIRECT] = { [NIC_DSP] = "xx110x1", [GPU_DSP] = "xx101x1", [ROOT] = "xx111x0", [OTHER] = "xx111x1" },
	[NUMA] = { [OTHER] = "xx111x1" },
};

struct machine {
	struct topo *t;
	enum type    type;
	enum role    role[256];
};

static struct host_facts *facts(struct topo *t, uint32_t i)
{
	return (struct host_facts *)topo_at(t, i)->fn->facts; /* a test may make a machine worse */
}

static bool is(struct topo *t, uint32_t i, uint16_t vendor, const uint16_t *device, size_t n)
{
	while (n && facts(t, i)->device != device[n - 1])
		n--;
	return n && facts(t, i)->vendor == vendor;
}

#define IS(t, i, vendor, ...) is(t, i, vendor, (const uint16_t[]){ __VA_ARGS__ }, \
				 sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t))

static bool is_switch(struct topo *t, uint32_t i)
{
	return IS(t, i, 0x15b3, 0x1979, 0x197b, 0x197c);
}

static bool is_vera(struct topo *t, uint32_t i)
{
	return IS(t, i, 0x10de, 0x2f95, 0x2f96);
}

static bool is_nic(struct topo *t, uint32_t i)
{
	return !facts(t, i)->is_vf && IS(t, i, 0x15b3, 0x1021, 0x1023, 0x1025, 0xa2dc);
}

static bool is_dma(struct topo *t, uint32_t i)
{
	return IS(t, i, 0x15b3, 0x2100);
}

static bool is_gpu(struct topo *t, uint32_t i)
{
	return facts(t, i)->vendor == 0x10de && facts(t, i)->class >> 16 == 3;
}

static uint32_t up(struct topo *t, uint32_t i, unsigned n)
{
	while (n-- && i != TOPO_NONE)
		i = topo_at(t, i)->parent;
	return i;
}

/* The function just below `top` on the way up from i; TOPO_NONE: i is not below it. */
static uint32_t under(struct topo *t, uint32_t i, uint32_t top)
{
	while (i != TOPO_NONE && topo_at(t, i)->parent != top)
		i = topo_at(t, i)->parent;
	return i;
}

static enum type type_of(struct topo *t)
{
	bool dma = false, at_root = false, ats = false;

	for (uint32_t i = 0; i < topo_count(t); i++) {
		dma = dma || is_dma(t, i);
		at_root = at_root || (is_gpu(t, i) && up(t, i, 2) == TOPO_NONE);
		ats = ats || (is_nic(t, i) && facts(t, i)->cap.ats.known == HOST_PRESENT);
	}
	return dma ? DATA_DIRECT : at_root ? NUMA : ats ? INLINE_VIRT : INLINE_METAL;
}

/* The three ports of one complex: two below the shared switch, and the root port above it. */
static void complex_of(struct machine *m, uint32_t nic, uint32_t gpu, uint32_t shared)
{
	uint32_t root = shared;

	assert_true(is_switch(m->t, shared));
	while (topo_at(m->t, root)->parent != TOPO_NONE)
		root = topo_at(m->t, root)->parent;
	m->role[under(m->t, nic, shared)] = NIC_DSP;
	m->role[under(m->t, gpu, shared)] = GPU_DSP;
	m->role[root] = ROOT;
}

/* Of a NIC's function, the GPU below the same shared switch. */
static void find_complex(struct machine *m, uint32_t nic)
{
	uint32_t shared = up(m->t, nic, 2);

	for (uint32_t g = 0; g < topo_count(m->t); g++)
		if (is_gpu(m->t, g) && under(m->t, g, shared) != TOPO_NONE) {
			complex_of(m, nic, g, shared);
			return;
		}
	fail_msg("no GPU beside %u", nic);
}

static struct machine machine(struct topo *t)
{
	struct machine m = { .t = t, .type = type_of(t) };

	assert_true(topo_count(t) <= ARRAY_SIZE(m.role));
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (m.type == DATA_DIRECT ? is_dma(t, i) : m.type != NUMA && is_nic(t, i))
			find_complex(&m, i);
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (!m.role[i] && facts(t, i)->cap.acs.known == HOST_PRESENT &&
		    (is_switch(t, i) || is_vera(t, i) || IS(t, i, 0x10de, 0x22b1, 0x22b2, 0x22b8)))
			m.role[i] = OTHER;
	return m;
}

static struct topo *host(const char *name)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	char path[256];
	struct topo *t;

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/rdma_topo.json", name);
	if (access(path, R_OK) < 0)
		return test_topo_host(name);
	assert_int_equal(host_root_open_text(&root, path, &err), 0);
	t = test_topo_of(root);
	host_root_close(root);
	return t;
}

/* Every bit that rdma_topo does not leave as it is, and that the word has otherwise. */
static uint16_t other_bits(struct machine *m, uint32_t i, uint16_t word)
{
	const char *want = wanted[m->type][m->role[i]];
	uint16_t bits = 0;

	for (unsigned b = 0; b < 7; b++) {
		char c = want[6 - b];

		if (c == '1' && b == 3 && is_vera(m->t, i)) /* Completion Redirect of Vera's root ports is hard-wired to 0 */
			c = '0';
		if (c != 'x' && (c == '1') != (word >> b & 1))
			bits |= (uint16_t)(1u << b);
	}
	return bits;
}

/* ---- the differences --------------------------------------------------------------------------------------- */

enum change { AS_IT_IS, DEFAULT, NO_ATS }; /* ACS as the kernel sets it by itself; no NIC has ATS */
enum when { RUN, BOOT, EXCLUSIVE };

#define SV TOPO_ACS_SV
#define RR TOPO_ACS_RR
#define CR TOPO_ACS_CR
#define UF TOPO_ACS_UF
#define ALL (SV | RR | CR | UF)

static const struct {
	const char *host;
	enum change change;
	enum when   when;
	uint16_t    bits[ROLES]; /* where velad's word is another */
	const char *reason;
} cases[] = {
	{ "rdma-topo-inline", AS_IT_IS, RUN, { 0 }, "" },
	{ "rdma-topo-inline", AS_IT_IS, BOOT, { 0 }, "" },
	{ "rdma-topo-numa", AS_IT_IS, RUN, { 0 }, "" },
	{ "rdma-topo-numa", AS_IT_IS, BOOT, { 0 }, "" },
	{ "gb200-oci-4gpu", AS_IT_IS, RUN, { 0 }, "" },
	{ "gb200-oci-4gpu", DEFAULT, BOOT, { 0 }, "" },
	{ "rdma-topo-direct-nic", DEFAULT, BOOT, { 0 }, "" },
	{ "rdma-topo-direct-nic", DEFAULT, RUN, { [NIC_DSP] = RR, [GPU_DSP] = CR, [ROOT] = SV },
	  "IOMMU groups are formed once, at boot: these bits are for the kernel argument alone" },
	{ "rdma-topo-inline", NO_ATS, RUN, { [NIC_DSP] = ALL, [GPU_DSP] = ALL, [ROOT] = ALL, [OTHER] = ALL },
	  "without ATS rdma_topo takes it for bare metal and gives isolation up; velad is for guests, and says that ATS is off" },
	{ "rdma-topo-inline", NO_ATS, BOOT, { [NIC_DSP] = ALL, [GPU_DSP] = ALL, [ROOT] = ALL, [OTHER] = ALL }, "the same" },
	{ "rdma-topo-inline", NO_ATS, EXCLUSIVE, { [NIC_DSP] = SV | CR | UF, [GPU_DSP] = SV | RR | UF, [ROOT] = RR | CR | UF, [OTHER] = ALL },
	  "a host for one tenant: as rdma_topo does for data-direct functions, no bit more than the pairs need" },
};

static void make_change(struct topo *t, enum change change)
{
	for (uint32_t i = 0; i < topo_count(t); i++) {
		struct pcicap *c = &facts(t, i)->cap;

		if (change == DEFAULT)
			c->acs.ctl |= c->acs.cap & ALL;
		if (change == NO_ATS && is_nic(t, i))
			c->ats.known = HOST_ABSENT;
		if (change == NO_ATS)
			c->acs.ctl &= (uint16_t)~TOPO_ACS_DT;
	}
}

static uint16_t *words(struct topo *t, enum when when, struct arena *arena)
{
	auto_(plan_acs_free) struct plan_acs *p = NULL;
	struct error err = ERROR_INIT;
	uint16_t *ctl;

	assert_int_equal(plan_acs_all(&p, t, when == EXCLUSIVE, &err), 0);
	ctl = plan_acs_words(t, when == RUN ? p : NULL, arena);
	for (size_t i = 0; when != RUN && i < p->nboot; i++)
		ctl[topo_find(t, p->at_boot[i].port)] = p->at_boot[i].to;
	return ctl;
}

static void one_case(size_t n)
{
	struct topo *t = host(cases[n].host);
	struct arena arena = { 0 };
	size_t seen[ROLES] = { 0 };
	struct machine m;
	uint16_t *ctl;

	make_change(t, cases[n].change);
	m = machine(t);
	ctl = words(t, cases[n].when, &arena);
	for (uint32_t i = 0; i < topo_count(t); i++) {
		char name[BDF_TEXT_MAX];

		if (m.role[i] && other_bits(&m, i, ctl[i]) != cases[n].bits[m.role[i]])
			fail_msg("case %zu, %s, %s: role %d, wanted %s, velad has %02x, which differs in %02x, not in %02x", n, cases[n].host,
				 bdf_text(name, topo_at(t, i)->fn->bdf), m.role[i], wanted[m.type][m.role[i]], ctl[i],
				 other_bits(&m, i, ctl[i]), cases[n].bits[m.role[i]]);
		seen[m.role[i]]++;
	}
	for (enum role r = NIC_DSP; r < ROLES; r++) /* or the comparison says little */
		assert_int_equal(seen[r] > 0, wanted[m.type][r] != NULL);
	arena_done(&arena);
	topo_unref(t);
}

static void every_port_of_every_shape(void **state)
{
	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		assert_int_equal(!*cases[n].reason, memcmp(cases[n].bits, (uint16_t[ROLES]){ 0 }, sizeof(cases[n].bits)) == 0);
		one_case(n);
	}
}

/* As it is, one root port of that host has a fault, and rdma_topo's check names the same. */
static void the_fault_is_the_only_one(void **state)
{
	struct topo *t = host("rdma-topo-direct-nic");
	struct machine m = machine(t);

	(void)state;
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (m.role[i])
			assert_int_equal(other_bits(&m, i, facts(t, i)->cap.acs.ctl),
					 bdf_eq(topo_at(t, i)->fn->bdf, test_bdf("0002:00:00.0")) ? TOPO_ACS_SV : 0);
	topo_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_port_of_every_shape),
		cmocka_unit_test(the_fault_is_the_only_one),
	};

	return cmocka_run_group_tests_name("rdma_topo", tests, NULL, NULL);
}
