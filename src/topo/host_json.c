/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host as a JSON document (docs/openapi.json). Unknown values are null, never 0. */
#include <json-c/json.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "topo/json.h"
#include "topo/topo.h"

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

	topo_add_text(o, "kernel", inv->kernel);
	topo_add_text(o, "cmdline", inv->cmdline);
	topo_add_text(&cpu, "vendor", inv->cpu_vendor);
	topo_add_text(&cpu, "model", inv->cpu_model);
	json_add_out(o, "cpu", &cpu);
	topo_add_text(&product, "vendor", inv->dmi_vendor);
	topo_add_text(&product, "name", inv->dmi_product);
	topo_add_text(&product, "bios", inv->dmi_bios);
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
	topo_add_findings(&o, inv);
	json_add_uint(&cost, "functions", inv->nfn);
	json_add_uint(&cost, "syscalls", inv->stats.syscalls);
	json_add_uint(&cost, "config_dwords", inv->stats.config_dwords);
	json_add_out(&o, "cost", &cost);
	return json_finish(&o);
}
