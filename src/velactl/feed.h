/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/feed — changes as they happen: asked of velad each second, or with --root / heard from the kernel. */

#include "base/auto.h"

struct ctl;
struct error;
struct feed; /* opaque */
struct json_object;

int feed_open(struct feed **ret, struct ctl *c, struct error *err);
struct feed *feed_close(struct feed *f); /* NULL is fine; returns NULL */
AUTO_DEFINE(struct feed *, feed_close);

/* Waits, a second or until something happens. *ret: an array of Change (docs/openapi.json), which may be empty; the
 * caller puts it. 1: what happened before is not known any more, and *ret is nothing. */
int feed_next(struct feed *f, struct json_object **ret, struct error *err);
