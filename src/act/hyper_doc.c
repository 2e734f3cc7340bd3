/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tables of the members that are texts; the others by hand. */
#include "act/hyper_doc.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/bdf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strtab.h"

static const char *const verbs[HYPER_VERB_MAX_] = {
	[HYPER_EVENTS] = "events", [HYPER_DOMAIN] = "domain", [HYPER_DOMAINS] = "domains", [HYPER_START] = "start",
	[HYPER_ORDER] = "order",   [HYPER_STOP] = "stop",     [HYPER_POOL] = "pool",       [HYPER_FILE] = "file",
	[HYPER_DROP] = "drop",     [HYPER_DISK] = "disk",     [HYPER_SEED] = "seed",       [HYPER_CONSOLE] = "console",
};

struct text {
	const char *key;
	size_t      at; /* of a const char * in the struct */
};

static const struct text call_texts[] = {
	{ "name", offsetof(struct hyper_call, name) },
	{ "xml", offsetof(struct hyper_call, xml) },
	{ "image", offsetof(struct hyper_call, disk.image) },
	{ "format", offsetof(struct hyper_call, disk.format) },
	{ "meta_data", offsetof(struct hyper_call, seed.meta_data) },
	{ "user_data", offsetof(struct hyper_call, seed.user_data) },
	{ "vendor_data", offsetof(struct hyper_call, seed.vendor_data) },
	{ "network", offsetof(struct hyper_call, seed.network) },
	{ "hello", offsetof(struct hyper_call, hello) },
};

static const struct text answer_texts[] = {
	{ "text", offsetof(struct hyper_answer, text) },
	{ "type", offsetof(struct hyper_answer, type) },
	{ "problem", offsetof(struct hyper_answer, problem) },
};

const char *hyper_verb_text(enum hyper_verb v)
{
	return strtab_text(verbs, HYPER_VERB_MAX_, (int)v);
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static void add_texts(struct json_out *o, const void *from, const struct text *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *text = *(const char *const *)((const char *)from + t[i].at);

		if (text)
			json_add_string(o, t[i].key, text);
	}
}

json_object *hyper_call_json(const struct hyper_call *c)
{
	struct json_out o = json_out_new();

	json_add_string(&o, "verb", hyper_verb_text(c->verb));
	add_texts(&o, c, call_texts, ARRAY_SIZE(call_texts));
	json_add_uint(&o, "order", (uint64_t)c->order);
	json_add_uint(&o, "size", c->disk.size);
	json_add_bool(&o, "force", c->force);
	return json_finish(&o);
}

static void add_events(struct json_out *o, const struct hyper_answer *a)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < a->nevents; i++) {
		struct json_out e = json_out_new();

		json_add_string(&e, "name", a->event[i].name);
		json_add_uint(&e, "state", (uint64_t)a->event[i].state);
		json_append_out(o, array, &e);
	}
	json_add_made(o, "events", array);
}

static void add_guests(struct json_out *o, const struct hyper_answer *a)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < a->nguests; i++) {
		struct json_out e = json_out_new();
		json_object *device = json_object_new_array();
		char text[BDF_TEXT_MAX];

		json_add_string(&e, "name", a->guest[i].name);
		json_add_string(&e, "uuid", a->guest[i].uuid);
		json_add_uint(&e, "state", (uint64_t)a->guest[i].state);
		json_add_bool(&e, "ours", a->guest[i].ours);
		json_add_bool(&e, "known", a->guest[i].known);
		for (size_t k = 0; k < a->guest[i].n; k++)
			json_append(&e, device, json_object_new_string(bdf_text(text, a->guest[i].device[k])));
		json_add_made(&e, "devices", device);
		json_append_out(o, array, &e);
	}
	json_add_made(o, "guests", array);
}

json_object *hyper_answer_json(const struct hyper_answer *a)
{
	struct json_out o = json_out_new();

	json_add_int(&o, "code", a->code);
	add_texts(&o, a, answer_texts, ARRAY_SIZE(answer_texts));
	json_add_uint(&o, "domain", (uint64_t)a->domain);
	json_add_bool(&o, "there", a->file.there);
	json_add_int(&o, "size", a->file.size);
	json_add_int(&o, "mtime", a->file.mtime);
	json_add_bool(&o, "changed", a->changed);
	json_add_uint(&o, "qemu", a->qemu);
	json_add_uint(&o, "lacks", a->lacks);
	add_events(&o, a);
	add_guests(&o, a);
	return json_finish(&o);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

static const char *get_text(json_object *doc, const char *key)
{
	json_object *v = json_object_object_get(doc, key);

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

/* NULL also where memory is out: who needs it then says that it is missing. */
static const char *keep_text(json_object *doc, const char *key, struct arena *arena)
{
	const char *text = get_text(doc, key);

	return text ? arena_strdup(arena, text) : NULL;
}

static int64_t get_int(json_object *doc, const char *key)
{
	return json_object_get_int64(json_object_object_get(doc, key));
}

static bool get_bool(json_object *doc, const char *key)
{
	return json_object_get_boolean(json_object_object_get(doc, key));
}

static bool is_state(int64_t v)
{
	return v >= ACT_DOMAIN_ABSENT && v <= ACT_DOMAIN_CHANGED;
}

int hyper_call_read(struct hyper_call *ret, json_object *doc, struct error *err)
{
	const char *verb = json_object_is_type(doc, json_type_object) ? get_text(doc, "verb") : NULL;
	int which = verb ? strtab_find(verbs, HYPER_VERB_MAX_, verb) : -1;
	int64_t order;

	if (which < 0)
		return error_set(err, -EPROTO, "a call without a verb that velad-libvirt knows; restart velad");
	*ret = (struct hyper_call){ .verb = (enum hyper_verb)which };
	for (size_t i = 0; i < ARRAY_SIZE(call_texts); i++)
		*(const char **)((char *)ret + call_texts[i].at) = get_text(doc, call_texts[i].key);
	order = get_int(doc, "order");
	ret->order = (enum act_order)order;
	ret->force = get_bool(doc, "force");
	ret->disk.name = ret->name;
	ret->disk.size = json_object_get_uint64(json_object_object_get(doc, "size"));
	if ((!ret->name && which != HYPER_EVENTS && which != HYPER_DOMAINS && which != HYPER_POOL) || (which == HYPER_START && !ret->xml) || (which == HYPER_CONSOLE && !ret->hello) || order < 0 || order >= ACT_ORDER_MAX_)
		return error_set(err, -EPROTO, "the call \"%s\" lacks what it is about; restart velad", verb);
	return 0;
}

static int read_events(struct hyper_answer *ret, json_object *array, struct arena *arena, struct error *err)
{
	size_t n = json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;

	ret->event = arena_array(arena, n, sizeof(*ret->event));
	if (!ret->event)
		return error_set(err, -ENOMEM, "no memory for events");
	for (size_t i = 0; i < n; i++) {
		json_object *e = json_object_array_get_idx(array, i);
		const char *name = keep_text(e, "name", arena);
		int64_t state = get_int(e, "state");

		if (!name || !is_state(state))
			return error_set(err, -EPROTO, "velad-libvirt tells of an event without name or state");
		ret->event[ret->nevents++] = (struct hyper_event){ name, (enum act_domain)state };
	}
	return 0;
}

static int read_guest(struct act_guest *g, json_object *e, struct arena *arena, struct error *err)
{
	json_object *array = json_object_object_get(e, "devices");
	size_t n = json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
	const char *uuid = get_text(e, "uuid");
	int64_t state = get_int(e, "state");
	struct bdf *device = arena_array(arena, n, sizeof(*device));

	if (!device)
		return error_set(err, -ENOMEM, "no memory for libvirt's domains");
	*g = (struct act_guest){ .name = keep_text(e, "name", arena), .state = (enum act_domain)state, .ours = get_bool(e, "ours"),
				 .known = get_bool(e, "known"), .device = device, .n = n };
	if (!g->name || !uuid || strlen(uuid) >= sizeof(g->uuid) || !is_state(state))
		return error_set(err, -EPROTO, "velad-libvirt tells of a domain without name, uuid or state");
	(void)strcpy(g->uuid, uuid);
	for (size_t i = 0; i < n; i++) {
		json_object *bdf = json_object_array_get_idx(array, i);

		if (!json_object_is_type(bdf, json_type_string) || !bdf_parse(&device[i], json_object_get_string(bdf)))
			return error_set(err, -EPROTO, "velad-libvirt tells of a function that is none");
	}
	return 0;
}

static int read_guests(struct hyper_answer *ret, json_object *array, struct arena *arena, struct error *err)
{
	size_t n = json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
	int r = 0;

	ret->guest = arena_array(arena, n, sizeof(*ret->guest));
	if (!ret->guest)
		return error_set(err, -ENOMEM, "no memory for libvirt's domains");
	for (; r == 0 && ret->nguests < n; ret->nguests++)
		r = read_guest(&ret->guest[ret->nguests], json_object_array_get_idx(array, ret->nguests), arena, err);
	return r;
}

int hyper_answer_read(struct hyper_answer *ret, json_object *doc, struct arena *arena, struct error *err)
{
	int64_t code = get_int(doc, "code"), domain = get_int(doc, "domain");
	int r;

	*ret = (struct hyper_answer){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(answer_texts); i++)
		*(const char **)((char *)ret + answer_texts[i].at) = keep_text(doc, answer_texts[i].key, arena);
	if (!json_object_is_type(json_object_object_get(doc, "code"), json_type_int) || code > 0 || code < -4095 || !is_state(domain) ||
	    (code < 0 && !ret->text))
		return error_set(err, -EPROTO, "velad-libvirt's answer is broken");
	ret->code = (int)code;
	ret->domain = (enum act_domain)domain;
	ret->file = (struct act_file){ get_bool(doc, "there"), get_int(doc, "size"), get_int(doc, "mtime") };
	ret->changed = get_bool(doc, "changed");
	ret->qemu = (unsigned)get_int(doc, "qemu");
	ret->lacks = (unsigned)get_int(doc, "lacks");
	r = read_events(ret, json_object_object_get(doc, "events"), arena, err);
	return r < 0 ? r : read_guests(ret, json_object_object_get(doc, "guests"), arena, err);
}
