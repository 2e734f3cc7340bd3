/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One run: arguments, the verb, errors. main() only adds the output's end. */
#include "velactl/ctl.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "velactl/doc.h"

/* On standard error; foreign text must not forge a second line, and has no colours. */
static void complain(const char *before, const char *text)
{
	struct ctl_out line = { 0 };

	ctl_out_safe(&line, text);
	(void)fprintf(stderr, "%s%s\n", before, line.text.text ? line.text.text : "");
	sbuf_done(&line.text);
}

enum ctl_exit ctl_fail(struct ctl *c, const struct error *err)
{
	json_object *reasons = ctl_doc_list(c->problem, "reasons");

	ctl_out_flush(&c->out); /* what was said before comes first */
	complain("velactl: ", err->text);
	if (c->args.json && c->problem) {
		ctl_out_json(&c->out, c->problem);
		return ctl_exit_of(err->code);
	}
	for (size_t i = 0; i < ctl_doc_count(reasons); i++) {
		const char *text = ctl_doc_text(json_object_array_get_idx(reasons, i), "text");

		if (!strstr(err->text, text)) /* the first may have been in the sentence */
			complain("  - ", text);
	}
	return ctl_exit_of(err->code);
}

int ctl_conf(struct ctl *c, struct error *err)
{
	int r = 0;

	if (c->have_conf)
		return 0;
	r = conf_load(&c->conf, c->args.conf, err);
	if (r == -ENOENT) /* a file, not an object of velad: exit status 1, not 3 */
		err->code = r = -EIO;
	c->have_conf = r == 0;
	return r;
}

static enum ctl_exit usage_error(struct ctl *c, const struct error *err)
{
	(void)ctl_fail(c, err);
	return CTL_USAGE;
}

enum ctl_exit ctl_run(struct ctl *c, int argc, char *const *argv)
{
	struct error err = ERROR_INIT;
	const struct ctl_verb *v;
	size_t words = 0, n;

	if (ctl_args_parse(&c->args, argc, argv, &err) < 0)
		return usage_error(c, &err);
	if (c->args.version) {
		sbuf_add(&c->out.text, "velactl " VELAD_VERSION "\n");
		return CTL_OK;
	}
	if (c->args.help && !c->args.nwords) {
		ctl_usage(&c->out);
		return CTL_OK;
	}
	v = ctl_verb_find(&c->args, &words, &err);
	if (!v)
		return usage_error(c, &err);
	if (c->args.help) {
		ctl_verb_help(&c->out, v);
		return CTL_OK;
	}
	if (ctl_args_check(&c->args, v->name, v->options, &err) < 0)
		return usage_error(c, &err);
	n = c->args.nwords - words;
	if (n < v->least || n > v->most) {
		(void)error_set(&err, -EINVAL, "%s: %s; usage: velactl %s%s%s", v->name,
				n < v->least ? "an argument is missing" : "too many arguments", v->name,
				*v->usage ? " " : "", v->usage);
		return usage_error(c, &err);
	}
	return v->run(c, c->args.word + words, n);
}

void ctl_done(struct ctl *c)
{
	ctl_args_done(&c->args);
	json_object_put(c->problem);
	c->problem = NULL;
	if (c->have_conf)
		conf_done(&c->conf);
	c->have_conf = false;
}
