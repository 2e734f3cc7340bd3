/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl create, list, show, delete. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"
#include "plan/request.h"
#include "velactl/bundle.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/request.h"
#include "velactl/source.h"
#include "velactl/table.h"
#include "velactl/wait.h"

enum { NAME, STATE, GPUS, VFS, VCPUS, MEMORY, NUMA, CREATED, COLUMNS };

static const struct ctl_column columns[COLUMNS] = {
	[NAME] = { "NAME", CTL_LEFT },	       [STATE] = { "STATE", CTL_LEFT },
	[GPUS] = { "GPUS", CTL_RIGHT },	       [VFS] = { "VFS", CTL_RIGHT },
	[VCPUS] = { "VCPUS", CTL_RIGHT },      [MEMORY] = { "MEMORY", CTL_RIGHT },
	[NUMA] = { "NUMA", CTL_LEFT, .drop = 2 }, [CREATED] = { "CREATED", CTL_LEFT, .drop = 1 },
};

/* The name goes into a URL: only what can be an instance's name. */
int ctl_instance_path(char path[96], const char *name, struct error *err)
{
	if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name) || strlen(name) > PLAN_NAME_MAX)
		return error_set(err, -EINVAL,
				 "\"%.60s\" cannot be a guest's name: those have lower-case letters, digits and -, up to %d",
				 name, PLAN_NAME_MAX);
	(void)snprintf(path, 96, "/v1/instances/%s", name);
	return 0;
}

/* {"plan", "bundle", "name"}, and what the guest boots: velad refuses what was decided when the plan was made. */
static int lease_body(json_object **ret, struct ctl *c, const char *name, struct error *err)
{
	struct json_out o = json_out_new();

	if (c->args.file) {
		json_object_put(o.obj);
		return error_set(err, -EINVAL, "--plan and --file together; say one of them");
	}
	if (c->args.request) {
		json_object_object_foreach(c->args.request, key, value)
			json_add(&o, key, json_object_get(value));
	}
	json_add_string(&o, "plan", c->args.plan);
	json_add_uint(&o, "bundle", c->args.bundle);
	if (name)
		json_add_string(&o, "name", name);
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the request");
}

enum ctl_exit ctl_create(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *body = NULL;
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	struct plan_request req;
	bool named;

	if (c->args.plan) {
		if (lease_body(&body, c, n ? arg[0] : NULL, &err) < 0)
			return ctl_fail(c, &err);
		named = n;
	} else {
		if (ctl_conf(c, &err) < 0 || ctl_request_read(&body, &req, &c->args, &c->conf, n ? arg[0] : NULL, &err) < 0)
			return ctl_fail(c, &err);
		named = *req.name;
		plan_request_done(&req);
	}
	if (c->args.no_start && json_object_object_add(body, "start", json_object_new_boolean(false)) < 0) {
		(void)error_set(&err, -ENOMEM, "no memory for the request");
		return ctl_fail(c, &err);
	}
	if (!named)
		(void)error_set(&err, -EINVAL, "create: NAME is missing; usage: velactl create NAME [FLAGS | --file FILE]");
	if (!named || ctl_remote(&op, c, "POST", "/v1/instances", body, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_accepted(c, op);
}

enum ctl_exit ctl_delete(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	char path[96];

	(void)n;
	if (ctl_instance_path(path, arg[0], &err) < 0 || ctl_remote(&op, c, "DELETE", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_accepted(c, op);
}

static enum ctl_exit order(struct ctl *c, const char *name, const char *what, json_object *body)
{
	auto_(json_object_put) json_object *op = NULL;
	struct error err = ERROR_INIT;
	char path[128];

	if (ctl_instance_path(path, name, &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", what);
	if (ctl_remote(&op, c, "POST", path, body, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_accepted(c, op);
}

enum ctl_exit ctl_start(struct ctl *c, char const *const *arg, size_t n)
{
	(void)n;
	return order(c, arg[0], "start", NULL);
}

enum ctl_exit ctl_reboot(struct ctl *c, char const *const *arg, size_t n)
{
	(void)n;
	return order(c, arg[0], "reboot", NULL);
}

enum ctl_exit ctl_reset(struct ctl *c, char const *const *arg, size_t n)
{
	(void)n;
	return order(c, arg[0], "reset", NULL);
}

enum ctl_exit ctl_stop(struct ctl *c, char const *const *arg, size_t n)
{
	auto_(json_object_put) json_object *body = NULL;
	struct json_out o = json_out_new();
	struct error err = ERROR_INIT;
	uint64_t grace = 0;
	int r = 0;

	(void)n;
	if (c->args.grace && c->args.force)
		r = error_set(&err, -EINVAL, "--grace and --force together; say one of them");
	else if (c->args.grace && parse_uint(&grace, c->args.grace, 10, 3600) < 0)
		r = error_set(&err, -EINVAL, "--grace takes 0 to 3600 seconds, not \"%.40s\"", c->args.grace);
	if (c->args.grace)
		json_add_uint(&o, "timeout", grace);
	if (c->args.force)
		json_add_bool(&o, "force", true);
	body = json_finish(&o);
	if (r == 0 && !body)
		r = error_set(&err, -ENOMEM, "no memory for the request");
	return r < 0 ? ctl_fail(c, &err) : order(c, arg[0], "stop", body);
}

/* ---- list --------------------------------------------------------------------------------------- */

/* "0,1" */
static void nodes_text(char *buf, size_t size, json_object *nodes)
{
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; i < ctl_doc_count(nodes) && len < size; i++) {
		json_object *node = json_object_array_get_idx(nodes, i);

		if (json_object_is_type(node, json_type_int) && json_object_get_int64(node) >= 0)
			len += (size_t)snprintf(buf + len, size - len, "%s%" PRId64, len ? "," : "", json_object_get_int64(node));
	}
}

static bool add_instance(struct libscols_table *t, json_object *in)
{
	const char *state = ctl_doc_text(in, "state");
	char gpus[24], vfs[24], vcpus[24], memory[SIZE_TEXT_MAX], nodes[64];
	const char *cell[COLUMNS] = { ctl_doc_text(in, "name"), state, gpus, vfs, vcpus, memory, nodes,
				      ctl_doc_text(in, "created") };
	struct libscols_line *line;

	(void)snprintf(gpus, sizeof(gpus), "%zu", ctl_doc_count(ctl_doc_list(in, "gpus")));
	(void)snprintf(vfs, sizeof(vfs), "%zu", ctl_doc_count(ctl_doc_list(in, "vfs")));
	(void)snprintf(vcpus, sizeof(vcpus), "%" PRId64, ctl_doc_int(in, "vcpus", 0));
	(void)size_text(memory, (uint64_t)ctl_doc_int(in, "memory", 0));
	nodes_text(nodes, sizeof(nodes), ctl_doc_list(in, "nodes"));
	line = ctl_table_row(t, NULL, cell, COLUMNS);
	if (line && (strcmp(state, "failed") == 0 || strcmp(state, "degraded") == 0))
		ctl_table_colour(line, STATE, "red");
	return line;
}

static int write_list(struct ctl_out *out, json_object *doc, struct error *err)
{
	return ctl_table_list(out, ctl_doc_list(doc, "instances"), columns, COLUMNS, add_instance, "no guests", err);
}

/* What is no letter of a URL's query is escaped (RFC 3986 2.1). */
static void add_query(struct sbuf *path, const char *name, const char *value)
{
	sbuf_addf(path, "%s%s=", path->text && strchr(path->text, '?') ? "&" : "?", name);
	for (; *value; value++)
		sbuf_addf(path, isalnum((unsigned char)*value) ? "%c" : "%%%02x", (unsigned char)*value);
}

static int list_path(struct sbuf *path, struct ctl *c, struct error *err)
{
	json_object *tags = ctl_doc_get(c->args.request, "tags");
	struct sbuf pair = { 0 };

	if (tags && json_object_object_length(tags) > 1)
		return error_set(err, -EINVAL, "--tag twice: list takes one");
	sbuf_add(path, "/v1/instances");
	if (!c->args.json) /* that is the document, whole */
		add_query(path, "view", "brief");
	if (c->args.state)
		add_query(path, "state", c->args.state);
	if (tags) {
		json_object_object_foreach(tags, key, value)
			sbuf_addf(&pair, "%s=%s", key, json_object_get_string(value));
		add_query(path, "tag", pair.text ? pair.text : "");
	}
	if (path->failed || pair.failed)
		(void)error_set(err, -ENOMEM, "no memory for the request");
	sbuf_done(&pair);
	return err->code;
}

enum ctl_exit ctl_list(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	struct sbuf path = { 0 };
	enum ctl_exit status;

	(void)arg, (void)n; /* it takes none */
	status = list_path(&path, c, &err) < 0 ? ctl_fail(c, &err) : ctl_show_doc(c, path.text, write_list);
	sbuf_done(&path);
	return status;
}

/* ---- show --------------------------------------------------------------------------------------- */

/* "2026-03-01T10:00:00Z  acs.lost  0000:22:02.0: ... (3 times)" */
static bool write_findings(struct ctl_out *out, json_object *list)
{
	for (size_t i = 0; i < ctl_doc_count(list); i++) {
		json_object *f = json_object_array_get_idx(list, i);
		int64_t times = ctl_doc_int(f, "times", 1);
		struct sbuf b = { 0 };

		if (i == 0)
			sbuf_add(&out->text, "seen while it runs:\n");
		sbuf_addf(&b, "%s %s", ctl_doc_text(f, "last"), ctl_doc_text(f, "text"));
		if (times > 1)
			sbuf_addf(&b, " (%" PRId64 " times since %s)", times, ctl_doc_text(f, "first"));
		sbuf_add(&out->text, "  - ");
		ctl_out_wrap(out, b.text ? b.text : "", 4);
		sbuf_done(&b);
	}
	return ctl_doc_count(list);
}

static int write_instance(struct ctl_out *out, json_object *in, struct error *err)
{
	json_object *boot = ctl_doc_get(ctl_doc_get(in, "request"), "boot");
	int r;

	ctl_field_write(out, "name", ctl_doc_text(in, "name"));
	ctl_field_write(out, "state", ctl_doc_text(in, "state"));
	ctl_field_write(out, "error", ctl_doc_text(in, "error"));
	ctl_field_write(out, "uuid", ctl_doc_text(in, "uuid"));
	ctl_field_write(out, "created", ctl_doc_text(in, "created"));
	ctl_field_write(out, "scrub", ctl_doc_text(in, "scrub"));
	ctl_number_write(out, "operation", in, "operation");
	ctl_field_write(out, "kernel", ctl_doc_text(boot, "kernel"));
	ctl_field_write(out, "initrd", ctl_doc_text(boot, "initrd"));
	ctl_field_write(out, "cmdline", ctl_doc_text(boot, "cmdline"));
	ctl_field_write(out, "disk", ctl_doc_text(boot, "disk"));
	sbuf_add(&out->text, "\n");
	r = ctl_bundle_write(out, ctl_doc_get(in, "bundle"), /* planned= */ false, err);
	if (r < 0)
		return r;
	sbuf_add(&out->text, "\n");
	if (ctl_reasons_write(out, "not as preferred:\n", ctl_doc_list(in, "notes")))
		sbuf_add(&out->text, "\n");
	if (write_findings(out, ctl_doc_list(in, "findings")))
		sbuf_add(&out->text, "\n");
	return ctl_steps_write(out, ctl_doc_list(in, "steps"), err);
}

enum ctl_exit ctl_write_doc(struct ctl *c, json_object *doc, int (*write)(struct ctl_out *, json_object *, struct error *))
{
	struct error err = ERROR_INIT;

	if (c->args.json)
		ctl_out_json(&c->out, doc);
	else if (write(&c->out, doc, &err) < 0)
		return ctl_fail(c, &err);
	return CTL_OK;
}

enum ctl_exit ctl_show_doc(struct ctl *c, const char *path, int (*write)(struct ctl_out *, json_object *, struct error *))
{
	auto_(json_object_put) json_object *doc = NULL;
	struct error err = ERROR_INIT;

	if (ctl_remote(&doc, c, "GET", path, NULL, &err) < 0)
		return ctl_fail(c, &err);
	return ctl_write_doc(c, doc, write);
}

enum ctl_exit ctl_show(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	struct bdf bdf;
	char path[96];

	(void)n;
	if (bdf_parse(&bdf, arg[0]))
		return ctl_show_function(c, bdf);
	if (ctl_args_check(&c->args, "show NAME", 0, &err) < 0 || ctl_instance_path(path, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	return ctl_show_doc(c, path, write_instance);
}

static int write_nccl(struct ctl_out *out, json_object *doc, struct error *err)
{
	(void)err;
	sbuf_add(&out->text, ctl_doc_text(doc, "xml"));
	return 0;
}

enum ctl_exit ctl_nccl(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	char path[96];

	(void)n;
	if (ctl_instance_path(path, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/nccl-topology");
	return ctl_show_doc(c, path, write_nccl);
}
