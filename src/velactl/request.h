/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/request — the request of plan and create: from flags, or from --file; checked here, so that a
 * mistake is found without velad. */

struct conf;
struct ctl_args;
struct error;
struct json_object;
struct plan_request;

/* The document of --file, - is standard input; the caller puts it. */
int ctl_request_file(struct json_object **ret, const char *file, struct error *err);
/* name NULL: none was given. *ret on entry: the document of --file if it was read already, else NULL; then what is
 * sent, the caller puts it. req is the same as values, the caller ends it with plan_request_done(). */
int ctl_request_read(struct json_object **ret, struct plan_request *req, const struct ctl_args *args,
		     const struct conf *conf, const char *name, struct error *err);
