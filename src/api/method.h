/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/method — the route table's shape and the closed set of errors at the API's edge. Knows no domain. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct json_object;

#define API_PARAM_MAX 192 /* bytes of a path or query parameter, NUL included */
#define API_QUERY_MAX 5
#define API_WAIT_MAX  60 /* seconds that a request may wait */
#define API_WAIT      1  /* of a handler: there is nothing to answer yet */

struct api_request { /* all texts borrowed */
	char        param[API_PARAM_MAX]; /* what stood at {name} of the route, decoded; "" without */
	char        query[API_QUERY_MAX][API_PARAM_MAX]; /* of the route's parameters, in their order, decoded; "" without */
	const char *method, *path;        /* as they came, the path without query */
	const char *if_match, *key;       /* If-Match, Idempotency-Key; NULL without */
	const char *body;                 /* NUL-terminated */
	size_t      body_len;
	uid_t       uid;                  /* of the peer (SO_PEERCRED); (uid_t)-1 unknown */
	uint64_t    id;                   /* no other request has it */
	uint64_t    came;                 /* when its handler was called first, of batched routes when it was put into this batch; of CLOCK_MONOTONIC */
	uint64_t   *mark;                 /* its handler's own from one call to the next; 0 at first */
	bool        late;                 /* it has waited as long as it may: API_WAIT is no answer any more */
};

struct api_response {
	int                 status;       /* 200 unless the handler says otherwise */
	struct json_object *body;         /* taken over by the server */
	const char         *text;         /* instead of body; borrowed until the handler returns to the loop */
	uint64_t            number;       /* of the text: one that comes with this number again is the same, and so is all else here; 0 none */
	const char         *type;         /* of the text; NULL: application/json */
	char                location[80]; /* "" none */
	char                etag[24];     /* without its quotes; "" none */
	unsigned            wait;         /* with API_WAIT: seconds, at most */
	struct json_object *reasons;      /* for a problem document; taken over */
};

/* 0, or a negative errno with err set: the server then sends a problem document. API_WAIT: the request waits, without
 * holding up others; the handler is called anew after api_server_wake(), and at the end of its time. */
typedef int (*api_handler)(void *self, const struct api_request *req, struct api_response *res,
			   struct error *err);

struct api_route {
	const char *method, *path; /* "GET", "/v1/instances/{name}"; method NULL ends the table */
	api_handler handle;
	const char *query[API_QUERY_MAX]; /* names of the query parameters it takes */
	bool        keyed; /* it takes an Idempotency-Key; others that change something refuse one */
	bool        matched; /* likewise If-Match */
	bool        batched; /* its handler makes what it answers durable with others */
	const char *upgrade; /* the protocol that a connection speaks after a handler's 0, instead of an answer; NULL none */
	void      (*upgraded)(void *self, const struct api_request *req, int fd); /* param and query only; fd is duplicated if kept */
};

struct api_keys { /* what the server does with Idempotency-Keys */
	api_handler begin; /* 0: the key is new, the handler is called; 1: answered before, and res is that */
	void      (*end)(void *self); /* after the handler, if it was called */
};

struct api_batch { /* handlers of batched routes are called one after the other between begin and end, and answered after that */
	void     (*begin)(void *self);
	uint64_t (*mark)(void *self); /* after each: what it answers hangs on that */
	int      (*end)(void *self, uint64_t *failed, struct error *err); /* failed: who hangs on that gets err instead; 0 none */
};

/* The value of one query parameter into req, decoded. -EINVAL: the route has none of this name, it was said already, or
 * it is no printable text of that length. */
int api_query_set(struct api_request *req, const struct api_route *route, const char *name, const char *value,
		  struct error *err);
/* Whether If-Match lets a change of this document through (RFC 9110 13.1.1: strong comparison). -EREMCHG: what it was
 * made from is not what there is; what names it for the sentence. */
int api_if_match(const struct api_request *req, const char *etag, const char *what, struct error *err);

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
