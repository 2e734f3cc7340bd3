/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl leases, release: plans that hold their devices. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"

enum { ID, UID, EXPIRES, BUNDLE, GPUS, VFS, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[ID] = { "LEASE", CTL_LEFT },	      [UID] = { "UID", CTL_RIGHT, .drop = 2 },
	[EXPIRES] = { "EXPIRES", CTL_LEFT },  [BUNDLE] = { "BUNDLE", CTL_RIGHT, .drop = 3 },
	[GPUS] = { "GPUS", CTL_LEFT, .cut = 12 }, [VFS] = { "VFS", CTL_LEFT, .drop = 1, .cut = 12 },
};

/* "0000:19:00.0 0000:3b:00.0" */
static const char *joined(char *buf, size_t size, json_object *list)
{
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; i < ctl_doc_count(list) && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%.20s", len ? " " : "",
					json_object_get_string(json_object_array_get_idx(list, i)));
	return buf;
}

/* A row per bundle; what is the lease's stands in the first. */
static bool add_lease(struct libscols_table *t, json_object *lease)
{
	json_object *bundles = ctl_doc_list(lease, "bundles");

	for (size_t i = 0; i < ctl_doc_count(bundles); i++) {
		json_object *b = json_object_array_get_idx(bundles, i);
		char uid[24], index[24], gpus[512], vfs[1536];
		const char *cell[COLUMNS] = { ctl_doc_text(lease, "id"), uid, ctl_doc_text(lease, "expires"), index,
					      joined(gpus, sizeof(gpus), ctl_doc_list(b, "gpus")),
					      joined(vfs, sizeof(vfs), ctl_doc_list(b, "vfs")) };

		(void)snprintf(uid, sizeof(uid), "%" PRId64, ctl_doc_int(lease, "uid", -1));
		(void)snprintf(index, sizeof(index), "%zu", i);
		if (ctl_doc_bool(b, "used"))
			cell[GPUS] = "used";
		if (i)
			cell[ID] = cell[UID] = cell[EXPIRES] = "";
		if (!ctl_table_row(t, NULL, cell, COLUMNS))
			return false;
	}
	return true;
}

static int write_leases(struct ctl_out *out, json_object *doc, struct error *err)
{
	json_object *list = ctl_doc_list(doc, "leases");

	if (ctl_doc_count(list) == 0)
		sbuf_add(&out->text, "no leases\n");
	return ctl_table_list(out, list, columns, COLUMNS, add_lease, NULL, err);
}

enum ctl_exit ctl_leases(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return ctl_show_doc(c, "/v1/plans", write_leases);
}

enum ctl_exit ctl_release(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	char path[64];

	(void)n;
	if (strspn(arg[0], "0123456789abcdef") != strlen(arg[0]) || strlen(arg[0]) > 32) {
		(void)error_set(&err, -EINVAL, "\"%.40s\" is not the id of a lease; velactl leases has them", arg[0]);
		return ctl_fail(c, &err);
	}
	(void)snprintf(path, sizeof(path), "/v1/plans/%s", arg[0]);
	if (ctl_remote(&doc, c, "DELETE", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, doc);
	else
		sbuf_addf(&c->out.text, "lease %s released\n", arg[0]);
	return CTL_OK;
}
