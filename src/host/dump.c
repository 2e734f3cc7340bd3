/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes dumps, and says at their top what could not be read. */
#include "host/dump.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <string.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "host/inventory.h"
#include "host/text.h"

#define NOT_READ "# not read: "

/* The comments of the host that is dumped: where it comes from. Ours are made anew. */
static void keep_comments(struct sbuf *out, const char *comment)
{
	while (*comment) {
		size_t n = strcspn(comment, "\n") + 1;

		if (strncmp(comment, NOT_READ, strlen(NOT_READ)) != 0)
			sbuf_add_bytes(out, comment, n);
		comment += n;
	}
}

static void say_unread(struct sbuf *out, const struct text_host *t)
{
	size_t configs = 0, brief = 0, errors = 0;

	for (size_t i = 0; i < t->n; i++) {
		errors += t->entry[i].type == TEXT_ERROR && t->entry[i].error != ENODATA;
		configs += t->entry[i].type == TEXT_BYTES;
		brief += t->entry[i].type == TEXT_BYTES && t->entry[i].len < PCI_CFG_SPACE_SIZE;
	}
	if (brief)
		sbuf_addf(out, NOT_READ "capabilities of %zu of %zu functions: their config space ended after its header, "
			       "as it does for all but root\n", brief, configs);
	if (errors)
		sbuf_addf(out, NOT_READ "%zu files, links or directories; their lines have \" ! \" and the error\n", errors);
}

static int render(char **ret, struct text_host *t, const char *comment, struct error *err)
{
	struct sbuf head = { 0 };

	keep_comments(&head, comment);
	say_unread(&head, t);
	t->comment = head.text;
	*ret = head.failed ? NULL : text_host_render(t);
	t->comment = NULL;
	sbuf_done(&head);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for a dump");
}

int host_dump(char **ret, struct host_root *root, const struct host_kinds *kinds, struct anonymize_counts *hidden,
	      struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	auto_(text_host_free) struct text_host *t = NULL;
	int r = host_record_start(root, err);

	if (r == 0)
		r = host_inventory_read(&inv, root, kinds, err);
	if (r < 0)
		return r;
	t = host_record_end(root, err);
	if (!t)
		return err->code;
	if (hidden && anonymize(t, hidden) < 0)
		return error_set(err, -ENOMEM, "no memory for a dump");
	return render(ret, t, hidden ? "" : host_root_comment(root), err); /* a comment may name anything */
}
