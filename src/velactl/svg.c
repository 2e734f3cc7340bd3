/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SVG 1.1 for browsers, Inkscape and office programs: no style sheet, since some of them know none. */
#include "velactl/svg.h"

#include <errno.h>

#include "base/error.h"
#include "guest/xml.h"
#include "velactl/picture.h"

#define BASELINE 12 /* of the first line below the top of its box, and the half of CTL_PAD */

static const struct {
	const char *fill, *edge;
} colours[CTL_BOX_KINDS] = {
	[CTL_BOX_PAGE] = { "#ffffff", "none" },
	[CTL_BOX_NODE] = { "#f3f4f6", "#6b7280" },
	[CTL_BOX_BRIDGE] = { "#ffffff", "#9ca3af" },
	[CTL_BOX_SWITCH] = { "#e0e7ef", "#64748b" },
	[CTL_BOX_PORT] = { "#ffffff", "#cbd5e1" },
	[CTL_BOX_GPU] = { "#c9e7a5", "#4d7c0f" },
	[CTL_BOX_NVSWITCH] = { "#e3d5f7", "#7e57c2" },
	[CTL_BOX_NIC] = { "#bfdcf7", "#1d6fb8" },
	[CTL_BOX_NVME] = { "#fbe3b3", "#b7791f" },
	[CTL_BOX_OTHER] = { "#f5f5f4", "#a8a29e" },
	[CTL_BOX_VF] = { "#e6f2fd", "#1d6fb8" },
};

static const char *const ink[] = {
	[CTL_PLAIN] = "#1f2937",
	[CTL_STRONG] = "#111827",
	[CTL_WARN] = "#b91c1c",
	[CTL_OWNER] = "#6d28d9",
};

static void draw_text(struct xml *x, int at, int y, const char *text, enum ctl_tone tone, bool to_the_left)
{
	if (!*text)
		return;
	xml_open(x, "text");
	xml_attrf(x, "x", "%d", at);
	xml_attrf(x, "y", "%d", y);
	if (to_the_left)
		xml_attr(x, "text-anchor", "end");
	if (tone != CTL_PLAIN)
		xml_attr(x, "fill", ink[tone]);
	if (tone != CTL_PLAIN)
		xml_attr(x, "font-weight", "bold");
	xml_putf(x, "%s", text);
	xml_close(x);
}

static void draw_rect(struct xml *x, int left, int top, int w, int h, enum ctl_box_kind kind)
{
	xml_attrf(x, "x", "%d", left);
	xml_attrf(x, "y", "%d", top);
	xml_attrf(x, "width", "%d", w);
	xml_attrf(x, "height", "%d", h);
	xml_attr(x, "fill", colours[kind].fill);
	xml_attr(x, "stroke", colours[kind].edge);
}

static void draw_box(struct xml *x, const struct ctl_box *b)
{
	xml_open(x, "g");
	if (*b->tip)
		xml_text(x, "title", b->tip);
	xml_open(x, "rect");
	draw_rect(x, b->x, b->y, b->w, b->h, b->kind);
	if (b->kind != CTL_BOX_PAGE)
		xml_attr(x, "rx", "3");
	if (b->slow) {
		xml_attr(x, "stroke-width", "2");
		xml_attr(x, "stroke-dasharray", "5 3");
	}
	xml_close(x);
	for (unsigned i = 0; i < b->nlines; i++) {
		const struct ctl_line *l = &b->line[i];
		int y = b->y + CTL_PAD / 2 + (int)i * CTL_LINE + BASELINE;

		draw_text(x, b->x + CTL_PAD, y, l->left, l->tone, false);
		draw_text(x, b->x + b->w - CTL_PAD, y, l->right, l->right_tone, true);
	}
	xml_close(x);
}

static void draw_legend(struct xml *x, const struct ctl_picture *p)
{
	for (size_t i = 0; i < p->nchips; i++) {
		const struct ctl_chip *c = &p->chip[i];

		xml_open(x, "rect");
		draw_rect(x, c->x, c->y, CTL_SWATCH, CTL_SWATCH, c->kind);
		xml_close(x);
		draw_text(x, c->x + CTL_SWATCH + 4, c->y + 10, c->text, CTL_PLAIN, false);
	}
}

static void draw(struct xml *x, const struct ctl_picture *p)
{
	const struct ctl_box *page = &p->box[0];

	xml_open(x, "svg", "xmlns", "http://www.w3.org/2000/svg", "version", "1.1");
	xml_attrf(x, "width", "%d", page->w);
	xml_attrf(x, "height", "%d", page->h);
	xml_attrf(x, "viewBox", "0 0 %d %d", page->w, page->h);
	xml_attr(x, "font-family", "DejaVu Sans, Verdana, Arial, sans-serif");
	xml_attr(x, "font-size", "11");
	xml_attr(x, "fill", ink[CTL_PLAIN]);
	for (int i = 0; i < p->n; i++) /* parents first, so that children lie on them */
		draw_box(x, &p->box[i]);
	draw_legend(x, p);
	draw_text(x, page->w - CTL_PAD, page->h - CTL_PAD, p->note, CTL_PLAIN, true);
	xml_close(x);
}

int ctl_svg_write(char **ret, const struct ctl_picture *p, struct error *err)
{
	struct xml x;
	int r = xml_init(&x, err);

	if (r == 0) {
		draw(&x, p);
		r = xml_finish(&x, ret, err);
	}
	xml_done(&x);
	/* the writer's own words are about domain XML, and texts of a picture are never refused */
	return r < 0 ? error_set(err, r, "no memory for a picture") : 0;
}
