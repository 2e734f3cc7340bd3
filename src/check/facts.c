/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What several rules ask of the facts. */
#include <string.h>

#include "check/rule.h"

const char check_as_root[] = "run as root: others see only the first 64 bytes of config space";

bool check_is_given(enum host_kind kind)
{
	return kind == HOST_GPU || kind == HOST_VF;
}

void check_qemu_since(struct check_run *run, unsigned least, const char *what)
{
	unsigned v = run->in->qemu;

	if (!v)
		check_unknown(run, BDF_NONE, "qemu-system-x86_64 --version, or virsh version", "%s, and which QEMU is unknown", what);
	else if (v < least)
		(void)check_fail(run, BDF_NONE, "%s, and QEMU %u.%u.%u", what, v / 1000000, v / 1000 % 1000, v % 1000);
	else
		check_pass(run, "%s, and QEMU %u.%u.%u", what, v / 1000000, v / 1000 % 1000, v % 1000);
}

bool check_is_short(const struct host_facts *f)
{
	return pcicap_answers(&f->cap) && !f->cap.broken && f->cap.pcie == HOST_UNKNOWN;
}

const struct host_module *check_module(const struct check_run *run, const char *name)
{
	const struct host_system *s = &run->inv->system;

	for (size_t i = 0; i < s->nmodules; i++)
		if (strcmp(s->module[i].name, name) == 0)
			return &s->module[i];
	return NULL;
}

const char *check_param(const struct host_module *m, const char *name)
{
	for (size_t i = 0; m && i < m->nparams; i++)
		if (strcmp(m->param[i].name, name) == 0)
			return m->param[i].value;
	return NULL;
}

const char *check_option(const struct check_run *run, size_t *at, const char *beginning)
{
	const struct host_boot *b = &run->inv->system.boot;

	while (*at < b->noptions) {
		const char *text = b->option[(*at)++].text;

		if (strncmp(text, beginning, strlen(beginning)) == 0)
			return text + strlen(beginning);
	}
	return NULL;
}

size_t check_said(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = len; i-- > 0;)
		if (text[i] == ';')
			return i;
	return len;
}
