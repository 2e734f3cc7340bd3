/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report - what a guest sees of its PCI devices, for the emulated host's tests (see tests/lab/README.md).
 *
 *   report devices   print a line per NUMA node, function, BAR and GPU, the tree, and the result of every engine's DMA
 *   report wait      return when the power button is pressed; until then, print how the VFs' DMA travels whenever it changes
 *
 * It runs as root in a throw-away guest and drives the stand-ins' DMA engines (tests/lab/plugin/engine.h) through BARs.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/input.h>
#include <linux/pci_regs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BARS 6
#define BDF_LEN 12
#define FUNCTIONS_MAX 128
#define CONFIG_SIZE 256
#define NVIDIA 0x10de
#define CLASS_3D 0x0302
#define INTEL 0x8086
#define IGBVF 0x10ca
#define VF_ENGINE_BAR 3
#define VF_ENGINE_AT 0x3000
#define VF_ENGINE_ID 0x44584748
#define PAGE 4096
#define WATCH_MS 200

struct bar {
	uint64_t start, size;
};

struct function {
	char bdf[BDF_LEN + 1];
	char dir[512];			/* in sysfs */
	int parent;			/* index of the bridge above, -1 below a host bridge */
	uint8_t config[CONFIG_SIZE];
	struct bar bars[BARS];
};

static struct function functions[FUNCTIONS_MAX];
static int function_count;

/* ---- reading ------------------------------------------------------------------------------------------ */

static void die(const char *what)
{
	printf("REPORT error what=%s\n", what);
	perror(what);
	exit(1);
}

/* The first word of a sysfs file, or "-" if there is none. */
static const char *word(char ret[static 64], const char *dir, const char *name)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%63s", ret) != 1)
		strcpy(ret, "-");
	if (f)
		fclose(f);
	return ret;
}

static uint16_t config_word(const struct function *f, int offset)
{
	return f->config[offset] | f->config[offset + 1] << 8;
}

/* Offset of the next capability ID at or after offset FROM of the list, 0 if there is none. */
static int find_cap(const struct function *f, int from, uint8_t id)
{
	int at = from;

	for (int steps = 0; at >= PCI_STD_HEADER_SIZEOF && steps < 48; steps++) {
		if (f->config[at] == id)
			return at;
		at = f->config[at + 1] & ~3;
	}
	return 0;
}

static int first_cap(const struct function *f)
{
	return f->config[PCI_CAPABILITY_LIST] & ~3;
}

/* The PCI Express device/port type, or -1 for a conventional function. */
static int express_type(const struct function *f)
{
	int cap = find_cap(f, first_cap(f), PCI_CAP_ID_EXP);

	return cap ? (config_word(f, cap + PCI_EXP_FLAGS) & PCI_EXP_FLAGS_TYPE) >> 4 : -1;
}

static void read_config(struct function *f)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/config", f->dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, f->config, CONFIG_SIZE, 0) < PCI_STD_HEADER_SIZEOF)
		die("config");
	close(fd);
}

static void read_bars(struct function *f)
{
	char path[600];
	FILE *file;

	snprintf(path, sizeof(path), "%s/resource", f->dir);
	file = fopen(path, "re");
	if (!file)
		die("resource");
	for (int i = 0; i < BARS; i++) {
		unsigned long long start, end;

		if (fscanf(file, "%llx %llx %*x", &start, &end) == 2 && end)
			f->bars[i] = (struct bar){ .start = start, .size = end - start + 1 };
	}
	fclose(file);
}

static int is_function(const struct dirent *d)
{
	unsigned int domain, bus, device, number;

	return strlen(d->d_name) == BDF_LEN &&
	       sscanf(d->d_name, "%x:%x:%x.%x", &domain, &bus, &device, &number) == 4;
}

/* Add the functions below DIR, each before those under it, in the order of their addresses. */
static void read_below(const char *dir, int parent)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_function, alphasort);

	for (int i = 0; i < n; i++) {
		int index = function_count++;
		struct function *f = &functions[index];

		if (index == FUNCTIONS_MAX)
			die("too-many-functions");
		strcpy(f->bdf, names[i]->d_name);
		snprintf(f->dir, sizeof(f->dir), "%s/%s", dir, names[i]->d_name);
		f->parent = parent;
		read_config(f);
		read_bars(f);
		free(names[i]);
		read_below(f->dir, index);
	}
	if (n >= 0)
		free(names);
}

static void read_functions(void)
{
	glob_t bridges;

	if (glob("/sys/devices/pci*", 0, NULL, &bridges))
		die("no-host-bridge");
	for (size_t i = 0; i < bridges.gl_pathc; i++)
		read_below(bridges.gl_pathv[i], -1);
	globfree(&bridges);
}

/* ---- nodes, devices, BARs ----------------------------------------------------------------------------- */

static void print_nodes(void)
{
	glob_t nodes;
	char cpus[64];

	if (glob("/sys/devices/system/node/node*", 0, NULL, &nodes))
		return;
	for (size_t i = 0; i < nodes.gl_pathc; i++) {
		const char *dir = nodes.gl_pathv[i];
		unsigned long long kib = 0;
		char path[128];
		FILE *f;

		snprintf(path, sizeof(path), "%s/meminfo", dir);
		f = fopen(path, "re");
		if (!f || fscanf(f, "Node %*d MemTotal: %llu", &kib) != 1)
			die("meminfo");
		fclose(f);
		printf("REPORT node id=%s cpus=%s memory_mib=%llu\n", strrchr(dir, 'e') + 1,
		       word(cpus, dir, "cpulist"), kib / 1024);
	}
	globfree(&nodes);
}

static const char *kind(const struct function *f)
{
	switch (express_type(f)) {
	case PCI_EXP_TYPE_ENDPOINT:
		return "endpoint";
	case PCI_EXP_TYPE_ROOT_PORT:
		return "root-port";
	case PCI_EXP_TYPE_UPSTREAM:
		return "switch-up";
	case PCI_EXP_TYPE_DOWNSTREAM:
		return "switch-down";
	case PCI_EXP_TYPE_RC_END:
		return "integrated";
	case -1:
		return "conventional";
	default:
		return "other";
	}
}

/* The upstream port of the nearest switch above, or "-". */
static const char *switch_above(const struct function *f)
{
	for (int i = f->parent; i >= 0; i = functions[i].parent)
		if (express_type(&functions[i]) == PCI_EXP_TYPE_UPSTREAM)
			return functions[i].bdf;
	return "-";
}

static unsigned int class_of(const struct function *f)
{
	return config_word(f, PCI_CLASS_DEVICE);
}

static void print_device(const struct function *f)
{
	char node[64], speed[64], width[64];

	printf("REPORT dev bdf=%s id=%04x:%04x class=%04x%02x kind=%s numa=%s parent=%s switch=%s speed=%s width=%s path=%s\n",
	       f->bdf, config_word(f, PCI_VENDOR_ID), config_word(f, PCI_DEVICE_ID), class_of(f),
	       f->config[PCI_CLASS_PROG], kind(f), word(node, f->dir, "numa_node"),
	       f->parent < 0 ? "-" : functions[f->parent].bdf, switch_above(f), word(speed, f->dir, "current_link_speed"),
	       word(width, f->dir, "current_link_width"), f->dir + strlen("/sys/devices/"));
}

static void print_bars(const struct function *f)
{
	for (int i = 0; i < BARS; i++)
		if (f->bars[i].size)
			printf("REPORT bar bdf=%s bar=%d start=0x%llx size=0x%llx\n", f->bdf, i,
			       (unsigned long long)f->bars[i].start, (unsigned long long)f->bars[i].size);
}

/* ---- the tree, for people --------------------------------------------------------------------------------- */

static int next_child(int parent, int after)
{
	for (int i = after + 1; i < function_count; i++)
		if (functions[i].parent == parent)
			return i;
	return -1;
}

/* INDENT is what is drawn left of the children of PARENT. */
static void print_children(int parent, const char *indent)
{
	for (int i = next_child(parent, parent); i >= 0;) {
		const struct function *f = &functions[i];
		int next = next_child(parent, i);
		char below[128], node[64];

		printf("REPORT tree %s%s-- %s %s %04x:%04x numa=%s\n", indent, next < 0 ? "`" : "|", f->bdf, kind(f),
		       config_word(f, PCI_VENDOR_ID), config_word(f, PCI_DEVICE_ID), word(node, f->dir, "numa_node"));
		snprintf(below, sizeof(below), "%s%s   ", indent, next < 0 ? " " : "|");
		print_children(i, below);
		i = next;
	}
}

/* ---- GPUs and DMA engines --------------------------------------------------------------------------------------- */

/* 32-bit words; see tests/lab/plugin/hgx.c and engine.h. */
enum {
	REG_BOOT_0 = 0x00 / 4,
	REG_SCRATCH = 0x04 / 4,
	REG_RESETS = 0x08 / 4,
	REG_DMA_SRC = 0x10 / 4,
	REG_DMA_DST = 0x18 / 4,
	REG_DMA_LEN = 0x20 / 4,
	REG_DMA_GO = 0x24 / 4,
	REG_DMA_STATUS = 0x28 / 4,
	REG_DMA_READ = 0x30 / 4,
	REG_DMA_WRITTEN = 0x34 / 4,
	DMA_DONE = 1,
};

/* A function with a DMA engine: a GPU, or a VF, which has no memory. */
struct engine {
	const struct function *f;
	volatile uint32_t *regs;
	volatile uint32_t *memory;	/* BAR 2 of a GPU */
};

static struct engine engines[FUNCTIONS_MAX];
static int engine_count;

static void *map_bar(const struct function *f, int bar, off_t offset)
{
	char path[600];
	void *p;
	int fd;

	snprintf(path, sizeof(path), "%s/resource%d", f->dir, bar);
	fd = open(path, O_RDWR | O_CLOEXEC | O_SYNC);
	if (fd < 0)
		die("resource");
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (p == MAP_FAILED)
		die("mmap");
	close(fd);
	return p;
}

/* No driver does it: let the function answer in memory space and be a bus master. */
static void enable(const struct function *f)
{
	uint16_t command = config_word(f, PCI_COMMAND) | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/config", f->dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, &command, sizeof(command), PCI_COMMAND) != sizeof(command))
		die("enable");
	close(fd);
}

/* The clique that QEMU's x-nv-gpudirect-clique puts into a vendor capability "P2P", or -1. */
static int clique(const struct function *f)
{
	for (int at = find_cap(f, first_cap(f), PCI_CAP_ID_VNDR); at;
	     at = find_cap(f, f->config[at + 1] & ~3, PCI_CAP_ID_VNDR))
		if (!memcmp(&f->config[at + 3], "P2P", 3))
			return f->config[at + 6] >> 3 & 0xf;
	return -1;
}

static bool is_gpu(const struct function *f)
{
	return config_word(f, PCI_VENDOR_ID) == NVIDIA && class_of(f) == CLASS_3D;
}

static bool is_vf(const struct function *f)
{
	return config_word(f, PCI_VENDOR_ID) == INTEL && config_word(f, PCI_DEVICE_ID) == IGBVF;
}

static void open_engines(void)
{
	for (int i = 0; i < function_count; i++) {
		const struct function *f = &functions[i];
		struct engine *e = &engines[engine_count];

		if (!is_gpu(f) && !is_vf(f))
			continue;
		enable(f);
		*e = (struct engine){ .f = f };
		e->regs = is_gpu(f) ? map_bar(f, 0, 0) : map_bar(f, VF_ENGINE_BAR, VF_ENGINE_AT);
		e->memory = is_gpu(f) ? map_bar(f, 2, 0) : NULL;
		if (e->memory || e->regs[0] == VF_ENGINE_ID)
			engine_count++;
	}
}

static void print_gpu(const struct engine *gpu)
{
	volatile uint32_t *r = gpu->regs;
	int id = clique(gpu->f);

	r[REG_SCRATCH] = 0x600df00d;
	printf("REPORT gpu bdf=%s boot0=%08x resets=%u scratch=%s clique=", gpu->f->bdf, r[REG_BOOT_0], r[REG_RESETS],
	       r[REG_SCRATCH] == 0x600df00d ? "ok" : "bad");
	printf(id < 0 ? "-\n" : "%d\n", id);
}

/* ---- DMA ------------------------------------------------------------------------------------------------------ */

static uint32_t *source, *target;	/* a locked page each */

static uint64_t physical(const void *p)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, &entry, sizeof(entry), (uintptr_t)p / PAGE * sizeof(entry)) != sizeof(entry))
		die("pagemap");
	close(fd);
	return (entry & ((1ULL << 55) - 1)) * PAGE;
}

static uint32_t *locked_page(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static bool copy(const struct engine *e, uint64_t src, uint64_t dst)
{
	volatile uint32_t *r = e->regs;

	r[REG_DMA_SRC] = src;
	r[REG_DMA_SRC + 1] = src >> 32;
	r[REG_DMA_DST] = dst;
	r[REG_DMA_DST + 1] = dst >> 32;
	r[REG_DMA_LEN] = PAGE;
	r[REG_DMA_GO] = 1;
	return r[REG_DMA_STATUS] == DMA_DONE;
}

/* The text of one of an engine's words about how a copy travelled. */
static const char *route_text(char ret[static 64], uint32_t word)
{
	static const char *const routes[] = { "none", "memory", "direct", "redirected", "blocked" };
	static const char *const rules[] = { "none", "plain", "dt", "ro", "rr", "cr", "root", "sv", "tb", "no-uf" };
	unsigned int route = word & 0xff, rule = word >> 8 & 0xff, port = word >> 16;
	int n;

	if (route >= sizeof(routes) / sizeof(*routes) || rule >= sizeof(rules) / sizeof(*rules))
		die("route-word");
	n = snprintf(ret, 64, "route=%s rule=%s port=", routes[route], rules[rule]);
	if (port)
		snprintf(ret + n, 64 - n, "%02x:%02x.%x", port >> 8, port >> 3 & 0x1f, port & 7);
	else
		snprintf(ret + n, 64 - n, "-");
	return ret;
}

struct outcome {
	bool same;		/* the data came over */
	uint32_t word;		/* how it travelled */
};

/*
 * Let E copy a page from RAM to ADDRESS, or the other way (READ); SEEN maps that. The pattern is another one each time
 * and the target is spoilt first, so that nothing left over from before can pass for a copy.
 */
static struct outcome try_dma(const struct engine *e, bool read, volatile uint32_t *seen, uint64_t address)
{
	static uint32_t seed = 1;
	volatile uint32_t *from = read ? seen : source, *to = read ? source : seen;
	struct outcome ret;

	for (int i = 0; i < PAGE / 4; i++) {
		seed = seed * 1664525 + 1013904223;
		from[i] = seed;
		to[i] = ~seed;
	}
	ret.same = copy(e, read ? address : physical(source), read ? physical(source) : address);
	for (int i = 0; i < PAGE / 4; i++)
		ret.same = ret.same && to[i] == from[i];
	ret.word = e->regs[read ? REG_DMA_READ : REG_DMA_WRITTEN];
	if (!ret.word)	/* it came to nothing: the other half tells why */
		ret.word = e->regs[REG_DMA_READ];
	return ret;
}

static void print_outcome(const char *kind, const struct engine *e, const char *to, bool read, struct outcome o)
{
	char text[64];

	printf("REPORT %s from=%s to=%s op=%s status=%s %s\n", kind, e->f->bdf, to, read ? "read" : "write",
	       o.same ? "ok" : "bad", route_text(text, o.word));
}

static struct outcome try_peer(const struct engine *e, const struct engine *peer, bool read)
{
	return try_dma(e, read, peer->memory, peer->f->bars[2].start);
}

static void test_engines(void)
{
	source = locked_page();
	target = locked_page();
	for (const struct engine *e = engines; e < engines + engine_count; e++) {
		print_outcome("dma", e, "ram", false, try_dma(e, false, target, physical(target)));
		for (const struct engine *peer = engines; peer < engines + engine_count; peer++)
			for (int read = 0; read < 2 && peer->memory && peer != e; read++)
				print_outcome("dma", e, peer->f->bdf, read, try_peer(e, peer, read));
	}
}

/* Print what has changed since the last time of how the VFs' copies to and from the GPUs travel. */
static void watch_routes(void)
{
	static struct outcome last[FUNCTIONS_MAX][FUNCTIONS_MAX][2];
	char up[64], kind[80];

	for (int i = 0; i < engine_count; i++) {
		for (int k = 0; k < engine_count * 2; k++) {
			const struct engine *e = &engines[i], *peer = &engines[k / 2];
			struct outcome now, *old = &last[i][k / 2][k % 2];

			if (e->memory || !peer->memory)
				continue;
			now = try_peer(e, peer, k % 2);
			if (now.same == old->same && now.word == old->word)
				continue;
			*old = now;
			snprintf(kind, sizeof(kind), "route at=%s", word(up, "/proc", "uptime"));
			print_outcome(kind, e, peer->f->bdf, k % 2, now);
		}
	}
}

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

static void report_devices(void)
{
	read_functions();
	print_nodes();
	for (int i = 0; i < function_count; i++)
		print_device(&functions[i]);
	for (int i = 0; i < function_count; i++)
		print_bars(&functions[i]);
	print_children(-1, "");
	open_engines();
	for (int i = 0; i < engine_count; i++)
		if (engines[i].memory)
			print_gpu(&engines[i]);
	test_engines();
}

static bool is_power_button(int fd)
{
	struct input_event event;

	return read(fd, &event, sizeof(event)) == sizeof(event) && event.type == EV_KEY && event.code == KEY_POWER &&
	       event.value == 1;
}

static void wait_for_power_button(void)
{
	struct pollfd fds[16];
	nfds_t n = 0;
	glob_t inputs;

	if (glob("/dev/input/event*", 0, NULL, &inputs))
		die("no-input-device");
	for (size_t i = 0; i < inputs.gl_pathc && n < 16; i++)
		fds[n++] = (struct pollfd){ .fd = open(inputs.gl_pathv[i], O_RDONLY | O_CLOEXEC), .events = POLLIN };
	read_functions();
	open_engines();
	source = locked_page();
	for (;;) {
		watch_routes();
		if (poll(fds, n, WATCH_MS) < 0)
			die("poll");
		for (nfds_t i = 0; i < n; i++)
			if (fds[i].revents && is_power_button(fds[i].fd))
				return;
	}
}

int main(int argc, char **argv)
{
	const char *verb = argc == 2 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(verb, "devices"))
		report_devices();
	else if (!strcmp(verb, "wait"))
		wait_for_power_button();
	else
		return 2;
	return 0;
}
