/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/text.h"

#include <errno.h>
#include <json-c/json.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "instance/manager.h"
#include "instance/store.h"

static void drop_all(struct texts *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->at[i].text);
	t->n = t->bytes = 0;
}

void texts_done(struct texts *t)
{
	drop_all(t);
	free(t->at);
	free(t->list.text);
	free(t->brief.text);
	*t = (struct texts){ 0 };
}

static struct text *find(struct texts *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->at[i].name, name) == 0)
			return &t->at[i];
	return NULL;
}

static struct text *add(struct texts *t, const char *name)
{
	struct text *e;

	if (!t->at)
		t->at = calloc(TEXTS_MAX, sizeof(*t->at));
	if (!t->at)
		return NULL;
	if (t->n == TEXTS_MAX)
		drop_all(t);
	e = &t->at[t->n++];
	*e = (struct text){ 0 };
	(void)strcpy(e->name, name);
	return e;
}

/* Replaces what e had. commits and looks were read before the document was: if either grew meanwhile, it is made anew next
 * time. */
static int make(struct inst_manager *m, struct text *e, uint64_t commits, uint64_t looks, struct error *err)
{
	const struct inst_filter all = { .brief = e == &m->texts.brief };
	bool list = all.brief || e == &m->texts.list;
	json_object *o = NULL;
	const char *text;
	char *copy;
	int r = list ? inst_list_json(m, &o, &all, err) : inst_json(m, &o, e->name, err);

	if (r < 0)
		return r;
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	copy = text ? strdup(text) : NULL;
	e->generation = json_object_get_uint64(json_object_object_get(o, "generation"));
	json_object_put(o);
	if (list)
		(void)malloc_trim(0); /* it was some MB of small objects, between which others stay */
	if (!copy)
		return error_set(err, -ENOMEM, "no memory for an answer");
	free(e->text);
	if (!list)
		m->texts.bytes += strlen(copy) - e->len;
	e->text = copy;
	e->len = strlen(copy);
	e->number = ++m->texts.made;
	e->commits = commits;
	e->looks = looks;
	return 0;
}

static bool is_new(const struct text *e, uint64_t commits, uint64_t looks)
{
	return e->text && e->commits == commits && e->looks == looks;
}

int inst_list_text(struct inst_manager *m, const char **ret, bool brief, struct error *err)
{
	uint64_t commits = store_commits(m->store), looks = m->keep.looks;
	struct text *list = brief ? &m->texts.brief : &m->texts.list;
	int r = is_new(list, commits, looks) ? 0 : make(m, list, commits, looks, err);

	if (r < 0)
		return r;
	*ret = list->text;
	return 0;
}

int inst_text(struct inst_manager *m, struct inst_text *ret, const char *name, struct error *err)
{
	uint64_t commits = store_commits(m->store), looks = m->keep.looks;
	struct text *e;
	int r = 0;

	if (m->texts.bytes > TEXTS_BYTES_MAX)
		drop_all(&m->texts);
	e = find(&m->texts, name);
	if (!e && strlen(name) >= sizeof(e->name))
		return error_set(err, -ENOENT, "there is no instance %.60s", name);
	if (!e)
		e = add(&m->texts, name);
	if (!e)
		return error_set(err, -ENOMEM, "no memory for an answer");
	if (!is_new(e, commits, looks))
		r = make(m, e, commits, looks, err);
	if (r < 0) { /* there is none, or none any more */
		m->texts.bytes -= e->len;
		free(e->text);
		*e = m->texts.at[--m->texts.n];
		return r;
	}
	*ret = (struct inst_text){ e->text, e->generation, e->number };
	return 0;
}
