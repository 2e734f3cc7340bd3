/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef VELAD_CLIENT_H
#define VELAD_CLIENT_H
/* velad/client — talk to velad from C: one call, one JSON answer. Link with -lvelad -lhttp_parser.
 *
 *   struct velad_reply r;
 *   if (velad_call(&r, VELAD_SOCKET, "GET", "/v1/topology", NULL, 5000) == 0 && r.status == 200)
 *           puts(r.body);
 *   velad_reply_done(&r);
 *
 * What methods there are says GET /v1/openapi.json. */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VELAD_SOCKET "/run/velad/velad.sock"

struct velad_reply {
	int    status;     /* HTTP status; 0 if there was no answer */
	char  *body;       /* JSON text, NUL-terminated; owned; NULL without an answer */
	size_t len;        /* of body, without the NUL */
	char   error[256]; /* what went wrong, as a sentence; "" if nothing did */
};

/* body: JSON text to send, or NULL. timeout_ms: 0 waits for ever. ret is always filled.
 * 0: velad answered (look at status; from 400 on, body is a problem document). -ECONNREFUSED: velad is not
 * there. -EACCES: the socket is not for this user. -ETIMEDOUT. -E2BIG: an answer over 256 MiB. -ENOMEM.
 * -EIO: the connection broke, or a path that is none. Thread-safe. */
int velad_call(struct velad_reply *ret, const char *socket, const char *method, const char *path,
	       const char *body, long timeout_ms);
/* A GET of a path whose connection then speaks another protocol, such as "velad-console" on /v1/instances/NAME/console: with
 * status 101, *fd is it, the caller's to close. Waits for ever. Returns and fills ret as above. */
int velad_open(struct velad_reply *ret, int *fd, const char *socket, const char *path, const char *protocol);
void velad_reply_done(struct velad_reply *r);

#ifdef __cplusplus
}
#endif
#endif
