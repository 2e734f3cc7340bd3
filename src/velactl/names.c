/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The only file that sees libpci. Its error callback must not return (pci.h), so it jumps back here, and
 * names end there: a damaged pci.ids costs the names, not the tool. No device is touched: pci_init() is
 * never called. */
#include "velactl/names.h"

#include <pci/pci.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/lazy.h"

#define FUNCTIONS(X) X(pci_alloc) X(pci_cleanup) X(pci_lookup_name)

LAZY_LIBRARY("libpci.so.3", FUNCTIONS)

/* No hwdb: libpci 3.9 leaks a udev context at each look-up there. */
#define LOOKUP (PCI_LOOKUP_NO_NUMBERS | PCI_LOOKUP_NO_HWDB)

struct ctl_names {
	struct lib         lib;
	struct pci_access *pci; /* owned; NULL without libpci, and after an error of it */
};

static jmp_buf failed; /* libpci's callbacks get no pointer of ours */

static void no_names(char *fmt, ...) __attribute__((noreturn));
static void no_names(char *fmt, ...)
{
	(void)fmt;
	longjmp(failed, 1);
}

static void be_silent(char *fmt, ...)
{
	(void)fmt;
}

struct ctl_names *ctl_names_new(void)
{
	struct ctl_names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	if (!lib_open(&n->lib))
		return n;
	n->pci = n->lib.pci_alloc();
	n->pci->error = no_names;
	n->pci->warning = be_silent;
	n->pci->debug = be_silent;
	return n;
}

struct ctl_names *ctl_names_free(struct ctl_names *n)
{
	if (n && n->pci)
		n->lib.pci_cleanup(n->pci);
	if (n)
		lib_close(&n->lib);
	free(n);
	return NULL;
}

static bool lookup(struct ctl_names *n, char *buf, size_t size, int flags, unsigned vendor, unsigned device)
{
	if (!n || !n->pci)
		return false;
	if (setjmp(failed)) {
		n->pci = NULL; /* in an unknown state: leaked on purpose */
		return false;
	}
	return n->lib.pci_lookup_name(n->pci, buf, (int)size, flags | LOOKUP, vendor, device) != NULL;
}

/* "NVIDIA Corporation" -> "NVIDIA", "Mellanox Technologies" -> "Mellanox", "Samsung Electronics Co Ltd
 * [...]" -> "Samsung" */
static void shorten_vendor(char *v)
{
	static const char *const tail[] = { " Corporation", " Corp", " Inc", " Technolog", " Electronics", " Co ",
					    " Co., ", " Semiconductor", ", ", " [", " / " };

	for (size_t i = 0; i < ARRAY_SIZE(tail); i++) {
		char *at = strstr(v, tail[i]);

		if (at && at != v)
			*at = '\0';
	}
}

/* "GH100 [H100 SXM5 80GB]" -> "H100 SXM5 80GB": the name on the invoice is what people look for, and it
 * needs no vendor. NULL: there is none. */
static const char *invoice_name(char *d)
{
	size_t n = strlen(d);
	char *open = strchr(d, '[');

	if (!open || d[n - 1] != ']' || n - (size_t)(open - d) < 3)
		return NULL;
	d[n - 1] = '\0';
	return open + 1;
}

const char *ctl_names_find(struct ctl_names *n, char *buf, size_t size, const char *id)
{
	char vendor[128] = "", device[192] = "";
	const char *invoice;
	unsigned v, d;
	bool known;

	(void)snprintf(buf, size, "%s", id);
	if (sscanf(id, "%4x:%4x", &v, &d) != 2 || !lookup(n, vendor, sizeof(vendor), PCI_LOOKUP_VENDOR, v, d))
		return buf;
	shorten_vendor(vendor);
	known = lookup(n, device, sizeof(device), PCI_LOOKUP_DEVICE, v, d);
	invoice = known ? invoice_name(device) : NULL;
	if (known)
		(void)snprintf(buf, size, "%s%s%s", invoice ? "" : vendor, invoice ? "" : " ", invoice ? invoice : device);
	else
		(void)snprintf(buf, size, "%s %s", vendor, strchr(id, ':') + 1);
	return buf;
}
