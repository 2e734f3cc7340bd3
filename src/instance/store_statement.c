/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/store_statement.h"

#include <stdlib.h>
#include <string.h>

#define KEEP 64 /* each is some KiB; a reservation and its delete use about half of them */

static void drop(struct statements *all, struct store_rows **at)
{
	struct store_rows *s = *at;

	*at = s->next;
	all->n--;
	(void)sqlite3_finalize(s->q); /* repeats the error of its last step, which was reported there */
	free(s);
}

/* Those that were not taken for the longest time, as far as they are free. */
static void make_room(struct statements *all)
{
	while (all->n >= KEEP) {
		struct store_rows **oldest = NULL;

		for (struct store_rows **at = &all->first; *at; at = &(*at)->next)
			if (!(*at)->taken)
				oldest = at;
		if (!oldest)
			return;
		drop(all, oldest);
	}
}

/* place: only one that was read from there before, which nearly all are: to compare with each text costs more than what some of them do. */
static struct store_rows *find(struct statements *all, const char *sql, bool place)
{
	for (struct store_rows **at = &all->first; *at; at = &(*at)->next) {
		struct store_rows *s = *at;

		if (s->taken || (place && s->text != sql) || strcmp(sqlite3_sql(s->q), sql) != 0)
			continue;
		*at = s->next;
		return s;
	}
	return place ? find(all, sql, false) : NULL;
}

static int make(struct statements *all, struct store_rows **ret, sqlite3 *db, const char *sql)
{
	struct store_rows *s;
	int r;

	make_room(all);
	s = calloc(1, sizeof(*s));
	if (!s)
		return SQLITE_NOMEM;
	r = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->q, NULL);
	if (r != SQLITE_OK) {
		free(s);
		return r;
	}
	all->n++;
	*ret = s;
	return SQLITE_OK;
}

int statement_take(struct statements *all, struct store_rows **ret, sqlite3 *db, const char *sql)
{
	struct store_rows *s = find(all, sql, true);
	int r = s ? SQLITE_OK : make(all, &s, db, sql);

	if (r != SQLITE_OK)
		return r;
	s->taken = true;
	s->tx = NULL;
	s->text = sql;
	s->next = all->first;
	all->first = s;
	*ret = s;
	return SQLITE_OK;
}

void statement_give(struct store_rows *s)
{
	(void)sqlite3_reset(s->q); /* likewise */
	(void)sqlite3_clear_bindings(s->q);
	s->taken = false;
}

void statements_done(struct statements *all)
{
	while (all->first)
		drop(all, &all->first);
}
