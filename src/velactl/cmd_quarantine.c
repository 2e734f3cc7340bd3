/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl quarantine list, add, release: functions that are not given to anybody. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/bdf.h"
#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"
#include "velactl/wait.h"

enum { BDF, SERIAL, CARD, SINCE, REASON, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[BDF] = { "FUNCTION", CTL_LEFT },
	[SERIAL] = { "SERIAL", CTL_LEFT, .drop = 1 },
	[CARD] = { "CARD", CTL_LEFT, .drop = 3 },
	[SINCE] = { "SINCE", CTL_LEFT, .drop = 2 },
	[REASON] = { "REASON", CTL_LEFT, .cut = 12 },
};

static bool add_row(struct libscols_table *t, json_object *q)
{
	const char *cell[COLUMNS] = { ctl_doc_text(q, "bdf"), ctl_doc_text(q, "serial"), ctl_doc_bool(q, "replaced") ? "replaced" : "",
				      ctl_doc_text(q, "since"), ctl_doc_text(q, "reason") };

	return ctl_table_row(t, NULL, cell, COLUMNS);
}

static int write_list(struct ctl_out *out, json_object *doc, struct error *err)
{
	return ctl_table_list(out, ctl_doc_list(doc, "quarantine"), columns, COLUMNS, add_row, "nothing is in quarantine", err);
}

enum ctl_exit ctl_quarantine_list(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return ctl_show_doc(c, "/v1/quarantine", write_list);
}

static int read_bdf(char text[BDF_TEXT_MAX], const char *arg, struct error *err)
{
	struct bdf bdf;

	if (!bdf_parse(&bdf, arg))
		return error_set(err, -EINVAL, "\"%.40s\" is no PCI address: say 0000:4c:00.0", arg);
	(void)bdf_text(text, bdf);
	return 0;
}

enum ctl_exit ctl_quarantine_add(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *body = NULL, *doc = NULL;
	struct json_out o = json_out_new();
	struct error err = ERROR_INIT;
	char bdf[BDF_TEXT_MAX];
	int r = read_bdf(bdf, arg[0], &err);

	(void)n;
	if (r == 0) {
		json_add_string(&o, "bdf", bdf);
		json_add_string(&o, "reason", arg[1]);
	}
	body = json_finish(&o);
	if (r == 0 && !body)
		r = error_set(&err, -ENOMEM, "no memory for the request");
	if (r < 0 || ctl_remote(&doc, c, "POST", "/v1/quarantine", body, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_write_doc(c, doc, write_list);
}

enum ctl_exit ctl_quarantine_release(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	char path[64], bdf[BDF_TEXT_MAX];

	(void)n;
	if (read_bdf(bdf, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(path, sizeof(path), "/v1/quarantine/%s", bdf);
	if (ctl_remote(&op, c, "DELETE", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_accepted(c, op);
}
