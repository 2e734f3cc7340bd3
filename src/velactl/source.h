/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/source — where documents come from: the machine or text host that --root or --host names, else
 * velad. Both give the same JSON (docs/openapi.json). */

#include "base/bdf.h"

struct anonymize_counts;
struct arena;
struct ctl;
struct error;
struct host_kinds;
struct host_root;
struct json_object;
struct plan_request;
struct vpd;

/* The caller puts *ret. A request is what plan_request_read() took. */
int ctl_source_topology(struct json_object **ret, struct ctl *c, struct error *err);
int ctl_source_path(struct json_object **ret, struct ctl *c, struct bdf a, struct bdf b, struct error *err);
int ctl_source_host(struct json_object **ret, struct ctl *c, struct error *err);
int ctl_source_plan(struct json_object **ret, struct ctl *c, const struct plan_request *req,
		    struct json_object *body, struct error *err);
/* Several at once: body is {"bundles": [request, ...]}. */
int ctl_source_gang(struct json_object **ret, struct ctl *c, struct json_object *body, struct error *err);
int ctl_source_capacity(struct json_object **ret, struct ctl *c, struct error *err);
int ctl_source_routes(struct json_object **ret, struct ctl *c, struct error *err);
int ctl_source_route(struct json_object **ret, struct ctl *c, struct bdf from, struct bdf to, struct error *err);
int ctl_source_acs(struct json_object **ret, struct ctl *c, struct error *err); /* the ACS plan */
int ctl_source_pool(struct json_object **ret, struct ctl *c, struct error *err); /* the plan of [pool], and what is held */
int ctl_source_checks(struct json_object **ret, struct ctl *c, struct error *err);
/* What --root or --host names, and what its functions are; the caller closes. */
int ctl_source_root(struct host_root **ret, struct host_kinds *kinds, struct ctl *c, struct error *err);
/* velactl dump; the caller frees. Reads this machine when neither --root nor --host is there. hidden: NULL
 * without --anonymize. */
int ctl_source_dump(char **ret, struct ctl *c, struct anonymize_counts *hidden, struct error *err);

/* One function's VPD from this machine's files, or those below --root: velad does not have it. */
int ctl_source_vpd(struct vpd *ret, struct ctl *c, struct bdf bdf, struct arena *arena, struct error *err);

/* One call to velad; body NULL: none. *ret: the answer, the caller puts it. A problem document becomes err,
 * and is kept in c->problem. -ECONNREFUSED: no velad. */
int ctl_remote(struct json_object **ret, struct ctl *c, const char *method, const char *path,
	       struct json_object *body, struct error *err);
/* A connection that speaks another protocol than HTTP from now on; the caller closes it. Likewise. */
int ctl_remote_open(int *fd, struct ctl *c, const char *path, const char *protocol, struct error *err);

