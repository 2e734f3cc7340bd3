/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* helper/serve — answers calls on a listening SOCK_SEQPACKET socket, a thread for each connection, so that one that hangs in
 * the kernel holds up no other. Only one uid, and root, are listened to. */

#include <stdbool.h>
#include <sys/types.h>

#include "helper/judge.h"

struct error;

#define SERVE_CONNECTIONS_MAX 64
#define SERVE_SILENCE_SECONDS 10 /* a connection that says nothing for so long is closed */

struct serve {
	struct judge judge;
	uid_t        uid;          /* whose calls are answered */
	unsigned     idle_seconds; /* without connections, before it returns; 0: never */
	int          listening, signals, wake; /* a socket, a signalfd, an eventfd; borrowed */
	int          programs;      /* the other process (programs.c); -1: none, and nothing that needs one */
	bool         runs_programs; /* this is the other process */
	char         scrub[256];    /* [release] scrub; "" none */
	unsigned     scrub_seconds;
	char         logs[256];     /* [daemon] console_dir */
};

/* What velad asks, judged and done: fills answer, and *fd where one goes with it. */
void serve_call(const struct serve *s, struct wire_answer *answer, int *fd, const void *bytes, size_t len);
bool serve_answer(int client, const struct wire_answer *a, int fd); /* false: it is not there any more */
void serve_refuse(int client, int code, const char *text);
/* Returns 0 when nobody has been there for idle_seconds, or after a signal. */
int serve_run(const struct serve *s, struct error *err);
