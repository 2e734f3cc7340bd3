/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/timer — a timer of the loop that is off until it is set, and again when it has fired. CLOCK_MONOTONIC, us. */

#include <systemd/sd-event.h>
#include <time.h>

#include "base/log.h"

/* Negative errno. */
static inline int timer_new(sd_event_source **ret, sd_event *event, sd_event_time_handler_t fn, void *self)
{
	int r = sd_event_add_time(event, ret, CLOCK_MONOTONIC, 0, 1, fn, self);

	return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

static inline void timer_set(sd_event_source *timer, uint64_t at)
{
	if (sd_event_source_set_time(timer, at) < 0 || sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT) < 0)
		log_err("cannot set a timer");
}
