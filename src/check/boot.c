/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: what the kernel's command line asks for. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "check/rule.h"
#include "topo/route.h"

#define REDIRECTS (TOPO_ACS_SV | TOPO_ACS_RR | TOPO_ACS_CR | TOPO_ACS_UF) /* REQ_ACS_FLAGS */
#define ACS_BITS  (REDIRECTS | TOPO_ACS_TB | TOPO_ACS_EC | TOPO_ACS_DT)

static bool no_cmdline(struct check_run *run)
{
	if (*run->inv->cmdline)
		return false;
	check_unknown(run, BDF_NONE, "make /proc/cmdline readable", "the kernel's command line is unknown");
	return true;
}

static void noats(struct check_run *run)
{
	if (no_cmdline(run))
		return;
	if (run->inv->system.boot.no_ats)
		(void)check_fail(run, BDF_NONE, "the kernel was booted with pci=noats");
	else
		check_pass(run, "no pci=noats");
}

static void noacs(struct check_run *run)
{
	size_t at = 0;
	const char *rest;

	if (no_cmdline(run))
		return;
	while ((rest = check_option(run, &at, "pci=noacs")))
		if (!*rest) {
			(void)check_fail(run, BDF_NONE, "the kernel was booted with pci=noacs, which is none of its options");
			return;
		}
	check_pass(run, "no pci=noacs");
}

/* The kernel keeps what the last of several says (pci_setup(), drivers/pci/pci.c). */
static const char *last_option(struct check_run *run, const char *beginning)
{
	const char *last = NULL, *rest;
	size_t at = 0;

	while ((rest = check_option(run, &at, beginning)))
		last = rest;
	return last;
}

static void disable_acs_redir(struct check_run *run)
{
	const char *devices = last_option(run, "pci=disable_acs_redir=");

	if (no_cmdline(run))
		return;
	if (devices)
		(void)check_fail(run, BDF_NONE, "the kernel was booted with pci=disable_acs_redir=%s", devices);
	else
		check_pass(run, "no pci=disable_acs_redir");
}

/* ---- config_acs ----------------------------------------------------------------------------------------- */

struct entry { /* "1011101@0000:17:02.0" */
	char     text[80];
	uint16_t on, off; /* bits that are 1 and 0; the others are as firmware left them */
	bool     broken;  /* no bits that the kernel takes, or no device */
	const char *device;
};

/* The next of "FLAGS@DEVICE;FLAGS@DEVICE"; false: no more. The rightmost flag is bit 0 (kernel-parameters.txt). */
static bool next_entry(const char **at, struct entry *e)
{
	size_t len = strcspn(*at, ";,"), flags;

	if (!**at)
		return false;
	*e = (struct entry){ 0 };
	(void)snprintf(e->text, sizeof(e->text), "%.*s", (int)len, *at);
	*at += len + !!(*at)[len];
	flags = strcspn(e->text, "@");
	e->device = e->text[flags] ? &e->text[flags + 1] : "";
	e->broken = !flags || flags != strspn(e->text, "01xX") || !*e->device;
	for (size_t i = 0; i < flags && i < 16; i++) {
		char c = e->text[flags - 1 - i];

		e->on |= (uint16_t)((uint16_t)(c == '1') << i);
		e->off |= (uint16_t)((uint16_t)(c == '0') << i);
	}
	e->broken = e->broken || (e->on | e->off) & ~ACS_BITS;
	return true;
}

static const char *config_acs(struct check_run *run)
{
	return last_option(run, "pci=config_acs=");
}

/* Each entry of the argument that the kernel can read. */
static void each_entry(struct check_run *run, void (*judge)(struct check_run *, const struct entry *))
{
	const char *text = config_acs(run);
	struct entry e;

	while (text && next_entry(&text, &e))
		if (!e.broken)
			judge(run, &e);
}

static void config_acs_broken(struct check_run *run)
{
	const char *text = config_acs(run);
	struct entry e;

	while (text && next_entry(&text, &e)) {
		if (e.broken)
			(void)check_fail(run, BDF_NONE, "\"%s\" is not FLAGS@DEVICE with flags for bits 0 to 6", e.text);
		else
			check_pass(run, "%s", e.text);
	}
}

/* What has a name of its own on the command line is that component. */
static struct bdf port_of(const struct entry *e)
{
	struct bdf b;

	return bdf_parse(&b, e->device) ? b : BDF_NONE;
}

static void judge_firmware(struct check_run *run, const struct entry *e)
{
	if (~(e->on | e->off) & REDIRECTS)
		(void)check_fail(run, port_of(e), "pci=config_acs=%s leaves SV, RR, CR or UF to the firmware", e->text);
	else
		check_pass(run, "%s says 0 or 1 for SV, RR, CR and UF", e->text);
}

static void config_acs_firmware(struct check_run *run)
{
	each_entry(run, judge_firmware);
}

static void judge_translation(struct check_run *run, const struct entry *e)
{
	if (e->on & (TOPO_ACS_TB | TOPO_ACS_EC))
		(void)check_fail(run, port_of(e), "pci=config_acs=%s sets %s", e->text,
				 e->on & TOPO_ACS_TB ? "Translation Blocking" : "Egress Control");
	else
		check_pass(run, "%s", e->text);
}

static void config_acs_translation(struct check_run *run)
{
	each_entry(run, judge_translation);
}

static void config_acs_kernel(struct check_run *run)
{
	if (!config_acs(run))
		return;
	switch (host_kernel_since(run->inv->kernel, 6, 11)) {
	case HOST_PRESENT:
		check_pass(run, "kernel %s has it", run->inv->kernel);
		break;
	case HOST_ABSENT:
		(void)check_fail(run, BDF_NONE, "kernel %s ignores pci=config_acs=", run->inv->kernel);
		break;
	case HOST_UNKNOWN:
		check_unknown(run, BDF_NONE, "look for \"Configured ACS\" in the kernel log", "whether kernel %s has it is not known",
			      *run->inv->kernel ? run->inv->kernel : "?");
	}
}

/* ---- and what became of it ------------------------------------------------------------------------------ */

/* "pci:VENDOR:DEVICE[:SUBVENDOR:SUBDEVICE]", 0 is any (pci_dev_str_match(), drivers/pci/pci.c). */
static bool is_named(const struct entry *e, const struct host_function *fn)
{
	unsigned id[4] = { 0 };
	struct bdf b;

	if (bdf_parse(&b, e->device))
		return bdf_eq(b, fn->bdf);
	if (sscanf(e->device, "pci:%x:%x:%x:%x", &id[0], &id[1], &id[2], &id[3]) < 2)
		return false;
	return (!id[0] || id[0] == fn->facts->vendor) && (!id[1] || id[1] == fn->facts->device) &&
	       (!id[2] || id[2] == fn->facts->subvendor) && (!id[3] || id[3] == fn->facts->subdevice);
}

static bool is_as_asked(const struct entry *e, const struct pcicap_acs *acs)
{
	return !(e->on & acs->cap & ~acs->ctl) && !(e->off & acs->ctl);
}

static void judge_port(struct check_run *run, const struct entry *e, const struct host_function *fn)
{
	const struct pcicap_acs *acs = &fn->facts->cap.acs;

	if (acs->known == HOST_UNKNOWN)
		check_unknown(run, fn->bdf, check_as_root, "its ACS cannot be read");
	else if (acs->known == HOST_ABSENT && !bdf_is_none(port_of(e)))
		(void)check_fail(run, fn->bdf, "pci=config_acs=%s, and it has no ACS", e->text);
	else if (acs->known == HOST_PRESENT && !is_as_asked(e, acs))
		(void)check_fail(run, fn->bdf, "its ACSCtl is 0x%02x, not as pci=config_acs=%s asked", acs->ctl, e->text);
	else if (acs->known == HOST_PRESENT)
		check_pass(run, "ACSCtl 0x%02x as %s asked", acs->ctl, e->text);
}

static void judge_lost(struct check_run *run, const struct entry *e)
{
	bool any = false;

	for (size_t i = 0; i < run->inv->nfn; i++) {
		if (!is_named(e, &run->inv->fn[i]))
			continue;
		judge_port(run, e, &run->inv->fn[i]);
		any = true;
	}
	if (!any)
		check_unknown(run, BDF_NONE, "velactl topo --all lists the ports of this host", "pci=config_acs=%s names none that is known here",
			      e->text);
}

static void config_acs_lost(struct check_run *run)
{
	each_entry(run, judge_lost);
}

/* A vendor's kernel may have the fix without the number: then all ports are as asked. */
static bool all_as_asked(struct check_run *run)
{
	const char *text = config_acs(run);
	struct entry e;

	while (next_entry(&text, &e)) {
		size_t n = 0;

		for (size_t i = 0; i < run->inv->nfn; i++) {
			const struct pcicap_acs *acs = &run->inv->fn[i].facts->cap.acs;

			if (!is_named(&e, &run->inv->fn[i]))
				continue;
			if (acs->known != HOST_PRESENT || !is_as_asked(&e, acs))
				return false;
			n++;
		}
		if (e.broken || !n)
			return false;
	}
	return true;
}

static void config_acs_parser(struct check_run *run)
{
	const char *kernel = run->inv->kernel;

	if (!config_acs(run) || host_kernel_since(run->inv->kernel, 6, 11) != HOST_PRESENT)
		return;
	if (host_kernel_config_acs_mended(kernel))
		check_pass(run, "kernel %s has the fix", kernel);
	else if (all_as_asked(run))
		check_pass(run, "kernel %s: every port is as asked", kernel);
	else
		(void)check_fail(run, BDF_NONE, "kernel %s may take only the first device, and leave on what a 0 is to clear", kernel);
}

const struct check_rule check_boot_rules[] = {
	{ "boot.noats", CHECK_ERROR, "ATS is switched off at boot",
	  "Without ATS no request is translated, so none goes direct past ACS; the kernel also sets Translation Blocking in every port.",
	  "Linux, kernel-parameters.txt; drivers/pci/pci.c, pci_std_enable_acs()", "a command line without pci=noats",
	  "take noats out of the kernel command line and reboot", noats },
	{ "boot.noacs", CHECK_INFO, "pci=noacs, which the kernel does not have",
	  "The option is widely quoted, but the kernel has none of that name and ignores it.",
	  "Linux, kernel-parameters.txt", "a command line without pci=noacs", "take noacs out; ports are set by pci=config_acs=", noacs },
	{ "boot.disable-acs-redir", CHECK_WARNING, "redirects of ports are switched off at boot",
	  "It clears Request and Completion Redirect and Egress Control of these ports: what is below them shares IOMMU groups and reaches "
	  "its peers past the IOMMU.",
	  "Linux, kernel-parameters.txt; commit aaca43fda742", "redirects on, and Direct Translated P2P for the direct path",
	  "take disable_acs_redir out of the kernel command line; velactl acs plan says what makes a path direct", disable_acs_redir },
	{ "boot.config-acs-kernel", CHECK_ERROR, "the kernel has no pci=config_acs=",
	  "An option that the kernel does not have is ignored, and the bits are not set.", "Linux commit 47c8846a49ba, in 6.11",
	  "Linux 6.11 or later", "a kernel of 6.11 or later; until then velad's own writes", config_acs_kernel },
	{ "boot.config-acs-broken", CHECK_WARNING, "pci=config_acs= is not understood",
	  "At the first entry that it cannot read the kernel stops, and sets none of the ports behind it.",
	  "Linux, drivers/pci/pci.c, __pci_config_acs()", "entries FLAGS@DEVICE, flags of 0, 1 and x for bits 0 to 6",
	  "velactl acs plan prints the whole argument", config_acs_broken },
	{ "boot.config-acs-parser", CHECK_WARNING, "the kernel reads pci=config_acs= wrongly",
	  "Until it was mended, the kernel took only the first device of the list, and did not clear what a 0 asks to clear.",
	  "Linux commit 9cf8a952d57b, in 6.15, 6.14.2, 6.13.11 and 6.12.23", "a kernel with that fix",
	  "update the kernel; until then look for \"Can't parse ACS command line parameter\" in its log and compare velactl acs show",
	  config_acs_parser },
	{ "boot.config-acs-firmware", CHECK_WARNING, "pci=config_acs= leaves isolation to the firmware",
	  "x in pci=config_acs= means the value that firmware left, not the kernel's default: SV, RR, CR and UF are off where firmware "
	  "leaves ACS off, and isolation with them.",
	  "Linux, drivers/pci/pci.c, __pci_config_acs()", "0 or 1 for SV, RR, CR and UF, as in 1011101",
	  "spell out every bit; velactl acs plan prints the whole argument", config_acs_firmware },
	{ "boot.config-acs-translation", CHECK_ERROR, "pci=config_acs= sets Translation Blocking or Egress Control",
	  "Translation Blocking refuses the very requests that Direct Translated P2P is for.",
	  "PCI Express Base Specification 6.0, 6.12.1.1", "TB and EC 0: 1011101, not 1111111",
	  "write 1011101@PORT; velactl acs plan prints the whole argument", config_acs_translation },
	{ "boot.config-acs-lost", CHECK_WARNING, "a port is not as pci=config_acs= asked",
	  "Somebody wrote to the port after boot, or the kernel did not take the argument; the IOMMU groups are those of boot.",
	  "Linux, drivers/pci/pci.c, pci_enable_acs()", "ACS control as the command line says",
	  "reboot, or write the bits again (velactl acs plan)", config_acs_lost },
	{ 0 },
};
