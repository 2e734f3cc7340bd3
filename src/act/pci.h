/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/pci — drivers and VF counts of PCI functions (pci.c), control words of their config space (word.c), whether they
 * may sleep (power.c), their reset (reset.c), and settings of VFs (vf.c), through sysfs
 * (Documentation/ABI/testing/sysfs-bus-pci). Only these files write there. The kernel works while write(2) runs,
 * so calls may block as long as a driver does. */

#include <stdint.h>

#include "act/act.h"
#include "base/bdf.h"
#include "host/root.h"

struct error;
struct plan_vf_settings;

#define ACT_PCI_DEADLINE_MS 5000 /* for the kernel to show what it was told */

struct act_words; /* opaque: where control words lie that were looked at */

struct act_pci {
	struct host_root *root; /* borrowed */
	unsigned          deadline_ms;
	struct act_words *words; /* borrowed; NULL: each look finds them anew */
	const char       *fmpm;  /* Fabric Manager's tool, borrowed, for act/partition; "" or NULL none */
};

/* -ENODEV: there is no such function. What the kernel refuses is -EIO, or -EBUSY when it says so;
 * -ETIMEDOUT: it took the order, and nothing happened. */
int act_pci_driver(const struct act_pci *p, struct act_driver *ret, struct bdf fn, struct error *err);
int act_pci_driver_set(const struct act_pci *p, struct bdf fn, const struct act_driver *want,
		       struct error *err);
int act_pci_vf_count(const struct act_pci *p, uint16_t *ret, struct bdf pf, struct error *err);
/* As act_ops.autoprobe. */
int act_pci_autoprobe(const struct act_pci *p, int *ret, struct bdf pf, enum act_want want, struct error *err);
/* -EBUSY too when a VF that would go is bound to vfio-pci: a guest may have it. -ENOSPC: the PF has
 * fewer VFs. */
int act_pci_vf_count_set(const struct act_pci *p, struct bdf pf, uint16_t n, struct error *err);
/* As act_ops.word. The text names the function, and the bits that did not become what they were to be. */
int act_pci_word(const struct act_pci *p, uint16_t *ret, struct bdf fn, enum act_word which, uint16_t set, uint16_t clear,
		 struct error *err);

uint16_t act_word_bits(enum act_word which); /* that may be changed */

/* As act_ops.power. */
int act_pci_power(const struct act_pci *p, struct act_power *ret, struct bdf fn, const struct act_power *want,
		  struct error *err);

/* src/act/reset.c: as in act_ops. */
int act_pci_alive(const struct act_pci *p, struct act_alive *ret, struct bdf fn, struct error *err);
/* Its first half: would it be done? As act_ops.reset, and changes nothing. */
int act_pci_reset_may(const struct act_pci *p, struct bdf fn, const struct bdf *mine, size_t n, struct error *err);
int act_pci_reset(const struct act_pci *p, struct bdf fn, const struct bdf *mine, size_t n, struct error *err);
/* For who does not know whose they are: of those on its bus, all that no driver of the host works with are taken for its own. */
int act_pci_reset_idle(const struct act_pci *p, struct bdf fn, struct error *err);
int act_scrub(const struct act_pci *p, struct bdf fn, const char *program, unsigned seconds, struct error *err);
/* As act_ops.vf. */
int act_pci_vf(const struct act_pci *p, struct plan_vf_settings *ret, struct bdf vf, const struct plan_vf_settings *want,
	       struct error *err);

/* "sys/devices/pci0000:15/.../0000:17:01.0" (room-private) */
int act_pci_path(const struct act_pci *p, char path[HOST_PATH_MAX], struct bdf fn, struct error *err);

/* With it, a second look at an ACS or ATS control word is one read of eight bytes. Thread-safe. NULL: no memory. */
struct act_words *act_words_new(void);
struct act_words *act_words_free(struct act_words *w); /* before its root is closed; NULL is fine; returns NULL */
