/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One table of what can be set of a VF; texts, JSON, defaults and differences follow from it. */
#include "plan/vf.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/strtab.h"
#include "plan/plan.h"

#define BIT PLAN_VF_BIT

enum kind { ADDRESS, NUMBER, WORD };

static const char *const switches[] = { "off", "on" };
static const char *const protocols[] = { "802.1Q", "802.1ad" };
static const char *const states[] = { "auto", "up", "down" };
static const uint64_t protocol_values[] = { 0x8100, 0x88a8 }; /* ETH_P_8021Q, ETH_P_8021AD */

static const struct attr {
	const char        *name;
	enum kind          kind;
	uint64_t           max;   /* of a number; of an address: how many bytes */
	const char *const *word;  /* nwords of them */
	uint64_t           nwords, standard;
	uint32_t           group; /* what the kernel sets by one message */
} attrs[PLAN_VF_ATTR_MAX_] = {
	[PLAN_VF_MAC]         = { "mac", ADDRESS, 6, NULL, 0, 0, BIT(PLAN_VF_MAC) },
	[PLAN_VF_VLAN]        = { "vlan", NUMBER, 4094, NULL, 0, 0, BIT(PLAN_VF_VLAN) | BIT(PLAN_VF_QOS) | BIT(PLAN_VF_PROTOCOL) },
	[PLAN_VF_QOS]         = { "qos", NUMBER, 7, NULL, 0, 0, BIT(PLAN_VF_VLAN) | BIT(PLAN_VF_QOS) | BIT(PLAN_VF_PROTOCOL) },
	[PLAN_VF_PROTOCOL]    = { "vlan_protocol", WORD, 0, protocols, 2, 0x8100, BIT(PLAN_VF_VLAN) | BIT(PLAN_VF_QOS) | BIT(PLAN_VF_PROTOCOL) },
	[PLAN_VF_TRUST]       = { "trust", WORD, 0, switches, 2, 0, BIT(PLAN_VF_TRUST) },
	[PLAN_VF_SPOOF_CHECK] = { "spoof_check", WORD, 0, switches, 2, 1, BIT(PLAN_VF_SPOOF_CHECK) },
	[PLAN_VF_MIN_RATE]    = { "min_rate", NUMBER, UINT32_MAX, NULL, 0, 0, BIT(PLAN_VF_MIN_RATE) | BIT(PLAN_VF_MAX_RATE) },
	[PLAN_VF_MAX_RATE]    = { "max_rate", NUMBER, UINT32_MAX, NULL, 0, 0, BIT(PLAN_VF_MIN_RATE) | BIT(PLAN_VF_MAX_RATE) },
	[PLAN_VF_LINK_STATE]  = { "link_state", WORD, 0, states, 3, 0, BIT(PLAN_VF_LINK_STATE) },
	[PLAN_VF_NODE_GUID]   = { "node_guid", ADDRESS, 8, NULL, 0, 0, BIT(PLAN_VF_NODE_GUID) },
	[PLAN_VF_PORT_GUID]   = { "port_guid", ADDRESS, 8, NULL, 0, 0, BIT(PLAN_VF_PORT_GUID) },
};

/* ---- values ----------------------------------------------------------------------------------------- */

/* "52:54:00:12:34:56": n pairs of hex digits */
static bool parse_address(uint64_t *ret, const char *text, uint64_t n)
{
	char pair[3] = "";
	uint64_t v = 0, byte;

	if (strlen(text) != 3 * n - 1)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		memcpy(pair, text + 3 * i, 2);
		if ((i + 1 < n && text[3 * i + 2] != ':') || parse_uint(&byte, pair, 16, 255) < 0 || strchr(pair, 'x'))
			return false;
		v = v << 8 | byte;
	}
	*ret = v;
	return true;
}

static bool parse_value(uint64_t *ret, enum plan_vf_attr a, const char *text)
{
	const struct attr *t = &attrs[a];
	int w;

	if (t->kind == NUMBER)
		return parse_uint(ret, text, 10, t->max) == 0;
	if (t->kind == ADDRESS && strcmp(text, "auto") == 0)
		*ret = PLAN_VF_AUTO;
	else if (t->kind == ADDRESS)
		return parse_address(ret, text, t->max);
	w = t->kind == WORD ? strtab_find(t->word, (int)t->nwords, text) : 0;
	if (t->kind == WORD && w >= 0)
		*ret = a == PLAN_VF_PROTOCOL ? protocol_values[w] : (uint64_t)w;
	return w >= 0;
}

static const char *value_text(char out[32], enum plan_vf_attr a, uint64_t v)
{
	const struct attr *t = &attrs[a];
	size_t n = 0;

	if (t->kind == WORD)
		return strtab_text(t->word, (int)t->nwords, a == PLAN_VF_PROTOCOL ? v == protocol_values[1] : (int)v);
	if (t->kind == NUMBER)
		(void)snprintf(out, 32, "%" PRIu64, v);
	else if (v == PLAN_VF_AUTO)
		return "auto";
	for (uint64_t i = 0; t->kind == ADDRESS && i < t->max; i++)
		n += (size_t)snprintf(out + n, 32 - n, "%s%02x", i ? ":" : "", (unsigned)(v >> 8 * (t->max - 1 - i) & 0xff));
	return out;
}

/* What it can be, for whoever said something else. */
static const char *can_be(char out[64], enum plan_vf_attr a)
{
	const struct attr *t = &attrs[a];
	size_t n = 0;

	out[0] = '\0';
	if (t->kind == NUMBER)
		(void)snprintf(out, 64, "0 to %" PRIu64, t->max);
	else if (t->kind == ADDRESS)
		return a == PLAN_VF_MAC ? "like 02:00:00:12:34:56" : "like 02:00:00:00:00:12:34:56";
	for (uint64_t i = 0; i < t->nwords; i++)
		n += (size_t)snprintf(out + n, 64 - n, "%s%s", i ? ", " : "", t->word[i]);
	return out;
}

static int bad_value(const char *where, enum plan_vf_attr a, const char *text, struct error *err)
{
	char can[64];

	return error_set(err, -EINVAL, "%s%s is \"%.40s\"; it can be %s", where, attrs[a].name, text, can_be(can, a));
}

/* ---- text ------------------------------------------------------------------------------------------- */

static int find_attr(const char *name, size_t len)
{
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (strlen(attrs[a].name) == len && strncmp(attrs[a].name, name, len) == 0)
			return a;
	return -1;
}

int plan_vf_parse(struct plan_vf_settings *ret, const char *text, struct error *err)
{
	struct plan_vf_settings s = { 0 };

	for (const char *p = text; *p;) {
		size_t len = strcspn(p, " ,"), key = strcspn(p, "= ,");
		int a = find_attr(p, key);
		char value[32] = "";

		if (a < 0)
			return error_set(err, -EINVAL, "\"%.*s\" is nothing that can be set of a VF; there are mac, vlan, qos, vlan_protocol, "
					 "trust, spoof_check, min_rate, max_rate, link_state, node_guid and port_guid", (int)(key < 40 ? key : 40), p);
		if (s.has & BIT(a))
			return error_set(err, -EINVAL, "%s is said twice", attrs[a].name);
		if (len > key && len - key - 1 < sizeof(value))
			(void)snprintf(value, sizeof(value), "%.*s", (int)(len - key - 1), p + key + 1);
		if (!parse_value(&s.value[a], (enum plan_vf_attr)a, value))
			return bad_value("", (enum plan_vf_attr)a, value, err);
		s.has |= BIT(a);
		p += len;
		p += strspn(p, " ,");
	}
	*ret = s;
	return 0;
}

const char *plan_vf_text(char out[PLAN_VF_TEXT_MAX], const struct plan_vf_settings *s)
{
	char value[32];
	size_t n = 0;

	out[0] = '\0';
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (s->has & BIT(a))
			n += (size_t)snprintf(out + n, PLAN_VF_TEXT_MAX - n, "%s%s=%s", n ? " " : "", attrs[a].name,
					      value_text(value, (enum plan_vf_attr)a, s->value[a]));
	assert(n < PLAN_VF_TEXT_MAX); /* all of them with their longest values are 260 */
	return out;
}

const char *plan_vf_names(char out[PLAN_VF_TEXT_MAX], uint32_t bits)
{
	size_t n = 0;

	out[0] = '\0';
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (bits & BIT(a))
			n += (size_t)snprintf(out + n, PLAN_VF_TEXT_MAX - n, "%s%s", !n ? "" : bits >> a > 1 ? ", " : " and ", attrs[a].name);
	return out;
}

int plan_vf_bits(uint32_t *ret, const char *names, struct error *err)
{
	uint32_t bits = 0;

	for (const char *p = names; *p && strcmp(names, "none") != 0;) {
		size_t len = strcspn(p, " \t");
		int a = find_attr(p, len);

		if (a < 0)
			return error_set(err, -EINVAL, "\"%.*s\" is nothing that can be set of a VF", (int)(len < 40 ? len : 40), p);
		bits |= BIT(a);
		p += len;
		p += strspn(p, " \t");
	}
	*ret = bits;
	return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

struct raw {
	char    *text[PLAN_VF_ATTR_MAX_];
	uint64_t number[PLAN_VF_ATTR_MAX_];
	bool     yes[PLAN_VF_ATTR_MAX_];
};

#define TEXT_OF(a)   .kind = JSON_STRING, .offset = offsetof(struct raw, text[a]), .min = 1, .max = 24
#define NUMBER_OF(a) .kind = JSON_UINT, .offset = offsetof(struct raw, number[a])
#define BOOL_OF(a)   .kind = JSON_BOOL, .offset = offsetof(struct raw, yes[a])

static const struct json_field fields[] = { /* keys as in attrs, in its order */
	{ "mac", TEXT_OF(PLAN_VF_MAC) },
	{ "vlan", NUMBER_OF(PLAN_VF_VLAN), .max = 4094 },
	{ "qos", NUMBER_OF(PLAN_VF_QOS), .max = 7 },
	{ "vlan_protocol", TEXT_OF(PLAN_VF_PROTOCOL) },
	{ "trust", BOOL_OF(PLAN_VF_TRUST) },
	{ "spoof_check", BOOL_OF(PLAN_VF_SPOOF_CHECK) },
	{ "min_rate", NUMBER_OF(PLAN_VF_MIN_RATE), .max = UINT32_MAX },
	{ "max_rate", NUMBER_OF(PLAN_VF_MAX_RATE), .max = UINT32_MAX },
	{ "link_state", TEXT_OF(PLAN_VF_LINK_STATE) },
	{ "node_guid", TEXT_OF(PLAN_VF_NODE_GUID) },
	{ "port_guid", TEXT_OF(PLAN_VF_PORT_GUID) },
	{ 0 },
};

/* Each value is right by itself; do they go together? */
static int check_whole(const struct plan_vf_settings *s, const char *where, struct error *err)
{
	uint64_t mac = s->value[PLAN_VF_MAC];
	uint32_t ethernet = s->has & ~(PLAN_VF_GUIDS | BIT(PLAN_VF_LINK_STATE));
	char names[PLAN_VF_TEXT_MAX];

	if (s->has & BIT(PLAN_VF_MAC) && mac != PLAN_VF_AUTO && (!mac || mac >> 40 & 1))
		return error_set(err, -EINVAL, "%s.mac is %s; it must be the address of one station, with an even first byte", where,
				 mac ? "a group's" : "all zero");
	if (s->has & PLAN_VF_GUIDS && ethernet)
		return error_set(err, -EINVAL, "%s has GUIDs, which are InfiniBand's, and %.80s, Ethernet's; leave one of the two out", where,
				 plan_vf_names(names, ethernet));
	for (int a = PLAN_VF_NODE_GUID; a <= PLAN_VF_PORT_GUID; a++)
		if (s->has & BIT(a) && !s->value[a])
			return error_set(err, -EINVAL, "%s.%s is all zero, and RDMA's connection manager wants one", where, attrs[a].name);
	if (s->has & (BIT(PLAN_VF_QOS) | BIT(PLAN_VF_PROTOCOL)) && !s->value[PLAN_VF_VLAN])
		return error_set(err, -EINVAL, "%s.%s is of a VLAN, and it has none; say vlan, too", where,
				 s->has & BIT(PLAN_VF_QOS) ? "qos" : "vlan_protocol");
	if (s->value[PLAN_VF_MAX_RATE] && s->value[PLAN_VF_MIN_RATE] > s->value[PLAN_VF_MAX_RATE])
		return error_set(err, -EINVAL, "%s.min_rate is more than max_rate", where);
	return 0;
}

int plan_vf_read(struct plan_vf_settings *ret, json_object *obj, const char *where, struct arena *arena, struct error *err)
{
	struct plan_vf_settings s = { 0 };
	struct raw raw = { 0 };
	char prefix[48];
	int r = json_read(&raw, fields, obj, where, arena, err);

	(void)snprintf(prefix, sizeof(prefix), "%.40s.", where);
	for (int a = 0; r == 0 && a < PLAN_VF_ATTR_MAX_; a++) {
		if (!json_object_object_get_ex(obj, attrs[a].name, NULL))
			continue;
		s.has |= BIT(a);
		if (!raw.text[a])
			s.value[a] = attrs[a].kind == NUMBER ? raw.number[a] : raw.yes[a];
		else if (!parse_value(&s.value[a], (enum plan_vf_attr)a, raw.text[a]))
			r = bad_value(prefix, (enum plan_vf_attr)a, raw.text[a], err);
	}
	if (r == 0)
		r = check_whole(&s, where, err);
	if (r == 0)
		*ret = s;
	return r;
}

json_object *plan_vf_json(const struct plan_vf_settings *s)
{
	struct json_out o = json_out_new();
	char value[32];

	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++) {
		if (!(s->has & BIT(a)))
			continue;
		if (attrs[a].kind == NUMBER)
			json_add_uint(&o, attrs[a].name, s->value[a]);
		else if (attrs[a].word == switches)
			json_add_bool(&o, attrs[a].name, s->value[a]);
		else
			json_add_string(&o, attrs[a].name, value_text(value, (enum plan_vf_attr)a, s->value[a]));
	}
	return json_finish(&o);
}

/* ---- what to set ------------------------------------------------------------------------------------ */

struct plan_vf_settings plan_vf_whole(const struct plan_vf_settings *asked)
{
	uint32_t more = BIT(PLAN_VF_LINK_STATE);
	struct plan_vf_settings s = *asked;

	if (!(s.has & PLAN_VF_GUIDS))
		more = (BIT(PLAN_VF_ATTR_MAX_) - 1) & ~PLAN_VF_ADDRESS;
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (more & ~s.has & BIT(a))
			s.value[a] = attrs[a].standard;
	s.has |= more;
	return s;
}

/* Without a VLAN it has no protocol. */
static bool differs(const struct plan_vf_settings *a, const struct plan_vf_settings *b, int attr)
{
	return a->value[attr] != b->value[attr] &&
	       (attr != PLAN_VF_PROTOCOL || a->value[PLAN_VF_VLAN] || b->value[PLAN_VF_VLAN]);
}

uint32_t plan_vf_changes(const struct plan_vf_settings *now, const struct plan_vf_settings *want)
{
	uint32_t changes = 0;

	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (now->has & want->has & BIT(a) && differs(now, want, a))
			changes |= BIT(a);
	return changes;
}

uint32_t plan_vf_group(uint32_t changes)
{
	return changes ? attrs[__builtin_ctz(changes)].group : 0;
}

struct plan_vf_settings plan_vf_pick(const struct plan_vf_settings *s, uint32_t bits)
{
	struct plan_vf_settings picked = *s;

	picked.has &= bits;
	return picked;
}

/* ---- addresses -------------------------------------------------------------------------------------- */

/* FNV-1a, 64 bits (RFC 9923): equal uuids give equal addresses, after a restart and on another host, too. */
static uint64_t hash(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return h;
}

/* The last byte is the VF's index; the first says locally administered, one station (IEEE 802, 8.2.2). */
static uint64_t make_address(const char *uuid, size_t index, enum plan_vf_attr a)
{
	unsigned top = 8 * (unsigned)(attrs[a].max - 1);
	uint64_t v = (hash(uuid) << 8 | (index & 0xff)) & (top == 56 ? UINT64_MAX : (UINT64_C(1) << (top + 8)) - 1);

	return (v & ~(UINT64_C(1) << top)) | UINT64_C(2) << top;
}

int plan_identify(struct plan *plan, const char *uuid)
{
	char text[PLAN_VF_TEXT_MAX];

	for (size_t i = 0; i < plan->nvfs; i++) {
		struct plan_vf_settings *s = &plan->vf[i].set;

		for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
			if (s->has & PLAN_VF_ADDRESS & BIT(a) && s->value[a] == PLAN_VF_AUTO)
				s->value[a] = make_address(uuid, i, (enum plan_vf_attr)a);
		for (size_t k = 0; k < plan->nsteps; k++)
			if (plan->step[k].kind == PLAN_STEP_VF && bdf_eq(plan->step[k].bdf, plan->vf[i].bdf))
				plan->step[k].to = arena_strdup(&plan->arena, plan_vf_text(text, s));
	}
	for (size_t k = 0; k < plan->nsteps; k++)
		if (!plan->step[k].to)
			return -ENOMEM;
	return 0;
}
