/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* fixture — reports of text hosts, changed in their text or in what was read of them. */

#include "base/file.h"
#include "base/sbuf.h"
#include "check/check.h"
#include "support.h"

struct host {
	struct topo         *topo;
	struct check_report *report;
};

static inline struct topo *host_topo(const char *name, const char *from, const char *to, void (*change)(struct inventory *))
{
	struct host_kinds kinds = test_kinds();
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct inventory *inv = NULL;
	struct sbuf text = { 0 };
	struct topo *t = NULL;
	char path[512], *file = NULL, *hit;
	size_t len = 0;

	(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", name);
	assert_int_equal(file_read(&file, &len, path, 16 << 20), 0);
	hit = from ? strstr(file, from) : NULL;
	if (from && !hit)
		fail_msg("%s has no \"%s\"", name, from);
	if (hit) {
		sbuf_add_bytes(&text, file, (size_t)(hit - file));
		sbuf_add(&text, to);
	}
	sbuf_add(&text, hit ? hit + strlen(from) : file);
	if (host_root_parse_text(&root, text.text, text.len, name, &err) < 0 || host_inventory_read(&inv, root, &kinds, &err) < 0)
		fail_msg("%s", err.text);
	if (change)
		change(inv);
	if (topo_build(&t, inv, 1, &err) < 0)
		fail_msg("%s", err.text);
	host_root_close(root);
	sbuf_done(&text);
	free(file);
	return t;
}

static inline struct host host_asked(struct topo *t, struct check_input in)
{
	struct error err = ERROR_INIT;
	struct host h = { .topo = t };

	in.topo = t;
	if (check_host(&h.report, &in, &err) < 0)
		fail_msg("%s", err.text);
	return h;
}

static inline struct host host_of(struct topo *t, unsigned qemu)
{
	return host_asked(t, (struct check_input){ .qemu = qemu });
}

static inline void host_done(struct host *h)
{
	check_report_free(h->report);
	topo_unref(h->topo);
}

/* The first finding of that rule, at that component ("": any); NULL: none. */
static inline const struct check_finding *host_finds(const struct host *h, const char *id, const char *component)
{
	for (size_t i = 0; i < h->report->n; i++) {
		const struct check_finding *f = &h->report->finding[i];
		char text[BDF_TEXT_MAX];

		if (strcmp(f->rule->id, id) == 0 &&
		    (!*component || strcmp(component, bdf_is_none(f->component) ? "host" : bdf_text(text, f->component)) == 0))
			return f;
	}
	return NULL;
}
