/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "host/kind.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strtab.h"

static const char *const kind_names[HOST_KIND_MAX_] = {
	[HOST_GPU] = "gpu",   [HOST_NVSWITCH] = "nvswitch",    [HOST_NIC] = "nic",       [HOST_VF] = "vf",
	[HOST_DATA_DIRECT] = "data-direct", [HOST_NVME] = "nvme", [HOST_USP] = "usp",              [HOST_DSP] = "dsp",
	[HOST_ROOT_PORT] = "root-port", [HOST_BRIDGE] = "bridge", [HOST_OTHER] = "other",
};

const char *host_kind_text(enum host_kind k)
{
	return strtab_text(kind_names, HOST_KIND_MAX_, (int)k);
}

bool host_kind_is_bridge(enum host_kind k)
{
	return k == HOST_USP || k == HOST_DSP || k == HOST_ROOT_PORT || k == HOST_BRIDGE;
}

int host_kind_parse(const char *text)
{
	return strtab_find(kind_names, HOST_KIND_MAX_, text);
}

/* One field of a pattern: "*" or exactly `digits` hex digits. */
static bool field_parse(uint64_t *value, uint64_t *mask, const char *s, size_t digits)
{
	if (strcmp(s, "*") == 0) {
		*value = *mask = 0;
		return true;
	}
	if (strlen(s) != digits || !isxdigit((unsigned char)s[0]) || !isxdigit((unsigned char)s[1]) ||
	    parse_uint(value, s, 16, UINT32_MAX) < 0)
		return false;
	*mask = (UINT64_C(1) << (4 * digits)) - 1;
	return true;
}

static bool rule_parse(struct host_kind_rule *rule, char *pattern)
{
	uint64_t v[3] = { 0 }, m[3] = { 0 };
	char *device = strchr(pattern, ':'), *class = device ? strchr(device + 1, ':') : NULL;

	if (!class)
		return false;
	*device++ = '\0';
	*class++ = '\0';
	if (!field_parse(&v[0], &m[0], pattern, 4) || !field_parse(&v[1], &m[1], device, 4))
		return false;
	if (field_parse(&v[2], &m[2], class, 4)) {
		v[2] <<= 8; /* any programming interface */
		m[2] <<= 8;
	} else if (!field_parse(&v[2], &m[2], class, 6)) {
		return false;
	}
	rule->vendor = (uint16_t)v[0];
	rule->vendor_mask = (uint16_t)m[0];
	rule->device = (uint16_t)v[1];
	rule->device_mask = (uint16_t)m[1];
	rule->class = (uint32_t)v[2];
	rule->class_mask = (uint32_t)m[2];
	return true;
}

static void forget(struct host_kinds *k, enum host_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		if (k->rule[i].kind != kind)
			k->rule[n++] = k->rule[i];
	k->n = n;
}

int host_kinds_add(struct host_kinds *k, const char *key, const char *patterns, struct error *err)
{
	int kind = host_kind_parse(key);
	const char *p = patterns + strspn(patterns, " \t");

	if (kind != HOST_GPU && kind != HOST_NVSWITCH && kind != HOST_NIC && kind != HOST_DATA_DIRECT && kind != HOST_NVME)
		return error_set(err, -EINVAL, "unknown kind \"%.40s\" in [kinds]; known are gpu, nvswitch, nic, data-direct, "
				 "nvme", key);
	if (!*p)
		forget(k, (enum host_kind)kind);
	while (*p) {
		size_t n = strcspn(p, " \t");
		char one[32];

		if (k->n == HOST_KIND_RULES_MAX)
			return error_set(err, -EINVAL, "more than %d patterns in [kinds]", HOST_KIND_RULES_MAX);
		(void)snprintf(one, sizeof(one), "%.*s", (int)(n < sizeof(one) ? n : sizeof(one)), p);
		k->rule[k->n].kind = (enum host_kind)kind;
		if (n >= sizeof(one) || !rule_parse(&k->rule[k->n], one))
			return error_set(err, -EINVAL,
					 "not a pattern of [kinds] %s: \"%.*s\"; say vendor:device:class, as 10de:*:0302",
					 key, (int)(n < 60 ? n : 60), p);
		k->n++;
		p += n;
		p += strspn(p, " \t");
	}
	return 0;
}

int host_kinds_load(struct host_kinds *k, const struct conf *conf, struct error *err)
{
	for (size_t i = 0; i < conf->nkinds; i++) {
		const struct conf_line *line = &conf->kind[i];

		if (host_kinds_add(k, line->key, line->value, err) < 0)
			return error_prefix(err, "%s", line->where);
	}
	if (snprintf(k->fmpm, sizeof(k->fmpm), "%s", conf->fmpm) >= (int)sizeof(k->fmpm))
		return error_set(err, -EINVAL, "[host] fmpm is longer than %zu bytes", sizeof(k->fmpm) - 1);
	return 0;
}

enum host_kind host_kinds_match(const struct host_kinds *k, struct host_id id)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct host_kind_rule *r = &k->rule[i];

		if ((id.vendor & r->vendor_mask) == r->vendor && (id.device & r->device_mask) == r->device &&
		    (id.class & r->class_mask) == r->class)
			return r->kind;
	}
	return HOST_OTHER;
}
