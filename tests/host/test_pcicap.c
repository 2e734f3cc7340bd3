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
	assert_int_equal(c.acs.known, HOST_PRESENT);
	assert_int_equal(c.acs.cap, 0x5f);
	assert_int_equal(c.acs.ctl, 0x1d);
	assert_int_equal(c.acs.at, 0x148);
	assert_int_equal(c.ats.known, HOST_PRESENT);
	assert_int_equal(c.ats.ctl, 0x8000);
	assert_int_equal(c.sriov.known, HOST_ABSENT);
	assert_true(s.reads < 40);
}

/* What is not seen to the end is unknown, not absent. */
static void a_short_space_leaves_unknown(void **state)
{
	static const size_t lens[] = { 0, 4, 63 };
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
	assert_true(c.broken);
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
		cmocka_unit_test(reads_a_port),         cmocka_unit_test(a_short_space_leaves_unknown),
		cmocka_unit_test(broken_lists_are_cut), cmocka_unit_test(conventional_pci_has_no_acs),
		cmocka_unit_test(random_bytes_are_bounded),
	};

	return cmocka_run_group_tests_name("pcicap", tests, NULL, NULL);
}
