/* SPDX-License-Identifier: GPL-2.0-or-later */
/* [pool] of velad.conf: what its words mean, and which steps they are on a host. */
#include "plan/pool.h"

#include "base/conf.h"
#include "base/sbuf.h"
#include "support.h"

#define PF   "0000:3f:00.0" /* of l40s-4u, 8 VFs at most */
#define GPU  "0000:3e:00.0" /* nvidia's */
#define GPU2 "0000:5b:00.0" /* vfio-pci's */

struct lines {
	const char *line[8]; /* "key=value" */
};

static struct conf conf_of(const struct lines *l, char text[8][128])
{
	struct conf c = { 0 };

	for (size_t i = 0; i < 8 && l->line[i]; i++) {
		char *eq;

		(void)snprintf(text[i], 128, "%s", l->line[i]);
		eq = strchr(text[i], '=');
		*eq = '\0';
		c.pool[c.npool++] = (struct conf_line){ .key = text[i], .value = eq + 1, .where = "velad.conf: [pool]" };
	}
	return c;
}

static void refused(const char *line, const char *says)
{
	char text[8][128];
	struct conf c = conf_of(&(struct lines){ { line } }, text);
	struct plan_pool_conf pool;
	struct error err = ERROR_INIT;

	assert_int_equal(plan_pool_load(&pool, &c, &err), -EINVAL);
	if (!strstr(err.text, says) || !strstr(err.text, "velad.conf: [pool]"))
		fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void bad_words(void **state)
{
	(void)state;
	refused("vfs=all", "\"all\" is no number of VFs");
	refused("vfs=257 all", "\"257\" is no number of VFs");
	refused("vfs=8 gpu", "\"gpu\" is no NIC port");
	refused("vfs=8 rail:x", "\"rail:x\" is no NIC port");
	refused("bind=all", "\"all\" is no device");
	refused("bind=nic", "\"nic\" is no device");
	refused("bind=rail:0", "\"rail:0\" is no device");
	refused("bind=10de:233", "\"10de:233\" is no device");
	refused("vfs_on_demand=maybe", "neither yes nor no");
	refused("vf=8 all", "unknown key");
}

static struct plan_pool *plan(const struct topo *t, const struct lines *l, const char *sick)
{
	struct plan_sick quarantined = { .bdf = test_bdf(sick ? sick : PF), .reason = "because" };
	struct plan_pool_conf pool;
	struct plan_policy policy = { 0 };
	struct plan_pool_in in = { .topo = t, .conf = &pool, .policy = &policy, .sick = &quarantined, .nsick = sick != NULL };
	struct error err = ERROR_INIT;
	struct plan_pool *p = NULL;
	char text[8][128];
	struct conf c = conf_of(l, text);

	assert_int_equal(plan_pool_load(&pool, &c, &err), 0);
	assert_int_equal(plan_pool_make(&p, &in, &err), 0);
	return p;
}

/* "vf-count 0000:3f:00.0 0 2; ...| 0000:...: why" */
static void expect(const struct topo *t, const struct lines *l, const char *sick, const char *wanted)
{
	auto_(plan_pool_free) struct plan_pool *p = plan(t, l, sick);
	char text[BDF_TEXT_MAX];
	struct sbuf s = { 0 };

	for (size_t i = 0; i < p->n; i++)
		sbuf_addf(&s, "%lld %s %s %s %s; ", (long long)p->number[i], plan_step_text(p->step[i].kind), p->step[i].target, p->step[i].from,
			  p->step[i].to);
	for (size_t i = 0; i < p->nskips; i++)
		sbuf_addf(&s, "| %s: %s", bdf_text(text, p->skip[i].bdf), p->skip[i].why);
	assert_string_equal(s.text ? s.text : "", wanted);
	sbuf_done(&s);
}

#define MODULE "0 vfio vfio-pci loaded loaded; "
#define PORT(n, from, to) n "000 autoprobe " PF " (unread) 0; " n "001 vf-count " PF " " from " " to "; "

static void steps(void **state)
{
	auto_(topo_unref) struct topo *t = test_topo_host("l40s-4u");
	struct host_facts *pf = (struct host_facts *)topo_at(t, test_at(t, PF))->fn->facts;

	(void)state;
	expect(t, &(struct lines){ { NULL } }, NULL, "");
	expect(t, &(struct lines){ { "vfs=2 " PF } }, NULL, PORT("1", "0", "2"));
	expect(t, &(struct lines){ { "vfs=4 all", "vfs=0 0000:bd:00.0", "vfs=1 " PF } }, NULL, PORT("1", "0", "1"));
	expect(t, &(struct lines){ { "vfs=4 all", "vfs=", "vfs=1 " PF } }, NULL, PORT("1", "0", "1"));
	expect(t, &(struct lines){ { "vfs=2 " PF, "bind=vf " GPU " " GPU2 } }, NULL,
	       MODULE PORT("1", "0", "2") "1002 bind 0000:3f:00.1 (new) vfio-pci; 1003 bind 0000:3f:00.2 (new) vfio-pci; "
	       "2000 bind " GPU " nvidia vfio-pci; 3000 bind " GPU2 " vfio-pci vfio-pci; ");
	expect(t, &(struct lines){ { "vfs=2 " PF, "bind=0000:3f:00.2" } }, NULL,
	       MODULE PORT("1", "0", "2") "1002 bind 0000:3f:00.2 (new) vfio-pci; ");
	expect(t, &(struct lines){ { "bind=" GPU } }, GPU, "| " GPU ": it is in quarantine");
	expect(t, &(struct lines){ { "vfs=2 " PF, "bind=vf" } }, "0000:3f:00.1",
	       MODULE PORT("1", "0", "2") "1002 bind 0000:3f:00.2 (new) vfio-pci; | 0000:3f:00.1: it is in quarantine");
	pf->cap.sriov.total = 1;
	expect(t, &(struct lines){ { "vfs=2 " PF } }, NULL, PORT("1", "0", "1") "| " PF ": it can have 1 VFs, not 2; raise the number in its firmware");
	pf->cap.sriov.total = 0;
	expect(t, &(struct lines){ { "vfs=2 " PF } }, NULL, "| " PF ": it can have no VFs; enable SR-IOV in its firmware (NVIDIA: mlxconfig -d DEV set "
	       "SRIOV_EN=1 NUM_OF_VFS=8)");
	pf->cap.sriov.total = 8;
	pf->numvfs = 4;
	expect(t, &(struct lines){ { "vfs=2 " PF } }, NULL, PORT("1", "4", "4") "| " PF ": it has 4 VFs instead of 2, and VFs can only be added to none; "
	       "delete who uses them, then velactl pool release, and pool apply");
}

static void drives_in_use(void **state)
{
	auto_(topo_unref) struct topo *t = test_topo_host("lab");

	(void)state;
	expect(t, &(struct lines){ { "bind=0000:26:00.0" } }, NULL,
	       "| 0000:26:00.0: driver nvme of the host has it, and its disks may be in use; unbind it");
}

/* What a topology says is so; autoprobe, of which it says nothing, does not count. */
static void is_so(void **state)
{
	auto_(topo_unref) struct topo *t = test_topo_host("l40s-4u");
	struct host_facts *pf = (struct host_facts *)topo_at(t, test_at(t, PF))->fn->facts;
	auto_(plan_pool_free) struct plan_pool *a = plan(t, &(struct lines){ { "vfs=4 " PF, "bind=" GPU2 } }, NULL), *b = NULL, *c = NULL;

	(void)state;
	assert_false(plan_pool_is_so(a));
	pf->numvfs = 4;
	b = plan(t, &(struct lines){ { "vfs=4 " PF, "bind=" GPU2 } }, NULL);
	assert_true(plan_pool_is_so(b));
	c = plan(t, &(struct lines){ { "vfs=4 " PF, "bind=" GPU } }, NULL);
	assert_false(plan_pool_is_so(c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_words),
		cmocka_unit_test(steps),
		cmocka_unit_test(drives_in_use),
		cmocka_unit_test(is_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
