/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* conf — velad.conf and its drop-ins, as values. INI, read with inih.
 *
 * The file is /etc/velad/velad.conf; where it is not there, the copy that is built in. Then every
 * velad.conf.d/NAME.conf beside it, sorted by name. Unknown sections and keys, and values out of range,
 * are refused with file and line. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct error;

struct conf_line { /* of a section whose lines add up; its values are another room's to read */
	const char *key, *value, *where; /* where: "FILE: [SECTION] KEY" */
};

#define CONF_LINES_MAX 64

struct conf {
	struct arena arena; /* owns every string */
	char        *libvirt_uri;    /* [libvirt] uri */
	char        *state_dir;      /* [daemon] state_dir: velad.db lies in it */
	char        *console_dir;    /* [daemon] console_dir: NAME.log of each guest's serial console */
	char        *images_dir;     /* [images] dir: the storage pool's directory */
	char        *images_pool;    /* [images] pool: its name */
	char        *images_source;  /* [images] source: where new images are taken from */
	char        *fmpm;           /* [host] fmpm: lists Fabric Manager's partitions */
	char        *rack, *rack_alias; /* [host]; "none" */
	uint64_t     keep_milliseconds, keep_seconds; /* [daemon] */
	uint64_t     workers;        /* [daemon] workers: operations side by side */
	struct {
		uint64_t look, bind, vfs, reset, domain, start, stop, helper_start;
	} deadline;                  /* [deadlines], seconds */
	char        *on_crash, *on_host_boot; /* [guests] */
	uint64_t     crash_limit, crash_seconds, stop_seconds; /* [guests] */
	char        *scrub, *no_reset; /* [release] */
	uint64_t     scrub_seconds;  /* [release] scrub_seconds */
	char        *socket;         /* [daemon] socket: used when systemd hands none over, and by velactl */
	char        *helper;         /* [daemon] helper: velad-helper's socket, unless velad is root */
	uint64_t     vfs_per_pf;     /* [plan] vfs_per_pf */
	uint64_t     memory_reserve; /* [plan] memory_reserve, bytes per NUMA node */
	uint64_t     host_cores;     /* [plan] host_cores, per NUMA node */
	char        *cpus;           /* [plan] cpus: plan/policy.c reads it */
	uint64_t     link_percent;   /* [plan] link_percent */
	char        *shapes;         /* [plan] shapes: plan/policy.c reads it */
	char        *vf_may_refuse;  /* [vf] may_refuse: plan/vf.c reads it */
	struct conf_line kind[CONF_LINES_MAX];      /* [kinds], for host/kind */
	size_t           nkinds;
	struct conf_line partition[CONF_LINES_MAX]; /* [partitions], for plan/partition */
	size_t           npartitions;
	struct conf_line pool[CONF_LINES_MAX];      /* [pool], for plan/pool */
	size_t           npool;
	struct conf_line model[CONF_LINES_MAX], shape[CONF_LINES_MAX]; /* [models], [shapes], for plan/policy */
	size_t           nmodels, nshapes;
};

/* file NULL: the installed one or the built-in copy. -ENOENT if a named file is not there, -EINVAL. */
int  conf_load(struct conf *ret, const char *file, struct error *err);
void conf_done(struct conf *c);
