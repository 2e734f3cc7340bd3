/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each rule on hosts where it passes, fails and cannot be told; and what holds of all of them. */
#include "check/check.h"
#include "fixture.h"
#include "topo/route.h"

#include <linux/pci_regs.h>

#define CMDLINE "intel_iommu=on iommu=pt" /* of xe9680 and snc4 */

static struct host_facts *facts_in(struct inventory *inv, const char *bdf)
{
	const struct host_function *fn = host_function_find(inv, test_bdf(bdf));

	assert_non_null(fn);
	return (struct host_facts *)fn->facts;
}

static struct host_function *function_in(struct inventory *inv, const char *bdf)
{
	return (struct host_function *)host_function_find(inv, test_bdf(bdf));
}

/* ---- machines made worse or better ---------------------------------------------------------------------- */

static void iommu_unknown(struct inventory *inv)
{
	inv->iommu = HOST_UNKNOWN;
}

static void gpu_without_group(struct inventory *inv)
{
	function_in(inv, "0000:19:00.0")->iommu_group = -1;
}

/* A function that a driver of the host has, in a GPU's group. */
static void gpu_with_stranger(struct inventory *inv)
{
	function_in(inv, "0000:4c:00.0")->iommu_group = 4711;
	function_in(inv, "0000:01:00.0")->iommu_group = 4711;
}

static void stranger_unbound(struct inventory *inv)
{
	gpu_with_stranger(inv);
	function_in(inv, "0000:01:00.0")->driver = 0; /* [0] is "" */
}

static void stranger_of_unknown_driver(struct inventory *inv)
{
	gpu_with_stranger(inv);
	function_in(inv, "0000:01:00.0")->driver = HOST_DRIVER_UNKNOWN;
}

static void nics_have_ats(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nfn; i++)
		if (inv->fn[i].facts->kind == HOST_NIC)
			((struct host_facts *)inv->fn[i].facts)->cap.ats.known = HOST_PRESENT;
}

static void ats_and_old_kernel(struct inventory *inv)
{
	nics_have_ats(inv);
	inv->kernel = "6.8.0";
}

static void ats_and_new_kernel(struct inventory *inv)
{
	nics_have_ats(inv);
	inv->kernel = "6.12.0";
}

/* Which the kernel would have enabled ATS of, too. */
static void nics_are_translated(struct inventory *inv)
{
	nics_have_ats(inv);
	for (size_t i = 0; i < inv->nfn; i++)
		if (inv->fn[i].facts->kind == HOST_NIC)
			((struct host_facts *)inv->fn[i].facts)->dma_domain = "DMA-FQ";
}

static void relaxed_off(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->cap.devctl &= (uint16_t)~PCI_EXP_DEVCTL_RELAX_EN;
}

static void small_reads(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->cap.devctl &= (uint16_t)~PCI_EXP_DEVCTL_READRQ;
}

static void big_reads(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nfn; i++)
		((struct host_facts *)inv->fn[i].facts)->cap.devctl |= 5 << 12;
}

static void small_payload(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->cap.devctl &= (uint16_t)~PCI_EXP_DEVCTL_PAYLOAD;
}

static void short_tags(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->cap.devctl &= (uint16_t)~PCI_EXP_DEVCTL_EXT_TAG;
}

/* A GPU that asks with 10-bit tags (bit 12 of Device Control 2), and a port that knows none (bit 16 of its capabilities). */
static void no_completer(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->cap.devctl2 |= 1 << 12;
	facts_in(inv, "0000:4a:01.0")->cap.devcap2 &= ~(1u << 16);
}

static void port_may_sleep(struct inventory *inv)
{
	facts_in(inv, "0000:4a:01.0")->power_control = "auto";
	facts_in(inv, "0000:4a:01.0")->d3cold_allowed = 1;
}

static void ports_stay_on(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nfn; i++)
		((struct host_facts *)inv->fn[i].facts)->power_control = "on";
}

/* ATS, and no port has Direct Translated P2P in its capability. */
static void no_dt(struct inventory *inv)
{
	nics_have_ats(inv);
	for (size_t i = 0; i < inv->nfn; i++)
		((struct host_facts *)inv->fn[i].facts)->cap.acs.cap &= (uint16_t)~TOPO_ACS_DT;
}

static void tb_set(struct inventory *inv)
{
	facts_in(inv, "0000:4a:02.0")->cap.acs.ctl = 0x7f;
}

static void ec_set(struct inventory *inv)
{
	nics_have_ats(inv);
	facts_in(inv, "0000:4a:02.0")->cap.acs.cap |= TOPO_ACS_EC;
	facts_in(inv, "0000:4a:02.0")->cap.acs.ctl |= TOPO_ACS_EC;
}

/* Somebody's script cleared the redirects of two neighbours, and the groups stayed. */
static void redirects_cleared(struct inventory *inv)
{
	facts_in(inv, "0000:4a:01.0")->cap.acs.ctl = 0;
	facts_in(inv, "0000:4a:02.0")->cap.acs.ctl = 0;
}

static void port_without_acs(struct inventory *inv)
{
	facts_in(inv, "0000:4a:02.0")->cap.acs = (struct pcicap_acs){ .known = HOST_ABSENT };
}

static void one_group(struct inventory *inv)
{
	function_in(inv, "0000:4c:00.0")->iommu_group = 4711;
	function_in(inv, "0000:4d:00.0")->iommu_group = 4711;
}

static void config_is_short(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nfn; i++) {
		struct pcicap *c = &((struct host_facts *)inv->fn[i].facts)->cap;

		c->pcie = HOST_UNKNOWN;
		c->acs = (struct pcicap_acs){ 0 };
		c->ats = (struct pcicap_ats){ 0 };
		c->sriov = (struct pcicap_sriov){ 0 };
		c->dev_known = c->dev2_known = false;
	}
}

static void bus_reset_only(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->reset_methods = "pm bus";
}

static void reset_unknown(struct inventory *inv)
{
	facts_in(inv, "0000:4c:00.0")->reset_methods = NULL;
}

static void amd_vfs_made(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nfn; i++)
		if (inv->fn[i].facts->kind == HOST_GPU)
			((struct host_facts *)inv->fn[i].facts)->numvfs = 1;
}

static void new_kernel(struct inventory *inv)
{
	inv->kernel = "6.12.0";
}

static void no_kernel(struct inventory *inv)
{
	inv->kernel = "";
}

static void shared_fabric(struct inventory *inv)
{
	inv->system.fabric.configured = true;
	inv->system.fabric.mode = 1;
}

static void vgpu_fabric(struct inventory *inv)
{
	shared_fabric(inv);
	inv->system.fabric.mode = 2;
}

static void unknown_fabric(struct inventory *inv)
{
	shared_fabric(inv);
	inv->system.fabric.mode = -1;
}

static void no_vfs(struct inventory *inv)
{
	facts_in(inv, "0000:4d:00.0")->cap.sriov.total = 0;
}

static struct host_rdma_port *port_in(struct inventory *inv, const char *bdf)
{
	for (size_t i = 0; i < inv->system.nnics; i++)
		if (bdf_eq(inv->system.nic[i].bdf, test_bdf(bdf)))
			return &inv->system.nic[i].rdma[0].port[0];
	fail_msg("%s is no NIC with a port", bdf);
	return NULL;
}

static void port_polls(struct inventory *inv)
{
	port_in(inv, "0000:4d:00.0")->state = "INIT";
}

static void port_unknown(struct inventory *inv)
{
	port_in(inv, "0000:4d:00.0")->state = "";
}

static void no_kvm(struct inventory *inv)
{
	inv->kvm = HOST_ABSENT;
}

static void kvm_unknown(struct inventory *inv)
{
	inv->kvm = HOST_UNKNOWN;
}

static void no_module(struct inventory *inv)
{
	inv->vfio_pci = inv->vfio_module = HOST_ABSENT;
}

static void module_unknown(struct inventory *inv)
{
	inv->vfio_pci = HOST_ABSENT;
	inv->vfio_module = HOST_UNKNOWN;
}

static void not_remapped(struct inventory *inv)
{
	inv->intremap = HOST_ABSENT;
}

static void remapping_unknown(struct inventory *inv)
{
	inv->intremap = HOST_UNKNOWN;
}

static void modules(struct inventory *inv, const struct host_module *m, size_t n)
{
	inv->system.module = (struct host_module *)m;
	inv->system.nmodules = n;
}

static void with_type1(struct inventory *inv)
{
	static const struct host_module m[] = { { "vfio", "live", "" }, { "vfio_iommu_type1", "live", "" } };

	modules(inv, m, ARRAY_SIZE(m));
}

static void iommufd_only(struct inventory *inv)
{
	static const struct host_module m[] = { { "vfio", "live", "" }, { "iommufd", "live", "" } };

	modules(inv, m, ARRAY_SIZE(m));
}

static void apicv(struct inventory *inv, const char *value)
{
	static struct host_param p = { .name = "enable_apicv" };
	static const struct host_module m[] = { { "kvm_intel", "live", "", &p, 1 } };

	p.value = value;
	modules(inv, m, ARRAY_SIZE(m));
}

static void apicv_on(struct inventory *inv)
{
	apicv(inv, "Y");
}

static void apicv_off(struct inventory *inv)
{
	apicv(inv, "N");
}

static void kvm_without_params(struct inventory *inv)
{
	static const struct host_module m[] = { { "kvm_amd", "live", "" } };

	modules(inv, m, ARRAY_SIZE(m));
}

static void virtual_unknown(struct inventory *inv)
{
	inv->virtual = HOST_UNKNOWN;
}

static void no_hugepages(struct inventory *inv)
{
	for (size_t i = 0; i < inv->nnodes; i++)
		for (size_t k = 0; k < inv->node[i].npools; k++)
			inv->node[i].pool[k].total = 0;
}

static void no_pools(struct inventory *inv)
{
	inv->nnodes = 0;
}

/* ---- the cases ------------------------------------------------------------------------------------------ */

struct row {
	const char *id, *host;
	enum check_result result;
	const char *component, *says;  /* what observed or fix have in them; "": whatever */
	void (*change)(struct inventory *);
	const char *option; /* instead of CMDLINE, or of `from` in the host's text */
	unsigned    qemu;
	const char *from;
	struct check_input said; /* by libvirt */
};

static const struct check_stranger stranger = { .bdf = { .bus = 0x19 }, .domain = "other", .runs = true };

#define FAIL	CHECK_FAIL
#define UNKNOWN CHECK_UNKNOWN
#define PASS	CHECK_PASS
#define NA	CHECK_NOT_APPLICABLE

static void narrow(struct inventory *inv)
{
	inv->phys_bits = 46;
	inv->iommu_bits = 39;
}

static void wide(struct inventory *inv)
{
	inv->phys_bits = 46;
	inv->iommu_bits = 48;
}

static void width_unknown(struct inventory *inv)
{
	inv->iommu_bits = 0;
}

static const struct row rows[] = {
	{ "gpu.clique-qemu", "xe9680", UNKNOWN, "host", "8 GPUs" },
	{ "gpu.clique-qemu", "xe9680", FAIL, "host", "8 GPUs, and QEMU 7.2.15", NULL, NULL, 7002015 },
	{ "gpu.clique-qemu", "xe9680", PASS, "host", "QEMU 8.1.0", NULL, NULL, 8001000 },
	{ "gpu.clique-qemu", "mi300x-8gpu-cx7-inline", NA, "host", "" },
	{ "iommu.narrow", "xe9680", FAIL, "host", "39 bits, the CPU has 46", narrow },
	{ "iommu.narrow", "xe9680", PASS, "host", "48 bits", wide },
	{ "iommu.narrow", "xe9680", NA, "host", "", width_unknown },
	{ "iommu.off", "xe9680", PASS, "host", "units" },
	{ "iommu.off", "xe9680-iommu-off", FAIL, "host", "VT-d on in the BIOS, and intel_iommu=on iommu=pt" },
	{ "iommu.off", "ibm-vpc-gx3d-h100-guest", FAIL, "host", "intel-iommu,caching-mode=on" },
	{ "iommu.off", "xe9680", UNKNOWN, "host", "/sys/class/iommu", iommu_unknown },
	{ "iommu.group-missing", "xe9680", PASS, "host", "" },
	{ "iommu.group-missing", "xe9680", FAIL, "0000:19:00.0", "DMAR", gpu_without_group },
	{ "iommu.group-missing", "xe9680-iommu-off", NA, "host", "" },
	{ "group.not-viable", "xe9680", PASS, "host", "" },
	{ "group.not-viable", "xe9680", FAIL, "0000:4c:00.0", "unbind 0000:01:00.0 from tg3", gpu_with_stranger },
	{ "group.not-viable", "consumer-no-acs", FAIL, "0000:01:00.0", "0000:02:00.0 (nic), which driver mlx5_core has" },
	{ "group.not-viable", "xe9680", UNKNOWN, "0000:4c:00.0", "whose driver is unknown", stranger_of_unknown_driver },
	{ "group.not-viable", "gb200-oci-4gpu", PASS, "host", "" }, /* a data-direct function belongs there */
	{ "group.shared", "xe9680", PASS, "host", "" },
	{ "group.shared", "xe9680", FAIL, "0000:4c:00.0", "also has 0000:01:00.0", stranger_unbound },
	{ "group.shared", "gb200-oci-4gpu", FAIL, "0008:06:00.0", "both go to one guest" },
	{ "group.claims-more", "xe9680", PASS, "host", "" },
	{ "group.claims-more", "xe9680", FAIL, "0000:4a:02.0", "does not pass the IOMMU", redirects_cleared },
	{ "group.claims-more", "xe9680", UNKNOWN, "host", "run as root", config_is_short },
	{ "group.switch-flaw", "xe9680", PASS, "host", "" },
	{ "group.switch-flaw", "xe9680", FAIL, "0000:4a:02.0", "the port has no ACS", port_without_acs },
	{ "group.switch-flaw", "xe9680", UNKNOWN, "host", "run as root", config_is_short },
	{ "group.coarse", "xe9680", PASS, "host", "" },
	{ "group.coarse", "xe9680", FAIL, "0000:4c:00.0", "keep all of them apart", one_group },
	{ "group.coarse", "xe9680", UNKNOWN, "host", "run as root", config_is_short },

	{ "boot.noats", "xe9680", PASS, "host", "" },
	{ "boot.noats", "xe9680", FAIL, "host", "take noats out", NULL, CMDLINE " pci=noats" },
	{ "boot.noats", "xe9680", FAIL, "host", "take noats out", NULL, CMDLINE " pci=realloc,noats" },
	{ "boot.noacs", "xe9680", PASS, "host", "" },
	{ "boot.noacs", "xe9680", FAIL, "host", "none of its options", NULL, CMDLINE " pci=noacs" },
	{ "boot.disable-acs-redir", "xe9680", PASS, "host", "" },
	{ "boot.disable-acs-redir", "xe9680", FAIL, "host", "=0000:4a:01.0", NULL, CMDLINE " pci=disable_acs_redir=0000:4a:01.0" },
	{ "boot.config-acs-kernel", "snc4", PASS, "host", "has it", NULL, CMDLINE " pci=config_acs=1011101@0000:17:01.0" },
	{ "boot.config-acs-kernel", "xe9680", FAIL, "host", "6.11 or later", ats_and_old_kernel, CMDLINE " pci=config_acs=1011101@0000:17:01.0" },
	{ "boot.config-acs-kernel", "xe9680", UNKNOWN, "host", "Configured ACS", no_kernel, CMDLINE " pci=config_acs=1011101@0000:17:01.0" },
	{ "boot.config-acs-kernel", "xe9680", NA, "host", "" },
	{ "boot.config-acs-broken", "snc4", PASS, "host", "", NULL, CMDLINE " pci=config_acs=1011101@0000:17:01.0;xx1@pci:1000:c030" },
	{ "boot.config-acs-broken", "snc4", FAIL, "host", "\"10111012@0000:17:01.0\"", NULL, CMDLINE " pci=config_acs=10111012@0000:17:01.0" },
	{ "boot.config-acs-broken", "snc4", FAIL, "host", "\"11011101@0000:17:01.0\"", NULL, CMDLINE " pci=config_acs=11011101@0000:17:01.0" },
	{ "boot.config-acs-broken", "snc4", FAIL, "host", "\"1011101\"", NULL, CMDLINE " pci=config_acs=1011101" },
	{ "boot.config-acs-parser", "cascade", PASS, "host", "has the fix" },
	{ "boot.config-acs-parser", "snc4", FAIL, "host", "6.12.9-amd64 may take only the first", NULL,
	  CMDLINE " pci=config_acs=1011101@0000:17:01.0;1011101@0000:17:02.0" },
	{ "boot.config-acs-parser", "snc4", PASS, "host", "every port is as asked", NULL, CMDLINE " pci=config_acs=0011101@0000:17:01.0" },
	{ "boot.config-acs-parser", "gb200-oci-4gpu", PASS, "host", "every port is as asked" }, /* 6.14.0 of the vendor has it */
	{ "boot.config-acs-firmware", "snc4", PASS, "host", "", NULL, CMDLINE " pci=config_acs=x0111x1@0000:17:01.0;1011101@pci:1:1" },
	{ "boot.config-acs-firmware", "snc4", FAIL, "0000:17:01.0", "1xxxxxx@", NULL, CMDLINE " pci=config_acs=1xxxxxx@0000:17:01.0" },
	{ "boot.config-acs-translation", "snc4", PASS, "host", "", NULL, CMDLINE " pci=config_acs=1011101@0000:17:01.0" },
	{ "boot.config-acs-translation", "snc4", FAIL, "0000:17:01.0", "Translation Blocking", NULL, CMDLINE " pci=config_acs=1111111@0000:17:01.0" },
	{ "boot.config-acs-translation", "snc4", FAIL, "0000:17:01.0", "Egress Control", NULL, CMDLINE " pci=config_acs=1111101@0000:17:01.0" },
	{ "boot.config-acs-lost", "snc4", PASS, "host", "", NULL, CMDLINE " pci=config_acs=0011101@0000:17:01.0" },
	{ "boot.config-acs-lost", "snc4", FAIL, "0000:17:01.0", "not as pci=config_acs=1011101@", NULL, CMDLINE " pci=config_acs=1011101@0000:17:01.0" },
	{ "boot.config-acs-lost", "snc4", FAIL, "0000:17:00.0", "ACSCtl is 0x1d", NULL, CMDLINE " pci=config_acs=0000000@pci:1000:c030" },
	{ "boot.config-acs-lost", "snc4", UNKNOWN, "host", "names none", NULL, CMDLINE " pci=config_acs=1011101@0000:ff:01.0" },
	{ "boot.config-acs-lost", "snc4", UNKNOWN, "0000:17:01.0", "run as root", config_is_short, CMDLINE " pci=config_acs=1011101@0000:17:01.0" },

	{ "ats.absent", "xe9680", FAIL, "0000:4d:00.0", "mlxconfig -d 0000:4d:00.0 set ATS_ENABLED=true, then reboot the host" },
	{ "ats.absent", "xe9680", PASS, "host", "", nics_have_ats },
	{ "ats.absent", "xe9680", UNKNOWN, "0000:4d:00.0", "run as root", config_is_short },
	{ "ats.absent", "workstation-epyc-starship-2gpu", NA, "host", "" }, /* no common switch: it would not help */
	{ "ats.absent", "gb200-oci-4gpu", NA, "host", "" }, /* data-direct is direct without it */
	{ "ats.identity", "xe9680", FAIL, "0000:4d:00.0", "kernel 6.8.0 does not set the STU", ats_and_old_kernel },
	{ "ats.identity", "xe9680", UNKNOWN, "0000:4d:00.0", "kernel 6.8.0-45-generic may not set the STU", nics_have_ats }, /* Ubuntu */
	{ "ats.identity", "xe9680", PASS, "host", "", ats_and_new_kernel },
	{ "ats.identity", "xe9680", NA, "host", "" }, /* not come to: there is no ATS */
	{ "ats.platform", "xe9680", UNKNOWN, "0000:4d:00.0", "DMAR ATSR", nics_are_translated },
	{ "ats.platform", "xe9680", PASS, "host", "", ats_and_new_kernel },
	{ "settings.relaxed-ordering", "xe9680", PASS, "host", "" },
	{ "settings.relaxed-ordering", "xe9680", FAIL, "0000:4c:00.0", "setpci -s 0000:4c:00.0 CAP_EXP+8.w=0010:0010", relaxed_off },
	{ "settings.relaxed-ordering", "xe9680", NA, "host", "", config_is_short },
	{ "settings.read-request", "xe9680", PASS, "host", "", big_reads },
	{ "settings.read-request", "xe9680", FAIL, "0000:4c:00.0", "velad sets it for as long as a guest needs it", small_reads },
	{ "settings.payload", "xe9680", PASS, "host", "" },
	{ "settings.payload", "xe9680", FAIL, "0000:4a:01.0", "those of 0000:4c:00.0 128", small_payload },
	{ "settings.extended-tag", "xe9680", PASS, "host", "" },
	{ "settings.extended-tag", "xe9680", FAIL, "0000:4c:00.0", "5-bit tags", short_tags },
	{ "settings.tag-completer", "xe9680", PASS, "host", "" },
	{ "settings.tag-completer", "xe9680", FAIL, "0000:4c:00.0", "cannot answer those", no_completer },
	{ "settings.power", "xe9680", FAIL, "0000:4a:01.0", "echo on > /sys/bus/pci/devices/0000:4a:01.0/power/control", port_may_sleep },
	{ "settings.power", "xe9680", PASS, "host", "", ports_stay_on },
	{ "settings.unread", "xe9680", UNKNOWN, "0000:4c:00.0", "run as root", config_is_short },
	{ "settings.unread", "xe9680", PASS, "host", "" },
	{ "acs.no-dt", "mi300x-8gpu-cx7-inline", PASS, "host", "planned" },
	{ "acs.no-dt", "xe9680", FAIL, "0000:4a:02.0", "ACSCap 0x1f has no Direct Translated P2P", no_dt },
	{ "gdr.direct", "mi300x-8gpu-cx7-inline", PASS, "host", "planned" },
	{ "gdr.direct", "xe9680", UNKNOWN, "0000:4d:00.0", "read the host as root", config_is_short },
	{ "route.apart", "xe9680", PASS, "host", "" },
	{ "route.apart", "workstation-epyc-starship-2gpu", FAIL, "0000:41:00.0", "at NODE" },
	{ "acs.missing", "xe9680", PASS, "host", "" },
	{ "acs.missing", "consumer-no-acs", FAIL, "0000:00:01.0", "a root port without ACS" },
	{ "acs.missing", "xe9680", UNKNOWN, "0000:4a:02.0", "run as root", config_is_short },
	{ "acs.tb", "xe9680", PASS, "host", "" },
	{ "acs.tb", "xe9680", FAIL, "0000:4a:02.0", "ACSCtl 0x7f", tb_set },
	{ "acs.tb", "xe9680", UNKNOWN, "0000:4a:02.0", "run as root", config_is_short },
	{ "acs.ec", "xe9680", PASS, "host", "" },
	{ "acs.ec", "xe9680", FAIL, "0000:4a:02.0", "Egress Control is set", ec_set },
	{ "acs.ec", "xe9680", UNKNOWN, "0000:4a:02.0", "run as root", config_is_short },

	{ "gpu.no-flr", "xe9680", PASS, "host", "flr" },
	{ "gpu.no-flr", "xe9680", FAIL, "0000:4c:00.0", "\"pm bus\"", bus_reset_only },
	{ "gpu.no-flr", "xe9680", UNKNOWN, "0000:4c:00.0", "reset_method", reset_unknown },
	{ "gpu.amd-pf", "mi300x-8gpu-cx7-inline", FAIL, "0000:1e:00.0", "load gim" },
	{ "gpu.amd-pf", "mi300x-8gpu-cx7-inline", UNKNOWN, "0000:1e:00.0", "run as root", config_is_short },
	{ "gpu.amd-pf", "mi300x-8gpu-cx7-inline", PASS, "host", "1 VF", amd_vfs_made },
	{ "gpu.amd-pf", "xe9680", NA, "host", "" },
	{ "gpu.bar-qemu", "xe9680", UNKNOWN, "host", "128 GiB" },
	{ "gpu.bar-qemu", "xe9680", FAIL, "host", "QEMU 8.2.2", NULL, NULL, 8002002 },
	{ "gpu.bar-qemu", "xe9680", PASS, "host", "QEMU 10.1.0", NULL, NULL, 10001000 },
	{ "gpu.bar-qemu", "lab", NA, "host", "" },
	{ "gpu.bar-kernel", "xe9680", FAIL, "host", "6.8.0", ats_and_old_kernel },
	{ "gpu.bar-kernel", "xe9680", UNKNOWN, "host", "6.8.0-45-generic, which may not" },
	{ "gpu.bar-kernel", "xe9680", PASS, "host", "6.12.0", new_kernel },
	{ "gpu.bar-kernel", "xe9680", UNKNOWN, "host", "", no_kernel },
	{ "fabric.mode", "xe9680", PASS, "host", "FABRIC_MODE=1" },
	{ "fabric.mode", "xe9680-iommu-off", FAIL, "host", "no Fabric Manager" },
	{ "fabric.mode", "xe9680", FAIL, "host", "FABRIC_MODE=2 (vGPU)", vgpu_fabric },
	{ "fabric.mode", "xe9680", UNKNOWN, "host", "", unknown_fabric },
	{ "fabric.mode", "workstation-epyc-starship-2gpu", NA, "host", "" },

	{ "nic.sriov-off", "xe9680", PASS, "host", "" },
	{ "nic.sriov-off", "xe9680", FAIL, "0000:4d:00.0", "mlxconfig -d 0000:4d:00.0 set SRIOV_EN=1 NUM_OF_VFS=8", no_vfs },
	{ "nic.sriov-off", "cascade", FAIL, "0000:34:01.0", "no SR-IOV capability" },
	{ "nic.sriov-off", "xe9680", UNKNOWN, "0000:4d:00.0", "run as root", config_is_short },
	{ "nic.count", "xe9680", PASS, "host", "12 NIC ports for 8 GPUs" },
	{ "nic.count", "h20-genoa-pex890xx", FAIL, "host", "4 NIC ports for 8 GPUs" },
	{ "nic.port-down", "xe9680", PASS, "host", "" },
	{ "nic.port-down", "xe9680", FAIL, "0000:4d:00.0", "is INIT", port_polls },
	{ "nic.port-down", "xe9680", UNKNOWN, "0000:4d:00.0", "", port_unknown },

	{ "host.kvm-missing", "xe9680", PASS, "host", "" },
	{ "host.kvm-missing", "xe9680", FAIL, "host", "modprobe kvm_intel", no_kvm },
	{ "host.kvm-missing", "xe9680", UNKNOWN, "host", "", kvm_unknown },
	{ "vfio.missing", "xe9680", PASS, "host", "velad loads it" },
	{ "vfio.missing", "snc4", PASS, "host", "it is loaded" },
	{ "vfio.missing", "xe9680", FAIL, "host", "linux-modules-extra", no_module },
	{ "vfio.missing", "xe9680", FAIL, "host", "has no module vfio-pci", NULL, "vfio/pci/mlx5-vfio-pci.ko", 0, "vfio/pci/vfio-pci.ko" },
	{ "vfio.missing", "xe9680", UNKNOWN, "host", "modprobe -n", module_unknown },
	{ "iommu.intremap", "xe9680", PASS, "host", "" },
	{ "iommu.intremap", "xe9680", FAIL, "host", "x2APIC", not_remapped },
	{ "iommu.intremap", "xe9680", FAIL, "host", "x2APIC", NULL, "\tIO-APIC", 0, "\tIR-IO-APIC" },
	{ "iommu.intremap", "xe9680", UNKNOWN, "host", "IR-IO-APIC", remapping_unknown },
	{ "iommu.intremap", "gb200-oci-4gpu", NA, "host", "" },
	{ "vfio.peer-mapping", "xe9680", PASS, "host", "type1", with_type1 },
	{ "vfio.peer-mapping", "xe9680", FAIL, "host", "modprobe vfio_iommu_type1", iommufd_only },
	{ "kvm.posted-interrupts", "xe9680", PASS, "host", "enable_apicv=Y", apicv_on },
	{ "kvm.posted-interrupts", "xe9680", FAIL, "host", "options kvm_intel enable_apicv=1", apicv_off },
	{ "kvm.posted-interrupts", "xe9680", UNKNOWN, "host", "avic is unknown", kvm_without_params },
	{ "host.virtual", "xe9680", PASS, "host", "" },
	{ "host.virtual", "azure-ndv4-a100-guest", FAIL, "host", "Microsoft Corporation Virtual Machine" },
	{ "host.virtual", "xe9680", UNKNOWN, "host", "", virtual_unknown },
	{ "memory.hugepages", "xe9680", PASS, "host", "" },
	{ "memory.hugepages", "xe9680", FAIL, "host", "hugepagesz=1G", no_hugepages },
	{ "memory.hugepages", "xe9680", UNKNOWN, "host", "", no_pools },
	{ "guest.unknown", "xe9680", NA, "host", "" },
	{ "guest.unknown", "xe9680", PASS, "host", "is an instance", .said = { .asked = CHECK_ASKED } },
	{ "guest.unknown", "xe9680", UNKNOWN, "host", "libvirtd", .said = { .asked = CHECK_ASKED_IN_VAIN } },
	{ "guest.unknown", "xe9680", FAIL, "0000:19:00.0", "domain other, which is running, has it",
	  .said = { .asked = CHECK_ASKED, .stranger = &stranger, .nstrangers = 1 } },
	{ "guest.unknown", "xe9680", FAIL, "0000:19:00.0", "virsh detach-device", /* as it was when libvirt answered */
	  .said = { .asked = CHECK_ASKED_IN_VAIN, .stranger = &stranger, .nstrangers = 1 } },

	{ "boot.acs-override", "xe9680", FAIL, "host", "take it out", NULL, CMDLINE " pcie_acs_override=downstream" },
	{ "pci.config-dead", "odd", FAIL, "0000:01:00.0", "sleeps in D3cold" },
	{ "pcie.link-width", "cascade", FAIL, "0000:32:00.0", "x8, both ends can do" },
	{ "topo.vfs-missing", "odd", FAIL, "0000:0c:00.0", "sriov_numvfs" },
};

static struct host host_of_row(const struct row *r)
{
	struct check_input in = r->said;

	in.qemu = r->qemu;
	return host_asked(host_topo(r->host, !r->option ? NULL : r->from ? r->from : CMDLINE, r->option, r->change), in);
}

static void rules_say_what_is_so(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		struct host h = host_of_row(r);
		const struct check_finding *f = host_finds(&h, r->id, r->component);

		if (!f)
			fail_msg("%s on %s: nothing at %s", r->id, r->host, r->component);
		if (f->result != r->result || (!strstr(f->observed, r->says) && !strstr(f->fix, r->says)))
			fail_msg("%s on %s (row %zu): %s, \"%s\", fix \"%s\"", r->id, r->host, i, check_result_text(f->result), f->observed, f->fix);
		host_done(&h);
	}
}

/* Rules that only repeat what the inventory found are told by a finding put there. */
static const char *put;

static void put_finding(struct inventory *inv)
{
	inv->system.fabric.configured = true;
	assert_int_equal(host_finding_add(inv, put, BDF_NONE, "what was seen; what to do"), 0);
}

static void every_rule_has_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < check_rule_count(); i++) {
		const char *id = check_rule_at(i)->id;
		bool own = false;

		for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
			own = own || (strcmp(rows[k].id, id) == 0 && rows[k].result == PASS);
		if (!own) {
			struct host good = host_of(host_topo("xe9680", NULL, NULL, NULL), 0), bad;
			const struct check_finding *f = host_finds(&good, id, "");

			if (f->result > CHECK_PASS)
				fail_msg("%s has no case where it passes", id);
			put = id;
			bad = host_of(host_topo("xe9680", NULL, NULL, put_finding), 0);
			f = host_finds(&bad, id, "host");
			if (!f || f->result > CHECK_UNKNOWN)
				fail_msg("%s has no case where it fails", id);
			if (strstr(f->observed, "what to do"))
				fail_msg("%s: the fix is in what was observed: %s", id, f->observed);
			host_done(&good);
			host_done(&bad);
		}
	}
}

/* ---- of all rules on all hosts -------------------------------------------------------------------------- */

static const char *const hosts[] = { "azure-ndv4-a100-guest", "cascade", "consumer-no-acs", "dgx-a100", "gb200-oci-4gpu", "h20-genoa-pex890xx",
				     "hgx-b200-8gpu", "hpe-gen9-sriov", "ibm-vpc-gx3d-h100-guest", "kvm-h200-guest-pxb-switch", "l40s-4u",
				     "lab", "mi300x-8gpu-cx7-inline", "odd", "snc4", "workstation-epyc-starship-2gpu", "xe9680",
				     "xe9680-iommu-off" };

static bool depends_on_acs(const char *id)
{
	return strncmp(id, "acs.", 4) == 0 || strncmp(id, "ats.", 4) == 0 || strcmp(id, "gdr.direct") == 0 ||
	       strcmp(id, "group.claims-more") == 0 || strcmp(id, "group.switch-flaw") == 0 || strcmp(id, "group.coarse") == 0 ||
	       strcmp(id, "boot.config-acs-lost") == 0;
}

static void check_complete(const struct host *h, const char *name)
{
	for (size_t i = 0; i < check_rule_count(); i++)
		if (!host_finds(h, check_rule_at(i)->id, ""))
			fail_msg("%s: nothing is said of %s", name, check_rule_at(i)->id);
	for (size_t i = 0; i < h->report->n; i++) {
		const struct check_finding *f = &h->report->finding[i];
		bool bad = f->result <= CHECK_UNKNOWN;

		if (bad != (*f->needed && *f->fix) || (bad && !*f->observed))
			fail_msg("%s: %s %s lacks what was observed, needed, or the fix", name, f->rule->id, check_result_text(f->result));
	}
}

static void failures_have_a_fix(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct host h = host_of(host_topo(hosts[i], NULL, NULL, NULL), 0);

		check_complete(&h, hosts[i]);
		host_done(&h);
	}
}

static void unknown_is_never_ok(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct host h = host_of(host_topo(hosts[i], NULL, NULL, config_is_short), 0);

		check_complete(&h, hosts[i]);
		for (size_t k = 0; k < h.report->n; k++)
			if (depends_on_acs(h.report->finding[k].rule->id) && h.report->finding[k].result == CHECK_PASS)
				fail_msg("%s, as an ordinary user: %s passes: %s", hosts[i], h.report->finding[k].rule->id,
					 h.report->finding[k].observed);
		host_done(&h);
	}
}

static void order_is_by_gravity(void **state)
{
	struct host h = host_of(host_topo("odd", NULL, NULL, NULL), 0);

	(void)state;
	for (size_t i = 1; i < h.report->n; i++) {
		const struct check_finding *a = &h.report->finding[i - 1], *b = &h.report->finding[i];

		assert_true(a->result <= CHECK_UNKNOWN || b->result > CHECK_UNKNOWN);
		if (a->result == CHECK_FAIL && b->result == CHECK_FAIL)
			assert_true(a->rule->severity <= b->rule->severity);
	}
	host_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_say_what_is_so), cmocka_unit_test(every_rule_has_cases), cmocka_unit_test(failures_have_a_fix),
		cmocka_unit_test(unknown_is_never_ok),	cmocka_unit_test(order_is_by_gravity),
	};

	return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
