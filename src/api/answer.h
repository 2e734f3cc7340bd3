/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/answer — an answer as libmicrohttpd has it, before it is sent. For api/server only. */

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_response;
struct error;
struct json_object;

struct api_answer {
	struct MHD_Response *made;   /* owned; NULL: there was no memory for it, and the connection is to be closed */
	unsigned             status; /* 0: none was made yet */
	size_t               len;    /* of its body */
	bool                 lent;   /* made is api_kept's: to be sent before it is asked again */
};

/* What was made of texts that have a number: clients ask for them far more often than they change. All zero to begin with. */
#define API_KEPT_MAX       128
#define API_KEPT_BYTES_MAX 16384

struct api_kept {
	struct api_kept_one {
		uint64_t          number; /* 0: none */
		struct api_answer answer;
	} at[API_KEPT_MAX]; /* texts that are made one after the other are side by side */
};

void api_kept_done(struct api_kept *k);

/* The text of a handler's answer; NULL: no memory. */
const char *api_answer_text(const struct api_response *res);
/* Of a handler that returned 0, with the text of that call. */
void api_answer_make(struct api_answer *ret, const struct api_response *res, const char *text);
/* The same, made at most once for each number. */
void api_answer_keep(struct api_answer *ret, struct api_kept *k, const struct api_response *res);
/* A problem document; takes reasons. location and allow: NULL or "" none. */
void api_answer_problem(struct api_answer *ret, const struct error *err, struct json_object *reasons, const char *location, const char *allow);
void api_answer_done(struct api_answer *a);
