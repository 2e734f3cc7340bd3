/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Output is collected in memory and written in one go, so that a failed write is noticed in one place. */
#include "velactl/out.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/parse.h"
#include "velactl/doc.h"

#define WIDTH_MIN     40
#define WIDTH_MAX     4096
#define WORD_MIN      10 /* columns that a wrapped line has at least */
#define WIDTH_UNKNOWN 80 /* a terminal that does not say: a serial console (tty_ioctl(4) gives 0) */

static unsigned width_env(void)
{
	const char *text = getenv("COLUMNS");
	uint64_t n = 0;

	return text && parse_uint(&n, text, 10, WIDTH_MAX) == 0 ? (unsigned)n : 0;
}

static unsigned width_terminal(void)
{
	struct winsize w = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
		return w.ws_col;
	return width_env() ? width_env() : WIDTH_UNKNOWN;
}

void ctl_out_init(struct ctl_out *o)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool terminal = isatty(STDOUT_FILENO), able = terminal && term && strcmp(term, "dumb") != 0;

	*o = (struct ctl_out){
		.width = terminal ? width_terminal() : width_env(),
		.colour = able && !(no_color && *no_color),
		.moves = able,
	};
	if (o->width && o->width < WIDTH_MIN)
		o->width = WIDTH_MIN;
}

void ctl_out_flush(struct ctl_out *o)
{
	size_t done = 0;

	if (o->text.failed && !o->error)
		o->error = ENOMEM;
	while (!o->error && done < o->text.len) {
		ssize_t n = write(STDOUT_FILENO, o->text.text + done, o->text.len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			o->error = errno;
	}
	sbuf_done(&o->text);
}

int ctl_out_done(struct ctl_out *o)
{
	ctl_out_flush(o);
	/* some file systems tell only now that the disk is full (close(2)) */
	if (close(STDOUT_FILENO) < 0 && !o->error)
		o->error = errno;
	return o->error;
}

/* Bytes of the control character at s: C0, DEL, or C1 in UTF-8; 0 if it is none. */
static size_t control(const unsigned char *s)
{
	if (*s && (*s < 0x20 || *s == 0x7f))
		return 1;
	return s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f ? 2 : 0;
}

static void add_safe(struct ctl_out *o, const char *text, size_t len)
{
	size_t from = 0, i = 0;

	while (i < len) {
		size_t n = control((const unsigned char *)text + i);

		if (!n) {
			i++;
			continue;
		}
		sbuf_add_bytes(&o->text, text + from, i - from);
		sbuf_add(&o->text, "?");
		from = i += n;
	}
	sbuf_add_bytes(&o->text, text + from, len > from ? len - from : 0);
}

void ctl_out_safe(struct ctl_out *o, const char *text)
{
	add_safe(o, text, strlen(text));
}

static bool continues(char c) /* a byte after the first of a UTF-8 character */
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

unsigned ctl_out_columns(const char *utf8)
{
	unsigned n = 0;

	for (; *utf8; utf8++)
		n += !continues(*utf8);
	return n;
}

/* The longest beginning of text that takes at most n columns, in bytes. */
static size_t fitting(const char *text, unsigned n)
{
	size_t i = 0;

	while (text[i] && (n || continues(text[i]))) {
		n -= !continues(text[i]);
		i++;
	}
	return i;
}

/* Where to break a line of n columns: at the last blank that fits, else in the middle of the word. */
static size_t line_of(const char *text, unsigned n)
{
	size_t len = fitting(text, n), at = len;

	if (!text[len])
		return len;
	while (at && text[at] != ' ')
		at--;
	return at ? at : len;
}

/* Columns that the last, unfinished line takes; escape sequences take none. */
static unsigned used_columns(const struct sbuf *b)
{
	const char *nl = b->len ? memrchr(b->text, '\n', b->len) : NULL, *p = b->len ? b->text : "";
	unsigned n = 0;

	for (p = nl ? nl + 1 : p; *p; p++) {
		if (*p == '\033')
			p += strcspn(p, "m");
		else
			n += !continues(*p);
	}
	return n;
}

void ctl_out_wrap(struct ctl_out *o, const char *text, unsigned hang)
{
	unsigned used = o->width ? used_columns(&o->text) : 0;

	if (!o->width) {
		ctl_out_safe(o, text);
		sbuf_add(&o->text, "\n");
		return;
	}
	do {
		size_t len = line_of(text, o->width > used + WORD_MIN ? o->width - used : WORD_MIN);

		add_safe(o, text, len);
		sbuf_add(&o->text, "\n");
		text += len;
		text += strspn(text, " ");
		used = hang;
		if (*text)
			sbuf_addf(&o->text, "%*s", (int)hang, "");
	} while (*text);
}

void ctl_out_cell(struct ctl_out *o, const char *text, unsigned n)
{
	unsigned have = ctl_out_columns(text);

	if (have > n && n > 3) {
		add_safe(o, text, fitting(text, n - 3));
		sbuf_add(&o->text, "...");
	} else {
		ctl_out_safe(o, text);
		sbuf_addf(&o->text, "%*s", have < n ? (int)(n - have) : 0, "");
	}
}

void ctl_out_end(struct ctl_out *o)
{
	while (o->text.len && o->text.text[o->text.len - 1] == ' ')
		o->text.text[--o->text.len] = '\0';
	sbuf_add(&o->text, "\n");
}

void ctl_out_json(struct ctl_out *o, json_object *doc)
{
	const char *text = json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);

	o->text.failed = o->text.failed || !text;
	sbuf_add(&o->text, text ? text : "");
	sbuf_add(&o->text, "\n");
}

void ctl_field_write(struct ctl_out *out, const char *name, const char *value)
{
	if (!*value)
		return;
	sbuf_addf(&out->text, "%-10s ", name);
	ctl_out_wrap(out, value, 11);
}

void ctl_number_write(struct ctl_out *out, const char *name, json_object *doc, const char *key)
{
	int64_t v = ctl_doc_int(doc, key, -1);

	if (v >= 0)
		sbuf_addf(&out->text, "%-10s %" PRId64 "\n", name, v);
}
