/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* hyper/serve — velad-libvirt's working half: a process that does velad's calls, each on a thread of its own, until it is ended. */

#include "act/storage.h"
#include "base/seccomp.h"
#include "hyper/news.h"

struct act_virt;

struct serve {
	const char        *uri;
	enum seccomp_how   seccomp;
	int                calls; /* the socket that they come through */
	struct act_virt   *virt;
	struct act_storage storage;
	struct news        news;
};

/* Until velad has gone; then 0. The threads use s for as long as the process lives. */
int serve_run(struct serve *s, struct error *err);
