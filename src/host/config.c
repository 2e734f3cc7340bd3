/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Config space through the door: by aligned dwords from a file of sysfs, or from a text host's rows. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/root_own.h"

#define CONFIG_MAX 4096

/* A file of sysfs is as long as the config space whoever asks, but without CAP_SYS_ADMIN its reading ends after the
 * header (pci_read_config(), drivers/pci/pci-sysfs.c). */
static size_t config_size(const struct host_config *c)
{
	size_t sizes[] = { 0, 256, 128, 64 };
	uint32_t dword;
	struct stat st;

	if (c->text)
		return ((const struct text_entry *)c->text)->len & ~(size_t)3;
	if (fstat(c->fd, &st) == 0 && st.st_size > 0 && st.st_size <= CONFIG_MAX)
		sizes[0] = (size_t)st.st_size & ~(size_t)3;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i] && pread(c->fd, &dword, 4, (off_t)sizes[i] - 4) == 4)
			return sizes[i];
	return 0;
}

/* The whole header is worth a look, whatever the reader wants of it. */
static void note_header(struct host_config *c, const char *path)
{
	uint32_t v;

	c->note = config_note_new(&c->root->record, path, config_size(c));
	for (uint16_t off = 0; c->note && off < PCI_STD_HEADER_SIZEOF; off += 4)
		(void)host_config_read(c, off, 1, &v);
}

/* It is being read until it is closed. */
static int open_file(struct host_root *r, const char *path)
{
	int fd = progress_begin(r, path);

	if (fd < 0)
		return fd;
	fd = root_open_asked(r, path);
	if (fd < 0)
		progress_end();
	return fd;
}

int host_config_open(struct host_config *ret, struct host_root *r, const char *fmt, ...)
{
	struct host_config c = { .root = r, .fd = -1 };
	char path[HOST_PATH_MAX];
	int e = PATH_OF(path, fmt);

	if (e < 0)
		return e;
	if (r->text) {
		const struct text_entry *t = text_host_find(r->text, path);

		if (!t || t->type != TEXT_BYTES)
			e = !t ? -ENOENT : t->type == TEXT_ERROR ? -t->error : -EINVAL;
		c.text = t;
	} else {
		c.fd = open_file(r, path);
		e = c.fd < 0 ? c.fd : 0;
	}
	record_error(&r->record, path, e);
	if (e < 0)
		return e;
	if (r->record.host)
		note_header(&c, path);
	*ret = c;
	return 0;
}

static int config_fetch(struct host_config *c, uint16_t off, unsigned n, uint32_t *ret)
{
	const struct text_entry *t = c->text;
	uint8_t *to = (uint8_t *)ret;
	size_t got = 0, want = 4 * n;
	ssize_t r = 0;

	for (; t && got < want && off + got + 4 <= t->len && text_entry_knows(t, off + got); got += 4)
		memcpy(to + got, t->bytes + off + got, 4);
	if (!t) {
		r = pread(c->fd, to, want, off);
		c->root->syscalls++;
		got = r > 0 ? (size_t)r : 0;
	}
	if (got < want)
		return r < 0 ? -errno : -ENODATA;
	c->root->config_dwords += n;
	if (c->note)
		config_note_read(c->note, off, to, want);
	for (unsigned i = 0; i < n; i++)
		ret[i] = le32toh(ret[i]);
	return 0;
}

/* Of a chunk, as many dwords as there are. */
static int config_fill(struct host_config *c, uint16_t off)
{
	ssize_t got = pread(c->fd, c->bytes, c->chunk, off);

	c->root->syscalls++;
	c->at = off;
	c->len = got > 0 ? (uint16_t)(got & ~3) : 0;
	c->root->config_dwords += c->len / 4u;
	return got < 0 ? -errno : 0;
}

int host_config_read(struct host_config *c, uint16_t off, unsigned n, uint32_t *ret)
{
	int r = 0;

	if (!c->chunk || c->text || c->note)
		return config_fetch(c, off, n, ret);
	for (unsigned i = 0; i < n && r == 0; i++, off += 4) {
		if (off < c->at || off >= c->at + c->len)
			r = config_fill(c, off - off % c->chunk);
		if (r == 0 && off + 4 > c->at + c->len)
			r = -ENODATA;
		if (r == 0) {
			memcpy(&ret[i], c->bytes + (off - c->at), 4);
			ret[i] = le32toh(ret[i]);
		}
	}
	return r;
}

void host_config_close(struct host_config *c)
{
	config_note_end(&c->root->record, c->note);
	c->note = NULL;
	if (c->fd >= 0) {
		(void)close(c->fd);
		progress_end();
		c->root->syscalls++;
	}
	c->fd = -1;
}
