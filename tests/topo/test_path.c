/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths, links and bandwidths: known hosts, then invented trees against an oracle that knows nothing of topo/path:
 * it climbs both chains of parents and looks at the facts only. */
#include "base/arena.h"
#include "base/bdf.h"
#include "base/sbuf.h"
#include "support.h"
#include "topo/path.h"

static struct topo_walk walk(const struct topo *t, uint32_t a, uint32_t b, struct arena *arena)
{
	struct topo_walk w;

	assert_int_equal(topo_path_walk(&w, t, a, b, arena), 0);
	return w;
}

/* "0000:4c:00.0 link 0000:4a:01.0 switch ..." */
static void assert_hops(const struct topo *t, const char *from, const char *to, const char *want)
{
	static const char *const via[] = { "", " = ", " + ", " & ", " ? ", " ~ ", " <> ", " ?? " };
	struct arena arena = { 0 };
	struct topo_walk w = walk(t, test_at(t, from), test_at(t, to), &arena);
	struct sbuf out = { 0 };
	char text[BDF_TEXT_MAX];

	for (size_t i = 0; i < w.n; i++)
		sbuf_addf(&out, "%s%s", w.hop[i].node == TOPO_NONE ? w.hop[i].root_bus
								      : bdf_text(text, topo_at(t, w.hop[i].node)->fn->bdf) + 5,
			  via[w.hop[i].via]);
	assert_string_equal(out.text, want);
	sbuf_done(&out);
	arena_done(&arena);
}

static void hops_of_a_known_host(void **state)
{
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	assert_hops(t, "0000:4c:00.0", "0000:4d:00.0", "4c:00.0 = 4a:01.0 + 4a:02.0 = 4d:00.0");
	assert_hops(t, "0000:4c:00.0", "0000:4c:00.0", "4c:00.0");
	assert_hops(t, "0000:1b:00.0", "0000:1b:00.1", "1b:00.0 & 1b:00.1");
	assert_hops(t, "0000:4a:01.0", "0000:4c:00.0", "4a:01.0 = 4c:00.0");
	assert_hops(t, "0000:4c:00.0", "0000:49:00.0", "4c:00.0 = 4a:01.0 + 49:00.0");
	assert_hops(t, "0000:48:01.0", "0000:4c:00.0", "48:01.0 = 49:00.0 + 4a:01.0 = 4c:00.0");
	assert_hops(t, "0000:01:00.0", "0000:02:00.0", "01:00.0 = 00:0c.0 ~ pci0000:00 ~ 00:0e.0 = 02:00.0");
	assert_hops(t, "0000:4c:00.0", "0000:5d:00.0",
		    "4c:00.0 = 4a:01.0 + 49:00.0 = 48:01.0 ~ pci0000:48 ~ pci0000:59 ~ 59:01.0 = 5a:00.0 + 5b:01.0 = 5d:00.0");
	assert_hops(t, "0000:18:00.0", "0000:83:00.0",
		    "18:00.0 = 17:00.0 + 16:00.0 = 15:01.0 ~ pci0000:15 <> pci0000:80 ~ 80:01.0 = 81:00.0 + 82:00.0 = 83:00.0");
	topo_unref(t);
}

static void bandwidth_of_a_known_host(void **state)
{
	struct topo *t = test_topo_host("xe9680");
	struct arena arena = { 0 };
	struct topo_walk w = walk(t, test_at(t, "0000:4c:00.0"), test_at(t, "0000:4d:00.0"), &arena);

	(void)state;
	assert_int_equal(w.bandwidth, 63015384615); /* 32 GT/s x 16 lanes x 128/130 / 8 */
	assert_int_equal(w.most, w.bandwidth);
	assert_false(w.root);
	w = walk(t, test_at(t, "0000:4c:00.0"), test_at(t, "0000:18:00.0"), &arena);
	assert_int_equal(w.bandwidth, 7876923076); /* a drive at 16 GT/s x4 */
	assert_int_equal(topo_at(t, w.hop[w.narrowest].link.lower)->fn->bdf.bus, 0x18);
	assert_true(w.root);
	assert_int_equal(w.distance, 10);
	w = walk(t, test_at(t, "0000:4c:00.0"), test_at(t, "0000:9b:00.0"), &arena);
	assert_int_equal(w.distance, 21);
	assert_int_equal(topo_same_socket(t, w.hop[0].node, w.hop[w.n - 1].node), 0);
	w = walk(t, test_at(t, "0000:1b:00.0"), test_at(t, "0000:1b:00.1"), &arena);
	assert_int_equal(w.bandwidth, 0); /* inside a device: nobody says */
	assert_int_equal(w.narrowest, w.n);
	arena_done(&arena);
	topo_unref(t);
}

static void line_coding(void **state)
{
	static const struct {
		uint8_t  speed, width;
		uint64_t want;
	} cases[] = {
		{ 1, 1, 250000000 },     { 2, 4, 2000000000 },      { 3, 1, 984615384 },   { 4, 16, 31507692307 },
		{ 5, 16, 63015384615 },  { 6, 16, 118000000000 },   { 0, 16, 0 },          { 5, 0, 0 },
		{ 7, 16, 0 },            { 255, 255, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(topo_link_bandwidth((struct pcicap_link){ cases[i].speed, cases[i].width }), cases[i].want);
}

#define CPU(n, list) \
	"sys/devices/system/cpu/cpu" n "/topology/physical_package_id\t" n "\n" \
	"sys/devices/system/cpu/cpu" n "/topology/package_cpus_list\t" list "\n" \
	"sys/devices/system/cpu/cpu" n "/topology/thread_siblings_list\t" n "\n"
#define RCIEP(bus, node)                                                                                      \
	"sys/bus/pci/devices/0000:" bus ":00.0 -> ../../../devices/pci0000:" bus "/0000:" bus ":00.0\n"       \
	"sys/devices/pci0000:" bus "/0000:" bus ":00.0/uevent\tPCI_CLASS=30200\\nPCI_ID=10DE:2330\n"          \
	"sys/devices/pci0000:" bus "/0000:" bus ":00.0/numa_node\t" node "\n"
#define ONLINE(cpus)  "sys/devices/system/cpu/online\t" cpus "\n"
#define NODE(n, cpus) "sys/devices/system/node/node" n "/cpulist\t" cpus "\n"

/* Several NUMA nodes may be one socket, and one NUMA node several sockets. */
static void sockets(void **state)
{
	static const struct {
		const char *text;
		int         want;
	} cases[] = {
		{ ONLINE("0-1") NODE("0", "0") NODE("1", "1") CPU("0", "0-1") CPU("1", "0-1"), 1 },
		{ ONLINE("0-1") NODE("0", "0") NODE("1", "1") CPU("0", "0") CPU("1", "1"), 0 },
		{ NODE("0", "0") NODE("1", "1"), -1 },
		{ ONLINE("0-2") NODE("0", "0-1") NODE("1", "2") CPU("0", "0") CPU("1", "1") CPU("2", "2"), -1 },
		{ ONLINE("0-1") NODE("0", "0") NODE("1", "") CPU("0", "0") CPU("1", "1"), -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct arena arena = { 0 };
		struct sbuf text = { 0 };
		struct topo *t;

		sbuf_addf(&text, TEXT_MAGIC_LINE "%s" RCIEP("10", "0") RCIEP("20", "1"), cases[i].text);
		t = test_topo_text(text.text);
		assert_int_equal(topo_same_socket(t, 0, 1), cases[i].want);
		topo_unref(t);
		sbuf_done(&text);
		arena_done(&arena);
	}
}

/* ---- links that are trained down ---------------------------------------------------------------- */

#define LINE(dir, name, value) "sys/devices/" dir "/" name "\t" value "\n"
#define FUNCTION(dir, bdf, ids)                                                  \
	"sys/bus/pci/devices/" bdf " -> ../../../devices/" dir bdf "\n"          \
	"sys/devices/" dir bdf "/uevent\t" ids "\n"
#define LINK(dir, speed, width, max_speed, max_width)                                              \
	LINE(dir, "current_link_speed", speed " GT/s PCIe") LINE(dir, "current_link_width", width) \
	LINE(dir, "max_link_speed", max_speed " GT/s PCIe") LINE(dir, "max_link_width", max_width)
#define PORT "PCI_CLASS=60400\\nPCI_ID=1234:5678"
#define P    "pci0000:10/0000:10:01.0"

/* One device below one port; the finding that comes of it, "" for none. */
static void assert_finding(const char *ids, const char *port_link, const char *device_link, const char *want)
{
	struct sbuf text = { 0 };
	const struct inventory *inv;
	size_t found = 0;
	struct topo *t;

	sbuf_addf(&text, "%s%s%s%s%s", TEXT_MAGIC_LINE, FUNCTION("pci0000:10/", "0000:10:01.0", PORT), port_link,
		  "sys/bus/pci/devices/0000:11:00.0 -> ../../../devices/" P "/0000:11:00.0\n", device_link);
	sbuf_addf(&text, "sys/devices/" P "/0000:11:00.0/uevent\t%s\n", ids);
	t = test_topo_text(text.text);
	inv = topo_inventory(t);
	for (size_t i = 0; i < inv->nfindings; i++) {
		if (strncmp(inv->finding[i].id, "pcie.link", 9) != 0)
			continue;
		found++;
		assert_string_equal(inv->finding[i].id, want);
		assert_true(bdf_eq(inv->finding[i].bdf, test_bdf("0000:11:00.0")));
		assert_non_null(strstr(inv->finding[i].text, "0000:10:01.0"));
	}
	assert_int_equal(found, *want ? 1 : 0);
	topo_unref(t);
	sbuf_done(&text);
}

#define GPU_IDS  "PCI_CLASS=30200\\nPCI_ID=10DE:2330"
#define NIC_IDS  "PCI_CLASS=20000\\nPCI_ID=15B3:1021"
#define PORT_32  LINK(P, "32.0", "16", "32.0", "16")
#define AT_DEV(s, w, ms, mw) LINK(P "/0000:11:00.0", s, w, ms, mw)

static void trained_down(void **state)
{
	(void)state;
	/* what case 67 is about: a GPU at 8 GT/s x8 */
	assert_finding(GPU_IDS, LINK(P, "8.0", "8", "32.0", "16"), AT_DEV("8.0", "8", "32.0", "16"), "pcie.link-width");
	/* idle GPUs */
	assert_finding(GPU_IDS, LINK(P, "2.5", "16", "32.0", "16"), AT_DEV("2.5", "16", "32.0", "16"), "");
	/* a NIC does not slow down by itself */
	assert_finding(NIC_IDS, LINK(P, "8.0", "16", "32.0", "16"), AT_DEV("8.0", "16", "32.0", "16"), "pcie.link-speed");
	/* what the slot or the card cannot do is no fault */
	assert_finding(NIC_IDS, LINK(P, "16.0", "8", "32.0", "8"), AT_DEV("16.0", "8", "16.0", "16"), "");
	assert_finding(NIC_IDS, PORT_32, AT_DEV("32.0", "16", "32.0", "16"), "");
	/* one end does not say: nothing is known */
	assert_finding(NIC_IDS, "", AT_DEV("8.0", "8", "32.0", "16"), "");
	/* no link at all */
	assert_finding(NIC_IDS, LINK(P, "2.5", "0", "32.0", "16"), AT_DEV("2.5", "0", "32.0", "16"), "");
	/* of what nothing is known */
	assert_finding("PCI_CLASS=ff0000\\nPCI_ID=1D0F:EFA0", LINK(P, "8.0", "16", "32.0", "16"), AT_DEV("8.0", "16", "32.0", "16"), "");
}

/* ---- against an oracle --------------------------------------------------------------------------- */

static uint32_t rnd(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % below;
}

enum shape { ROOT_PORT, UP, DOWN, LEAF };

struct maker {
	struct sbuf out;
	uint64_t    seed;
	unsigned    bus;
};

static void write_function(struct maker *m, const char *chain, const char *bdf, enum shape s, unsigned node)
{
	static const char *const speeds[] = { "2.5", "5.0", "8.0", "16.0", "32.0", "64.0" };
	static const unsigned types[] = { 4, 5, 6, 0 };
	unsigned width = 1u << rnd(&m->seed, 5), speed = rnd(&m->seed, 6), most = speed + rnd(&m->seed, 6 - speed);
	unsigned nothing = rnd(&m->seed, 12); /* 0: says nothing of its link; 1: it is down */
	char dir[640];

	(void)snprintf(dir, sizeof(dir), "sys/devices/%s%s", chain, bdf);
	sbuf_addf(&m->out, "sys/bus/pci/devices/%s -> ../../../devices/%s%s\n", bdf, chain, bdf);
	sbuf_addf(&m->out, "%s/uevent\t%s\n", dir, s != LEAF ? PORT : rnd(&m->seed, 2) ? GPU_IDS : NIC_IDS);
	if (rnd(&m->seed, 8))
		sbuf_addf(&m->out, "%s/numa_node\t%u\n", dir, node);
	if (nothing && rnd(&m->seed, 2)) { /* config space, with all that is needed */
		sbuf_addf(&m->out, "%s/config\tbytes 4096\n", dir);
		sbuf_addf(&m->out, " 000: 34 12 78 56 06 00 10 00 00 00 00 00 00 00 %02x 00\n", s == LEAF ? 0 : 1);
		sbuf_add(&m->out, " 030: 00 00 00 00 60 00 00 00 00 00 00 00 00 00 00 00\n");
		sbuf_addf(&m->out, " 060: 10 00 %x2 00 00 00 00 10 00 00 00 00 %02x %02x 00 00\n", types[s],
			  (most + 1) | (width & 15) << 4, width >> 4);
		sbuf_addf(&m->out, " 070: 00 00 %02x %02x 00 00 00 00 00 00 00 00 00 00 00 00\n",
			  (speed + 1) | ((nothing == 1 ? 0 : width) & 15) << 4, nothing == 1 ? 0 : width >> 4);
	} else if (nothing) {
		sbuf_addf(&m->out, "%s/current_link_speed\t%s GT/s PCIe\n%s/max_link_speed\t%s GT/s PCIe\n", dir,
			  speeds[speed], dir, speeds[most]);
		sbuf_addf(&m->out, "%s/current_link_width\t%u\n%s/max_link_width\t%u\n", dir, nothing == 1 ? 0 : width, dir, width);
	}
}

static void make_below(struct maker *m, const char *chain, enum shape s, unsigned node, unsigned depth);

static void make(struct maker *m, const char *chain, unsigned bus, unsigned dev, enum shape s, unsigned node, unsigned depth)
{
	char bdf[40], below[512];

	(void)snprintf(bdf, sizeof(bdf), "0000:%02x:%02x.0", bus, dev);
	write_function(m, chain, bdf, s, node);
	(void)snprintf(below, sizeof(below), "%s%s/", chain, bdf);
	if (s != LEAF)
		make_below(m, below, s, node, depth + 1);
}

static void make_below(struct maker *m, const char *chain, enum shape s, unsigned node, unsigned depth)
{
	unsigned n = s == UP ? 1 + rnd(&m->seed, 3) : rnd(&m->seed, 5) != 0, bus = m->bus++;

	for (unsigned i = 0; i < n && m->bus < 200; i++)
		make(m, chain, bus, i, s == UP ? DOWN : depth < 7 && rnd(&m->seed, 2) ? UP : LEAF, node, depth);
}

static char *invent(uint64_t seed)
{
	struct maker m = { .seed = seed };
	unsigned nodes = 1 + rnd(&m.seed, 3), hosts = 1 + rnd(&m.seed, 4);

	sbuf_add(&m.out, TEXT_MAGIC_LINE);
	for (unsigned n = 0; n < nodes; n++) {
		sbuf_addf(&m.out, "sys/devices/system/node/node%u/cpulist\t%u\nsys/devices/system/node/node%u/distance\t", n, n, n);
		for (unsigned k = 0; k < nodes; k++)
			sbuf_addf(&m.out, "%s%u", k ? " " : "", n == k ? 10 : 20 + n + k);
		sbuf_add(&m.out, "\n");
	}
	for (unsigned h = 0; h < hosts; h++) {
		char chain[40];
		unsigned ports = 1 + rnd(&m.seed, 3), bus = m.bus++;

		(void)snprintf(chain, sizeof(chain), "pci0000:%02x/", bus);
		for (unsigned p = 0; p < ports; p++)
			make(&m, chain, bus, p + 1, rnd(&m.seed, 6) ? ROOT_PORT : LEAF, h % nodes, 0);
	}
	return sbuf_steal(&m.out);
}

/* The chain of a function: itself, the bridge above, ... ; returns its length. */
static size_t climb(const struct topo *t, uint32_t i, uint32_t chain[64])
{
	size_t n = 0;

	for (; i != TOPO_NONE; i = topo_at(t, i)->parent)
		chain[n++] = i;
	return n;
}

/* In invented trees levels alternate: root port, upstream, downstream, upstream, ... */
static bool is_upstream(const struct topo *t, uint32_t i)
{
	return topo_at(t, i)->depth % 2 == 1 && topo_at(t, i)->first_child != TOPO_NONE;
}

static uint64_t lanes(unsigned speed, unsigned width)
{
	static const double gts[] = { 0, 2.5, 5, 8, 16, 32, 64 }, part[] = { 0, .8, .8, 128. / 130, 128. / 130, 128. / 130, 236. / 256 };

	return (uint64_t)(gts[speed] * 1e9 / 8 * part[speed] * width + 1e-6);
}

struct want {
	enum topo_class class;
	uint64_t        now, most;
	size_t          links, hops;
	bool            unknown, most_unknown;
};

static unsigned least(unsigned a, unsigned b)
{
	return a && b ? (a < b ? a : b) : a + b;
}

static void cross(const struct topo *t, struct want *w, uint32_t below)
{
	const struct host_facts *lo = topo_at(t, below)->fn->facts, *up = topo_at(t, topo_at(t, below)->parent)->fn->facts;
	uint64_t now = lanes(least(lo->link_now.speed, up->link_now.speed), least(lo->link_now.width, up->link_now.width));
	bool both = lo->link_cap.speed && up->link_cap.speed && lo->link_cap.width && up->link_cap.width;
	uint64_t most = both ? lanes(least(lo->link_cap.speed, up->link_cap.speed), least(lo->link_cap.width, up->link_cap.width)) : 0;

	w->links++;
	w->unknown = w->unknown || !now;
	w->most_unknown = w->most_unknown || !most;
	w->now = !w->now || now < w->now ? now : w->now;
	w->most = !w->most || most < w->most ? most : w->most;
}

static struct want expect(const struct topo *t, uint32_t a, uint32_t b)
{
	uint32_t ca[64], cb[64];
	size_t na = climb(t, a, ca), nb = climb(t, b, cb), switches = 0;
	const struct host_facts *fa = topo_at(t, a)->fn->facts, *fb = topo_at(t, b)->fn->facts;
	struct want w = { .hops = 1 };
	uint32_t top;

	if (a == b)
		return w;
	while (na && nb && ca[na - 1] == cb[nb - 1]) { /* what they share, from the root down */
		na--;
		nb--;
	}
	top = na ? topo_at(t, ca[na - 1])->parent : ca[0];
	for (size_t i = 0; i < na; i++)
		if (topo_at(t, ca[i])->parent != TOPO_NONE && !is_upstream(t, topo_at(t, ca[i])->parent))
			cross(t, &w, ca[i]);
	for (size_t i = 0; i < nb; i++)
		if (topo_at(t, cb[i])->parent != TOPO_NONE && !is_upstream(t, topo_at(t, cb[i])->parent))
			cross(t, &w, cb[i]);
	for (size_t i = 1; i < na; i++)
		switches += is_upstream(t, ca[i]);
	for (size_t i = 1; i < nb; i++)
		switches += is_upstream(t, cb[i]);
	w.hops = na + nb;
	if (top != TOPO_NONE) {
		bool turn = na && nb && is_upstream(t, top);

		switches += turn;
		w.hops += !turn;
		w.class = !na || !nb || switches <= 1 || (na == 1 && nb == 1) ? TOPO_PIX : TOPO_PXB;
		return w;
	}
	w.class = strcmp(fa->root_bus, fb->root_bus) == 0 ? TOPO_PHB
		  : topo_inventory(t)->nnodes == 1	   ? TOPO_NODE
		  : fa->numa_node < 0 || fb->numa_node < 0 ? TOPO_UNKNOWN
		  : fa->numa_node == fb->numa_node	   ? TOPO_NODE
							   : TOPO_SYS;
	w.hops += w.class == TOPO_PHB ? 1 : 2;
	return w;
}

static void compare(const struct topo *t, uint32_t a, uint32_t b, uint64_t seed)
{
	struct arena arena = { 0 };
	struct topo_walk w = walk(t, a, b, &arena), back = walk(t, b, a, &arena);
	struct want e = expect(t, a, b);
	size_t links = 0;

	for (size_t i = 0; i < w.n; i++)
		links += w.hop[i].via == TOPO_VIA_LINK;
	if (w.class != e.class || w.n != e.hops || links != e.links || w.bandwidth != (e.unknown ? 0 : e.now) ||
	    w.most != (e.unknown || e.most_unknown ? 0 : e.most))
		fail_msg("seed %llu, %u to %u: %s (%s), %zu hops (%zu), %zu links (%zu), %llu B/s (%llu%s), most %llu (%llu%s)",
			 (unsigned long long)seed, a, b, topo_class_text(w.class), topo_class_text(e.class), w.n, e.hops, links, e.links,
			 (unsigned long long)w.bandwidth, (unsigned long long)e.now, e.unknown ? " unknown" : "",
			 (unsigned long long)w.most, (unsigned long long)e.most, e.most_unknown ? " unknown" : "");
	assert_int_equal(w.class, topo_path(t, a, b));
	assert_int_equal(back.n, w.n);
	assert_int_equal(back.bandwidth, w.bandwidth);
	assert_int_equal(back.most, w.most);
	for (size_t i = 0; i < w.n; i++) { /* the way back is the same way */
		assert_int_equal(w.hop[i].node, back.hop[w.n - 1 - i].node);
		assert_int_equal(w.hop[i].via, i + 1 < w.n ? back.hop[w.n - 2 - i].via : TOPO_VIA_NONE);
	}
	if (w.narrowest < w.n)
		assert_int_equal(topo_link_bandwidth(w.hop[w.narrowest].link.now), w.bandwidth);
	arena_done(&arena);
}

static void paths_equal_an_oracle(void **state)
{
	size_t pairs = 0, known = 0, classes[TOPO_CLASS_MAX_] = { 0 };

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		char *text = invent(seed);
		struct topo *t = test_topo_text(text);
		uint32_t n = (uint32_t)topo_count(t);

		for (uint32_t a = 0; a < n; a++)
			for (uint32_t b = 0; b < n; b++) {
				struct want e = expect(t, a, b);

				compare(t, a, b, seed);
				pairs++;
				known += e.links && !e.unknown;
				classes[e.class]++;
			}
		topo_unref(t);
		free(text);
	}
	/* the trees must have it all */
	assert_true(pairs > 20000 && known > 1000);
	for (int c = 0; c < TOPO_CLASS_MAX_; c++)
		assert_true(classes[c] > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hops_of_a_known_host), cmocka_unit_test(bandwidth_of_a_known_host),
		cmocka_unit_test(line_coding),          cmocka_unit_test(trained_down),
		cmocka_unit_test(sockets),
		cmocka_unit_test(paths_equal_an_oracle),
	};

	return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
