/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/matrix.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

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
	struct device *device; /* GPUs, NICs, NVMe drives; BDF order within */
	size_t         n;
	struct column *column;
	size_t         ncolumns;
};

static const struct {
	const char *kind, *label;
} shown[] = { { "gpu", "GPU" }, { "nic", "NIC" }, { "nvme", "NVME" }, { "", "DEV" } };

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

static json_object *node_of(json_object *topology, const char *bdf)
{
	json_object *nodes = ctl_doc_list(topology, "nodes");

	for (size_t i = 0; i < ctl_doc_count(nodes); i++) {
		json_object *node = json_object_array_get_idx(nodes, i);

		if (strcmp(ctl_doc_text(node, "bdf"), bdf) == 0)
			return node;
	}
	return NULL;
}

static void collect(struct matrix *m, json_object *topology, json_object *devices)
{
	size_t n = ctl_doc_count(devices);

	for (size_t kind = 0; kind < ARRAY_SIZE(shown); kind++) {
		unsigned of_kind = 0;

		for (size_t i = 0; i < n; i++) {
			const char *bdf = json_object_get_string(json_object_array_get_idx(devices, i));
			json_object *doc = bdf ? node_of(topology, bdf) : NULL;
			struct device *d = &m->device[m->n];

			if (kind_of(doc) != kind)
				continue;
			*d = (struct device){ .doc = doc, .bdf = bdf ? bdf : "?", .at = i };
			(void)snprintf(d->label, sizeof(d->label), "%s%u", shown[kind].label, of_kind++);
			m->n++;
		}
	}
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

static bool fill(struct matrix *m, json_object *matrix)
{
	json_object *rows = ctl_doc_list(matrix, "rows");
	const char **cpus, **numa;

	m->column = arena_array(&m->arena, m->n + 2, sizeof(*m->column));
	if (!m->column)
		return false;
	for (size_t c = 0; c < m->n; c++) {
		const char **cell = column_add(m, m->device[c].label);

		for (size_t r = 0; cell && r < m->n; r++)
			cell[r] = text_at(json_object_array_get_idx(rows, m->device[r].at), m->device[c].at);
	}
	cpus = column_add(m, "CPU Affinity");
	numa = column_add(m, "NUMA");
	for (size_t r = 0; cpus && numa && r < m->n; r++) {
		cpus[r] = text_at(ctl_doc_list(matrix, "cpus"), m->device[r].at);
		numa[r] = text_at(ctl_doc_list(matrix, "numa"), m->device[r].at);
	}
	for (size_t c = 0; c < m->ncolumns; c++) {
		m->column[c].width = ctl_out_columns(m->column[c].head);
		for (size_t r = 0; r < m->n; r++) {
			unsigned w = ctl_out_columns(m->column[c].cell[r]);

			m->column[c].width = w > m->column[c].width ? w : m->column[c].width;
		}
	}
	return m->ncolumns == m->n + 2;
}

static unsigned label_width(const struct matrix *m)
{
	unsigned most = 0;

	for (size_t i = 0; i < m->n; i++) {
		unsigned w = (unsigned)strlen(m->device[i].label);

		most = w > most ? w : most;
	}
	return most;
}

/* How many columns from `from` on fit beside the labels; at least one, cut if it must be. */
static size_t block_of(struct matrix *m, size_t from, unsigned room)
{
	size_t to = from;
	unsigned used = 0;

	for (; to < m->ncolumns; to++) {
		unsigned tail = to + 2 == m->ncolumns ? 2 + m->column[to + 1].width : 0; /* CPUs keep room for NUMA */

		if (used + 2 + m->column[to].width + tail > room && to > from)
			break;
		used += 2 + m->column[to].width;
		if (used + tail > room) {
			unsigned over = used + tail - room, w = m->column[to].width;

			m->column[to].width = w > over + CPUS_MIN ? w - over : w < CPUS_MIN ? w : CPUS_MIN;
			used = room - tail;
		}
	}
	return to - from;
}

static void write_block(struct ctl_out *o, const struct matrix *m, size_t from, size_t n, unsigned labels)
{
	ctl_out_cell(o, "", labels);
	for (size_t c = from; c < from + n; c++) {
		sbuf_add(&o->text, "  ");
		ctl_out_cell(o, m->column[c].head, m->column[c].width);
	}
	ctl_out_end(o);
	for (size_t r = 0; r < m->n; r++) {
		ctl_out_cell(o, m->device[r].label, labels);
		for (size_t c = from; c < from + n; c++) {
			sbuf_add(&o->text, "  ");
			ctl_out_cell(o, m->column[c].cell[r], m->column[c].width);
		}
		ctl_out_end(o);
	}
}

static const struct ctl_column device_columns[] = {
	{ "LABEL", CTL_LEFT },
	{ "DEVICE", CTL_LEFT },
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
		const char *cell[] = { d->label, d->bdf, ctl_doc_text(d->doc, "driver"),
				       names ? ctl_names_find(names, name, sizeof(name), id) : id };

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

int ctl_matrix_write(struct ctl_out *out, json_object *topology, struct ctl_names *names, struct error *err)
{
	json_object *matrix = ctl_doc_get(topology, "matrix"), *devices = ctl_doc_list(matrix, "devices");
	struct matrix m = { 0 };
	unsigned labels;
	int r = 0;

	if (!devices || !ctl_doc_list(matrix, "rows"))
		return error_set(err, -EPROTO, "the answer is not a topology");
	m.device = arena_array(&m.arena, ctl_doc_count(devices) + 1, sizeof(*m.device));
	if (m.device)
		collect(&m, topology, devices);
	if (!m.device || !fill(&m, matrix)) {
		r = error_set(err, -ENOMEM, "no memory for a matrix");
	} else if (!m.n) {
		sbuf_add(&out->text, "no GPUs, NICs or NVMe drives\n");
	} else {
		labels = label_width(&m);
		for (size_t from = 0, n; from < m.ncolumns; from += n) {
			n = block_of(&m, from, out->width ? out->width - labels : UINT16_MAX);
			if (from)
				sbuf_add(&out->text, "\n");
			write_block(out, &m, from, n, labels);
		}
		if (write_devices(out, &m, names))
			write_classes(out, &m);
		else
			r = error_set(err, -ENOMEM, "no memory for a table");
	}
	arena_done(&m.arena);
	return r;
}
