/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host as a JSON document (docs/openapi.json). Unknown values are null, never 0. */
#include <json-c/json.h>
#include <stdio.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "topo/json.h"
#include "topo/topo.h"

static void add_cpuset(struct json_out *o, const char *key, const struct cpuset *cpus)
{
	struct sbuf text = { 0 };

	cpuset_write(&text, cpus);
	json_add_string(o, key, text.text ? text.text : "");
	o->failed = o->failed || text.failed;
	sbuf_done(&text);
}

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
	struct json_out c = json_out_new();

	json_add_int(&c, "id", n->id);
	if (n->cpus_known)
		add_cpuset(&c, "cpus", &n->cpus);
	else
		json_add_string(&c, "cpus", NULL);
	if (n->memory_known) {
		json_add_uint(&c, "memory", n->mem_total);
		json_add_uint(&c, "memory_free", n->mem_free);
	} else {
		json_add_string(&c, "memory", NULL);
		json_add_string(&c, "memory_free", NULL);
	}
	for (size_t i = 0; i < inv->nnodes; i++) {
		if (n->distance[i])
			json_append(&c, distance, json_object_new_int(n->distance[i]));
		else /* json-c: a NULL item is null */
			c.failed = json_object_array_add(distance, NULL) < 0 || c.failed;
	}
	json_add(&c, "distance", distance);
	add_pools(&c, n);
	o->failed = o->failed || c.failed;
	return c.obj;
}

/* ---- CPUs and kernel ----------------------------------------------------------------------------- */

static void add_packages(struct json_out *o, const struct host_cpus *cpus)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < cpus->npackages; i++) {
		struct json_out p = json_out_new();

		topo_add_known(&p, "id", cpus->package[i].id);
		add_cpuset(&p, "cpus", &cpus->package[i].cpus);
		json_append_out(o, a, &p);
	}
	json_add(o, "sockets", a);
}

/* "0,64": the CPUs of one core, one by one. */
static void add_cores(struct json_out *o, const struct host_cpus *cpus)
{
	json_object *a = json_object_new_array_ext((int)cpus->ncores);

	for (size_t i = 0; i < cpus->ncores; i++) {
		char text[HOST_CORE_CPUS * sizeof("65535,")];
		int n = 0;

		for (unsigned t = 0; t < cpus->core[i].ncpus; t++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%u", t ? "," : "", cpus->core[i].cpu[t]);
		json_append(o, a, json_object_new_string_len(text, n));
	}
	json_add(o, "cores", a);
}

/* null unless all cores have as many. */
static void add_threads(struct json_out *o, const struct host_cpus *cpus)
{
	unsigned n = cpus->ncores ? cpus->core[0].ncpus : 0;

	for (size_t i = 0; i < cpus->ncores; i++)
		if (cpus->core[i].ncpus != n)
			n = 0;
	topo_add_known(o, "threads_per_core", n ? (int)n : -1);
}

static void add_cpu(struct json_out *o, const struct inventory *inv)
{
	const struct host_cpus *cpus = &inv->system.cpus;
	struct json_out c = json_out_new();

	topo_add_text(&c, "vendor", inv->cpu_vendor);
	topo_add_text(&c, "model", inv->cpu_model);
	if (cpus->online_known)
		add_cpuset(&c, "online", &cpus->online);
	else
		json_add_string(&c, "online", NULL);
	if (cpus->npackages)
		add_packages(&c, cpus);
	else
		json_add_string(&c, "sockets", NULL);
	if (cpus->ncores)
		add_cores(&c, cpus);
	else
		json_add_string(&c, "cores", NULL);
	add_threads(&c, cpus);
	topo_add_known(&c, "address_bits", inv->phys_bits ? (int)inv->phys_bits : -1);
	json_add_out(o, "cpu", &c);
}

static void add_size(struct json_out *o, const char *key, uint64_t bytes) /* 0: null */
{
	if (bytes)
		json_add_uint(o, key, bytes);
	else
		json_add_string(o, key, NULL);
}

static void add_boot_pools(struct json_out *o, const struct host_boot *b)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < b->npools; i++) {
		struct json_out p = json_out_new();

		add_size(&p, "size", b->pool[i].page_size ? b->pool[i].page_size : b->default_page);
		topo_add_known(&p, "node", b->pool[i].node);
		json_add_uint(&p, "count", b->pool[i].count);
		json_append_out(o, a, &p);
	}
	json_add(o, "hugepages", a);
}

static void add_boot(struct json_out *o, const struct inventory *inv)
{
	const struct host_boot *b = &inv->system.boot;
	json_object *a = json_object_new_array();
	struct json_out c;

	if (!*inv->cmdline) {
		json_object_put(a);
		json_add_string(o, "boot", NULL);
		return;
	}
	c = json_out_new();
	for (size_t i = 0; i < b->noptions; i++) {
		struct json_out option = json_out_new();

		json_add_string(&option, "option", b->option[i].text);
		topo_add_text(&option, "note", b->option[i].note);
		json_append_out(o, a, &option);
	}
	json_add(&c, "options", a);
	if (b->passthrough < 0)
		json_add_string(&c, "passthrough", NULL);
	else
		json_add_bool(&c, "passthrough", b->passthrough);
	json_add_bool(&c, "ats_off", b->no_ats);
	json_add_bool(&c, "acs_override", b->acs_override);
	topo_add_text(&c, "vfio_ids", b->vfio_ids);
	add_size(&c, "default_hugepage", b->default_page);
	add_boot_pools(&c, b);
	json_add_out(o, "boot", &c);
}

static void add_modules(struct json_out *o, const struct host_system *s)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < s->nmodules; i++) {
		const struct host_module *m = &s->module[i];
		struct json_out c = json_out_new(), params = json_out_new();

		json_add_string(&c, "name", m->name);
		json_add_string(&c, "state", m->state);
		topo_add_text(&c, "version", m->version);
		for (size_t k = 0; k < m->nparams; k++)
			json_add_string(&params, m->param[k].name, m->param[k].value);
		json_add_out(&c, "parameters", &params);
		json_append_out(o, a, &c);
	}
	json_add(o, "modules", a);
}

static void add_reserves(struct json_out *o, const struct host_system *s)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < s->nreserves; i++) {
		struct json_out c = json_out_new();

		json_add_uint(&c, "size", s->reserve[i].page_size);
		json_add_uint(&c, "reserved", s->reserve[i].reserved);
		json_append_out(o, a, &c);
	}
	json_add(o, "hugepages", a);
}

/* ---- NICs ----------------------------------------------------------------------------------------- */

static void add_neighbour(struct json_out *o, const struct host_neighbour *n)
{
	struct json_out c;

	if (!n) {
		json_add_string(o, "neighbour", NULL);
		return;
	}
	c = json_out_new();
	topo_add_text(&c, "chassis_id", n->chassis_id);
	topo_add_text(&c, "chassis_name", n->chassis_name);
	topo_add_text(&c, "port_id", n->port_id);
	topo_add_text(&c, "port_descr", n->port_descr);
	json_add_out(o, "neighbour", &c);
}

static void add_netdevs(struct json_out *o, const struct host_nic *nic)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < nic->nnetdevs; i++) {
		const struct host_netdev *n = &nic->netdev[i];
		struct json_out c = json_out_new();

		json_add_string(&c, "name", n->name);
		topo_add_text(&c, "state", n->operstate);
		if (n->carrier < 0)
			json_add_string(&c, "carrier", NULL);
		else
			json_add_bool(&c, "carrier", n->carrier);
		topo_add_known(&c, "mtu", n->mtu ? (int)n->mtu : -1);
		topo_add_text(&c, "mac", n->mac);
		topo_add_known(&c, "speed_mbps", n->speed_mbps ? (int)n->speed_mbps : -1);
		topo_add_text(&c, "port_name", n->port_name);
		topo_add_text(&c, "switch_id", n->switch_id);
		add_neighbour(&c, n->neighbour);
		json_append_out(o, a, &c);
	}
	json_add(o, "netdevs", a);
}

static void add_ports(struct json_out *o, const struct host_rdma *dev)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < dev->nports; i++) {
		struct json_out c = json_out_new();

		json_add_uint(&c, "port", dev->port[i].number);
		topo_add_text(&c, "state", dev->port[i].state);
		topo_add_text(&c, "phys_state", dev->port[i].phys_state);
		topo_add_text(&c, "rate", dev->port[i].rate);
		topo_add_text(&c, "link_layer", dev->port[i].link_layer);
		json_append_out(o, a, &c);
	}
	json_add(o, "ports", a);
}

static void add_rdma(struct json_out *o, const struct host_nic *nic)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < nic->nrdma; i++) {
		const struct host_rdma *dev = &nic->rdma[i];
		struct json_out c = json_out_new();

		json_add_string(&c, "name", dev->name);
		topo_add_text(&c, "node_guid", dev->node_guid);
		topo_add_text(&c, "image_guid", dev->image_guid);
		topo_add_text(&c, "firmware", dev->firmware);
		topo_add_text(&c, "type", dev->type);
		topo_add_text(&c, "board", dev->board);
		add_ports(&c, dev);
		json_append_out(o, a, &c);
	}
	json_add(o, "rdma", a);
}

json_object *topo_nic_json(const struct host_nic *nic)
{
	struct json_out c = json_out_new(), fw = json_out_new();

	json_add_bdf(&c, "bdf", nic->bdf);
	topo_add_text(&fw, "running", nic->fw_running);
	topo_add_text(&fw, "stored", nic->fw_stored);
	topo_add_text(&fw, "psid", nic->fw_psid);
	json_add_out(&c, "firmware", &fw);
	add_netdevs(&c, nic);
	json_add_uint(&c, "representors", nic->nrepresentors);
	add_rdma(&c, nic);
	return json_finish(&c);
}

static void add_nics(struct json_out *o, const struct host_system *s)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < s->nnics; i++)
		json_append(o, a, topo_nic_json(&s->nic[i]));
	json_add(o, "nics", a);
}

/* ---- Fabric Manager ------------------------------------------------------------------------------- */

static void add_partition_gpus(struct json_out *o, const struct host_partition *p)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < p->ngpus; i++) {
		struct json_out c = json_out_new();

		json_add_uint(&c, "module", p->gpu[i].module);
		json_add_bdf(&c, "bdf", p->gpu[i].bdf);
		json_append_out(o, a, &c);
	}
	json_add(o, "gpus", a);
}

static void add_partitions(struct json_out *o, const struct host_fabric *f)
{
	json_object *a;

	if (!f->partitions_known) {
		json_add_string(o, "partitions", NULL);
		return;
	}
	a = json_object_new_array();
	for (size_t i = 0; i < f->npartitions; i++) {
		struct json_out c = json_out_new();

		json_add_uint(&c, "id", f->partition[i].id);
		json_add_bool(&c, "active", f->partition[i].active);
		add_partition_gpus(&c, &f->partition[i]);
		json_append_out(o, a, &c);
	}
	json_add(o, "partitions", a);
}

static void add_fabric(struct json_out *o, const struct host_fabric *f)
{
	struct json_out c;

	if (!f->configured && !f->partitions_known) {
		json_add_string(o, "fabric", NULL);
		return;
	}
	c = json_out_new();
	topo_add_known(&c, "mode", f->mode);
	topo_add_text(&c, "command_socket", f->command_socket);
	if (f->command_socket_there < 0)
		json_add_string(&c, "command_socket_there", NULL);
	else
		json_add_bool(&c, "command_socket_there", f->command_socket_there);
	topo_add_text(&c, "socket", f->socket);
	add_partitions(&c, f);
	json_add_out(o, "fabric", &c);
}

/* ---- the host ------------------------------------------------------------------------------------- */

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
	struct json_out product = json_out_new(), iommu = json_out_new();

	topo_add_text(o, "kernel", inv->kernel);
	topo_add_text(o, "cmdline", inv->cmdline);
	add_boot(o, inv);
	add_cpu(o, inv);
	topo_add_text(&product, "vendor", inv->dmi_vendor);
	topo_add_text(&product, "name", inv->dmi_product);
	topo_add_text(&product, "bios", inv->dmi_bios);
	json_add_out(o, "product", &product);
	json_add_string(&iommu, "state", inv->iommu == HOST_UNKNOWN ? "unknown" : inv->iommu == HOST_PRESENT ? "on" : "off");
	topo_add_known(&iommu, "units", inv->iommu_units);
	topo_add_known(&iommu, "address_bits", inv->iommu_bits ? (int)inv->iommu_bits : -1);
	json_add_out(o, "iommu", &iommu);
	topo_add_bool(o, "virtual", inv->virtual);
	topo_add_bool(o, "kvm", inv->kvm);
	topo_add_bool(o, "vfio_pci", inv->vfio_pci);
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
	add_reserves(&o, &inv->system);
	add_modules(&o, &inv->system);
	add_nics(&o, &inv->system);
	add_fabric(&o, &inv->system.fabric);
	add_counts(&o, inv);
	topo_add_findings(&o, inv);
	json_add_uint(&cost, "functions", inv->nfn);
	json_add_uint(&cost, "syscalls", inv->stats.syscalls);
	json_add_uint(&cost, "config_dwords", inv->stats.config_dwords);
	json_add_out(&o, "cost", &cost);
	return json_finish(&o);
}
