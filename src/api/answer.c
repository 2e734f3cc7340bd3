/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/answer.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/method.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"

#define RETRY_SECONDS "1" /* with every 503 */

struct head {
	int         status;
	const char *type;
	const char *location, *allow, *etag; /* NULL or "": none */
};

static bool add_header(struct MHD_Response *r, const char *name, const char *value)
{
	return !value || !*value || MHD_add_response_header(r, name, value) == MHD_YES;
}

static bool add_headers(struct MHD_Response *r, const struct head *h)
{
	char tag[sizeof(((struct api_response *)NULL)->etag) + 2] = "";

	if (h->etag && *h->etag)
		(void)snprintf(tag, sizeof(tag), "\"%s\"", h->etag);
	return add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, h->type) && add_header(r, MHD_HTTP_HEADER_LOCATION, h->location) &&
	       add_header(r, MHD_HTTP_HEADER_ALLOW, h->allow) && add_header(r, MHD_HTTP_HEADER_ETAG, tag) &&
	       add_header(r, MHD_HTTP_HEADER_RETRY_AFTER, h->status == 503 ? RETRY_SECONDS : NULL);
}

/* text NULL: json-c had no memory for it. */
static void make(struct api_answer *ret, const char *text, const struct head *h)
{
	size_t len = text ? strlen(text) : 0;
	struct MHD_Response *r = text ? MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY) : NULL;

	if (r && !add_headers(r, h)) {
		MHD_destroy_response(r);
		r = NULL;
	}
	*ret = (struct api_answer){ .made = r, .status = (unsigned)h->status, .len = len };
}

static const char *plain_text(json_object *o)
{
	return json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

const char *api_answer_text(const struct api_response *res)
{
	return res->text ? res->text : plain_text(res->body);
}

void api_answer_make(struct api_answer *ret, const struct api_response *res, const char *text)
{
	make(ret, text, &(struct head){ .status = res->status, .type = res->type ? res->type : "application/json",
					.location = res->location, .etag = res->etag });
}

void api_answer_keep(struct api_answer *ret, struct api_kept *k, const struct api_response *res)
{
	struct api_kept_one *one = &k->at[res->number % API_KEPT_MAX];

	if (one->number != res->number) {
		api_answer_done(&one->answer);
		api_answer_make(&one->answer, res, res->text);
		one->number = one->answer.made ? res->number : 0;
	}
	*ret = one->answer;
	ret->lent = true;
}

void api_kept_done(struct api_kept *k)
{
	for (size_t i = 0; i < API_KEPT_MAX; i++)
		api_answer_done(&k->at[i].answer);
	*k = (struct api_kept){ 0 };
}

void api_answer_problem(struct api_answer *ret, const struct error *err, json_object *reasons, const char *location, const char *allow)
{
	auto_(json_object_put) json_object *o = api_problem(err, reasons);

	make(ret, o ? plain_text(o) : NULL, &(struct head){ .status = api_error_of(err->code)->status, .type = "application/problem+json",
							     .location = location, .allow = allow });
}

void api_answer_done(struct api_answer *a)
{
	if (a->made && !a->lent)
		MHD_destroy_response(a->made);
	*a = (struct api_answer){ 0 };
}
