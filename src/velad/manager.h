/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/manager — everything the daemon has, hanging together. Lives on the loop's thread. */

#include <limits.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/auto.h"
#include "base/conf.h"
#include "base/seccomp.h"
#include "base/sbuf.h"
#include "host/kind.h"
#include "instance/instance.h"
#include "plan/plan.h"
#include "plan/pool.h"
#include "velad/lease.h"
#include "velad/notify.h"

struct act_machine;
struct api_server;
struct capacity;
struct current;
struct error;
struct host_root;
struct inst_manager;
struct planner;

struct manager_options {
	const char *root;    /* "/" */
	const char *conf;    /* NULL: the installed or built-in one */
	const char *socket;  /* NULL: conf's; used when listen_fd is -1 */
	const char *store;   /* NULL: conf's state_dir/velad.db */
	const char *libvirt; /* NULL: conf's */
	const char *libvirt_program; /* NULL: velad-libvirt beside this program */
	const char *uevents; /* a socket that uevents of the root come from; NULL: the kernel, for / */
	const char *helper;  /* velad-helper's socket; NULL: conf's, or none for root */
	bool        no_helper; /* velad does it itself */
	enum seccomp_how seccomp; /* with a helper */
	int         listen_fd; /* from systemd; -1: make our own */
};

struct manager {
	struct conf          conf;
	struct host_kinds    kinds;
	struct plan_policy   policy;
	sd_event            *event;     /* owned */
	struct host_root    *root;      /* owned */
	struct act_machine  *machine;   /* owned */
	struct inst_manager *instances; /* owned */
	struct current      *now;       /* owned: the topology */
	struct capacity     *capacity;  /* owned: the last count of what fits */
	struct planner      *planner;   /* owned */
	struct plan_memo    *memo;      /* owned: of the plans that the loop makes; NULL: none yet */
	struct leases        leases;
	struct plan_pool_conf pool;     /* [pool] */
	bool                 pool_waits; /* for an operation on it to end, for velad-helper, or for the machine to be read */
	uint64_t             pool_mark, start_mark; /* of velad/current: the pool's, and of guests that are started after a boot */
	struct {
		struct inst_key now;        /* of the request that is handled */
		char            digest[65]; /* likewise */
	} key;
	int                  changed_fd;   /* eventfd, owned: a worker changed the machine */
	sd_event_source     *changed;      /* owned */
	int                  ended_fd;     /* likewise: an operation ended */
	sd_event_source     *ended;        /* owned */
	sd_event_source     *again;        /* owned; NULL: nobody has waited for a console's log yet */
	struct sbuf          metrics;   /* the last answer of /metrics */
	int                  listen_fd; /* owned until there is a server; -1 */
	struct api_server   *server;    /* owned */
	struct notify        notify;
	char                 host_name[HOST_NAME_MAX + 1]; /* as it was at the start; "" unknown */
	bool                 has_helper; /* velad-helper changes the machine */
	enum seccomp_how     seccomp;    /* of velad's threads (velad/sandbox): without a helper, velad itself loads modules and runs programs */
	uint32_t             vf_may_refuse;   /* bits of plan/vf.h */
	struct act_offer     offer;           /* libvirt's; its type "": not asked yet */
};

int manager_new(struct manager **ret, const struct manager_options *opt, struct error *err);
struct manager *manager_free(struct manager *m); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct manager *, manager_free);

/* m->offer; does not wait. -EAGAIN: libvirt has not answered yet, and when it does who waits is woken; -EREMOTEIO. */
int manager_libvirt(struct manager *m, struct error *err);
