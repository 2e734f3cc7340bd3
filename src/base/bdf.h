/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* bdf — the name of one PCI function: dddd:bb:dd.f. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bdf {
	uint32_t domain; /* 16 bits from ACPI; VMD and Hyper-V use more (drivers/pci/controller/vmd.c) */
	uint8_t  bus;
	uint8_t  devfn; /* device << 3 | function */
};

#define BDF_TEXT_MAX 20 /* "ffffffff:ff:1f.7" and its NUL */
#define BDF_NONE ((struct bdf){ .domain = UINT32_MAX, .bus = 0xff, .devfn = 0xff })

/* Exactly "dddd:bb:dd.f" with 4 to 8 domain digits, or "bb:dd.f" (domain 0); hex, any case; nothing
 * before or after. ret is written on true only. */
bool        bdf_parse(struct bdf *ret, const char *text);
const char *bdf_text(char buf[BDF_TEXT_MAX], struct bdf b); /* returns buf; "-" for BDF_NONE */
int         bdf_cmp(struct bdf a, struct bdf b);            /* by domain, bus, device, function */
bool        bdf_add(struct bdf *ret, struct bdf b, uint32_t offset); /* routing id + offset; false if it leaves the domain */

bool        bdf_in(const struct bdf *list, size_t n, struct bdf b);

static inline bool bdf_eq(struct bdf a, struct bdf b)
{
	return bdf_cmp(a, b) == 0;
}

static inline bool bdf_is_none(struct bdf b)
{
	return bdf_eq(b, BDF_NONE);
}

static inline unsigned bdf_device(struct bdf b)
{
	return b.devfn >> 3;
}

/* Functions of one device. Not for VFs: with ARI their device number means nothing (PCIe 9.2.1.2). */
static inline bool bdf_same_device(struct bdf a, struct bdf b)
{
	return a.domain == b.domain && a.bus == b.bus && bdf_device(a) == bdf_device(b);
}

static inline unsigned bdf_function(struct bdf b)
{
	return b.devfn & 7;
}
