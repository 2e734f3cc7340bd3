/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The topology and the host as JSON documents (docs/openapi.json). Unknown values are null, never 0. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "topo/topo.h"

static void add_or_null(struct json_out *o, const char *key, const char *value)
{
	json_add_string(o, key, value && *value ? value : NULL);
}

static void add_bdf(struct json_out *o, const char *key, struct bdf b)
{
	char text[BDF_TEXT_MAX];

	json_add_string(o, key, bdf_is_none(b) ? NULL : bdf_text(text, b));
}

static void add_known(struct json_out *o, const char *key, int value)
{
	if (value < 0)
		json_add_string(o, key, NULL);
	else
		json_add_int(o, key, value);
}

static const char *known_text(enum host_known k)
{
	return k == HOST_PRESENT ? "present" : k == HOST_ABSENT ? "absent" : "unknown";
}

static void add_width(struct json_out *o, const char *key, uint8_t width)
{
	add_known(o, key, width ? width : -1);
}

static void add_speed(struct json_out *o, const char *key, uint8_t speed)
{
	json_add_string(o, key, speed ? pcicap_speed_text(speed) : NULL);
}

static void add_link(struct json_out *o, const struct host_function *fn)
{
	struct json_out l;

	if (!fn->facts->link_cap.speed && !fn->facts->link_now.speed && !fn->facts->link_cap.width && !fn->facts->link_now.width) {
		json_add_string(o, "link", NULL);
		return;
	}
	l = json_out_new();
	add_speed(&l, "speed", fn->facts->link_now.speed);
	add_width(&l, "width", fn->facts->link_now.width);
	add_speed(&l, "max_speed", fn->facts->link_cap.speed);
	add_width(&l, "max_width", fn->facts->link_cap.width);
	json_add_out(o, "link", &l);
}

static void add_bars(struct json_out *o, const struct host_function *fn)
{
	json_object *a = json_object_new_array();

	for (unsigned i = 0; i < 6; i++) {
		struct host_bar bar = host_bar_of(fn, i);
		struct json_out b;
		char start[24];

		if (!bar.size)
			continue;
		b = json_out_new();
		(void)snprintf(start, sizeof(start), "0x%llx", (unsigned long long)bar.start);
		json_add_int(&b, "index", (int)i);
		json_add_string(&b, "start", start);
		json_add_uint(&b, "size", bar.size);
		json_append_out(o, a, &b);
	}
	json_add(o, "bars", a);
}

static void add_hex(struct json_out *o, const char *key, unsigned v)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "0x%x", v);
	json_add_string(o, key, text);
}

static void add_caps(struct json_out *o, const struct host_function *fn)
{
	struct json_out acs = json_out_new(), ats = json_out_new(), sriov;

	json_add_string(&acs, "state", known_text(fn->facts->cap.acs.known));
	if (fn->facts->cap.acs.known == HOST_PRESENT) {
		add_hex(&acs, "cap", fn->facts->cap.acs.cap);
		add_hex(&acs, "ctl", fn->facts->cap.acs.ctl);
	}
	json_add_out(o, "acs", &acs);
	json_add_string(&ats, "state", known_text(fn->facts->cap.ats.known));
	if (fn->facts->cap.ats.known == HOST_PRESENT) {
		json_add_bool(&ats, "enabled", fn->facts->cap.ats.ctl & 0x8000);
		json_add_uint(&ats, "stu", fn->facts->cap.ats.ctl & 0x1f);
	}
	json_add_out(o, "ats", &ats);
	if (fn->facts->is_vf || fn->facts->cap.sriov.known != HOST_PRESENT)
		return;
	sriov = json_out_new();
	json_add_string(&sriov, "state", "present");
	json_add_uint(&sriov, "total", fn->facts->cap.sriov.total);
	add_known(&sriov, "num", fn->facts->numvfs_known ? fn->facts->numvfs : -1);
	json_add_out(o, "sriov", &sriov);
}

static void add_resets(struct json_out *o, const struct host_function *fn)
{
	json_object *a = json_object_new_array();
	const char *p = fn->facts->reset_methods;

	while (*(p += strspn(p, " "))) {
		size_t n = strcspn(p, " ");

		json_append(o, a, json_object_new_string_len(p, (int)n));
		p += n;
	}
	json_add(o, "reset", a);
}

static json_object *node_json(const struct topo *t, const struct topo_node *node)
{
	const struct host_function *fn = node->fn;
	struct json_out o = json_out_new();
	char text[32];

	add_bdf(&o, "bdf", fn->bdf);
	json_add_string(&o, "kind", host_kind_text(fn->facts->kind));
	(void)snprintf(text, sizeof(text), "%04x:%04x", fn->facts->vendor, fn->facts->device);
	json_add_string(&o, "id", text);
	(void)snprintf(text, sizeof(text), "%06x", fn->facts->class);
	json_add_string(&o, "class", text);
	add_bdf(&o, "parent", node->parent == TOPO_NONE ? BDF_NONE : topo_at(t, node->parent)->fn->bdf);
	add_or_null(&o, "root_bus", fn->facts->root_bus);
	add_known(&o, "numa_node", fn->facts->numa_node);
	add_known(&o, "iommu_group", fn->iommu_group);
	add_or_null(&o, "driver", host_driver_of(topo_inventory(t), fn));
	add_or_null(&o, "driver_override", fn->facts->driver_override);
	add_link(&o, fn);
	add_bars(&o, fn);
	add_caps(&o, fn);
	if (fn->facts->is_vf) {
		add_bdf(&o, "pf", fn->facts->pf);
		add_known(&o, "vf_index", fn->vf_index == HOST_VF_UNNUMBERED ? -1 : fn->vf_index);
	}
	add_resets(&o, fn);
	return json_finish(&o);
}

static bool in_matrix(const struct host_function *fn)
{
	return fn->facts->kind == HOST_GPU || fn->facts->kind == HOST_NIC || fn->facts->kind == HOST_NVME;
}

static void add_row(struct json_out *o, json_object *rows, const struct topo *t, uint32_t a)
{
	json_object *row = json_object_new_array();

	for (uint32_t b = 0; b < topo_count(t); b++)
		if (in_matrix(topo_at(t, b)->fn))
			json_append(o, row, json_object_new_string(topo_class_text(topo_path(t, a, b))));
	json_append(o, rows, row);
}

static void add_cpus(struct json_out *o, json_object *cpus, const struct topo *t, const struct host_function *fn)
{
	const struct host_node *n = host_node_find(topo_inventory(t), fn->facts->numa_node);
	struct sbuf text = { 0 };

	if (n)
		cpuset_write(&text, &n->cpus);
	o->failed = o->failed || text.failed;
	json_append(o, cpus, json_object_new_string(text.text ? text.text : ""));
	sbuf_done(&text);
}

static void add_matrix(struct json_out *o, const struct topo *t)
{
	json_object *devices = json_object_new_array(), *rows = json_object_new_array();
	json_object *cpus = json_object_new_array(), *numa = json_object_new_array();
	struct json_out m = json_out_new();
	char text[BDF_TEXT_MAX];

	for (uint32_t i = 0; i < topo_count(t); i++) {
		const struct host_function *fn = topo_at(t, i)->fn;

		if (!in_matrix(fn))
			continue;
		json_append(o, devices, json_object_new_string(bdf_text(text, fn->bdf)));
		add_row(o, rows, t, i);
		add_cpus(o, cpus, t, fn);
		if (fn->facts->numa_node < 0) /* json-c: a NULL item is null */
			o->failed = json_object_array_add(numa, NULL) < 0 || o->failed;
		else
			json_append(o, numa, json_object_new_int(fn->facts->numa_node));
	}
	json_add(&m, "devices", devices);
	json_add(&m, "rows", rows);
	json_add(&m, "cpus", cpus);
	json_add(&m, "numa", numa);
	json_add_out(o, "matrix", &m);
}

static void add_findings(struct json_out *o, const struct inventory *inv)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < inv->nfindings; i++) {
		struct json_out f = json_out_new();
		char text[BDF_TEXT_MAX];

		json_add_string(&f, "id", inv->finding[i].id);
		json_add_string(&f, "component",
				bdf_is_none(inv->finding[i].bdf) ? "host" : bdf_text(text, inv->finding[i].bdf));
		json_add_string(&f, "text", inv->finding[i].text);
		json_append_out(o, a, &f);
	}
	json_add(o, "findings", a);
}

json_object *topo_json(const struct topo *t)
{
	struct json_out o = json_out_new();
	json_object *nodes = json_object_new_array();

	json_add_uint(&o, "generation", topo_generation(t));
	for (uint32_t i = 0; i < topo_count(t); i++)
		json_append(&o, nodes, node_json(t, topo_at(t, i)));
	json_add(&o, "nodes", nodes);
	add_matrix(&o, t);
	add_findings(&o, topo_inventory(t));
	return json_finish(&o);
}

/* ---- the host ----------------------------------------------------------------------------------- */

static void add_pools(struct json_out *o, const struct host_node *n)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < n->npools; i++) {
		struct json_out p = json_out_new();

		json_add_uint(&p, "size", n->pool[i].page_size);
		json_add_uint(&p, "total", n->pool[i].total);
		json_add_uint(&p, "free", n->pool[i].free);
		json_append_out(o, a, &p);
	}
	json_add(o, "hugepages", a);
}

static json_object *numa_json(struct json_out *o, const struct inventory *inv, const struct host_node *n)
{
	json_object *distance = json_object_new_array();
	struct sbuf cpus = { 0 };
	struct json_out c = json_out_new();

	json_add_int(&c, "id", n->id);
	cpuset_write(&cpus, &n->cpus);
	json_add_string(&c, "cpus", cpus.text ? cpus.text : "");
	sbuf_done(&cpus);
	if (n->memory_known) {
		json_add_uint(&c, "memory", n->mem_total);
		json_add_uint(&c, "memory_free", n->mem_free);
	} else {
		json_add_string(&c, "memory", NULL);
		json_add_string(&c, "memory_free", NULL);
	}
	for (size_t i = 0; i < inv->nnodes; i++)
		json_append(&c, distance, json_object_new_int(n->distance[i]));
	json_add(&c, "distance", distance);
	add_pools(&c, n);
	o->failed = o->failed || c.failed;
	return c.obj;
}

static void add_counts(struct json_out *o, const struct inventory *inv)
{
	unsigned count[HOST_KIND_MAX_] = { 0 };
	struct json_out c = json_out_new();

	for (size_t i = 0; i < inv->nfn; i++)
		count[inv->fn[i].facts->kind]++;
	for (int k = 0; k < HOST_KIND_MAX_; k++)
		json_add_uint(&c, host_kind_text((enum host_kind)k), count[k]);
	json_add_out(o, "counts", &c);
}

static void add_system(struct json_out *o, const struct inventory *inv)
{
	struct json_out cpu = json_out_new(), product = json_out_new(), iommu = json_out_new();

	add_or_null(o, "kernel", inv->kernel);
	add_or_null(o, "cmdline", inv->cmdline);
	add_or_null(&cpu, "vendor", inv->cpu_vendor);
	add_or_null(&cpu, "model", inv->cpu_model);
	json_add_out(o, "cpu", &cpu);
	add_or_null(&product, "vendor", inv->dmi_vendor);
	add_or_null(&product, "name", inv->dmi_product);
	add_or_null(&product, "bios", inv->dmi_bios);
	json_add_out(o, "product", &product);
	json_add_string(&iommu, "state", !inv->iommu_known ? "unknown" : inv->iommu_units ? "on" : "off");
	json_add_uint(&iommu, "units", inv->iommu_units);
	json_add_out(o, "iommu", &iommu);
	json_add_bool(o, "kvm", inv->kvm);
	json_add_bool(o, "vfio_pci", inv->vfio_pci_loaded);
}

json_object *topo_host_json(const struct topo *t)
{
	const struct inventory *inv = topo_inventory(t);
	json_object *nodes = json_object_new_array();
	struct json_out o = json_out_new(), cost = json_out_new();

	json_add_uint(&o, "generation", topo_generation(t));
	add_system(&o, inv);
	for (size_t i = 0; i < inv->nnodes; i++)
		json_append(&o, nodes, numa_json(&o, inv, &inv->node[i]));
	json_add(&o, "nodes", nodes);
	add_counts(&o, inv);
	add_findings(&o, inv);
	json_add_uint(&cost, "functions", inv->nfn);
	json_add_uint(&cost, "syscalls", inv->stats.syscalls);
	json_add_uint(&cost, "config_dwords", inv->stats.config_dwords);
	json_add_out(&o, "cost", &cost);
	return json_finish(&o);
}
