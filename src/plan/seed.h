/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* plan/seed — of a request: what the guest boots from, and what cloud-init in it is told. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct json_object;
struct json_out;

#define PLAN_IMAGE_NAME_MAX 40
#define PLAN_DISKS_MAX      6    /* data disks: functions of the slot that has the disk and the seed */
#define PLAN_KEYS_MAX       16
#define PLAN_TAGS_MAX       32
#define PLAN_USER_DATA_MAX  (32 * 1024)
#define PLAN_NETWORK_MAX    (8 * 1024)
#define PLAN_DISK_LEAST     (UINT64_C(1) << 20)

struct plan_tag {
	const char *key, *value;
};

struct plan_seed { /* strings are in the arena of the request; NULL: not given */
	char           *image;     /* its disk is an overlay of this */
	uint64_t        disk_size; /* bytes, whole MiB; 0: as the image */
	uint64_t        disk[PLAN_DISKS_MAX]; /* sizes of data disks, likewise */
	size_t          ndisks;
	char           *hostname;
	const char     *user_data, *network; /* as they are; network: JSON */
	const char     *key[PLAN_KEYS_MAX];  /* lines of authorized_keys(5) */
	size_t          nkeys;
	struct plan_tag tag[PLAN_TAGS_MAX];  /* by key */
	size_t          ntags;
};

/* Members of the request that its field table does not understand; borrowed. */
struct plan_seed_raw {
	struct json_object *user_data, *ssh_keys, *tags, *network, *disks;
};

/* -EINVAL or -E2BIG names the key and the fix. */
int  plan_seed_read(struct plan_seed *s, const struct plan_seed_raw *raw, struct arena *arena, struct error *err);
void plan_seed_add(struct json_out *o, const struct plan_seed *s); /* the same as JSON, into the request */
struct json_object *plan_tags_json(const struct plan_seed *s); /* {"key": "value"}; NULL: no memory */
/* Whether the guest gets a seed: with an image, or with anything that cloud-init should know. */
bool plan_seed_wanted(const struct plan_seed *s);
/* [a-z0-9][a-z0-9.-]*, at most PLAN_IMAGE_NAME_MAX; key is for the error. */
int  plan_image_name_check(const char *key, const char *name, struct error *err);
