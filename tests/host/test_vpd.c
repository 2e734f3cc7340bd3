/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VPD: tags in order, whole fields, an end, a checksum; nothing else passes. */
#include "host/vpd.h"
#include "support.h"

static int parse(struct vpd *ret, struct arena *a, const char *bytes, size_t len)
{
	return vpd_parse(ret, a, (const uint8_t *)bytes, len);
}
#define PARSE(ret, text) parse(ret, &arena, text, sizeof(text) - 1)

static void a_whole_one(void **state)
{
	/* 82+04+..: the bytes before RV's first add up so that 0x34 ends them at 0 */
	static char text[] = "\x82\x04\x00" "Card" "\x90\x13\x00" "PN\x04" "9X8 " "SN\x02" "\x01z" "RV\x04" "?\0\0\0"
			     "\x91\x0b\x00" "V0\x02" "ab" "RW\x03" "\0\0\0" "\x78";
	struct arena arena = { 0 };
	struct vpd v;
	uint8_t sum = 0;
	char *rv = memmem(text, sizeof(text), "RV", 2);

	(void)state;
	for (char *p = text; p < rv + 3; p++)
		sum = (uint8_t)(sum + (uint8_t)*p);
	rv[3] = (char)-sum;
	assert_int_equal(PARSE(&v, text), 0);
	assert_string_equal(v.name, "Card");
	assert_int_equal(v.n, 3);
	assert_string_equal(v.field[0].key, "PN");
	assert_string_equal(v.field[0].text, "9X8");
	assert_null(v.field[1].text); /* a control byte: no text */
	assert_string_equal(v.field[2].key, "V0");
	assert_true(v.field[2].writable && !v.field[0].writable);
	assert_int_equal(v.sum, VPD_SUM_OK);
	rv[3]++;
	assert_int_equal(PARSE(&v, text), 0);
	assert_int_equal(v.sum, VPD_SUM_BAD);
	arena_done(&arena);
}

static void what_is_none(void **state)
{
	struct arena arena = { 0 };
	struct vpd v = { .n = 77 };

	(void)state;
	assert_int_equal(PARSE(&v, ""), -ENODATA);
	assert_int_equal(PARSE(&v, "\0\0\0\0"), -ENODATA);
	assert_int_equal(PARSE(&v, "\xff\xff\xff\xff"), -ENODATA);
	assert_int_equal(PARSE(&v, "\x82"), -EBADMSG);
	assert_int_equal(PARSE(&v, "\x82\x02\x00" "ab"), -EBADMSG); /* no end */
	assert_int_equal(PARSE(&v, "\x82\x03\x00" "ab\x78"), -EBADMSG);
	assert_int_equal(PARSE(&v, "\x82\xff\xff" "ab\x78"), -EBADMSG);
	assert_int_equal(PARSE(&v, "\x82\x01\x00" "a\x82\x01\x00" "b\x78"), -EBADMSG); /* twice */
	assert_int_equal(PARSE(&v, "\x91\x00\x00\x90\x00\x00\x78"), -EBADMSG);         /* wrong order */
	assert_int_equal(PARSE(&v, "\x90\x04\x00" "PN\x02" "a\x78"), -EBADMSG);        /* a field leaves its tag */
	assert_int_equal(PARSE(&v, "\x90\x02\x00" "PN\x78"), -EBADMSG);
	assert_int_equal(PARSE(&v, "\x90\x04\x00" "p!\x01" "a\x78"), -EBADMSG);        /* no keyword */
	assert_int_equal(PARSE(&v, "\x90\x03\x00" "RV\0\x78"), -EBADMSG);
	assert_int_equal(PARSE(&v, "\x42\x00\x00\x78"), -EBADMSG);
	assert_int_equal(v.n, 77); /* written only on success */
	assert_int_equal(PARSE(&v, "\x78"), 0);
	assert_int_equal(v.n, 0);
	assert_null(v.name);
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_whole_one), cmocka_unit_test(what_is_none) };

	return cmocka_run_group_tests_name("vpd", tests, NULL, NULL);
}
