/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Disks: each mounted or swapped device number is followed through sys/dev/block to the functions below it. Network: the
 * interfaces below the function, against the addresses and routes of this network namespace. */
#include "helper/used.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

#define STACK_MAX 8 /* of disks on disks */

struct look {
	struct host_root *root;  /* borrowed */
	const char       *path;  /* of the function */
	struct arena      arena; /* owned */
	char              how[256];
};

/* ---- disks -------------------------------------------------------------------------------------------- */

/* "sys/devices/pci0000:00/..." of a link in sys/dev/block or sys/class/block, which leads up and then to devices. */
static bool device_of(char dir[HOST_PATH_MAX], const char *link)
{
	const char *at = strstr(link, "devices/");

	return at && (size_t)snprintf(dir, HOST_PATH_MAX, "sys/%s", at) < HOST_PATH_MAX;
}

static bool is_below(const char *dir, const char *path)
{
	size_t n = strlen(path);

	return strncmp(dir, path, n) == 0 && (dir[n] == '/' || !dir[n]);
}

static bool disk_is_below(struct look *l, const char *dir, unsigned depth);

/* Of device mapper and md: the disks that it is made of. */
static bool slaves_are_below(struct look *l, const char *dir, unsigned depth)
{
	struct host_names names = { 0 };
	char link[HOST_PATH_MAX], slave[HOST_PATH_MAX];

	if (host_list(l->root, &names, &l->arena, "%s/slaves", dir) < 0)
		return false;
	for (size_t i = 0; i < names.n; i++)
		if (host_link(l->root, link, sizeof(link), "sys/class/block/%s", names.name[i]) == 0 && device_of(slave, link) &&
		    disk_is_below(l, slave, depth + 1))
			return true;
	return false;
}

/* An NVMe namespace with several paths lies below its subsystem, which has a link to each controller
 * (drivers/nvme/host/multipath.c). */
static bool controllers_are_below(struct look *l, const char *dir)
{
	struct host_names names = { 0 };
	char link[HOST_PATH_MAX], controller[HOST_PATH_MAX], subsystem[HOST_PATH_MAX];
	const char *at = strstr(dir, "/nvme-subsys"), *end;

	end = at ? strchr(at + 1, '/') : NULL;
	if (!end)
		return false;
	(void)snprintf(subsystem, sizeof(subsystem), "%.*s", (int)(end - dir), dir);
	if (host_list(l->root, &names, &l->arena, "%s", subsystem) < 0)
		return false;
	for (size_t i = 0; i < names.n; i++)
		if (strncmp(names.name[i], "nvme", 4) == 0 &&
		    host_link(l->root, link, sizeof(link), "%s/%s", subsystem, names.name[i]) == 0) {
			/* "../../../pci0000:00/.../nvme/nvme0": relative to devices/virtual/nvme-subsystem/X */
			const char *pci = strstr(link, "pci");

			(void)snprintf(controller, sizeof(controller), "sys/devices/%.*s", HOST_PATH_MAX - 16, pci ? pci : link);
			if (is_below(controller, l->path))
				return true;
		}
	return false;
}

static bool disk_is_below(struct look *l, const char *dir, unsigned depth)
{
	char whole[HOST_PATH_MAX];

	if (is_below(dir, l->path))
		return true;
	if (depth >= STACK_MAX)
		return false;
	if (slaves_are_below(l, dir, depth) || controllers_are_below(l, dir))
		return true;
	/* a partition has no slaves, its disk has */
	(void)snprintf(whole, sizeof(whole), "%s", dir);
	*strrchr(whole, '/') = '\0';
	return strstr(whole, "/block/") && slaves_are_below(l, whole, depth);
}

static bool number_is_below(struct look *l, const char *number)
{
	char link[HOST_PATH_MAX], dir[HOST_PATH_MAX];

	return host_link(l->root, link, sizeof(link), "sys/dev/block/%s", number) == 0 && device_of(dir, link) && disk_is_below(l, dir, 0);
}

/* "/dev/nvme0n1p2"; a name of /dev/mapper is a link to dm-N, which the device number has told already. */
static bool node_is_below(struct look *l, const char *node)
{
	char link[HOST_PATH_MAX], dir[HOST_PATH_MAX];

	return strncmp(node, "/dev/", 5) == 0 && strlen(node) < 128 &&
	       host_link(l->root, link, sizeof(link), "sys/class/block/%s", node + 5) == 0 && device_of(dir, link) && disk_is_below(l, dir, 0);
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw" (proc_pid_mountinfo(5)); btrfs has a number of its own,
 * but names a device. */
static bool mount_is_below(struct look *l, char *line)
{
	char *word[5] = { NULL }, *after = strstr(line, " - "), *at = line;

	if (after) {
		*after = '\0';
		after += 3;
		(void)strsep(&after, " ");
	}
	for (size_t i = 0; i < 5; i++)
		word[i] = strsep(&at, " ");
	if (!word[4] || !after || !(number_is_below(l, word[2]) || node_is_below(l, strsep(&after, " "))))
		return false;
	(void)snprintf(l->how, sizeof(l->how), "the file system at %s lies on it", word[4]);
	return true;
}

static int look_at_disks(struct look *l, struct error *err)
{
	char *text = NULL, *line;
	int r = host_read_all(l->root, &text, &l->arena, "proc/self/mountinfo");

	if (r < 0 && (r != -ENOENT || host_root_is_machine(l->root))) /* a simulated machine may mount nothing */
		return error_set(err, -EIO, "cannot read which file systems are mounted: %s", strerror(-r));
	while (r == 0 && (line = strsep(&text, "\n")))
		if (mount_is_below(l, line))
			return 0;
	r = host_read_all(l->root, &text, &l->arena, "proc/swaps");
	while (r == 0 && (line = strsep(&text, "\n"))) {
		char *node = strsep(&line, " \t");

		if (node_is_below(l, node)) {
			(void)snprintf(l->how, sizeof(l->how), "the host swaps to %.200s", node);
			return 0;
		}
	}
	return 0;
}

/* ---- network ------------------------------------------------------------------------------------------ */

/* proc/net/route: a line begins with the interface; each IPv4 address has a route to its own network. */
static bool has_route(struct look *l, const char *name)
{
	char *text = NULL, *line;
	size_t n = strlen(name);

	if (host_read_all(l->root, &text, &l->arena, "proc/net/route") < 0)
		return false;
	while ((line = strsep(&text, "\n")))
		if (strncmp(line, name, n) == 0 && line[n] == '\t')
			return true;
	return false;
}

/* proc/net/if_inet6: address, index, prefix length, scope, flags, interface; scope 20 is link-local, which any interface
 * that is up gives itself. */
static bool has_address6(struct look *l, const char *name)
{
	char *text = NULL, *line;

	if (host_read_all(l->root, &text, &l->arena, "proc/net/if_inet6") < 0)
		return false;
	while ((line = strsep(&text, "\n"))) {
		char scope[3], of[32];

		if (sscanf(line, "%*32s %*2s %*2s %2s %*2s %31s", scope, of) == 2 && strcmp(of, name) == 0 && strcmp(scope, "20") != 0)
			return true;
	}
	return false;
}

static bool has_master(struct look *l, const char *name)
{
	char link[HOST_PATH_MAX];

	return host_link(l->root, link, sizeof(link), "%s/net/%s/master", l->path, name) == 0;
}

static void look_at_network(struct look *l)
{
	struct host_names names = { 0 };

	if (host_list(l->root, &names, &l->arena, "%s/net", l->path) < 0)
		return; /* not a network function */
	for (size_t i = 0; i < names.n && !l->how[0]; i++) {
		const char *name = names.name[i];

		if (has_route(l, name) || has_address6(l, name))
			(void)snprintf(l->how, sizeof(l->how), "the host's network interface %.64s has an address or a route", name);
		else if (has_master(l, name))
			(void)snprintf(l->how, sizeof(l->how), "the host's network interface %.64s belongs to a bridge or bond", name);
	}
}

int used_by_host(struct host_root *root, const char *path, struct bdf fn, struct error *err)
{
	struct look l = { .root = root, .path = path };
	char name[BDF_TEXT_MAX];
	int r = look_at_disks(&l, err);

	if (r == 0 && !l.how[0])
		look_at_network(&l);
	arena_done(&l.arena);
	return r == 0 && l.how[0] ? error_set(err, -EBUSY, "%s: the host uses it: %s", bdf_text(name, fn), l.how) : r;
}
