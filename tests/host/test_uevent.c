/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel uevents as they come, and what must not be taken for one. */
#include "host/uevent.h"

#include "host/change.h"
#include "support.h"

#define DEV "/devices/pci0000:15/0000:15:01.0/0000:1a:00.0"
#define PCI "bind@" DEV "\0ACTION=bind\0DEVPATH=" DEV "\0SUBSYSTEM=pci\0DRIVER=mlx5_core\0SEQNUM=7"

#define EXPECT(text, wanted, news) expect(text, sizeof(text), wanted, news)

static void expect(const char *buf, size_t len, const char *bdf, unsigned what)
{
	struct host_uevent e;
	char text[BDF_TEXT_MAX];

	assert_int_equal(host_uevent_parse(&e, buf, len), 0);
	assert_string_equal(bdf_text(text, e.bdf), bdf);
	assert_int_equal(e.what, what);
}

static void events_name_functions(void **state)
{
	(void)state;
	EXPECT(PCI, "0000:1a:00.0", HOST_CHANGE_STATE);
	EXPECT("unbind@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci", "0000:1a:00.0", HOST_CHANGE_STATE);
	EXPECT("change@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci", "0000:1a:00.0", HOST_CHANGE_STATE);
	EXPECT("add@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci", "0000:1a:00.0", HOST_CHANGE_ANEW);
	EXPECT("remove@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci", "0000:1a:00.0", HOST_CHANGE_ANEW);
	EXPECT("add@/devices/pci10000:00/10000:00:02.0\0DEVPATH=/devices/pci10000:00/10000:00:02.0\0SUBSYSTEM=pci",
	       "10000:00:02.0", HOST_CHANGE_ANEW);
}

/* Of what hangs on a function, its network interfaces and RDMA devices are in an inventory. */
static void what_hangs_on_a_function(void **state)
{
	(void)state;
	EXPECT("add@" DEV "/net/eth0\0DEVPATH=" DEV "/net/eth0\0SUBSYSTEM=net\0INTERFACE=eth0", "0000:1a:00.0", HOST_CHANGE_NET);
	EXPECT("move@" DEV "/net/ens1\0DEVPATH=" DEV "/net/ens1\0SUBSYSTEM=net", "0000:1a:00.0", HOST_CHANGE_NET);
	EXPECT("add@" DEV "/nvme/nvme0\0DEVPATH=" DEV "/nvme/nvme0\0SUBSYSTEM=nvme", "0000:1a:00.0", 0);
	EXPECT("add@" DEV ":pcie001\0DEVPATH=" DEV ":pcie001\0SUBSYSTEM=pci_express", "0000:15:01.0", 0);
	EXPECT("add@" DEV "/infiniband/mlx5_0\0DEVPATH=" DEV "/infiniband/mlx5_0\0SUBSYSTEM=infiniband", "0000:1a:00.0", HOST_CHANGE_NET);
}

static void others_name_none(void **state)
{
	(void)state;
	EXPECT("change@/devices/virtual/net/lo\0DEVPATH=/devices/virtual/net/lo\0SUBSYSTEM=net", "-", 0);
	EXPECT("add@/module/vfio_pci\0DEVPATH=/module/vfio_pci\0SUBSYSTEM=module", "-", 0);
	EXPECT("add@/devices/pci0000:15\0DEVPATH=/devices/pci0000:15\0SUBSYSTEM=x", "-", 0);
	EXPECT("add@/devices/a/1a:00.0\0DEVPATH=/devices/a/1a:00.0\0SUBSYSTEM=x", "-", 0); /* no domain: no name in sysfs */
}

static void refuse(const char *buf, size_t len)
{
	struct host_uevent e = { .what = 77 };

	if (host_uevent_parse(&e, buf, len) != -EINVAL || e.what != 77)
		fail_msg("taken for an event: %.60s", buf);
}
#define REFUSE(text) refuse(text, sizeof(text))

static void other_bytes_are_refused(void **state)
{
	static char big[HOST_UEVENT_MAX + 1];

	(void)state;
	refuse("", 0);
	REFUSE("");
	REFUSE("libudev\0\xfe\xed\xca\xfe");
	REFUSE("ENOBUFS");
	REFUSE("bind" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci");
	REFUSE("bind@" DEV);
	REFUSE("bind@" DEV "\0SUBSYSTEM=pci");
	REFUSE("bind@" DEV "\0DEVPATH=" DEV);
	REFUSE("bind@" DEV "\0DEVPATH=" DEV "x\0SUBSYSTEM=pci");
	REFUSE("bind@0000:1a:00.0\0DEVPATH=0000:1a:00.0\0SUBSYSTEM=pci");
	REFUSE("explode@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci");
	REFUSE("@" DEV "\0DEVPATH=" DEV "\0SUBSYSTEM=pci");
	refuse(PCI, sizeof(PCI) - 1); /* its last string does not end */
	memset(big, 'x', sizeof(big) - 1);
	memcpy(big, PCI, sizeof(PCI));
	refuse(big, sizeof(big));
}

/* Every beginning of a message is refused or names what the whole one names. */
static void cut_messages(void **state)
{
	char buf[sizeof(PCI)];

	(void)state;
	for (size_t n = 1; n <= sizeof(PCI); n++) {
		struct host_uevent e;

		memcpy(buf, PCI, n);
		buf[n - 1] = '\0';
		if (host_uevent_parse(&e, buf, n) == 0)
			assert_true(bdf_eq(e.bdf, test_bdf("0000:1a:00.0")));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_name_functions), cmocka_unit_test(what_hangs_on_a_function),
		cmocka_unit_test(others_name_none),      cmocka_unit_test(other_bytes_are_refused),
		cmocka_unit_test(cut_messages),
	};

	return cmocka_run_group_tests_name("uevent", tests, NULL, NULL);
}
