/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/console — sockets of clients who want the console of a guest, handed to libvirt one after the other. The thread that
 * clients talk to may not wait for libvirt: it leaves the socket here. */

#include <pthread.h>
#include <stdbool.h>

struct error;
struct inst_manager;

struct console_asked;

struct console { /* below: under the manager's lock */
	pthread_cond_t        cond;
	pthread_t             thread;
	bool                  started;
	struct console_asked *first;
};

int  console_start(struct inst_manager *m, struct error *err);
void console_stop(struct inst_manager *m); /* who waits still is refused */
