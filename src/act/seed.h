/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/seed — the disk that cloud-init reads (its data source NoCloud): an ISO 9660 file system with a few small files. */

struct act_seed;
struct error;

/* Writes dir/NAME, for its owner only: the files hold secrets. Whole or not at all. */
int act_seed_write(const char *dir, const char *name, const struct act_seed *seed, struct error *err);
