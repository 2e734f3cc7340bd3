/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/image — a disk image as a file: looked at, copied and hashed at once, so that what was checked is what guests boot. */

#include <stddef.h>
#include <stdint.h>

struct act_image;
struct error;

#define ACT_IMAGE_HEAD 512 /* as much as is looked at */

/* Format and size of what begins with these bytes and is `bytes` long. format NULL: whatever it is; else it must be that. Refused is
 * what is no disk, and a qcow2 file that needs others or was not closed (-EINVAL, with the fix). */
int act_image_look(struct act_image *ret, const unsigned char *head, size_t n, uint64_t bytes, const char *format, struct error *err);

/* Copies source_dir/file to dir/NAME, which nobody can write. sha256: lower-case hex that it must have, or NULL. Nothing is left
 * behind when it fails. -ENOENT: no such file; -EINVAL: not the sum, or as above; -ENOSPC. */
int act_image_copy(struct act_image *ret, const char *dir, const char *name, const char *source_dir, const char *file,
		   const char *format, const char *sha256, struct error *err);
