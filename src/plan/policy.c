/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What velad.conf says about plans, as values. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/conf.h"
#include "base/error.h"
#include "base/parse.h"
#include "plan/plan.h"

/* "4:10": one bundle of four GPUs for ten others */
static int add_shape(struct plan_policy *p, char *word, struct error *err)
{
	char *colon = strchr(word, ':');
	uint64_t size = 0, weight = 0;

	if (colon)
		*colon = '\0';
	if (!colon || parse_uint(&size, word, 10, PLAN_GPUS_MAX) < 0 || !size || parse_uint(&weight, colon + 1, 10, 1000) < 0)
		return error_set(err, -EINVAL, "[plan] shapes: \"%.20s%s%.20s\" is not GPUs:WEIGHT, 1 to %d and 0 to 1000", word,
				 colon ? ":" : "", colon ? colon + 1 : "", PLAN_GPUS_MAX);
	if (p->nshapes == SOLVE_SHAPES_MAX)
		return error_set(err, -EINVAL, "[plan] shapes: more than %d", SOLVE_SHAPES_MAX);
	for (size_t i = 0; i < p->nshapes; i++)
		if (p->shape[i].size == size)
			return error_set(err, -EINVAL, "[plan] shapes: %s GPUs stand there twice", word);
	p->shape[p->nshapes++] = (struct solve_shape){ .size = (uint32_t)size, .weight = (uint32_t)weight };
	return 0;
}

int plan_policy_load(struct plan_policy *ret, const struct conf *conf, struct error *err)
{
	struct plan_policy p = {
		.vfs_per_pf = (uint16_t)conf->vfs_per_pf,
		.memory_reserve = conf->memory_reserve,
		.host_cores = (unsigned)conf->host_cores,
		.link_percent = (unsigned)conf->link_percent,
		.scrub = strcmp(conf->scrub, "none") != 0,
	};
	autofree char *text = strdup(conf->shapes);
	char *rest = text, *word;
	int r = text ? plan_boards_load(&p.boards, conf, err) : error_set(err, -ENOMEM, "no memory for the configuration");

	p.cpus_shared = strcmp(conf->cpus, "shared") == 0;
	if (!p.cpus_shared && strcmp(conf->cpus, "exclusive") != 0)
		return error_set(err, -EINVAL, "[plan] cpus: \"%.40s\" is neither exclusive nor shared", conf->cpus);
	while (r == 0 && (word = strsep(&rest, " \t")))
		if (*word)
			r = add_shape(&p, word, err);
	if (r == 0)
		*ret = p;
	return r;
}
