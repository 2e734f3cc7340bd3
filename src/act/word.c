/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Control words in config space: read, and changed by one write of two bytes; of the word only the bits listed here ever
 * change. Where it lies is found by our own walk, and anew for each change. Who only looks, and looks again, reads the
 * head of the capability with it, which says whether it still lies there. */
#include "act/pci.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/pci_regs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "host/pcicap.h"
#include "host/root.h"

/* linux/pci_regs.h has no names for these (PCIe 6.0, 7.5.3.15 and 7.5.3.16). */
#define DEVCAP2_10BIT_TAG_REQ 0x20000
#define DEVCTL2_10BIT_TAG_REQ 0x1000

/* Never written: Max_Payload_Size, which must be the same all the way; of ATS, nothing: it is the IOMMU driver's. */
static const struct kind {
	const char *of, *name, *capability; /* in words */
	bool        optional; /* a function may have its bits hard-wired, and no capability says so */
	struct {
		uint16_t    bits;
		const char *name; /* as lspci has it */
	} may[3];
} kinds[ACT_WORD_MAX_] = {
	[ACT_ACS]     = { "port", "ACS control", "ACS", false, { { PCI_ACS_DT, "DirectTrans" }, { PCI_ACS_TB, "TransBlk" } } },
	[ACT_ATS]     = { "function", "ATS control", "ATS", false, { { 0, NULL } } },
	[ACT_DEVCTL]  = { "function", "device control", "PCI Express", true,
			  { { PCI_EXP_DEVCTL_RELAX_EN, "RlxdOrd" }, { PCI_EXP_DEVCTL_EXT_TAG, "ExtTag" },
			    { PCI_EXP_DEVCTL_READRQ, "MaxReadReq" } } },
	[ACT_DEVCTL2] = { "function", "device control 2", "PCI Express 2", true, { { DEVCTL2_10BIT_TAG_REQ, "10BitTagReq" } } },
};

#define SPOTS 256 /* and as many open files */

struct spot { /* a capability that was looked at */
	struct bdf         fn;
	enum act_word      which;
	uint16_t           at;
	bool               used;
	struct host_config config; /* open while used */
};

struct act_words {
	pthread_mutex_t lock;
	size_t          next; /* to be given to somebody else, when all are used */
	struct spot     spot[SPOTS];
};

struct word {
	enum host_known known;
	size_t          at;
	uint16_t        now, can; /* can: bits that the capability lets be set */
};

uint16_t act_word_bits(enum act_word which)
{
	uint16_t bits = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds[which].may); i++)
		bits |= kinds[which].may[i].bits;
	return bits;
}

static int config_read(void *self, uint16_t off, unsigned n, uint32_t *ret)
{
	return host_config_read(self, off, n, ret);
}

/* ACS 7.7.11, ATS 10.5.1, Device Control 7.5.3.4, Device Control 2 7.5.3.16 of PCIe 6.0. */
static struct word locate(const struct pcicap *c, enum act_word which)
{
	uint16_t tag = c->devcap & PCI_EXP_DEVCAP_EXT_TAG ? 0 : PCI_EXP_DEVCTL_EXT_TAG;
	uint16_t tag2 = c->devcap2 & DEVCAP2_10BIT_TAG_REQ ? 0 : DEVCTL2_10BIT_TAG_REQ;
	enum host_known pcie = c->pcie == HOST_ABSENT ? HOST_ABSENT : HOST_UNKNOWN;
	const struct word word[ACT_WORD_MAX_] = {
		[ACT_ACS]     = { c->acs.known, (size_t)c->acs.at + PCI_ACS_CTRL, c->acs.ctl, c->acs.cap },
		[ACT_ATS]     = { c->ats.known, (size_t)c->ats.at + PCI_ATS_CTRL, c->ats.ctl, 0 },
		[ACT_DEVCTL]  = { c->dev_known ? HOST_PRESENT : pcie, (size_t)c->pcie_at + PCI_EXP_DEVCTL, c->devctl,
				  (uint16_t)~tag },
		[ACT_DEVCTL2] = { c->dev2_known ? HOST_PRESENT : pcie, (size_t)c->pcie_at + PCI_EXP_DEVCTL2, c->devctl2,
				  (uint16_t)~tag2 },
	};

	return word[which];
}

/* ---- looking again ---------------------------------------------------------------------------------- */

/* 0: a standard capability, which has no word with it. */
static uint16_t id_of(enum act_word which)
{
	return which == ACT_ACS ? PCI_EXT_CAP_ID_ACS : which == ACT_ATS ? PCI_EXT_CAP_ID_ATS : 0;
}

static void leave(struct spot *s)
{
	if (s->used)
		host_config_close(&s->config);
	s->used = false;
}

/* Both capabilities: a dword that says which it is, then capability and control. A function that went is an error here,
 * also when another came in its place (kernfs_fop_read_iter()). */
static bool look_again(const struct act_pci *p, uint16_t *ret, struct bdf fn, enum act_word which)
{
	struct act_words *w = p->words;
	uint32_t v[2];
	bool found = false;

	if (!w)
		return false;
	(void)pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < SPOTS && !found; i++) {
		struct spot *s = &w->spot[i];

		if (!s->used || s->which != which || !bdf_eq(s->fn, fn))
			continue;
		found = host_config_read(&s->config, s->at, 2, v) == 0 && (v[0] & 0xffff) == id_of(which);
		if (!found)
			leave(s);
		break;
	}
	(void)pthread_mutex_unlock(&w->lock);
	if (found)
		*ret = (uint16_t)(v[1] >> 16);
	return found;
}

/* Where it cannot be kept, it is found anew the next time. */
static void remember(const struct act_pci *p, struct bdf fn, enum act_word which, const char *path, size_t at)
{
	struct act_words *w = p->words;
	struct host_config c;
	struct spot *s;

	if (!w || !id_of(which) || host_config_open(&c, p->root, "%s/config", path) < 0)
		return;
	(void)pthread_mutex_lock(&w->lock);
	s = &w->spot[w->next++ % SPOTS];
	leave(s);
	*s = (struct spot){ .fn = fn, .which = which, .at = (uint16_t)(at - PCI_ACS_CTRL), .used = true, .config = c };
	(void)pthread_mutex_unlock(&w->lock);
}

struct act_words *act_words_new(void)
{
	struct act_words *w = calloc(1, sizeof(*w));

	if (w)
		(void)pthread_mutex_init(&w->lock, NULL); /* glibc: never fails without attributes */
	return w;
}

struct act_words *act_words_free(struct act_words *w)
{
	for (size_t i = 0; w && i < SPOTS; i++)
		leave(&w->spot[i]);
	if (w)
		(void)pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

/* ---- finding, changing ------------------------------------------------------------------------------ */

static int read_word(const struct act_pci *p, struct word *ret, enum act_word which, const char *path, const char *name,
		     struct error *err)
{
	const struct kind *k = &kinds[which];
	struct host_config c;
	struct pcicap cap;
	int r = host_config_open(&c, p->root, "%s/config", path);

	if (r < 0)
		return error_set(err, -EIO, "cannot read the config space of %s: %s", name, strerror(-r));
	pcicap_walk(&cap, config_read, &c);
	host_config_close(&c);
	if (cap.dead)
		return error_set(err, -EIO, "the config space of %s %s reads as ff: it fell off the bus or sleeps in D3cold; "
				 "reset or power-cycle it", k->of, name);
	*ret = locate(&cap, which);
	if (ret->known == HOST_UNKNOWN)
		return error_set(err, -EIO, "cannot read the %s capability of %s %s; velad must be root on the real machine",
				 k->capability, k->of, name);
	if (ret->known == HOST_ABSENT)
		return error_set(err, -ENXIO, "%s %s has no %s capability", k->of, name, k->capability);
	return 0;
}

/* "DirectTrans and TransBlk" */
static const char *bit_names(char out[64], const struct kind *k, uint16_t bits)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(k->may) && n < 64; i++)
		if (bits & k->may[i].bits)
			n += (size_t)snprintf(out + n, 64 - n, "%s%s", n ? " and " : "", k->may[i].name);
	return out;
}

/* A kernel that is locked down (CONFIG_SECURITY_LOCKDOWN_LSM, LOCKDOWN_PCI_ACCESS) says EPERM. */
static int write_word(const struct act_pci *p, const struct word *w, uint16_t want, const struct kind *k, const char *path,
		      const char *name, struct error *err)
{
	uint16_t word = htole16(want);
	int r = host_write_at(p->root, &word, sizeof(word), w->at, "%s/config", path);

	if (r == -EPERM)
		return error_set(err, -EIO, "%s %s: cannot write %s 0x%02x: %s; velad must be root, and the kernel not "
				 "locked down (/sys/kernel/security/lockdown)", k->of, name, k->name, want, strerror(-r));
	if (r < 0)
		return error_set(err, r == -EBUSY ? -EBUSY : -EIO, "%s %s: cannot write %s 0x%02x: %s", k->of, name, k->name,
				 want, strerror(-r));
	return 0;
}

int act_pci_word(const struct act_pci *p, uint16_t *ret, struct bdf fn, enum act_word which, uint16_t set, uint16_t clear,
		 struct error *err)
{
	const struct kind *k = &kinds[which];
	char path[HOST_PATH_MAX], name[BDF_TEXT_MAX], bits[64];
	uint16_t want, wrong;
	struct word now;
	int r;

	assert(((set | clear) & ~act_word_bits(which)) == 0 && (set & clear) == 0);
	if (!(set | clear) && look_again(p, ret, fn, which))
		return 0;
	r = act_pci_path(p, path, fn, err);
	if (r == 0)
		r = read_word(p, &now, which, path, bdf_text(name, fn), err);
	if (r < 0)
		return r;
	if (set & ~now.can)
		return error_set(err, -ENXIO, "%s %s has no %s (its %s capability says so)", k->of, name,
				 bit_names(bits, k, set & (uint16_t)~now.can), k->capability);
	want = (uint16_t)((now.now | set) & ~clear);
	if (want != now.now) {
		r = write_word(p, &now, want, k, path, name, err);
		if (r == 0)
			r = read_word(p, &now, which, path, name, err);
		if (r < 0)
			return r;
	}
	wrong = (uint16_t)((now.now ^ want) & (set | clear));
	if (wrong)
		return error_set(err, k->optional ? -ENXIO : -EIO, "%s %s: %s is 0x%02x after 0x%02x was written: %s did not change", k->of, name,
				 k->name, now.now, want, bit_names(bits, k, wrong));
	if (!(set | clear))
		remember(p, fn, which, path, now.at);
	*ret = now.now;
	return 0;
}
