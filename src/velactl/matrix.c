/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/matrix.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "velactl/doc.h"
#include "velactl/names.h"
#include "velactl/out.h"
#include "velactl/table.h"

#define CPUS_MIN 16 /* columns of a CPU list that are worth having */

struct device {
	json_object *doc;    /* its node; NULL if the document lacks it */
	const char  *bdf;
	char         label[16];
	size_t       at;     /* in the document's matrix */
};

struct column {
	const char  *head;
	const char **cell; /* one per device */
	unsigned     width;
};

struct matrix {
	struct arena   arena;
	struct device *device; /* by kind; BDF order within */
	size_t         n;
	struct column *column; /* the devices, then TAIL more */
	size_t         ncolumns;
	unsigned       labels; /* columns that the labels take */
	unsigned       gap;    /* blanks between columns */
};

enum { RAIL, CPUS, NUMA, TAIL };

static const struct {
	const char *kind, *label;
} shown[] = { { "gpu", "GPU" }, { "nic", "NIC" }, { "nvme", "NVME" }, { "nvswitch", "NVSW" }, { "", "DEV" } };

static const struct {
	const char *class, *text;
} classes[] = {
	{ "X", "the same function" },
	{ "PIX", "at most one PCIe switch between the two" },
	{ "PXB", "several PCIe switches, no root complex" },
	{ "PHB", "through one PCIe host bridge, that is the CPU" },
	{ "NODE", "between host bridges of one NUMA node" },
	{ "SYS", "between NUMA nodes, over the CPU interconnect" },
	{ "?", "not known: firmware does not say the NUMA node" },
};

static size_t kind_of(json_object *doc)
{
	const char *kind = ctl_doc_text(doc, "kind");
	size_t k = 0;

	while (k + 1 < ARRAY_SIZE(shown) && strcmp(shown[k].kind, kind) != 0)
		k++;
	return k;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct device *)a)->bdf, ((const struct device *)b)->bdf);
}

/* The devices of the matrix with their nodes: sorted, so that each node is looked up and not each device. */
static size_t find_nodes(struct device *found, json_object *topology, json_object *devices)
{
	json_object *nodes = ctl_doc_list(topology, "nodes");
	size_t n = ctl_doc_count(devices);

	for (size_t i = 0; i < n; i++) {
		const char *bdf = json_object_get_string(json_object_array_get_idx(devices, i));

		found[i] = (struct device){ .bdf = bdf ? bdf : "?", .at = i };
	}
	if (n)
		qsort(found, n, sizeof(*found), compare);
	for (size_t i = 0; n && i < ctl_doc_count(nodes); i++) {
		struct device key = { .doc = json_object_array_get_idx(nodes, i) }, *d;

		key.bdf = ctl_doc_text(key.doc, "bdf");
		d = bsearch(&key, found, n, sizeof(*found), compare);
		if (d)
			d->doc = key.doc;
	}
	return n;
}

static bool collect(struct matrix *m, json_object *topology, json_object *devices, bool all)
{
	struct device *found = arena_array(&m->arena, ctl_doc_count(devices) + 1, sizeof(*found));
	size_t n = found ? find_nodes(found, topology, devices) : 0;

	m->device = arena_array(&m->arena, n + 1, sizeof(*m->device));
	for (size_t kind = 0; m->device && kind < ARRAY_SIZE(shown); kind++) {
		unsigned of_kind = 0;

		if (!all && strcmp(shown[kind].kind, "nvswitch") == 0)
			continue;
		for (size_t i = 0; i < n; i++) {
			struct device *d = &m->device[m->n];

			if (kind_of(found[i].doc) != kind)
				continue;
			*d = found[i];
			(void)snprintf(d->label, sizeof(d->label), "%s%u", shown[kind].label, of_kind++);
			m->labels = strlen(d->label) > m->labels ? (unsigned)strlen(d->label) : m->labels;
			m->n++;
		}
	}
	return found && m->device;
}

static const char *text_at(json_object *array, size_t i)
{
	json_object *v = i < ctl_doc_count(array) ? json_object_array_get_idx(array, i) : NULL;
	const char *text = v ? json_object_get_string(v) : NULL;

	return text ? text : "";
}

static const char **column_add(struct matrix *m, const char *head)
{
	struct column *c = &m->column[m->ncolumns];

	*c = (struct column){ .head = head, .cell = arena_array(&m->arena, m->n, sizeof(*c->cell)) };
	m->ncolumns += c->cell != NULL;
	return c->cell;
}

static bool add_tail(struct matrix *m, json_object *matrix)
{
	static const struct {
		const char *head, *key;
	} tail[TAIL] = { [RAIL] = { "Rail", "rails" }, [CPUS] = { "CPU Affinity", "cpus" }, [NUMA] = { "NUMA", "numa" } };

	for (size_t i = 0; i < TAIL; i++) {
		const char **cell = column_add(m, tail[i].head);

		for (size_t r = 0; cell && r < m->n; r++)
			cell[r] = text_at(ctl_doc_list(matrix, tail[i].key), m->device[r].at);
	}
	return m->ncolumns == m->n + TAIL;
}

static bool fill(struct matrix *m, json_object *matrix)
{
	json_object *rows = ctl_doc_list(matrix, "rows");

	m->column = arena_array(&m->arena, m->n + TAIL, sizeof(*m->column));
	if (!m->column)
		return false;
	for (size_t c = 0; c < m->n; c++) {
		const char **cell = column_add(m, m->device[c].label);

		for (size_t r = 0; cell && r < m->n; r++)
			cell[r] = text_at(json_object_array_get_idx(rows, m->device[r].at), m->device[c].at);
	}
	if (!add_tail(m, matrix))
		return false;
	for (size_t c = 0; c < m->ncolumns; c++) {
		unsigned most = 0;

		for (size_t r = 0; r < m->n; r++) {
			unsigned w = ctl_out_columns(m->column[c].cell[r]);

			most = w > most ? w : most;
		}
		m->column[c].width = ctl_out_columns(m->column[c].head);
		m->column[c].width = !most ? 0 : most > m->column[c].width ? most : m->column[c].width;
	}
	return true;
}

/* Columns that columns [from, to) take, with what stands before each; empty ones are not printed. */
static unsigned width_of(const struct matrix *m, size_t from, size_t to)
{
	unsigned sum = 0;

	for (size_t c = from; c < to; c++)
		sum += m->column[c].width ? m->gap + m->column[c].width : 0;
	return sum;
}

/* All in one block, with CPU lists cut if need be? Else the devices stand closer, and the rest of the columns goes to
 * the list of devices. */
static void arrange(struct matrix *m, unsigned width)
{
	struct column *cpus = &m->column[m->n + CPUS];
	unsigned whole, over;

	m->gap = 2;
	whole = m->labels + width_of(m, 0, m->ncolumns);
	over = width && whole > width ? whole - width : 0;
	if (over && cpus->width >= over + CPUS_MIN) {
		cpus->width -= over;
	} else if (over) {
		m->gap = 1;
		m->ncolumns = m->n;
	}
}

/* How many columns from `from` on fit beside the labels; at least one. */
static size_t block_of(const struct matrix *m, size_t from, unsigned width)
{
	size_t to = from + 1;

	while (to < m->ncolumns && (!width || m->labels + width_of(m, from, to + 1) <= width))
		to++;
	return to - from;
}

static void write_block(struct ctl_out *o, const struct matrix *m, size_t from, size_t n)
{
	for (size_t r = 0; r <= m->n; r++) { /* the head first */
		ctl_out_cell(o, r ? m->device[r - 1].label : "", m->labels);
		for (size_t c = from; c < from + n; c++) {
			if (!m->column[c].width)
				continue;
			sbuf_addf(&o->text, "%*s", (int)m->gap, "");
			ctl_out_cell(o, r ? m->column[c].cell[r - 1] : m->column[c].head, m->column[c].width);
		}
		ctl_out_end(o);
	}
}

static const struct ctl_column device_columns[] = {
	{ "LABEL", CTL_LEFT },
	{ "DEVICE", CTL_LEFT },
	{ "RAIL", CTL_RIGHT, .drop = 4 },
	{ "NUMA", CTL_RIGHT, .drop = 5 },
	{ "CPUS", CTL_LEFT, .drop = 3, .cut = CPUS_MIN },
	{ "DRIVER", CTL_LEFT, .drop = 2 },
	{ "NAME", CTL_LEFT, .drop = 1, .cut = 10 },
};

static bool write_devices(struct ctl_out *o, const struct matrix *m, struct ctl_names *names)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(device_columns, ARRAY_SIZE(device_columns));

	for (size_t i = 0; t && i < m->n; i++) {
		const struct device *d = &m->device[i];
		const char *id = ctl_doc_text(d->doc, "id");
		char name[256];
		bool here = m->ncolumns == m->n; /* where the matrix had no room */
		const char *cell[] = { d->label, d->bdf, here ? m->column[m->n + RAIL].cell[i] : "",
				       here ? m->column[m->n + NUMA].cell[i] : "", here ? m->column[m->n + CPUS].cell[i] : "",
				       ctl_doc_driver(d->doc), names ? ctl_names_find(names, name, sizeof(name), id) : id };

		if (!ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell)))
			return false;
	}
	sbuf_add(&o->text, "\n");
	if (t)
		ctl_table_print(o, t, device_columns, ARRAY_SIZE(device_columns));
	return t;
}

static bool occurs(const struct matrix *m, const char *class)
{
	for (size_t c = 0; c < m->n; c++)
		for (size_t r = 0; r < m->n; r++)
			if (strcmp(m->column[c].cell[r], class) == 0)
				return true;
	return false;
}

/* The whole vocabulary, as nvidia-smi prints it; "?" only where something is not known. */
static void write_classes(struct ctl_out *o, const struct matrix *m)
{
	sbuf_add(&o->text, "\n");
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		if (strcmp(classes[i].class, "?") == 0 && !occurs(m, "?"))
			continue;
		sbuf_addf(&o->text, "%-4s  ", classes[i].class);
		ctl_out_wrap(o, classes[i].text, 6);
	}
}

static bool write_all(struct ctl_out *out, struct matrix *m, int64_t left_out, struct ctl_names *names)
{
	if (!m->n) {
		sbuf_add(&out->text, "no GPUs, NICs or NVMe drives\n");
		return true;
	}
	arrange(m, out->width);
	for (size_t from = 0, n; from < m->ncolumns; from += n) {
		n = block_of(m, from, out->width);
		if (from)
			sbuf_add(&out->text, "\n");
		write_block(out, m, from, n);
	}
	if (left_out > 0)
		sbuf_addf(&out->text, "\n%lld more devices are not in the matrix\n", (long long)left_out);
	if (!write_devices(out, m, names))
		return false;
	write_classes(out, m);
	return true;
}

int ctl_matrix_write(struct ctl_out *out, json_object *topology, bool all, struct ctl_names *names, struct error *err)
{
	json_object *matrix = ctl_doc_get(topology, "matrix"), *devices = ctl_doc_list(matrix, "devices");
	struct matrix m = { 0 };
	bool done;

	if (!devices || !ctl_doc_list(matrix, "rows"))
		return error_set(err, -EPROTO, "the answer is not a topology");
	done = collect(&m, topology, devices, all) && fill(&m, matrix) &&
	       write_all(out, &m, ctl_doc_int(matrix, "left_out", 0), names);
	arena_done(&m.arena);
	return done ? 0 : error_set(err, -ENOMEM, "no memory for a matrix");
}

int ctl_matrix_find(struct bdf *ret, json_object *topology, const char *label)
{
	struct matrix m = { 0 };
	bool there = false;

	if (collect(&m, topology, ctl_doc_list(ctl_doc_get(topology, "matrix"), "devices"), true))
		for (size_t i = 0; i < m.n && !there; i++)
			there = strcasecmp(m.device[i].label, label) == 0 && bdf_parse(ret, m.device[i].bdf);
	arena_done(&m.arena);
	return there ? 0 : -ENOENT;
}
