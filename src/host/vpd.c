/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VPD is a list of resource data tags (PCI Local Bus 3.0, appendix I): a large one 0x82 with the identifier, one
 * 0x90 with read-only fields, perhaps one 0x91 with writable fields, and the small end tag 0x78. A large tag has a
 * length of two bytes, low one first; a field is a keyword of two characters, a length of one byte, its data. */
#include "host/vpd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "host/inventory.h"
#include "host/root_own.h"

enum tag { TAG_NAME = 0x82, TAG_READ_ONLY = 0x90, TAG_WRITABLE = 0x91, TAG_END = 0x78 };

/* Trailing blanks and zeros pad; NULL: no text, or no memory, which *oom says. */
static const char *text_of(struct arena *arena, const uint8_t *b, size_t len, bool *oom)
{
	char *text;

	while (len && (b[len - 1] == ' ' || b[len - 1] == '\0'))
		len--;
	for (size_t i = 0; i < len; i++)
		if (b[i] < 0x20 || b[i] > 0x7e)
			return NULL;
	text = arena_alloc(arena, len + 1);
	*oom = *oom || !text;
	if (text)
		memcpy(text, b, len);
	return text;
}

/* All bytes from the first to the checksum itself, the first of RV's data, add up to 0. */
static enum vpd_sum sum_of(const uint8_t *bytes, const uint8_t *last)
{
	uint8_t sum = 0;

	for (const uint8_t *p = bytes; p <= last; p++)
		sum = (uint8_t)(sum + *p);
	return sum ? VPD_SUM_BAD : VPD_SUM_OK;
}

static bool key_char(uint8_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static int parse_fields(struct vpd *v, struct arena *arena, const uint8_t *bytes, size_t at, size_t end, bool writable)
{
	bool oom = false;

	while (at < end) {
		const uint8_t *p = bytes + at;
		struct vpd_field *f = &v->field[v->n];

		if (end - at < 3 || end - at - 3 < p[2] || !key_char(p[0]) || !key_char(p[1]))
			return -EBADMSG;
		at += 3u + p[2];
		if (!writable && memcmp(p, "RV", 2) == 0) {
			if (p[2] == 0 || v->sum != VPD_SUM_ABSENT)
				return -EBADMSG;
			v->sum = sum_of(bytes, p + 3);
			continue;
		}
		if (writable && memcmp(p, "RW", 2) == 0)
			continue; /* what is free */
		if (v->n == VPD_FIELDS_MAX)
			return -EBADMSG;
		*f = (struct vpd_field){ .key = { (char)p[0], (char)p[1] }, .writable = writable };
		f->text = text_of(arena, p + 3, p[2], &oom);
		if (oom)
			return -ENOMEM;
		v->n++;
	}
	return 0;
}

/* What may follow what: the tags' ranks rise. */
static int rank(uint8_t tag)
{
	return tag == TAG_NAME ? 1 : tag == TAG_READ_ONLY ? 2 : tag == TAG_WRITABLE ? 3 : 0;
}

int vpd_parse(struct vpd *ret, struct arena *arena, const uint8_t *bytes, size_t len)
{
	struct vpd v = { .field = arena_array(arena, VPD_FIELDS_MAX, sizeof(*v.field)) };
	size_t at = 0;
	bool oom = !v.field;
	int last = 0, r = 0;

	if (oom)
		return -ENOMEM;
	if (len == 0 || bytes[0] == 0x00 || bytes[0] == 0xff)
		return -ENODATA;
	while (r == 0 && at < len && bytes[at] != TAG_END) {
		size_t from = at + 3, size;

		if (rank(bytes[at]) <= last || len - at < 3)
			return -EBADMSG;
		last = rank(bytes[at]);
		size = bytes[at + 1] | (size_t)bytes[at + 2] << 8;
		if (size > len - from)
			return -EBADMSG;
		if (bytes[at] == TAG_NAME)
			v.name = text_of(arena, bytes + from, size, &oom);
		else
			r = parse_fields(&v, arena, bytes, from, from + size, bytes[at] == TAG_WRITABLE);
		at = from + size;
	}
	if (r < 0 || oom)
		return oom ? -ENOMEM : r;
	if (at >= len)
		return -EBADMSG; /* no end tag */
	*ret = v;
	return 0;
}

int host_vpd_read(struct vpd *ret, struct host_root *root, struct bdf bdf, struct arena *arena, struct error *err)
{
	autofree uint8_t *bytes = malloc(VPD_BYTES_MAX);
	char name[BDF_TEXT_MAX];
	size_t len = 0;
	int r;

	if (!bytes)
		return error_set(err, -ENOMEM, "no memory for the VPD of %s", bdf_text(name, bdf));
	r = host_read_bytes(root, bytes, VPD_BYTES_MAX, &len, "sys/bus/pci/devices/%s/vpd", bdf_text(name, bdf));
	if (r == -EOPNOTSUPP)
		return error_set(err, -EINVAL, "this text host has no VPD: serial numbers are not in dumps");
	if (r == -EACCES)
		return error_set(err, r, "cannot read the VPD of %s: only root may", name);
	if (r < 0)
		return error_set(err, r, "cannot read the VPD of %s: %s", name, r == -ENOENT ? "it has none" : strerror(-r));
	r = vpd_parse(ret, arena, bytes, len);
	if (r == -ENODATA)
		return error_set(err, r, "the VPD of %s is empty", name);
	if (r == -EBADMSG)
		return error_set(err, r, "the VPD of %s is no list of resource data tags", name);
	return r < 0 ? error_set(err, r, "no memory for the VPD of %s", name) : 0;
}

/* ---- serial numbers --------------------------------------------------------------------------------------- */

#define SERIAL_BYTES_MAX 4096 /* of VPD: the read-only fields come first */

static bool is_of_use(const char *text)
{
	size_t len = text ? strlen(text) : 0;

	return len && len < VPD_SERIAL_MAX - strlen(VPD_SERIAL_MARK) && !strchr(text, ' ') && strspn(text, "0") < len;
}

int vpd_serial(char ret[VPD_SERIAL_MAX], const uint8_t *bytes, size_t len)
{
	struct arena arena = { 0 };
	struct vpd v = { 0 };
	int r = vpd_parse(&v, &arena, bytes, len), found = -ENODATA;

	for (size_t i = 0; r == 0 && i < v.n && v.sum != VPD_SUM_BAD; i++) {
		const struct vpd_field *f = &v.field[i];

		if (f->writable || strcmp(f->key, "SN") != 0 || !is_of_use(f->text))
			continue;
		(void)snprintf(ret, VPD_SERIAL_MAX, VPD_SERIAL_MARK "%s", f->text);
		found = 0;
		break;
	}
	arena_done(&arena);
	return r < 0 ? r : found;
}

struct vpd_known {
	struct bdf bdf;
	ino_t      ino; /* of its directory: another one of a device that was removed and came again (kernfs_new_node(), fs/kernfs/dir.c) */
	char       serial[VPD_SERIAL_MAX];
};

/* 0: it is not there, or a text host's, which does not change. */
static ino_t inode(struct host_root *root, const char *dir)
{
	struct stat st = { 0 };
	int fd = root->text ? -1 : root_open(root, dir, O_PATH | O_DIRECTORY);

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		st.st_ino = 0;
	(void)close(fd);
	root->syscalls += 2;
	return st.st_ino;
}

/* The lock is held. NULL: it was not read yet. */
static struct vpd_known *find(struct vpd_seen *s, struct bdf bdf)
{
	for (size_t i = 0; i < s->n; i++)
		if (bdf_eq(s->known[i].bdf, bdf))
			return &s->known[i];
	return NULL;
}

/* The lock is held. Without memory it is read again. */
static void keep(struct vpd_seen *s, const struct vpd_known *k)
{
	struct vpd_known *there = find(s, k->bdf);

	if (!there && s->n == s->size) {
		size_t size = s->size ? 2 * s->size : 16;
		struct vpd_known *more = realloc(s->known, size * sizeof(*more));

		if (!more)
			return;
		s->known = more;
		s->size = size;
	}
	*(there ? there : &s->known[s->n++]) = *k;
}

/* True: there is nothing more to be had. Not so where nobody could be asked. */
static bool read_serial(struct host_root *root, char ret[VPD_SERIAL_MAX], const char *dir)
{
	autofree uint8_t *bytes = malloc(SERIAL_BYTES_MAX);
	size_t len = 0;
	int r = bytes ? host_read_bytes(root, bytes, SERIAL_BYTES_MAX, &len, "%s/vpd", dir) : -ENOMEM;

	if (r == 0)
		r = vpd_serial(ret, bytes, len);
	return r != -EACCES && r != -ENOTCONN && r != -ETIMEDOUT && r != -ENOMEM;
}

void host_vpd_serial(char ret[VPD_SERIAL_MAX], struct host_root *root, struct bdf bdf, const char *dir)
{
	struct vpd_known k = { .bdf = bdf }, *there;
	struct vpd_seen *s = &root->vpd;
	bool known;

	k.ino = inode(root, dir);
	(void)pthread_mutex_lock(&s->lock);
	there = find(s, bdf);
	known = there && k.ino && there->ino == k.ino;
	if (known)
		k = *there;
	(void)pthread_mutex_unlock(&s->lock);
	if (!known && read_serial(root, k.serial, dir) && k.ino) {
		(void)pthread_mutex_lock(&s->lock);
		keep(s, &k);
		(void)pthread_mutex_unlock(&s->lock);
	}
	memcpy(ret, k.serial, VPD_SERIAL_MAX);
}

const char *host_serial_text(char ret[VPD_SERIAL_MAX], const struct host_facts *f)
{
	if (!*pcicap_serial_text(ret, &f->cap) && f->vpd_serial)
		(void)snprintf(ret, VPD_SERIAL_MAX, "%s", f->vpd_serial);
	return ret;
}

void host_vpd_want(struct host_root *root)
{
	root->vpd.wanted = true;
}
