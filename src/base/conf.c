/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads velad.conf: one field table, sections and keys known by name, drop-ins in order. The file text is
 * read whole first, so that a file that changes meanwhile cannot be half old, half new. */
#include "base/conf.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"

#define CONF_BYTES_MAX (256 * 1024)

static const char conf_default[] =
#include "conf_default.inc"
	;

enum conf_type { CONF_STRING, CONF_PATH, CONF_UINT, CONF_BYTES };

struct conf_field {
	const char    *section, *key;
	enum conf_type type;
	size_t         offset;
	uint64_t       min, max;
};

static const struct conf_field conf_fields[] = {
	{ "daemon", "state_dir", CONF_PATH, offsetof(struct conf, state_dir) },
	{ "daemon", "console_dir", CONF_PATH, offsetof(struct conf, console_dir) },
	{ "daemon", "socket", CONF_PATH, offsetof(struct conf, socket) },
	{ "daemon", "helper", CONF_PATH, offsetof(struct conf, helper) },
	{ "daemon", "keep_milliseconds", CONF_UINT, offsetof(struct conf, keep_milliseconds), 50, 60000 },
	{ "daemon", "keep_seconds", CONF_UINT, offsetof(struct conf, keep_seconds), 1, 3600 },
	{ "daemon", "workers", CONF_UINT, offsetof(struct conf, workers), 1, 32 },
	{ "deadlines", "look", CONF_UINT, offsetof(struct conf, deadline.look), 1, 3600 },
	{ "deadlines", "bind", CONF_UINT, offsetof(struct conf, deadline.bind), 1, 3600 },
	{ "deadlines", "vfs", CONF_UINT, offsetof(struct conf, deadline.vfs), 1, 3600 },
	{ "deadlines", "reset", CONF_UINT, offsetof(struct conf, deadline.reset), 1, 3600 },
	{ "deadlines", "domain", CONF_UINT, offsetof(struct conf, deadline.domain), 1, 3600 },
	{ "deadlines", "start", CONF_UINT, offsetof(struct conf, deadline.start), 1, 86400 },
	{ "deadlines", "helper_start", CONF_UINT, offsetof(struct conf, deadline.helper_start), 1, 3600 },
	{ "deadlines", "stop", CONF_UINT, offsetof(struct conf, deadline.stop), 1, 86400 },
	{ "images", "dir", CONF_PATH, offsetof(struct conf, images_dir) },
	{ "images", "pool", CONF_STRING, offsetof(struct conf, images_pool) },
	{ "images", "source", CONF_PATH, offsetof(struct conf, images_source) },
	{ "host", "fmpm", CONF_PATH, offsetof(struct conf, fmpm) },
	{ "host", "rack", CONF_STRING, offsetof(struct conf, rack) },
	{ "host", "rack_alias", CONF_STRING, offsetof(struct conf, rack_alias) },
	{ "libvirt", "uri", CONF_STRING, offsetof(struct conf, libvirt_uri) },
	{ "guests", "stop_seconds", CONF_UINT, offsetof(struct conf, stop_seconds), 0, 3600 },
	{ "guests", "on_crash", CONF_STRING, offsetof(struct conf, on_crash) },
	{ "guests", "on_host_boot", CONF_STRING, offsetof(struct conf, on_host_boot) },
	{ "guests", "crash_limit", CONF_UINT, offsetof(struct conf, crash_limit), 1, 100 },
	{ "guests", "crash_seconds", CONF_UINT, offsetof(struct conf, crash_seconds), 1, 86400 },
	{ "release", "scrub", CONF_STRING, offsetof(struct conf, scrub) },
	{ "release", "scrub_seconds", CONF_UINT, offsetof(struct conf, scrub_seconds), 1, 3600 },
	{ "release", "no_reset", CONF_STRING, offsetof(struct conf, no_reset) },
	{ "plan", "vfs_per_pf", CONF_UINT, offsetof(struct conf, vfs_per_pf), 1, 256 },
	{ "plan", "memory_reserve", CONF_BYTES, offsetof(struct conf, memory_reserve), 0, UINT64_MAX },
	{ "plan", "host_cores", CONF_UINT, offsetof(struct conf, host_cores), 0, 256 },
	{ "plan", "cpus", CONF_STRING, offsetof(struct conf, cpus) },
	{ "plan", "link_percent", CONF_UINT, offsetof(struct conf, link_percent), 0, 100 },
	{ "vf", "may_refuse", CONF_STRING, offsetof(struct conf, vf_may_refuse) },
	{ "plan", "shapes", CONF_STRING, offsetof(struct conf, shapes) },
};

struct conf_reader {
	struct conf  *conf;
	const char   *file;
	struct error *err;
	int           r;
};

static int set_string(struct conf *c, const struct conf_field *f, const char *value, const char *where,
		      struct error *err)
{
	char **to = (char **)((char *)c + f->offset);

	if (!*value)
		return error_set(err, -EINVAL, "%s: %s is empty", where, f->key);
	if (f->type == CONF_PATH && *value != '/')
		return error_set(err, -EINVAL, "%s: %s must be an absolute path, it is \"%.80s\"", where, f->key,
				 value);
	*to = arena_strdup(&c->arena, value);
	return *to ? 0 : error_set(err, -ENOMEM, "no memory for the configuration");
}

static int set_number(struct conf *c, const struct conf_field *f, const char *value, const char *where,
		      struct error *err)
{
	uint64_t *to = (uint64_t *)((char *)c + f->offset);
	uint64_t v = 0;
	int r = f->type == CONF_BYTES ? parse_size(&v, value) : parse_uint(&v, value, 10, UINT64_MAX);

	if (r < 0)
		return error_set(err, -EINVAL, "%s: %s is not a %s: \"%.40s\"", where, f->key,
				 f->type == CONF_BYTES ? "size (say 512M or 4G)" : "number", value);
	if (v < f->min || v > f->max)
		return error_set(err, -EINVAL, "%s: %s must be %llu to %llu", where, f->key,
				 (unsigned long long)f->min, (unsigned long long)f->max);
	*to = v;
	return 0;
}

static int add_line(struct conf *c, struct conf_line *line, size_t *n, const char *key, const char *value,
		    const char *where, struct error *err)
{
	if (*n == CONF_LINES_MAX)
		return error_set(err, -EINVAL, "%s: more than %d lines in this section", where, CONF_LINES_MAX);
	line[*n] = (struct conf_line){
		.key = arena_strdup(&c->arena, key),
		.value = arena_strdup(&c->arena, value),
		.where = arena_strdup(&c->arena, where),
	};
	if (!line[*n].key || !line[*n].value || !line[*n].where)
		return error_set(err, -ENOMEM, "no memory for the configuration");
	++*n;
	return 0;
}

static int set_key(struct conf_reader *rd, const char *section, const char *key, const char *value,
		   const char *where)
{
	struct conf *c = rd->conf;
	bool section_known = false;

	if (strcmp(section, "kinds") == 0)
		return add_line(c, c->kind, &c->nkinds, key, value, where, rd->err);
	if (strcmp(section, "partitions") == 0)
		return add_line(c, c->partition, &c->npartitions, key, value, where, rd->err);
	if (strcmp(section, "pool") == 0)
		return add_line(c, c->pool, &c->npool, key, value, where, rd->err);
	if (strcmp(section, "models") == 0)
		return add_line(c, c->model, &c->nmodels, key, value, where, rd->err);
	if (strcmp(section, "shapes") == 0)
		return add_line(c, c->shape, &c->nshapes, key, value, where, rd->err);
	for (size_t i = 0; i < ARRAY_SIZE(conf_fields); i++) {
		const struct conf_field *f = &conf_fields[i];

		if (strcmp(f->section, section) != 0)
			continue;
		section_known = true;
		if (strcmp(f->key, key) != 0)
			continue;
		return f->type <= CONF_PATH ? set_string(c, f, value, where, rd->err)
					    : set_number(c, f, value, where, rd->err);
	}
	return error_set(rd->err, -EINVAL, "%s: unknown %s \"%.60s\"%s%.60s%s", where,
			 section_known ? "key" : "section", section_known ? key : section,
			 section_known ? " in [" : "", section_known ? section : "", section_known ? "]" : "");
}

/* inih's handler: 1 goes on. The error is kept, the rest of the file is then skipped. */
static int on_key(void *self, const char *section, const char *key, const char *value)
{
	struct conf_reader *rd = self;
	char where[300];

	if (rd->r < 0)
		return 1;
	(void)snprintf(where, sizeof(where), "%s: [%s] %s", rd->file, section, key);
	rd->r = set_key(rd, section, key, value, where);
	return 1;
}

static int read_text(struct conf *c, const char *text, const char *file, struct error *err)
{
	struct conf_reader rd = { .conf = c, .file = file, .err = err };
	int line = ini_parse_string(text, on_key, &rd);

	if (line > 0 && rd.r == 0)
		return error_set(err, -EINVAL, "%s:%d: neither [section] nor key = value", file, line);
	if (line < 0)
		return error_set(err, -ENOMEM, "no memory to read %s", file);
	return rd.r;
}

static int read_file(struct conf *c, const char *file, struct error *err)
{
	autofree char *text = NULL;
	size_t len;
	int r = file_read(&text, &len, file, CONF_BYTES_MAX);

	if (r < 0)
		return error_set(err, r, "cannot read the configuration %s: %s", file, strerror(-r));
	if (strlen(text) != len)
		return error_set(err, -EINVAL, "%s has a NUL byte; it is not a configuration file", file);
	return read_text(c, text, file, err);
}

static int is_drop_in(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && strcmp(d->d_name + n - 5, ".conf") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name); /* not alphasort(): the locale must not decide */
}

static int read_drop_ins(struct conf *c, const char *file, struct error *err)
{
	char dir[512], path[1024];
	struct dirent **d = NULL;
	int n, r = 0;

	(void)snprintf(dir, sizeof(dir), "%s.d", file);
	n = scandir(dir, &d, is_drop_in, by_name);
	if (n < 0 && errno != ENOENT && errno != ENOTDIR)
		return error_set(err, -errno, "cannot list %s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, d[i]->d_name);
		if (r == 0)
			r = read_file(c, path, err);
		free(d[i]);
	}
	free(d);
	return r;
}

int conf_load(struct conf *ret, const char *file, struct error *err)
{
	struct conf c = { 0 };
	const char *path = file ? file : VELAD_CONF;
	size_t built_in;
	int r;

	/* the built-in text first: an installed file may leave keys out; where it has [kinds], they replace all */
	r = read_text(&c, conf_default, "built-in velad.conf", err);
	built_in = c.nkinds;
	if (r == 0 && (file || access(path, F_OK) == 0))
		r = read_file(&c, path, err);
	if (r == 0 && c.nkinds > built_in) {
		c.nkinds -= built_in;
		memmove(c.kind, c.kind + built_in, c.nkinds * sizeof(c.kind[0]));
	}
	if (r == 0)
		r = read_drop_ins(&c, path, err);
	if (r < 0) {
		arena_done(&c.arena);
		return r;
	}
	*ret = c;
	return 0;
}

void conf_done(struct conf *c)
{
	arena_done(&c->arena);
	*c = (struct conf){ 0 };
}
