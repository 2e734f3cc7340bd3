/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads sockets and cores (Documentation/ABI/stable/sysfs-devices-system-cpu). One list per socket and one per
 * core say it all, so the files of a CPU that is already in a list are not opened. A list that contradicts
 * another makes the whole unknown: guests are pinned by it. */
#include <errno.h>

#include "base/parse.h"
#include "host/read.h"

#define CPU_DIR "sys/devices/system/cpu"

struct cpu_reader {
	struct inventory *inv;
	struct host_root *root;
	struct host_cpus *cpus;
	bool broken, missing;
};

/* New name first (Linux 5.3, topology/core_cpus_list), then the old one. */
static int read_list(struct cpu_reader *rd, struct cpuset *ret, int cpu, const char *name, const char *old)
{
	char text[4096];
	int r = host_read(rd->root, text, sizeof(text), CPU_DIR "/cpu%d/topology/%s", cpu, name);

	if (r == -ENOENT)
		r = host_read(rd->root, text, sizeof(text), CPU_DIR "/cpu%d/topology/%s", cpu, old);
	if (r < 0) {
		rd->missing = true;
		return r;
	}
	if (cpuset_parse(ret, text) < 0 || !cpuset_has(ret, (unsigned)cpu)) {
		rd->broken = true;
		return -EINVAL;
	}
	return 0;
}

/* Takes the CPUs of one list out of those that are left; they must all be there. */
static bool take(struct cpu_reader *rd, struct cpuset *left, const struct cpuset *list)
{
	for (unsigned i = 0; i < CPUSET_MAX / 64; i++) {
		if (list->word[i] & ~left->word[i]) {
			rd->broken = true;
			return false;
		}
		left->word[i] &= ~list->word[i];
	}
	return true;
}

static void read_packages(struct cpu_reader *rd)
{
	struct host_cpus *cpus = rd->cpus;
	struct cpuset left = cpus->online;

	for (int cpu = -1; (cpu = cpuset_next(&left, cpu)) >= 0;) {
		struct host_package *p = &cpus->package[cpus->npackages];
		char text[32];
		int64_t id = -1;

		if (read_list(rd, &p->cpus, cpu, "package_cpus_list", "core_siblings_list") < 0 ||
		    !take(rd, &left, &p->cpus))
			return;
		if (host_read(rd->root, text, sizeof(text), CPU_DIR "/cpu%d/topology/physical_package_id", cpu) < 0 ||
		    parse_int(&id, text, -1, INT32_MAX) < 0)
			id = -1;
		p->id = (int)id;
		cpus->npackages++;
	}
}

/* smt/active is 0 where no core has two threads online (kernel/cpu.c): then no core needs to be asked. */
static bool without_smt(struct cpu_reader *rd)
{
	uint64_t active = 1;

	return host_read_uint(rd->root, &active, 10, 1, CPU_DIR "/smt/active") == 0 && !active;
}

/* As take(), and the CPUs go to the core. */
static bool take_core(struct cpu_reader *rd, struct cpuset *left, const struct cpuset *list, struct host_core *core)
{
	if (!take(rd, left, list))
		return false;
	for (unsigned i = 0; i < CPUSET_MAX / 64; i++)
		for (uint64_t rest = list->word[i]; rest; rest &= rest - 1) {
			if (core->ncpus == HOST_CORE_CPUS) {
				rd->broken = true;
				return false;
			}
			core->cpu[core->ncpus++] = (uint16_t)(i * 64 + (unsigned)__builtin_ctzll(rest));
		}
	return true;
}

static void read_cores(struct cpu_reader *rd)
{
	bool single = without_smt(rd);
	struct host_cpus *cpus = rd->cpus;
	struct cpuset left = cpus->online;

	for (int cpu = -1; (cpu = cpuset_next(&left, cpu)) >= 0;) {
		struct cpuset list = { 0 };

		if (single)
			cpuset_add(&list, (unsigned)cpu);
		else if (read_list(rd, &list, cpu, "core_cpus_list", "thread_siblings_list") < 0)
			return;
		if (!take_core(rd, &left, &list, &cpus->core[cpus->ncores]))
			return;
		cpus->ncores++;
	}
}

int host_cpu_read(struct inventory *inv, struct host_root *root)
{
	struct cpu_reader rd = { .inv = inv, .root = root, .cpus = &inv->system.cpus };
	struct host_cpus *cpus = rd.cpus;
	char text[4096];
	unsigned n;
	int r = host_read(root, text, sizeof(text), CPU_DIR "/online");

	if (r < 0)
		return r == -ENOENT
			       ? 0
			       : host_finding_add(inv, "cpu.unknown", BDF_NONE, "cannot read which CPUs are online");
	if (cpuset_parse(&cpus->online, text) < 0 || !(n = cpuset_count(&cpus->online)))
		return host_finding_add(inv, "cpu.unknown", BDF_NONE, "the list of online CPUs is no CPU list");
	cpus->online_known = true;
	cpus->package = arena_array(&inv->arena, n, sizeof(*cpus->package));
	cpus->core = arena_array(&inv->arena, n, sizeof(*cpus->core));
	if (!cpus->package || !cpus->core)
		return -ENOMEM;
	read_packages(&rd);
	if (!rd.broken && !rd.missing)
		read_cores(&rd);
	if (rd.broken || rd.missing)
		cpus->npackages = cpus->ncores = 0;
	return !rd.broken ? 0
			  : host_finding_add(inv, "cpu.topology-broken", BDF_NONE,
					     "the kernel's lists of sockets and cores contradict each other, so which "
					     "CPUs share a core is unknown");
}
