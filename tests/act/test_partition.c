/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Partitions through a program that plays fmpm (tests/plan/fmpm), whose Fabric Manager is a file. */
#include "act/partition.h"
#include "fixture.h"

#define CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

static const char *fmpm = TEST_SOURCE "/tests/plan/fmpm";

static void set_up(struct fx *f, const char *state)
{
	char path[512], text[600];

	fx_init(f);
	fx_file(f, "fm", state);
	fx_dir(f, "usr/share/nvidia/nvswitch");
	(void)snprintf(text, sizeof(text), "FABRIC_MODE=1\nFM_CMD_UNIX_SOCKET_PATH=%s\n", fx_path(f, path, "fm"));
	fx_file(f, CONFIG, text);
}

static bool is_active(struct fx *f, unsigned id)
{
	struct error err = ERROR_INIT;
	bool active = false;

	if (act_partition(f->root, fmpm, &active, id, ACT_LOOK, &err) < 0)
		fail_msg("%s", err.text);
	return active;
}

static void set_to(struct fx *f, unsigned id, enum act_want want)
{
	struct error err = ERROR_INIT;
	bool active = want != ACT_ON;

	if (act_partition(f->root, fmpm, &active, id, want, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(active, want == ACT_ON);
}

static void refused(struct fx *f, const char *tool, unsigned id, enum act_want want, int code, const char *text)
{
	struct error err = ERROR_INIT;
	bool active;

	assert_int_equal(act_partition(f->root, tool, &active, id, want, &err), code);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

static void there_and_back(void **state)
{
	struct fx f;

	(void)state;
	set_up(&f, "{\"sets\":[[1,2],[1],[2]],\"gpus\":{},\"hidden\":[],\"active\":[]}");
	assert_false(is_active(&f, 1));
	set_to(&f, 1, ACT_ON);
	set_to(&f, 1, ACT_ON); /* is so already */
	set_to(&f, 2, ACT_ON);
	assert_true(is_active(&f, 1) && is_active(&f, 2) && !is_active(&f, 0));
	refused(&f, fmpm, 0, ACT_ON, -EBUSY, "in common with partition 1, which is active");
	set_to(&f, 1, ACT_OFF);
	set_to(&f, 1, ACT_OFF);
	refused(&f, fmpm, 0, ACT_ON, -EBUSY, "in common with partition 2");
	set_to(&f, 2, ACT_OFF);
	set_to(&f, 0, ACT_ON);
	refused(&f, fmpm, 9, ACT_ON, -ENODEV, "no partition 9");
	fx_done(&f);
}

/* A program in the place of fmpm, and what it leads to. */
static void broken(struct fx *f, const char *script, enum act_want want, int code, const char *text)
{
	char path[512];

	fx_file(f, "broken", script);
	assert_int_equal(chmod(fx_path(f, path, "broken"), 0755), 0);
	refused(f, path, 1, want, code, text);
}

/* Its word is not taken for it, nor does velad wait for ever. */
static void not_believed(void **state)
{
	static const char list[] = "#!/bin/sh\n[ $1 = -l ] && exec " TEST_SOURCE "/tests/plan/fmpm \"$@\"\n";
	char script[1024];
	struct fx f;

	(void)state;
	set_up(&f, "{\"sets\":[[1,2],[1]],\"gpus\":{},\"hidden\":[],\"active\":[]}");
	(void)snprintf(script, sizeof(script), "%sexit 0\n", list);
	broken(&f, script, ACT_ON, -EIO, "it is still inactive: Fabric Manager says it was done");
	(void)snprintf(script, sizeof(script), "%sexit 1\n", list);
	broken(&f, script, ACT_ON, -EIO, "-a 1: it failed; run it by hand");
	broken(&f, "#!/bin/sh\necho '{\"partitionInfo\":3}'\n", ACT_LOOK, -EIO, "the answer cannot be used");
	broken(&f, "#!/bin/sh\necho nothing\n", ACT_LOOK, -EIO, "the answer cannot be used");
	refused(&f, "/nowhere/fmpm", 1, ACT_LOOK, -EIO, "/nowhere/fmpm -l: No such file");
	refused(&f, "", 1, ACT_LOOK, -ENODEV, "[host] fmpm");
	assert_false(is_active(&f, 1));
	fx_done(&f);
}

static void no_fabric_manager(void **state)
{
	struct fx f;

	(void)state;
	fx_init(&f);
	refused(&f, fmpm, 1, ACT_LOOK, -ENODEV, "there is no Fabric Manager here");
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(there_and_back), cmocka_unit_test(not_believed), cmocka_unit_test(no_fabric_manager) };

	return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
