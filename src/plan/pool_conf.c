/* SPDX-License-Identifier: GPL-2.0-or-later */
/* [pool] of velad.conf. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/conf.h"
#include "base/error.h"
#include "base/parse.h"
#include "plan/pool.h"

static bool read_word(struct plan_pool_word *w, const char *text, bool of_vfs)
{
	uint64_t rail;
	int kind;

	*w = (struct plan_pool_word){ .what = PLAN_POOL_BDF };
	if (bdf_parse(&w->bdf, text))
		return true;
	if (strncmp(text, "rail:", 5) == 0) {
		w->what = PLAN_POOL_RAIL;
		w->rail = parse_uint(&rail, text + 5, 10, INT16_MAX) < 0 ? -1 : (int32_t)rail;
		return of_vfs && w->rail >= 0;
	}
	w->what = PLAN_POOL_ALL;
	if (strcmp(text, "all") == 0)
		return of_vfs;
	kind = host_kind_parse(text);
	w->what = PLAN_POOL_KIND;
	w->kind = (enum host_kind)kind;
	if (kind >= 0)
		return !of_vfs && (kind == HOST_GPU || kind == HOST_VF || kind == HOST_NVME);
	w->what = PLAN_POOL_MODEL;
	return plan_model_parse(&w->model, text);
}

static int refuse(const struct conf_line *line, const char *word, bool of_vfs, struct error *err)
{
	return error_set(err, -EINVAL, "%s: \"%.40s\" is no %s", line->where, word,
			 of_vfs ? "NIC port: say all, rail:0, 0000:4c:00.0, or vendor:device as 15b3:1021" :
				  "device: say gpu, vf, nvme, 0000:4c:00.0, a name of [models], or vendor:device as 10de:2330");
}

/* An empty value forgets the lines before it. */
static int read_line(struct plan_pool_word *word, size_t *n, const struct conf_line *line, bool of_vfs, struct error *err)
{
	autofree char *text = strdup(line->value);
	char *rest = text, *w;
	uint64_t vfs = 0;
	bool counted = !of_vfs, any = false;

	if (!text)
		return error_set(err, -ENOMEM, "no memory for the configuration");
	while ((w = strsep(&rest, " \t"))) {
		if (!*w)
			continue;
		any = true;
		if (!counted) {
			if (parse_uint(&vfs, w, 10, PLAN_POOL_VFS_MAX) < 0)
				return error_set(err, -EINVAL, "%s: \"%.40s\" is no number of VFs, 0 to %d; say vfs = 8 all", line->where, w,
						 PLAN_POOL_VFS_MAX);
			counted = true;
			continue;
		}
		if (*n == PLAN_POOL_WORDS_MAX)
			return error_set(err, -EINVAL, "%s: more than %d words", line->where, PLAN_POOL_WORDS_MAX);
		if (!read_word(&word[*n], w, of_vfs))
			return refuse(line, w, of_vfs, err);
		word[(*n)++].vfs = (uint16_t)vfs;
	}
	if (!any)
		*n = 0;
	return 0;
}

int plan_pool_load(struct plan_pool_conf *ret, const struct conf *conf, struct error *err)
{
	int r = 0;

	*ret = (struct plan_pool_conf){ .on_demand = true };
	for (size_t i = 0; r == 0 && i < conf->npool; i++) {
		const struct conf_line *line = &conf->pool[i];

		if (strcmp(line->key, "vfs") == 0)
			r = read_line(ret->vfs, &ret->nvfs, line, true, err);
		else if (strcmp(line->key, "bind") == 0)
			r = read_line(ret->bind, &ret->nbind, line, false, err);
		else if (strcmp(line->key, "vfs_on_demand") != 0)
			r = error_set(err, -EINVAL, "%s: unknown key; [pool] has vfs, bind and vfs_on_demand", line->where);
		else if (strcmp(line->value, "yes") == 0 || strcmp(line->value, "no") == 0)
			ret->on_demand = line->value[0] == 'y';
		else
			r = error_set(err, -EINVAL, "%s: \"%.40s\" is neither yes nor no", line->where, line->value);
	}
	return r;
}
