/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan/memo.h"

#include <errno.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "plan/solve.h"

struct plan_memo {
	struct solve_host *host; /* owned; NULL: none yet */
	unsigned           lent;
};

struct plan_memo *plan_memo_new(void)
{
	return calloc(1, sizeof(struct plan_memo));
}

static struct solve_host *host_free(struct solve_host *h)
{
	if (h)
		solve_host_done(h);
	free(h);
	return NULL;
}

struct plan_memo *plan_memo_free(struct plan_memo *m)
{
	if (m)
		host_free(m->host);
	free(m);
	return NULL;
}

int memo_prepare(struct plan_memo *m, struct solve_host **h, bool *lent)
{
	int r;

	*lent = m && m->host && solve_host_same(m->host, *h);
	if (*lent) {
		host_free(*h);
		*h = m->host;
		m->lent++;
		return 0;
	}
	r = solve_prepare(*h);
	if (r < 0 || !m || m->lent)
		return r;
	host_free(m->host);
	m->host = *h;
	m->lent++;
	*lent = true;
	return 0;
}

void memo_done(struct plan_memo *m, struct solve_host *h, bool lent)
{
	if (lent)
		m->lent--;
	else
		host_free(h);
}
