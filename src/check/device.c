/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: GPUs and the fabric between them. */
#include <stdio.h>
#include <string.h>

#include "check/rule.h"

#define AMD      0x1002
#define BIG_BAR  (UINT64_C(64) << 30)
#define QEMU_BAR 10001000 /* 10.1 */

/* One of the blank-separated words. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += len)
		if ((p == list || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
			return true;
	return false;
}

static void judge_flr(struct check_run *run, const struct host_function *gpu)
{
	const char *methods = gpu->facts->reset_methods;

	if (!methods)
		check_unknown(run, gpu->bdf, check_is_short(gpu->facts) ? check_as_root : "make its reset_method readable",
			      "how the kernel would reset it is unknown");
	else if (!*methods && host_kernel_since(run->inv->kernel, 5, 15) != HOST_PRESENT)
		check_unknown(run, gpu->bdf, "run this on Linux 5.15 or later, which shows reset_method", "how the kernel would reset it is unknown");
	else if (!*methods)
		(void)check_fail(run, gpu->bdf, "the kernel has no way to reset it");
	else if (!has_word(methods, "flr"))
		(void)check_fail(run, gpu->bdf, "it is reset by \"%s\", not by flr", methods);
	else
		check_pass(run, "flr");
}

static void each_gpu(struct check_run *run, void (*judge)(struct check_run *, const struct host_function *))
{
	for (size_t i = 0; i < run->inv->nfn; i++)
		if (run->inv->fn[i].facts->kind == HOST_GPU && pcicap_answers(&run->inv->fn[i].facts->cap))
			judge(run, &run->inv->fn[i]);
}

static void gpu_flr(struct check_run *run)
{
	each_gpu(run, judge_flr);
}

static void judge_amd(struct check_run *run, const struct host_function *gpu)
{
	if (gpu->facts->vendor == AMD && gpu->facts->numvfs_known && gpu->facts->numvfs)
		check_pass(run, "it has %u VF%s", gpu->facts->numvfs, gpu->facts->numvfs > 1 ? "s" : "");
	else if (gpu->facts->vendor == AMD && gpu->facts->cap.sriov.known == HOST_PRESENT)
		(void)check_fail(run, gpu->bdf, "an AMD GPU as a whole (PF), not a VF of it");
	else if (gpu->facts->vendor == AMD && gpu->facts->cap.sriov.known == HOST_UNKNOWN)
		check_unknown(run, gpu->bdf, check_as_root, "whether this AMD GPU could have VFs cannot be read");
}

static void gpu_amd_pf(struct check_run *run)
{
	each_gpu(run, judge_amd);
}

/* ---- big BARs ------------------------------------------------------------------------------------------- */

static uint64_t biggest_bar(const struct host_function *fn)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < 6; i++) {
		struct host_bar bar = host_bar_of(fn, i);

		most = bar.size > most ? bar.size : most;
	}
	return most;
}

static uint64_t big_bar(const struct check_run *run)
{
	uint64_t most = 0;

	for (size_t i = 0; i < run->inv->nfn; i++) {
		uint64_t size = check_is_given(run->inv->fn[i].facts->kind) ? biggest_bar(&run->inv->fn[i]) : 0;

		most = size > most ? size : most;
	}
	return most >= BIG_BAR ? most : 0;
}

static void bar_qemu(struct check_run *run)
{
	unsigned long long gib = big_bar(run) >> 30;
	char what[48];

	if (!gib)
		return;
	(void)snprintf(what, sizeof(what), "a BAR of %llu GiB", gib);
	check_qemu_since(run, QEMU_BAR, what);
}

static void bar_kernel(struct check_run *run)
{
	unsigned long long gib = big_bar(run) >> 30;

	if (!gib)
		return;
	switch (host_kernel_since(run->inv->kernel, 6, 12)) {
	case HOST_PRESENT:
		check_pass(run, "a BAR of %llu GiB, and kernel %s", gib, run->inv->kernel);
		break;
	case HOST_ABSENT:
		(void)check_fail(run, BDF_NONE, "a BAR of %llu GiB, and kernel %s", gib, run->inv->kernel);
		break;
	case HOST_UNKNOWN:
		check_unknown(run, BDF_NONE, "ask who made the kernel, or take a newer one", "a BAR of %llu GiB, and kernel %s, which may not map it so",
			      gib, *run->inv->kernel ? run->inv->kernel : "?");
	}
}

/* ---- NVSwitches ----------------------------------------------------------------------------------------- */

static size_t count(const struct check_run *run, enum host_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < run->inv->nfn; i++)
		n += run->inv->fn[i].facts->kind == kind;
	return n;
}

static void fabric_mode(struct check_run *run)
{
	static const char *const modes[] = { "bare metal or full passthrough", "shared NVSwitch", "vGPU" };
	const struct host_fabric *f = &run->inv->system.fabric;
	size_t switches = count(run, HOST_NVSWITCH);

	if (!switches || run->inv->virtual == HOST_PRESENT)
		return;
	if (!f->configured)
		(void)check_fail(run, BDF_NONE, "%zu NVSwitches, and no Fabric Manager is set up on this host", switches);
	else if (f->mode < 0)
		check_unknown(run, BDF_NONE, "set FABRIC_MODE in /usr/share/nvidia/nvswitch/fabricmanager.cfg", "Fabric Manager's mode is unknown");
	else if (f->mode != 1)
		(void)check_fail(run, BDF_NONE, "FABRIC_MODE=%d (%s)", f->mode, modes[f->mode]);
	else
		check_pass(run, "FABRIC_MODE=1 (%s)", modes[1]);
}

const struct check_rule check_device_rules[] = {
	{ "gpu.no-flr", CHECK_WARNING, "a GPU cannot be reset by Function Level Reset",
	  "A guest's GPU is reset before the next one gets it. A bus reset also hits what is beside it, and is refused where that is in use.",
	  "Linux, Documentation/ABI/testing/sysfs-bus-pci, reset_method; gpudirect field reports (cloud-hypervisor pull 8533)",
	  "flr among its reset methods", "echo flr > /sys/bus/pci/devices/BDF/reset_method where it can; else give it only as whole switch", gpu_flr },
	{ "gpu.amd-pf", CHECK_WARNING, "an AMD GPU would be given as a whole",
	  "MI300X and MI355X given as a whole have been seen to read as ff after the guest's reset, until the host reboots; their VFs do not.",
	  "amd/MxGPU-Virtualization issue 25", "VFs, made by AMD's GIM driver", "load gim on the host and give VFs to guests", gpu_amd_pf },
	{ "gpu.bar-qemu", CHECK_WARNING, "QEMU is slow to map big BARs",
	  "Before QEMU 10.1 a guest with BARs of 64 GiB and more can take minutes to more than an hour to start.",
	  "Ubicloud, NVIDIA HGX B200 with open-source virtualization", "QEMU 10.1 or later",
	  "a newer QEMU; x-no-mmap=true, which is also said to help, takes the GPU's BARs from peer-to-peer: velad never sets it", bar_qemu },
	{ "gpu.bar-kernel", CHECK_WARNING, "the kernel maps big BARs by small pages",
	  "Before Linux 6.12 vfio-pci maps a BAR in pages of 4 KiB: starting a guest takes long, and each first touch is a fault.",
	  "Linux 6.12, vfio/pci: huge_fault and pfnmap at PMD and PUD size", "Linux 6.12 or later", "a newer kernel", bar_kernel },
	{ "fabric.mode", CHECK_WARNING, "Fabric Manager does not share the NVSwitches",
	  "With NVSwitches a guest's GPUs need a partition of Fabric Manager, else CUDA does not start in it (error 802). Only FABRIC_MODE=1 "
	  "has partitions for GPUs passed through; 0 is for bare metal and for one guest that has everything, 2 for vGPU.",
	  "NVIDIA Fabric Manager User Guide; kubevirt-gpu-device-plugin issue 133; gpu-operator issue 2923", "FABRIC_MODE=1",
	  "install nvidia-fabricmanager, set FABRIC_MODE=1 in /usr/share/nvidia/nvswitch/fabricmanager.cfg and restart it", fabric_mode },
	{ 0 },
};
