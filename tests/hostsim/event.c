/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What befalls a machine by itself, on demand: .hostsim/event takes one event a write.
 *
 *   remove BDF                            gone from the bus, with all below it
 *   link BDF GTS WIDTH                    the link above it trains to this, "link 0000:19:00.0 8.0 4"
 *   aer BDF correctable|nonfatal|fatal NAME N    N more errors in aer_dev_*, "aer 0000:19:00.0 correctable RxErr 5"
 *   power BDF D3cold|D0                   without power it loses its registers; D0 is the kernel's resume
 *   memory NODE KB                        so much is free now
 *   uevents lose N                        the next N do not reach a client */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/sbuf.h"
#include "config.h"
#include "sim.h"

struct words {
	char *word[6];
};

static int on_remove(struct sim *s, struct node *dev, const struct words *w)
{
	(void)w;
	sim_remove(s, dev);
	return 0;
}

/* ---- link ------------------------------------------------------------------------------------------- */

static const char *const speeds[] = { NULL, "2.5", "5.0", "8.0", "16.0", "32.0", "64.0" }; /* pci_speed_string() */

/* Both ends of a link say the same (PCIe 7.5.3.8); a port also keeps that it has changed. */
static void set_link(struct node *dev, unsigned speed, unsigned width, bool port)
{
	struct node *config = config_of(dev), *n;
	uint16_t exp = config ? config_cap(config, PCI_CAP_ID_EXP) : 0, old;

	if (!exp)
		return;
	old = config_get16(config, exp + PCI_EXP_LNKSTA) & (uint16_t) ~(PCI_EXP_LNKSTA_CLS | PCI_EXP_LNKSTA_NLW);
	config_put16(config, exp + PCI_EXP_LNKSTA,
		     (uint16_t)(old | speed | width << PCI_EXP_LNKSTA_NLW_SHIFT | (port ? PCI_EXP_LNKSTA_LBMS : 0)));
	n = node_attr(dev, "current_link_speed");
	if (n)
		node_textf(n, "%s GT/s PCIe", speeds[speed]);
	n = node_attr(dev, "current_link_width");
	if (n)
		node_textf(n, "%u", width);
}

static int on_link(struct sim *s, struct node *dev, const struct words *w)
{
	struct node *config = config_of(dev);
	uint16_t exp = config ? config_cap(config, PCI_CAP_ID_EXP) : 0;
	uint32_t cap = exp ? config_get32(config, exp + PCI_EXP_LNKCAP) : 0;
	uint64_t width;
	unsigned speed = 1;

	(void)s;
	while (w->word[2] && speed < ARRAY_SIZE(speeds) && strcmp(speeds[speed], w->word[2]) != 0)
		speed++;
	if (!sim_bridge(dev) || !w->word[3] || parse_uint(&width, w->word[3], 10, 32) < 0 || !width ||
	    speed > (cap & PCI_EXP_LNKCAP_SLS) || width > (cap & PCI_EXP_LNKCAP_MLW) >> 4)
		return -EINVAL;
	set_link(dev, speed, (unsigned)width, false);
	set_link(sim_bridge(dev), speed, (unsigned)width, true);
	return 0;
}

/* ---- errors ----------------------------------------------------------------------------------------- */

/* drivers/pci/pcie/aer.c: aer_correctable_error_string[], aer_uncorrectable_error_string[] */
#define COR                                                                                                            \
	"RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR " \
	"0"
#define UNCOR(total)                                                                                                   \
	"Undefined 0\nDLP 0\nSDES 0\nTLP 0\nFCP 0\nCmpltTO 0\nCmpltAbrt 0\nUnxCmplt 0\nRxOF 0\nMalfTLP 0\nECRC 0\n"    \
	"UnsupReq 0\nACSViol 0\nUncorrIntErr 0\nBlockedTLP 0\nAtomicOpBlocked 0\nTLPBlockedErr 0\nPoisonTLPBlocked "   \
	"0\n" total

static const struct {
	const char *kind, *zero;
} counters[] = {
	{ "correctable", COR },
	{ "nonfatal", UNCOR("TOTAL_ERR_NONFATAL 0") },
	{ "fatal", UNCOR("TOTAL_ERR_FATAL 0") },
};

/* Adds to the line of this name and to the last, the total. NULL: no such line. */
static char *count(const char *text, const char *name, uint64_t more)
{
	autofree char *copy = strdup(text);
	char *rest = copy, *line;
	struct sbuf out = { 0 };
	bool found = false;

	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, ' ');
		uint64_t now = value ? strtoull(value, NULL, 10) : 0;
		bool hit;

		line[strcspn(line, " ")] = '\0';
		hit = strcmp(line, name) == 0;
		found = found || hit;
		sbuf_addf(&out, "%s%s %llu", out.len ? "\n" : "", line,
			  (unsigned long long)(now + (hit || (found && !rest) ? more : 0)));
	}
	if (found)
		return sbuf_steal(&out);
	sbuf_done(&out);
	return NULL;
}

static int on_aer(struct sim *s, struct node *dev, const struct words *w)
{
	const struct node *config = config_of(dev);
	char path[SIM_PATH_MAX];
	uint64_t more;

	if (!config || !config_ecap(config, PCI_EXT_CAP_ID_ERR))
		return -ENOENT;
	if (!w->word[4] || parse_uint(&more, w->word[4], 10, UINT32_MAX) < 0)
		return -EINVAL;
	(void)node_path(path, dev);
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		struct node *n = node_find(s, "%s/aer_dev_%s", path, counters[i].kind);
		autofree char *text = NULL;

		if (strcmp(w->word[2], counters[i].kind) != 0)
			continue;
		text = count(n ? n->text : counters[i].zero, w->word[3], more);
		if (!text)
			return -EINVAL;
		(void)node_add(s, TEXT_FILE, text, "%s/aer_dev_%s", path, counters[i].kind);
		return 0;
	}
	return -EINVAL;
}

/* ---- power ------------------------------------------------------------------------------------------ */

static void set_power(struct sim *s, struct node *dev, bool on)
{
	struct node *n = node_attr(dev, "power_state");

	dev->mute = !on || dev->broken;
	if (n)
		node_text(n, on ? "D0" : "D3cold");
	if (on)
		(void)reset_restore(s, dev, false);
	for (struct node *c = dev->child; c; c = c->next)
		if (sim_is_device(c))
			set_power(s, c, on);
}

void sim_control(struct sim *s, struct node *dev, const char *value)
{
	char path[SIM_PATH_MAX];
	struct node *n = node_find(s, "%s/power/control", node_path(path, dev));

	if (n)
		node_text(n, value);
}

/* control_store(), drivers/base/power/sysfs.c */
int control_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	char text[8] = "";

	(void)s;
	(void)off;
	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(value, "\n"), value);
	if (len > sizeof(text) || (strcmp(text, "on") != 0 && strcmp(text, "auto") != 0))
		return -EINVAL;
	node_text(n, text);
	return 0;
}

/* pci_pm_runtime_suspend() comes only where control_store() lets it, and goes that deep only where d3cold_allowed_store()
 * has not forbidden it. */
static int on_power(struct sim *s, struct node *dev, const struct words *w)
{
	bool on = w->word[2] && strcmp(w->word[2], "D0") == 0;
	char path[SIM_PATH_MAX];
	const struct node *control = node_find(s, "%s/power/control", node_path(path, dev));

	if (!on && (!w->word[2] || strcmp(w->word[2], "D3cold") != 0))
		return -EINVAL;
	if (!on && control && strcmp(control->text, "on") == 0)
		return -EPERM;
	if (!on && node_attr(dev, "d3cold_allowed") && !node_number(dev, "d3cold_allowed", 10))
		return -EPERM;
	set_power(s, dev, on);
	return 0;
}

int d3cold_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	char *end;
	unsigned long v = strtoul(value, &end, 0);

	(void)s;
	(void)len;
	(void)off;
	if (end == value || (*end && strcmp(end, "\n") != 0))
		return -EINVAL;
	node_text(n, v ? "1" : "0");
	return 0;
}

/* ---- the file --------------------------------------------------------------------------------------- */

static int on_memory(struct sim *s, const struct words *w)
{
	struct node *node = w->word[1] ? node_find(s, "sys/devices/system/node/node%s", w->word[1]) : NULL;
	uint64_t kb;

	if (!node || !w->word[2] || parse_uint(&kb, w->word[2], 10, UINT64_MAX / 1024) < 0)
		return -EINVAL;
	return pool_memory(node, kb);
}

static int on_uevents(struct sim *s, const struct words *w)
{
	uint64_t n;

	if (!w->word[2] || strcmp(w->word[1], "lose") != 0 || parse_uint(&n, w->word[2], 10, UINT32_MAX) < 0)
		return -EINVAL;
	s->lose = (unsigned)n;
	return 0;
}

/* -EINVAL: no such event; -ENODEV: no such device. */
int event_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	static const struct {
		const char *name;
		int (*on)(struct sim *s, struct node *dev, const struct words *w);
	} events[] = { { "remove", on_remove }, { "link", on_link }, { "aer", on_aer }, { "power", on_power } };
	autofree char *copy = strndup(value, strcspn(value, "\n"));
	struct words w = { { NULL } };
	char *rest = copy;

	(void)n;
	(void)len;
	(void)off;
	for (size_t i = 0; i < ARRAY_SIZE(w.word) - 1 && (w.word[i] = strsep(&rest, " ")); i++)
		;
	if (!w.word[0] || rest)
		return -EINVAL;
	if (strcmp(w.word[0], "memory") == 0)
		return on_memory(s, &w);
	if (strcmp(w.word[0], "uevents") == 0)
		return on_uevents(s, &w);
	for (size_t i = 0; w.word[1] && i < ARRAY_SIZE(events); i++)
		if (strcmp(w.word[0], events[i].name) == 0) {
			struct node *dev = sim_device(s, w.word[1]);

			return dev ? events[i].on(s, dev, &w) : -ENODEV;
		}
	return -EINVAL;
}
