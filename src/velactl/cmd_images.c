/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl images add, list, show, delete. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/parse.h"
#include "plan/seed.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"
#include "velactl/wait.h"

enum { NAME, STATE, FORMAT, SIZE, DISK, USED, CREATED, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[NAME] = { "IMAGE", CTL_LEFT }, [STATE] = { "STATE", CTL_LEFT }, [FORMAT] = { "FORMAT", CTL_LEFT },
	[SIZE] = { "SIZE", CTL_RIGHT }, [DISK] = { "DISK", CTL_RIGHT },  [USED] = { "GUESTS", CTL_RIGHT },
	[CREATED] = { "CREATED", CTL_LEFT, .drop = 1 },
};

static int image_path(char path[96], const char *name, struct error *err)
{
	int r = plan_image_name_check("image", name, err);

	(void)snprintf(path, 96, "/v1/images/%.60s", name);
	return r;
}

enum ctl_exit ctl_images_add(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *body = NULL;
	auto_(json_object_put) json_object *op = NULL;
	struct json_out o = json_out_new();
	struct error err = ERROR_INIT;

	(void)n;
	json_add_string(&o, "name", arg[0]);
	json_add_string(&o, "file", arg[1]);
	if (c->args.format)
		json_add_string(&o, "format", c->args.format);
	if (c->args.sha256)
		json_add_string(&o, "sha256", c->args.sha256);
	body = json_finish(&o);
	if (!body)
		(void)error_set(&err, -ENOMEM, "no memory for the request");
	if (!body || ctl_remote(&op, c, "POST", "/v1/images", body, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_accepted(c, op);
}

enum ctl_exit ctl_images_delete(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	char path[96];

	(void)n;
	if (image_path(path, arg[0], &err) < 0 || ctl_remote(&op, c, "DELETE", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_accepted(c, op);
}

/* "1.5 GiB": images are no round numbers. */
static const char *bytes_text(char buf[24], int64_t n)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	size_t u = 0;

	for (; v >= 1024 && u + 1 < ARRAY_SIZE(units); u++)
		v /= 1024;
	(void)snprintf(buf, 24, u && v < 10 ? "%.1f %s" : "%.0f %s", v, units[u]);
	return n < 0 ? "-" : buf;
}

static bool add_image(struct libscols_table *t, json_object *i)
{
	const char *state = ctl_doc_text(i, "state");
	char size[24], disk[24], used[24];
	const char *cell[COLUMNS] = { ctl_doc_text(i, "name"), state, ctl_doc_text(i, "format"), bytes_text(size, ctl_doc_int(i, "size", -1)),
				      bytes_text(disk, ctl_doc_int(i, "virtual_size", -1)), used, ctl_doc_text(i, "created") };
	struct libscols_line *line;

	(void)snprintf(used, sizeof(used), "%zu", ctl_doc_count(ctl_doc_list(i, "instances")));
	line = ctl_table_row(t, NULL, cell, COLUMNS);
	if (line && strcmp(state, "failed") == 0)
		ctl_table_colour(line, STATE, "red");
	return line;
}

static int write_list(struct ctl_out *out, json_object *doc, struct error *err)
{
	return ctl_table_list(out, ctl_doc_list(doc, "images"), columns, COLUMNS, add_image, "no images; velactl images add NAME FILE", err);
}

enum ctl_exit ctl_images_list(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return ctl_show_doc(c, "/v1/images", write_list);
}

static int write_image(struct ctl_out *out, json_object *i, struct error *err)
{
	static const char *const keys[] = { "name", "state", "error", "format", "sha256", "created" };
	char size[24], disk[24];

	(void)err;
	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		if (!*ctl_doc_text(i, keys[k]))
			continue;
		sbuf_addf(&out->text, "%-10s ", keys[k]);
		ctl_out_wrap(out, ctl_doc_text(i, keys[k]), 11);
	}
	sbuf_addf(&out->text, "%-10s %s, a disk of %s\n", "size", bytes_text(size, ctl_doc_int(i, "size", -1)),
		  bytes_text(disk, ctl_doc_int(i, "virtual_size", -1)));
	for (size_t k = 0; k < ctl_doc_count(ctl_doc_list(i, "instances")); k++)
		sbuf_addf(&out->text, "%-10s %s\n", k ? "" : "guests", json_object_get_string(json_object_array_get_idx(ctl_doc_list(i, "instances"), k)));
	return 0;
}

enum ctl_exit ctl_images_show(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	char path[96];

	(void)n;
	if (image_path(path, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	return ctl_show_doc(c, path, write_image);
}
