/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules: device control and power of GPUs, NICs and the ports above them. plan/settings judges; each of its findings
 * is a rule here. */
#include <string.h>

#include "check/rule.h"

static bool is_read(const struct check_run *run)
{
	for (size_t i = 0; i < run->nsettings; i++)
		if (strcmp(run->settings[i].rule, "settings.unread") == 0)
			return false;
	return run->acs->npairs;
}

static void say(struct check_run *run, const struct plan_settings_finding *s)
{
	struct check_finding *f;

	if (s->level == PLAN_SETTINGS_UNKNOWN) {
		check_unknown(run, s->bdf, strcmp(s->fix, "read the host as root") == 0 ? check_as_root : s->fix, "%s", s->observed);
		return;
	}
	f = check_fail(run, s->bdf, "%s", s->observed);
	check_needed(run, f, "%s", s->needed);
	check_fix(run, f, "%s%s", s->set ? "velad sets it for as long as a guest needs it; by hand: " : "", s->fix);
}

/* Those of the rule; none: it passes where all could be read. */
static void settings(struct check_run *run)
{
	bool any = false;

	if (run->inv->virtual == HOST_PRESENT) /* its ports are invented */
		return;
	for (size_t i = 0; i < run->nsettings; i++)
		if (strcmp(run->settings[i].rule, run->rule->id) == 0) {
			say(run, &run->settings[i]);
			any = true;
		}
	if (!any && is_read(run))
		check_pass(run, "as it should be");
}

const struct check_rule check_settings_rules[] = {
	{ "settings.relaxed-ordering", CHECK_WARNING, "Relaxed Ordering is off",
	  "Completions without it are sent up by P2P Completion Redirect, and writes wait for each other: very important with ACS and ATS.",
	  "PCI Express Base Specification 6.0, 6.12.1.1; NVIDIA/nccl issue 1205", "Relaxed Ordering on", "velad sets it for a guest's devices",
	  settings },
	{ "settings.read-request", CHECK_INFO, "reads are small", "Each read request costs a round trip; a guest cannot set its device's size.",
	  "PCI Express Base Specification 6.0, 7.5.3.4", "4096 bytes", "velad sets it for a guest's devices", settings },
	{ "settings.payload", CHECK_WARNING, "payload sizes on a way do not agree", "A packet that is larger than its receiver takes is malformed.",
	  "PCI Express Base Specification 6.0, 2.2.2", "one payload size all the way", "pci=pcie_bus_safe on the kernel command line", settings },
	{ "settings.extended-tag", CHECK_INFO, "a function has short tags", "Five bits are 32 requests under way: too few for a fast link.",
	  "PCI Express Base Specification 6.0, 2.2.6.2; Linux, drivers/pci/probe.c", "8-bit tags", "reboot; newer firmware", settings },
	{ "settings.tag-completer", CHECK_ERROR, "10-bit tags go to who cannot answer them", "Who does not know them answers with a wrong tag.",
	  "PCI Express Base Specification 6.0, 2.2.6.2", "10-Bit Tag Completer at whatever is asked", "10-bit tags off in the device's firmware",
	  settings },
	{ "settings.power", CHECK_INFO, "a port may go to D3cold by itself",
	  "It comes back reset, and so does all below it: ACS and device control are lost; some GPUs do not come back at all.",
	  "Linux, Documentation/power/pci.rst; kata-containers issue 11708", "power/control on, or d3cold_allowed 0",
	  "echo on > /sys/bus/pci/devices/BDF/power/control", settings },
	{ "settings.unread", CHECK_WARNING, "device control of a GPU, NIC or port cannot be read", "How it orders, reads and tags is unknown.",
	  "Linux, drivers/pci/pci-sysfs.c, pci_read_config()", "all of config space", check_as_root, settings },
	{ 0 },
};
