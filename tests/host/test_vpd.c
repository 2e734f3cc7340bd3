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

static void serial_numbers(void **state)
{
#define SN(ret, text) vpd_serial(ret, (const uint8_t *)(text), sizeof(text) - 1)
	char s[VPD_SERIAL_MAX] = "before";

	(void)state;
	assert_int_equal(SN(s, "\x90\x07\x00" "SN\x04" "A 1 " "\x78"), -ENODATA);      /* a blank within */
	assert_int_equal(SN(s, "\x90\x07\x00" "SN\x04" "0000" "\x78"), -ENODATA);      /* zeros are none */
	assert_int_equal(SN(s, "\x90\x03\x00" "SN\x00" "\x78"), -ENODATA);
	assert_int_equal(SN(s, "\x90\x05\x00" "SN\x02" "\x01z" "\x78"), -ENODATA);
	assert_int_equal(SN(s, "\x90\x36\x00" "SN\x33" "123456789012345678901234567890123456789012345678901" "\x78"), 0); /* as long as it may be */
	assert_int_equal(SN(s, "\x90\x37\x00" "SN\x34" "1234567890123456789012345678901234567890123456789012" "\x78"), -ENODATA); /* not cut */
	assert_int_equal(SN(s, "\x91\x05\x00" "SN\x02" "ab" "\x78"), -ENODATA);        /* anybody may write that */
	assert_int_equal(SN(s, "\x90\x09\x00" "SN\x02" "abRV\x01" "\x00" "\x78"), -ENODATA); /* a wrong checksum */
	assert_int_equal(SN(s, "\x90\x05\x00" "SN\x02" "ab"), -EBADMSG);
	assert_int_equal(SN(s, ""), -ENODATA);
	assert_int_equal(SN(s, "\x82\x01\x00" "x\x90\x07\x00" "SN\x04" "MT1 " "\x78"), 0);
	assert_string_equal(s, "vpd:MT1");
}

static void put(const char *dir, const char *file, const char *bytes, size_t len)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}
#define PUT(dir, bytes) put(dir, DEVICE "/vpd", bytes, sizeof(bytes) - 1)
#define DEVICE "sys/bus/pci/devices/0000:17:00.0"

/* It is read once for each device that sysfs has there. */
static void read_once(void **state)
{
	char dir[] = "/tmp/velad-vpd-XXXXXX", command[512], s[VPD_SERIAL_MAX];
	struct host_root *root = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(command, sizeof(command), "mkdir -p %s/" DEVICE, dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(host_root_open(&root, dir, &err), 0);
	PUT(dir, "\x90\x05\x00" "SN\x02" "ab" "\x78");
	host_vpd_serial(s, root, test_bdf("0000:17:00.0"), DEVICE);
	assert_string_equal(s, "vpd:ab");
	PUT(dir, "\x90\x05\x00" "SN\x02" "cd" "\x78");
	host_vpd_serial(s, root, test_bdf("0000:17:00.0"), DEVICE);
	assert_string_equal(s, "vpd:ab");
	(void)snprintf(command, sizeof(command), "cd %s/sys/bus/pci/devices && mkdir new && mv 0000:17:00.0 old && mv new 0000:17:00.0", dir);
	assert_int_equal(system(command), 0); /* the card was taken out, and another one put in */
	PUT(dir, "\x90\x05\x00" "SN\x02" "cd" "\x78");
	host_vpd_serial(s, root, test_bdf("0000:17:00.0"), DEVICE);
	assert_string_equal(s, "vpd:cd");
	host_vpd_serial(s, root, test_bdf("0000:18:00.0"), "sys/bus/pci/devices/0000:18:00.0");
	assert_string_equal(s, "");
	host_root_close(root);
	(void)snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_whole_one), cmocka_unit_test(what_is_none), cmocka_unit_test(serial_numbers),
					    cmocka_unit_test(read_once) };

	return cmocka_run_group_tests_name("vpd", tests, NULL, NULL);
}
