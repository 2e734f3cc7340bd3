/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The messages between velad and velad-helper, checked: what comes is either one that velad could have sent, or refused.
 * Pure: bytes in, values out. */
#include "act/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "act/log.h"
#include "act/pci.h"
#include "base/error.h"
#include "base/strtab.h"
#include "host/root.h"

_Static_assert(sizeof(struct wire_call) == 256 && sizeof(struct wire_answer) == 536 + 8 * PLAN_VF_ATTR_MAX_, "no padding that would go unchecked");

static const char *const verbs[WIRE_VERB_MAX_] = {
	[WIRE_OPEN] = "open",         [WIRE_VFIO_LOAD] = "vfio-load", [WIRE_VF_COUNT] = "vf-count",
	[WIRE_DRIVER] = "driver",     [WIRE_WORD] = "word",           [WIRE_POWER] = "power",
	[WIRE_PARTITION] = "partition", [WIRE_AUTOPROBE] = "autoprobe",
	[WIRE_RESET] = "reset",       [WIRE_SCRUB] = "scrub",
	[WIRE_VF] = "vf",               [WIRE_LOG] = "log",
};
static const char *const files[WIRE_FILE_MAX_] = {
	[WIRE_CONFIG] = "config",       [WIRE_VPD] = "vpd",         [WIRE_UEVENTS] = HOST_ASK_UEVENTS,
	[WIRE_LINKS] = HOST_ASK_LINKS,  [WIRE_DEVLINK] = HOST_ASK_DEVLINK, [WIRE_PARTITIONS] = HOST_ASK_PARTITIONS,
};

const char *wire_verb_text(enum wire_verb v)
{
	return strtab_text(verbs, WIRE_VERB_MAX_, (int)v);
}

const char *wire_file_text(enum wire_file f)
{
	return strtab_text(files, WIRE_FILE_MAX_, (int)f);
}

int wire_file_find(const char *name)
{
	return strtab_find(files, WIRE_FILE_MAX_, name);
}

struct wire_call wire_call(enum wire_verb verb, struct bdf fn)
{
	return (struct wire_call){ .version = WIRE_VERSION, .verb = verb, .domain = fn.domain, .bus = fn.bus, .devfn = fn.devfn };
}

struct bdf wire_call_fn(const struct wire_call *c)
{
	return (struct bdf){ .domain = c->domain, .bus = c->bus, .devfn = c->devfn };
}

/* ---- strings ---------------------------------------------------------------------------------------- */

/* It ends, and behind its end are zeros only. */
static bool is_ended(const char *s, size_t size)
{
	size_t len = strnlen(s, size);

	for (size_t i = len; i < size; i++)
		if (s[i])
			return false;
	return len < size;
}

/* A driver's name becomes a part of a path: letters, digits, '_' and '-' as modules have them, never "." or "/". */
static bool is_driver(const char s[ACT_DRIVER_MAX])
{
	if (!is_ended(s, ACT_DRIVER_MAX))
		return false;
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *s))
			return false;
	return true;
}

/* ---- each verb's arguments ------------------------------------------------------------------------------ */

/* Takes over what the verb has; NULL, or what is wrong with it. */
typedef const char *(*take_fn)(struct wire_call *ret, const struct wire_call *c);

static const char *take_nothing(struct wire_call *ret, const struct wire_call *c)
{
	(void)ret;
	(void)c;
	return NULL;
}

static const char *take_open(struct wire_call *ret, const struct wire_call *c)
{
	ret->number = c->number;
	return c->number < WIRE_FILE_MAX_ ? NULL : "it is not one of the files that the helper opens";
}

static const char *take_vf_count(struct wire_call *ret, const struct wire_call *c)
{
	ret->number = c->number;
	return NULL;
}

static const char *take_autoprobe(struct wire_call *ret, const struct wire_call *c)
{
	ret->set = c->set;
	return c->set == ACT_ON || c->set == ACT_OFF ? NULL : "it can be switched on and off";
}

static const char *take_driver(struct wire_call *ret, const struct wire_call *c)
{
	ret->driver = c->driver;
	return is_driver(c->driver.driver) && is_driver(c->driver.override) ? NULL : "that is no driver's name";
}

static const char *take_word(struct wire_call *ret, const struct wire_call *c)
{
	ret->number = c->number;
	ret->set = c->set;
	ret->clear = c->clear;
	if (c->number >= ACT_WORD_MAX_)
		return "it is not one of the words that velad changes";
	if (((c->set | c->clear) & ~act_word_bits((enum act_word)c->number)) != 0)
		return "velad does not change these bits";
	return c->set & c->clear ? "a bit cannot be set and cleared" : NULL;
}

static const char *take_power(struct wire_call *ret, const struct wire_call *c)
{
	ret->power = c->power;
	if (!is_ended(c->power.control, sizeof(c->power.control)) ||
	    (c->power.control[0] && strcmp(c->power.control, "on") != 0 && strcmp(c->power.control, "auto") != 0))
		return "power/control takes \"on\" and \"auto\"";
	return c->power.d3cold >= -1 && c->power.d3cold <= 1 ? NULL : "d3cold_allowed takes 0 and 1";
}

static const char *take_partition(struct wire_call *ret, const struct wire_call *c)
{
	ret->number = c->number;
	ret->set = c->set;
	return c->set <= ACT_OFF ? NULL : "a partition can be looked at, activated and deactivated";
}

/* Its text says whether each value is one that can be. */
static const char *take_vf(struct wire_call *ret, const struct wire_call *c)
{
	struct plan_vf_settings s = { .has = c->vf_has }, again;
	struct error ignored = ERROR_INIT;
	char text[PLAN_VF_TEXT_MAX];

	if (!s.has)
		return NULL;
	if (s.has >> PLAN_VF_ATTR_MAX_ || s.has & ~plan_vf_group(s.has))
		return "these settings are not of one message";
	ret->vf_has = c->vf_has;
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (s.has & PLAN_VF_BIT(a))
			s.value[a] = ret->vf_value[a] = c->vf_value[a];
	if (plan_vf_parse(&again, plan_vf_text(text, &s), &ignored) < 0 || again.has != s.has)
		return "a setting has a value that it cannot have";
	for (int a = 0; a < PLAN_VF_ATTR_MAX_; a++)
		if (s.has & PLAN_VF_BIT(a) && (again.value[a] != s.value[a] || (PLAN_VF_BIT(a) & PLAN_VF_ADDRESS && s.value[a] == PLAN_VF_AUTO)))
			return "a setting has a value that it cannot have";
	return NULL;
}

/* A guest's name (plan/request.h) becomes a part of a path. */
static const char *take_log(struct wire_call *ret, const struct wire_call *c)
{
	const char *name = c->driver.driver;

	memcpy(ret->driver.driver, name, sizeof(ret->driver.driver));
	ret->number = c->number;
	if (c->number >= ACT_LOG_FILES && c->number != WIRE_LOG_DROP)
		return "a console's log has fewer files";
	if (!is_ended(name, sizeof(c->driver.driver)) || !*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name))
		return "that is no guest's name";
	return NULL;
}

static const struct {
	take_fn take;
	bool    has_function;
} taking[WIRE_VERB_MAX_] = {
	[WIRE_OPEN] = { take_open, true },         [WIRE_VFIO_LOAD] = { take_nothing, false },
	[WIRE_VF_COUNT] = { take_vf_count, true }, [WIRE_DRIVER] = { take_driver, true },
	[WIRE_WORD] = { take_word, true },         [WIRE_POWER] = { take_power, true },
	[WIRE_PARTITION] = { take_partition, false }, [WIRE_AUTOPROBE] = { take_autoprobe, true },
	[WIRE_RESET] = { take_nothing, true },     [WIRE_SCRUB] = { take_nothing, true },
	[WIRE_VF] = { take_vf, true },             [WIRE_LOG] = { take_log, false },
};

int wire_call_read(struct wire_call *ret, const void *bytes, size_t len, struct error *err)
{
	struct wire_call c, known;
	const char *wrong;

	if (len != sizeof(c))
		return error_set(err, -EPROTO, "a message of %zu bytes, not %zu; velad and velad-helper must be of one version", len,
				 sizeof(c));
	memcpy(&c, bytes, sizeof(c));
	if (c.version != WIRE_VERSION)
		return error_set(err, -EPROTO, "a message of version %u, not %u; restart velad and velad-helper", c.version, WIRE_VERSION);
	if (c.verb == WIRE_NONE || c.verb >= WIRE_VERB_MAX_)
		return error_set(err, -EPROTO, "verb %u is none", c.verb);
	known = (struct wire_call){ .version = c.version, .verb = c.verb };
	if (taking[c.verb].has_function && !(c.verb == WIRE_OPEN && c.number > WIRE_VPD)) {
		known.domain = c.domain;
		known.bus = c.bus;
		known.devfn = c.devfn;
	}
	wrong = taking[c.verb].take(&known, &c);
	if (wrong)
		return error_set(err, -EPERM, "%s: %s", wire_verb_text((enum wire_verb)c.verb), wrong);
	if (memcmp(&known, &c, sizeof(c)) != 0)
		return error_set(err, -EPROTO, "%s: a field that this verb does not have is not zero", wire_verb_text((enum wire_verb)c.verb));
	*ret = c;
	return 0;
}

int wire_answer_read(struct wire_answer *ret, const void *bytes, size_t len, struct error *err)
{
	struct wire_answer a;

	if (len != sizeof(a))
		return error_set(err, -EPROTO, "velad-helper answers %zu bytes, not %zu; restart both", len, sizeof(a));
	memcpy(&a, bytes, sizeof(a));
	if (a.version != WIRE_VERSION)
		return error_set(err, -EPROTO, "velad-helper answers in version %u, not %u; restart both", a.version, WIRE_VERSION);
	if (a.code > 0 || !is_ended(a.text, sizeof(a.text)) || !is_ended(a.power.control, sizeof(a.power.control)))
		return error_set(err, -EPROTO, "velad-helper's answer is broken");
	*ret = a;
	return 0;
}
