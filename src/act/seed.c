/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "act/seed.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/act.h"
#include "base/auto.h"
#include "base/error.h"

AUTO_DEFINE(struct archive *, archive_write_free);
AUTO_DEFINE(struct archive_entry *, archive_entry_free);

static int archive_problem(struct archive *a, struct error *err)
{
	int r = archive_errno(a) == ENOSPC || archive_errno(a) == EDQUOT ? -ENOSPC : archive_errno(a) == ENOMEM ? -ENOMEM : -EIO;

	return error_set(err, r, "cannot write the seed: %s", archive_error_string(a));
}

static int add_file(struct archive *a, const char *name, const char *text, struct error *err)
{
	auto_(archive_entry_free) struct archive_entry *e = archive_entry_new();
	size_t n = strlen(text);

	if (!e)
		return error_set(err, -ENOMEM, "no memory for a seed");
	archive_entry_set_pathname(e, name);
	archive_entry_set_size(e, (la_int64_t)n);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0444);
	archive_entry_set_mtime(e, 0, 0); /* the same seed is the same bytes, but for the volume's own date */
	if (archive_write_header(a, e) != ARCHIVE_OK || archive_write_data(a, text, n) != (la_ssize_t)n)
		return archive_problem(a, err);
	return 0;
}

/* ISO 9660 alone would call them USER_DAT.;1 and so on (cloud-init, NoCloud: "must contain user-data and meta-data"). */
static int write_iso(int fd, const struct act_seed *seed, struct error *err)
{
	const struct {
		const char *name, *text; /* NULL: no such file */
	} file[] = {
		{ "meta-data", seed->meta_data },
		{ "user-data", seed->user_data ? seed->user_data : "#cloud-config\n" },
		{ "vendor-data", seed->vendor_data },
		{ "network-config", seed->network },
	};
	auto_(archive_write_free) struct archive *a = archive_write_new();
	int r = 0;

	if (!a)
		return error_set(err, -ENOMEM, "no memory for a seed");
	if (archive_write_set_format_iso9660(a) != ARCHIVE_OK || archive_write_set_options(a, "volume-id=cidata,joliet,rockridge") != ARCHIVE_OK ||
	    archive_write_open_fd(a, fd) != ARCHIVE_OK)
		return archive_problem(a, err);
	for (size_t i = 0; i < ARRAY_SIZE(file) && r == 0; i++)
		if (file[i].text)
			r = add_file(a, file[i].name, file[i].text, err);
	if (r == 0 && archive_write_close(a) != ARCHIVE_OK)
		r = archive_problem(a, err);
	return r;
}

int act_seed_write(const char *dir, const char *name, const struct act_seed *seed, struct error *err)
{
	autoclose int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	char temporary[NAME_MAX + 1];
	int r;

	if (at < 0)
		return error_set(err, -errno, "cannot open %s, which is dir in [images] of velad.conf: %s", dir, strerror(errno));
	(void)snprintf(temporary, sizeof(temporary), ACT_FILE_NEW, name);
	(void)unlinkat(at, temporary, 0); /* of a velad that was ended; QEMU's user may own it */
	fd = openat(at, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, -errno, "cannot write in %s: %s", dir, strerror(errno));
	r = write_iso(fd, seed, err);
	if (r == 0 && (fsync(fd) < 0 || renameat(at, temporary, at, name) < 0 || fsync(at) < 0))
		r = error_set(err, -errno, "cannot write the seed: %s", strerror(errno));
	if (r < 0)
		(void)unlinkat(at, temporary, 0); /* r is what counts */
	return r;
}
