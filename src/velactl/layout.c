/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Boxes lie on shelves: so many side by side, then the next shelf. How many is tried out, and what fills a
 * 16:9 slide with the largest letters wins. Widths of text are estimates for a wide sans-serif font, since
 * whoever shows the picture chooses the font. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "velactl/out.h"
#include "velactl/picture.h"

#define SLIDE_W 1600
#define SLIDE_H 900

#define GAP        6   /* between boxes */
#define DEVICE_W   252
#define LETTER     64  /* tenths of a pixel, at 11 pixels */
#define STRONG     75
#define TRIES_NODE 8   /* NUMA nodes side by side */
#define TRIES_HOST 16  /* host bridges of a node side by side */
#define TRIES_DEV  4   /* devices of a switch side by side */

struct shape {
	int across[CTL_BOX_KINDS]; /* children side by side in a box of this kind */
};

struct shelf {
	int first, end; /* children [first, end) */
	int n, w, h;
};

static bool is_container(const struct ctl_box *b)
{
	return b->kind <= CTL_BOX_SWITCH;
}

/* The shelf that begins with child `first`. */
static struct shelf shelf_at(const struct ctl_picture *p, const struct shape *s, int box, int first)
{
	struct shelf f = { .first = first, .w = -GAP };
	int i = first;

	for (; i >= 0 && f.n < s->across[p->box[box].kind]; i = p->box[i].next) {
		f.n++;
		f.w += GAP + p->box[i].w;
		f.h = p->box[i].h > f.h ? p->box[i].h : f.h;
	}
	f.end = i;
	return f;
}

static int text_width(const char *text, enum ctl_tone tone)
{
	return ((int)ctl_out_columns(text) * (tone == CTL_STRONG ? STRONG : LETTER) + 9) / 10;
}

static int header_height(const struct ctl_box *b)
{
	return (int)b->nlines * CTL_LINE + CTL_PAD;
}

/* The least width and height of a box; those of its children are known: children come after their parents. */
static void measure(struct ctl_picture *p, const struct shape *s, int box)
{
	struct ctl_box *b = &p->box[box];
	int w = b->kind >= CTL_BOX_PORT && b->kind != CTL_BOX_VF ? DEVICE_W - 2 * CTL_PAD : 0, h = header_height(b);

	if (b->kind == CTL_BOX_VF || b->kind == CTL_BOX_BRIDGE || b->kind == CTL_BOX_SWITCH || b->kind == CTL_BOX_NODE)
		w = DEVICE_W - 4 * CTL_PAD;
	for (int i = b->first; i >= 0;) {
		struct shelf f = shelf_at(p, s, box, i);

		w = f.w > w ? f.w : w;
		h += f.h + GAP;
		i = f.end;
	}
	b->w = w + 2 * CTL_PAD;
	b->h = h + (b->first >= 0 ? CTL_PAD - GAP : 0) + (b->kind == CTL_BOX_PAGE ? CTL_LINE + CTL_PAD : 0);
}

/* Boxes of a shelf share what is left, but devices as wide as a page look like something else. */
static int stretch(const struct ctl_box *b, int extra)
{
	return b->kind == CTL_BOX_NODE || extra < b->w / 3 ? extra : b->w / 3;
}

/* The children of a box that has its place and size. */
static void place(struct ctl_picture *p, const struct shape *s, int box)
{
	struct ctl_box *b = &p->box[box];
	int y = b->y + header_height(b), bottom = b->y + b->h - CTL_PAD;

	for (int i = b->first; i >= 0;) {
		struct shelf f = shelf_at(p, s, box, i);
		int x = b->x + CTL_PAD, extra = (b->w - 2 * CTL_PAD - f.w) / f.n;

		if (f.end < 0 && is_container(&p->box[i]) && b->kind != CTL_BOX_PAGE)
			f.h = bottom - y > f.h ? bottom - y : f.h; /* neighbours end at the same height */
		for (; i != f.end; i = p->box[i].next) {
			struct ctl_box *c = &p->box[i];

			c->x = x;
			c->y = y;
			c->w += stretch(c, extra);
			c->h = f.h;
			x += c->w + GAP;
		}
		y += f.h + GAP;
	}
}

/* How large letters get on a slide. */
static uint64_t scale(const struct ctl_box *page)
{
	uint64_t w = ((uint64_t)SLIDE_W << 16) / (uint64_t)page->w, h = ((uint64_t)SLIDE_H << 16) / (uint64_t)page->h;

	return w < h ? w : h;
}

static void measure_all(struct ctl_picture *p, const struct shape *s)
{
	for (int i = p->n - 1; i >= 0; i--)
		measure(p, s, i);
}

/* The most children that a box of this kind has. */
static int most_of(const struct ctl_picture *p, enum ctl_box_kind kind, int limit)
{
	int most = 1;

	for (int i = 0; i < p->n; i++) {
		int n = 0;

		for (int c = p->box[i].kind == kind ? p->box[i].first : -1; c >= 0; c = p->box[c].next)
			n++;
		most = n > most ? n : most;
	}
	return most < limit ? most : limit;
}

static struct shape shape_of(int nodes, int hosts, int devices)
{
	struct shape s;

	for (int k = 0; k < CTL_BOX_KINDS; k++)
		s.across[k] = 1; /* VFs of a PF */
	s.across[CTL_BOX_PAGE] = nodes;
	s.across[CTL_BOX_NODE] = hosts;
	s.across[CTL_BOX_BRIDGE] = devices;
	s.across[CTL_BOX_SWITCH] = devices;
	return s;
}

static struct shape choose(struct ctl_picture *p)
{
	int nodes = most_of(p, CTL_BOX_PAGE, TRIES_NODE), hosts = most_of(p, CTL_BOX_NODE, TRIES_HOST);
	int in_bridge = most_of(p, CTL_BOX_BRIDGE, TRIES_DEV), in_switch = most_of(p, CTL_BOX_SWITCH, TRIES_DEV);
	int devices = in_bridge > in_switch ? in_bridge : in_switch;
	struct shape best = shape_of(1, 1, 1);
	uint64_t best_scale = 0;

	for (int a = 1; a <= nodes; a++)
		for (int b = 1; b <= hosts; b++)
			for (int c = 1; c <= devices; c++) {
				struct shape s = shape_of(a, b, c);

				measure_all(p, &s);
				if (scale(&p->box[0]) > best_scale) {
					best_scale = scale(&p->box[0]);
					best = s;
				}
			}
	return best;
}

/* text, cut to w pixels; NULL: no memory */
static const char *fit(struct ctl_picture *p, const char *text, int w, enum ctl_tone tone)
{
	int room = w * 10 / (tone == CTL_STRONG ? STRONG : LETTER), len = 0;

	if (text_width(text, tone) <= w)
		return text;
	for (int n = room > 1 ? room - 1 : 0; text[len] && (n || ((unsigned char)text[len] & 0xc0) == 0x80); len++)
		n -= ((unsigned char)text[len] & 0xc0) != 0x80;
	return arena_printf(&p->arena, "%.*s\u2026", len, text);
}

static bool fit_lines(struct ctl_picture *p, struct ctl_box *b)
{
	int w = b->w - 2 * CTL_PAD;

	for (unsigned i = 0; i < b->nlines; i++) {
		struct ctl_line *l = &b->line[i];
		int left = text_width(l->left, l->tone), right = text_width(l->right, l->right_tone);
		int gap = *l->left && *l->right ? CTL_PAD : 0;

		if (left + gap + right <= w)
			continue;
		/* what both need is taken from the longer one */
		if (left <= w / 2) {
			l->right = fit(p, l->right, w - gap - left, l->right_tone);
		} else {
			int keep = *l->right ? (right <= w / 2 ? w - gap - right : w / 2 - gap) : w;

			l->left = fit(p, l->left, keep, l->tone);
			if (l->left && *l->right)
				l->right = fit(p, l->right, w - gap - text_width(l->left, l->tone), l->right_tone);
		}
		if (!l->left || !l->right)
			return false;
	}
	return true;
}

/* The legend stands at the right of the title, or below it where there is no room; returns its width. */
static int legend_width(const struct ctl_picture *p)
{
	int w = 0;

	for (size_t i = 0; i < p->nchips; i++)
		w += CTL_SWATCH + 4 + text_width(p->chip[i].text, CTL_PLAIN) + 2 * GAP;
	return w;
}

static void place_legend(struct ctl_picture *p)
{
	struct ctl_box *page = &p->box[0];
	int x = page->w - CTL_PAD - legend_width(p) + 2 * GAP;

	x = x > CTL_PAD ? x : CTL_PAD;
	for (size_t i = 0; i < p->nchips; i++) {
		struct ctl_chip *c = &p->chip[i];

		c->x = x;
		c->y = page->nlines > 1 ? CTL_PAD / 2 + CTL_LINE + 2 : CTL_PAD / 2 + 2;
		x += CTL_SWATCH + 4 + text_width(c->text, CTL_PLAIN) + 2 * GAP;
	}
}

int ctl_layout(struct ctl_picture *p, struct error *err)
{
	struct ctl_box *page = &p->box[0];
	struct shape s = choose(p);
	int legend = legend_width(p), title = text_width(page->line[0].left, CTL_STRONG);

	measure_all(p, &s);
	if (title + legend + 4 * CTL_PAD > page->w) {
		page->line[page->nlines++] = (struct ctl_line){ .left = "", .right = "" }; /* the legend's line */
		page->h += CTL_LINE;
		title = title > legend ? title : legend;
		page->w = title + 2 * CTL_PAD > page->w ? title + 2 * CTL_PAD : page->w;
	}
	for (int i = 0; i < p->n; i++)
		place(p, &s, i);
	for (int i = 0; i < p->n; i++)
		if (!fit_lines(p, &p->box[i]))
			return error_set(err, -ENOMEM, "no memory for a picture");
	place_legend(p);
	return 0;
}
