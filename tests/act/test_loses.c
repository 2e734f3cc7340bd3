/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which settings in a domain's XML are known to lose peer-to-peer, and which are not taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>

#include "act/libvirt.h"
#include "base/arena.h"
#include "base/auto.h"

#define DOMAIN(what) "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>" what "</domain>"
#define PROPERTY(alias, name, value)                                                                                      \
	"<qemu:override><qemu:device alias='" alias "'><qemu:frontend><qemu:property name='" name "' type='bool' value='" value \
	"'/></qemu:frontend></qemu:device></qemu:override>"
#define ARG(value) "<qemu:commandline><qemu:arg value='" value "'/></qemu:commandline>"

static void settings(void **state)
{
	static const struct {
		const char *xml, *loses;
	} cases[] = {
		{ DOMAIN(""), "" },
		{ DOMAIN(PROPERTY("ua-gpu0", "x-no-mmap", "true")), "x-no-mmap (ua-gpu0)" },
		{ DOMAIN(PROPERTY("ua-gpu0", "x-no-mmap", "false")), "" },
		{ DOMAIN(PROPERTY("ua-gpu0", "x-nv-gpudirect-clique", "0")), "" },
		{ DOMAIN(PROPERTY("ua-gpu1", "iommufd", "iommufd0")), "iommufd (ua-gpu1)" },
		{ DOMAIN(ARG("vfio-pci.x-no-mmap=on")), "x-no-mmap (vfio-pci.x-no-mmap=on)" },
		{ DOMAIN(ARG("device.hostdev0.x-no-mmap=off")), "" },
		{ DOMAIN(ARG("iommufd,id=iommufd0")), "iommufd (iommufd,id=iommufd0)" },
		{ DOMAIN(ARG("name=opt/ovmf/X-PciMmio64Mb,string=65536")), "" },
		{ DOMAIN("<devices><hostdev><driver name='vfio' iommufd='yes'/><alias name='ua-vf0'/></hostdev>"
			 "<hostdev><driver name='vfio'/><alias name='ua-vf1'/></hostdev></devices>"), "iommufd (ua-vf0)" },
		{ DOMAIN("<iommufd enabled='yes'/>"), "iommufd (all devices)" },
		{ DOMAIN("<iommufd enabled='no'/>"), "" },
		{ DOMAIN("<qemu:override><qemu:device alias='a'><qemu:frontend><qemu:property name='x-no-mmap' type='bool' value='true'/>"
			 "</qemu:frontend></qemu:device><qemu:device alias='b'><qemu:frontend><qemu:property name='x-no-mmap' type='bool'"
			 " value='on'/></qemu:frontend></qemu:device></qemu:override><iommufd enabled='yes'/>"),
		  "x-no-mmap (a), x-no-mmap (b), iommufd (all devices)" },
		/* in nobody's namespace it is nothing of QEMU's */
		{ "<domain><override><device alias='a'><frontend><property name='x-no-mmap' value='true'/></frontend></device></override></domain>", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *loses = NULL;
		struct arena arena = { 0 };

		assert_int_equal(act_domain_loses(&loses, cases[i].xml, &arena), 0);
		assert_string_equal(loses, cases[i].loses);
		arena_done(&arena);
	}
}

static void no_xml(void **state)
{
	const char *loses = "as it was";
	struct arena arena = { 0 };

	(void)state;
	assert_int_equal(act_domain_loses(&loses, "<domain", &arena), -EBADMSG);
	assert_int_equal(act_domain_loses(&loses, "", &arena), -EBADMSG);
	assert_string_equal(loses, "as it was");
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(settings), cmocka_unit_test(no_xml) };

	return cmocka_run_group_tests_name("loses", tests, NULL, NULL);
}
