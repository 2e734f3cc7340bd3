/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Images come from one directory, by file name: no link leads out of it, and a file with a second name is refused, for it may be
 * somebody else's. qcow2 is read as QEMU's docs/interop/qcow2.rst has it, and only its header: a backing or data file would let
 * an image name any file of this host. */
#include "act/image.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "act/act.h"
#include "base/auto.h"
#include "base/error.h"

#define CHUNK (1 << 20)
#define HOLE  (64 << 10) /* zeros of this size are not written */

const char *act_format_text(int format)
{
	return format == ACT_QCOW2 ? "qcow2" : "raw";
}

/* ---- looking ----------------------------------------------------------------------------------------- */

static uint64_t be64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static uint32_t be32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

enum { DIRTY = 1, CORRUPT = 2, DATA_FILE = 4, KNOWN = 0x1f };

/*	 0 magic   4 version   8 backing file offset   16 its length   20 cluster bits   24 size   32 encryption
 *	72 incompatible features (version 3) */
static int look_qcow2(uint64_t *size, const unsigned char *head, size_t n, struct error *err)
{
	uint32_t version = n >= 72 ? be32(head + 4) : 0;
	uint64_t features = version == 3 && n >= 104 ? be64(head + 72) : 0;

	if ((version != 2 && version != 3) || (version == 3 && n < 104) || be32(head + 20) < 9 || be32(head + 20) > 21)
		return error_set(err, -EINVAL, "its qcow2 header is damaged, or of a version that is neither 2 nor 3");
	if (be64(head + 8))
		return error_set(err, -EINVAL, "it has a backing file, and an image must be whole: qemu-img convert -O qcow2 OLD NEW");
	if (features & DATA_FILE)
		return error_set(err, -EINVAL, "its data are in another file, and an image must be whole: qemu-img convert -O qcow2 OLD NEW");
	if (be32(head + 32))
		return error_set(err, -EINVAL, "it is encrypted; velad has no key for it");
	if (features & (DIRTY | CORRUPT))
		return error_set(err, -EINVAL, "it was not closed properly, or is damaged: qemu-img check -r all FILE");
	if (features & ~(uint64_t)KNOWN)
		return error_set(err, -EINVAL, "it needs qcow2 features 0x%llx, which are not known here", (unsigned long long)features);
	*size = be64(head + 24);
	return 0;
}

/* What is surely no disk, by how it begins. */
static const char *other_format(const unsigned char *head, size_t n)
{
	static const struct {
		const char *magic, *name;
	} table[] = {
		{ "\x1f\x8b", "compressed (gzip)" }, { "\xfd" "7zXZ", "compressed (xz)" }, { "\x28\xb5\x2f\xfd", "compressed (zstd)" },
		{ "BZh", "compressed (bzip2)" }, { "PK\x03\x04", "a zip archive" }, { "KDMV", "a VMDK image" }, { "COWD", "a VMDK image" },
		{ "vhdxfile", "a VHDX image" }, { "QED", "a QED image" }, { "<<< ", "a VDI image" }, { "# Disk Descriptor", "a VMDK descriptor" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (n >= strlen(table[i].magic) && memcmp(head, table[i].magic, strlen(table[i].magic)) == 0)
			return table[i].name;
	return NULL;
}

int act_image_look(struct act_image *ret, const unsigned char *head, size_t n, uint64_t bytes, const char *format, struct error *err)
{
	bool qcow2 = n >= 4 && memcmp(head, "QFI\xfb", 4) == 0;
	const char *is = act_format_text(qcow2 ? ACT_QCOW2 : ACT_RAW);
	const char *other = other_format(head, n);
	uint64_t size = bytes;
	int r = 0;

	if (other)
		return error_set(err, -EINVAL, "it is %s; velad takes raw and qcow2: unpack it, or qemu-img convert -O qcow2 OLD NEW", other);
	if (format && strcmp(format, is) != 0)
		return error_set(err, -EINVAL, "it is %s, and not %s as was said", is, format);
	if (qcow2)
		r = look_qcow2(&size, head, n, err);
	if (r == 0 && (size == 0 || size % 512))
		r = error_set(err, -EINVAL, "a disk of %llu bytes is no whole number of sectors", (unsigned long long)size);
	if (r == 0)
		*ret = (struct act_image){ .format = qcow2 ? ACT_QCOW2 : ACT_RAW, .size = bytes, .virtual_size = size };
	return r;
}

/* ---- copying ----------------------------------------------------------------------------------------- */

static int open_source(const char *dir, const char *file, struct stat *st, struct error *err)
{
	const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	autoclose int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	autoclose int fd = -1;

	if (at < 0)
		return error_set(err, -errno, "cannot open %s, which is source in [images] of velad.conf: %s", dir, strerror(errno));
	fd = (int)syscall(SYS_openat2, at, file, &how, sizeof(how));
	if (fd < 0)
		return error_set(err, errno == ENOENT ? -ENOENT : -EINVAL, "cannot open %s in %s: %s", file, dir,
				 errno == ELOOP || errno == EXDEV ? "it is a link; copy the file there" : strerror(errno));
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
		return error_set(err, -EINVAL, "%s in %s is no regular file", file, dir);
	if (st->st_nlink != 1)
		return error_set(err, -EINVAL, "%s in %s has a second name somewhere, and may be somebody else's; copy it there", file, dir);
	return steal_fd(&fd);
}

static bool all_zero(const unsigned char *p, size_t n)
{
	return n && p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static int write_all(int fd, const unsigned char *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			p += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

/* n bytes at `at`; what is all zeros is left out and reads as such. */
static int write_sparse(int fd, const unsigned char *p, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i += HOLE) {
		size_t part = n - i < HOLE ? n - i : HOLE;

		if (all_zero(p + i, part))
			r = lseek(fd, (off_t)part, SEEK_CUR) < 0 ? -errno : 0;
		else
			r = write_all(fd, p + i, part);
	}
	return r;
}

static ssize_t read_full(int fd, unsigned char *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = read(fd, p + have, n - have);

		if (got == 0)
			break;
		if (got < 0 && errno != EINTR)
			return -errno;
		have += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)have;
}

/* Its header is looked at before the rest is read. */
static int copy(struct act_image *ret, int to, int from, uint64_t bytes, const char *format, struct error *err)
{
	autofree unsigned char *buf = malloc(CHUNK);
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sum;
	uint64_t have = 0;
	ssize_t n = CHUNK;
	int r = buf ? 0 : error_set(err, -ENOMEM, "no memory to copy an image");

	sha256_init(&sum);
	while (r == 0 && n == CHUNK) {
		n = read_full(from, buf, CHUNK);
		if (n < 0)
			return error_set(err, -EIO, "cannot read it: %s", strerror((int)-n));
		if (have == 0)
			r = act_image_look(ret, buf, (size_t)n < ACT_IMAGE_HEAD ? (size_t)n : ACT_IMAGE_HEAD, bytes, format, err);
		if (r < 0)
			return r;
		sha256_update(&sum, (size_t)n, buf);
		have += (uint64_t)n;
		r = write_sparse(to, buf, (size_t)n);
		if (r < 0)
			return error_set(err, r == -EFBIG || r == -EDQUOT ? -ENOSPC : r, "cannot write the image: %s", strerror(-r));
	}
	if (r == 0 && have != bytes)
		r = error_set(err, -EBUSY, "it changes while it is read; wait until it is written");
	if (r == 0 && ftruncate(to, (off_t)bytes) < 0)
		r = error_set(err, -errno, "cannot write the image: %s", strerror(errno));
	if (r < 0)
		return r;
	sha256_digest(&sum, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		(void)snprintf(ret->sha256 + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

/* From a file without its name yet to one that is there for good. */
static int publish(struct act_image *ret, int fd, int dir, const char *temporary, const char *name, struct error *err)
{
	struct stat st;

	if (fchmod(fd, 0444) < 0 || fsync(fd) < 0 || renameat(dir, temporary, dir, name) < 0 || fsync(dir) < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno == EDQUOT ? -ENOSPC : -errno, "cannot write the image: %s", strerror(errno));
	ret->mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

int act_image_copy(struct act_image *ret, const char *dir, const char *name, const char *source_dir, const char *file,
		   const char *format, const char *sha256, struct error *err)
{
	autoclose int from = -1, to = -1, at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct act_image image = { 0 };
	char temporary[NAME_MAX + 1];
	struct stat st;
	int r;

	if (at < 0)
		return error_set(err, -errno, "cannot open %s, which is dir in [images] of velad.conf: %s", dir, strerror(errno));
	from = open_source(source_dir, file, &st, err);
	if (from < 0)
		return from;
	(void)snprintf(temporary, sizeof(temporary), ACT_FILE_NEW, name);
	to = openat(at, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return error_set(err, -errno, "cannot write in %s: %s", dir, strerror(errno));
	r = copy(&image, to, from, (uint64_t)st.st_size, format, err);
	if (r == 0 && sha256 && strcmp(sha256, image.sha256) != 0)
		r = error_set(err, -EINVAL, "its SHA-256 is %s, and not %s as was said; get it again", image.sha256, sha256);
	if (r < 0)
		(void)error_prefix(err, "%s", file);
	else
		r = publish(&image, to, at, temporary, name, err);
	if (r < 0)
		(void)unlinkat(at, temporary, 0); /* r is what counts */
	else
		*ret = image;
	return r;
}
