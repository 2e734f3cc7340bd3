/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keeps what was answered as a text host in memory. */
#include "host/answer.h"

#include <errno.h>

#include "base/arena.h"
#include "host/path.h"
#include "host/text.h"

int answers_init(struct answers *a, struct host_root *root)
{
	*a = (struct answers){ .root = root };
	if (host_root_is_machine(root))
		a->text = text_host_new();
	return a->text || !host_root_is_machine(root) ? 0 : -ENOMEM;
}

void answers_done(struct answers *a)
{
	a->text = text_host_free(a->text);
}

void answer_put(struct answers *a, const char *value, const char *fmt, ...)
{
	char path[HOST_PATH_MAX];

	if (PATH_OF(path, fmt) < 0 || !a->text)
		return;
	(void)text_host_add(a->text, &(struct text_entry){ .path = path, .type = TEXT_FILE, .value = value });
	text_host_sort(a->text); /* a few dozen of them */
}

int answer_read(struct answers *a, char **ret, struct arena *arena, const char *fmt, ...)
{
	const struct text_entry *e;
	char path[HOST_PATH_MAX];
	int r = PATH_OF(path, fmt);

	if (r < 0)
		return r;
	if (!a->text)
		return host_read_all(a->root, ret, arena, "%s", path);
	e = text_host_find(a->text, path);
	if (!e)
		return -ENOENT;
	host_record(a->root, path, e->value);
	*ret = arena_strdup(arena, e->value);
	return *ret ? 0 : -ENOMEM;
}
