/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/bdf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* min..max hex digits at *p, moved past them; -1 if there are fewer or more. */
static int64_t hex_field(const char **p, int min, int max)
{
	int64_t v = 0;
	int n = 0;

	for (; isxdigit((unsigned char)**p); (*p)++, n++) {
		char c = (char)tolower((unsigned char)**p);

		if (n == max)
			return -1;
		v = v << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return n >= min ? v : -1;
}

bool bdf_parse(struct bdf *ret, const char *text)
{
	const char *p = text;
	int64_t domain = 0, bus, dev, fn;

	if (strchr(text, ':') != strrchr(text, ':')) {
		domain = hex_field(&p, 4, 8);
		if (domain < 0 || *p++ != ':')
			return false;
	}
	bus = hex_field(&p, 2, 2);
	if (bus < 0 || *p++ != ':')
		return false;
	dev = hex_field(&p, 2, 2);
	if (dev < 0 || dev > 0x1f || *p++ != '.')
		return false;
	fn = hex_field(&p, 1, 1);
	if (fn < 0 || fn > 7 || *p)
		return false;
	*ret = (struct bdf){ .domain = (uint32_t)domain,
			     .bus = (uint8_t)bus,
			     .devfn = (uint8_t)(dev << 3 | fn) };
	return true;
}

const char *bdf_text(char buf[BDF_TEXT_MAX], struct bdf b)
{
	if (bdf_is_none(b))
		return strcpy(buf, "-");
	(void)snprintf(buf, BDF_TEXT_MAX, "%04x:%02x:%02x.%x", b.domain, b.bus, bdf_device(b), bdf_function(b));
	return buf;
}

int bdf_cmp(struct bdf a, struct bdf b)
{
	if (a.domain != b.domain)
		return a.domain < b.domain ? -1 : 1;
	if (a.bus != b.bus)
		return a.bus < b.bus ? -1 : 1;
	if (a.devfn != b.devfn)
		return a.devfn < b.devfn ? -1 : 1;
	return 0;
}

bool bdf_add(struct bdf *ret, struct bdf b, uint32_t offset)
{
	uint32_t rid = (uint32_t)b.bus << 8 | b.devfn;

	if (offset > 0xffff - rid)
		return false;
	rid += offset;
	*ret = (struct bdf){ .domain = b.domain, .bus = (uint8_t)(rid >> 8), .devfn = (uint8_t)rid };
	return true;
}

bool bdf_in(const struct bdf *list, size_t n, struct bdf b)
{
	for (size_t i = 0; i < n; i++)
		if (bdf_eq(list[i], b))
			return true;
	return false;
}
