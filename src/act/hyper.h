/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/hyper — velad-libvirt's client, and who starts it: libvirt's client library runs in a process of its own, so that what
 * hangs or dies there is not velad's. Each call has a socket of its own, whose end the process gets; one that is overdue ends the
 * process, after the calls of others had their chance, and another is started. Thread-safe. */

#include "act/hyper_doc.h"
#include "base/auto.h"

struct act_hyper; /* opaque */

/* Starts it. What cannot be started is no failure here, but of each call. */
int act_hyper_new(struct act_hyper **ret, const struct act_hypervisor *env, struct error *err);
struct act_hyper *act_hyper_free(struct act_hyper *h); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct act_hyper *, act_hyper_free);

/* What it answers, which lives in the arena; -EREMOTEIO also where the process ended meanwhile: what became of the call is then unknown. -ETIMEDOUT: it was
 * overdue. */
int act_hyper_call(struct act_hyper *h, struct hyper_answer *ret, const struct hyper_call *c, struct arena *arena, struct error *err);

/* As in act.h. */
int  act_hyper_offer(struct act_hyper *h, struct act_offer *ret, struct error *err);
int  act_hyper_watch(struct act_hyper *h, void (*fn)(void *self, const char *name, enum act_domain state), void *self,
		     struct error *err);
void act_hyper_unwatch(struct act_hyper *h);
