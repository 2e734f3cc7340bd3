/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is looked at and is not velad's to set: ATS of the guests' functions, which the kernel enables when VFIO attaches
 * them to the guest's I/O address space (topo/ats), and the counters of PCIe errors. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdlib.h>
#include <time.h>

#include "base/strtab.h"
#include "instance/manager.h"

#define SETTLE_MS 200 /* FLR takes 100 ms (PCIe 6.0, 6.6.2), and then the kernel restores ATS (pci_restore_state()) */

const char *inst_ats_text(enum inst_ats a)
{
	static const char *const text[INST_ATS_MAX_] = { "unknown", "off", "on" };

	return strtab_text(text, INST_ATS_MAX_, (int)a);
}

/* ---- ATS -------------------------------------------------------------------------------------------- */

static void look(struct inst_manager *m, struct kept *k)
{
	uint16_t ctl = 0;

	k->looked = true;
	k->err = ERROR_INIT;
	k->r = m->env.act.ops->word(m->env.act.self, &ctl, k->bdf, ACT_ATS, 0, 0, &k->err);
	k->ats = k->r == -ENXIO ? INST_ATS_OFF : k->r < 0 ? INST_ATS_UNKNOWN : ctl & PCI_ATS_CTRL_ENABLE ? INST_ATS_ON : INST_ATS_OFF;
	if (k->r == 0 && k->ats == INST_ATS_OFF)
		k->r = error_set(&k->err, -ENODATA, "ATS of %s is not enabled although its guest runs, so what it asks for goes through the "
				 "root complex; boot a kernel from 6.12 on, or with iommu=nopt, and look for ATS in the firmware's "
				 "setup", k->device);
}

/* A plan that could not have it said so, and a GPU's has no part in what a NIC asks for. */
static void judge(struct kept *k)
{
	if (k->kind == KEPT_GPU || (!k->required && k->r != -ENODATA))
		k->r = 0;
	if (k->ats == INST_ATS_ON)
		k->told = false;
}

static int publish(struct inst_manager *m)
{
	struct keep *k = &m->keep;
	struct keep_seen *seen = calloc(k->n + 1, sizeof(*seen));
	size_t n = 0;

	for (size_t i = 0; seen && i < k->n; i++)
		if (k->at[i].kind != KEPT_PORT)
			seen[n++] = (struct keep_seen){ k->at[i].bdf, k->at[i].ats };
	(void)pthread_mutex_lock(&k->seen_lock);
	free(k->seen);
	k->seen = seen;
	k->nseen = n;
	k->looks++;
	(void)pthread_mutex_unlock(&k->seen_lock);
	return seen ? 0 : -ENOMEM;
}

void keep_ats(struct inst_manager *m)
{
	struct keep *k = &m->keep;
	bool again = false;

	for (size_t i = 0; i < k->n; i++) {
		enum inst_ats was = k->at[i].ats;

		if (k->at[i].kind == KEPT_PORT)
			continue;
		look(m, &k->at[i]);
		again = again || (k->at[i].kind == KEPT_NIC && was != k->at[i].ats && k->at[i].r < 0 && k->at[i].r != -ENXIO);
	}
	if (again) /* a guest may be resetting it just now */
		(void)nanosleep(&(struct timespec){ .tv_nsec = SETTLE_MS * 1000000L }, NULL);
	for (size_t i = 0; i < k->n; i++) {
		if (k->at[i].kind == KEPT_PORT)
			continue;
		if (again && k->at[i].ats != INST_ATS_ON)
			look(m, &k->at[i]);
		judge(&k->at[i]);
	}
	(void)publish(m); /* without memory all are unknown */
}

enum inst_ats keep_seen(struct inst_manager *m, struct bdf bdf)
{
	struct keep *k = &m->keep;
	enum inst_ats ats = INST_ATS_UNKNOWN;

	(void)pthread_mutex_lock(&k->seen_lock);
	for (size_t i = 0; i < k->nseen; i++)
		if (bdf_eq(k->seen[i].bdf, bdf))
			ats = k->seen[i].ats;
	(void)pthread_mutex_unlock(&k->seen_lock);
	return ats;
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static uint64_t grown(uint64_t now, uint64_t was)
{
	return now > was ? now - was : 0; /* less: it went and came again */
}

void keep_aer(struct inst_manager *m)
{
	struct keep *k = &m->keep;

	for (size_t i = 0; m->env.root && i < k->n; i++) {
		struct kept *one = &k->at[i];
		struct host_aer now;

		host_aer_read(&now, m->env.root, one->bdf);
		one->more = (struct host_aer){ 0 };
		if (now.known && one->aer.known)
			one->more = (struct host_aer){ true, grown(now.correctable, one->aer.correctable),
						       grown(now.nonfatal, one->aer.nonfatal), grown(now.fatal, one->aer.fatal) };
		one->aer = now;
	}
}
