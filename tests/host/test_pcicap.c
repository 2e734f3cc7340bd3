/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The config space walker: right values from real layouts, bounded work on any bytes. */
#include "support.h"

struct space {
	uint8_t  b[4096];
	size_t   len;
	unsigned reads;
};

static int read_space(void *self, uint16_t off, unsigned n, uint32_t *ret)
{
	struct space *s = self;

	s->reads += n;
	if ((size_t)off + 4 * n > s->len)
		return -ENODATA;
	for (unsigned i = 0; i < n; i++, off += 4)
		ret[i] = (uint32_t)s->b[off] | (uint32_t)s->b[off + 1] << 8 | (uint32_t)s->b[off + 2] << 16 |
			 (uint32_t)s->b[off + 3] << 24;
	return 0;
}

static void put(struct space *s, unsigned off, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		s->b[off + (unsigned)i] = (uint8_t)(v >> (8 * i));
}

/* A switch downstream port with ACS and ATS, as the PEX890xx of the XE9680: ACSCap 5f, ACSCtl 1d. */
static struct space port(void)
{
	struct space s = { .len = 4096 };

	put(&s, 0x00, 0xc0301000);
	put(&s, 0x04, 0x00100007);
	put(&s, 0x08, 0x060400b0);
	put(&s, 0x0c, 0x00010000);
	put(&s, 0x18, 0x00191817);
	put(&s, 0x34, 0x00000040);
	put(&s, 0x40, 0x00036801);
	put(&s, 0x68, 0x00620010); /* PCIe, type 6 */
	put(&s, 0x6c, 0x10008000); /* FLR */
	put(&s, 0x74, 0x00000105); /* 32 GT/s x16 */
	put(&s, 0x78, 0x00430000); /* 8 GT/s x4 */
	put(&s, 0x100, 0x14810001);
	put(&s, 0x148, 0x1601000d);
	put(&s, 0x14c, 0x001d005f);
	put(&s, 0x160, 0x0001000f);
	put(&s, 0x164, 0x80000020);
	return s;
}

static void reads_a_port(void **state)
{
	struct space s = port();
	struct pcicap c;

	(void)state;
	pcicap_walk(&c, read_space, &s);
	assert_true(c.readable && !c.dead && !c.broken && c.flr);
	assert_int_equal(c.type, PCICAP_DSP);
	assert_int_equal(c.class, 0x060400);
	assert_int_equal(c.secondary, 0x18);
	assert_int_equal(c.subordinate, 0x19);
	assert_int_equal(c.link_cap.speed, 5);
	assert_int_equal(c.link_cap.width, 16);
	assert_int_equal(c.link_now.speed, 3);
	assert_int_equal(c.link_now.width, 4);
	assert_int_equal(c.link_up, HOST_UNKNOWN); /* it does not report it */
	assert_int_equal(c.acs.known, HOST_PRESENT);
	assert_int_equal(c.acs.cap, 0x5f);
	assert_int_equal(c.acs.ctl, 0x1d);
	assert_int_equal(c.acs.at, 0x148);
	assert_int_equal(c.ats.known, HOST_PRESENT);
	assert_int_equal(c.ats.ctl, 0x8000);
	assert_int_equal(c.sriov.known, HOST_ABSENT);
	assert_true(s.reads < 40);
}

/* Link Capabilities bit 20 says whether Link Status bit 13 means anything. */
static void a_port_says_whether_its_link_is_up(void **state)
{
	struct space s = port();
	struct pcicap c;

	(void)state;
	put(&s, 0x74, 0x00100105);
	put(&s, 0x78, 0x20430000);
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(c.link_up, HOST_PRESENT);
	put(&s, 0x78, 0x00010000);
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(c.link_up, HOST_ABSENT);
	assert_int_equal(c.link_now.width, 0);
}

/* An endpoint with all that the walker reads; values as lspci -vvv would show them. */
static struct space endpoint(void)
{
	struct space s = { .len = 4096 };

	put(&s, 0x00, 0x233010de);
	put(&s, 0x04, 0x00100006);
	put(&s, 0x08, 0x030200a1);
	put(&s, 0x34, 0x00000040);
	put(&s, 0x40, 0x000b5005); /* MSI: enabled, 2^5 vectors possible */
	put(&s, 0x50, 0x803f6011); /* MSI-X: enabled, 64 vectors */
	put(&s, 0x60, 0x00020010); /* PCIe, version 2, endpoint */
	put(&s, 0x64, 0x10008fe2); /* FLR, extended tags, payload 512 */
	put(&s, 0x68, 0x00005950); /* payload 512, reads 4096, no snoop, extended tags, relaxed ordering */
	put(&s, 0x6c, 0x00000105);
	put(&s, 0x70, 0x01050000);
	put(&s, 0x84, 0x00030180); /* 10-bit tags both ways, AtomicOps completed */
	put(&s, 0x88, 0x00001040); /* 10-bit tags and AtomicOps as a requester */
	put(&s, 0x100, 0x14820001); /* AER */
	put(&s, 0x148, 0x1501000e); /* ARI */
	put(&s, 0x150, 0x16010013); /* PRI */
	put(&s, 0x154, 0x00000001);
	put(&s, 0x160, 0x1701001b); /* PASID */
	put(&s, 0x164, 0x00011406);
	put(&s, 0x170, 0x19010015); /* resizable BARs 0 and 2 */
	put(&s, 0x174, 0x00003f00); /* 16 to 512 MiB */
	put(&s, 0x178, 0x00000440); /* two of them; BAR 0 has 16 MiB */
	put(&s, 0x17c, 0x00e00000); /* 128 GiB to 512 GiB */
	put(&s, 0x180, 0x80001142); /* and 2^63; BAR 2 has 128 GiB */
	put(&s, 0x190, 0x1b010024); /* of VFs: one, of 1 TiB at most */
	put(&s, 0x194, 0x01000000);
	put(&s, 0x198, 0x00001420);
	put(&s, 0x1b0, 0x1d010010); /* SR-IOV */
	put(&s, 0x1b8, 0x00000019);
	put(&s, 0x1bc, 0x00200020);
	put(&s, 0x1c0, 0x00000010);
	put(&s, 0x1c4, 0x00010002);
	put(&s, 0x1c8, 0x23300000);
	put(&s, 0x1d0, 0x00010003); /* serial number */
	put(&s, 0x1d4, 0x00000001);
	put(&s, 0x1d8, 0x48b02d00);
	return s;
}

static void expect_serial(struct space *s, const char *want)
{
	char text[PCICAP_SERIAL_MAX];
	struct pcicap c;

	pcicap_walk(&c, read_space, s);
	assert_string_equal(pcicap_serial_text(text, &c), want);
}

static void reads_an_endpoint(void **state)
{
	struct space s = endpoint();
	struct pcicap c;

	(void)state;
	pcicap_walk(&c, read_space, &s);
	assert_true(c.readable && !c.broken && c.dev_known && c.dev2_known && c.flr);
	assert_int_equal(c.revision, 0xa1);
	assert_int_equal(c.msi.known, HOST_PRESENT);
	assert_int_equal(c.msi.ctl, 0x000b);
	assert_int_equal(c.msix.ctl, 0x803f);
	assert_int_equal(c.devctl, 0x5950);
	assert_int_equal(c.devcap2, 0x30180);
	assert_int_equal(c.devctl2, 0x1040);
	assert_int_equal(c.link_now.width, 16);
	assert_int_equal(c.aer, HOST_PRESENT);
	assert_int_equal(c.ari, HOST_PRESENT);
	assert_int_equal(c.acs.known, HOST_ABSENT);
	assert_int_equal(c.pri.ctl, 1);
	assert_int_equal(c.pasid.cap, 0x1406);
	assert_int_equal(c.pasid.ctl, 1);
	assert_int_equal(c.rebar.n, 2);
	assert_int_equal(c.rebar.bar[0].bar, 0);
	assert_int_equal(c.rebar.bar[0].size, 4);
	assert_int_equal(c.rebar.bar[0].sizes, 0x3f0);
	assert_int_equal(c.rebar.bar[1].bar, 2);
	assert_int_equal(c.rebar.bar[1].size, 17);
	assert_int_equal(c.rebar.bar[1].sizes, UINT64_C(7) << 17 | UINT64_C(1) << 43);
	assert_int_equal(c.vf_rebar.n, 1);
	assert_int_equal(c.vf_rebar.bar[0].sizes, 1 << 20);
	assert_int_equal(c.sriov.ctl, 0x19);
	assert_int_equal(c.sriov.total, 32);
	assert_int_equal(c.sriov.num, 16);
	assert_int_equal(c.sriov.offset, 2);
	assert_int_equal(c.sriov.stride, 1);
	assert_int_equal(c.sriov.vf_device, 0x2330);
	assert_in_range(s.reads, 30, 40); /* it must stay cheap: docs/performance.md */
	expect_serial(&s, "48b02d0000000001");
	put(&s, 0x1d4, 0);
	put(&s, 0x1d8, 0);
	expect_serial(&s, "");
	put(&s, 0x1d4, UINT32_MAX);
	put(&s, 0x1d8, UINT32_MAX);
	expect_serial(&s, "");
	put(&s, 0x1b0, 0xff810010); /* where its second half is beyond the end */
	put(&s, 0xff8, 0x00010003);
	put(&s, 0xffc, 0x00000001);
	expect_serial(&s, "");
}

/* The vector is read only where Egress Control is on: a healthy port costs no dword more. */
static void reads_the_egress_vector(void **state)
{
	struct space s = port();
	struct pcicap c;
	unsigned healthy;

	(void)state;
	put(&s, 0x74, 0x2a000105); /* port 42 */
	put(&s, 0x14c, 0x001d2a7f); /* 42 bits */
	put(&s, 0x150, 0x80000001);
	put(&s, 0x154, 0xfffffe02);
	put(&s, 0x168, 0x0001000e); /* ARI behind ATS: function groups on */
	put(&s, 0x160, 0x1681000f);
	put(&s, 0x16c, 0x00320002);
	pcicap_walk(&c, read_space, &s);
	healthy = s.reads;
	assert_true(c.port_known && c.port == 42);
	assert_int_equal(c.acs.egress_bits, 0);
	assert_int_equal(pcicap_egress(&c.acs, 0), HOST_UNKNOWN);
	assert_int_equal(c.ari_groups.known, HOST_UNKNOWN);
	put(&s, 0x14c, 0x003d2a7f);
	s.reads = 0;
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(s.reads, healthy + 3);
	assert_int_equal(c.acs.egress_bits, 42);
	assert_int_equal(pcicap_egress(&c.acs, 0), HOST_PRESENT);
	assert_int_equal(pcicap_egress(&c.acs, 1), HOST_ABSENT);
	assert_int_equal(pcicap_egress(&c.acs, 31), HOST_PRESENT);
	assert_int_equal(pcicap_egress(&c.acs, 33), HOST_PRESENT);
	assert_int_equal(pcicap_egress(&c.acs, 42), HOST_UNKNOWN); /* set, but beyond */
	assert_int_equal(c.ari_groups.ctl, 0x32);
	put(&s, 0x14c, 0x003d007f); /* 0 is 256 bits */
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(c.acs.egress_bits, 256);
	s.len = 0x154; /* the vector cannot be read to its end */
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(c.acs.known, HOST_PRESENT);
	assert_int_equal(c.acs.egress_bits, 0);
}

/* Registers that make no sense are not passed on, nor taken for absent. */
static void senseless_registers(void **state)
{
	static const uint32_t wrong[] = { 0x00000400, 0x000004e0, 0x00000427 }; /* none, seven, BAR 7 */
	struct pcicap c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct space s = endpoint();

		put(&s, 0x178, wrong[i]);
		pcicap_walk(&c, read_space, &s);
		assert_int_equal(c.rebar.known, HOST_PRESENT);
		assert_int_equal(c.rebar.n, 0);
		assert_int_equal(c.sriov.known, HOST_PRESENT); /* the list goes on */
	}
}

/* A capability does not reach from the first 256 bytes into what follows, which has other meanings. */
static void registers_stay_in_their_space(void **state)
{
	struct space s = endpoint();
	struct pcicap c;

	(void)state;
	put(&s, 0x50, 0x803ff011);
	put(&s, 0xf0, 0x00020010);
	put(&s, 0xf4, 0x10008fe2);
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(c.pcie, HOST_PRESENT);
	assert_false(c.dev_known);
	assert_false(c.dev2_known);
	assert_int_equal(c.link_cap.width, 0);
	s = endpoint();
	put(&s, 0x50, 0x803fd811);
	put(&s, 0xd8, 0x00020010);
	put(&s, 0xdc, 0x10008fe2);
	pcicap_walk(&c, read_space, &s);
	assert_true(c.dev_known);
	assert_false(c.dev2_known); /* at 0xfc and 0x100 */
}

/* 256 bytes, give or take one: all of the standard list, nothing known of the other. */
static void the_standard_list_alone(void **state)
{
	static const size_t lens[] = { 255, 256, 257 };
	struct pcicap c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct space s = endpoint();

		s.len = lens[i];
		pcicap_walk(&c, read_space, &s);
		assert_int_equal(c.msix.known, HOST_PRESENT);
		assert_true(c.dev2_known);
		assert_int_equal(c.aer, HOST_UNKNOWN);
		assert_int_equal(c.rebar.known, HOST_UNKNOWN);
		assert_int_equal(c.acs.known, HOST_UNKNOWN);
	}
}

/* What is not seen to the end is unknown, not absent. */
static void a_short_space_leaves_unknown(void **state)
{
	static const size_t lens[] = { 0, 1, 4, 63 };
	struct pcicap c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct space s = port();

		s.len = lens[i];
		pcicap_walk(&c, read_space, &s);
		assert_int_equal(c.pcie, HOST_UNKNOWN);
		assert_int_equal(c.acs.known, HOST_UNKNOWN);
	}
	for (size_t len = 64; len < 0x168; len += 4) {
		struct space s = port();

		s.len = len;
		pcicap_walk(&c, read_space, &s);
		assert_true(c.readable);
		assert_int_equal(c.ats.known, HOST_UNKNOWN);
		assert_int_equal(c.sriov.known, HOST_UNKNOWN);
		if (len <= 0x14c)
			assert_int_equal(c.acs.known, HOST_UNKNOWN);
	}
}

static void broken_lists_are_cut(void **state)
{
	struct space s = port();
	struct pcicap c;

	(void)state;
	put(&s, 0x40, 0x00034001); /* points at itself */
	pcicap_walk(&c, read_space, &s);
	assert_true(c.broken);
	assert_int_equal(c.acs.known, HOST_UNKNOWN);
	s = port();
	put(&s, 0x34, 0x00000010); /* into the header */
	pcicap_walk(&c, read_space, &s);
	assert_true(c.broken);
	s = port();
	put(&s, 0x148, 0x1001000d); /* the ACS capability points back to 0x100 */
	pcicap_walk(&c, read_space, &s);
	assert_true(c.broken);
	assert_int_equal(c.acs.known, HOST_PRESENT);
	assert_int_equal(c.ats.known, HOST_UNKNOWN);
	s = port();
	put(&s, 0x0c, 0x007f0000);
	pcicap_walk(&c, read_space, &s);
	assert_true(c.bad_header && !c.broken && !pcicap_answers(&c));
	s = port();
	memset(s.b, 0xff, sizeof(s.b));
	pcicap_walk(&c, read_space, &s);
	assert_true(c.dead);
	assert_int_equal(c.acs.known, HOST_UNKNOWN);
}

static void conventional_pci_has_no_acs(void **state)
{
	struct space s = port();
	struct pcicap c;

	(void)state;
	put(&s, 0x40, 0x00030001); /* the list ends before the PCIe capability */
	s.len = 256;
	pcicap_walk(&c, read_space, &s);
	assert_int_equal(c.pcie, HOST_ABSENT);
	assert_int_equal(c.acs.known, HOST_ABSENT);
	assert_int_equal(c.type, PCICAP_NONE);
}

/* Any bytes: it ends, within a read or two per dword of the space. */
static void random_bytes_are_bounded(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct space s = port();
		struct pcicap c;

		for (int k = 0; k < 24; k++) {
			seed = seed * UINT64_C(6364136223846793005) + 1;
			s.b[seed >> 33 & 0xfff & (round & 1 ? 0xfff : 0x1ff)] = (uint8_t)(seed >> 50);
		}
		pcicap_walk(&c, read_space, &s);
		assert_true(s.reads < 64 + 1024 * 8);
		assert_true(c.link_cap.speed <= 6 && c.link_now.width <= 32);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_port),           cmocka_unit_test(a_port_says_whether_its_link_is_up),
		cmocka_unit_test(a_short_space_leaves_unknown),
		cmocka_unit_test(broken_lists_are_cut), cmocka_unit_test(conventional_pci_has_no_acs),
		cmocka_unit_test(random_bytes_are_bounded), cmocka_unit_test(reads_an_endpoint),
		cmocka_unit_test(senseless_registers),  cmocka_unit_test(registers_stay_in_their_space),
		cmocka_unit_test(the_standard_list_alone), cmocka_unit_test(reads_the_egress_vector),
	};

	return cmocka_run_group_tests_name("pcicap", tests, NULL, NULL);
}
