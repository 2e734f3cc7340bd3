/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/anonymize — a text host without what names one machine, still valid and of the same shape.
 *
 * Each value becomes a number in its own notation, counted from 1 in the order of the file; the same value the
 * same number everywhere, so that what was equal stays equal. Numbers are not made from the values: there is
 * nothing to reverse or to guess. Two dumps of one machine number it anew. */

#include <stddef.h>

struct text_host;

enum anonymize_class {
	ANONYMIZE_MAC,      /* 02:00:00:00:00:01, locally administered */
	ANONYMIZE_GUID,     /* 0200:00ff:fe00:0001: InfiniBand GUIDs, GID halves, PCI device serial numbers */
	ANONYMIZE_UUID,     /* 00000000-0000-4000-8000-000000000001 */
	ANONYMIZE_SERIAL,   /* serial-1 */
	ANONYMIZE_NAME,     /* host-1 */
	ANONYMIZE_ADDRESS,  /* 198.18.0.1 (RFC 2544), 2001:db8::1 (RFC 3849) */
	ANONYMIZE_ARGUMENT, /* hidden-1: what the kernel boots from, and free text about ports; not looked for elsewhere */
	ANONYMIZE_MAX_,
};

struct anonymize_counts {
	size_t values[ANONYMIZE_MAX_]; /* different ones */
	size_t places[ANONYMIZE_MAX_]; /* where they stood */
};

const char *anonymize_class_text(enum anonymize_class c); /* "MAC addresses" */

/* Of a sorted host, which it sorts again. -ENOMEM: the host is half done, to be thrown away. */
int anonymize(struct text_host *t, struct anonymize_counts *ret);
