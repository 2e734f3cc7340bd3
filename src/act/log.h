/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/log — the logs of guests' consoles, which libvirt's virtlogd writes as root, for root's eyes: NAME.log, and what it has put
 * away of it, NAME.log.0 the youngest (virtlogd.conf(5): max_size, max_backups). */

struct error;

#define ACT_LOG_FILES 16 /* of one guest, at most */

/* A descriptor; file 0 is the youngest. -ENOENT: there is none of that number. */
int act_log_open(const char *dir, const char *name, unsigned file, struct error *err);
/* All of them; absent is fine. */
int act_log_drop(const char *dir, const char *name, struct error *err);
