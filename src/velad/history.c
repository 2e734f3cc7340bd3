/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/history.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-journal.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "topo/diff.h"

#define LOG_MAX 32 /* lines of one generation: 1,280 VFs are not 1,280 lines */

static void drop_oldest(struct history *h)
{
	h->before = h->at[0].generation;
	h->items -= json_object_array_length(h->at[0].items);
	json_object_put(h->at[0].items);
	h->n--;
	memmove(&h->at[0], &h->at[1], h->n * sizeof(h->at[0]));
}

void history_add(struct history *h, uint64_t generation, int64_t time, json_object *items)
{
	if (h->n == HISTORY_MAX)
		drop_oldest(h);
	h->at[h->n].generation = generation;
	h->at[h->n].time = time;
	h->at[h->n++].items = items;
	h->items += json_object_array_length(items);
	while (h->n > 1 && h->items > HISTORY_ITEMS_MAX)
		drop_oldest(h);
}

void history_done(struct history *h)
{
	while (h->n)
		drop_oldest(h);
}

static bool reaches(const struct history *h, uint64_t since)
{
	return since >= h->before && since <= (h->n ? h->at[h->n - 1].generation : h->before);
}

/* The "changes" after a generation; NULL: no memory. Only if it reaches there. */
static json_object *json_since(const struct history *h, uint64_t since)
{
	json_object *list = json_object_new_array();
	struct json_out o = { .obj = list, .failed = !list };

	for (size_t i = 0; i < h->n; i++)
		if (h->at[i].generation > since)
			json_append(&o, list, topo_change_json(h->at[i].generation, h->at[i].time, json_object_get(h->at[i].items)));
	return json_finish(&o);
}

int history_changes(const struct history *h, json_object **ret, uint64_t since, uint64_t generation, struct error *err)
{
	struct json_out o;
	json_object *list;

	if (!reaches(h, since))
		return error_set(err, -EIDRM, "what changed since generation %llu is not known any more; get the topology, and "
				 "go on from its generation", (unsigned long long)since);
	o = json_out_new();
	list = json_since(h, since);
	json_add_uint(&o, "generation", generation);
	o.failed |= !list;
	json_add(&o, "changes", list);
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the answer");
}

static const char *text_of(json_object *item, const char *key)
{
	json_object *v = json_object_object_get(item, key);

	return v ? json_object_get_string(v) : "-";
}

static void log_item(uint64_t generation, json_object *item)
{
	const char *bdf = text_of(item, "bdf"), *what = text_of(item, "what"), *field = text_of(item, "field");
	const char *old = text_of(item, "old"), *new = text_of(item, "new");
	char text[400];

	if (strcmp(what, "changed") == 0)
		(void)snprintf(text, sizeof(text), "%s: %s %.100s -> %.100s", bdf, field, old, new);
	else
		(void)snprintf(text, sizeof(text), "%s: %s %s", bdf, text_of(item, "kind"), what);
	if (!log_is_journal()) {
		log_info("%s", text);
		return;
	}
	(void)sd_journal_send("MESSAGE=%s", text, "PRIORITY=6", "GENERATION=%" PRIu64, generation, "BDF=%s", bdf, "WHAT=%s",
			      what, "FIELD=%s", field, "OLD=%s", old, "NEW=%s", new, NULL);
}

void history_log(uint64_t generation, json_object *items)
{
	size_t n = json_object_array_length(items);

	for (size_t i = 0; i < n && i < LOG_MAX; i++)
		log_item(generation, json_object_array_get_idx(items, i));
	if (n > LOG_MAX)
		log_info("and %zu more; GET /v1/changes/%" PRIu64 " has them", n - LOG_MAX, generation - 1);
}

bool history_has_cards(json_object *items)
{
	bool any = false;

	for (size_t i = 0; i < json_object_array_length(items); i++) {
		json_object *item = json_object_array_get_idx(items, i);
		const char *what = json_object_get_string(json_object_object_get(item, "what"));
		const char *kind = json_object_get_string(json_object_object_get(item, "kind"));

		any = any || ((strcmp(what, "added") == 0 || strcmp(what, "removed") == 0) && kind && strcmp(kind, "vf") != 0);
	}
	return any;
}
