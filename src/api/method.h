/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/method — the route table's shape and the closed set of errors at the API's edge. Knows no domain. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct json_object;

#define API_PARAM_MAX 64 /* bytes of a path parameter, NUL included */

struct api_request {
	char        param[API_PARAM_MAX]; /* what stood at {name} of the route, decoded; "" without */
	const char *body;                 /* NUL-terminated; borrowed */
	size_t      body_len;
	uid_t       uid;                  /* of the peer (SO_PEERCRED); (uid_t)-1 unknown */
};

struct api_response {
	int                 status;       /* 200 unless the handler says otherwise */
	struct json_object *body;         /* taken over by the server */
	const char         *text;         /* instead of body: static JSON text */
	char                location[80]; /* "" none */
	struct json_object *reasons;      /* for a problem document; taken over */
};

/* 0, or a negative errno with err set: the server then sends a problem document. */
typedef int (*api_handler)(void *self, const struct api_request *req, struct api_response *res,
			   struct error *err);

struct api_route {
	const char *method, *path; /* "GET", "/v1/instances/{name}"; method NULL ends the table */
	api_handler handle;
};

/* The route of a path as it came over the wire (still percent-encoded, without query), its parameter
 * decoded in param: printable ASCII only. NULL: none; *allow then has the methods that the path knows, "" if
 * it knows none ("GET, DELETE"). */
const struct api_route *api_route_find(const struct api_route *routes, const char *method, const char *path,
				       char param[API_PARAM_MAX], char allow[64]);

struct api_error { /* its `code` on the wire: error_name() */
	int         code;   /* negative errno */
	int         status; /* HTTP */
	const char *title;
};

const struct api_error *api_error_of(int code);          /* never NULL: the rest is `internal` */
const struct api_error *api_error_named(const char *name); /* NULL: unknown */
size_t                  api_error_count(void);
const struct api_error *api_error_at(size_t i);

/* application/problem+json (RFC 9457) of err; takes reasons, NULL becomes []. NULL: no memory. */
struct json_object *api_problem(const struct error *err, struct json_object *reasons);
