/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVSwitch partitions: Fabric Manager's (tests/plan/fmpm plays it) and the boards of velad.conf, on the XE9680, whose
 * module ids are no PCI order: 4c=1 19=2 5d=3 3b=4 bb=5 cb=6 9b=7 db=8. */
#include "base/file.h"
#include "base/sbuf.h"
#include "host/child.h"
#include "plan/partition.h"
#include "support.h"

#define HOPPER "[[1,2,3,4,5,6,7,8],[1,2,3,4],[5,6,7,8],[1,3],[2,4],[5,7],[6,8],[1],[2],[3],[4],[5],[6],[7],[8]]"
#define CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"
#define GPUS   "{\"1\":\"0000:4c:00.0\",\"2\":\"0000:19:00.0\",\"3\":\"0000:5d:00.0\",\"4\":\"0000:3b:00.0\"," \
	       "\"5\":\"0000:bb:00.0\",\"6\":\"0000:cb:00.0\",\"7\":\"0000:9b:00.0\",\"8\":\"0000:db:00.0\"}"

struct fx {
	struct topo           *t;
	struct plan_partitions p;
	struct plan_boards     boards;
	char                   state[40];
};

static void fm_write(struct fx *fx, const char *hidden, const char *active)
{
	FILE *f;

	if (!*fx->state) {
		int fd;

		(void)snprintf(fx->state, sizeof(fx->state), "/tmp/velad-fm-XXXXXX");
		fd = mkstemp(fx->state);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	f = fopen(fx->state, "w");
	assert_non_null(f);
	(void)fprintf(f, "{\"sets\":%s,\"gpus\":%s,\"hidden\":[%s],\"active\":[%s]}", HOPPER, GPUS, hidden, active);
	assert_int_equal(fclose(f), 0);
}

static int fm_call(struct fx *fx, char **ret, const char *verb, const char *id)
{
	char script[] = TEST_SOURCE "/tests/plan/fmpm", by[] = "--unix-domain-socket", v[8], i[8];
	char *argv[] = { script, v, *id ? i : by, *id ? by : fx->state, *id ? fx->state : NULL, NULL };

	(void)snprintf(v, sizeof(v), "%s", verb);
	(void)snprintf(i, sizeof(i), "%s", id);
	return child_output(ret, argv, 1 << 20, 10000);
}

/* The XE9680 with this answer of Fabric Manager (NULL: none) and this FABRIC_MODE ("": no configuration file). */
static struct topo *host_with(const char *answer, const char *mode)
{
	autofree char *text = NULL;
	struct sbuf out = { 0 };
	autofree char *made = NULL;
	size_t len;

	assert_int_equal(file_read(&text, &len, TEST_SOURCE "/tests/hosts/xe9680/sys.txt", 16 << 20), 0);
	for (char *line = text, *next; *line; line = next) {
		next = strchr(line, '\n') + 1;
		if (strncmp(line, "answers/fmpm/", 13) != 0 && strncmp(line, CONFIG, sizeof(CONFIG) - 1) != 0)
			sbuf_addf(&out, "%.*s", (int)(next - line), line);
	}
	if (answer)
		sbuf_addf(&out, "answers/fmpm/partitions\t%.*s\n", (int)strcspn(answer, "\n"), answer);
	if (*mode)
		sbuf_addf(&out, CONFIG "\tFABRIC_MODE=%s\n", mode);
	made = sbuf_steal(&out);
	return test_topo_text(made);
}

static void find(struct fx *fx)
{
	uint32_t gpu[64];
	size_t n = 0;

	for (uint32_t i = 0; i < topo_count(fx->t); i++)
		if (topo_at(fx->t, i)->fn->facts->kind == HOST_GPU)
			gpu[n++] = i;
	plan_partitions_find(&fx->p, fx->t, &fx->boards, gpu, n, 0);
}

static void fx_boards(struct fx *fx, const char *conf)
{
	char path[] = "/tmp/velad-conf-XXXXXX";
	struct error err = ERROR_INIT;
	struct conf c;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(dprintf(fd, "%s", conf), (int)strlen(conf));
	(void)close(fd);
	if (conf_load(&c, path, &err) < 0 || plan_boards_load(&fx->boards, &c, &err) < 0)
		fail_msg("%s", err.text);
	conf_done(&c);
	(void)unlink(path);
}

static void fm_host(struct fx *fx, const char *hidden, const char *active)
{
	autofree char *list = NULL;

	fm_write(fx, hidden, active);
	assert_int_equal(fm_call(fx, &list, "-l", ""), 0);
	topo_unref(fx->t);
	fx->t = host_with(list, "1");
	find(fx);
}

static void fx_new(struct fx *fx)
{
	*fx = (struct fx){ 0 };
	fx_boards(fx, "");
}

static void fx_done(struct fx *fx)
{
	if (*fx->state)
		(void)unlink(fx->state);
	topo_unref(fx->t);
}

/* "4c 5d" -> the set */
static uint64_t set(const struct fx *fx, const char *buses)
{
	uint64_t s = 0;

	for (const char *b = buses; *b; b += strspn(b, " ")) {
		bool found = false;

		for (size_t i = 0; i < fx->p.ngpus; i++)
			if (topo_at(fx->t, fx->p.gpu[i])->fn->bdf.bus == strtoul(b, NULL, 16)) {
				s |= UINT64_C(1) << i;
				found = true;
			}
		assert_true(found);
		b += 2;
	}
	return s;
}

static bool may_be_given(const struct fx *fx, uint64_t gpus)
{
	for (size_t i = 0; i < fx->p.nallowed && fx->p.mode == PLAN_FABRIC_SHARED; i++)
		if (fx->p.allowed[i] == gpus)
			return true;
	return fx->p.mode != PLAN_FABRIC_SHARED;
}

static bool allowed(const struct fx *fx, const char *buses)
{
	return may_be_given(fx, set(fx, buses));
}

static void by_module_id_not_by_address(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fm_host(&fx, "", "");
	assert_int_equal(fx.p.mode, PLAN_FABRIC_SHARED);
	assert_int_equal(fx.p.nallowed, 15);
	assert_true(allowed(&fx, "4c 5d") && allowed(&fx, "19 3b") && allowed(&fx, "bb 9b") && allowed(&fx, "cb db"));
	assert_false(allowed(&fx, "19 4c")); /* modules 1 and 2 */
	assert_false(allowed(&fx, "19 3b 4c"));
	assert_true(allowed(&fx, "4c") && allowed(&fx, "19 3b 4c 5d") && allowed(&fx, "19 3b 4c 5d 9b bb cb db"));
	assert_int_equal(plan_partition_of(&fx.p, set(&fx, "4c 5d"))->id, 3);
	assert_null(plan_partition_of(&fx.p, set(&fx, "19 4c")));
	for (size_t i = 1; i < fx.p.nallowed; i++)
		assert_true(__builtin_popcountll(fx.p.allowed[i - 1]) <= __builtin_popcountll(fx.p.allowed[i]));
	fx_done(&fx);
}

/* What Fabric Manager refuses is what is not allowed here, for every partition beside every active one. */
static void overlap_is_what_fabric_manager_refuses(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	for (int active = 0; active < 15; active++) {
		char text[8], id[8];

		(void)snprintf(text, sizeof(text), "%d", active);
		fm_host(&fx, "", text);
		for (int other = 0; other < 15; other++) {
			autofree char *out = NULL;
			bool ok;

			(void)snprintf(id, sizeof(id), "%d", other);
			fm_write(&fx, "", text);
			ok = fm_call(&fx, &out, "-a", id) == 0;
			assert_int_equal(fx.p.at[other].id, other);
			assert_int_equal(may_be_given(&fx, fx.p.at[other].gpus), ok);
		}
	}
	fx_done(&fx);
}

static void the_board_where_fabric_manager_does_not_say(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx.t = host_with(NULL, "1");
	find(&fx); /* the table is known, the module ids are not: nothing is given */
	assert_int_equal(fx.p.mode, PLAN_FABRIC_SHARED);
	assert_int_equal(fx.p.nallowed, 0);
	assert_int_equal(fx.p.unknown, 0xff);
	fx_boards(&fx, "[partitions]\nmodule = 0000:4c:00.0=1 0000:5d:00.0=3 0000:19:00.0=2\n");
	find(&fx);
	assert_int_equal(fx.p.nallowed, 4);
	assert_true(allowed(&fx, "4c 5d") && allowed(&fx, "19"));
	assert_false(allowed(&fx, "3b"));
	fx_boards(&fx, "[partitions]\nboard = 10de:2330 10de:2335 : 1-2 3\nmodule = 0000:4c:00.0=1 0000:5d:00.0=3 0000:19:00.0=2\n");
	find(&fx); /* of two boards with the same GPUs the last */
	assert_int_equal(fx.p.nallowed, 2);
	assert_true(allowed(&fx, "4c 19") && allowed(&fx, "5d"));
	fx_boards(&fx, "[partitions]\nboard =\n");
	find(&fx);
	assert_int_equal(fx.p.nallowed, 0);
	assert_non_null(strstr(fx.p.why, "no board of [partitions]"));
	fx_done(&fx);
}

/* Blackwell's pairs are {1,2}, {3,4}, ..., Hopper's {1,3}, {2,4}, ...; both by module id, whatever the order of addresses is. */
static void blackwell_pairs_another_way(void **state)
{
	/* 17 3d 60 70 98 bb dd ed in the order of addresses */
	static const char modules[] = "[partitions]\nshared = yes\nmodule = 0000:17:00.0=4 0000:3d:00.0=1 0000:60:00.0=7 0000:70:00.0=2 0000:98:00.0=8 "
				      "0000:bb:00.0=3 0000:dd:00.0=5 0000:ed:00.0=6\n";
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx.t = test_topo_host("hgx-b200-8gpu");
	fx_boards(&fx, modules);
	find(&fx);
	assert_int_equal(fx.p.mode, PLAN_FABRIC_SHARED);
	assert_int_equal(fx.p.nallowed, 15);
	assert_true(allowed(&fx, "3d 70") && allowed(&fx, "17 bb") && allowed(&fx, "dd ed") && allowed(&fx, "60 98"));
	assert_false(allowed(&fx, "17 3d") || allowed(&fx, "3d bb") || allowed(&fx, "70 17")); /* by address; Hopper's 1,3 and 2,4 */
	assert_true(allowed(&fx, "17 3d 70 bb") && allowed(&fx, "60 98 dd ed") && !allowed(&fx, "17 3d 60 70"));
	fx_done(&fx);
}

static void a_hidden_gpu_needs_the_map(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fm_host(&fx, "\"0000:5d:00.0\"", "");
	assert_int_equal(fx.p.unknown, set(&fx, "5d"));
	assert_false(allowed(&fx, "4c 5d") || allowed(&fx, "5d"));
	assert_true(allowed(&fx, "4c") && allowed(&fx, "19 3b"));
	fx_boards(&fx, "[partitions]\nmodule = 0000:5d:00.0=3\n");
	find(&fx);
	assert_int_equal(fx.p.nallowed, 15);
	fx_boards(&fx, "[partitions]\nmodule = 0000:5d:00.0=4\n"); /* which Fabric Manager says is 3b's */
	find(&fx);
	assert_int_equal(fx.p.unknown, set(&fx, "5d 3b"));
	assert_false(allowed(&fx, "19 3b"));
	fx_boards(&fx, "[partitions]\nmodule = 0000:4c:00.0=3\n"); /* Fabric Manager says 1 */
	find(&fx);
	assert_int_equal(fx.p.unknown, set(&fx, "4c 5d"));
	fx_done(&fx);
}

static void only_where_they_are_shared_out(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fx.t = host_with(NULL, "");
	find(&fx);
	assert_int_equal(fx.p.mode, PLAN_FABRIC_NONE);
	assert_true(allowed(&fx, "19 4c 9b"));
	fx_boards(&fx, "[partitions]\nshared = yes\n");
	find(&fx);
	assert_int_equal(fx.p.mode, PLAN_FABRIC_SHARED);
	assert_false(allowed(&fx, "19"));
	topo_unref(fx.t);
	fx_boards(&fx, "");
	fx.t = host_with(NULL, "0");
	find(&fx);
	assert_int_equal(fx.p.mode, PLAN_FABRIC_WHOLE);
	assert_int_equal(fx.p.fabric, 0xff);
	fx_boards(&fx, "[partitions]\nshared = no\n");
	topo_unref(fx.t);
	fm_host((fx.t = NULL, &fx), "", "");
	assert_int_equal(fx.p.mode, PLAN_FABRIC_NONE);
	fx_done(&fx);
}

static bool says(const struct fx *fx, const char *free, unsigned want, const char *rule, const char *text)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	bool found = false;

	plan_partitions_say(&fx->p, fx->t, plan, set(fx, free), want);
	for (size_t i = 0; i < plan->nreasons && rule; i++)
		found = found || (strcmp(plan->reason[i].rule, rule) == 0 && strstr(plan->reason[i].observed, text));
	if (!rule)
		found = plan->nreasons == 0;
	plan_free(plan);
	return found;
}

static void refusals_name_the_partition(void **state)
{
	struct fx fx;

	(void)state;
	fx_new(&fx);
	fm_host(&fx, "", "3");
	assert_true(says(&fx, "19 3b 4c 5d", 2, NULL, "")); /* {2,4} can be had */
	assert_true(says(&fx, "19 4c", 2, "partition.held", "of partition {2,4} only 1 of 2 GPUs can be given"));
	assert_true(says(&fx, "4c 5d", 2, "partition.active", "partition 3 {1,3} is active"));
	assert_true(says(&fx, "19 3b 4c 5d", 4, "partition.active", "partition 1 {1,2,3,4} has a GPU in common with partition 3 {1,3}"));
	assert_true(says(&fx, "19 3b 4c 5d", 3, "partition.size", "have 1, 2, 4, 8 GPUs, 3 are wanted"));
	fm_host(&fx, "\"0000:5d:00.0\"", "");
	assert_true(says(&fx, "4c 5d", 2, "partition.module-unknown", "Fabric Manager and velad.conf"));
	topo_unref(fx.t);
	fx.t = host_with("{\"partitionInfo\":[]}", "1");
	find(&fx);
	assert_true(says(&fx, "4c", 1, "partition.none", "lists no partition"));
	fx_done(&fx);
}

static void bad_tables_are_refused(void **state)
{
	static const struct {
		const char *key, *value, *says;
	} cases[] = {
		{ "bord", "x", "unknown key \"bord\"" },
		{ "board", "10de:2330", "a board is GPUS : PARTITIONS" },
		{ "board", ": 1-8", "a board is GPUS : PARTITIONS" },
		{ "board", "10de : 1-8", "no model of a GPU" },
		{ "board", "10de:23x0 : 1-8", "no model of a GPU" },
		{ "board", "10de:2330 : 1-64", "no set of module ids" },
		{ "board", "10de:2330 : x", "no set of module ids" },
		{ "board", "10de:2330 : 1-2 1,2", "stands there twice" },
		{ "module", "0000:4c:00.0", "no module id of a GPU" },
		{ "module", "0000:4c:00.0=64", "no module id of a GPU" },
		{ "module", "4c=1", "no module id of a GPU" },
		{ "module", "0000:4c:00.0=1 0000:4c:00.0=2", "the GPU 0000:4c:00.0 has a module id already" },
		{ "module", "0000:4c:00.0=1 0000:4d:00.0=1", "another GPU" },
		{ "shared", "perhaps", "none of yes, no, auto" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct conf c = { .npartitions = 1 };
		struct plan_boards b;
		struct error err = ERROR_INIT;

		c.partition[0] = (struct conf_line){ cases[i].key, cases[i].value, "velad.conf: [partitions] here" };
		assert_int_equal(plan_boards_load(&b, &c, &err), -EINVAL);
		if (!strstr(err.text, cases[i].says) || strncmp(err.text, "velad.conf: [partitions] here", 29) != 0)
			fail_msg("%s = %s says \"%s\", not \"%s\"", cases[i].key, cases[i].value, err.text, cases[i].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_module_id_not_by_address),
		cmocka_unit_test(overlap_is_what_fabric_manager_refuses),
		cmocka_unit_test(the_board_where_fabric_manager_does_not_say),
		cmocka_unit_test(blackwell_pairs_another_way),
		cmocka_unit_test(a_hidden_gpu_needs_the_map),
		cmocka_unit_test(only_where_they_are_shared_out),
		cmocka_unit_test(refusals_name_the_partition),
		cmocka_unit_test(bad_tables_are_refused),
	};

	return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
