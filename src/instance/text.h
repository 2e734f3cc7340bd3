/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/text — documents of instances as text, kept until something changes: clients ask for them far more often than
 * that. For the thread of the API only. */

#include <stddef.h>
#include <stdint.h>

#include "plan/request.h"

#define TEXTS_MAX       256
#define TEXTS_BYTES_MAX (1024 * 1024)

struct text {
	char     name[PLAN_NAME_MAX + 1];
	char    *text; /* owned */
	size_t   len;
	uint64_t generation, number; /* of the instance; of this text */
	uint64_t commits, looks; /* of the store and of keep, when it was made */
};

struct texts {
	struct text *at; /* owned */
	size_t       n, bytes;
	uint64_t     made; /* so far */
	struct text  list, brief; /* of all instances, without a name */
};

void texts_done(struct texts *t);
