/* SPDX-License-Identifier: GPL-2.0-or-later */
/* [partitions] of velad.conf: boards by the models of their GPUs, their partitions by module id, and module ids of GPUs
 * that Fabric Manager does not see. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/conf.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "base/parse.h"
#include "plan/partition.h"

#define WORD_MAX 64

/* The next blank-separated word; false at the end, or if it is too long, which leaves "" there. */
static bool next_word(char ret[WORD_MAX], const char **text)
{
	size_t n;

	*text += strspn(*text, " \t");
	n = strcspn(*text, " \t");
	(void)snprintf(ret, WORD_MAX, "%.*s", n < WORD_MAX ? (int)n : 0, *text);
	*text += n;
	return n > 0;
}

static int add_model(struct plan_board *b, char *word, struct error *err)
{
	char *colon = strchr(word, ':');
	uint64_t vendor, device;

	if (b->ngpus == PLAN_BOARD_GPUS)
		return error_set(err, -EINVAL, "a board has more than %d models of GPUs", PLAN_BOARD_GPUS);
	if (!colon || strlen(word) != 9 || colon != word + 4)
		return error_set(err, -EINVAL, "\"%.40s\" is no model of a GPU: say vendor:device, as 10de:2330", word);
	*colon = '\0';
	if (parse_uint(&vendor, word, 16, UINT16_MAX) < 0 || parse_uint(&device, colon + 1, 16, UINT16_MAX) < 0)
		return error_set(err, -EINVAL, "\"%.4s:%.4s\" is no model of a GPU: say vendor:device, as 10de:2330", word,
				 colon + 1);
	b->gpu[b->ngpus].vendor = (uint16_t)vendor;
	b->gpu[b->ngpus++].device = (uint16_t)device;
	return 0;
}

/* Module ids in the form of a cpulist: "1-4", "1,3". */
static int add_set(struct plan_board *b, const char *word, struct error *err)
{
	struct cpuset s = { 0 };

	if (b->nsets == PLAN_PARTITIONS_MAX)
		return error_set(err, -EINVAL, "a board has more than %d partitions", PLAN_PARTITIONS_MAX);
	if (cpuset_parse(&s, word) < 0 || !cpuset_count(&s) || cpuset_next(&s, PLAN_MODULES_MAX - 1) >= 0)
		return error_set(err, -EINVAL, "\"%.40s\" is no set of module ids: say 1,3 or 5-8, each below %d", word,
				 PLAN_MODULES_MAX);
	for (size_t i = 0; i < b->nsets; i++)
		if (b->set[i] == s.word[0])
			return error_set(err, -EINVAL, "the partition %.40s stands there twice", word);
	b->set[b->nsets++] = s.word[0];
	return 0;
}

static int add_board(struct plan_boards *bs, const char *text, struct error *err)
{
	struct plan_board *b = &bs->board[bs->n];
	bool sets = false;
	char word[WORD_MAX];
	int r = 0;

	if (bs->n == PLAN_BOARDS_MAX)
		return error_set(err, -EINVAL, "more than %d boards", PLAN_BOARDS_MAX);
	*b = (struct plan_board){ 0 };
	while (r == 0 && next_word(word, &text)) {
		if (strcmp(word, ":") == 0 && !sets)
			sets = true;
		else
			r = sets ? add_set(b, word, err) : add_model(b, word, err);
	}
	if (r == 0 && (!b->ngpus || !b->nsets))
		r = error_set(err, -EINVAL, "a board is GPUS : PARTITIONS, as 10de:2330 : 1-8 1-4 5-8 1,3");
	bs->n += r == 0;
	return r;
}

static int add_module(struct plan_boards *bs, char *word, struct error *err)
{
	char *equals = strchr(word, '=');
	uint64_t module;
	struct bdf gpu;

	if (bs->nmodules == PLAN_MODULES_MAX)
		return error_set(err, -EINVAL, "more than %d module ids", PLAN_MODULES_MAX);
	if (equals)
		*equals++ = '\0';
	if (!equals || !bdf_parse(&gpu, word) || parse_uint(&module, equals, 10, PLAN_MODULES_MAX - 1) < 0)
		return error_set(err, -EINVAL, "\"%.40s%s%.10s\" is no module id of a GPU: say 0000:4c:00.0=1, below %d", word,
				 equals ? "=" : "", equals ? equals : "", PLAN_MODULES_MAX);
	for (size_t i = 0; i < bs->nmodules; i++)
		if (bdf_eq(bs->module[i].gpu, gpu) || bs->module[i].module == module)
			return error_set(err, -EINVAL, "%s %.40s has a module id already",
					 bdf_eq(bs->module[i].gpu, gpu) ? "the GPU" : "another GPU than", word);
	bs->module[bs->nmodules].gpu = gpu;
	bs->module[bs->nmodules++].module = (uint8_t)module;
	return 0;
}

static int add_line(struct plan_boards *bs, const char *key, const char *text, struct error *err)
{
	char word[WORD_MAX];
	int r = 0;

	if (strcmp(key, "board") == 0 && *text)
		return add_board(bs, text, err);
	if (strcmp(key, "board") == 0) { /* empty: forget those so far */
		bs->n = 0;
	} else if (strcmp(key, "shared") == 0) {
		bs->shared = strcmp(text, "yes") == 0 ? 1 : strcmp(text, "no") == 0 ? -1 : 0;
		if (!bs->shared && strcmp(text, "auto") != 0)
			return error_set(err, -EINVAL, "\"%.40s\" is none of yes, no, auto", text);
	} else if (strcmp(key, "module") == 0) {
		bs->nmodules = *text ? bs->nmodules : 0;
		while (r == 0 && next_word(word, &text))
			r = add_module(bs, word, err);
	} else {
		return error_set(err, -EINVAL, "unknown key \"%.40s\"; known are board, module, shared", key);
	}
	return r;
}

int plan_boards_load(struct plan_boards *ret, const struct conf *conf, struct error *err)
{
	struct plan_boards bs = { 0 };

	for (size_t i = 0; i < conf->npartitions; i++) {
		const struct conf_line *l = &conf->partition[i];

		if (add_line(&bs, l->key, l->value, err) < 0)
			return error_prefix(err, "%s", l->where);
	}
	*ret = bs;
	return 0;
}
