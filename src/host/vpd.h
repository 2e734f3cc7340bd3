/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/vpd — a function's Vital Product Data: part and serial numbers. Private to its owner, so it is read only when somebody asks for one
 * function's, and is in no dump; but where a GPU or NIC has no Device Serial Number, velad knows its card by the serial number in here. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bdf.h"

struct arena;
struct error;
struct host_facts;
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
#define VPD_SERIAL_MAX  56
#define VPD_SERIAL_MARK "vpd:" /* before a serial number that is from here: it may be a board's, and that of several devices */

/* "vpd:MT2113X01234": of read-only data whose checksum, if there is one, is right; printable and without blanks. -ENODATA: it has none
 * that is of use; -EBADMSG, -ENOMEM as above. */
int vpd_serial(char ret[VPD_SERIAL_MAX], const uint8_t *bytes, size_t len);
/* Of a function, whose directory is "sys/devices/...", without a link; "" none, or not known. A card's is read once: as long as its device is the same one in sysfs, so is the card. A function of
 * which the kernel knows that it hangs at this gives none there (drivers/pci/vpd.c, quirk_blacklist_vpd()). */
void host_vpd_serial(char ret[VPD_SERIAL_MAX], struct host_root *root, struct bdf bdf, const char *dir);
/* What a card is known by: its Device Serial Number, else that; "" nothing. */
const char *host_serial_text(char ret[VPD_SERIAL_MAX], const struct host_facts *f);
/* From here on inventories have them. */
void host_vpd_want(struct host_root *root);
/* Reads it; it can take a second on real hardware. The error names the fix. */
int host_vpd_read(struct vpd *ret, struct host_root *root, struct bdf bdf, struct arena *arena, struct error *err);
