/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* tree — a text host as a directory that a test changes as a kernel would: bind, VFs, remove, rescan. */

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/file.h"
#include "host/text.h"
#include "support.h"

struct tree {
	char              dir[64];
	struct text_host *text; /* as it was at first */
};

static inline const char *tree_path(const struct tree *t, const char *path)
{
	static char buf[8][1024];
	static unsigned n;

	n = (n + 1) % 8;
	assert_true(snprintf(buf[n], sizeof(buf[n]), "%s/%s", t->dir, path) < (int)sizeof(buf[n]));
	return buf[n];
}

static inline void tree_write(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
		fail_msg("%s: %s", path, strerror(errno));
}

/* `path` with all directories above it. */
static inline const char *tree_place(const struct tree *t, const char *path)
{
	char *p = (char *)tree_path(t, path), *start = p + strlen(t->dir);

	if (access(p, F_OK) == 0)
		return p;
	for (char *slash = start; (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		(void)mkdir(p, 0755);
		*slash = '/';
	}
	return p;
}

static inline void tree_put(const struct tree *t, const char *path, const char *text)
{
	const char *p = tree_place(t, path);

	tree_write(p, text, strlen(text));
}

static inline void tree_link(const struct tree *t, const char *path, const char *target)
{
	const char *p = tree_place(t, path);

	(void)unlink(p);
	if (symlink(target, p) < 0)
		fail_msg("%s: %s", p, strerror(errno));
}

static inline void tree_entry(const struct tree *t, const struct text_entry *e)
{
	char line[8192];

	if (e->type == TEXT_LINK) {
		tree_link(t, e->path, e->value);
	} else if (e->type == TEXT_DIR) {
		(void)mkdir(tree_place(t, e->path), 0755);
	} else if (e->type == TEXT_BYTES) {
		tree_write(tree_place(t, e->path), e->bytes, e->len);
	} else {
		assert_true(snprintf(line, sizeof(line), "%s\n", e->value) < (int)sizeof(line));
		tree_put(t, e->path, line);
	}
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void tree_remove(const char *path)
{
	assert_int_equal(nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void tree_new(struct tree *t, const char *host)
{
	struct error err = ERROR_INIT;
	autofree char *text = NULL;
	char path[512];
	size_t len;

	(void)strcpy(t->dir, "/tmp/velad-tree-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", host);
	assert_int_equal(file_read(&text, &len, path, 1u << 26), 0);
	assert_int_equal(text_host_parse(&t->text, text, len, path, &err), 0);
	for (size_t i = 0; i < t->text->n; i++)
		tree_entry(t, &t->text->entry[i]);
}

static inline void tree_free(struct tree *t)
{
	tree_remove(t->dir);
	text_host_free(t->text);
}

/* ---- functions -------------------------------------------------------------------------------------- */

/* Its directory, without the root; false: it is not there. */
static inline bool tree_function(const struct tree *t, char dir[512], const char *bdf)
{
	char link[64], target[400];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "sys/bus/pci/devices/%s", bdf);
	n = readlink(tree_path(t, link), target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	(void)snprintf(dir, 512, "sys/%s", target + strlen("../../../"));
	return true;
}

static inline void tree_attr(const struct tree *t, const char *dir, const char *name, const char *text)
{
	char path[640];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	tree_put(t, path, text);
}

/* driver "": unbound. As dev_uevent() has it, DRIVER= comes first. */
static inline void tree_bind(const struct tree *t, const char *bdf, const char *driver)
{
	char dir[512], path[640], line[4096];
	autofree char *old = NULL;
	const char *rest;
	size_t len;

	assert_true(tree_function(t, dir, bdf));
	(void)snprintf(path, sizeof(path), "%s/uevent", dir);
	assert_int_equal(file_read(&old, &len, tree_path(t, path), 4096), 0);
	rest = strncmp(old, "DRIVER=", 7) == 0 ? strchr(old, '\n') + 1 : old;
	(void)snprintf(line, sizeof(line), "%s%s%s%s", *driver ? "DRIVER=" : "", driver, *driver ? "\n" : "", rest);
	tree_put(t, path, line);
}

static inline void tree_unlink_function(const struct tree *t, const char *bdf)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bdf);
	(void)unlink(tree_path(t, path));
}

/* pci_stop_and_remove_bus_device(): with all below it. */
static inline void tree_drop(const struct tree *t, const char *bdf)
{
	char dir[512];

	assert_true(tree_function(t, dir, bdf));
	for (size_t i = 0; i < t->text->n; i++) {
		const struct text_entry *e = &t->text->entry[i];
		const char *name = e->path + strlen("sys/bus/pci/devices/");
		size_t n = strlen(dir) - strlen("sys/");

		if (strncmp(e->path, "sys/bus/pci/devices/", 20) == 0 && strncmp(e->value + 9, dir + 4, n) == 0 &&
		    (e->value[9 + n] == '/' || !e->value[9 + n]))
			tree_unlink_function(t, name);
	}
	tree_remove(tree_path(t, dir));
}

/* As it was at first. */
static inline void tree_restore(const struct tree *t, const char *bdf)
{
	char link[64], dir[512];
	const struct text_entry *e;
	size_t n;

	(void)snprintf(link, sizeof(link), "sys/bus/pci/devices/%s", bdf);
	e = text_host_find(t->text, link);
	assert_non_null(e);
	(void)snprintf(dir, sizeof(dir), "sys/%s/", e->value + strlen("../../../"));
	n = strlen(dir);
	tree_entry(t, e);
	for (size_t i = text_host_from(t->text, dir); i < t->text->n && strncmp(t->text->entry[i].path, dir, n) == 0; i++)
		if (strncmp(t->text->entry[i].path + n, "0000:", 5) != 0) /* what is below comes by itself */
			tree_entry(t, &t->text->entry[i]);
}

static inline void tree_vf_name(char bdf[BDF_TEXT_MAX], const char *pf, unsigned i)
{
	struct bdf b;

	assert_true(bdf_add(&b, test_bdf(pf), i + 1)); /* First VF Offset 1, VF Stride 1, as tests/hosts/xe9680 has them */
	(void)bdf_text(bdf, b);
}

static inline void tree_vf(const struct tree *t, const char *pf, unsigned i)
{
	char dir[512], up[512], bdf[BDF_TEXT_MAX], name[64], text[700];

	tree_vf_name(bdf, pf, i);
	assert_true(tree_function(t, dir, pf));
	(void)snprintf(name, sizeof(name), "virtfn%u", i);
	(void)snprintf(text, sizeof(text), "%.480s/%s", dir, name);
	(void)snprintf(up, sizeof(up), "../%s", bdf);
	tree_link(t, text, up);
	(void)snprintf(strrchr(dir, '/'), 32, "/%s", bdf);
	tree_attr(t, dir, "uevent", "PCI_CLASS=20000\nPCI_ID=15B3:101E\nPCI_SUBSYS_ID=15B3:0000\n");
	tree_attr(t, dir, "numa_node", "0\n");
	(void)snprintf(text, sizeof(text), "%.480s/iommu_group", dir);
	(void)snprintf(name, sizeof(name), "../../../../kernel/iommu_groups/%u", 200 + i);
	tree_link(t, text, name);
	(void)snprintf(text, sizeof(text), "%.480s/physfn", dir);
	(void)snprintf(up, sizeof(up), "../%s", pf);
	tree_link(t, text, up);
	(void)snprintf(name, sizeof(name), "sys/bus/pci/devices/%s", bdf);
	(void)snprintf(text, sizeof(text), "../../../%s", dir + strlen("sys/"));
	tree_link(t, name, text);
}

static inline void tree_vfs(const struct tree *t, const char *pf, unsigned was, unsigned now)
{
	char dir[512], bdf[BDF_TEXT_MAX], text[600];

	assert_true(tree_function(t, dir, pf));
	for (unsigned i = 0; i < was; i++) {
		(void)snprintf(text, sizeof(text), "%s/virtfn%u", dir, i);
		assert_int_equal(unlink(tree_path(t, text)), 0);
		tree_vf_name(bdf, pf, i);
		tree_unlink_function(t, bdf);
		(void)snprintf(text, sizeof(text), "%.*s/%s", (int)(strrchr(dir, '/') - dir), dir, bdf);
		tree_remove(tree_path(t, text));
	}
	for (unsigned i = 0; i < now; i++)
		tree_vf(t, pf, i);
	(void)snprintf(text, sizeof(text), "%u\n", now);
	tree_attr(t, dir, "sriov_numvfs", text);
}

/* One byte of its config space. */
static inline void tree_poke(const struct tree *t, const char *bdf, unsigned at, unsigned char value)
{
	char dir[512], path[640];
	int fd;

	assert_true(tree_function(t, dir, bdf));
	(void)snprintf(path, sizeof(path), "%s/config", dir);
	fd = open(tree_path(t, path), O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &value, 1, at), 1);
	(void)close(fd);
}
