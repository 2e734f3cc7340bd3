/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/hyper_doc — what velad asks of velad-libvirt, and its answer: one JSON document each way. Both ends are of one build and
 * one user; pure: texts in, values out. */

#include <json-c/json.h>

#include "act/act.h"

struct arena;

#define HYPER_BYTES_MAX (4 * 1024 * 1024) /* of a document: a seed has 64 KiB of the tenant's text, a host some thousand domains */

/* Where velad-libvirt finds its two sockets: calls come through one, the end of velad and of a process that hangs through the
 * other. */
enum { HYPER_FD_CALLS = 3, HYPER_FD_LIFE = 4 };
#define HYPER_FDS 2 /* that come with a call, at most */

enum hyper_verb {
	HYPER_NONE,
	HYPER_EVENTS, /* waits until there is something to tell */
	HYPER_DOMAIN,
	HYPER_DOMAINS,
	HYPER_START,
	HYPER_ORDER,
	HYPER_STOP,
	HYPER_POOL, /* the pool is read anew */
	HYPER_FILE,
	HYPER_DROP,
	HYPER_DISK,
	HYPER_SEED,
	HYPER_CONSOLE, /* with the descriptor of who sees it */
	HYPER_VERB_MAX_,
};

const char *hyper_verb_text(enum hyper_verb v);

struct hyper_call { /* all texts borrowed; NULL: the verb has none */
	enum hyper_verb verb;
	const char     *name, *xml; /* of a domain or file */
	enum act_order  order;
	struct act_disk disk; /* its name is the call's */
	struct act_seed seed;
	const char     *hello; /* of a console */
	bool            force;
	int             fd; /* of a console; it is not in the document */
};

struct hyper_event {
	const char     *name;
	enum act_domain state;
};

struct hyper_answer {
	int              code; /* 0, or a negative errno and its text */
	const char      *text;
	enum act_domain  domain;
	struct act_file  file;
	bool             changed; /* libvirt is reached, or is not any more: events may have been missed, and then: */
	const char      *type, *problem; /* what it can start; or why it cannot be reached */
	unsigned         qemu, lacks;
	struct hyper_event *event;
	size_t           nevents;
	struct act_guest *guest;
	size_t           nguests;
};

/* NULL: no memory. */
json_object *hyper_call_json(const struct hyper_call *c);
json_object *hyper_answer_json(const struct hyper_answer *a);
/* -EPROTO: it is no such document. A call's texts are the document's, an answer's the arena's. */
int hyper_call_read(struct hyper_call *ret, json_object *doc, struct error *err);
int hyper_answer_read(struct hyper_answer *ret, json_object *doc, struct arena *arena, struct error *err);
