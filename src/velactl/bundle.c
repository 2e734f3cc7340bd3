/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/bundle.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/bdf.h"
#include "base/error.h"
#include "base/parse.h"
#include "velactl/doc.h"
#include "velactl/out.h"
#include "velactl/table.h"

/* Empty columns are left out: a guest may have only GPUs, or only VFs. */
static const struct ctl_column device_columns[] = {
	{ "GPU", CTL_LEFT, .drop = 7 },
	{ "NUMA", CTL_RIGHT, .drop = 1 },
	{ "VF", CTL_LEFT, .drop = 6 },
	{ "OF NIC", CTL_LEFT, .drop = 3 },
	{ "VF#", CTL_RIGHT, .drop = 2 },
	{ "PATH", CTL_LEFT, .drop = 5 },
	{ "NOTE", CTL_LEFT, .drop = 4, .cut = 12 },
};

static const struct ctl_column step_columns[] = {
	{ "STEP", CTL_LEFT }, { "TARGET", CTL_LEFT },	   { "FROM", CTL_LEFT },
	{ "TO", CTL_LEFT },   { "STATE", CTL_LEFT, .drop = 1 },
};

static const char *number(char buf[24], json_object *o, const char *key)
{
	int64_t v = ctl_doc_int(o, key, -1);

	if (v < 0)
		return "";
	(void)snprintf(buf, 24, "%lld", (long long)v);
	return buf;
}

static bool add_vf(struct libscols_table *t, json_object *gpu, json_object *vf, bool planned)
{
	char numa[24], index[24], ats[24 + BDF_TEXT_MAX] = "";
	const char *was = *ctl_doc_text(vf, "planned_at") ? ctl_doc_text(vf, "planned_at") : ctl_doc_text(gpu, "planned_at");
	const char *cell[] = { ctl_doc_text(gpu, "bdf"), number(numa, gpu, "numa_node"), ctl_doc_text(vf, "bdf"),
			       ctl_doc_text(vf, "pf"), number(index, vf, "index"), ctl_doc_text(vf, "path"),
			       planned && vf && !ctl_doc_bool(vf, "exists") ? "will be made" : ats };

	if (*was)
		(void)snprintf(ats, sizeof(ats), "moved: was %s", was);
	else if (*ctl_doc_text(vf, "ats"))
		(void)snprintf(ats, sizeof(ats), "ATS %.16s", ctl_doc_text(vf, "ats"));
	return ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));
}

/* The VFs of one GPU, the first in the GPU's row; gpu NULL: VFs without a GPU. */
static bool add_gpu(struct libscols_table *t, json_object *gpu, json_object *vfs, bool planned)
{
	const char *bdf = ctl_doc_text(gpu, "bdf");
	size_t found = 0;

	for (size_t i = 0; i < ctl_doc_count(vfs); i++) {
		json_object *vf = json_object_array_get_idx(vfs, i);

		if (strcmp(ctl_doc_text(vf, "gpu"), bdf) == 0 && !add_vf(t, found++ ? NULL : gpu, vf, planned))
			return false;
	}
	return found || !gpu || add_vf(t, gpu, NULL, planned);
}

static bool add_companions(struct libscols_table *t, json_object *companions)
{
	for (size_t i = 0; i < ctl_doc_count(companions); i++) {
		json_object *c = json_object_array_get_idx(companions, i);
		char note[64];
		const char *cell[ARRAY_SIZE(device_columns)] = { ctl_doc_text(c, "bdf"), [6] = note };

		(void)snprintf(note, sizeof(note), "goes with %.40s", ctl_doc_text(c, "of"));
		if (!ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell)))
			return false;
	}
	return true;
}

static bool add_extras(struct libscols_table *t, json_object *extras)
{
	for (size_t i = 0; i < ctl_doc_count(extras); i++) {
		json_object *e = json_object_array_get_idx(extras, i);
		char numa[24];
		const char *note = strcmp(ctl_doc_text(e, "kind"), "nvme") == 0 ? "NVMe drive" : "NVSwitch";
		const char *cell[ARRAY_SIZE(device_columns)] = { ctl_doc_text(e, "bdf"), number(numa, e, "numa_node"), [6] = note };

		if (!ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell)))
			return false;
	}
	return true;
}

static void write_cells(struct ctl_out *out, json_object *cells)
{
	char size[SIZE_TEXT_MAX];

	for (size_t i = 0; i < ctl_doc_count(cells); i++) {
		json_object *c = json_object_array_get_idx(cells, i);
		long long vcpus = (long long)ctl_doc_int(c, "vcpus", 0), node = (long long)ctl_doc_int(c, "host_node", -1);

		sbuf_addf(&out->text, "cell %zu: %s, %lld vCPU%s", i, size_text(size, (uint64_t)ctl_doc_int(c, "memory", 0)),
			  vcpus, vcpus == 1 ? "" : "s");
		if (node >= 0)
			sbuf_addf(&out->text, ", on NUMA node %lld", node);
		if (*ctl_doc_text(c, "cpus"))
			sbuf_addf(&out->text, ", CPUs %s", ctl_doc_text(c, "cpus"));
		sbuf_add(&out->text, "\n");
	}
}

int ctl_bundle_write(struct ctl_out *out, json_object *bundle, bool planned, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(device_columns, ARRAY_SIZE(device_columns));
	json_object *gpus = ctl_doc_list(bundle, "gpus"), *vfs = ctl_doc_list(bundle, "vfs"), *extras = ctl_doc_list(bundle, "extras");
	bool ok = t;

	for (size_t i = 0; ok && i < ctl_doc_count(gpus); i++)
		ok = add_gpu(t, json_object_array_get_idx(gpus, i), vfs, planned);
	ok = ok && add_gpu(t, NULL, vfs, planned) && add_companions(t, ctl_doc_list(bundle, "companions")) && add_extras(t, extras);
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for a table");
	if (ctl_doc_count(gpus) + ctl_doc_count(vfs) + ctl_doc_count(extras)) {
		ctl_table_print(out, t, device_columns, ARRAY_SIZE(device_columns));
		sbuf_add(&out->text, "\n");
	}
	write_cells(out, ctl_doc_list(bundle, "cells"));
	return 0;
}

bool ctl_reasons_write(struct ctl_out *out, const char *title, struct json_object *list)
{
	if (!ctl_doc_count(list))
		return false;
	sbuf_add(&out->text, title);
	for (size_t i = 0; i < ctl_doc_count(list); i++) {
		sbuf_add(&out->text, "  - ");
		ctl_out_wrap(out, ctl_doc_text(json_object_array_get_idx(list, i), "text"), 4);
	}
	return true;
}

static void state_colour(struct libscols_line *line, const char *state)
{
	if (strcmp(state, "failed") == 0)
		ctl_table_colour(line, 4, "red");
	else if (strcmp(state, "begun") == 0)
		ctl_table_colour(line, 4, "yellow");
}

int ctl_steps_write(struct ctl_out *out, json_object *steps, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(step_columns, ARRAY_SIZE(step_columns));

	for (size_t i = 0; t && i < ctl_doc_count(steps); i++) {
		json_object *s = json_object_array_get_idx(steps, i);
		const char *cell[] = { ctl_doc_text(s, "id"), ctl_doc_text(s, "target"), ctl_doc_text(s, "from"),
				       ctl_doc_text(s, "to"), ctl_doc_text(s, "state") };
		struct libscols_line *line = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));

		if (!line)
			return error_set(err, -ENOMEM, "no memory for a table");
		state_colour(line, cell[4]);
	}
	if (!t)
		return error_set(err, -ENOMEM, "no memory for a table");
	if (ctl_doc_count(steps))
		ctl_table_print(out, t, step_columns, ARRAY_SIZE(step_columns));
	return 0;
}
