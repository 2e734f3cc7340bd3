/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/bdf.h"

#include <ctype.h>
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

static char *put_hex(char *at, uint32_t v, unsigned digits)
{
	for (unsigned i = digits; i--; v >>= 4)
		at[i] = "0123456789abcdef"[v & 15];
	return at + digits;
}

/* By hand: a document has as many of these as functions, and printf costs ten times as much. */
const char *bdf_text(char buf[BDF_TEXT_MAX], struct bdf b)
{
	unsigned digits = 4;
	char *at = buf;

	if (bdf_is_none(b))
		return strcpy(buf, "-");
	while (digits < 8 && b.domain >> (4 * digits))
		digits++;
	at = put_hex(at, b.domain, digits);
	*at++ = ':';
	at = put_hex(at, b.bus, 2);
	*at++ = ':';
	at = put_hex(at, bdf_device(b), 2);
	*at++ = '.';
	*put_hex(at, bdf_function(b), 1) = '\0';
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
