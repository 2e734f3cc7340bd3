/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VFs come and go as in drivers/pci/iov.c; with --vf-delay they come later, which no kernel does, but what udev and
 * drivers add to them comes so. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "sim.h"

/* A 16-bit register of the PF's SR-IOV capability (PCIe 9.3.3); an attribute where the text host has none. */
static unsigned sriov_number(const struct node *pf, uint16_t reg, const char *attr, int base)
{
	const struct node *config = config_of(pf);
	uint16_t at = config ? config_ecap(config, PCI_EXT_CAP_ID_SRIOV) : 0;

	return at ? config_get16(config, at + reg) : (unsigned)node_number(pf, attr, base);
}

/* pci_iov_virtfn_bus() and pci_iov_virtfn_devfn() */
static bool vf_name(char name[BDF_TEXT_MAX], const struct node *pf, unsigned i)
{
	unsigned first = sriov_number(pf, PCI_SRIOV_VF_OFFSET, "sriov_offset", 10);
	unsigned stride = sriov_number(pf, PCI_SRIOV_VF_STRIDE, "sriov_stride", 10);
	struct bdf b;

	if (!first || !bdf_parse(&b, pf->name) || !bdf_add(&b, b, first + i * stride))
		return false;
	(void)bdf_text(name, b);
	return true;
}

/* ---- one VF ----------------------------------------------------------------------------------------- */

/* Ids read ffff in a VF (PCIe 9.3.4.1.1); one PCI Express capability, an endpoint that can FLR; ATS if the PF has it
 * (its queue depth is the PF's and reads 0, 10.5.1.2). */
static void make_config(struct sim *s, const char *path, const struct node *pf)
{
	enum { EXP = 0x60, EXT = 0x100 };
	const struct node *of_pf = config_of(pf);
	uint16_t ats = of_pf ? config_ecap(of_pf, PCI_EXT_CAP_ID_ATS) : 0;
	struct node *n = node_add(s, TEXT_BYTES, NULL, "%s/config", path);

	memset(n->bytes, 0, n->len);
	memset(n->bytes, 0xff, 4);
	n->bytes[PCI_STATUS] = PCI_STATUS_CAP_LIST;
	if (of_pf) {
		memcpy(n->bytes + PCI_CLASS_REVISION, of_pf->bytes + PCI_CLASS_REVISION, 4);
		memcpy(n->bytes + PCI_SUBSYSTEM_VENDOR_ID, of_pf->bytes + PCI_SUBSYSTEM_VENDOR_ID, 4);
	}
	n->bytes[PCI_CAPABILITY_LIST] = EXP;
	n->bytes[EXP] = PCI_CAP_ID_EXP;
	n->bytes[EXP + PCI_EXP_FLAGS] = 2;
	n->bytes[EXP + PCI_EXP_DEVCAP + 3] = PCI_EXP_DEVCAP_FLR >> 24;
	if (!ats)
		return;
	config_put16(n, EXT, PCI_EXT_CAP_ID_ATS);
	config_put16(n, EXT + 2, 1);
	config_put16(n, EXT + PCI_ATS_CAP, config_get16(of_pf, ats + PCI_ATS_CAP) & (uint16_t)~0x1f);
}

/* pci_uevent() */
static void make_uevent(struct sim *s, const char *path, const struct node *pf)
{
	const struct node *config = config_of(pf);
	uint32_t class = config ? config_get32(config, PCI_CLASS_REVISION) >> 8 : 0;
	uint32_t sub = config ? config_get32(config, PCI_SUBSYSTEM_VENDOR_ID) : 0;
	unsigned v = config ? config_get16(config, PCI_VENDOR_ID) : 0, sv = sub & 0xffff, sd = sub >> 16;
	unsigned d = sriov_number(pf, PCI_SRIOV_VF_DID, "sriov_vf_device", 16);
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\n"
		       "MODALIAS=pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
		       class, v, d, sv, sd, strrchr(path, '/') + 1, v, d, sv, sd, class >> 16, class >> 8 & 0xff,
		       class & 0xff);
	(void)node_add(s, TEXT_FILE, text, "%s/uevent", path);
}

static void make_files(struct sim *s, const char *path, const struct node *pf)
{
	static const char *const inherited[] = { "vendor",           "class",    "revision", "subsystem_vendor",
						 "subsystem_device", "numa_node" };
	static const char *const own[][2] = { { "driver_override", "(null)" },
					      { "enable", "0" },
					      { "irq", "0" },
					      { "power_state", "D0" },
					      { "d3cold_allowed", "1" },
					      { "power/control", "on" },
					      { "reset", NULL },
					      { "current_link_speed", "Unknown" },
					      { "current_link_width", "0" },
					      { "max_link_speed", "Unknown" },
					      { "max_link_width", "0" } };
	char device[16];

	for (size_t i = 0; i < ARRAY_SIZE(inherited); i++)
		if (node_attr(pf, inherited[i]))
			(void)node_add(s, TEXT_FILE, node_attr(pf, inherited[i])->text, "%s/%s", path, inherited[i]);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)node_add(s, TEXT_FILE, own[i][1], "%s/%s", path, own[i][0]);
	(void)snprintf(device, sizeof(device), "0x%04x", sriov_number(pf, PCI_SRIOV_VF_DID, "sriov_vf_device", 16));
	(void)node_add(s, TEXT_FILE, device, "%s/device", path);
	node_add(s, TEXT_FILE, "flr", "%s/reset_method", path)->methods = "flr";
	make_config(s, path, pf);
	make_uevent(s, path, pf);
}

/* Most drivers know their VFs; Intel's have others for them. */
static const char *vf_driver(const struct node *pf)
{
	static const char *const other[][2] = {
		{ "igb", "igbvf" },
		{ "ixgbe", "ixgbevf" },
		{ "i40e", "iavf" },
		{ "ice", "iavf" },
	};

	for (size_t i = 0; pf->home && i < ARRAY_SIZE(other); i++)
		if (strcmp(pf->home, other[i][0]) == 0)
			return other[i][1];
	return pf->home;
}

/* pci_iov_add_virtfn(): the device, its links, then the driver that wants it. */
static bool vf_add(struct sim *s, struct node *pf, unsigned i)
{
	char name[BDF_TEXT_MAX], path[SIM_PATH_MAX], target[2 * SIM_PATH_MAX], up[SIM_PATH_MAX];
	struct node *vf;

	if (!vf_name(name, pf, i))
		return false;
	(void)node_path(up, pf->parent);
	if (strlen(up) + sizeof(name) >= sizeof(path))
		return false;
	(void)snprintf(path, sizeof(path), "%.*s/%s", (int)(sizeof(path) - sizeof(name) - 1), up, name);
	make_files(s, path, pf);
	vf = node_find(s, "%s", path);
	vf->pf = pf;
	group_add(s, vf);
	node_link(s, vf, "sys/bus/pci/devices/%s", name);
	sim_attach(vf);
	uevent(s, "add", vf);
	(void)snprintf(target, sizeof(target), "../%s", pf->name);
	(void)node_add(s, TEXT_LINK, target, "%s/physfn", path);
	(void)snprintf(target, sizeof(target), "../%s", name);
	(void)node_add(s, TEXT_LINK, target, "%s/virtfn%u", node_path(up, pf), i);
	vf_fresh(s, pf, i);
	uevent(s, "change", vf);
	vf->home = vf_driver(pf);
	sim_probe(s, vf);
	return true;
}

/* ---- the PF ----------------------------------------------------------------------------------------- */

/* VF Enable, VF Memory Space Enable and NumVFs in the PF's SR-IOV capability, as sriov_enable() leaves them. */
static void set_count(struct node *pf, unsigned n)
{
	struct node *config = config_of(pf);
	uint16_t at = config ? config_ecap(config, PCI_EXT_CAP_ID_SRIOV) : 0;
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", n);
	node_text(node_attr(pf, "sriov_numvfs"), text);
	pf->change++;
	if (!at)
		return;
	config->bytes[at + PCI_SRIOV_CTRL] &= (uint8_t) ~(PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE);
	config->bytes[at + PCI_SRIOV_CTRL] |= n ? PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE : 0;
	config->bytes[at + PCI_SRIOV_NUM_VF] = (uint8_t)n;
	config->bytes[at + PCI_SRIOV_NUM_VF + 1] = (uint8_t)(n >> 8);
}

void sriov_disable(struct sim *s, struct node *pf)
{
	unsigned now = (unsigned)node_number(pf, "sriov_numvfs", 10);
	char name[BDF_TEXT_MAX];

	for (unsigned i = 0; i < now; i++) {
		struct node *vf = vf_name(name, pf, i) ? sim_device(s, name) : NULL;

		vf_gone(s, pf, i);
		if (vf && vf->pf == pf)
			sim_remove(s, vf);
	}
	if (now)
		set_count(pf, 0);
}

/* ---- VFs to come ------------------------------------------------------------------------------------ */

struct later {
	struct sim *s;
	struct node *pf;
	unsigned n, change;
	struct spoil spoil;
};

/* sriov_add_vfs() takes back those before one that fails. */
static int add_vf(const struct later *l, unsigned i)
{
	if (l->spoil.missing && l->spoil.vf == i)
		return 0;
	if (vf_add(l->s, l->pf, i))
		return 0;
	sriov_disable(l->s, l->pf);
	return -ENOMEM;
}

static void *add_later(void *arg)
{
	autofree struct later *l = arg;
	struct timespec nap = { .tv_sec = l->s->vf_delay / 1000, .tv_nsec = l->s->vf_delay % 1000 * 1000000L };

	for (unsigned i = 0; i < l->n; i++) {
		(void)nanosleep(&nap, NULL);
		sim_lock();
		if (l->pf->change != l->change || l->pf->dead || add_vf(l, i) < 0)
			l->n = 0;
		else if (i + 1 == l->n)
			uevent(l->s, "change", l->pf);
		sim_unlock();
	}
	return NULL;
}

static int add_vfs(struct sim *s, struct node *pf, unsigned n)
{
	struct later l = { .s = s, .pf = pf, .n = n, .change = pf->change, .spoil = s->now }, *copy;
	pthread_t t;
	int r = 0;

	if (s->vf_delay) {
		copy = malloc(sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		*copy = l;
		if (pthread_create(&t, NULL, add_later, copy) == 0)
			return -pthread_detach(t);
		free(copy);
		return -EAGAIN;
	}
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = add_vf(&l, i);
	if (r == 0)
		uevent(s, "change", pf);
	return r;
}

/* sriov_drivers_autoprobe_store() */
int autoprobe_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	bool known = (*value == '0' || *value == '1') && (!value[1] || strcmp(value + 1, "\n") == 0);

	(void)s;
	(void)len;
	(void)off;
	if (!known)
		return -EINVAL;
	node_text(n, *value == '1' ? "1" : "0");
	return 0;
}

/* sriov_numvfs_store(), the checks in its order. vfio_pci_core_sriov_configure() says ENOENT unless the module
 * was loaded with enable_sriov; pcieport has no sriov_configure at all. */
int sriov_numvfs_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *pf = n->parent;
	const char *driver = sim_driver(pf);
	unsigned now = (unsigned)node_number(pf, "sriov_numvfs", 10);
	unsigned long want;
	char *end;

	(void)len;
	(void)off;
	want = strtoul(value, &end, 0);
	if (end == value || (*end && *end != '\n') || *value == '-' || want > UINT16_MAX)
		return -EINVAL;
	if (want > node_number(pf, "sriov_totalvfs", 10))
		return -ERANGE;
	if (want == now)
		return 0;
	if (!driver[0] || strcmp(driver, SIM_VFIO) == 0 || strcmp(driver, "pcieport") == 0)
		return -ENOENT;
	if (want && now)
		return -EBUSY;
	if (!want) {
		sriov_disable(s, pf);
		return 0;
	}
	set_count(pf, (unsigned)want);
	return add_vfs(s, pf, (unsigned)want);
}
