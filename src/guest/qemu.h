/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* guest/qemu — what the guest needs that libvirt has no element for, as properties of QEMU's devices in libvirt's own
 * namespace (https://libvirt.org/drvqemu.html, "Overriding properties of QEMU devices"); and how wide its addresses are. */

#include <stdbool.h>
#include <stdint.h>

struct error;
struct guest_env;
struct guest_layout;
struct inventory;
struct plan_request;
struct topo;
struct xml;

#define GUEST_QEMU_NS "http://libvirt.org/schemas/domain/qemu/1.0"

/* Whether the domain has such elements: then it declares the namespace. */
bool guest_qemu_needed(const struct guest_layout *l, const struct guest_env *env);
void guest_qemu_write(struct xml *x, const struct guest_layout *l, const struct topo *topo, const struct plan_request *r,
		      const struct guest_env *env);

/* Of a guest's physical addresses; 0 unknown. */
unsigned guest_address_bits(const struct inventory *inv, const struct guest_env *env);
/* -E2BIG: the layout's windows do not fit beside so much memory, or below SeaBIOS. */
int guest_window_check(const struct guest_layout *l, const struct inventory *inv, uint64_t memory, bool uefi,
		       const struct guest_env *env, struct error *err);
