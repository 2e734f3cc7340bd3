/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of the simulated machine: a tree of nodes, and that tree as a text host again. It knows nothing
 * of what the files mean. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static void *must(void *p)
{
	if (!p) {
		perror("hostsim");
		exit(EXIT_FAILURE);
	}
	return p;
}

struct node *node_child(const struct node *dir, const char *name, size_t len)
{
	for (struct node *c = dir->child; c; c = c->next)
		if (strncmp(c->name, name, len) == 0 && c->name[len] == '\0')
			return c;
	return NULL;
}

struct node *node_attr(const struct node *dir, const char *name)
{
	return node_child(dir, name, strlen(name));
}

unsigned long node_number(const struct node *dir, const char *attr, int base)
{
	const struct node *n = node_attr(dir, attr);

	return n && n->text ? strtoul(n->text, NULL, base) : 0;
}

static struct node *insert(struct node *dir, const char *name, size_t len)
{
	struct node *n = must(calloc(1, sizeof(*n))), **at = &dir->child;

	n->name = must(strndup(name, len));
	n->type = TEXT_DIR;
	n->parent = dir;
	while (*at && strcmp((*at)->name, n->name) < 0)
		at = &(*at)->next;
	n->next = *at;
	*at = n;
	return n;
}

static struct node *walk(struct sim *s, const char *path, bool make)
{
	struct node *n = s->root ? s->root : (s->root = must(calloc(1, sizeof(*n))));

	n->type = TEXT_DIR;
	while (n && *path) {
		size_t len = strcspn(path, "/");
		struct node *c = node_child(n, path, len);

		n = c || !make ? c : insert(n, path, len);
		path += len + (path[len] == '/');
	}
	return n;
}

static const char *make_path(char path[SIM_PATH_MAX], const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static const char *make_path(char path[SIM_PATH_MAX], const char *fmt, va_list ap)
{
	if (vsnprintf(path, SIM_PATH_MAX, fmt, ap) >= SIM_PATH_MAX) {
		(void)fprintf(stderr, "hostsim: the path %s... is too long\n", path);
		exit(EXIT_FAILURE);
	}
	return path;
}

struct node *node_find(struct sim *s, const char *fmt, ...)
{
	char path[SIM_PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)make_path(path, fmt, ap);
	va_end(ap);
	return walk(s, path, false);
}

void node_text(struct node *n, const char *value)
{
	char *copy = must(strdup(value));

	free(n->text);
	n->text = copy;
}

void node_textf(struct node *n, const char *fmt, ...)
{
	autofree char *text = NULL;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&text, fmt, ap);
	va_end(ap);
	node_text(n, must(r < 0 ? NULL : text));
}

struct node *node_add(struct sim *s, enum text_type type, const char *value, const char *fmt, ...)
{
	char path[SIM_PATH_MAX];
	struct node *n;
	va_list ap;

	va_start(ap, fmt);
	(void)make_path(path, fmt, ap);
	va_end(ap);
	n = walk(s, path, true);
	n->type = type;
	if (type == TEXT_BYTES && !n->bytes)
		n->bytes = must(calloc(1, n->len = 4096));
	if (value)
		node_text(n, value);
	return n;
}

static void bury(struct node *n)
{
	n->dead = true;
	for (struct node *c = n->child; c; c = c->next)
		bury(c);
}

void node_remove(struct sim *s, struct node *n)
{
	struct node **at;

	if (!n || n->dead)
		return;
	for (at = &n->parent->child; *at != n; at = &(*at)->next)
		;
	*at = n->next;
	bury(n);
	if (n->fixed) {
		n->next = s->stale;
		s->stale = n;
	}
}

const char *node_path(char buf[SIM_PATH_MAX], const struct node *n)
{
	size_t len;

	buf[0] = '\0';
	if (!n->parent)
		return buf;
	(void)node_path(buf, n->parent);
	len = strlen(buf);
	(void)snprintf(buf + len, SIM_PATH_MAX - len, "%s%s", len ? "/" : "", n->name);
	return buf;
}

void node_link(struct sim *s, const struct node *to, const char *fmt, ...)
{
	char path[SIM_PATH_MAX], of[SIM_PATH_MAX], target[4 * SIM_PATH_MAX] = "";
	va_list ap;

	va_start(ap, fmt);
	(void)make_path(path, fmt, ap);
	va_end(ap);
	for (const char *at = strchr(path, '/') + 1; (at = strchr(at, '/')); at++) /* as many as there are below sys */
		(void)strcat(target, "../");
	(void)strcat(target, node_path(of, to) + strlen("sys/"));
	(void)node_add(s, TEXT_LINK, target, "%s", path);
}

void sim_append(char **text, size_t *len, const char *line)
{
	size_t n = strlen(line);

	*text = must(realloc(*text, *len + n + 1));
	memcpy(*text + *len, line, n + 1);
	*len += n;
}

/* A file that is made, besides those of the text host; a directory of such files. */
static bool made_up(const struct node *n)
{
	return n->type == TEXT_DIR ? n->child && made_up(n->child) : n->read && !n->text;
}

static int record(struct sim *s, struct text_host *t, const struct node *n)
{
	autofree char *made = n->read && n->text ? n->read(s, n) : NULL;
	char path[SIM_PATH_MAX];
	struct text_entry e = {
		.path = node_path(path, n),
		.type = n->type,
		.value = made ? made : n->text,
		.bytes = n->bytes,
		.len = n->len,
	};
	int r;

	if (made)
		made[strcspn(made, "\n")] = '\0';
	r = n->parent && !made_up(n) && !(n->type == TEXT_FILE && !n->text) ? text_host_add(t, &e) : 0;
	for (const struct node *c = n->child; r == 0 && c; c = c->next)
		if (n->parent || c->name[0] != '.') /* not .hostsim */
			r = record(s, t, c);
	return r;
}

char *sim_state(struct sim *s, const struct node *n)
{
	auto_(text_host_free) struct text_host *t = text_host_new();

	(void)n;
	return t && record(s, t, s->root) == 0 ? text_host_render(t) : NULL;
}
