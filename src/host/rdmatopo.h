/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/rdmatopo — a dump of rdma_topo as a text host.
 *
 * rdma-core's kernel-boot/rdma_topo ("rdma_topo dump") writes a JSON array with an object for each PCI function:
 *
 *   realpath      its directory in sysfs, ".../devices/pci0000:00/0000:00:01.0"
 *   config        configuration space: base64 of a zlib stream (RFC 1950)
 *   modalias      "pci:v000015B3d00001021sv000015B3sd00000041bc02sc07i00"
 *   iommu_group   a number, or null: it has none
 *   numa_node     a number as in sysfs, or null: there is no such file
 *   subsystems    {"net": ["eth0"], "infiniband": [...], "drm": [...], "nvme": [...]}, or null
 *   vpd           as config; it holds serial numbers and velad does not read it: left out
 *
 * The first three must be there; members that are not listed here are left out. Everything else that a machine
 * has, such as drivers, BARs, memory and CPUs, is not in it and stays unknown. */

#include <stdbool.h>
#include <stddef.h>

struct error;
struct text_host;

bool rdmatopo_is(const char *text, size_t len); /* it begins as a JSON array does */
/* -EINVAL names the function and the member. */
int  rdmatopo_parse(struct text_host **ret, const char *text, size_t len, const char *name, struct error *err);
