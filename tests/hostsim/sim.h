/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* hostsim — a text host as a living tree. tree.c holds files, driver.c, sriov.c and config.c react to writes
 * as the kernel does, fault.c spoils reads and writes on demand, hostsim.c is the door (FUSE). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bdf.h"
#include "host/text.h"

struct fault;
struct node;
struct sim;

#define SIM_PATH_MAX 512
#define SIM_VFIO     "vfio-pci"

/* One write(2): `value` is NUL-terminated besides. 0 or negative errno. */
typedef int sim_write_fn(struct sim *s, struct node *n, const char *value, size_t len, off_t off);
/* The content of a file that is made when it is opened; the caller frees; NULL: no memory. */
typedef char *sim_read_fn(struct sim *s);

struct node {
	char          *name; /* owned */
	struct node   *parent, *child, *next; /* children in order of their names */
	enum text_type type;
	char          *text;  /* owned; of a file or link */
	uint8_t       *bytes; /* owned; of a config space */
	size_t         len;   /* of bytes */
	sim_write_fn  *write; /* NULL: read-only */
	sim_read_fn   *read;  /* NULL: text */
	bool           fixed; /* there from boot to end, so the kernel may cache its name */
	bool           dead;  /* removed; nodes are never freed, for FUSE may still know them */
	const char    *home;  /* borrowed; of a device: the driver whose id table has it; NULL: none */
	const char    *methods; /* borrowed; of a reset_method: what the device can */
};

struct sim {
	struct node  *root; /* owned */
	struct fault *fault; /* owned list, oldest first */
	char         *log;  /* owned; every write, in order */
	size_t        log_len;
	unsigned      cleared; /* how often the faults were cleared; ends hangs */
};

/* ---- tree ------------------------------------------------------------------------------------------- */
struct node *node_child(const struct node *dir, const char *name, size_t len);
struct node *node_find(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds what is missing on the way; replaces the value of a node that is there. Exits without memory: a test
 * program has nothing better to do. */
struct node *node_add(struct sim *s, enum text_type type, const char *value, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void         node_remove(struct node *n); /* NULL is fine; with all below it */
void         node_text(struct node *n, const char *value);
const char  *node_path(char buf[SIM_PATH_MAX], const struct node *n);
char        *sim_state(struct sim *s); /* as a text host; NULL: no memory */

/* ---- the kernel ------------------------------------------------------------------------------------- */
int          sim_boot(struct sim *s, const struct text_host *t, bool vfio);
void         sim_attach_writers(struct node *n); /* for n and all below: which files take writes */
struct node *sim_device(struct sim *s, const char *bdf); /* its directory; NULL: none */
const char  *sim_driver(const struct node *dev);         /* "": none */
void         sim_driver_set(struct sim *s, struct node *dev, const char *driver); /* "" unbinds */
void         sim_probe(struct sim *s, struct node *dev); /* lets the driver that matches have it */
void         sim_ups(char buf[SIM_PATH_MAX], const char *path); /* "../../" from this directory to sys */
void         sim_group_remove(struct sim *s, struct node *dev);
uint16_t     config_ecap(const struct node *config, uint16_t id); /* 0: none */
void         config_enable_acs(struct sim *s, struct node *config);

void sriov_disable(struct sim *s, struct node *pf);

sim_write_fn driver_override_write, driver_bind_write, driver_unbind_write, drivers_probe_write;
sim_write_fn sriov_numvfs_write, config_write, reset_write, reset_method_write;

/* ---- faults ----------------------------------------------------------------------------------------- */
enum fault_op { FAULT_READ, FAULT_WRITE };

/* GLOB:read|write:ERRNO[:COUNT[:SKIP]] or GLOB:read|write:hang SECONDS[:COUNT[:SKIP]]: the first SKIP matches pass,
 * then COUNT (all) are spoilt. -EINVAL. */
int fault_add(struct sim *s, const char *rule);
/* A negative errno, or 0; seconds to hang in *hang. */
int fault_hit(struct sim *s, enum fault_op op, const char *path, unsigned *hang);

sim_write_fn fault_write, log_write;
sim_read_fn  fault_read, log_read;
void         log_add(struct sim *s, const char *path, const char *value, int r);
