/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* hostsim — a text host as a living tree. tree.c holds files; boot.c, driver.c, sriov.c, vf.c, config.c, reset.c, acs.c,
 * group.c and pool.c react as the kernel does (config.h has the registers); uevent.c tells of it; fault.c and event.c
 * spoil it on demand; hostsim.c is the door (FUSE). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bdf.h"
#include "host/text.h"

struct client;
struct fault;
struct node;
struct sim;

#define SIM_PATH_MAX 512
#define SIM_VFIO     "vfio-pci"
#define SIM_GROUPS   65536

/* One write(2): `value` is NUL-terminated besides. 0 or negative errno. */
typedef int sim_write_fn(struct sim *s, struct node *n, const char *value, size_t len, off_t off);
/* The content of a file that is made when it is opened; the caller frees; NULL: no memory. */
typedef char *sim_read_fn(struct sim *s, const struct node *n);

struct node {
	char          *name; /* owned */
	struct node   *parent, *child, *next; /* children in order of their names */
	enum text_type type;
	char          *text;  /* owned; of a file or link */
	uint8_t       *bytes; /* owned; of a config space */
	size_t         len;   /* of bytes */
	sim_write_fn  *write; /* NULL: read-only */
	sim_read_fn   *read;  /* NULL: text */
	bool           fixed; /* there from boot on, so the kernel may cache its name */
	bool           dead;  /* removed; nodes are never freed, for FUSE may still know them */
	const char    *home;  /* borrowed; of a device: the driver whose id table has it; NULL: none */
	const char    *methods; /* borrowed; of a reset_method: what the device can */
	struct node   *pf;      /* of a VF */
	bool           ats;     /* of a device: the kernel has enabled ATS (pci_dev.ats_enabled) */
	bool           mute;    /* of a device: its configuration space reads ff and takes no write */
	bool           broken;  /* of a device: and stays so */
	unsigned       change;  /* of a device: counts changes of its number of VFs */
};

/* What a read or write has to suffer; see README.md. */
struct spoil {
	int      error;         /* negative errno, else 0 */
	unsigned delay, hang;   /* ms before, and after the effect */
	bool     ignored;       /* a write that succeeds, and does nothing */
	bool     mute;          /* a reset that the device does not come back from */
	bool     missing;       /* a VF that does not appear, */
	unsigned vf;            /* this one */
};

enum groups { GROUPS_TEXT, GROUPS_BOOT, GROUPS_FIXED };

struct sim {
	struct node   *root;    /* owned */
	struct fault  *fault;   /* owned list, oldest first */
	char          *log;     /* owned; every write, in order */
	size_t         log_len;
	unsigned       cleared; /* how often the faults were cleared; ends hangs */
	struct spoil   now;     /* of the write that is being done */
	struct node   *stale;   /* removed and cached by the kernel; linked by next */
	uint16_t       members[SIM_GROUPS]; /* functions in each IOMMU group */
	/* options */
	enum groups    groups;
	bool           old_parser; /* config_acs as before its fix */
	bool           guests;     /* what is bound to vfio-pci is a guest's */
	unsigned       vf_delay;   /* ms until each VF appears; 0: before the write returns */
	/* uevents */
	uint64_t       seqnum;
	char          *events; /* owned; all so far, a line each */
	size_t         events_len;
	struct client *client; /* owned list */
	unsigned       lose;   /* so many of the next uevents are lost */
};

/* ---- tree ------------------------------------------------------------------------------------------- */
struct node *node_child(const struct node *dir, const char *name, size_t len);
struct node *node_attr(const struct node *dir, const char *name); /* NULL: none */
struct node *node_find(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds what is missing on the way; replaces the value of a node that is there. Exits without memory: a test
 * program has nothing better to do. */
struct node *node_add(struct sim *s, enum text_type type, const char *value, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void         node_remove(struct sim *s, struct node *n); /* NULL is fine; with all below it */
void         node_text(struct node *n, const char *value);
void         node_textf(struct node *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
unsigned long node_number(const struct node *dir, const char *attr, int base); /* 0: none */
const char  *node_path(char buf[SIM_PATH_MAX], const struct node *n);
void         node_link(struct sim *s, const struct node *to, const char *fmt, ...) /* a relative link to a node */
	__attribute__((format(printf, 3, 4)));
char        *sim_state(struct sim *s, const struct node *n); /* as a text host; NULL: no memory */
void         sim_append(char **text, size_t *len, const char *line); /* to a growing text */

/* ---- devices ---------------------------------------------------------------------------------------- */
int          sim_boot(struct sim *s, const struct text_host *t, bool vfio, const char *cmdline);
void         sim_attach(struct node *n); /* for n and all below: which files take writes, which are made */
struct node *sim_device(struct sim *s, const char *bdf); /* its directory; NULL: none */
bool         sim_is_device(const struct node *n);
struct node *sim_bridge(const struct node *dev); /* the port above; NULL: it is on a root bus */
void         sim_remove(struct sim *s, struct node *dev); /* pci_stop_and_remove_bus_device() */
const char  *sim_driver(const struct node *dev);         /* "": none */
void         sim_driver_set(struct sim *s, struct node *dev, const char *driver); /* "" unbinds */
void         sim_control(struct sim *s, struct node *dev, const char *value); /* power/control */
void         sim_probe(struct sim *s, struct node *dev); /* lets the driver that matches have it */
bool         sim_iommu(struct sim *s);

int          group_of(const struct node *dev); /* -1: none */
void         group_add(struct sim *s, struct node *dev); /* pci_device_group(); only if there is an IOMMU */
void         group_remove(struct sim *s, struct node *dev);
void         group_count(struct sim *s, const struct node *dev, int n); /* a member more or less */
void         group_boot(struct sim *s);
void         acs_enable(struct sim *s, struct node *dev); /* pci_enable_acs() */
void         ats_attach(struct sim *s, struct node *dev, bool guest); /* to a guest's address space, or to its group's own */
bool         acs_enabled(struct sim *s, const struct node *dev); /* pci_acs_enabled(dev, REQ_ACS_FLAGS) */
int          pool_memory(struct node *node, uint64_t kb); /* what is free; -ENOENT: no meminfo */
void         sriov_disable(struct sim *s, struct node *pf);
void         uevent(struct sim *s, const char *action, const struct node *dev);
int          uevent_listen(const char *path); /* a negative errno */
void         sim_lock(void);
void         sim_unlock(void);

sim_write_fn driver_override_write, driver_bind_write, driver_unbind_write, drivers_probe_write;
sim_write_fn sriov_numvfs_write, autoprobe_write, config_write, reset_write, reset_subordinate_write, reset_method_write, d3cold_write, control_write, pool_write, pools_write;
sim_write_fn vf_write;
void         vf_fresh(struct sim *s, const struct node *pf, unsigned i); /* VF i came, or was reset with its PF */
void         vf_boot(struct sim *s, const struct node *pf); /* those that the text host has, and says nothing of */
void         vf_gone(struct sim *s, const struct node *pf, unsigned i);
sim_write_fn event_write, fault_write, log_write;
sim_read_fn  pools_read, uevent_read, fault_read, log_read;

/* ---- faults ----------------------------------------------------------------------------------------- */
enum fault_op { FAULT_READ, FAULT_WRITE };

int fault_add(struct sim *s, const char *rule); /* -EINVAL: it is none */
struct spoil fault_hit(struct sim *s, enum fault_op op, const char *path);
void log_add(struct sim *s, const char *path, const char *value, int r);
