/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/args — the command line as a value. Options may stand before and after the verb. One table holds
 * every option; it is the parser and the help text. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json_object;
struct sbuf;

/* Which verbs an option is for: a verb's row names the groups it takes. */
enum ctl_group {
	CTL_GLOBAL = 1 << 0, /* all verbs */
	CTL_READ = 1 << 1,   /* --root, --host */
	CTL_TOPO = 1 << 2,
	CTL_PLAN = 1 << 3,
	CTL_REQUEST = 1 << 4,
	CTL_START = 1 << 5,  /* --no-wait */
	CTL_WAIT = 1 << 6,   /* --timeout */
	CTL_NAMES = 1 << 7,  /* --numeric */
	CTL_ROUTES = 1 << 8,
	CTL_DUMP = 1 << 9,
	CTL_SHOW = 1 << 10,
	CTL_CREATE = 1 << 11,
	CTL_DOCTOR = 1 << 12,
	CTL_ACS = 1 << 20,
	CTL_DRY = 1 << 21,   /* --dry-run */
	CTL_IMAGE = 1 << 22,
	CTL_STOP = 1 << 23,
	CTL_LIST = 1 << 24,
	CTL_CONSOLE = 1 << 26,
	CTL_LOG = 1 << 27,
	CTL_GUEST = 1 << 28, /* no options: a verb of instances, which may stand behind the word instance */
};

#define CTL_WORDS_MAX 8

struct ctl_args {
	const char *word[CTL_WORDS_MAX]; /* what is no option, the verb first; borrowed from argv, as all below */
	size_t      nwords;
	bool        json, help, version, all, unfold, matrix, numeric, xml, nccl, no_wait, explain, anonymize, vpd;
	bool        exclusive, grub, dry_run;
	const char *root, *host, *conf, *socket, *file, *svg, *gpu, *with;
	const char *dot; /* "": --dot without a FILE */
	uint64_t    timeout; /* seconds */
	uint64_t    qemu;    /* version of the host that is read without velad, as libvirt counts; 0: not said */
	uint64_t    lease;   /* seconds; 0: none */
	const char *plan;    /* of a lease: its id */
	uint64_t    bundle;
	bool        force, no_start;
	const char *state;   /* of guests to list; NULL: any */
	bool        follow;
	uint64_t    lines;   /* 0: all */
	const char *escape;  /* NULL: ^] */
	const char *grace;   /* seconds; NULL: as velad is configured */
	struct json_object *request; /* owned; what request flags were given; NULL: none */
	const char *format, *sha256; /* of an image */
	uint64_t    seen[2]; /* bit i: option i of the table was given */
};

#define CTL_TIMEOUT_DEFAULT 600

/* -EINVAL with a sentence. */
int  ctl_args_parse(struct ctl_args *ret, int argc, char *const *argv, struct error *err);
void ctl_args_done(struct ctl_args *a);
/* -EINVAL if an option was given that is for none of these groups. */
int  ctl_args_check(const struct ctl_args *a, const char *verb, unsigned groups, struct error *err);
void ctl_args_help(struct sbuf *out, unsigned groups); /* a line per option */
/* "request.vfs_per_gpu" -> "--vfs-per-gpu"; NULL if it is no flag. `text` may go on behind the key. */
const char *ctl_args_flag(const char *text, size_t *keylen);

/* How many letters must change to get from a to b; up to 32 letters. */
unsigned ctl_distance(const char *a, const char *b);
