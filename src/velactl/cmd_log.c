/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl log: what a guest's console said. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"

#define FOLLOW "&wait=30" /* seconds */

/* On a terminal, control characters are shown, not obeyed: they are the guest's. */
static void write_text(struct ctl_out *out, const char *text, size_t len, bool shown)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool c1 = c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0;

		if (shown && (c < 0x20 || c == 0x7f) && c != '\n' && c != '\t' && !(c == '\r' && i + 1 < len && text[i + 1] == '\n'))
			sbuf_addf(&out->text, "^%c", c ^ 0x40);
		else if (shown && c1)
			sbuf_addf(&out->text, "?"), i++;
		else
			sbuf_add_bytes(&out->text, text + i, 1);
	}
}

/* The next piece; *more: there was something. */
static int next(struct ctl *c, const char *path, char place[64], bool *more, struct error *err)
{
	auto_(json_object_put) json_object *doc = NULL;
	char url[256];
	json_object *text;
	int r;

	if (*place)
		(void)snprintf(url, sizeof(url), "%s/log?after=%s%s", path, place, c->args.follow ? FOLLOW : "");
	else
		(void)snprintf(url, sizeof(url), c->args.lines ? "%s/log?lines=%llu" : "%s/log", path, (unsigned long long)c->args.lines);
	r = ctl_remote(&doc, c, "GET", url, NULL, err);
	if (r < 0)
		return r;
	text = ctl_doc_get(doc, "text");
	if (!json_object_is_type(text, json_type_string) || strspn(ctl_doc_text(doc, "next"), "0123456789.") != strlen(ctl_doc_text(doc, "next")))
		return error_set(err, -EPROTO, "velad's answer is no piece of a log");
	(void)snprintf(place, 64, "%s", ctl_doc_text(doc, "next"));
	if (json_object_get_boolean(ctl_doc_get(doc, "lost")))
		(void)fputs("velactl: some of it is lost: it was put away before it was read\n", stderr);
	*more = json_object_get_string_len(text) > 0;
	if (c->args.json && *more)
		sbuf_addf(&c->out.text, "%s\n", json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PLAIN));
	else
		write_text(&c->out, json_object_get_string(text), (size_t)json_object_get_string_len(text), isatty(STDOUT_FILENO));
	return 0;
}

enum ctl_exit ctl_log(struct ctl *c, char const *const *arg, size_t n)
{
	struct error err = ERROR_INIT;
	char path[96], place[64] = "";
	bool more = true;

	(void)n;
	if (ctl_instance_path(path, arg[0], &err) < 0)
		return ctl_fail(c, &err);
	while ((more || c->args.follow) && !c->out.error) {
		if (next(c, path, place, &more, &err) < 0)
			return ctl_fail(c, &err);
		ctl_out_flush(&c->out);
	}
	return CTL_OK;
}
