/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The texts of the cloud-init seed that are velad's own. The tenant's user-data stays as it is: what velad has to say is
 * vendor-data, as a boot hook and not as cloud-config, for of two lists write_files cloud-init takes the user's alone, and
 * because a boot hook runs at each boot: the guest's addresses may be others by then
 * (https://docs.cloud-init.io, "Vendor-data", "Cloud boothook"). */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "guest/guest.h"

#define END  "VELAD-END"  /* no line of what is written: those begin with {, < or a variable's name */
#define MINE "# by velad" /* an image's own /etc/nccl.conf stays */

/* Takes the document. */
static int steal_text(char **ret, struct json_out *o, struct error *err)
{
	auto_(json_object_put) json_object *doc = json_finish(o);
	const char *text = doc ? json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE) : NULL;

	*ret = text ? strdup(text) : NULL;
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for a seed");
}

int guest_meta_data(char **ret, const struct plan_request *r, const char *uuid, struct error *err)
{
	json_object *keys = r->seed.nkeys ? json_object_new_array() : NULL;
	struct json_out o = json_out_new();

	json_add_string(&o, "instance-id", uuid);
	json_add_string(&o, "local-hostname", r->seed.hostname ? r->seed.hostname : r->name);
	for (size_t i = 0; i < r->seed.nkeys; i++)
		json_append(&o, keys, json_object_new_string(r->seed.key[i]));
	if (r->seed.nkeys)
		json_add_made(&o, "public-keys", keys);
	json_add_made(&o, "tags", plan_tags_json(&r->seed));
	return steal_text(ret, &o, err);
}

static int instance_text(char **ret, const struct plan_request *r, const char *uuid, struct error *err)
{
	struct json_out o = json_out_new();

	json_add_string(&o, "name", r->name);
	json_add_string(&o, "uuid", uuid);
	json_add_string(&o, "tenant", *r->tenant ? r->tenant : NULL);
	json_add_made(&o, "tags", plan_tags_json(&r->seed));
	return steal_text(ret, &o, err);
}

/* Whole or not at all: a guest that is killed meanwhile has the old one. */
static void add_file(struct sbuf *b, const char *path, const char *first, const char *text)
{
	size_t n = strlen(text);

	sbuf_addf(b, "cat >%s.new <<'" END "'\n%s%s%s" END "\n", path, first, text, n && text[n - 1] == '\n' ? "" : "\n");
	sbuf_addf(b, "mv %s.new %s\n", path, path);
}

int guest_vendor_data(char **ret, const struct plan_request *r, const char *uuid, const char *nccl, const char *environment,
		      struct error *err)
{
	autofree char *instance = NULL;
	struct sbuf b = { 0 };
	int e = instance_text(&instance, r, uuid, err);

	if (e < 0)
		return e;
	sbuf_add(&b, "#cloud-boothook\n#!/bin/sh\n# What velad tells this guest about itself, at each boot.\nset -e\numask 022\nmkdir -p /etc/velad\n");
	add_file(&b, "/etc/velad/instance.json", "", instance);
	if (nccl)
		add_file(&b, GUEST_NCCL_PATH, "", nccl);
	if (*environment) {
		sbuf_add(&b, "if [ ! -e /etc/nccl.conf ] || grep -q '^" MINE "' /etc/nccl.conf; then\n");
		add_file(&b, "/etc/nccl.conf", MINE "\n", environment);
		sbuf_add(&b, "fi\n");
	}
	*ret = sbuf_steal(&b);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for a seed");
}
