/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The facts beside PCI: each file as the kernel writes it, then missing, garbage, too big. Whatever cannot be
 * believed must be unknown or a finding. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sbuf.h"
#include "host/answer.h"
#include "host/child.h"
#include "host/text.h"
#include "support.h"

#define CPU  "sys/devices/system/cpu/"
#define NODE "sys/devices/system/node/"
#define NIC  "sys/devices/pci0000:15/0000:15:01.0"
/* a function that [kinds] calls a NIC: every host has it, an empty bus is no host */
#define BUS                                                                        \
	"sys/bus/pci/devices/0000:15:01.0 -> ../../../devices/pci0000:15/0000:15:01.0\n" \
	NIC "/uevent\tDRIVER=mlx5_core\\nPCI_CLASS=20000\\nPCI_ID=15B3:1021\\nPCI_SUBSYS_ID=15B3:0041\n" NIC "/numa_node\t0\n"

static struct inventory *read_host(const char *lines)
{
	struct host_kinds kinds = test_kinds();
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct inventory *inv = NULL;
	struct sbuf text = { 0 };

	sbuf_addf(&text, TEXT_MAGIC_LINE BUS "%s", lines);
	if (host_root_parse_text(&root, text.text, text.len, "test", &err) < 0 ||
	    host_inventory_read(&inv, root, &kinds, &err) < 0)
		fail_msg("%s", err.text);
	host_root_close(root);
	sbuf_done(&text);
	return inv;
}

static bool has_finding(const struct inventory *inv, const char *id)
{
	for (size_t i = 0; i < inv->nfindings; i++)
		if (strcmp(inv->finding[i].id, id) == 0)
			return true;
	return false;
}

/* ---- CPUs ----------------------------------------------------------------------------------------- */

#define FOUR_CORES                                                                               \
	CPU "online\t0-7\n" CPU "smt/active\t1\n"                                                \
	CPU "cpu0/topology/package_cpus_list\t0-1,4-5\n" CPU "cpu0/topology/physical_package_id\t0\n" \
	CPU "cpu2/topology/package_cpus_list\t2-3,6-7\n" CPU "cpu2/topology/physical_package_id\t36\n" \
	CPU "cpu0/topology/core_cpus_list\t0,4\n" CPU "cpu1/topology/core_cpus_list\t1,5\n"           \
	CPU "cpu2/topology/core_cpus_list\t2,6\n"

static void cores_and_sockets(void **state)
{
	struct inventory *inv = read_host(FOUR_CORES CPU "cpu3/topology/core_cpus_list\t3,7\n");
	const struct host_cpus *c = &inv->system.cpus;

	(void)state;
	assert_true(c->online_known);
	assert_int_equal(c->npackages, 2);
	assert_int_equal(c->package[1].id, 36);
	assert_true(cpuset_has(&c->package[1].cpus, 6) && !cpuset_has(&c->package[1].cpus, 5));
	assert_int_equal(c->ncores, 4);
	assert_int_equal(c->core[3].ncpus, 2);
	assert_int_equal(c->core[3].cpu[0], 3);
	assert_int_equal(c->core[3].cpu[1], 7);
	assert_false(has_finding(inv, "cpu.topology-broken"));
	host_inventory_free(inv);
}

/* Without SMT the cores need not be read; before 5.3 the lists had other names. */
static void cores_without_smt_and_old_names(void **state)
{
	struct inventory *inv = read_host(CPU "online\t0-2\n" CPU "smt/active\t0\n"
					  CPU "cpu0/topology/core_siblings_list\t0-2\n");

	(void)state;
	assert_int_equal(inv->system.cpus.npackages, 1);
	assert_int_equal(inv->system.cpus.package[0].id, -1);
	assert_int_equal(inv->system.cpus.ncores, 3);
	assert_int_equal(inv->system.cpus.core[2].cpu[0], 2);
	host_inventory_free(inv);
	inv = read_host(CPU "online\t0-1\n" CPU "cpu0/topology/core_siblings_list\t0-1\n"
			CPU "cpu0/topology/thread_siblings_list\t0-1\n");
	assert_int_equal(inv->system.cpus.ncores, 1);
	host_inventory_free(inv);
}

static void cores_that_cannot_be_believed(void **state)
{
	static const struct {
		const char *lines;
		bool        finding;
	} cases[] = {
		{ CPU "online\t0-7\n", false },                                            /* nothing else is there */
		{ FOUR_CORES, false },                                                     /* one core is missing */
		{ FOUR_CORES CPU "cpu3/topology/core_cpus_list\t2-3\n", true },            /* CPU 2 in two cores */
		{ FOUR_CORES CPU "cpu3/topology/core_cpus_list\t7\n", true },              /* not its own */
		{ FOUR_CORES CPU "cpu3/topology/core_cpus_list\t3,99999999999\n", true },  /* overflow */
		{ FOUR_CORES CPU "cpu3/topology/core_cpus_list\t3,8\n", true },            /* CPU 8 is not online */
		{ FOUR_CORES CPU "cpu3/topology/core_cpus_list\tx\n", true },
		{ CPU "online\t0-15\n" CPU "cpu0/topology/package_cpus_list\t0-15\n"
		  CPU "cpu0/topology/core_cpus_list\t0-15\n", true },                      /* 16 threads in a core */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inventory *inv = read_host(cases[i].lines);

		assert_int_equal(inv->system.cpus.ncores, 0);
		assert_int_equal(inv->system.cpus.npackages, 0);
		assert_int_equal(has_finding(inv, "cpu.topology-broken"), cases[i].finding);
		host_inventory_free(inv);
	}
}

static void online_that_is_no_list(void **state)
{
	static const char *const lists[] = { "", "none", "0-", "5-2", "0-99999", "18446744073709551616" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		char line[128];
		struct inventory *inv;

		(void)snprintf(line, sizeof(line), CPU "online\t%s\n", lists[i]);
		inv = read_host(line);
		assert_false(inv->system.cpus.online_known);
		assert_true(has_finding(inv, "cpu.unknown"));
		host_inventory_free(inv);
	}
}

static void arm_has_implementer_and_part(void **state)
{
	struct inventory *inv = read_host("proc/cpuinfo\tprocessor\\t: 0\\nCPU implementer\\t: 0x41\\nCPU part\\t: 0xd4f\\n\n");

	(void)state;
	assert_string_equal(inv->cpu_vendor, "ARM");
	assert_string_equal(inv->cpu_model, "Neoverse V2");
	host_inventory_free(inv);
}

/* A unit of VT-d as the kernel shows it, and where its capabilities stand */
#define UNIT(n) \
	"sys/class/iommu/dmar" n " -> ../../devices/virtual/iommu/dmar" n "\n" \
	"sys/devices/virtual/iommu/dmar" n "/intel-iommu/cap\t"

/* The narrowest unit counts, as do the levels of its page tables (VT-d, 11.4.2); one that says nothing does not. */
static void widths_of_addresses(void **state)
{
	static const struct {
		const char *text;
		unsigned    cpu, iommu;
	} hosts[] = {
		{ "proc/cpuinfo\taddress sizes\t: 46 bits physical, 57 bits virtual\\n\n", 46, 0 },
		{ "proc/cpuinfo\taddress sizes\t: wide\\n\n", 0, 0 },
		{ UNIT("0") "8ed008c40780466\n", 0, 48 }, /* 57 bits, tables for 48 */
		{ UNIT("0") "8ed008c40780466\n"
		  UNIT("1") "d2008c40660462\n", 0, 39 },
		{ "sys/class/iommu/ivhd0/amd-iommu/cap\t40\n", 0, 0 },
		{ UNIT("0") "wide\n", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct inventory *inv = read_host(hosts[i].text);

		assert_int_equal(inv->phys_bits, hosts[i].cpu);
		assert_int_equal(inv->iommu_bits, hosts[i].iommu);
		host_inventory_free(inv);
	}
}

/* A slot is its device's, and of what is below that. */
static void slots(void **state)
{
	struct inventory *inv = read_host("sys/bus/pci/slots/4-1/address\t0000:19:00\n"
					  "sys/bus/pci/slots/7/address\t0000:2a:00\n"
					  "sys/bus/pci/slots/empty/address\tnothing\n"
					  "sys/bus/pci/devices/0000:19:00.0 -> ../../../devices/pci0000:00/0000:19:00.0\n"
					  "sys/devices/pci0000:00/0000:19:00.0/vendor\t0x10b5\n"
					  "sys/bus/pci/devices/0000:1a:00.0 -> ../../../devices/pci0000:00/0000:19:00.0/0000:1a:00.0\n"
					  "sys/devices/pci0000:00/0000:19:00.0/0000:1a:00.0/vendor\t0x10de\n"
					  "sys/bus/pci/devices/0000:30:00.0 -> ../../../devices/pci0000:00/0000:30:00.0\n"
					  "sys/devices/pci0000:00/0000:30:00.0/vendor\t0x10de\n");

	(void)state;
	assert_int_equal(inv->system.nslots, 2);
	assert_string_equal(host_slot_of(inv, (struct bdf){ .bus = 0x19 }), "4-1");
	assert_string_equal(host_slot_of(inv, (struct bdf){ .bus = 0x1a }), "4-1");
	assert_null(host_slot_of(inv, (struct bdf){ .bus = 0x30 }));
	assert_null(host_slot_of(inv, (struct bdf){ .bus = 0x2a })); /* not there */
	host_inventory_free(inv);
}

/* The CPU flag, or else what the firmware calls the machine; a flag that is part of another word is none. */
static void virtual_machines_are_known(void **state)
{
	static const struct {
		const char     *text;
		enum host_known is;
	} cases[] = {
		{ "proc/cpuinfo\tflags\\t\\t: fpu x2apic hypervisor aes\\nbugs\\t: none\\n\n", HOST_PRESENT },
		{ "proc/cpuinfo\tflags\\t\\t: fpu x2apic hypervisor\\n\\n\n", HOST_PRESENT },
		{ "proc/cpuinfo\tflags\\t\\t: fpu x2apic nohypervisor aes\\nbugs\\t: hypervisor\\n\n", HOST_ABSENT },
		{ "proc/cpuinfo\tflags\\t\\t: fpu\\nbugs\\t:\\n\nsys/devices/virtual/dmi/id/sys_vendor\tQEMU\n", HOST_PRESENT },
		{ "sys/devices/virtual/dmi/id/product_name\tVirtual Machine\n", HOST_PRESENT },
		{ "proc/cpuinfo\tFeatures\\t: fp asimd\\n\nsys/devices/virtual/dmi/id/sys_vendor\tNVIDIA\n", HOST_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inventory *inv = read_host(cases[i].text);

		assert_int_equal(inv->virtual, cases[i].is);
		host_inventory_free(inv);
	}
}

/* ---- NUMA ----------------------------------------------------------------------------------------- */

/* Grace: GPU memory is a node without CPUs; some nodes have no memory at all. Both are normal. */
static void nodes_without_cpus_or_memory(void **state)
{
	struct inventory *inv = read_host(NODE "node0/cpulist\t0-71\n" NODE "node0/distance\t10 80\n"
					  NODE "node0/meminfo\tNode 0 MemTotal: 0 kB\\nNode 0 MemFree: 0 kB\n"
					  NODE "node1/cpulist\t\n" NODE "node1/distance\t80 10\n"
					  NODE "node1/meminfo\tNode 1 MemTotal: 99614720 kB\\nNode 1 MemFree: 9 kB\n");

	(void)state;
	assert_int_equal(inv->nnodes, 2);
	assert_true(inv->node[0].memory_known);
	assert_int_equal(inv->node[0].mem_total, 0);
	assert_int_equal(cpuset_count(&inv->node[1].cpus), 0);
	assert_int_equal(inv->node[1].mem_total, 99614720ull * 1024);
	assert_int_equal(inv->node[1].distance[0], 80);
	assert_int_equal(inv->nfindings, has_finding(inv, "pci.config-unreadable")); /* that one is the NIC's */
	host_inventory_free(inv);
}

static void distances_that_make_no_sense(void **state)
{
	static const char *const texts[] = { "10", "10 21 21", "10 x", "10 256", "10 -1", "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char lines[256];
		struct inventory *inv;

		(void)snprintf(lines, sizeof(lines), NODE "node0/cpulist\t0\n" NODE "node1/cpulist\t1\n" NODE "node0/distance\t%s\n",
			       texts[i]);
		inv = read_host(lines);
		assert_true(has_finding(inv, "numa.distance-broken"));
		assert_int_equal(inv->node[0].distance[0], 0);
		host_inventory_free(inv);
	}
}

static void pools(void **state)
{
#define POOL(size, total, free) \
	NODE "node0/hugepages/" size "/nr_hugepages\t" total "\n" NODE "node0/hugepages/" size "/free_hugepages\t" free "\n"
	static const struct {
		const char *lines;
		size_t      npools;
		bool        finding;
	} cases[] = {
		{ POOL("hugepages-1048576kB", "16", "3") POOL("hugepages-2048kB", "0", "0"), 2, false },
		{ POOL("hugepages-1048576kB", "3", "16"), 0, true }, /* more free than there are */
		{ POOL("hugepages-1048576kB", "18446744073709551615", "0"), 0, true }, /* 2^94 bytes */
		{ POOL("hugepages-1048576kB", "-1", "0"), 0, true },
		{ NODE "node0/hugepages/hugepages-2048kB/nr_hugepages\t1\n", 0, true },
		{ POOL("hugepages-0kB", "1", "1"), 0, false },
		{ POOL("hugepages-99999999999999999999kB", "1", "1"), 0, false },
		{ POOL("hugepages-2048", "1", "1"), 0, false },
		{ POOL("hugepages-2048kBx", "1", "1"), 0, false },
	};
	struct inventory *inv;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char lines[1024];

		(void)snprintf(lines, sizeof(lines), NODE "node0/cpulist\t0\n%s", cases[i].lines);
		inv = read_host(lines);
		assert_int_equal(inv->node[0].npools, cases[i].npools);
		assert_int_equal(has_finding(inv, "numa.hugepages-unreadable"), cases[i].finding);
		host_inventory_free(inv);
	}
	inv = read_host("sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages\t5\n"
			"sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages\tmany\n");
	assert_int_equal(inv->system.nreserves, 1);
	assert_int_equal(inv->system.reserve[0].reserved, 5);
	assert_int_equal(inv->system.reserve[0].page_size, 1 << 30);
	host_inventory_free(inv);
}

/* ---- boot options --------------------------------------------------------------------------------- */

static struct inventory *boot(const char *cmdline)
{
	char line[1024];

	(void)snprintf(line, sizeof(line), "proc/cmdline\t%s\nproc/cpuinfo\tvendor_id\\t: GenuineIntel\nsys/class/iommu/\n", cmdline);
	return read_host(line);
}

static bool has_option(const struct inventory *inv, const char *text)
{
	for (size_t i = 0; i < inv->system.boot.noptions; i++)
		if (strcmp(inv->system.boot.option[i].text, text) == 0)
			return true;
	return false;
}

static void options_are_decoded(void **state)
{
	struct inventory *inv = boot("root=/dev/sda quiet intel-iommu=on,sm_on iommu=pt pci=noats,config_acs=10x@pci:0:0;x@1:2,realloc "
				     "vfio-pci.ids=10de:2330,15b3:1021 default_hugepagesz=1G hugepages=16 hugepagesz=2M "
				     "hugepages=0:512,1:256 dyndbg=\"file x +p\" isolcpus=managed_irq,2-3");
	const struct host_boot *b = &inv->system.boot;

	(void)state;
	assert_true(has_option(inv, "intel-iommu=on") && has_option(inv, "intel-iommu=sm_on"));
	assert_true(has_option(inv, "pci=noats") && has_option(inv, "pci=config_acs=10x@pci:0:0;x@1:2"));
	assert_true(has_option(inv, "isolcpus=managed_irq,2-3"));
	assert_false(has_option(inv, "quiet") || has_option(inv, "root=/dev/sda"));
	assert_true(b->intel_iommu_on && b->no_ats && !b->no_aer && !b->acs_override);
	assert_int_equal(b->passthrough, 1);
	assert_string_equal(b->vfio_ids, "10de:2330,15b3:1021");
	assert_int_equal(b->default_page, 1 << 30);
	assert_int_equal(b->npools, 3);
	assert_int_equal(b->pool[0].page_size, 0);
	assert_int_equal(b->pool[0].count, 16);
	assert_int_equal(b->pool[0].node, -1);
	assert_int_equal(b->pool[2].page_size, 2 << 20);
	assert_int_equal(b->pool[2].count, 256);
	assert_int_equal(b->pool[2].node, 1);
	assert_true(has_finding(inv, "boot.iommu-missing")); /* /sys/class/iommu is empty */
	host_inventory_free(inv);
}

static void options_at_the_edges(void **state)
{
	static const struct {
		const char *cmdline;
		int         passthrough;
	} cases[] = {
		{ "", -1 }, { "iommu=pt", 1 }, { "iommu=pt iommu=nopt", 0 }, { "iommu.passthrough=1", 1 },
		{ "iommu.passthrough=0 iommu=pt", 1 }, { "iommu.passthrough=yes", -1 }, { "iommu=", -1 }, { "iommu", -1 },
		{ "iommu=pt,strict", 1 }, { "\"iommu=pt\"", 1 }, { "x=\"a iommu=pt\"", -1 }, { "-- iommu=pt", -1 },
		{ "iommu=ptx", -1 }, { "myiommu=pt", -1 },
	};
	struct inventory *inv;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		inv = boot(cases[i].cmdline);
		assert_int_equal(inv->system.boot.passthrough, cases[i].passthrough);
		host_inventory_free(inv);
	}
	inv = boot("hugepages=0:1,x:2,1:y,99999999999:1,-1 hugepagesz=huge hugepages=18446744073709551616 hugepages");
	assert_int_equal(inv->system.boot.npools, 1);
	host_inventory_free(inv);
	inv = boot("pcie_acs_override=downstream,multifunction");
	assert_true(has_finding(inv, "boot.acs-override"));
	assert_true(has_option(inv, "pcie_acs_override=downstream,multifunction"));
	host_inventory_free(inv);
}

/* ---- modules -------------------------------------------------------------------------------------- */

static void modules(void **state)
{
	struct inventory *inv = read_host("sys/module/vfio_pci/initstate\tlive\nsys/module/vfio_pci/parameters/disable_idle_d3\tY\n"
					  "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts\tY\n"
					  "sys/module/nvidia/initstate\tlive\nsys/module/nvidia/version\t550.54.15\n"
					  "sys/module/kvm_intel/initstate\t\x01\n");
	const struct host_system *s = &inv->system;

	(void)state;
	assert_int_equal(s->nmodules, 3);
	assert_string_equal(s->module[0].name, "vfio_pci");
	assert_int_equal(s->module[0].nparams, 1);
	assert_string_equal(s->module[0].param[0].value, "Y");
	assert_string_equal(s->module[1].state, "built-in");
	assert_string_equal(s->module[2].version, "550.54.15");
	assert_true(has_finding(inv, "vfio.unsafe-interrupts"));
	assert_false(has_finding(inv, "vfio.no-iommu"));
	host_inventory_free(inv);
}

/* ---- NICs ----------------------------------------------------------------------------------------- */

static void nic_as_the_stacks_see_it(void **state)
{
	struct inventory *inv = read_host(
		NIC "/net/ens1np0/address\t02:00:00:00:00:01\n" NIC "/net/ens1np0/operstate\tup\n" NIC "/net/ens1np0/carrier\t1\n"
		NIC "/net/ens1np0/mtu\t9000\n" NIC "/net/ens1np0/speed\t400000\n" NIC "/net/ens1np0/phys_port_name\tp0\n"
		NIC "/net/ens1np0/phys_switch_id\tabcd\n" NIC "/net/eth7/phys_port_name\tpf0vf3\n" NIC "/net/eth8/phys_port_name\tc1pf0sf4\n"
		NIC "/infiniband/mlx5_0/node_guid\t0200:0000:0000:0001\n" NIC "/infiniband/mlx5_0/sys_image_guid\t0000:0000:0000:0000\n"
		NIC "/infiniband/mlx5_0/fw_ver\t28.39.1002\n" NIC "/infiniband/mlx5_0/ports/1/state\t4: ACTIVE\n"
		NIC "/infiniband/mlx5_0/ports/1/phys_state\t5: LinkUp\n" NIC "/infiniband/mlx5_0/ports/1/rate\t400 Gb/sec (4X NDR)\n"
		NIC "/infiniband/mlx5_0/ports/1/link_layer\tInfiniBand\n" NIC "/infiniband/mlx5_0/ports/256/state\t4: ACTIVE\n"
		"answers/devlink/pci/0000:15:01.0/driver\tmlx5_core\nanswers/devlink/pci/0000:15:01.0/running/fw.version\t1\n"
		"answers/devlink/pci/0000:15:01.0/stored/fw.version\t2\nanswers/devlink/pci/0000:15:01.0/fixed/fw.psid\tMT_1\n"
		"answers/lldp/ens1np0/chassis-id\t02:00:00:00:00:aa\nanswers/lldp/ens1np0/port-id\tEthernet1/1\n"
		"answers/lldp/ens1np0/chassis-name\tleaf\x1b[2J\n");
	const struct host_nic *n = inv->system.nic;

	(void)state;
	assert_int_equal(inv->system.nnics, 1);
	assert_int_equal(n->nnetdevs, 1);
	assert_int_equal(n->nrepresentors, 2);
	assert_string_equal(n->netdev[0].mac, "02:00:00:00:00:01");
	assert_int_equal(n->netdev[0].carrier, 1);
	assert_int_equal(n->netdev[0].mtu, 9000);
	assert_int_equal(n->netdev[0].speed_mbps, 400000);
	assert_string_equal(n->netdev[0].switch_id, "abcd");
	assert_non_null(n->netdev[0].neighbour);
	assert_string_equal(n->netdev[0].neighbour->port_id, "Ethernet1/1");
	assert_string_equal(n->netdev[0].neighbour->chassis_name, ""); /* an escape sequence is no name */
	assert_int_equal(n->nrdma, 1);
	assert_string_equal(n->rdma[0].node_guid, "0200:0000:0000:0001");
	assert_string_equal(n->rdma[0].image_guid, "");
	assert_int_equal(n->rdma[0].nports, 1);
	assert_string_equal(n->rdma[0].port[0].state, "ACTIVE");
	assert_string_equal(n->rdma[0].port[0].rate, "400 Gb/sec (4X NDR)");
	assert_string_equal(n->fw_running, "1");
	assert_string_equal(n->fw_stored, "2");
	assert_string_equal(n->fw_psid, "MT_1");
	host_inventory_free(inv);
}

static void nic_with_garbage(void **state)
{
	struct inventory *inv = read_host(
		NIC "/net/e\xff/address\tx\n" NIC "/net/eth0/address\t02:00:00:00:00\n" NIC "/net/eth0/carrier\t2\n"
		NIC "/net/eth0/mtu\t99999999999999999999\n" NIC "/net/eth0/speed\t-1\n" NIC "/net/eth0/operstate\t\xc0\x80\n"
		NIC "/infiniband/mlx5_0/node_guid\t02:00\n" NIC "/infiniband/mlx5_0/ports/one/state\tx\n"
		NIC "/infiniband/mlx5_0/ports/1/state\tACTIVE\n"
		"answers/devlink/pci/0000:15:01.0/running/fw\t1\nanswers/lldp/eth0/port-id\tx\n");
	const struct host_nic *n = inv->system.nic;

	(void)state;
	assert_int_equal(n->nnetdevs, 1);
	assert_string_equal(n->netdev[0].mac, "");
	assert_string_equal(n->netdev[0].operstate, "");
	assert_int_equal(n->netdev[0].carrier, -1);
	assert_int_equal(n->netdev[0].mtu, 0);
	assert_int_equal(n->netdev[0].speed_mbps, 0);
	assert_null(n->netdev[0].neighbour);
	assert_string_equal(n->rdma[0].node_guid, "");
	assert_int_equal(n->rdma[0].nports, 1);
	assert_string_equal(n->rdma[0].port[0].state, "");
	assert_string_equal(n->rdma[0].port[0].link_layer, "");
	assert_string_equal(n->fw_running, ""); /* without a driver nobody answered */
	host_inventory_free(inv);
}

/* ---- Fabric Manager ------------------------------------------------------------------------------- */

#define FM      "usr/share/nvidia/nvswitch/fabricmanager.cfg\t"
#define ANSWER  "answers/fmpm/partitions\t"
#define GPU1    "{\"physicalId\":1,\"pciBusId\":\"00000000:4C:00.0\",\"uuid\":\"\"}"
#define GPU2    "{\"physicalId\":2,\"pciBusId\":\"\"}"
#define PART(id, n, gpus) "{\"partitionId\":" id ",\"isActive\":1,\"numGpus\":" n ",\"gpuInfo\":[" gpus "]}"
#define LIST(parts) ANSWER "{\"version\":1,\"partitionInfo\":[" parts "]}\n"

static void fabric_configuration(void **state)
{
	static const struct {
		const char *lines;
		int         mode, there;
		bool        unknown, missing;
	} cases[] = {
		{ FM "# FABRIC_MODE=2\\nFABRIC_MODE=1\\nFM_CMD_UNIX_SOCKET_PATH=/run/fm\nrun/fm\tsocket\n", 1, 1, false, false },
		{ FM " FABRIC_MODE = 2 \\nFM_CMD_UNIX_SOCKET_PATH=/run/fm\n", 2, 0, false, true },
		{ FM "FABRIC_MODE=0\\nFM_CMD_UNIX_SOCKET_PATH=/run/fm\n", 0, 0, false, false },
		{ FM "FABRIC_MODE=1\r\\nFM_CMD_UNIX_SOCKET_PATH=\n", 1, -1, false, false },
		{ FM "FABRIC_MODE=3\n", -1, -1, true, false },
		{ FM "FABRIC_MODE=18446744073709551617\n", -1, -1, true, false },
		{ FM "\n", -1, -1, true, false },
		{ FM "FABRIC_MODE\\n=\\n==\\nFABRIC_MODE=0\n", 0, -1, false, false },
		{ "", -1, -1, false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inventory *inv = read_host(cases[i].lines);

		assert_int_equal(inv->system.fabric.configured, !!*cases[i].lines);
		assert_int_equal(inv->system.fabric.mode, cases[i].mode);
		assert_int_equal(inv->system.fabric.command_socket_there, cases[i].there);
		assert_int_equal(has_finding(inv, "fabric.mode-unknown"), cases[i].unknown);
		assert_int_equal(has_finding(inv, "fabric.socket-missing"), cases[i].missing);
		host_inventory_free(inv);
	}
}

static void fabric_partitions(void **state)
{
	struct inventory *inv = read_host(LIST(PART("3", "2", GPU1 "," GPU2) "," PART("7", "1", GPU1)));
	const struct host_fabric *f = &inv->system.fabric;

	(void)state;
	assert_true(f->partitions_known);
	assert_int_equal(f->npartitions, 2);
	assert_int_equal(f->partition[0].id, 3);
	assert_true(f->partition[0].active);
	assert_int_equal(f->partition[0].gpu[1].module, 2);
	assert_true(bdf_is_none(f->partition[0].gpu[1].bdf));
	assert_int_equal(host_fabric_module(f, test_bdf("0000:4c:00.0")), 1);
	assert_int_equal(host_fabric_module(f, test_bdf("0000:4d:00.0")), -1);
	assert_int_equal(host_fabric_module(f, BDF_NONE), -1);
	host_inventory_free(inv);
}

static void fabric_answers_that_are_refused(void **state)
{
	static const char *const lines[] = {
		ANSWER "\n", ANSWER "Failed to connect to Fabric Manager\n", ANSWER "[]\n", ANSWER "{\"partitionInfo\":{}}\n",
		LIST("1"), LIST("{}"), LIST(PART("-1", "1", GPU1)), LIST(PART("1", "2", GPU1)), LIST(PART("1.5", "1", GPU1)),
		LIST(PART("4294967297", "1", GPU1)), LIST(PART("1", "1", "7")), LIST(PART("1", "2", GPU1 "," GPU1)),
		LIST(PART("1", "1", GPU1) "," PART("1", "1", GPU2)), LIST(PART("1", "1", "{\"physicalId\":1024}")),
		LIST(PART("1", "1", "{\"physicalId\":1,\"pciBusId\":\"4C:00\"}")),
		LIST(PART("1", "1", GPU1) "," PART("2", "1", "{\"physicalId\":1,\"pciBusId\":\"0000:4d:00.0\"}")),
		LIST(PART("1", "1", GPU1) "," PART("2", "1", "{\"physicalId\":2,\"pciBusId\":\"0000:4c:00.0\"}")),
		ANSWER "{\"partitionInfo\":[],\"partitionInfo\":[]}\n", ANSWER "{\"partitionInfo\":[]} x\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct inventory *inv = read_host(lines[i]);

		if (!has_finding(inv, "fabric.answer-broken"))
			fail_msg("taken: %s", lines[i]);
		assert_false(inv->system.fabric.partitions_known);
		assert_int_equal(host_fabric_module(&inv->system.fabric, test_bdf("0000:4c:00.0")), -1);
		host_inventory_free(inv);
	}
}

/* ---- asking --------------------------------------------------------------------------------------- */

/* On the machine an answer is read from where it was put, never from a file of that name, and a dump has it. */
static void answers_are_recorded(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct arena arena = { 0 };
	struct text_host *dump;
	struct answers a;
	char *text = NULL;

	(void)state;
	assert_int_equal(host_root_open(&root, "/", &err), 0);
	assert_int_equal(host_record_start(root, &err), 0);
	assert_int_equal(answers_init(&a, root), 0);
	assert_non_null(a.text);
	answer_put(&a, "old", "answers/x/%d", 1);
	answer_put(&a, "28.39.1002", "answers/x/%d", 1);
	assert_int_equal(answer_read(&a, &text, &arena, "answers/x/1"), 0);
	assert_string_equal(text, "28.39.1002");
	assert_int_equal(answer_read(&a, &text, &arena, "proc/cmdline"), -ENOENT);
	dump = host_record_end(root, &err);
	assert_non_null(dump);
	assert_string_equal(text_host_find(dump, "answers/x/1")->value, "28.39.1002");
	text_host_free(dump);
	answers_done(&a);
	arena_done(&arena);
	host_root_close(root);
}

static void script(char path[64], const char *body)
{
	int fd;

	(void)snprintf(path, 64, "/tmp/velad-test-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(dprintf(fd, "#!/bin/sh\n%s\n", body), 11 + strlen(body));
	assert_int_equal(fchmod(fd, 0700), 0);
	assert_int_equal(close(fd), 0);
}

static void fmpm_is_asked(void **state)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct arena arena = { 0 };
	struct answers a;
	char path[64], *text = NULL;

	(void)state;
	script(path, "test -z \"$HOME\" && echo \"$@\"");
	assert_int_equal(host_root_open(&root, "/", &err), 0);
	assert_int_equal(answers_init(&a, root), 0);
	fmpm_ask(&a, "/nowhere/fmpm", "");
	assert_int_equal(answer_read(&a, &text, &arena, "answers/fmpm/partitions"), -ENOENT);
	fmpm_ask(&a, path, "/run/fm");
	assert_int_equal(answer_read(&a, &text, &arena, "answers/fmpm/partitions"), 0);
	assert_string_equal(text, "-l --unix-domain-socket /run/fm\n");
	fmpm_ask(&a, path, "");
	assert_int_equal(answer_read(&a, &text, &arena, "answers/fmpm/partitions"), 0);
	assert_string_equal(text, "-l\n");
	answers_done(&a);
	arena_done(&arena);
	host_root_close(root);
	assert_int_equal(unlink(path), 0);
}

/* Whatever a program does, it is over in time, and no child is left. */
static void children_that_misbehave(void **state)
{
	static const struct {
		const char *body;
		int         r;
	} cases[] = {
		{ "echo ok", 0 }, { "exit 3", -EREMOTEIO }, { "kill -9 $$", -EREMOTEIO }, { "sleep 60", -ETIMEDOUT },
		{ "sleep 60 & echo x", -ETIMEDOUT }, { "exec >&-; sleep 60", -ETIMEDOUT }, { "while :; do echo aaaaaaaaaaaaaaaa; done", -EFBIG },
		{ "trap '' TERM INT; while :; do sleep 1; done", -ETIMEDOUT },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[64], *text = NULL, *const argv[] = { path, NULL };

		script(path, cases[i].body);
		assert_int_equal(child_output(&text, argv, 65536, 300), cases[i].r);
		if (cases[i].r == 0)
			assert_string_equal(text, "ok\n");
		else
			assert_null(text);
		free(text);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(errno, ECHILD);
		assert_int_equal(unlink(path), 0);
	}
}

/* An lldpd that hangs, and one that talks nonsense. connect(2) is done when the backlog has room, so the first
 * needs nobody to accept. */
static void lldpd_that_misbehaves(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct timespec from, to;
	struct answers a;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	pid_t pid;

	(void)state;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/velad-test-lldpd.%d", (int)getpid());
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(host_root_open(&root, "/", &err), 0);
	assert_int_equal(answers_init(&a, root), 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &from);
	lldp_ask(&a, at.sun_path);
	(void)clock_gettime(CLOCK_MONOTONIC, &to);
	assert_in_range(to.tv_sec - from.tv_sec, 0, ANSWER_MS / 1000 + 3);
	assert_int_equal(close(accept(fd, NULL, NULL)), 0);

	pid = fork();
	if (pid == 0) {
		char junk[5000];
		int c = accept(fd, NULL, NULL);

		memset(junk, 0x5a, sizeof(junk));
		_exit(recv(c, junk, 1, 0) == 1 && send(c, junk, sizeof(junk), MSG_NOSIGNAL) > 0 ? 0 : 1);
	}
	lldp_ask(&a, at.sun_path);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(a.text->n, 0);
	answers_done(&a);
	host_root_close(root);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(at.sun_path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cores_and_sockets),
		cmocka_unit_test(cores_without_smt_and_old_names),
		cmocka_unit_test(cores_that_cannot_be_believed),
		cmocka_unit_test(online_that_is_no_list),
		cmocka_unit_test(arm_has_implementer_and_part),
		cmocka_unit_test(widths_of_addresses),
		cmocka_unit_test(slots),
		cmocka_unit_test(virtual_machines_are_known),
		cmocka_unit_test(nodes_without_cpus_or_memory),
		cmocka_unit_test(distances_that_make_no_sense),
		cmocka_unit_test(pools),
		cmocka_unit_test(options_are_decoded),
		cmocka_unit_test(options_at_the_edges),
		cmocka_unit_test(modules),
		cmocka_unit_test(nic_as_the_stacks_see_it),
		cmocka_unit_test(nic_with_garbage),
		cmocka_unit_test(fabric_configuration),
		cmocka_unit_test(fabric_partitions),
		cmocka_unit_test(fabric_answers_that_are_refused),
		cmocka_unit_test(answers_are_recorded),
		cmocka_unit_test(fmpm_is_asked),
		cmocka_unit_test(children_that_misbehave),
		cmocka_unit_test(lldpd_that_misbehaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
