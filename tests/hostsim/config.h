/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* hostsim/config — registers in a function's configuration space. */

#include <stdbool.h>
#include <stdint.h>

struct node;
struct sim;

#define CONFIG_CONVENTIONAL (-1) /* no PCI Express capability */

struct config_masks {
	uint8_t rw[4096], w1c[4096]; /* bits that take a write; that a 1 clears */
};

uint16_t config_get16(const struct node *config, size_t off);
void     config_put16(struct node *config, size_t off, uint16_t v);
uint32_t config_get32(const struct node *config, size_t off);
uint16_t config_cap(const struct node *config, uint8_t id);   /* 0: none */
uint16_t config_ecap(const struct node *config, uint16_t id); /* 0: none */
void     config_masks(const struct node *config, struct config_masks *ret);

/* Of a device (its directory); NULL config: it has none, or a short one. */
struct node *config_of(const struct node *dev);
int      config_type(const struct node *dev); /* PCI_EXP_TYPE_..., or CONFIG_CONVENTIONAL */
bool     config_is_bridge(const struct node *dev);
bool     config_multifunction(const struct node *dev); /* pci_dev.multifunction */

/* What hardware does; the kernel restores nothing. */
void     reset_function(struct node *dev, bool flr); /* else hot */
void     reset_below(struct node *port);

/* And the kernel's, which restores. -ENOTTY: the device does not come back. */
int reset_restore(struct sim *s, struct node *dev, bool flr);
