/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An updated inventory is what a full reading gives, whatever happened, and costs a few calls. On a real host's
 * tree, changed as a kernel changes it. */
#include "host/change.h"
#include "tree.h"

#define GPU  "0000:19:00.0"
#define PF   "0000:1a:00.0"
#define PORT "0000:17:02.0" /* above the PF */
#define MOST  31 /* calls per changed function */

static struct tree tree;
static struct host_root *root;
static struct host_kinds kinds;
static struct topo *now; /* as updated so far */
static struct host_changes changes;

static int start(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	tree_new(&tree, "xe9680");
	kinds = test_kinds();
	assert_int_equal(host_root_open(&root, tree.dir, &err), 0);
	now = test_topo_of(root);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	host_changes_done(&changes);
	topo_unref(now);
	host_root_close(root);
	tree_free(&tree);
	return 0;
}

static char *text_of(const struct topo *t)
{
	json_object *o = topo_json(t), *host = topo_host_json(t);
	char *text;

	json_object_object_del(host, "cost");
	json_object_object_add(o, "host", host);
	text = strdup(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
	json_object_put(o);
	return text;
}

static void expect_same(const struct topo *a, const struct topo *b)
{
	autofree char *x = text_of(a), *y = text_of(b);
	size_t i = 0;

	if (strcmp(x, y) == 0)
		return;
	while (x[i] == y[i])
		i++;
	i = i > 300 ? i - 300 : 0;
	fail_msg("updated: %.500s\n\nread: %.500s", x + i, y + i);
}

static void event(const char *bdf, bool anew)
{
	host_changes_add(&changes, test_bdf(bdf), anew ? HOST_CHANGE_ANEW : HOST_CHANGE_STATE);
}

static int try_update(struct error *err)
{
	struct inventory *inv = NULL;
	struct topo *t = NULL;
	int r = host_inventory_update(&inv, topo_inventory(now), &changes, root, &kinds, err);

	host_changes_done(&changes);
	if (r < 0)
		return r;
	assert_int_equal(topo_build_upon(&t, now, inv, err), 0);
	topo_unref(now);
	now = t;
	return 0;
}

/* What was told is applied, equals a full reading; returns the calls it took. */
static unsigned update(void)
{
	uint64_t before = host_root_stats(root).syscalls, cost;
	struct error err = ERROR_INIT;
	struct topo *full;

	if (try_update(&err) < 0)
		fail_msg("%s", err.text);
	cost = host_root_stats(root).syscalls - before;
	full = test_topo_of(root);
	expect_same(now, full);
	topo_unref(full);
	return (unsigned)cost;
}

static const struct host_function *at(const char *bdf)
{
	const struct host_function *fn = host_function_find(topo_inventory(now), test_bdf(bdf));

	if (!fn)
		fail_msg("no function %s", bdf);
	return fn;
}

static bool there(const char *bdf)
{
	return host_function_find(topo_inventory(now), test_bdf(bdf));
}

static void expect_cost(const char *what, unsigned calls, unsigned functions)
{
	print_message("# %s: %u calls, %u functions\n", what, calls, functions);
	assert_in_range(calls, 1, MOST * functions);
}

/* ---- one change each --------------------------------------------------------------------------------- */

static void a_driver_comes_and_goes(void **state)
{
	const char *was = host_driver_of(topo_inventory(now), at(GPU));

	(void)state;
	assert_string_equal(was, "nvidia");
	tree_bind(&tree, GPU, "");
	event(GPU, false);
	expect_cost("a GPU is unbound", update(), 1);
	assert_string_equal(host_driver_of(topo_inventory(now), at(GPU)), "");
	tree_bind(&tree, GPU, "never_seen_before");
	event(GPU, false);
	expect_cost("a GPU is bound", update(), 1);
	assert_string_equal(host_driver_of(topo_inventory(now), at(GPU)), "never_seen_before");
	tree_bind(&tree, GPU, "nvidia");
	event(GPU, false);
	(void)update();
}

/* What the topology finds, it finds anew each time: it is there once, and goes with its cause. */
static void findings_of_the_topology_do_not_pile_up(void **state)
{
	const char *port = "0000:17:01.0";
	unsigned word = at(port)->facts->cap.acs.at + 6u;
	size_t before = topo_inventory(now)->nfindings;

	(void)state;
	tree_poke(&tree, port, word, 0); /* an operator's setpci */
	event(port, false);
	(void)update();
	assert_true(topo_inventory(now)->nfindings > before);
	for (int i = 0; i < 3; i++) {
		tree_bind(&tree, GPU, i % 2 ? "nvidia" : "");
		event(GPU, false);
		(void)update(); /* equals a full reading */
	}
	tree_bind(&tree, GPU, "nvidia");
	tree_poke(&tree, port, word, 0x1d);
	event(GPU, false);
	event(port, false);
	(void)update();
	assert_int_equal(topo_inventory(now)->nfindings, before);
}

static void vfs_come_are_bound_and_go(void **state)
{
	char vf[BDF_TEXT_MAX];

	(void)state;
	tree_vfs(&tree, PF, 0, 16);
	for (unsigned i = 0; i < 16; i++) {
		tree_vf_name(vf, PF, i);
		event(vf, true); /* nobody names the PF */
	}
	expect_cost("16 VFs come", update(), 17);
	assert_int_equal(at(PF)->facts->numvfs, 16);
	assert_int_equal(at("0000:1a:00.7")->vf_index, 6);
	assert_ptr_equal(at("0000:1a:00.7")->facts, at("0000:1a:02.0")->facts); /* kept once */
	tree_bind(&tree, "0000:1a:00.7", "vfio-pci");
	event("0000:1a:00.7", false);
	expect_cost("a VF is bound", update(), 1);
	assert_string_equal(host_driver_of(topo_inventory(now), at("0000:1a:00.7")), "vfio-pci");
	assert_ptr_equal(at("0000:1a:00.7")->facts, at("0000:1a:02.0")->facts);
	event(PF, false);
	expect_cost("their PF tells of itself", update(), 1);
	tree_vfs(&tree, PF, 16, 4);
	event("0000:1a:00.7", true); /* one of those that went is enough */
	expect_cost("16 go, 4 come", update(), 17);
	assert_false(there("0000:1a:00.7"));
	assert_true(there("0000:1a:00.4"));
	tree_vfs(&tree, PF, 4, 0);
	event(PF, false); /* so is the PF */
	expect_cost("4 VFs go", update(), 5);
	assert_false(there("0000:1a:00.1"));
}

static void a_port_goes_with_all_below(void **state)
{
	(void)state;
	tree_drop(&tree, PORT);
	event(PORT, true);
	expect_cost("a port goes", update(), 2);
	assert_false(there(PF));
	tree_restore(&tree, PORT);
	event(PORT, true);
	expect_cost("a port comes", update(), 1);
	tree_restore(&tree, PF);
	event(PF, true);
	expect_cost("a NIC comes: its function, interface, RDMA device and port", update(), 4);
	tree_drop(&tree, GPU);
	event(GPU, true);
	expect_cost("a GPU goes", update(), 1);
	tree_restore(&tree, GPU);
	event(GPU, true);
	expect_cost("a GPU comes", update(), 1);
}

/* A parent that goes and comes alone: what is below loses it and gets it again. */
static void children_follow_their_parent(void **state)
{
	(void)state;
	tree_unlink_function(&tree, PORT);
	event(PORT, true);
	(void)update();
	assert_true(there(PF));
	assert_int_equal(topo_at(now, test_at(now, PF))->parent, TOPO_NONE);
	tree_restore(&tree, PORT);
	event(PORT, true);
	(void)update();
	assert_int_not_equal(topo_at(now, test_at(now, PF))->parent, TOPO_NONE);
}

/* Another device in the same slot, and the events do not say so: nothing old is kept of it. */
static void a_stranger_is_read_whole(void **state)
{
	char dir[512];

	(void)state;
	assert_true(tree_function(&tree, dir, GPU));
	tree_attr(&tree, dir, "uevent", "PCI_CLASS=30200\nPCI_ID=10DE:9999\nPCI_SUBSYS_ID=10DE:0001\n");
	tree_attr(&tree, dir, "numa_node", "1\n");
	tree_attr(&tree, dir, "reset_method", "bus\n");
	event(GPU, false);
	(void)update();
	assert_int_equal(at(GPU)->facts->numa_node, 1);
	assert_string_equal(at(GPU)->facts->reset_methods, "bus");
	tree_restore(&tree, GPU);
	event(GPU, true);
	(void)update();
}

static void findings_come_and_go(void **state)
{
	size_t n = topo_inventory(now)->nfindings;

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		tree_poke(&tree, GPU, i, 0xff);
	event(GPU, false);
	(void)update();
	assert_int_equal(topo_inventory(now)->nfindings, n + 1);
	tree_restore(&tree, GPU);
	event(GPU, false);
	(void)update();
	assert_int_equal(topo_inventory(now)->nfindings, n);
}

/* A link goes down: of the NIC only what a link event may have changed is read. */
static void links_go_down(void **state)
{
	static const char net[] = "net/enp26s0np0/operstate", ib[] = "infiniband/mlx5_0/ports/1/state";
	const struct host_nic *nic;
	char dir[512];

	(void)state;
	assert_true(tree_function(&tree, dir, PF));
	nic = &topo_inventory(now)->system.nic[0];
	assert_string_equal(nic->netdev[0].operstate, "up");
	tree_attr(&tree, dir, net, "down\n");
	tree_attr(&tree, dir, ib, "1: DOWN\n");
	host_changes_add(&changes, test_bdf(PF), HOST_CHANGE_NET);
	expect_cost("a link goes down", update(), 1);
	nic = &topo_inventory(now)->system.nic[0];
	assert_string_equal(nic->netdev[0].operstate, "down");
	assert_string_equal(nic->rdma[0].port[0].state, "DOWN");
	tree_restore(&tree, PF);
	host_changes_add(&changes, test_bdf(PF), HOST_CHANGE_NET);
	(void)update();
	assert_string_equal(topo_inventory(now)->system.nic[0].netdev[0].operstate, "up");
}

/* Free memory has no event: who plans asks for it. */
static void the_host_too(void **state)
{
	uint64_t was = topo_inventory(now)->node[0].mem_free;
	size_t depth;

	(void)state;
	tree_put(&tree, "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 1024 kB\n");
	changes.memory = true;
	(void)update();
	assert_int_equal(topo_inventory(now)->node[0].mem_free, 1 << 20);
	depth = topo_inventory(now)->depth;
	for (unsigned i = 0; i < 3; i++) { /* each plan has one: they are not all kept */
		changes.memory = true;
		(void)update();
	}
	assert_int_equal(topo_inventory(now)->depth, depth);
	tree_entry(&tree, text_host_find(tree.text, "sys/devices/system/node/node0/meminfo"));
	changes.host = true;
	(void)update();
	assert_int_equal(topo_inventory(now)->node[0].mem_free, was);
}

/* Of another memory the graph is the same one, which outlives the topology that made it; of other nodes it is made anew. */
static void a_graph_is_kept(void **state)
{
	static const char cpus[] = "sys/devices/system/node/node0/cpulist";
	const struct topo_node *was;

	(void)state;
	topo_unref(now);
	now = test_topo_of(root);
	was = topo_at(now, 0);
	for (unsigned i = 0; i < 2; i++) {
		tree_put(&tree, "sys/devices/system/node/node0/meminfo", i ? "Node 0 MemTotal: 8192 kB\n" : "Node 0 MemTotal: 4096 kB\n");
		changes.memory = true;
		(void)update();
		assert_ptr_equal(topo_at(now, 0), was);
	}
	tree_put(&tree, cpus, "0-1\n");
	changes.memory = true;
	(void)update();
	assert_ptr_not_equal(topo_at(now, 0), was);
	tree_entry(&tree, text_host_find(tree.text, "sys/devices/system/node/node0/meminfo"));
	tree_entry(&tree, text_host_find(tree.text, cpus));
	changes.host = true;
	(void)update();
}

#define NODE0 "sys/devices/system/node/node0/"

static uint64_t memory_now(void)
{
	changes.memory = true;
	(void)update();
	return topo_inventory(now)->node[0].memory_known ? topo_inventory(now)->node[0].mem_free >> 10 : UINT64_MAX;
}

/* Files of nodes stay open: what is in them is as it is now, also where they were made anew or are gone. */
static void kept_files_are_as_they_are(void **state)
{
	static const char file[] = NODE0 "meminfo";
	char other[1100];

	(void)state;
	tree_put(&tree, file, "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 1 kB\n");
	assert_int_equal(memory_now(), 1);
	tree_put(&tree, file, "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 2048 kB\n"); /* in its place, and longer */
	assert_int_equal(memory_now(), 2048);
	tree_put(&tree, file, "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 3 kB\n"); /* and shorter */
	assert_int_equal(memory_now(), 3);
	(void)snprintf(other, sizeof(other), "%s.new", tree_path(&tree, file));
	tree_write(other, "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 4 kB\n", 47);
	assert_int_equal(rename(other, tree_path(&tree, file)), 0);
	assert_int_equal(memory_now(), 4);
	assert_int_equal(unlink(tree_path(&tree, file)), 0);
	assert_int_equal(memory_now(), UINT64_MAX);
	tree_put(&tree, file, "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 5 kB\n");
	assert_int_equal(memory_now(), 5);
	tree_entry(&tree, text_host_find(tree.text, file));
	changes.host = true;
	(void)update();
}

/* Sizes of hugepages and distances are not looked for again where all could be read; else they are. */
static void sizes_are_known(void **state)
{
	const struct host_node *node = &topo_inventory(now)->node[0];
	char pool[128], total[160];
	const char *was;
	size_t n = node->npools, findings = topo_inventory(now)->nfindings;

	(void)state;
	assert_true(n > 0);
	(void)snprintf(pool, sizeof(pool), NODE0 "hugepages/hugepages-%llukB", (unsigned long long)node->pool[0].page_size / 1024);
	(void)snprintf(total, sizeof(total), "%s/nr_hugepages", pool);
	was = text_host_find(tree.text, total)->value;
	for (int i = 0; i < 2; i++) {
		tree_put(&tree, total, "many\n");
		(void)memory_now();
		assert_int_equal(topo_inventory(now)->node[0].npools, n - 1);
		assert_int_equal(topo_inventory(now)->nfindings, findings + 1);
	}
	tree_put(&tree, total, was);
	(void)memory_now();
	assert_int_equal(topo_inventory(now)->node[0].npools, n);
	assert_int_equal(topo_inventory(now)->nfindings, findings);
}

static void what_is_odd_is_refused(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	changes.lost = true;
	assert_int_equal(try_update(&err), -ESTALE);
	for (unsigned i = 0; i <= HOST_CHANGES_MAX; i++)
		host_changes_add(&changes, (struct bdf){ .domain = 7 + i }, HOST_CHANGE_STATE);
	assert_true(changes.lost);
	err = ERROR_INIT;
	assert_int_equal(try_update(&err), -ESTALE);
	tree_vfs(&tree, PF, 0, 4); /* the PF's own last link leads elsewhere */
	{
		char dir[512], path[600];

		assert_true(tree_function(&tree, dir, PF));
		(void)snprintf(path, sizeof(path), "%s/virtfn3", dir);
		tree_link(&tree, path, "../0000:1a:07.0");
	}
	event(PF, false);
	err = ERROR_INIT;
	assert_int_equal(try_update(&err), -ESTALE);
	tree_vfs(&tree, PF, 4, 0);
	event(PF, false);
	(void)update();
}

/* ---- any changes -------------------------------------------------------------------------------------- */

#define PFS 4

struct world {
	uint64_t seed;
	struct {
		const char *bdf, *port;
		unsigned    vfs;
		bool        gone;
	} pf[PFS];
};

static uint32_t roll(struct world *w, uint32_t below)
{
	w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->seed >> 33) % below;
}

static void change_vfs(struct world *w, unsigned i, unsigned count)
{
	unsigned was = w->pf[i].vfs, most = was > count ? was : count;
	char vf[BDF_TEXT_MAX];

	tree_vfs(&tree, w->pf[i].bdf, was, count);
	for (unsigned n = 0; n < most; n++) {
		tree_vf_name(vf, w->pf[i].bdf, n);
		event(vf, true);
	}
	w->pf[i].vfs = count;
}

static void change_any(struct world *w)
{
	static const char *const drivers[] = { "", "vfio-pci", "mlx5_core", "nvidia" };
	unsigned i = roll(w, PFS);
	const char *bdf = w->pf[i].bdf;
	char vf[BDF_TEXT_MAX], dir[512];

	if (w->pf[i].gone) {
		tree_restore(&tree, w->pf[i].port);
		tree_restore(&tree, bdf);
		event(w->pf[i].port, true);
		event(bdf, true);
		w->pf[i].gone = false;
		return;
	}
	assert_true(tree_function(&tree, dir, bdf));
	switch (roll(w, 8)) {
	case 0:
		change_vfs(w, i, 0);
		tree_drop(&tree, w->pf[i].port);
		event(w->pf[i].port, true);
		w->pf[i].gone = true;
		break;
	case 1:
	case 2:
		change_vfs(w, i, w->pf[i].vfs && roll(w, 2) ? 0 : 1 + roll(w, 16));
		break;
	case 3:
		tree_bind(&tree, bdf, drivers[roll(w, 4)]);
		event(bdf, false);
		break;
	case 4:
		tree_attr(&tree, dir, "driver_override", roll(w, 2) ? "vfio-pci\n" : "(null)\n");
		event(bdf, false);
		break;
	case 5:
		tree_poke(&tree, bdf, roll(w, 512), (unsigned char)roll(w, 256));
		event(bdf, false);
		break;
	default:
		if (!w->pf[i].vfs)
			break;
		tree_vf_name(vf, bdf, roll(w, w->pf[i].vfs));
		tree_bind(&tree, vf, drivers[roll(w, 4)]);
		event(vf, false);
	}
}

/* -ESTALE is an honest answer where a poke made the tree odd, but it must be rare. */
static void equals_a_full_reading(void **state)
{
	struct world w = { .seed = 1, .pf = { { .bdf = PF, .port = PORT } } };
	unsigned n = 1, refused = 0, steps = 60;

	(void)state;
	for (size_t i = 0; i < topo_count(now) && n < PFS; i++) {
		const struct host_function *fn = topo_at(now, (uint32_t)i)->fn;
		const struct host_facts *f = fn->facts;
		static char name[2 * PFS][BDF_TEXT_MAX];

		if (f->kind != HOST_NIC || f->cap.multifunction || bdf_eq(fn->bdf, test_bdf(PF)) || bdf_is_none(f->parent))
			continue;
		w.pf[n].bdf = bdf_text(name[2 * n], fn->bdf);
		w.pf[n].port = bdf_text(name[2 * n + 1], f->parent);
		n++;
	}
	assert_int_equal(n, PFS);
	for (unsigned i = 0; i < steps; i++) {
		struct error err = ERROR_INIT;
		struct topo *full;
		int r;

		changes.memory = i % 3;
		for (unsigned k = changes.memory ? roll(&w, 3) : 1 + roll(&w, 3); k; k--)
			change_any(&w);
		r = try_update(&err);
		full = test_topo_of(root);
		if (r == 0) {
			expect_same(now, full);
			topo_unref(full);
			continue;
		}
		assert_int_equal(r, -ESTALE);
		refused++;
		topo_unref(now);
		now = full;
	}
	print_message("# %u of %u updates refused\n", refused, steps);
	assert_in_range(refused, 0, steps / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_driver_comes_and_goes),
		cmocka_unit_test(findings_of_the_topology_do_not_pile_up),
		cmocka_unit_test(vfs_come_are_bound_and_go),
		cmocka_unit_test(a_port_goes_with_all_below),   cmocka_unit_test(children_follow_their_parent),
		cmocka_unit_test(a_stranger_is_read_whole),     cmocka_unit_test(findings_come_and_go),
		cmocka_unit_test(links_go_down),                cmocka_unit_test(the_host_too),
		cmocka_unit_test(a_graph_is_kept),              cmocka_unit_test(kept_files_are_as_they_are),
		cmocka_unit_test(sizes_are_known),              cmocka_unit_test(what_is_odd_is_refused),
		cmocka_unit_test(equals_a_full_reading),
	};

	return cmocka_run_group_tests_name("update", tests, start, stop);
}
