/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Steps that change single bits of a register, or whether something may sleep. Others may change the other bits
 * meanwhile: what is written down, and back, is only what is velad's. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/parse.h"
#include "instance/steps_own.h"

#define ACS_OURS (PCI_ACS_DT | PCI_ACS_TB)

/* ---- ACS control ---------------------------------------------------------------------------------------- */

int steps_acs_read(struct steps_acs *ret, const struct rows_step *step, struct error *err)
{
	uint64_t to;

	if (parse_uint(&to, step->to, 16, UINT16_MAX) < 0)
		return error_set(err, -EINVAL, "\"%s\" is no ACS control word", step->to);
	*ret = (struct steps_acs){ .set = to & PCI_ACS_DT, .clear = ~to & PCI_ACS_TB, .rest = (uint16_t)to & ~ACS_OURS };
	return 0;
}

/* Value: the bits that are ours to change, and no others: the kernel may change those meanwhile. */
static int probe_acs(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	struct steps_acs want;
	uint16_t now;
	int r = steps_acs_read(&want, step, err);

	if (r == 0)
		r = s->act.ops->word(s->act.self, &now, step->bdf, ACT_ACS, 0, 0, err);
	if (r < 0)
		return r;
	if ((now & ~ACS_OURS) != want.rest)
		return error_set(err, -ESTALE, "its ACS control is 0x%02x, and was %s when the plan was made: isolation may differ; "
				 "ask again", now, step->from);
	ret->so = (now & want.set) == want.set && !(now & want.clear);
	(void)snprintf(ret->value, sizeof(ret->value), "0x%02x", now & ACS_OURS);
	return 0;
}

static int apply_acs(const struct steps *s, const struct rows_step *step, struct error *err)
{
	struct steps_acs want;
	uint16_t now;
	int r = steps_acs_read(&want, step, err);

	return r < 0 ? r : s->act.ops->word(s->act.self, &now, step->bdf, ACT_ACS, want.set, want.clear, err);
}

static int revert_acs(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	uint64_t was;
	uint16_t now;
	int r;

	if (parse_uint(&was, original, 16, UINT16_MAX) < 0)
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as its original ACS control", original);
	r = s->act.ops->word(s->act.self, &now, step->bdf, ACT_ACS, was & ACS_OURS, ~was & ACS_OURS, err);
	return r == -ENODEV ? steps_gone(s, step) : r;
}

/* Bits are counted one by one: another instance may need Direct Translated P2P, and not that Translation Blocking is off. */
static int release_acs(const struct steps *s, const struct rows_step *step, const char *original, const char *const *to, size_t n,
		       struct error *err)
{
	struct steps_acs want;
	uint16_t ours, now;
	uint64_t was;
	int r = steps_acs_read(&want, step, err);

	if (parse_uint(&was, original, 16, UINT16_MAX) < 0)
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as its original ACS control", original);
	ours = r == 0 ? want.set | want.clear : 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct rows_step other = { .to = to[i] };

		r = steps_acs_read(&want, &other, err);
		if (r == 0)
			ours &= (uint16_t)~(want.set | want.clear);
	}
	if (r == 0 && ours)
		r = s->act.ops->word(s->act.self, &now, step->bdf, ACT_ACS, (uint16_t)was & ours, (uint16_t)~was & ours, err);
	return r == -ENODEV ? steps_gone(s, step) : r;
}

const struct step_kind step_acs = { probe_acs, apply_acs, revert_acs, release_acs };

/* ---- device control ------------------------------------------------------------------------------------- */

#define DEVCTL_FLAGS (PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_EXT_TAG)
#define TAG10        0x1000 /* 10-Bit Tag Requester Enable (PCIe 6.0, 7.5.3.16) */

static const struct word_kind {
	enum act_word word;
	uint16_t      flags, size; /* only ever set; a number that only ever grows */
} devctl = { ACT_DEVCTL, DEVCTL_FLAGS, PCI_EXP_DEVCTL_READRQ }, devctl2 = { ACT_DEVCTL2, TAG10, 0 };

static const struct word_kind *word_of(const struct rows_step *step)
{
	return step->kind == PLAN_STEP_DEVCTL ? &devctl : &devctl2;
}

static int read_word(uint16_t *ret, const char *text, struct error *err)
{
	uint64_t v;

	if (parse_uint(&v, text, 16, UINT16_MAX) < 0)
		return error_set(err, -EINVAL, "\"%s\" is no device control word", text);
	*ret = (uint16_t)v;
	return 0;
}

/* What has to change of now, so that it is as wanted. */
static void missing(const struct word_kind *k, uint16_t now, uint16_t want, uint16_t *set, uint16_t *clear)
{
	bool grows = (now & k->size) < (want & k->size);

	*set = (uint16_t)((want & k->flags & ~now) | (grows ? want & k->size : 0));
	*clear = grows ? (uint16_t)(~want & k->size) : 0;
}

static int probe_word(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	const struct word_kind *k = word_of(step);
	uint16_t want = 0, now, set, clear;
	int r = read_word(&want, step->to, err);

	if (r == 0)
		r = s->act.ops->word(s->act.self, &now, step->bdf, k->word, 0, 0, err);
	if (r < 0)
		return r;
	missing(k, now, want, &set, &clear);
	ret->so = !set && !clear;
	(void)snprintf(ret->value, sizeof(ret->value), "0x%04x", now & (k->flags | k->size));
	return 0;
}

/* A function that never orders relaxed, or never reads more than 128 bytes, may have these bits hard-wired to zero
 * (PCIe 6.0, 7.5.3.4). Nothing can be done about it, and nothing has to: it is said, and the guest gets it. */
static int apply_word(const struct steps *s, const struct rows_step *step, struct error *err)
{
	const struct word_kind *k = word_of(step);
	uint16_t want = 0, now, set, clear;
	struct error why = ERROR_INIT;
	int r = read_word(&want, step->to, err);

	if (r == 0)
		r = s->act.ops->word(s->act.self, &now, step->bdf, k->word, 0, 0, err);
	if (r < 0)
		return r;
	missing(k, now, want, &set, &clear);
	r = s->act.ops->word(s->act.self, &now, step->bdf, k->word, set, clear, &why);
	if (r == -ENXIO) {
		s->note->rule = "settings.hard-wired";
		s->note->text = why;
		return 0;
	}
	*err = why;
	return r;
}

static int revert_word(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	const struct word_kind *k = word_of(step);
	uint16_t ours = k->flags | k->size, was = 0, now;
	int r;

	if (read_word(&was, original, err) < 0)
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as its original device control", original);
	r = s->act.ops->word(s->act.self, &now, step->bdf, k->word, was & ours, (uint16_t)(~was & ours), err);

	return r == -ENODEV ? steps_gone(s, step) : r;
}

const struct step_kind step_devctl = { probe_word, apply_word, revert_word };
const struct step_kind step_devctl2 = { probe_word, apply_word, revert_word };

/* ---- power ---------------------------------------------------------------------------------------------- */

#define BY_VFIO ",vfio-pci" /* behind a value: vfio-pci had the function then */

/* "auto,1"; "-" for what the kernel has no file for. */
static int read_power(struct act_power *ret, const char *text, struct error *err)
{
	const char *comma = strchr(text, ',');
	size_t n = comma ? (size_t)(comma - text) : 0;
	struct act_power p = { .d3cold = -1 };

	if (!comma || n >= sizeof(p.control) || !comma[1] || !strchr("01-", comma[1]) ||
	    (comma[2] && strcmp(comma + 2, BY_VFIO) != 0))
		return error_set(err, -EINVAL, "\"%.80s\" does not say whether it may sleep", text);
	if (strncmp(text, "-", n) != 0)
		memcpy(p.control, text, n);
	if (comma[1] != '-')
		p.d3cold = (int8_t)(comma[1] - '0');
	*ret = p;
	return 0;
}

static int has_vfio(const struct steps *s, bool *ret, const struct rows_step *step, struct error *err)
{
	struct act_driver now;
	int r = s->act.ops->driver(s->act.self, &now, step->bdf, err);

	if (r == 0)
		*ret = strcmp(now.driver, "vfio-pci") == 0;
	return r;
}

static int probe_power(const struct steps *s, struct seen *ret, const struct rows_step *step, struct error *err)
{
	struct act_power want = { 0 }, now;
	bool vfio = false;
	int r = read_power(&want, step->to, err);

	if (r == 0)
		r = has_vfio(s, &vfio, step, err);
	if (r == 0)
		r = s->act.ops->power(s->act.self, &now, step->bdf, NULL, err);
	if (r < 0)
		return r;
	ret->so = (!now.control[0] || strcmp(now.control, want.control) == 0) && (now.d3cold < 0 || now.d3cold == want.d3cold);
	(void)snprintf(ret->value, sizeof(ret->value), "%s,%c%s", now.control[0] ? now.control : "-",
		       now.d3cold < 0 ? '-' : '0' + now.d3cold, vfio ? BY_VFIO : "");
	return 0;
}

static int apply_power(const struct steps *s, const struct rows_step *step, struct error *err)
{
	struct act_power want = { 0 }, now;
	int r = read_power(&want, step->to, err);

	return r < 0 ? r : s->act.ops->power(s->act.self, &now, step->bdf, &want, err);
}

/* vfio-pci says "auto" when it takes a function and "on" when it gives it back (vfio_pci_core_register_device() and
 * _unregister_device()): what it said is not written to a function that another driver has by now. */
static int revert_power(const struct steps *s, const struct rows_step *step, const char *original, struct error *err)
{
	struct act_power was = { 0 }, now;
	bool vfio = true;
	int r = 0;

	if (read_power(&was, original, err) < 0)
		return error_set(err, -EBADMSG, "the store has \"%.80s\" as what it was before", original);
	if (strstr(original, BY_VFIO))
		r = has_vfio(s, &vfio, step, err);
	if (r == 0 && !vfio)
		was.control[0] = '\0';
	if (r == 0)
		r = s->act.ops->power(s->act.self, &now, step->bdf, &was, err);
	return r == -ENODEV ? steps_gone(s, step) : r;
}

const struct step_kind step_power = { probe_power, apply_power, revert_power };
