/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "host/change.h"

#include <stdlib.h>
#include <string.h>

static bool grow(struct host_changes *c)
{
	size_t size = c->size ? 2 * c->size : 16;
	struct host_change *p = c->n < HOST_CHANGES_MAX ? realloc(c->at, size * sizeof(*p)) : NULL;

	if (!p)
		return false;
	c->at = p;
	c->size = size;
	return true;
}

void host_changes_add(struct host_changes *c, struct bdf bdf, unsigned what)
{
	size_t i = c->n;

	while (i > 0 && bdf_cmp(c->at[i - 1].bdf, bdf) > 0) /* from behind: they come mostly in order */
		i--;
	if (i > 0 && bdf_eq(c->at[i - 1].bdf, bdf)) {
		c->at[i - 1].what |= what;
		return;
	}
	if (c->n == c->size && !grow(c)) {
		c->lost = true;
		return;
	}
	memmove(&c->at[i + 1], &c->at[i], (c->n - i) * sizeof(*c->at));
	c->at[i] = (struct host_change){ .bdf = bdf, .what = what };
	c->n++;
}

void host_changes_merge(struct host_changes *c, const struct host_changes *more)
{
	for (size_t i = 0; i < more->n; i++)
		host_changes_add(c, more->at[i].bdf, more->at[i].what);
	c->lost |= more->lost;
	c->memory |= more->memory;
	c->host |= more->host;
}

bool host_changes_cover(const struct host_changes *c, const struct host_changes *which)
{
	size_t k = 0;

	if (c->lost || which->lost)
		return c->lost;
	for (size_t i = 0; i < which->n; i++) { /* both are sorted */
		while (k < c->n && bdf_cmp(c->at[k].bdf, which->at[i].bdf) < 0)
			k++;
		if (k == c->n || !bdf_eq(c->at[k].bdf, which->at[i].bdf) || (which->at[i].what & ~c->at[k].what))
			return false;
	}
	return true;
}

void host_changes_done(struct host_changes *c)
{
	free(c->at);
	*c = (struct host_changes){ 0 };
}
