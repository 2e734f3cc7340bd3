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
	struct json_out o = json_out_new();

	json_add_bdf(&o, "nic", p->nic);
	json_add_bdf(&o, "gpu", p->gpu);
	json_add_string(&o, "path", topo_class_text(p->path));
	json_add_string(&o, "ats", host_known_text(p->ats));
	json_add_string(&o, "state", plan_acs_state_text(p->state));
	json_add_string(&o, "now", topo_verdict_text(p->now));
	json_add_string(&o, "then", topo_verdict_text(p->then));
	json_add_string(&o, "rule", topo_rule_id(p->rule));
	json_add_bdf(&o, "port", p->port);
	json_add_string(&o, "why", *p->why ? p->why : NULL);
	json_add_string(&o, "fix", *p->fix ? p->fix : NULL);
	json_append_out(all, pairs, &o);
}

json_object *plan_acs_json(const struct plan_acs *p)
{
	json_object *pairs = json_object_new_array(), *writes = json_object_new_array();
	struct json_out o = json_out_new();

	for (size_t i = 0; i < p->npairs; i++)
		add_pair(&o, pairs, &p->pair[i]);
	for (size_t i = 0; i < p->nwrites; i++) {
		struct json_out w = json_out_new();

		json_add_bdf(&w, "port", p->write[i].port);
		add_word(&w, "cap", p->write[i].cap);
		add_word(&w, "from", p->write[i].from);
		add_word(&w, "to", p->write[i].to);
		json_append_out(&o, writes, &w);
	}
	json_add(&o, "pairs", pairs);
	json_add(&o, "writes", writes);
	json_add_string(&o, "boot", *p->boot ? p->boot : NULL);
	json_add_string(&o, "warning", *p->warning ? p->warning : NULL);
	return json_finish(&o);
}
