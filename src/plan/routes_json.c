/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes as JSON (docs/openapi.json): every GPU with every NIC and data-direct function, and with every other GPU. The
 * VFs of one NIC on one bus go alike (Source Validation knows the bus, all else is the PF's): the first stands for them. */
#include <errno.h>
#include <json-c/json.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/acs.h"
#include "plan/routes.h"
#include "topo/ats.h"

struct routes {
	const struct topo *t;
	const uint16_t    *planned; /* ACS control words with the ACS plan */
	json_object       *pairs, *list;
	struct json_out    out;
	struct requester  *nic; /* in arena */
	size_t             nnics;
	struct arena       arena;
};

struct requester {
	uint32_t node;
	unsigned count; /* of functions it stands for */
	enum host_known ats; /* its requests are translated */
};

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory for the routes");
}

static struct bdf bdf_at(const struct topo *t, uint32_t i)
{
	return i == TOPO_NONE ? BDF_NONE : topo_at(t, i)->fn->bdf;
}

static void add_bandwidth(struct json_out *o, uint64_t v)
{
	if (v)
		json_add_uint(o, "bandwidth", v);
	else
		json_add(o, "bandwidth", NULL);
}

static void add_ports(struct json_out *o, const struct topo *t, const struct topo_route *r)
{
	json_object *a = json_object_new_array();

	for (size_t i = 0; i < r->nports; i++) {
		struct json_out p = json_out_new();

		json_add_bdf(&p, "bdf", bdf_at(t, r->port[i].node));
		json_add_string(&p, "rule", topo_rule_id(r->port[i].rule));
		json_add_string(&p, "text", topo_rule_text(r->port[i].rule));
		json_append_out(o, a, &p);
	}
	json_add(o, "ports", a);
}

static void add_route(struct json_out *all, json_object *list, const struct topo *t, const struct topo_route *r,
		      uint32_t from, uint32_t to, struct topo_tlp tlp)
{
	static const char *const kind[] = { "write", "read", "completion" };
	struct json_out o = json_out_new();

	json_add_bdf(&o, "from", bdf_at(t, from));
	json_add_bdf(&o, "to", bdf_at(t, to));
	json_add_string(&o, "kind", kind[tlp.type]);
	json_add_bool(&o, "translated", tlp.translated);
	json_add_bool(&o, "relaxed", tlp.relaxed);
	json_add_string(&o, "path", topo_class_text(topo_path(t, from, to)));
	json_add_string(&o, "verdict", topo_verdict_text(r->verdict));
	json_add_string(&o, "through", topo_route_through(r, t, from, to));
	add_bandwidth(&o, topo_route_bandwidth(r, t, from, to));
	json_add_string(&o, "rule", topo_rule_id(r->rule));
	json_add_string(&o, "text", topo_rule_text(r->rule));
	json_add_bdf(&o, "port", bdf_at(t, r->decided));
	json_add_bdf(&o, "turn", bdf_at(t, r->turn));
	add_ports(&o, t, r);
	json_append_out(all, list, &o);
}

static void add_pair(struct routes *w, const char *kind, struct requester by, uint32_t to, const struct topo_route *now,
		     const struct topo_route *then)
{
	struct json_out o = json_out_new();
	uint32_t from = by.node;

	json_add_string(&o, "kind", kind);
	json_add_bdf(&o, "from", bdf_at(w->t, from));
	json_add_bdf(&o, "to", bdf_at(w->t, to));
	json_add_string(&o, "requester", host_kind_text(topo_at(w->t, from)->fn->facts->kind));
	json_add_uint(&o, "count", by.count);
	json_add_string(&o, "path", topo_class_text(topo_path(w->t, from, to)));
	json_add_string(&o, "verdict", topo_verdict_text(now->verdict));
	json_add_string(&o, "through", topo_route_through(now, w->t, from, to));
	add_bandwidth(&o, topo_route_bandwidth(now, w->t, from, to));
	json_add_string(&o, "rule", topo_rule_id(now->rule));
	json_add_bdf(&o, "port", bdf_at(w->t, now->decided));
	json_add_string(&o, "planned", topo_verdict_text(then->verdict));
	json_append_out(&w->out, w->pairs, &o);
}

static void add_gdr(struct routes *w, struct requester by, uint32_t gpu)
{
	struct topo_gdr now, then;
	uint32_t nic = by.node;

	topo_gdr(&now, w->t, NULL, by.ats, nic, gpu);
	topo_gdr(&then, w->t, w->planned, by.ats, nic, gpu);
	add_pair(w, "gdr", by, gpu, &now.part[now.worst], &then.part[then.worst]);
	for (enum topo_gdr_part p = 0; p < TOPO_GDR_PARTS; p++) {
		bool answer = p == TOPO_GDR_ANSWER;
		struct topo_tlp tlp = { .type = (enum topo_tlp_type)p, .translated = !answer && now.ats == HOST_PRESENT,
					.relaxed = answer };

		add_route(&w->out, w->list, w->t, &now.part[p], answer ? gpu : nic, answer ? nic : gpu, tlp);
	}
}

/* Between GPUs over PCIe; GPUs of today have no ATS towards the host's IOMMU, or leave it off. */
static void add_p2p(struct routes *w, uint32_t a, uint32_t b)
{
	struct topo_tlp tlp = { .type = TOPO_WRITE };
	struct topo_route now, then;

	topo_route(&now, w->t, NULL, a, b, tlp);
	topo_route(&then, w->t, w->planned, a, b, tlp);
	add_pair(w, "p2p", (struct requester){ .node = a, .count = 1 }, b, &now, &then);
	add_route(&w->out, w->list, w->t, &now, a, b, tlp);
}

static bool is_nic_vf(const struct topo *t, uint32_t i)
{
	return topo_at(t, i)->fn->facts->kind == HOST_VF && topo_at(t, topo_physical(t, i))->fn->facts->kind == HOST_NIC;
}

static struct requester *like(struct routes *w, uint32_t vf)
{
	for (size_t i = 0; i < w->nnics; i++)
		if (is_nic_vf(w->t, w->nic[i].node) && bdf_at(w->t, w->nic[i].node).bus == bdf_at(w->t, vf).bus &&
		    topo_physical(w->t, w->nic[i].node) == topo_physical(w->t, vf))
			return &w->nic[i];
	return NULL;
}

static int find_nics(struct routes *w)
{
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(w->t); i++)
		n += topo_gdr_by(topo_at(w->t, i)->fn->facts->kind) || is_nic_vf(w->t, i);
	w->nic = arena_array(&w->arena, n, sizeof(*w->nic));
	for (uint32_t i = 0; w->nic && i < topo_count(w->t); i++) {
		struct requester *same = is_nic_vf(w->t, i) ? like(w, i) : NULL;

		if (same)
			same->count++;
		else if (topo_gdr_by(topo_at(w->t, i)->fn->facts->kind) || is_nic_vf(w->t, i))
			w->nic[w->nnics++] = (struct requester){ i, 1, topo_ats_known(w->t, i) };
	}
	return w->nic ? 0 : -ENOMEM;
}

static void add_all(struct routes *w)
{
	for (uint32_t g = 0; g < topo_count(w->t); g++) {
		if (topo_at(w->t, g)->fn->facts->kind != HOST_GPU)
			continue;
		for (size_t i = 0; i < w->nnics; i++)
			add_gdr(w, w->nic[i], g);
		for (uint32_t i = 0; i < topo_count(w->t); i++)
			if (topo_at(w->t, i)->fn->facts->kind == HOST_GPU && i != g)
				add_p2p(w, g, i);
	}
}

int plan_routes_json(json_object **ret, const struct topo *t, struct error *err)
{
	auto_(plan_acs_free) struct plan_acs *acs = NULL;
	struct routes w = { .t = t };
	int r = plan_acs_all(&acs, t, false, err);

	if (r < 0)
		return r;
	w.planned = plan_acs_words(t, acs, &w.arena);
	if (!w.planned || find_nics(&w) < 0) {
		arena_done(&w.arena);
		return no_memory(err);
	}
	w.out = json_out_new();
	w.pairs = json_object_new_array();
	w.list = json_object_new_array();
	add_all(&w);
	json_add(&w.out, "pairs", w.pairs);
	json_add(&w.out, "routes", w.list);
	arena_done(&w.arena);
	*ret = json_finish(&w.out);
	return *ret ? 0 : no_memory(err);
}

int plan_route_json(json_object **ret, const struct topo *t, struct bdf from, struct bdf to, struct error *err)
{
	static const struct topo_tlp tlps[] = { { TOPO_WRITE, false, false }, { TOPO_WRITE, true, false },
						{ TOPO_READ, false, false }, { TOPO_READ, true, false },
						{ TOPO_COMPLETION, false, false }, { TOPO_COMPLETION, false, true } };
	uint32_t a = topo_find(t, from), b = topo_find(t, to);
	json_object *list;
	struct json_out o;
	char text[BDF_TEXT_MAX];

	if (a == TOPO_NONE || b == TOPO_NONE)
		return error_set(err, -ENOENT, "there is no function %s; velactl topo lists them",
				 bdf_text(text, a == TOPO_NONE ? from : to));
	o = json_out_new();
	list = json_object_new_array();
	for (size_t i = 0; i < ARRAY_SIZE(tlps); i++) {
		struct topo_route r;

		topo_route(&r, t, NULL, a, b, tlps[i]);
		add_route(&o, list, t, &r, a, b, tlps[i]);
	}
	json_add(&o, "routes", list);
	*ret = json_finish(&o);
	return *ret ? 0 : no_memory(err);
}
