/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Faults on demand, and the log of writes. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/sbuf.h"
#include "sim.h"

struct fault {
	struct fault *next;
	char *rule, *glob; /* owned; as it was given, and its first part */
	enum fault_op op;
	struct spoil spoil;
	uint64_t count, skip; /* still to spoil, and to let pass before */
};

static int errno_named(const char *name)
{
	for (int e = 1; e < 200; e++) {
		const char *text = strerrorname_np(e);

		if (text && strcmp(text, name) == 0)
			return -e;
	}
	return 0;
}

/* "EIO", "hang 5" (seconds), "delay 20" (ms), "ignore", "ff", "missing 1" */
static bool parse_spoil(struct spoil *ret, const char *action)
{
	size_t word = strcspn(action, " ");
	const char *number = action[word] ? action + word + 1 : NULL;
	uint64_t v = 0;

	if (number && parse_uint(&v, number, 10, 65535) < 0)
		return false;
	if (!number) {
		ret->mute = strcmp(action, "ff") == 0;
		ret->ignored = strcmp(action, "ignore") == 0;
		ret->error = ret->mute || ret->ignored ? 0 : errno_named(action);
		return ret->mute || ret->ignored || ret->error;
	}
	if (strncmp(action, "hang ", 5) == 0)
		ret->hang = (unsigned)v * 1000;
	else if (strncmp(action, "delay ", 6) == 0)
		ret->delay = (unsigned)v;
	else if (strncmp(action, "missing ", 8) == 0)
		*ret = (struct spoil){ .missing = true, .vf = (unsigned)v };
	else
		return false;
	return true;
}

/* An action, then COUNT and SKIP. */
static bool parse_action(struct fault *f, char *text)
{
	char *action = strsep(&text, ":"), *count = strsep(&text, ":"), *skip = strsep(&text, ":");

	f->count = UINT64_MAX;
	return parse_spoil(&f->spoil, action) && !text &&
	       (!count || parse_uint(&f->count, count, 10, UINT32_MAX) == 0) &&
	       (!skip || parse_uint(&f->skip, skip, 10, UINT32_MAX) == 0);
}

/* Paths of PCI functions have colons: the operation is what ends the glob. */
static bool parse_rule(struct fault *f, char *rule)
{
	char *at = strstr(rule, ":read:"), *action = at ? at + strlen(":read:") : NULL;

	f->op = at ? FAULT_READ : FAULT_WRITE;
	if (!at) {
		at = strstr(rule, ":write:");
		action = at ? at + strlen(":write:") : NULL;
	}
	if (!at || at == rule)
		return false;
	*at = '\0';
	f->glob = rule;
	return parse_action(f, action);
}

static struct fault *fault_free(struct fault *f)
{
	if (f) {
		free(f->rule);
		free(f->glob);
		free(f);
	}
	return NULL;
}
AUTO_DEFINE(struct fault *, fault_free);

int fault_add(struct sim *s, const char *rule)
{
	auto_(fault_free) struct fault *f = calloc(1, sizeof(*f));
	struct fault **at = &s->fault;
	autofree char *copy = strdup(rule);
	size_t n;

	if (!f || !copy)
		return -ENOMEM;
	n = strcspn(copy, "\n");
	copy[n] = '\0';
	f->rule = strdup(copy);
	if (!f->rule)
		return -ENOMEM;
	if (!parse_rule(f, copy)) {
		f->glob = NULL; /* it is copy's */
		return -EINVAL;
	}
	f->glob = steal(copy);
	while (*at)
		at = &(*at)->next;
	*at = steal(f);
	return 0;
}

struct spoil fault_hit(struct sim *s, enum fault_op op, const char *path)
{
	for (struct fault *f = s->fault; f; f = f->next) {
		if (f->op != op || f->count == 0 || fnmatch(f->glob, path, 0) != 0)
			continue;
		if (f->skip) {
			f->skip--;
			continue;
		}
		f->count--;
		return f->spoil;
	}
	return (struct spoil){ 0 };
}

/* "clear" takes all faults away and ends what hangs; anything else is a rule. */
int fault_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	(void)n;
	(void)len;
	(void)off;
	if (strcmp(value, "clear") != 0 && strcmp(value, "clear\n") != 0)
		return fault_add(s, value);
	while (s->fault) {
		struct fault *next = s->fault->next;

		(void)fault_free(s->fault);
		s->fault = next;
	}
	s->cleared++;
	return 0;
}

char *fault_read(struct sim *s, const struct node *n)
{
	struct sbuf out = { 0 };

	(void)n;
	for (const struct fault *f = s->fault; f; f = f->next)
		sbuf_addf(&out, "%s\n", f->rule);
	return sbuf_steal(&out);
}

/* ---- log -------------------------------------------------------------------------------------------- */

/* PATH "VALUE" ok|ERRNO; bytes that are no text are shown as hex. */
void log_add(struct sim *s, const char *path, const char *value, int r)
{
	struct sbuf out = { .text = s->log, .len = s->log_len, .size = s->log ? s->log_len + 1 : 0 };

	sbuf_addf(&out, "%s \"", path);
	for (; *value; value++) {
		if (*value >= ' ' && *value <= '~')
			sbuf_add_bytes(&out, value, 1);
		else if (*value == '\n')
			sbuf_add(&out, "\\n");
		else
			sbuf_addf(&out, "\\x%02x", (unsigned char)*value);
	}
	sbuf_addf(&out, "\" %s\n", r < 0 ? strerrorname_np(-r) : "ok");
	s->log_len = out.len;
	s->log = sbuf_steal(&out);
}

char *log_read(struct sim *s, const struct node *n)
{
	(void)n;
	return strdup(s->log ? s->log : "");
}

int log_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	(void)n;
	(void)value;
	(void)len;
	(void)off;
	free(s->log);
	s->log = NULL;
	s->log_len = 0;
	return 0;
}
