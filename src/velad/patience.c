/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nothing is woken while the helper is there, or none is needed: whether it is away shows where it is asked. */
#include "velad/patience.h"

#include "act/act.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "velad/timer.h"

#define WAIT_SECONDS_MAX 64

static int on_again(sd_event_source *source, uint64_t usec, void *self)
{
	struct patience *p = self;

	(void)source, (void)usec;
	p->look(p->self);
	return 0;
}

int patience_init(struct patience *p, sd_event *event)
{
	return timer_new(&p->again, event, on_again, p);
}

void patience_done(struct patience *p)
{
	p->again = sd_event_source_disable_unref(p->again);
}

bool patience_waits(const struct patience *p)
{
	return p->wait;
}

/* Clients have the machine read as often as they like: that does not put the next look off. */
static void arm(struct patience *p)
{
	int armed = SD_EVENT_OFF;

	(void)sd_event_source_get_enabled(p->again, &armed); /* fails for no source of this process */
	if (armed != SD_EVENT_OFF)
		return;
	p->wait = p->wait == 0 ? 1 : p->wait < WAIT_SECONDS_MAX ? 2 * p->wait : p->wait;
	timer_set(p->again, clock_usec(CLOCK_MONOTONIC) + 1000000ull * p->wait);
}

void patience_mind(struct patience *p)
{
	struct error why = ERROR_INIT;

	if (act_machine_helper(p->machine, false, &why) < 0) {
		if (p->wait == 0)
			log_warning("%s; until it is there, config space is not known, and nothing can be changed", why.text);
		arm(p);
		return;
	}
	if (p->wait == 0)
		return;
	p->wait = 0;
	(void)sd_event_source_set_enabled(p->again, SD_EVENT_OFF); /* fails for no source of this process */
	log_info("velad-helper is there again");
	p->back(p->env);
}
