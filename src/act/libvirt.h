/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/libvirt — domains, for velad-libvirt, which alone is linked with libvirt. No libvirt type leaves libvirt.c, domains.c,
 * console.c, offer.c and storage.c, the only files that include its headers.
 *
 * A domain is velad's if it carries the metadata element PLAN_DOMAIN_MARK; any other domain of the same
 * name is never touched. Thread-safe: callers share one connection, opened on first use and again when
 * it was lost. Everything that libvirt refuses is -EREMOTEIO. */

#include "act/act.h"

struct act_virt; /* opaque */

int act_virt_new(struct act_virt **ret, const char *uri, struct error *err);
struct act_virt *act_virt_free(struct act_virt *v); /* NULL is fine; returns NULL; ends the watch */
AUTO_DEFINE(struct act_virt *, act_virt_free);

/* For the other files that call libvirt; the caller closes it. */
struct _virConnect;
struct _virDomain;
int act_virt_connection(struct act_virt *v, struct _virConnect **ret, struct error *err);
/* Velad's domain of that name, NULL if there is none; the caller frees it. */
int act_virt_find(struct act_virt *v, struct _virConnect **conn, struct _virDomain **dom, const char *name, struct error *err);
int act_virt_ours(struct _virDomain *dom, struct error *err); /* 1 it carries velad's mark, 0 it does not, or is gone */
int act_virt_state(struct _virDomain *dom, enum act_domain *ret, struct error *err); /* one that has just gone is off */

/* src/act/domains.c */
/* src/act/loses.c: "x-no-mmap (ua-gpu0)": what in a domain's XML loses peer-to-peer; "" nothing. -EBADMSG: it is no XML; -ENOMEM. */
int act_domain_loses(const char **ret, const char *xml, struct arena *arena);
int act_virt_domains(struct act_virt *v, struct act_guest **ret, size_t *n, struct arena *arena, struct error *err);

/* Of velad's domain `name`; a foreign one counts as absent. */
int act_virt_domain(struct act_virt *v, enum act_domain *ret, const char *name, struct error *err);
/* -EEXIST: a foreign domain has the name. Leaves nothing behind when it fails. */
int act_virt_start(struct act_virt *v, const char *name, const char *xml, struct error *err);
int act_virt_order(struct act_virt *v, const char *name, enum act_order order, struct error *err); /* as in act_ops */
int act_virt_console(struct act_virt *v, const char *name, bool force, int fd, const char *hello, struct error *err); /* likewise; while watched */
int act_virt_stop(struct act_virt *v, const char *name, struct error *err);
/* src/act/offer.c */
int act_virt_offer(struct act_virt *v, struct act_offer *ret, struct error *err); /* as act_domain_offer() */
unsigned act_domain_lacks(const char *capabilities); /* by libvirt's document of them; what it does not have is not known to be lacking */
/* One watch at a time in a process. Events come while libvirt can be reached; a thread looks for it again
 * every few seconds, so that libvirt need not be there yet. fn is called as in act.h, with the lock of the connection held. */
int act_virt_watch(struct act_virt *v, void (*fn)(void *self, const char *name, enum act_domain state),
		   void *self, struct error *err);
void act_virt_unwatch(struct act_virt *v);
