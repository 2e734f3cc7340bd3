/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl host and velactl dump. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"
#include "host/anonymize.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/save.h"
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

	sbuf_addf(&out->text, "node %-4" PRId64 " ", ctl_doc_int(node, "id", -1));
	if (ctl_doc_int(node, "memory", -1) == 0)
		sbuf_add(&out->text, "no memory");
	else
		sbuf_addf(&out->text, "%s free of %s", rounded(free_, ctl_doc_int(node, "memory_free", -1)),
			  rounded(total, ctl_doc_int(node, "memory", -1)));
	for (size_t i = 0; i < ctl_doc_count(pools); i++) {
		json_object *p = json_object_array_get_idx(pools, i);

		if (ctl_doc_int(p, "total", 0) > 0)
			sbuf_addf(&out->text, ", %" PRId64 " of %" PRId64 " %s pages free", ctl_doc_int(p, "free", 0),
				  ctl_doc_int(p, "total", 0), size_text(size, (uint64_t)ctl_doc_int(p, "size", 0)));
	}
	sbuf_add(&out->text, ", CPUs ");
	ctl_out_wrap(out, !ctl_doc_get(node, "cpus") ? "unknown" : *ctl_doc_text(node, "cpus") ? ctl_doc_text(node, "cpus") :
		     "none", 10);
}

/* ", TEXT" or "TEXT", if there is one */
static void add_part(struct ctl_out *line, const char *before, const char *text)
{
	if (*text)
		sbuf_addf(&line->text, "%s%s%s", line->text.len ? ", " : "", before, text);
}

/* One paragraph below a label, which may be "" for a further one of the same thing; frees the line. */
static void end_line(struct ctl_out *out, const char *label, struct ctl_out *line)
{
	sbuf_addf(&out->text, "%-9s ", label);
	ctl_out_wrap(out, line->text.text ? line->text.text : "", 10);
	sbuf_done(&line->text);
	*line = (struct ctl_out){ 0 };
}

static void write_cpu(struct ctl_out *out, json_object *cpu)
{
	size_t sockets = ctl_doc_count(ctl_doc_list(cpu, "sockets")), cores = ctl_doc_count(ctl_doc_list(cpu, "cores"));
	int64_t threads = ctl_doc_int(cpu, "threads_per_core", 0);
	struct ctl_out line = { 0 };

	add_part(&line, "", *ctl_doc_text(cpu, "model") ? ctl_doc_text(cpu, "model") : "unknown");
	if (sockets)
		sbuf_addf(&line.text, ", %zu socket%s", sockets, sockets == 1 ? "" : "s");
	if (cores)
		sbuf_addf(&line.text, ", %zu core%s", cores, cores == 1 ? "" : "s");
	if (threads)
		sbuf_addf(&line.text, ", %" PRId64 " thread%s each", threads, threads == 1 ? "" : "s");
	add_part(&line, "CPUs ", ctl_doc_text(cpu, "online"));
	end_line(out, "CPU", &line);
}

static void write_boot(struct ctl_out *out, json_object *boot)
{
	json_object *options = ctl_doc_list(boot, "options");
	const char *label = "options";
	struct ctl_out line = { 0 };

	for (size_t i = 0; i < ctl_doc_count(options); i++) {
		json_object *o = json_object_array_get_idx(options, i);
		const char *note = ctl_doc_text(o, "note");

		if (!*note)
			continue;
		sbuf_addf(&line.text, "%s: %s", ctl_doc_text(o, "option"), note);
		end_line(out, label, &line);
		label = "";
	}
}

static void write_modules(struct ctl_out *out, json_object *modules)
{
	struct ctl_out line = { 0 };

	for (size_t i = 0; i < ctl_doc_count(modules); i++) {
		json_object *m = json_object_array_get_idx(modules, i), *params = ctl_doc_get(m, "parameters");
		const char *version = ctl_doc_text(m, "version"), *state = ctl_doc_text(m, "state");

		add_part(&line, "", ctl_doc_text(m, "name"));
		if (*version)
			sbuf_addf(&line.text, " %s", version);
		if (strcmp(state, "live") != 0)
			sbuf_addf(&line.text, " (%s)", state);
		if (!json_object_is_type(params, json_type_object))
			continue;
		json_object_object_foreach(params, key, value)
			sbuf_addf(&line.text, " %s=%s", key, json_object_get_string(value));
	}
	if (line.text.len)
		end_line(out, "modules", &line);
}

static void write_netdev(struct ctl_out *out, json_object *n)
{
	json_object *peer = ctl_doc_get(n, "neighbour");
	int64_t mtu = ctl_doc_int(n, "mtu", 0), speed = ctl_doc_int(n, "speed_mbps", 0);
	struct ctl_out line = { 0 };

	sbuf_addf(&line.text, "%s %s", ctl_doc_text(n, "name"),
		  *ctl_doc_text(n, "state") ? ctl_doc_text(n, "state") : "state ?");
	if (ctl_doc_no(n, "carrier"))
		sbuf_add(&line.text, ", no carrier");
	if (speed)
		sbuf_addf(&line.text, ", %g Gb/s", (double)speed / 1000);
	if (mtu)
		sbuf_addf(&line.text, ", MTU %" PRId64, mtu);
	add_part(&line, "", ctl_doc_text(n, "mac"));
	if (peer) {
		const char *name = ctl_doc_text(peer, "chassis_name"), *port = ctl_doc_text(peer, "port_id");

		add_part(&line, "to ", *name ? name : ctl_doc_text(peer, "chassis_id"));
		if (*port)
			sbuf_addf(&line.text, " %s", port);
	}
	end_line(out, "", &line);
}

static void write_rdma(struct ctl_out *out, json_object *dev)
{
	json_object *ports = ctl_doc_list(dev, "ports");
	struct ctl_out line = { 0 };

	for (size_t i = 0; i < ctl_doc_count(ports); i++) {
		json_object *p = json_object_array_get_idx(ports, i);

		sbuf_addf(&line.text, "%s port %" PRId64 " %s", ctl_doc_text(dev, "name"), ctl_doc_int(p, "port", 0),
			  *ctl_doc_text(p, "state") ? ctl_doc_text(p, "state") : "state ?");
		add_part(&line, "", ctl_doc_text(p, "phys_state"));
		add_part(&line, "", ctl_doc_text(p, "rate"));
		add_part(&line, "", ctl_doc_text(p, "link_layer"));
		end_line(out, "", &line);
	}
	if (!ctl_doc_count(ports)) {
		sbuf_addf(&line.text, "%s, ports unknown", ctl_doc_text(dev, "name"));
		end_line(out, "", &line);
	}
}

static void write_nic(struct ctl_out *out, json_object *nic)
{
	json_object *netdevs = ctl_doc_list(nic, "netdevs"), *rdma = ctl_doc_list(nic, "rdma"),
		    *fw = ctl_doc_get(nic, "firmware");
	json_object *dev = ctl_doc_count(rdma) ? json_object_array_get_idx(rdma, 0) : NULL;
	const char *running = ctl_doc_text(fw, "running"), *stored = ctl_doc_text(fw, "stored");
	int64_t representors = ctl_doc_int(nic, "representors", 0);
	struct ctl_out line = { 0 };

	if (!*running && !ctl_doc_count(netdevs) && !dev && !representors)
		return; /* no driver, or vfio-pci: `topo` says which */
	sbuf_add(&line.text, ctl_doc_text(nic, "bdf"));
	if (dev && *ctl_doc_text(dev, "type"))
		sbuf_addf(&line.text, " %s", ctl_doc_text(dev, "type"));
	add_part(&line, "firmware ", *running || !dev ? running : ctl_doc_text(dev, "firmware"));
	if (*stored && strcmp(running, stored) != 0)
		sbuf_addf(&line.text, " (%s after a reset)", stored);
	if (dev)
		add_part(&line, "board ", ctl_doc_text(dev, "board"));
	if (representors)
		sbuf_addf(&line.text, ", %" PRId64 " representor%s", representors, representors == 1 ? "" : "s");
	end_line(out, "NIC", &line);
	for (size_t i = 0; i < ctl_doc_count(netdevs); i++)
		write_netdev(out, json_object_array_get_idx(netdevs, i));
	for (size_t i = 0; i < ctl_doc_count(rdma); i++)
		write_rdma(out, json_object_array_get_idx(rdma, i));
}

/* The least module id above one; -1: there is none. Its BDF, "" if no partition has it. */
static int64_t next_module(json_object *partitions, int64_t above, const char **bdf)
{
	int64_t least = -1;

	*bdf = "";
	for (size_t p = 0; p < ctl_doc_count(partitions); p++) {
		json_object *gpus = ctl_doc_list(json_object_array_get_idx(partitions, p), "gpus");

		for (size_t i = 0; i < ctl_doc_count(gpus); i++) {
			json_object *g = json_object_array_get_idx(gpus, i);
			int64_t module = ctl_doc_int(g, "module", -1);

			if (module <= above || (least >= 0 && module > least))
				continue;
			if (module != least || !**bdf)
				*bdf = ctl_doc_text(g, "bdf");
			least = module;
		}
	}
	return least;
}

static void write_partitions(struct ctl_out *out, json_object *partitions)
{
	struct ctl_out line = { 0 };
	const char *bdf;

	for (int64_t m = -1; (m = next_module(partitions, m, &bdf)) >= 0;)
		sbuf_addf(&line.text, "%s %" PRId64 " %s", line.text.len ? "," : "GPU modules", m, *bdf ? bdf : "?");
	if (line.text.len)
		end_line(out, "", &line);
	for (size_t p = 0; p < ctl_doc_count(partitions); p++) {
		json_object *o = json_object_array_get_idx(partitions, p), *gpus = ctl_doc_list(o, "gpus");

		sbuf_addf(&line.text, "partition %" PRId64 " %s, module%s", ctl_doc_int(o, "id", -1),
			  ctl_doc_bool(o, "active") ? "active" : "idle", ctl_doc_count(gpus) == 1 ? "" : "s");
		for (size_t i = 0; i < ctl_doc_count(gpus); i++)
			sbuf_addf(&line.text, " %" PRId64,
				  ctl_doc_int(json_object_array_get_idx(gpus, i), "module", -1));
		end_line(out, "", &line);
	}
}

static void write_fabric(struct ctl_out *out, json_object *f)
{
	static const char *const modes[] = { "0, bare metal", "1, shared NVSwitch", "2, vGPU" };
	json_object *partitions = ctl_doc_list(f, "partitions");
	int64_t mode = ctl_doc_int(f, "mode", -1);
	struct ctl_out line = { 0 };

	if (!f)
		return;
	add_part(&line, "FABRIC_MODE ", mode >= 0 && mode <= 2 ? modes[mode] : "unknown");
	add_part(&line, "socket ", ctl_doc_text(f, "command_socket"));
	if (ctl_doc_no(f, "command_socket_there"))
		sbuf_add(&line.text, " (not there)");
	if (!partitions)
		add_part(&line, "", "partitions unknown");
	end_line(out, "fabric", &line);
	write_partitions(out, partitions);
}

/* "10 21" of each node: how far to the others. */
static void write_distances(struct ctl_out *out, json_object *nodes)
{
	const char *label = "distance";

	for (size_t i = 0; i < ctl_doc_count(nodes) && ctl_doc_count(nodes) > 1; i++) {
		json_object *node = json_object_array_get_idx(nodes, i), *list = ctl_doc_list(node, "distance");
		struct ctl_out line = { 0 };

		sbuf_addf(&line.text, "node %" PRId64 ":", ctl_doc_int(node, "id", -1));
		for (size_t k = 0; k < ctl_doc_count(list); k++) {
			json_object *d = json_object_array_get_idx(list, k);

			sbuf_addf(&line.text, " %s", d ? json_object_get_string(d) : "?");
		}
		end_line(out, label, &line);
		label = "";
	}
}

static void write_reserves(struct ctl_out *out, json_object *sizes)
{
	struct ctl_out line = { 0 };
	char size[SIZE_TEXT_MAX];

	for (size_t i = 0; i < ctl_doc_count(sizes); i++) {
		json_object *o = json_object_array_get_idx(sizes, i);

		if (ctl_doc_int(o, "reserved", 0) > 0)
			sbuf_addf(&line.text, "%s%" PRId64 " free %s pages are promised already",
				  line.text.len ? ", " : "", ctl_doc_int(o, "reserved", 0),
				  size_text(size, (uint64_t)ctl_doc_int(o, "size", 0)));
	}
	if (line.text.len)
		end_line(out, "hugepages", &line);
}

static void write_counts(struct ctl_out *out, json_object *counts)
{
	struct ctl_out line = { 0 };

	if (!json_object_is_type(counts, json_type_object))
		return;
	json_object_object_foreach(counts, kind, n) {
		if (json_object_get_int64(n) > 0)
			sbuf_addf(&line.text, "%s%" PRId64 " %s", line.text.len ? ", " : "", json_object_get_int64(n),
				  kind);
	}
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

/* "" is unknown */
static const char *three(json_object *o, const char *key, const char *yes, const char *no)
{
	return ctl_doc_bool(o, key) ? yes : ctl_doc_no(o, key) ? no : "";
}

static void write_host(struct ctl_out *out, json_object *host)
{
	json_object *iommu = ctl_doc_get(host, "iommu"), *nodes = ctl_doc_list(host, "nodes");
	json_object *nics = ctl_doc_list(host, "nics"), *cost = ctl_doc_get(host, "cost");
	int64_t units = ctl_doc_int(iommu, "units", 0);

	write_pair(out, "machine", ctl_doc_get(host, "product"), "vendor", "name");
	if (ctl_doc_bool(host, "virtual"))
		write_field(out, "", "a virtual machine");
	write_field(out, "BIOS", ctl_doc_text(ctl_doc_get(host, "product"), "bios"));
	write_cpu(out, ctl_doc_get(host, "cpu"));
	write_field(out, "kernel", ctl_doc_text(host, "kernel"));
	write_field(out, "cmdline", ctl_doc_text(host, "cmdline"));
	write_boot(out, ctl_doc_get(host, "boot"));
	sbuf_add(&out->text, "IOMMU     ");
	ctl_out_safe(out, ctl_doc_text(iommu, "state"));
	if (units > 0)
		sbuf_addf(&out->text, ", %" PRId64 " unit%s", units, units == 1 ? "" : "s");
	sbuf_add(&out->text, "\n");
	write_field(out, "KVM", three(host, "kvm", "yes", "no"));
	write_field(out, "vfio-pci", three(host, "vfio_pci", "loaded", "not loaded"));
	write_modules(out, ctl_doc_list(host, "modules"));
	write_counts(out, ctl_doc_get(host, "counts"));
	for (size_t i = 0; i < ctl_doc_count(nodes); i++)
		write_node(out, json_object_array_get_idx(nodes, i));
	write_distances(out, nodes);
	write_reserves(out, ctl_doc_list(host, "hugepages"));
	for (size_t i = 0; i < ctl_doc_count(nics); i++)
		write_nic(out, json_object_array_get_idx(nics, i));
	write_fabric(out, ctl_doc_get(host, "fabric"));
	sbuf_addf(&out->text,
		  "cost      %" PRId64 " functions read with %" PRId64 " system calls, %" PRId64 " config dwords\n",
		  ctl_doc_int(cost, "functions", 0), ctl_doc_int(cost, "syscalls", 0),
		  ctl_doc_int(cost, "config_dwords", 0));
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

/* On standard error: standard output may be the dump. */
static void tell_hidden(const struct anonymize_counts *n)
{
	const char *between = "velactl: replaced ";

	for (int i = 0; i < ANONYMIZE_MAX_; i++) {
		if (!n->values[i])
			continue;
		(void)fprintf(stderr, "%s%zu %s in %zu places", between, n->values[i],
			      anonymize_class_text((enum anonymize_class)i), n->places[i]);
		between = ", ";
	}
	(void)fputs(*between == ',' ? "\n" : "velactl: nothing had to be replaced\n", stderr);
}

enum ctl_exit ctl_dump(struct ctl *c, char const *const *arg, size_t n)
{
	const char *file = n ? arg[0] : "-";
	struct anonymize_counts hidden;
	struct error err = ERROR_INIT;
	autofree char *text = NULL;

	if (!*file) {
		(void)error_set(&err, -EINVAL, "dump needs a FILE, it is empty; - is standard output");
		return ctl_fail(c, &err);
	}
	if (ctl_source_dump(&text, c, c->args.anonymize ? &hidden : NULL, &err) < 0)
		return ctl_fail(c, &err);
	if (strcmp(file, "-") == 0)
		sbuf_add(&c->out.text, text);
	else if (ctl_save(file, text, strlen(text), &err) < 0)
		return ctl_fail(c, &err);
	if (c->args.anonymize)
		tell_hidden(&hidden);
	return CTL_OK;
}
