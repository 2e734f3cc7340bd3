/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of a function say, strictly: speeds, resource rows, uevents, link targets. */
#include "host/attr.h"
#include "support.h"

static void speeds(void **state)
{
	(void)state;
	assert_int_equal(attr_speed("2.5 GT/s PCIe"), 1);
	assert_int_equal(attr_speed("64.0 GT/s PCIe"), 6);
	assert_int_equal(attr_speed("32.0 GT/s"), 5);
	assert_int_equal(attr_speed("Unknown"), 0);
	assert_int_equal(attr_speed("Unknown speed"), 0);
	assert_int_equal(attr_speed(""), 0);
	assert_int_equal(attr_speed("32.0 GT/s PCIe and more"), 0);
	assert_int_equal(attr_speed("132.0 GT/s PCIe"), 0);
	assert_int_equal(attr_speed("128.0 GT/s PCIe"), 0); /* not known here: unknown, not slower */
}

static int rows(struct host_bar *row, const char *text)
{
	char copy[1024];

	(void)snprintf(copy, sizeof(copy), "%s", text);
	return attr_rows(row, 3, copy);
}

static void resource_rows(void **state)
{
	struct host_bar row[3];

	(void)state;
	assert_int_equal(rows(row, "0x1000 0x1fff 0x200\n0x0 0x0 0x0\n0xffffffff00000000 0xffffffffffffffff 0x14220c"), 3);
	assert_int_equal(row[0].size, 0x1000);
	assert_int_equal(row[1].size, 0);
	assert_int_equal(row[2].start, 0xffffffff00000000);
	assert_int_equal(row[2].size, 0x100000000);
	assert_int_equal(rows(row, "0x1 0x2 0x3\n0x1 0x2 0x3\n0x1 0x2 0x3\nno more is read"), 3);
	assert_int_equal(rows(row, ""), 0);
	/* no range, or one of no byte, of one, or of all there are */
	assert_int_equal(rows(row, "0x5000 0x4fff 0x200\n0x0 0xffffffffffffffff 0x200\n0x7 0x7 0x200"), 3);
	assert_int_equal(row[0].size + row[1].size + row[2].size, 0);
	assert_int_equal(rows(row, "0x1000 0x1fff 0x200\n0x5000 0x4000 0x200"), -EINVAL);
	assert_int_equal(rows(row, "0x5000 0x4000 0x0"), 1); /* without flags it does not count */
	assert_int_equal(rows(row, "0x1000 0x1fff"), -EINVAL);
	assert_int_equal(rows(row, "0x1000 0x1fff 0x200 0x1"), -EINVAL);
	assert_int_equal(rows(row, "0x1000  0x1fff 0x200"), -EINVAL);
	assert_int_equal(rows(row, "0x10000000000000000 0x10000000000000001 0x200"), -EINVAL);
	assert_int_equal(rows(row, "banana"), -EINVAL);
}

static void uevents(void **state)
{
	uint16_t a = 7, b = 7;
	char text[64], big[200];

	(void)state;
	assert_true(attr_uevent(text, "DRIVER=vfio-pci\nPCI_CLASS=30200", "PCI_CLASS"));
	assert_string_equal(text, "30200");
	assert_false(attr_uevent(text, "XPCI_CLASS=30200\nPCI_CLASSES=1", "PCI_CLASS"));
	assert_true(attr_uevent_pair(&a, &b, "PCI_ID=10DE:2330", "PCI_ID"));
	assert_int_equal(a << 16 | b, 0x10de2330);
	assert_false(attr_uevent_pair(&a, &b, "PCI_ID=10DE:12330", "PCI_ID"));
	assert_false(attr_uevent_pair(&a, &b, "PCI_ID=10DE", "PCI_ID"));
	assert_false(attr_uevent_pair(&a, &b, "PCI_ID=:", "PCI_ID"));
	assert_int_equal(a << 16 | b, 0x10de2330); /* kept */
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	memcpy(big, "DRIVER=", 7);
	assert_false(attr_uevent(text, big, "DRIVER")); /* cut would be another name */
}

static void link_targets(void **state)
{
	char path[HOST_PATH_MAX];

	(void)state;
	assert_true(attr_path(path, "../../../devices/pci0000:15/0000:15:01.0"));
	assert_string_equal(path, "sys/devices/pci0000:15/0000:15:01.0");
	assert_false(attr_path(path, "/sys/devices/pci0000:15"));
	assert_false(attr_path(path, "../../devices/pci0000:15"));
	assert_false(attr_path(path, "../../../../etc"));
	assert_false(attr_path(path, "../../../devices/a/../../b"));
	assert_false(attr_path(path, "../../../bus/pci"));
	assert_false(attr_path(path, ""));
	assert_true(attr_is_root_bus("pci0000:15", 10));
	assert_true(attr_is_root_bus("pci10000:e0", 11)); /* Intel VMD */
	assert_false(attr_is_root_bus("pcie", 4));
	assert_false(attr_is_root_bus("pci", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speeds),
		cmocka_unit_test(resource_rows),
		cmocka_unit_test(uevents),
		cmocka_unit_test(link_targets),
	};

	return cmocka_run_group_tests_name("attr", tests, NULL, NULL);
}
