/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/out.h"

#include "fixture.h"
#include "velactl/table.h"

static void foreign_text_is_made_safe(void **state)
{
	struct ctl_out o = { 0 };

	(void)state;
	ctl_out_safe(&o, "a\033[31mb\r\n\x7f\xc2\x9b" "1m \xc3\xa9 \xc2\xa0.");
	assert_printed(&o, "a?[31mb????1m \xc3\xa9 \xc2\xa0.");
	ctl_out_safe(&o, "");
	assert_printed(&o, "");
}

static void paragraphs_are_wrapped(void **state)
{
	struct ctl_out o = { .width = 20 };

	(void)state;
	sbuf_add(&o.text, "  - ");
	ctl_out_wrap(&o, "one two three four five six", 4);
	assert_printed(&o, "  - one two three\n    four five six\n");
	ctl_out_wrap(&o, "aVeryLongWordWithoutAnyBlanksInIt", 2);
	assert_printed(&o, "aVeryLongWordWithout\n  AnyBlanksInIt\n");
	sbuf_add(&o.text, "above\n\033[31m!\033[0m ");
	ctl_out_wrap(&o, "\xc3\xa4\xc3\xb6\xc3\xbc 4567890123456 x", 2);
	assert_printed(&o, "above\n\033[31m!\033[0m \xc3\xa4\xc3\xb6\xc3\xbc 4567890123456\n  x\n");
	ctl_out_wrap(&o, "", 2);
	assert_printed(&o, "\n");
	o.width = 0;
	ctl_out_wrap(&o, "one two three four five six seven", 2);
	assert_printed(&o, "one two three four five six seven\n");
}

static void cells_are_padded_or_cut(void **state)
{
	struct ctl_out o = { 0 };

	(void)state;
	ctl_out_cell(&o, "ab", 4);
	sbuf_add(&o.text, "|");
	ctl_out_cell(&o, "\xc3\xa4", 2);
	sbuf_add(&o.text, "|");
	ctl_out_cell(&o, "0-55,112-167", 8);
	assert_printed(&o, "ab  |\xc3\xa4 |0-55,...");
	ctl_out_cell(&o, "x", 5);
	ctl_out_end(&o);
	assert_printed(&o, "x\n");
}

static void json_is_pretty(void **state)
{
	json_object *doc = json_of("{\"path\":\"/dev/x\",\"esc\":\"\\u001b[31m\"}");
	struct ctl_out o = { 0 };

	(void)state;
	ctl_out_json(&o, doc);
	assert_printed(&o, "{\n  \"path\":\"/dev/x\",\n  \"esc\":\"\\u001b[31m\"\n}\n");
	json_object_put(doc);
}

static const struct ctl_column columns[] = {
	{ "NAME", CTL_LEFT },
	{ "TEXT", CTL_LEFT, .drop = 2, .cut = 8 },
	{ "N", CTL_RIGHT, .drop = 1 },
	{ "NEVER", CTL_LEFT, .drop = 3 },
};

static void print_table(struct ctl_out *o, unsigned width)
{
	struct libscols_table *t = ctl_table_new(columns, ARRAY_SIZE(columns));
	const char *one[] = { "first", "a text of some length", "12", NULL }, *two[] = { "second", "short", "", "" };

	o->width = width;
	assert_non_null(t);
	assert_non_null(ctl_table_row(t, NULL, one, ARRAY_SIZE(one)));
	assert_non_null(ctl_table_row(t, NULL, two, ARRAY_SIZE(two)));
	ctl_table_print(o, t, columns, ARRAY_SIZE(columns));
	scols_unref_table(t);
}

static void tables_fit(void **state)
{
	struct ctl_out o = { 0 };

	(void)state;
	print_table(&o, 0); /* the empty column is gone, and no line ends with blanks */
	assert_printed(&o, "NAME    TEXT                    N\nfirst   a text of some length  12\nsecond  short\n");
	print_table(&o, 24);
	assert_printed(&o, "NAME    TEXT           N\nfirst   a text of so  12\nsecond  short\n");
	print_table(&o, 18);
	assert_printed(&o, "NAME    TEXT\nfirst   a text of\nsecond  short\n");
	print_table(&o, 12); /* TEXT had to go, and made room for N */
	assert_printed(&o, "NAME     N\nfirst   12\nsecond\n");
	print_table(&o, 7);
	assert_printed(&o, "NAME\nfirst\nsecond\n");
}

static void colours_only_when_wanted(void **state)
{
	const char *cell[] = { "a", "b", "1", "" };

	(void)state;
	for (int colour = 0; colour < 2; colour++) {
		struct libscols_table *t = ctl_table_new(columns, ARRAY_SIZE(columns));
		struct ctl_out o = { .width = 80, .colour = colour };
		struct libscols_line *row = ctl_table_row(t, NULL, cell, ARRAY_SIZE(cell));

		ctl_table_colour(row, 0, "red");
		ctl_table_print(&o, t, columns, ARRAY_SIZE(columns));
		assert_int_equal(strstr(o.text.text, "\033[31m") != NULL, colour);
		sbuf_done(&o.text);
		scols_unref_table(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(foreign_text_is_made_safe), cmocka_unit_test(paragraphs_are_wrapped),
		cmocka_unit_test(cells_are_padded_or_cut),   cmocka_unit_test(json_is_pretty),
		cmocka_unit_test(tables_fit),		     cmocka_unit_test(colours_only_when_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
