/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One function as JSON: a node of the topology document (docs/openapi.json). Unknown values are null, never 0. */
#include "topo/json.h"

#include <json-c/json.h>
#include <linux/pci_regs.h>
#include <string.h>

#include "base/json.h"
#include "host/inventory.h"
#include "topo/path.h"
#include "topo/topo.h"

static void add_width(struct json_out *o, const char *key, uint8_t width)
{
	topo_add_known(o, key, width ? width : -1);
}

static void add_speed(struct json_out *o, const char *key, uint8_t speed)
{
	json_add_string(o, key, speed ? pcicap_speed_text(speed) : NULL);
}

static void add_link(struct json_out *o, const struct topo *t, const struct topo_node *node)
{
	const struct host_facts *f = node->fn->facts;
	struct json_out l;

	if (!f->link_cap.speed && !f->link_now.speed && !f->link_cap.width && !f->link_now.width) {
		json_add_string(o, "link", NULL);
		return;
	}
	l = json_out_new();
	add_speed(&l, "speed", f->link_now.speed);
	add_width(&l, "width", f->link_now.width);
	add_speed(&l, "max_speed", f->link_cap.speed);
	add_width(&l, "max_width", f->link_cap.width);
	topo_add_bool(&l, "up", topo_link_up(t, (uint32_t)(node - topo_at(t, 0))));
	json_add_out(o, "link", &l);
}

/* A hexadecimal number of at least so many digits, and its end. No printf: a big host has thousands of functions. */
static char *put_hex(char *at, uint64_t v, unsigned digits)
{
	while (digits < 16 && v >> (4 * digits))
		digits++;
	for (unsigned i = digits; i-- > 0;)
		*at++ = "0123456789abcdef"[v >> (4 * i) & 15];
	*at = '\0';
	return at;
}

static void add_hex(struct json_out *o, const char *key, unsigned digits, uint64_t v)
{
	char text[20];

	(void)put_hex(text, v, digits);
	json_add_string(o, key, text);
}

static void add_0x(struct json_out *o, const char *key, uint64_t v)
{
	char text[20] = "0x";

	(void)put_hex(text + 2, v, 1);
	json_add_string(o, key, text);
}

static void add_bars(struct json_out *o, const struct host_function *fn)
{
	json_object *a = json_object_new_array();

	for (unsigned i = 0; i < 6; i++) {
		struct host_bar bar = host_bar_of(fn, i);
		struct json_out b;

		if (!bar.size)
			continue;
		b = json_out_new();
		json_add_int(&b, "index", (int)i);
		add_0x(&b, "start", bar.start);
		json_add_uint(&b, "size", bar.size);
		json_append_out(o, a, &b);
	}
	json_add(o, "bars", a);
}

/* A node being made. Most capabilities of most functions are absent, or all are unknown: those that are alike
 * share one object, which nobody changes. */
struct node {
	struct json_out out;
	json_object    *rest[HOST_PRESENT]; /* {"state": "unknown"}, {"state": "absent"}; owned */
};

/* {"state": "present", ...}: what follows only then. False: nothing does, and it is in the node already. */
static bool begin(struct json_out *c, struct node *n, const char *key, enum host_known known)
{
	if (known != HOST_PRESENT && n->rest[known]) {
		json_add(&n->out, key, json_object_get(n->rest[known]));
		return false;
	}
	*c = json_out_new();
	json_add_string(c, "state", host_known_text(known));
	if (known == HOST_PRESENT)
		return true;
	n->rest[known] = json_object_get(c->obj);
	json_add_out(&n->out, key, c);
	return false;
}

struct flag {
	const char *key;
	uint32_t    bit;
};

static void add_flags(struct json_out *o, const struct flag *flag, size_t n, bool known, uint32_t reg)
{
	for (size_t i = 0; i < n; i++)
		if (known)
			json_add_bool(o, flag[i].key, reg & flag[i].bit);
		else
			json_add_string(o, flag[i].key, NULL);
}

/* Max_Payload_Size and Max_Read_Request_Size: 128 << n, n up to 5 (7.5.3.3, 7.5.3.4) */
static void add_payload(struct json_out *o, const char *key, bool known, unsigned n)
{
	topo_add_known(o, key, known && n <= 5 ? 128 << n : -1);
}

static const char *type_text(enum pcicap_type type)
{
	static const char *const text[] = { "endpoint", "legacy-endpoint", NULL, NULL, "root-port", "upstream-port",
					    "downstream-port", "to-pci-bridge", "from-pci-bridge", "integrated-endpoint",
					    "event-collector" };

	return type < ARRAY_SIZE(text) ? text[type] : NULL;
}

/* Device Control and the second registers (7.5.3.4, 7.5.3.15, 7.5.3.16) as bits that have one meaning. */
static void add_pcie(struct node *n, const struct pcicap *c)
{
	static const struct flag cap[] = { { "extended_tags_supported", PCI_EXP_DEVCAP_EXT_TAG } };
	static const struct flag ctl[] = { { "extended_tags", PCI_EXP_DEVCTL_EXT_TAG },
					   { "relaxed_ordering", PCI_EXP_DEVCTL_RELAX_EN },
					   { "no_snoop", PCI_EXP_DEVCTL_NOSNOOP_EN } };
	static const struct flag cap2[] = { { "tag10_completer", 1 << 16 }, { "tag10_requester", 1 << 17 },
					    { "ari_forwarding_supported", PCI_EXP_DEVCAP2_ARI },
					    { "atomic_routing", PCI_EXP_DEVCAP2_ATOMIC_ROUTE },
					    { "atomic_completer_32", PCI_EXP_DEVCAP2_ATOMIC_COMP32 },
					    { "atomic_completer_64", PCI_EXP_DEVCAP2_ATOMIC_COMP64 } };
	static const struct flag ctl2[] = { { "tag10", 1 << 12 }, { "ari_forwarding", PCI_EXP_DEVCTL2_ARI },
					    { "atomic_requester", PCI_EXP_DEVCTL2_ATOMIC_REQ },
					    { "atomic_egress_blocked", PCI_EXP_DEVCTL2_ATOMIC_EGRESS_BLOCK },
					    { "completion_timeout_off", PCI_EXP_DEVCTL2_COMP_TMOUT_DIS } };
	struct json_out p;

	if (!begin(&p, n, "pcie", c->pcie))
		return;
	json_add_string(&p, "type", type_text(c->type));
	add_payload(&p, "max_payload", c->dev_known, c->devctl >> 5 & 7);
	add_payload(&p, "max_payload_supported", c->dev_known, c->devcap & 7);
	add_payload(&p, "max_read_request", c->dev_known, c->devctl >> 12 & 7);
	add_flags(&p, ctl, ARRAY_SIZE(ctl), c->dev_known, c->devctl);
	add_flags(&p, cap, ARRAY_SIZE(cap), c->dev_known, c->devcap);
	add_flags(&p, cap2, ARRAY_SIZE(cap2), c->dev2_known, c->devcap2);
	add_flags(&p, ctl2, ARRAY_SIZE(ctl2), c->dev2_known, c->devctl2);
	json_add_out(&n->out, "pcie", &p);
}

/* Egress control is for as many ports as the vector has bits, 0 meaning 256 (7.7.11.2). */
/* The bits that are set: ports, functions or function groups. */
static void add_egress(struct json_out *o, const struct pcicap_acs *acs)
{
	json_object *set = acs->egress_bits ? json_object_new_array() : NULL;

	for (unsigned i = 0; i < acs->egress_bits; i++)
		if (pcicap_egress(acs, i) == HOST_PRESENT && set)
			json_object_array_add(set, json_object_new_int((int)i));
	json_add(o, "egress", set);
}

static void add_acs(struct node *n, const struct pcicap_acs *acs)
{
	struct json_out a;

	if (!begin(&a, n, "acs", acs->known))
		return;
	add_0x(&a, "cap", acs->cap);
	add_0x(&a, "ctl", acs->ctl);
	if (acs->cap & PCI_ACS_EC)
		json_add_int(&a, "egress_ports", acs->cap >> 8 ? acs->cap >> 8 : 256);
	if (acs->ctl & PCI_ACS_EC)
		add_egress(&a, acs);
	json_add_out(&n->out, "acs", &a);
}

/* An Invalidate Queue Depth of 0 is 32 (10.5.1.2). */
static void add_ats(struct node *n, const struct pcicap_ats *ats)
{
	struct json_out a;

	if (!begin(&a, n, "ats", ats->known))
		return;
	json_add_bool(&a, "enabled", ats->ctl & PCI_ATS_CTRL_ENABLE);
	json_add_uint(&a, "stu", PCI_ATS_CTRL_STU(ats->ctl));
	json_add_int(&a, "queue_depth", PCI_ATS_CAP_QDEP(ats->cap) ? PCI_ATS_CAP_QDEP(ats->cap) : 32);
	json_add_bool(&a, "page_aligned", ats->cap & PCI_ATS_CAP_PAGE_ALIGNED);
	json_add_out(&n->out, "ats", &a);
}

static void add_part(struct node *n, const char *key, const struct pcicap_part *part, uint16_t enable)
{
	struct json_out p;

	if (!begin(&p, n, key, part->known))
		return;
	json_add_bool(&p, "enabled", part->ctl & enable);
	json_add_out(&n->out, key, &p);
}

static void add_vectors(struct node *n, const char *key, const struct pcicap_part *part, uint16_t enable, int vectors)
{
	struct json_out p;

	if (!begin(&p, n, key, part->known))
		return;
	json_add_bool(&p, "enabled", part->ctl & enable);
	topo_add_known(&p, "vectors", vectors);
	json_add_out(&n->out, key, &p);
}

static void add_sriov_bars(struct json_out *o, const struct host_bar *bar)
{
	json_object *a = bar ? json_object_new_array() : NULL;

	for (int i = 0; bar && i < 6; i++) {
		struct json_out b;

		if (!bar[i].size)
			continue;
		b = json_out_new();
		json_add_int(&b, "index", i);
		json_add_uint(&b, "size", bar[i].size);
		json_append_out(o, a, &b);
	}
	json_add(o, "bars", a); /* json-c: NULL is null */
}

static void add_sriov(struct json_out *o, const struct host_facts *f)
{
	const struct pcicap_sriov *c = &f->cap.sriov;
	static const struct flag ctl[] = { { "enabled", PCI_SRIOV_CTRL_VFE }, { "memory_enabled", PCI_SRIOV_CTRL_MSE } };
	struct json_out s;

	if (c->known != HOST_PRESENT)
		return;
	s = json_out_new();
	json_add_string(&s, "state", host_known_text(c->known));
	json_add_uint(&s, "total", c->total);
	topo_add_known(&s, "num", f->numvfs_known ? f->numvfs : -1);
	add_flags(&s, ctl, ARRAY_SIZE(ctl), c->at, c->ctl);
	json_add_uint(&s, "offset", c->offset);
	json_add_uint(&s, "stride", c->stride);
	if (c->vf_device)
		add_hex(&s, "vf_device", 4, c->vf_device);
	else
		json_add_string(&s, "vf_device", NULL);
	add_sriov_bars(&s, f->vf_bar);
	json_add_out(o, "sriov", &s);
}

static void add_size(struct json_out *o, json_object *array, unsigned n)
{
	json_append(o, array, json_object_new_uint64(UINT64_C(1) << (20 + n)));
}

static void add_rebar(struct json_out *o, const char *key, const struct pcicap_rebar *r)
{
	bool known = r->known == HOST_ABSENT || (r->known == HOST_PRESENT && r->n);
	json_object *a = known ? json_object_new_array() : NULL;

	for (unsigned i = 0; known && i < r->n; i++) {
		json_object *sizes = json_object_new_array();
		struct json_out b = json_out_new();

		json_add_int(&b, "index", r->bar[i].bar);
		if (r->bar[i].size <= PCICAP_SIZE_MAX)
			json_add_uint(&b, "size", UINT64_C(1) << (20 + r->bar[i].size));
		else
			json_add_string(&b, "size", NULL);
		for (unsigned n = 0; n <= PCICAP_SIZE_MAX; n++)
			if (r->bar[i].sizes >> n & 1)
				add_size(&b, sizes, n);
		json_add(&b, "sizes", sizes);
		json_append_out(o, a, &b);
	}
	json_add(o, key, a);
}

static void add_power(struct json_out *o, const struct host_facts *f)
{
	struct json_out p = json_out_new();

	json_add_string(&p, "state", f->power_state);
	json_add_string(&p, "runtime_status", f->runtime_status);
	json_add_string(&p, "control", f->power_control);
	if (f->d3cold_allowed < 0)
		json_add_string(&p, "d3cold_allowed", NULL);
	else
		json_add_bool(&p, "d3cold_allowed", f->d3cold_allowed);
	json_add_out(o, "power", &p);
}

static void add_resets(struct json_out *o, const char *p)
{
	json_object *a = p ? json_object_new_array() : NULL;

	for (size_t n; p && *(p += strspn(p, " ")); p += n) {
		n = strcspn(p, " ");
		json_append(o, a, json_object_new_string_len(p, (int)n));
	}
	json_add(o, "reset", a);
}

static void add_physical(struct node *n, const struct inventory *inv, const struct host_function *fn)
{
	const struct host_function *gpu = host_companion_of(inv, fn);
	const struct pcicap *c = &fn->facts->cap;
	char serial[PCICAP_SERIAL_MAX];
	struct json_out *o = &n->out;

	if (c->readable && !c->dead)
		add_hex(o, "revision", 2, c->revision);
	else
		json_add_string(o, "revision", NULL);
	if (gpu)
		json_add_bdf(o, "companion_of", gpu->bdf);
	topo_add_text(o, "serial", pcicap_serial_text(serial, c));
	add_power(o, fn->facts);
	add_pcie(n, c);
	add_vectors(n, "msi", &c->msi, PCI_MSI_FLAGS_ENABLE, (c->msi.ctl & PCI_MSI_FLAGS_QMASK) >> 1 > 5 ? -1 :
		    1 << ((c->msi.ctl & PCI_MSI_FLAGS_QMASK) >> 1));
	add_vectors(n, "msix", &c->msix, PCI_MSIX_FLAGS_ENABLE, (c->msix.ctl & PCI_MSIX_FLAGS_QSIZE) + 1);
	add_acs(n, &c->acs);
	add_ats(n, &c->ats);
	add_part(n, "pri", &c->pri, PCI_PRI_CTRL_ENABLE);
	add_part(n, "pasid", &c->pasid, PCI_PASID_CTRL_ENABLE);
	json_add_string(o, "aer", host_known_text(c->aer));
	json_add_string(o, "ari", host_known_text(c->ari));
	add_rebar(o, "resizable_bars", &c->rebar);
	if (c->sriov.known == HOST_PRESENT)
		add_rebar(o, "resizable_vf_bars", &c->vf_rebar);
	add_sriov(o, fn->facts);
}

/* "10de:2330"; null where it is not known. */
static void add_ids(struct json_out *o, const char *key, uint16_t vendor, uint16_t device)
{
	char text[16], *at = put_hex(text, vendor, 4);

	*at++ = ':';
	(void)put_hex(at, device, 4);
	json_add_string(o, key, vendor && vendor != 0xffff ? text : NULL);
}

json_object *topo_node_json(const struct topo *t, const struct topo_node *node)
{
	const struct host_function *fn = node->fn;
	const char *driver = host_driver_of(topo_inventory(t), fn);
	const struct host_facts *f = fn->facts;
	struct node n = { .out = json_out_new() };
	struct json_out *o = &n.out;

	json_add_bdf(o, "bdf", fn->bdf);
	json_add_string(o, "kind", host_kind_text(f->kind));
	add_ids(o, "id", f->vendor, f->device);
	add_ids(o, "subsystem", f->subvendor, f->subdevice);
	if (f->class == HOST_CLASS_UNKNOWN)
		json_add_string(o, "class", NULL);
	else
		add_hex(o, "class", 6, f->class);
	json_add_bdf(o, "parent", node->parent == TOPO_NONE ? BDF_NONE : topo_at(t, node->parent)->fn->bdf);
	topo_add_text(o, "root_bus", f->root_bus);
	topo_add_known(o, "numa_node", f->numa_node);
	topo_add_known(o, "iommu_group", fn->iommu_group);
	if (driver) /* left out where it is unknown: null is none */
		topo_add_text(o, "driver", driver);
	topo_add_text(o, "driver_override", f->driver_override);
	add_link(o, t, node);
	if (f->bars_known)
		add_bars(o, fn);
	else
		json_add_string(o, "bars", NULL);
	if (f->is_vf) {
		json_add_bdf(o, "pf", f->pf);
		topo_add_known(o, "vf_index", fn->vf_index == HOST_VF_UNNUMBERED ? -1 : fn->vf_index);
	} else {
		add_physical(&n, topo_inventory(t), fn);
	}
	add_resets(o, f->reset_methods);
	for (size_t i = 0; i < ARRAY_SIZE(n.rest); i++)
		json_object_put(n.rest[i]);
	return json_finish(o);
}
