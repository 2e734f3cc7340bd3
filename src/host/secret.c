/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tables of notations and keys, and the little parsers that find them in sysfs text. */
#include "host/secret.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define PAIRS3 "hh:hh:hh"
#define PAIRS8 PAIRS3 ":" PAIRS3 ":hh:hh"
#define QUADS4 "hhhh:hhhh:hhhh:hhhh"

/* The first that fits counts, so long ones come first. */
static const struct secret_shape shapes[] = {
	{ .form = PAIRS8 ":" PAIRS8 ":hh:hh:hh:hh", .class = ANONYMIZE_GUID, .keep = 8, .gid = true }, /* IPoIB: QPN, GID */
	{ .form = QUADS4 ":" QUADS4, .class = ANONYMIZE_GUID, .gid = true },
	{ .form = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", .class = ANONYMIZE_UUID },
	{ .form = PAIRS8, .class = ANONYMIZE_GUID },
	{ .form = "hh-hh-hh-hh-hh-hh-hh-hh", .class = ANONYMIZE_GUID },
	{ .form = "hh-hh-hh-hh-hh-hh-hh", .class = ANONYMIZE_MAC, .keep = 2 }, /* BOOTIF: ARP hardware type, MAC */
	{ .form = PAIRS3 ":" PAIRS3, .class = ANONYMIZE_MAC },
	{ .form = "hh-hh-hh-hh-hh-hh", .class = ANONYMIZE_MAC },
	{ .form = QUADS4, .class = ANONYMIZE_GUID },
	{ .form = "enxhhhhhhhhhhhh", .class = ANONYMIZE_MAC }, /* udev's name for an interface without a place */
	{ .form = "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh", .class = ANONYMIZE_UUID, .whole = true },
	{ .form = "0xhhhhhhhhhhhhhhhh", .class = ANONYMIZE_GUID, .whole = true },
	{ .form = "hhhhhhhhhhhhhhhh", .class = ANONYMIZE_GUID, .whole = true },
};

static bool fits(const struct secret_shape *shape, const char *s, const char *end)
{
	size_t n = strlen(shape->form);

	if ((size_t)(end - s) < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (shape->form[i] == 'h' ? !isxdigit((unsigned char)s[i]) : s[i] != shape->form[i])
			return false;
	return s + n == end || (!isalnum((unsigned char)s[n]) && (s[n] != ':' || !strchr(shape->form, ':')));
}

const struct secret_shape *secret_shape_at(const char *s, const char *end)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (!shapes[i].whole && fits(&shapes[i], s, end))
			return &shapes[i];
	return NULL;
}

const struct secret_shape *secret_shape_whole(const char *s, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (strlen(shapes[i].form) == len && fits(&shapes[i], s, s + len))
			return &shapes[i];
	return NULL;
}

size_t secret_ipv4(const char *s, const char *end)
{
	struct in_addr a;
	char text[16];
	size_t n = 0;

	while (s + n < end && (isdigit((unsigned char)s[n]) || s[n] == '.'))
		n++;
	if (n && s[n - 1] == '.')
		n--;
	if (n >= sizeof(text) || (s + n < end && isalpha((unsigned char)s[n])))
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s", (int)n, s);
	return inet_pton(AF_INET, text, &a) == 1 ? n : 0;
}

size_t secret_ipv6(const char *s, const char *end)
{
	struct in6_addr a;
	char text[64];
	size_t n = 0;

	while (s + n < end && (isxdigit((unsigned char)s[n]) || s[n] == ':' || s[n] == '.'))
		n++;
	while (n && (s[n - 1] == '.' || (s[n - 1] == ':' && (n < 2 || s[n - 2] != ':'))))
		n--;
	if (n < 4 || n >= sizeof(text) || (s + n < end && isalnum((unsigned char)s[n])))
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s", (int)n, s);
	return inet_pton(AF_INET6, text, &a) == 1 ? n : 0;
}

bool secret_is_version(const char *path)
{
	const char *last = strrchr(path, '/');

	last = last ? last + 1 : path;
	return strstr(last, "version") || strstr(last, "_ver") || strstr(last, "release") || strstr(last, "revision");
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* Patterns of fnmatch(3): names of files, and of keys in them, in lower case. */
static const struct {
	const char          *key;
	enum anonymize_class class;
} keys[] = {
	{ "*serial", ANONYMIZE_SERIAL },     { "*serial?num*", ANONYMIZE_SERIAL }, { "*serialnum*", ANONYMIZE_SERIAL },
	{ "*asset*tag", ANONYMIZE_SERIAL },  { "*uuid", ANONYMIZE_SERIAL },
	{ "*guid", ANONYMIZE_SERIAL },       { "wwid", ANONYMIZE_SERIAL },       { "*wwn", ANONYMIZE_SERIAL },
	{ "eui", ANONYMIZE_SERIAL },         { "*nqn", ANONYMIZE_SERIAL },       { "hostid", ANONYMIZE_SERIAL },
	{ "*switch_id", ANONYMIZE_SERIAL },  { "*port?descr*", ANONYMIZE_ARGUMENT }, { "ifalias", ANONYMIZE_ARGUMENT },
	{ "machine[-_]id", ANONYMIZE_SERIAL }, { "boot_id", ANONYMIZE_SERIAL },  { "chassis*id", ANONYMIZE_SERIAL },
	{ "*hostname", ANONYMIZE_NAME },     { "*nodename", ANONYMIZE_NAME },    { "*domainname", ANONYMIZE_NAME },
	{ "*chassis*name", ANONYMIZE_NAME }, { "*sys?name", ANONYMIZE_NAME },
	{ "*sysname", ANONYMIZE_NAME },      { "*system?name", ANONYMIZE_NAME }, { "node_desc", ANONYMIZE_NAME },
};

/* Of the kernel command line: devices, file systems and servers to boot from (kernel-parameters, dracut.cmdline(7),
 * systemd(1)). What velad and the kernel's tuning are about stays. */
static const char *const arguments[] = {
	"root", "resume", "nfsroot", "netroot", "ip", "ifname", "cryptdevice", "ds", "*.mount-extra", "rd.lvm.*",
	"rd.luks.*", "rd.md.*", "rd.iscsi.*", "luks.*", "inst.*", "*url", "iscsi*", "ignition.*", "dm-mod.create",
	"systemd.set_credential*", "nameserver",
};

static bool class_of(enum anonymize_class *ret, const char *key, size_t len, bool cmdline)
{
	char name[64];

	if (len >= sizeof(name))
		return false;
	for (size_t i = 0; i < len; i++)
		name[i] = (char)tolower((unsigned char)key[i]);
	name[len] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (fnmatch(keys[i].key, name, 0) == 0) {
			*ret = keys[i].class;
			return true;
		}
	*ret = ANONYMIZE_ARGUMENT;
	for (size_t i = 0; cmdline && i < ARRAY_SIZE(arguments); i++)
		if (fnmatch(arguments[i], name, 0) == 0)
			return true;
	return false;
}

/* The value without blanks and quotes around it, and without what says only of which kind it is. */
static bool trim(struct secret_span *span, const char *text, size_t at, size_t end)
{
	static const char *const kinds[] = { "PARTUUID=", "UUID=", "PARTLABEL=", "LABEL=", "/dev/" };

	while (at < end && strchr(" \t\"", text[at]))
		at++;
	while (end > at && strchr(" \t\"", text[end - 1]))
		end--;
	for (size_t i = 0; span->class == ANONYMIZE_ARGUMENT && i < ARRAY_SIZE(kinds); i++)
		if (strncmp(text + at, kinds[i], strlen(kinds[i])) == 0 && at + strlen(kinds[i]) < end)
			at += strlen(kinds[i]);
	span->at = at;
	span->len = end - at;
	return span->len;
}

/* The end of a word of the kernel command line: quotes hide blanks (lib/cmdline.c, next_arg()). */
static size_t word_end(const char *text, size_t at)
{
	bool quoted = false;

	for (; text[at] && (quoted || !strchr(" \n", text[at])); at++)
		quoted ^= text[at] == '"';
	return at;
}

/* The whole file is the value of its name; of a node_desc the first word is a host name (rdma-ndd(8)). */
static bool whole_file(struct secret_span *span, const char *last, const char *text)
{
	size_t end = strlen(text);

	if (span->next || !class_of(&span->class, last, strlen(last), false))
		return false;
	if (strcmp(last, "node_desc") == 0)
		end = strcspn(text, " ");
	span->next = strlen(text);
	return trim(span, text, 0, end);
}

bool secret_span_next(struct secret_span *span, const char *path, const char *text)
{
	const char *last = strrchr(path, '/');
	bool cmdline = strcmp(path, "proc/cmdline") == 0;

	if (whole_file(span, last ? last + 1 : path, text))
		return true;
	while (text[span->next]) {
		size_t from = span->next, end = cmdline ? word_end(text, from) : from + strcspn(text + from, "\n");
		size_t key, name;

		span->next = end + (text[end] != '\0');
		from += cmdline && text[from] == '"';
		key = name = strcspn(text + from, cmdline ? "=" : ":=\t");
		while (name && strchr(" \t", text[from + name - 1]))
			name--;
		if (from + key < end && class_of(&span->class, text + from, name, cmdline) &&
		    trim(span, text, from + key + 1, end))
			return true;
	}
	return false;
}
