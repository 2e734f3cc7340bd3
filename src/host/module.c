/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which modules that matter are there, and their parameters. sys/module/X/initstate is only there for a loaded
 * module (kernel/module/sysfs.c); one that is built in shows through its parameters, and not at all if it has none. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "host/read.h"

#define PARAMS_MAX 4

static const struct {
	const char *name;
	bool version; /* out-of-tree drivers have one, and it matters */
	const char *param[PARAMS_MAX];
} wanted[] = {
	{ "vfio", false, { "enable_unsafe_noiommu_mode" } },
	{ "vfio_pci", false, { "ids", "disable_idle_d3", "nointxmask", "enable_sriov" } },
	{ "vfio_iommu_type1", false, { "allow_unsafe_interrupts", "dma_entry_limit", "disable_hugepages" } },
	{ "iommufd", false, { 0 } },
	{ "nvgrace_gpu_vfio_pci", false, { 0 } },
	{ "mlx5_vfio_pci", false, { 0 } },
	{ "kvm", false, { "nx_huge_pages" } },
	{ "kvm_intel", false, { "nested", "enable_apicv", "ept" } },
	{ "kvm_amd", false, { "nested", "avic", "npt" } },
	{ "nvidia", true, { 0 } },
	{ "nvidia_peermem", true, { 0 } },
	{ "nv_peer_mem", true, { 0 } },
	{ "nvidia_vgpu_vfio", true, { 0 } },
	{ "nouveau", false, { 0 } },
	{ "amdgpu", true, { 0 } },
	{ "gim", true, { 0 } },
	{ "mlx5_core", true, { "probe_vf", "prof_sel" } },
	{ "mlx5_ib", true, { 0 } },
	{ "bnxt_en", true, { 0 } },
	{ "ice", true, { 0 } },
	{ "irdma", true, { 0 } },
};

static int read_params(struct inventory *inv, struct host_root *root, struct host_module *m, const char *const *name)
{
	for (size_t i = 0; i < PARAMS_MAX && name[i]; i++) {
		const char *value = host_text_read(inv, root, "sys/module/%s/parameters/%s", m->name, name[i]);

		if (!*value)
			continue;
		if (!m->param)
			m->param = arena_array(&inv->arena, PARAMS_MAX, sizeof(*m->param));
		if (!m->param)
			return -ENOMEM;
		m->param[m->nparams++] = (struct host_param){ .name = name[i], .value = value };
	}
	return 0;
}

static bool is_yes(const struct host_module *m, const char *param)
{
	for (size_t i = 0; i < m->nparams; i++)
		if (strcmp(m->param[i].name, param) == 0)
			return strcmp(m->param[i].value, "Y") == 0; /* param_get_bool() */
	return false;
}

static int findings(struct inventory *inv, const struct host_module *m)
{
	int r = 0;

	if (strcmp(m->name, "vfio_iommu_type1") == 0 && is_yes(m, "allow_unsafe_interrupts"))
		r = host_finding_add(
			inv, "vfio.unsafe-interrupts", BDF_NONE,
			"vfio_iommu_type1.allow_unsafe_interrupts is on: a guest's device can forge interrupts "
			"of the host; switch it off, and interrupt remapping on in the firmware's setup");
	if (r == 0 && strcmp(m->name, "vfio") == 0 && is_yes(m, "enable_unsafe_noiommu_mode"))
		r = host_finding_add(
			inv, "vfio.no-iommu", BDF_NONE,
			"vfio.enable_unsafe_noiommu_mode is on: devices can be used without an IOMMU, free to "
			"write to any memory; switch it off");
	return r;
}

int host_module_read(struct inventory *inv, struct host_root *root)
{
	struct host_system *s = &inv->system;

	s->module = arena_array(&inv->arena, ARRAY_SIZE(wanted), sizeof(*s->module));
	if (!s->module)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct host_module *m = &s->module[s->nmodules];
		int r;

		*m = (struct host_module){ .name = wanted[i].name, .version = "" };
		m->state = host_text_read(inv, root, "sys/module/%s/initstate", m->name);
		r = read_params(inv, root, m, wanted[i].param);
		if (r < 0)
			return r;
		if (!*m->state && !m->nparams)
			continue;
		if (!*m->state)
			m->state = "built-in";
		if (wanted[i].version)
			m->version = host_text_read(inv, root, "sys/module/%s/version", m->name);
		s->nmodules++;
		r = findings(inv, m);
		if (r < 0)
			return r;
	}
	return 0;
}
