/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/pci — reading PCI functions (room-private): what pci.c and vf.c share. */

#include "host/inventory.h"

#define PCI_ATTR_MAX   4096
#define PCI_ROWS       13 /* of `resource`: six BARs, the ROM, six VF BARs */

/* A PF whose first and last virtfn links lie where its First VF Offset and VF Stride say. */
struct pci_range {
	struct pci_range        *next;
	struct bdf               bdf; /* the PF's */
	const struct host_facts *pf;
	const struct host_facts *vf; /* of its VFs; NULL: none was read yet */
};

struct pci_reader {
	struct inventory        *inv;
	struct host_root        *root;
	const struct host_kinds *kinds;
	bool                     bus_plain; /* no link in "sys/bus/pci/devices" */
	bool                     plain;     /* nor in dir */
	bool                     oom;       /* a finding had no room */
	struct bdf               bdf;       /* the function being read */
	char                     dir[HOST_PATH_MAX];
	struct host_bar          row[PCI_ROWS];      /* its `resource` */
	size_t                   nrows;
	struct pci_range        *range;     /* newest first: VFs follow their PF */
	size_t                   nranges;
	/* of one function that was read before (update.c), else NULL and 0 */
	const struct host_facts *was;    /* what cannot have changed is taken from here */
	uint16_t                 was_driver;
	const char              *target; /* of its link below sys/bus/pci/devices */
	uint16_t                 chunk;  /* of config space, read at once */
};

/* src/host/pci.c: the attributes, of whatever function rd->dir is */
const char *pci_text(struct pci_reader *rd, const char *s); /* in the inventory's arena; "" for NULL or no memory */
/* 0 or -errno; all but -ENOENT, which is for the caller to judge, have become a finding. */
int         pci_attr(struct pci_reader *rd, char *buf, size_t size, const char *name);
int         pci_words(struct pci_reader *rd, char *buf, size_t size, const char *name); /* the same, printable */
int         pci_number(struct pci_reader *rd, uint64_t *ret, int base, uint64_t max, const char *name);
int         pci_linked(struct pci_reader *rd, struct bdf *ret, const char *name); /* what its physfn, virtfn0 names */
void        pci_read_ids(struct pci_reader *rd, struct host_facts *f, const char *uevent);
int         pci_read_driver(struct pci_reader *rd, struct host_function *fn, const char *uevent);
int         pci_read_group(struct pci_reader *rd, struct host_function *fn);
int         pci_read_function(struct pci_reader *rd, struct host_function *fn, const char *name); /* all of one */
int         pci_link(struct pci_reader *rd, char target[HOST_PATH_MAX], const char *name); /* below sys/bus/pci/devices */
int         pci_config_short(struct inventory *inv); /* the finding about those that are read in part */
int         pci_by_bdf(const void *a, const void *b);
void        pci_read_bars(struct pci_reader *rd, struct host_facts *f);
enum host_kind pci_kind(const struct pci_reader *rd, const struct host_facts *f);

/* src/host/physical.c: what only a physical function has, or is asked for; its kind is known then. -ENOMEM. */
int pci_physical_read(struct pci_reader *rd, const struct host_function *fn, struct host_facts *f);

/* src/host/vf.c */
/* The BARs of VF 0 of the PF whose `resource` was just read; NULL: unknown. */
const struct host_bar *pci_vf_bars(struct pci_reader *rd, unsigned config_total);
/* A PF was read. Trusts its numbers only where its own links agree at both ends. -ENOMEM. */
int pci_range_add(struct pci_reader *rd, const struct host_facts *pf);
/* 1: fn is a VF of a known range, and is read. 0: unknown yet. */
int pci_vf_read(struct pci_reader *rd, struct host_function *fn, const char *name);
/* Which VF of its PF a function is by the PF's numbers, if it is below `count`. */
bool pci_vf_index(uint16_t *ret, struct bdf at, const struct host_facts *pf, struct bdf bdf, unsigned count);
bool pci_vf_place(struct bdf *ret, struct bdf pf, const struct host_facts *f, unsigned n);
/* When all are read: numbers the VFs that no range led to. */
int pci_vf_number(struct pci_reader *rd);
