/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl capacity: how many bundles of each shape still fit, and what keeps the rest out. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/parse.h"
#include "velactl/bundle.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"

#define MEMORY_DEFAULT (UINT64_C(512) << 20) /* of a request */

enum { SHAPE, NOW, EMPTY, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[SHAPE] = { "BUNDLE", CTL_LEFT }, [NOW] = { "FIT NOW", CTL_RIGHT }, [EMPTY] = { "IF ALL WERE FREE", CTL_RIGHT },
};

static const char *number(char buf[24], json_object *o, const char *key, const char *at_least)
{
	int64_t n = ctl_doc_int(o, key, -1);

	if (n < 0)
		(void)snprintf(buf, 24, ">= %" PRId64, ctl_doc_int(o, at_least, 0));
	else
		(void)snprintf(buf, 24, "%" PRId64, n);
	return buf;
}

static bool add_shape(struct libscols_table *t, json_object *s)
{
	json_object *req = ctl_doc_get(s, "request");
	long long gpus = (long long)ctl_doc_int(s, "gpus", 0), vcpus = (long long)ctl_doc_int(req, "vcpus", 0);
	uint64_t memory = (uint64_t)ctl_doc_int(req, "memory", 0);
	char shape[160], now[24], empty[24], size[SIZE_TEXT_MAX];
	const char *cell[COLUMNS] = { shape, number(now, s, "bundles", "bundles_at_least"), number(empty, s, "empty", "empty_at_least") };
	size_t n = (size_t)snprintf(shape, sizeof(shape), "%lld GPU%s", gpus, gpus == 1 ? "" : "s");

	if (ctl_doc_int(s, "vfs_per_gpu", 0) || ctl_doc_int(req, "vfs", 0))
		n += (size_t)snprintf(shape + n, sizeof(shape) - n, ", NICs at %.8s", ctl_doc_text(s, "max_path"));
	if (vcpus != gpus)
		n += (size_t)snprintf(shape + n, sizeof(shape) - n, ", %lld vCPU%s", vcpus, vcpus == 1 ? "" : "s");
	if (memory != MEMORY_DEFAULT)
		n += (size_t)snprintf(shape + n, sizeof(shape) - n, ", %s", size_text(size, memory));
	if (strcmp(ctl_doc_text(req, "gdr"), "required") == 0)
		(void)snprintf(shape + n, sizeof(shape) - n, ", routes direct");
	return ctl_table_row(t, NULL, cell, COLUMNS);
}

static bool same(json_object *a, json_object *b)
{
	return strcmp(ctl_doc_text(a, "text"), ctl_doc_text(b, "text")) == 0;
}

/* Of several shapes often the same: each once. */
static json_object *all_reasons(json_object *shapes)
{
	json_object *all = json_object_new_array();

	for (size_t i = 0; all && i < ctl_doc_count(shapes); i++) {
		json_object *list = ctl_doc_list(json_object_array_get_idx(shapes, i), "blocked");

		for (size_t k = 0; k < ctl_doc_count(list); k++) {
			json_object *r = json_object_array_get_idx(list, k);
			bool there = false;

			for (size_t j = 0; j < json_object_array_length(all) && !there; j++)
				there = same(json_object_array_get_idx(all, j), r);
			if (!there && json_object_array_add(all, json_object_get(r)) < 0)
				json_object_put(r);
		}
	}
	return all;
}

static int write_capacity(struct ctl_out *out, json_object *doc, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, COLUMNS);
	json_object *shapes = ctl_doc_list(doc, "shapes"), *f = ctl_doc_get(doc, "fragmentation");
	auto_(json_object_put) json_object *reasons = all_reasons(shapes);
	bool ok = t && reasons;

	for (size_t i = 0; ok && i < ctl_doc_count(shapes); i++)
		ok = add_shape(t, json_object_array_get_idx(shapes, i));
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for a table");
	sbuf_addf(&out->text, "%" PRId64 " of %" PRId64 " GPUs can be given", ctl_doc_int(doc, "free", 0), ctl_doc_int(doc, "gpus", 0));
	if (f)
		sbuf_addf(&out->text, "; fragmentation %.1f %%", 100 * json_object_get_double(f));
	sbuf_add(&out->text, "\n\n");
	ctl_table_print(out, t, columns, COLUMNS);
	if (ctl_doc_count(reasons)) {
		sbuf_add(&out->text, "\n");
		(void)ctl_reasons_write(out, "in the way of more:\n", reasons);
	}
	return 0;
}

enum ctl_exit ctl_capacity(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	int r;

	(void)arg, (void)n; /* it takes none */
	r = ctl_source_capacity(&doc, c, &err);
	if (r == 0 && c->args.json)
		ctl_out_json(&c->out, doc);
	else if (r == 0)
		r = write_capacity(&c->out, doc, &err);
	return r < 0 ? ctl_fail(c, &err) : CTL_OK;
}
