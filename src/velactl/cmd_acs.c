/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl acs show, plan, apply and restore. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"
#include "velactl/table.h"
#include "velactl/wait.h"

static unsigned long word(const char *text)
{
	return strtoul(text, NULL, 16); /* "" is 0 */
}

/* "SV+ TB- ..." of what the capability has; short names so that all seven fit a line of 80. */
static const char *flags(struct arena *a, unsigned long cap, unsigned long ctl)
{
	static const char *const name[] = { "SV", "TB", "RR", "CR", "UF", "EC", "DT" };
	char text[64] = "";

	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		char one[8];

		(void)snprintf(one, sizeof(one), "%s%s%c", i ? " " : "", name[i], !(cap >> i & 1) ? '.' : ctl >> i & 1 ? '+' : '-');
		strcat(text, one);
	}
	return arena_strdup(a, text);
}

/* The end of both: the document, or what write makes of it; r < 0: there is none. */
static enum ctl_exit finish(struct ctl *c, int r, json_object *doc, int (*write)(struct ctl *, json_object *, struct error *),
			    struct error *err)
{
	if (r < 0 || (!c->args.json && write(c, doc, err) < 0))
		return ctl_fail(c, err);
	if (c->args.json)
		ctl_out_json(&c->out, doc);
	return CTL_OK;
}

/* ---- show ---------------------------------------------------------------------------------------------- */

static const struct ctl_column show_columns[] = {
	{ "FUNCTION", CTL_LEFT }, { "KIND", CTL_LEFT, .drop = 2 }, { "CAP", CTL_LEFT, .drop = 1 }, { "CTL", CTL_LEFT },
	{ "", CTL_LEFT }, { "HELD BY", CTL_LEFT, .drop = 3 },
};

/* Of ports it matters that they have none. What a bridge is that cannot be read is unknown: perhaps a port. */
static bool is_missed(const char *kind, const char *state)
{
	if (strcmp(kind, "bridge") == 0)
		return strcmp(state, "unknown") == 0;
	return strcmp(kind, "root-port") == 0 || strcmp(kind, "dsp") == 0;
}

/* "acs apply, vm1: was DT-": of the bits that velad changes, those that the port has. NULL: nobody holds it. */
static const char *holders(struct arena *a, json_object *held, const char *port, unsigned long cap)
{
	for (size_t i = 0; i < ctl_doc_count(held); i++) {
		json_object *h = json_object_array_get_idx(held, i), *by = ctl_doc_list(h, "by");
		unsigned long was = word(ctl_doc_text(h, "was"));
		const char *text = "";

		if (strcmp(ctl_doc_text(h, "port"), port) != 0)
			continue;
		for (size_t k = 0; text && k < ctl_doc_count(by); k++)
			text = arena_printf(a, "%s%s%s", text, k ? ", " : "", json_object_get_string(json_object_array_get_idx(by, k)));
		return text ? arena_printf(a, "%s: was%s DT%c", text, cap & 2 ? was & 2 ? " TB+" : " TB-" : "", was & 0x40 ? '+' : '-') : NULL;
	}
	return NULL;
}

static bool add_function(struct libscols_table *t, struct arena *a, json_object *node, json_object *held)
{
	json_object *acs = ctl_doc_get(node, "acs");
	const char *state = ctl_doc_text(acs, "state"), *cap = ctl_doc_text(acs, "cap"), *ctl = ctl_doc_text(acs, "ctl");
	bool present = strcmp(state, "present") == 0;
	const char *cell[] = { ctl_doc_text(node, "bdf"), ctl_doc_text(node, "kind"), cap, present ? ctl : state,
			       present ? flags(a, word(cap), word(ctl)) : "", holders(a, held, ctl_doc_text(node, "bdf"), word(cap)) };

	if (!present && !is_missed(cell[1], state))
		return true;
	return ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));
}

/* The topology, with the "held" of the ACS plan. */
static int write_show(struct ctl *c, json_object *topology, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(show_columns, ARRAY_SIZE(show_columns));
	json_object *nodes = ctl_doc_list(topology, "nodes"), *held = ctl_doc_list(topology, "held");
	struct arena a = { 0 };
	bool ok = t;

	for (size_t i = 0; ok && i < ctl_doc_count(nodes); i++)
		ok = add_function(t, &a, json_object_array_get_idx(nodes, i), held);
	if (ok)
		ctl_table_print(&c->out, t, show_columns, ARRAY_SIZE(show_columns));
	arena_done(&a);
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for the table");
	sbuf_add(&c->out.text, "\n");
	ctl_out_wrap(&c->out, "+ on, - off, . not in the capability. SV SrcValid, TB TransBlk, RR ReqRedir, CR CmpltRedir, UF UpstreamFwd, EC "
			      "EgressCtrl, DT DirectTrans.", 0);
	return 0;
}

enum ctl_exit ctl_acs_show(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL, *plan = NULL;
	struct error err = ERROR_INIT;
	json_object *held = NULL;
	int r;

	(void)arg, (void)n; /* it takes none */
	r = ctl_source_topology(&doc, c, &err);
	if (r == 0)
		r = ctl_source_acs(&plan, c, &err);
	if (r == 0 && json_object_object_get_ex(plan, "held", &held) && !c->args.json &&
	    json_object_object_add(doc, "held", json_object_get(held)) < 0)
		r = error_set(&err, -ENOMEM, "no memory for the table");
	return finish(c, r, doc, write_show, &err);
}

/* ---- plan ---------------------------------------------------------------------------------------------- */

static const struct ctl_column pair_columns[] = {
	{ "GPU", CTL_LEFT }, { "NIC", CTL_LEFT }, { "PATH", CTL_LEFT, .drop = 2 }, { "NOW", CTL_LEFT }, { "STATE", CTL_LEFT },
	{ "AT", CTL_LEFT, .drop = 1 }, { "THROUGH", CTL_LEFT, .drop = 3 },
};

static const struct ctl_column write_columns[] = {
	{ "PORT", CTL_LEFT }, { "FROM", CTL_LEFT }, { "TO", CTL_LEFT }, { "", CTL_LEFT, .drop = 1 },
};

/* The ports would let it be direct, and why says what of ATS does not. */
static const char *state_of(json_object *p)
{
	const char *state = ctl_doc_text(p, "state");
	bool ports = strcmp(state, "direct") == 0 || strcmp(state, "planned") == 0;

	if (!ports || !*ctl_doc_text(p, "why"))
		return state;
	return strcmp(ctl_doc_text(p, "translated"), "no") == 0 ? "lacks ATS" : "ATS unknown";
}

static bool write_pairs(struct ctl_out *out, json_object *pairs)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(pair_columns, ARRAY_SIZE(pair_columns));
	bool ok = t;

	for (size_t i = 0; ok && i < ctl_doc_count(pairs); i++) {
		json_object *p = json_object_array_get_idx(pairs, i);
		const char *cell[] = { ctl_doc_text(p, "gpu"), ctl_doc_text(p, "nic"), ctl_doc_text(p, "path"), ctl_doc_text(p, "now"),
				       state_of(p), ctl_doc_text(p, "port"), ctl_doc_text(p, "through") };

		ok = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));
	}
	if (ok)
		ctl_table_print(out, t, pair_columns, ARRAY_SIZE(pair_columns));
	return ok;
}

static bool write_writes(struct ctl_out *out, json_object *writes)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(write_columns, ARRAY_SIZE(write_columns));
	struct arena a = { 0 };
	bool ok = t;

	for (size_t i = 0; ok && i < ctl_doc_count(writes); i++) {
		json_object *w = json_object_array_get_idx(writes, i);
		const char *from = ctl_doc_text(w, "from"), *to = ctl_doc_text(w, "to");
		const char *cell[] = { ctl_doc_text(w, "port"), from, to, flags(&a, word(ctl_doc_text(w, "cap")), word(to)) };

		ok = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));
	}
	if (ok)
		ctl_table_print(out, t, write_columns, ARRAY_SIZE(write_columns));
	arena_done(&a);
	return ok;
}

/* Whether two pairs' reasons are the same but for the NIC's name. */
static bool alike(json_object *p, json_object *q)
{
	const char *a = ctl_doc_text(p, "why"), *b = ctl_doc_text(q, "why");
	const char *na = strstr(a, ctl_doc_text(p, "nic")), *nb = strstr(b, ctl_doc_text(q, "nic"));

	if (!na || !nb)
		return strcmp(a, b) == 0;
	return na - a == nb - b && strncmp(a, b, (size_t)(na - a)) == 0 &&
	       strcmp(na + strlen(ctl_doc_text(p, "nic")), nb + strlen(ctl_doc_text(q, "nic"))) == 0;
}

/* The first pair for that reason; the number of pairs with it. */
static size_t first_alike(json_object *pairs, size_t i, size_t *count)
{
	json_object *p = json_object_array_get_idx(pairs, i);
	size_t first = i;

	*count = 0;
	for (size_t k = ctl_doc_count(pairs); k-- > 0;)
		if (alike(json_object_array_get_idx(pairs, k), p)) {
			first = k;
			++*count;
		}
	return first;
}

/* Each reason once. */
static void write_reasons(struct ctl_out *out, json_object *pairs)
{
	for (size_t i = 0; i < ctl_doc_count(pairs); i++) {
		json_object *p = json_object_array_get_idx(pairs, i);
		const char *why = ctl_doc_text(p, "why"), *fix = ctl_doc_text(p, "fix");
		struct ctl_out line = { 0 };
		size_t count;

		if (!*why || first_alike(pairs, i, &count) != i)
			continue;
		sbuf_addf(&line.text, "%s%s%s", why, *fix ? "; fix: " : "", fix);
		if (count > 1)
			sbuf_addf(&line.text, " (and alike for %zu more)", count - 1);
		sbuf_add(&out->text, "- ");
		ctl_out_wrap(out, line.text.text ? line.text.text : "", 2);
		sbuf_done(&line.text);
	}
}

/* What the redirects that are off let through, and for whom. */
static void write_shared(struct ctl_out *out, json_object *shared)
{
	if (!ctl_doc_count(shared))
		return;
	ctl_out_wrap(out, "With it these share an IOMMU group, and go to one guest together, their VFs with them:", 0);
	for (size_t i = 0; i < ctl_doc_count(shared); i++) {
		json_object *one = json_object_array_get_idx(shared, i);
		struct ctl_out line = { 0 };

		for (size_t k = 0; k < ctl_doc_count(one); k++)
			sbuf_addf(&line.text, "%s%s", k ? " " : "", json_object_get_string(json_object_array_get_idx(one, k)));
		sbuf_add(&out->text, "- ");
		ctl_out_wrap(out, line.text.text ? line.text.text : "", 2);
		sbuf_done(&line.text);
	}
	ctl_out_wrap(out, "Their requests cross by address, unseen by the IOMMU: a guest must have GPU memory at the host's own addresses (as "
			  "guests of GB200 and GB300 do), or all that uses them runs on the host.", 0);
}

static void write_boot(struct ctl_out *out, json_object *plan)
{
	const char *boot = ctl_doc_text(plan, "boot"), *warning = ctl_doc_text(plan, "warning");
	json_object *booted = NULL;

	if (!*boot)
		return;
	(void)json_object_object_get_ex(plan, "booted", &booted);
	sbuf_addf(&out->text, "\nas a kernel argument, which outlives resets%s:\n  ",
		  json_object_get_boolean(booted) ? "; this kernel was started with it" : " (acs plan --grub has it as a file)");
	ctl_out_safe(out, boot);
	sbuf_add(&out->text, "\n");
	write_shared(out, ctl_doc_list(plan, "shared"));
	if (*warning)
		ctl_out_wrap(out, warning, 0);
}

static int write_plan(struct ctl *c, json_object *plan, struct error *err)
{
	json_object *pairs = ctl_doc_list(plan, "pairs"), *writes = ctl_doc_list(plan, "writes");

	if (!ctl_doc_count(pairs))
		return error_set(err, -ENOENT, "this host has no GPU and NIC to plan for");
	if (!write_pairs(&c->out, pairs))
		return error_set(err, -ENOMEM, "no memory for the table");
	sbuf_add(&c->out.text, "\n");
	write_reasons(&c->out, pairs);
	if (!ctl_doc_count(writes))
		sbuf_add(&c->out.text, "nothing to write\n");
	else
		sbuf_addf(&c->out.text, "writes to ACS control, %zu:\n", ctl_doc_count(writes));
	if (ctl_doc_count(writes) && !write_writes(&c->out, writes))
		return error_set(err, -ENOMEM, "no memory for the table");
	write_boot(&c->out, plan);
	return 0;
}

/* For a redirection into a file: that, or nothing. */
static int write_grub(struct ctl *c, json_object *plan, struct error *err)
{
	const char *grub = ctl_doc_text(plan, "grub");

	if (!*grub)
		return error_set(err, -ENOENT, "there is nothing that a kernel argument could make direct; see velactl acs plan");
	sbuf_add(&c->out.text, grub);
	return 0;
}

enum ctl_exit ctl_acs_plan(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	int r;

	(void)arg, (void)n; /* it takes none */
	r = ctl_source_acs(&doc, c, &err);
	return finish(c, r, doc, c->args.grub ? write_grub : write_plan, &err);
}

/* ---- apply and restore ---------------------------------------------------------------------------------- */

static int write_apply(struct ctl *c, json_object *plan, struct error *err)
{
	json_object *writes = ctl_doc_list(plan, "writes");

	if (!ctl_doc_count(writes))
		sbuf_add(&c->out.text, "nothing to write\n");
	else if (!write_writes(&c->out, writes))
		return error_set(err, -ENOMEM, "no memory for the table");
	return 0;
}

static const struct ctl_column restore_columns[] = {
	{ "PORT", CTL_LEFT }, { "FROM", CTL_LEFT }, { "TO", CTL_LEFT },
};

static int write_restore(struct ctl *c, json_object *plan, struct error *err)
{
	auto_(scols_unref_table) struct libscols_table *t = ctl_table_new(restore_columns, ARRAY_SIZE(restore_columns));
	json_object *held = ctl_doc_list(plan, "held");
	bool ok = t;
	size_t n = 0;

	for (size_t i = 0; ok && i < ctl_doc_count(held); i++) {
		json_object *h = json_object_array_get_idx(held, i);
		const char *cell[] = { ctl_doc_text(h, "port"), ctl_doc_text(h, "now"), ctl_doc_text(h, "restored") };

		if (!*cell[2])
			continue;
		n++;
		ok = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));
	}
	if (!ok)
		return error_set(err, -ENOMEM, "no memory for the table");
	if (n)
		ctl_table_print(&c->out, t, restore_columns, ARRAY_SIZE(restore_columns));
	else
		sbuf_add(&c->out.text, "nothing to write\n");
	return 0;
}

static enum ctl_exit change(struct ctl *c, const char *path, int (*write)(struct ctl *, json_object *, struct error *))
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;
	int r = c->args.dry_run ? ctl_source_acs(&doc, c, &err) : ctl_remote(&doc, c, "POST", path, NULL, &err);

	if (r < 0 || c->args.dry_run)
		return finish(c, r, doc, write, &err);
	return ctl_accepted(c, doc);
}

enum ctl_exit ctl_acs_apply(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return change(c, "/v1/acs/apply", write_apply);
}

enum ctl_exit ctl_acs_restore(struct ctl *c, char const *const *arg, size_t n)
{
	(void)arg, (void)n; /* it takes none */
	return change(c, "/v1/acs/restore", write_restore);
}
