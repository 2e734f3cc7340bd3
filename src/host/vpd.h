/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/vpd — a function's Vital Product Data: part and serial numbers. Private to its owner, so it is read only
 * when somebody asks for one function's, and is in no inventory, document or dump. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bdf.h"

struct arena;
struct error;
struct host_root;

#define VPD_BYTES_MAX  (32 * 1024) /* VPD Address is 15 bits (PCI 3.0, 6.4; PCIe 6.0, 7.9.18) */
#define VPD_FIELDS_MAX 256

struct vpd_field {
	char        key[3]; /* "PN" part number, "SN" serial number, "EC" engineering change, "V0" vendor's, ... */
	bool        writable;
	const char *text;   /* printable ASCII, without blanks at its end; NULL: it is no text */
};

enum vpd_sum { VPD_SUM_ABSENT, VPD_SUM_OK, VPD_SUM_BAD };

struct vpd {
	const char       *name; /* the identifier string; NULL: none, or no text */
	struct vpd_field *field;
	size_t            n;
	enum vpd_sum      sum;  /* RV, the checksum of all read-only bytes */
};

/* Strict: tags in the order of PCI 3.0 appendix I, each field whole, an end. -EBADMSG where they are not,
 * -ENODATA: it holds nothing (all zeros or ones). -ENOMEM. All memory is the arena's. */
int vpd_parse(struct vpd *ret, struct arena *arena, const uint8_t *bytes, size_t len);
/* Reads it; it can take a second on real hardware. The error names the fix. */
int host_vpd_read(struct vpd *ret, struct host_root *root, struct bdf bdf, struct arena *arena, struct error *err);
