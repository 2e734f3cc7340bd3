/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: what QEMU and VFIO need of the host. */
#include <stdio.h>
#include <string.h>

#include "check/rule.h"

static void kvm_missing(struct check_run *run)
{
	if (run->inv->kvm == HOST_PRESENT)
		check_pass(run, "/dev/kvm");
	else if (run->inv->kvm == HOST_UNKNOWN)
		check_unknown(run, BDF_NONE, "make /sys/devices/virtual/misc readable", "cannot read whether KVM is there");
	else
		(void)check_fail(run, BDF_NONE, "no /dev/kvm");
}

static void vfio_missing(struct check_run *run)
{
	if (run->inv->vfio_module == HOST_PRESENT)
		check_pass(run, run->inv->vfio_pci == HOST_PRESENT ? "it is loaded" : "it is not loaded; velad loads it with the first guest");
	else if (run->inv->vfio_module == HOST_UNKNOWN)
		check_unknown(run, BDF_NONE, "modprobe -n vfio-pci", "it is not loaded, and whether this kernel has it is not known");
	else
		(void)check_fail(run, BDF_NONE, "kernel %s has no module vfio-pci", run->inv->kernel);
}

/* A guest maps its devices' BARs for its peers by type1; iommufd does not before VFIO_PCI_DMABUF. */
static void peer_mapping(struct check_run *run)
{
	const struct host_module *vfio = check_module(run, "vfio"), *type1 = check_module(run, "vfio_iommu_type1");

	if (type1)
		check_pass(run, "vfio_iommu_type1 is there, and velad's guests use it, not iommufd");
	else if (vfio && check_module(run, "iommufd"))
		(void)check_fail(run, BDF_NONE, "vfio and iommufd are loaded, vfio_iommu_type1 is not; kernel %s", run->inv->kernel);
}

static void posted_interrupts(struct check_run *run)
{
	const struct host_module *intel = check_module(run, "kvm_intel"), *amd = check_module(run, "kvm_amd");
	const char *value = intel ? check_param(intel, "enable_apicv") : check_param(amd, "avic"), *name = intel ? "enable_apicv" : "avic";

	if (!intel && !amd)
		return;
	if (!value)
		check_unknown(run, BDF_NONE, "make the module's parameters readable", "%s is unknown", name);
	else if (strcmp(value, "Y") == 0 || strcmp(value, "1") == 0)
		check_pass(run, "%s=%s", name, value);
	else
		check_fix(run, check_fail(run, BDF_NONE, "%s=%s", name, value), "options %s %s=1 in /etc/modprobe.d, then reload the module",
			  intel ? "kvm_intel" : "kvm_amd", name);
}

static void is_virtual(struct check_run *run)
{
	if (run->inv->virtual == HOST_PRESENT)
		(void)check_fail(run, BDF_NONE, "this host is itself a virtual machine (%s%s%s)", run->inv->dmi_vendor,
				 *run->inv->dmi_product ? " " : "", run->inv->dmi_product);
	else if (run->inv->virtual == HOST_UNKNOWN)
		check_unknown(run, BDF_NONE, "systemd-detect-virt", "whether this host is a virtual machine is unknown");
	else
		check_pass(run, "no hypervisor below");
}

#define QEMU_CLIQUE 8001000 /* src/guest/qemu.c has why */
#define NVIDIA      0x10de

static void cliques(struct check_run *run)
{
	char what[32];
	size_t n = 0;

	for (size_t i = 0; i < run->inv->nfn; i++) {
		const struct host_facts *f = run->inv->fn[i].facts;

		n += f->kind == HOST_GPU && !f->is_vf && f->vendor == NVIDIA && f->class >> 16 == 0x03;
	}
	if (n < 2)
		return;
	(void)snprintf(what, sizeof(what), "%zu GPUs", n);
	check_qemu_since(run, QEMU_CLIQUE, what);
}

static void narrow_iommu(struct check_run *run)
{
	unsigned cpu = run->inv->phys_bits, iommu = run->inv->iommu_bits;

	if (!cpu || !iommu)
		return;
	if (iommu < cpu)
		(void)check_fail(run, BDF_NONE, "the IOMMU translates addresses of %u bits, the CPU has %u", iommu, cpu);
	else
		check_pass(run, "%u bits, the CPU has %u", iommu, cpu);
}

static void hugepages(struct check_run *run)
{
	uint64_t total = 0;
	bool known = false;

	for (size_t i = 0; i < run->inv->nnodes; i++)
		for (size_t k = 0; k < run->inv->node[i].npools; k++) {
			known = true;
			total += run->inv->node[i].pool[k].total;
		}
	if (!known)
		check_unknown(run, BDF_NONE, "make /sys/devices/system/node readable", "hugepages are unknown");
	else if (total)
		check_pass(run, "reserved");
	else
		(void)check_fail(run, BDF_NONE, "no hugepages are reserved");
}

static void strangers(struct check_run *run)
{
	const struct check_input *in = run->in;

	if (in->asked == CHECK_NOT_ASKED) /* by velactl without velad */
		return;
	for (size_t i = 0; i < in->nstrangers; i++)
		(void)check_fail(run, in->stranger[i].bdf, "domain %s, which is %s, has it", in->stranger[i].domain,
				 in->stranger[i].runs ? "running" : "off");
	if (in->asked == CHECK_ASKED_IN_VAIN)
		check_unknown(run, BDF_NONE, "systemctl status libvirtd", "libvirt does not say which domains it has");
	else if (!in->nstrangers)
		check_pass(run, "every domain with devices of the host is an instance");
}

const struct check_rule check_guest_rules[] = {
	{ "host.kvm-missing", CHECK_ERROR, "KVM is not there", "Without KVM guests are emulated, and get no devices.",
	  "Linux, Documentation/virt/kvm/api.rst", "/dev/kvm", "VT-x or SVM on in the firmware setup; modprobe kvm_intel or kvm_amd", kvm_missing },
	{ "vfio.missing", CHECK_ERROR, "the driver vfio-pci is not there", "Devices are given to guests by this driver.",
	  "Linux, Documentation/driver-api/vfio.rst", "the module vfio-pci",
	  "install the rest of the kernel's modules (Ubuntu: linux-modules-extra), or a kernel with CONFIG_VFIO_PCI", vfio_missing },
	{ "vfio.peer-mapping", CHECK_WARNING, "VFIO does not map devices' BARs for their peers",
	  "Requests from NIC to GPU that go up to the IOMMU are translated to the GPU's BAR there. Type1 maps BARs; iommufd does not before "
	  "VFIO_PCI_DMABUF (Linux 6.19, and a QEMU that uses it): peer-to-peer is then lost without a word.",
	  "kata-containers issue 12549; cloud-hypervisor pull 7981", "vfio_iommu_type1", "modprobe vfio_iommu_type1", peer_mapping },
	{ "kvm.posted-interrupts", CHECK_INFO, "interrupts of devices take an exit from the guest",
	  "With posted interrupts (Intel) or AVIC (AMD) a NIC's completion interrupts a vCPU without leaving the guest.",
	  "Intel VT-d specification, 5.2.5; AMD64 manual 2, 15.29; Linux, arch/x86/kvm", "enable_apicv=Y, or avic=Y",
	  "options kvm_intel enable_apicv=1 in /etc/modprobe.d", posted_interrupts },
	{ "host.virtual", CHECK_WARNING, "the host is itself a virtual machine",
	  "A virtual machine sees an invented PCIe tree: paths and ACS say nothing about the machine below.",
	  "Linux, arch/x86/include/asm/cpufeatures.h, X86_FEATURE_HYPERVISOR", "bare metal", "run velad on the machine itself", is_virtual },
	{ "gpu.clique-qemu", CHECK_INFO, "QEMU cannot tell guests which GPUs reach each other over PCIe",
	  "NVIDIA's driver does not use peer-to-peer over PCIe in a guest unless a capability says so (x-nv-gpudirect-clique), and before 8.1 QEMU "
	  "puts that over another one of GPUs since Turing, and does not start. NVLink needs none.",
	  "QEMU f6b30c1984f7, hw/vfio/pci-quirks: Support alternate offset for GPUDirect Cliques", "QEMU 8.1 or later", "a newer QEMU", cliques },
	{ "iommu.narrow", CHECK_INFO, "the IOMMU has narrower addresses than the CPU",
	  "A BAR that a guest's firmware puts above what the IOMMU translates is no target for its peers. So velad gives guests the narrower "
	  "width, and refuses devices whose BARs have no room there.",
	  "Intel VT-d specification, 11.4.2; terraform-provider-proxmox issue 1353", "as wide as the CPU's",
	  "nothing, where guests fit; else another machine", narrow_iommu },
	{ "memory.hugepages", CHECK_INFO, "no hugepages are reserved",
	  "Memory of guests in 4 KiB pages is slow to pin and costs the IOMMU and ATS a translation for each.",
	  "Linux, Documentation/admin-guide/mm/hugetlbpage.rst", "hugepages of 1 GiB per NUMA node",
	  "hugepagesz=1G hugepages=N on the kernel command line, then reboot", hugepages },
	{ "guest.unknown", CHECK_WARNING, "a domain that velad does not know has a device of the host",
	  "velad gives such a device to nobody, also while the domain is off, and neither resets it nor changes anything of it.",
	  "libvirt, formatdomain.html, hostdev", "domains with devices of the host that are velad's instances",
	  "virsh detach-device, or virsh undefine; then create the guest with velactl create", strangers },
	{ 0 },
};
