/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/notify — what the service manager is told, and its watchdog (sd_notify(3)), over a socket that is opened once: sd_notify() opens
 * one each time, with system calls that the loop has not got (velad/sandbox). */

#include <systemd/sd-event.h>

struct error;

struct notify {
	int              fd;       /* owned; -1: nobody wants to know */
	sd_event_source *watchdog; /* owned; NULL: there is none */
	uint64_t         every;    /* usec */
};

/* 0 also where nobody wants to know. */
int  notify_open(struct notify *n, sd_event *event, struct error *err);
void notify_send(const struct notify *n, const char *text);
void notify_done(struct notify *n);
