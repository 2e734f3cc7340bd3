/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "plan/plan.h"
#include "velactl/args.h"

int ctl_request_file(json_object **ret, const char *file, struct error *err)
{
	bool is_stdin = strcmp(file, "-") == 0;
	autofree char *text = NULL;
	size_t len = 0;
	int r = is_stdin ? file_read_fd(&text, &len, STDIN_FILENO, JSON_BYTES_MAX)
			 : file_read(&text, &len, file, JSON_BYTES_MAX);

	if (r == -EFBIG)
		return error_set(err, -E2BIG, "%s: a request has at most %d bytes", file, JSON_BYTES_MAX);
	if (r < 0) /* not the file's errno: exit status 3 is for what velad does not have */
		return error_set(err, -EIO, "cannot read %s: %s", is_stdin ? "standard input" : file, strerror(-r));
	r = json_parse(ret, text, len, JSON_BYTES_MAX, err);
	return r < 0 ? error_prefix(err, "%s", is_stdin ? "standard input" : file) : 0;
}

/* "request.vfs_per_gpu is 9, ..." -> "--vfs-per-gpu is 9, ...": the name that was typed */
static int name_flag(int r, struct error *err)
{
	char rest[sizeof(err->text)];
	size_t len = 0;
	const char *flag = ctl_args_flag(err->text, &len), *before = "--";

	if (!flag && strncmp(err->text, "request.name ", 13) == 0) {
		flag = "NAME";
		before = "";
		len = strlen("request.name");
	}
	if (flag) {
		(void)snprintf(rest, sizeof(rest), "%s", err->text + len);
		(void)snprintf(err->text, sizeof(err->text), "%s%s%.400s", before, flag, rest);
	}
	return r;
}

int ctl_request_read(json_object **ret, struct plan_request *req, const struct ctl_args *args, const struct conf *conf,
		     const char *name, struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;
	int r = 0;

	if (args->file && args->request)
		return error_set(err, -EINVAL, "--file and request flags together; say one of them");
	if (*ret)
		o = steal(*ret);
	else if (args->file)
		r = ctl_request_file(&o, args->file, err);
	else
		o = args->request ? json_object_get(args->request) : json_object_new_object();
	if (r < 0)
		return r;
	if (name && json_object_is_type(o, json_type_object)) {
		json_object *text = json_object_new_string(name);

		if (!text || json_object_object_add(o, "name", text) < 0) {
			json_object_put(text);
			return error_set(err, -ENOMEM, "no memory for the request");
		}
	}
	r = plan_request_read_shaped(req, o, conf, err);
	if (r < 0)
		return args->file ? error_prefix(err, "%s", args->file) : name_flag(r, err);
	*ret = steal(o);
	return 0;
}
