/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ACS plans as JSON (docs/openapi.json). */
#include <json-c/json.h>
#include <stdio.h>

#include "base/json.h"
#include "plan/acs.h"

static void add_word(struct json_out *o, const char *key, uint16_t v)
{
	char text[8];

	(void)snprintf(text, sizeof(text), "0x%02x", v);
	json_add_string(o, key, text);
}

static void add_pair(struct json_out *all, json_object *pairs, const struct plan_acs_pair *p)
{
	static const char *const translated[] = { [TOPO_ATS_OK] = "yes", [TOPO_ATS_NO] = "no", [TOPO_ATS_UNKNOWN] = "unknown" };
	struct json_out o = json_out_new();

	json_add_bdf(&o, "nic", p->nic);
	json_add_bdf(&o, "gpu", p->gpu);
	json_add_string(&o, "path", topo_class_text(p->path));
	json_add_string(&o, "ats", host_known_text(p->ats));
	json_add_string(&o, "translated", translated[p->translated]);
	json_add_string(&o, "state", plan_acs_state_text(p->state));
	json_add_string(&o, "now", topo_verdict_text(p->now));
	json_add_string(&o, "then", topo_verdict_text(p->then));
	json_add_string(&o, "boot", topo_verdict_text(p->boot));
	json_add_string(&o, "rule", topo_rule_id(p->rule));
	json_add_bdf(&o, "port", p->port);
	json_add_string(&o, "through", p->through);
	json_add_string(&o, "why", *p->why ? p->why : NULL);
	json_add_string(&o, "fix", *p->fix ? p->fix : NULL);
	json_append_out(all, pairs, &o);
}

static void add_writes(struct json_out *all, const struct plan_acs *p)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < p->nwrites; i++) {
		struct json_out o = json_out_new();

		json_add_bdf(&o, "port", p->write[i].port);
		add_word(&o, "cap", p->write[i].cap);
		add_word(&o, "from", p->write[i].from);
		add_word(&o, "to", p->write[i].to);
		json_append_out(all, list, &o);
	}
	json_add_made(all, "writes", list);
}

static void add_boot_ports(struct json_out *all, const struct plan_acs *p)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < p->nboot; i++) {
		struct json_out o = json_out_new();

		json_add_bdf(&o, "port", p->at_boot[i].port);
		add_word(&o, "cap", p->at_boot[i].cap);
		add_word(&o, "to", p->at_boot[i].to);
		json_add_bool(&o, "regroups", p->at_boot[i].regroups);
		json_append_out(all, list, &o);
	}
	json_add_made(all, "boot_ports", list);
}

static void add_shared(struct json_out *all, const struct plan_acs *p)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < p->nshared; i++) {
		json_object *one = json_object_new_array();
		char text[BDF_TEXT_MAX];

		for (size_t k = 0; k < p->shared[i].n; k++)
			json_append(all, one, json_object_new_string(bdf_text(text, p->shared[i].fn[k])));
		json_append(all, list, one);
	}
	json_add_made(all, "shared", list);
}

json_object *plan_acs_json(const struct plan_acs *p, json_object *held)
{
	json_object *pairs = json_object_new_array();
	struct json_out o = json_out_new();

	for (size_t i = 0; i < p->npairs; i++)
		add_pair(&o, pairs, &p->pair[i]);
	json_add_made(&o, "pairs", pairs);
	add_writes(&o, p);
	add_boot_ports(&o, p);
	add_shared(&o, p);
	json_add_string(&o, "boot", *p->boot ? p->boot : NULL);
	json_add_string(&o, "grub", *p->grub ? p->grub : NULL);
	json_add_bool(&o, "booted", p->booted);
	json_add_string(&o, "warning", *p->warning ? p->warning : NULL);
	json_add(&o, "held", held);
	return json_finish(&o);
}
