/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl host and velactl dump. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "base/json.h"
#include "base/parse.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"

static void write_field(struct ctl_out *out, const char *name, const char *value)
{
	sbuf_addf(&out->text, "%-9s ", name);
	ctl_out_wrap(out, *value ? value : "unknown", 10);
}

/* "31G" of bytes that are no whole GiB, too: for reading, not for calculating */
static const char *rounded(char buf[SIZE_TEXT_MAX], int64_t bytes)
{
	uint64_t mib = bytes > 0 ? (uint64_t)bytes >> 20 : 0;

	if (bytes < 0)
		(void)snprintf(buf, SIZE_TEXT_MAX, "?");
	else if (mib >= 10 * 1024)
		(void)snprintf(buf, SIZE_TEXT_MAX, "%" PRIu64 "G", mib / 1024);
	else
		(void)snprintf(buf, SIZE_TEXT_MAX, "%" PRIu64 "M", mib);
	return buf;
}

static void write_node(struct ctl_out *out, json_object *node)
{
	json_object *pools = ctl_doc_list(node, "hugepages");
	char total[SIZE_TEXT_MAX], free_[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];

	sbuf_addf(&out->text, "node %-4" PRId64 " %s free of %s", ctl_doc_int(node, "id", -1),
		  rounded(free_, ctl_doc_int(node, "memory_free", -1)), rounded(total, ctl_doc_int(node, "memory", -1)));
	for (size_t i = 0; i < ctl_doc_count(pools); i++) {
		json_object *p = json_object_array_get_idx(pools, i);

		if (ctl_doc_int(p, "total", 0) > 0)
			sbuf_addf(&out->text, ", %" PRId64 " of %" PRId64 " %s pages free", ctl_doc_int(p, "free", 0),
				  ctl_doc_int(p, "total", 0), size_text(size, (uint64_t)ctl_doc_int(p, "size", 0)));
	}
	sbuf_add(&out->text, ", CPUs ");
	ctl_out_wrap(out, *ctl_doc_text(node, "cpus") ? ctl_doc_text(node, "cpus") : "none", 10);
}

static void write_counts(struct ctl_out *out, json_object *counts)
{
	struct ctl_out line = { 0 };

	if (!json_object_is_type(counts, json_type_object))
		return;
	json_object_object_foreach(counts, kind, n)
		if (json_object_get_int64(n) > 0)
			sbuf_addf(&line.text, "%s%" PRId64 " %s", line.text.len ? ", " : "", json_object_get_int64(n), kind);
	write_field(out, "functions", line.text.text ? line.text.text : "none");
	sbuf_done(&line.text);
}

static void write_pair(struct ctl_out *out, const char *name, json_object *o, const char *a, const char *b)
{
	struct ctl_out line = { 0 };
	const char *first = ctl_doc_text(o, a), *second = ctl_doc_text(o, b);

	sbuf_addf(&line.text, "%s%s%s", first, *first && *second ? " " : "", second);
	write_field(out, name, line.text.text ? line.text.text : "");
	sbuf_done(&line.text);
}

static void write_host(struct ctl_out *out, json_object *host)
{
	json_object *iommu = ctl_doc_get(host, "iommu"), *nodes = ctl_doc_list(host, "nodes"), *cost = ctl_doc_get(host, "cost");

	write_pair(out, "machine", ctl_doc_get(host, "product"), "vendor", "name");
	write_field(out, "BIOS", ctl_doc_text(ctl_doc_get(host, "product"), "bios"));
	write_pair(out, "CPU", ctl_doc_get(host, "cpu"), "model", "");
	write_field(out, "kernel", ctl_doc_text(host, "kernel"));
	write_field(out, "cmdline", ctl_doc_text(host, "cmdline"));
	sbuf_add(&out->text, "IOMMU     ");
	ctl_out_safe(out, ctl_doc_text(iommu, "state"));
	if (ctl_doc_int(iommu, "units", 0) > 0)
		sbuf_addf(&out->text, ", %" PRId64 " units", ctl_doc_int(iommu, "units", 0));
	sbuf_addf(&out->text, "\nKVM       %s\n", ctl_doc_bool(host, "kvm") ? "yes" : "no");
	sbuf_addf(&out->text, "vfio-pci  %s\n", ctl_doc_bool(host, "vfio_pci") ? "loaded" : "not loaded");
	write_counts(out, ctl_doc_get(host, "counts"));
	for (size_t i = 0; i < ctl_doc_count(nodes); i++)
		write_node(out, json_object_array_get_idx(nodes, i));
	sbuf_addf(&out->text, "cost      %" PRId64 " functions read with %" PRId64 " system calls, %" PRId64 " config dwords\n",
		  ctl_doc_int(cost, "functions", 0), ctl_doc_int(cost, "syscalls", 0), ctl_doc_int(cost, "config_dwords", 0));
	ctl_findings_write(out, host);
}

enum ctl_exit ctl_host(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;

	(void)arg, (void)n; /* it takes none */
	if (ctl_source_host(&doc, c, &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.json)
		ctl_out_json(&c->out, doc);
	else
		write_host(&c->out, doc);
	return CTL_OK;
}

enum ctl_exit ctl_dump(struct ctl *c, char const *const *arg, size_t n)
{
	autofree char *text = NULL;
	struct error err = ERROR_INIT;

	(void)arg, (void)n; /* it takes none */
	if (ctl_source_dump(&text, c, &err) < 0)
		return ctl_fail(c, &err);
	sbuf_add(&c->out.text, text);
	return CTL_OK;
}
