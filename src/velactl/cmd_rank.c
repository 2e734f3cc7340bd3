/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl rank-map NAME: where the guest is, and its GPUs and VFs, by the host's switch. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"

enum { GUEST, ADDRESS, HOST, SLOT, SERIAL, MODULE, SWITCH, RAIL, SERVES, PORT, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[GUEST] = { "GUEST", CTL_LEFT },   [ADDRESS] = { "AS", CTL_LEFT },   [HOST] = { "HOST", CTL_LEFT },
	[SERIAL] = { "SERIAL", CTL_LEFT, 1 }, [SLOT] = { "SLOT", CTL_LEFT, 3 },   [MODULE] = { "MODULE", CTL_RIGHT, 2 },
	[SWITCH] = { "SWITCH", CTL_LEFT }, [RAIL] = { "RAIL", CTL_RIGHT },   [SERVES] = { "GPU", CTL_LEFT },
	[PORT] = { "PORT", CTL_LEFT },
};

static const char *number(char out[24], json_object *o, const char *key, const char *before)
{
	int64_t v = ctl_doc_int(o, key, -1);

	out[0] = '\0';
	if (v >= 0)
		(void)snprintf(out, 24, "%s%" PRId64, before, v);
	return out;
}

/* "ens1f0 leaf-3 Eth1/7" */
static void port_text(char *out, size_t size, json_object *vf)
{
	json_object *n = ctl_doc_get(vf, "neighbour");
	const char *port = ctl_doc_text(vf, "port");

	(void)snprintf(out, size, "%s%s%s%s%s", port, n ? " " : "", n ? ctl_doc_text(n, "name") : "", n ? " " : "",
		       n ? ctl_doc_text(n, "port") : "");
}

static bool add(struct libscols_table *t, json_object *list, bool gpu)
{
	bool ok = true;

	for (size_t i = 0; ok && i < ctl_doc_count(list); i++) {
		json_object *e = json_object_array_get_idx(list, i);
		char name[24], rail[24], serves[24], module[24], port[160] = "";
		const char *cell[COLUMNS] = { number(name, e, "index", gpu ? "gpu" : "vf"), ctl_doc_text(e, "guest_bdf"), ctl_doc_text(e, "bdf"),
					      ctl_doc_text(e, "slot"), ctl_doc_text(e, "serial"), number(module, e, "module", ""), ctl_doc_text(e, "switch"), number(rail, e, "rail", ""), number(serves, e, "gpu", "gpu"), port };

		if (!gpu)
			port_text(port, sizeof(port), e);
		ok = ctl_table_row(t, NULL, cell, COLUMNS);
	}
	return ok;
}

static void print_where(struct ctl *c, json_object *doc)
{
	const char *rack = ctl_doc_text(doc, "rack"), *host = ctl_doc_text(doc, "host");

	if (*rack) {
		sbuf_add(&c->out.text, "rack ");
		ctl_out_safe(&c->out, rack);
		sbuf_add(&c->out.text, *host ? ", " : "\n");
	}
	if (*host) {
		sbuf_add(&c->out.text, "host ");
		ctl_out_safe(&c->out, host);
		sbuf_add(&c->out.text, "\n");
	}
}

enum ctl_exit ctl_rank_map(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(columns, COLUMNS);
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	char path[96];

	(void)n;
	if (ctl_instance_path(path, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/rank-map");
	if (ctl_remote(&doc, c, "GET", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.json) {
		ctl_out_json(&c->out, doc);
		return CTL_OK;
	}
	if (!t || !add(t, ctl_doc_list(doc, "gpus"), true) || !add(t, ctl_doc_list(doc, "vfs"), false)) {
		(void)error_set(&err, -ENOMEM, "no memory for a table");
		return ctl_fail(c, &err);
	}
	print_where(c, doc);
	ctl_table_print(&c->out, t, columns, COLUMNS);
	return CTL_OK;
}
