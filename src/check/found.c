/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules that host and topology have judged already while they read: their findings, with severity and fix. */
#include <string.h>

#include "check/rule.h"

/* Findings with the rule's id; none: it passes, if it is known. */
static void from_inventory(struct check_run *run, bool known, const char *fix)
{
	bool any = false;

	for (size_t i = 0; i < run->inv->nfindings; i++) {
		const struct host_finding *f = &run->inv->finding[i];

		if (strcmp(f->id, run->rule->id) != 0)
			continue;
		(void)check_fail(run, f->bdf, "%.*s", (int)check_said(f->text), f->text);
		any = true;
	}
	if (!any && known)
		check_pass(run, "nothing of the kind");
	else if (!any)
		check_unknown(run, BDF_NONE, fix, "what would tell is unknown");
}

static void found(struct check_run *run)
{
	from_inventory(run, true, "");
}

static void found_in_cmdline(struct check_run *run)
{
	from_inventory(run, *run->inv->cmdline, "make /proc/cmdline readable");
}

/* A host that runs guests has at least kvm or vfio with parameters. */
static void found_in_modules(struct check_run *run)
{
	from_inventory(run, run->inv->system.nmodules, "make /sys/module readable");
}

static void found_in_links(struct check_run *run)
{
	bool known = false;

	for (size_t i = 0; i < run->inv->nfn; i++)
		known = known || run->inv->fn[i].facts->link_now.width;
	from_inventory(run, known, check_as_root);
}

static void found_in_fabric(struct check_run *run)
{
	if (run->inv->system.fabric.configured)
		from_inventory(run, true, "");
}

/* What could not be read is unknown, not wrong. */
static void unread(struct check_run *run)
{
	bool any = false;

	for (size_t i = 0; i < run->inv->nfindings; i++) {
		const struct host_finding *f = &run->inv->finding[i];

		if (strcmp(f->id, run->rule->id) != 0)
			continue;
		check_unknown(run, f->bdf, run->rule->fix, "%.*s", (int)check_said(f->text), f->text);
		any = true;
	}
	if (!any)
		check_pass(run, "all could be read");
}

static const char sysfs[] = "Linux, Documentation/ABI/testing/sysfs-bus-pci", nodes[] = "Linux, Documentation/ABI/stable/sysfs-devices-node",
		  fabric[] = "NVIDIA Fabric Manager User Guide";

const struct check_rule check_found_rules[] = {
	{ "boot.acs-override", CHECK_ERROR, "pcie_acs_override is used",
	  "A patch outside of Linux that makes the kernel form groups as if ports isolated, which they do not.", "lf-edge/eve pull 5969",
	  "a command line without pcie_acs_override", "take it out of the kernel command line and reboot", found_in_cmdline },
	{ "boot.iommu-missing", CHECK_ERROR, "intel_iommu=on finds no IOMMU",
	  "The kernel was told to use an IOMMU that firmware does not show.", "Linux, kernel-parameters.txt", "a DMAR table from the firmware",
	  "switch VT-d on in the firmware setup, then reboot", found_in_cmdline },
	{ "vfio.unsafe-interrupts", CHECK_ERROR, "interrupts of guests' devices are not remapped",
	  "Without interrupt remapping a guest's device can raise any interrupt of the host.",
	  "Linux, drivers/vfio/vfio_iommu_type1.c, allow_unsafe_interrupts", "allow_unsafe_interrupts off, interrupt remapping on",
	  "allow_unsafe_interrupts=0, and interrupt remapping (x2APIC) on in the firmware setup", found_in_modules },
	{ "vfio.no-iommu", CHECK_ERROR, "VFIO works without an IOMMU", "In that mode a device can write to any memory.",
	  "Linux, drivers/vfio/Kconfig, VFIO_NOIOMMU", "enable_unsafe_noiommu_mode off", "vfio enable_unsafe_noiommu_mode=0", found_in_modules },
	{ "pci.config-dead", CHECK_ERROR, "a function does not answer", "Config space that reads as ff is a device that fell off the bus, or sleeps.",
	  "PCI Express Base Specification 6.0, 2.3.2; NVIDIA/k8s-device-plugin issue 2038", "a device that answers",
	  "echo on > /sys/bus/pci/devices/BDF/power/control; if it stays so, reset or power-cycle it", found },
	{ "pci.header-broken", CHECK_ERROR, "a function answers only in part", "It answers only in part.",
	  "PCI Express Base Specification 6.0, 7.5.1.1.9", "a device that answers", "reset or power-cycle it", found },
	{ "pci.config-broken", CHECK_WARNING, "a capability list has no end", "What lies behind the break is unknown, ACS and ATS perhaps among it.",
	  "PCI Express Base Specification 6.0, 7.5.1.1.11 and 7.9.2", "a capability list without loops", "reset it; update its firmware", found },
	{ "pci.config-short", CHECK_ERROR, "config space can be read only in part", "Port types, ACS and ATS are in the part that only root can read.",
	  "Linux, drivers/pci/pci-sysfs.c, pci_read_config()", "all of config space", check_as_root, unread },
	{ "pci.config-unreadable", CHECK_WARNING, "config space of a function cannot be read", "Nothing is known of such a function's capabilities.", sysfs,
	  "readable config space", "run as root; see the kernel log", unread },
	{ "pci.attr-unreadable", CHECK_WARNING, "an attribute of a function cannot be read", "What the attribute would say is unknown.", sysfs,
	  "a readable attribute", "run as root; see the kernel log", unread },
	{ "pci.ids-unknown", CHECK_WARNING, "it is not known what a function is", "A function without ids is no GPU or NIC to velad.", sysfs,
	  "readable ids", "run as root; see the kernel log", unread },
	{ "pci.group-unreadable", CHECK_WARNING, "the IOMMU group of a function cannot be read", "A function whose group is unknown is not given to a guest.", sysfs,
	  "a readable iommu_group link", "see the kernel log", unread },
	{ "pci.numa-unreadable", CHECK_WARNING, "the NUMA node of a function cannot be read", "Without it a guest's CPUs may be far from its devices.",
	  sysfs, "a number in numa_node", "see the kernel log", unread },
	{ "pci.place-unknown", CHECK_WARNING, "a function has no place in the tree", "Paths to such a function are unknown.", sysfs,
	  "a link to where it sits", "see the kernel log", unread },
	{ "pci.name-twice", CHECK_WARNING, "the bus lists a function twice", "Only the first counts.", sysfs, "each function once",
	  "look at /sys/bus/pci/devices, or at what made the dump", found },
	{ "pci.name-unknown", CHECK_WARNING, "the bus lists what is no PCI address", "What has no address is left out.", sysfs, "DOMAIN:BUS:DEVICE.FUNCTION",
	  "look at /sys/bus/pci/devices, or at what made the dump", found },
	{ "pci.vf-index-unknown", CHECK_WARNING, "it is not known which VF of its PF a VF is",
	  "VFs are configured by their index; one without is not given to a guest.", sysfs, "a virtfn link of the PF to it",
	  "write 0 to the PF's sriov_numvfs and then the number again", unread },
	{ "topo.parent-missing", CHECK_WARNING, "the bridge above a function is not there", "Paths to such a function are unknown.", sysfs,
	  "the bridge among the PCI functions", "echo 1 > /sys/bus/pci/rescan, or a whole dump", found },
	{ "topo.parent-no-bridge", CHECK_WARNING, "what is above a function has no bus below it", "Paths to such a function are unknown.", sysfs,
	  "a bridge above it", "reset the bridge; see the kernel log", found },
	{ "topo.parent-loop", CHECK_WARNING, "bridges form no tree", "Paths to such a function are unknown.", sysfs, "a tree",
	  "look at the dump: no machine has such a tree", found },
	{ "topo.node-missing", CHECK_WARNING, "a device is on a NUMA node that is not there", "No CPU and no memory is near such a device.", nodes,
	  "a NUMA node that the kernel has", "NUMA (not node interleaving) on in the firmware setup; write the right node to its numa_node", found },
	{ "topo.vfs-missing", CHECK_WARNING, "VFs that exist are not among the PCI functions", "Missing VFs cannot be given to guests.", sysfs,
	  "as many VFs as sriov_numvfs says", "write 0 to the PF's sriov_numvfs and then the number again", found },
	{ "pcie.link-width", CHECK_WARNING, "a link has not all its lanes", "A link with fewer lanes than both ends have carries so much less.",
	  "PCI Express Base Specification 6.0, 7.5.3.8; NVIDIA/NVSentinel issue 890", "the width that both ends can do",
	  "reseat the card or riser, look at the slot's bifurcation in the firmware setup; then the retimer or board", found_in_links },
	{ "pcie.link-speed", CHECK_WARNING, "a link does not run at full speed", "A link below the speed of both ends carries so much less.",
	  "PCI Express Base Specification 6.0, 7.5.3.8; NVIDIA/NVSentinel issue 890", "the speed that both ends can do",
	  "reseat the card or riser, look at the slot's speed in the firmware setup and at the port's AER counters", found_in_links },
	{ "numa.unknown", CHECK_WARNING, "NUMA nodes cannot be read", "Guests cannot be placed near their devices.", nodes,
	  "readable /sys/devices/system/node", "a kernel with CONFIG_NUMA; see the kernel log", unread },
	{ "numa.cpus-unknown", CHECK_WARNING, "CPUs of a NUMA node cannot be read", "No vCPUs are placed on such a node.", nodes, "a readable cpulist",
	  "see the kernel log", unread },
	{ "numa.distance-broken", CHECK_INFO, "NUMA distances make no sense", "The nearer of two nodes is then not known.",
	  "ACPI specification, 5.2.17 (SLIT)", "a distance to each node", "update the firmware", found },
	{ "numa.hugepages-unreadable", CHECK_INFO, "hugepages cannot be read", "How many are free is unknown.", nodes, "readable hugepage counters",
	  "see the kernel log", unread },
	{ "cpu.unknown", CHECK_WARNING, "online CPUs cannot be read", "Guests' vCPUs cannot be pinned.",
	  "Linux, Documentation/ABI/stable/sysfs-devices-system-cpu", "a readable list of online CPUs", "see the kernel log", unread },
	{ "cpu.topology-broken", CHECK_WARNING, "sockets and cores make no sense", "Which CPUs are threads of one core is unknown.",
	  "Linux, Documentation/ABI/stable/sysfs-devices-system-cpu", "lists that agree", "update the firmware", found },
	{ "fabric.mode-unknown", CHECK_WARNING, "Fabric Manager has no mode", "Whether it has partitions for guests is unknown.", fabric,
	  "FABRIC_MODE=1", "set FABRIC_MODE=1 and systemctl restart nvidia-fabricmanager", found_in_fabric },
	{ "fabric.socket-missing", CHECK_ERROR, "Fabric Manager does not answer", "Without it no partition can be activated, and CUDA does not start in guests.",
	  fabric, "its command socket", "systemctl status nvidia-fabricmanager", found_in_fabric },
	{ "fabric.answer-broken", CHECK_WARNING, "Fabric Manager's partitions cannot be read", "Which GPUs form a partition is unknown.", fabric,
	  "a list of partitions", "fmpm -l by hand; its version must be that of Fabric Manager", unread },
	{ 0 },
};
