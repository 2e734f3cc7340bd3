/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/answer — facts that no file holds (room-private). What devlink, lldpd and fmpm answer on the machine is
 * put under a path, read from there by code that does not know who was asked, and so recorded in dumps; on a
 * text host or another root the same path is a file.
 *
 *   answers/devlink/pci/0000:17:00.0/driver                         mlx5_core
 *   answers/devlink/pci/0000:17:00.0/{running,stored,fixed}/fw      28.39.1002
 *   answers/lldp/ens1np0/{chassis-id,chassis-name,port-id,port-descr}
 *   answers/fmpm/partitions                                         what fmpm -l prints
 *
 * Nobody there to ask, no permission, no answer in time: there is no file. */

#include <stddef.h>

struct arena;
struct bdf;
struct host_root;
struct text_host;

struct answers {
	struct host_root *root; /* borrowed */
	struct text_host *text; /* owned; of the machine. NULL: the root has the files */
};

int  answers_init(struct answers *a, struct host_root *root); /* -ENOMEM */
void answers_done(struct answers *a);

void answer_put(struct answers *a, const char *value, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As host_read_all. */
int  answer_read(struct answers *a, char **ret, struct arena *arena, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Who is asked. Each returns when it has its answers or has waited for about ANSWER_MS; none fails. */
#define ANSWER_MS 1000
void devlink_ask(struct answers *a, const struct bdf *nic, size_t n);
#define LLDPD_SOCKET "/run/lldpd.socket" /* as lldpd is built unless told otherwise; Debian too */
void lldp_ask(struct answers *a, const char *path);
void fmpm_ask(struct answers *a, const char *tool, const char *socket);
