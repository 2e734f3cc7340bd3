/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/kind — what a function is to velad. Which ids count as GPU, NVSwitch, NIC, data-direct and NVMe is a table in
 * velad.conf ([kinds]), not code; ports are known by their PCIe type, VFs by their physfn. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum host_kind {
	HOST_GPU,
	HOST_NVSWITCH,
	HOST_NIC, /* a PF of an RDMA NIC */
	HOST_VF,  /* an SR-IOV virtual function, of whatever PF */
	HOST_DATA_DIRECT, /* the DMA function by which a NIC reaches GPU memory without its own PF's path (mlx5) */
	HOST_NVME,
	HOST_USP, /* switch upstream port */
	HOST_DSP, /* switch downstream port */
	HOST_ROOT_PORT,
	HOST_BRIDGE, /* any other bridge with a bus below it */
	HOST_OTHER,
	HOST_KIND_MAX_,
};

const char *host_kind_text(enum host_kind k);
bool        host_kind_is_bridge(enum host_kind k); /* has a bus below it: ports and plain bridges */
int         host_kind_parse(const char *text); /* -1 if it is none */

struct host_id {
	uint16_t vendor, device;
	uint32_t class; /* 24 bits: base, sub, prog-if */
};

/* One pattern "vendor:device:class", hex digits or '*' for a whole field; class has 4 or 6 digits. */
struct host_kind_rule {
	enum host_kind kind;
	uint16_t       vendor, vendor_mask, device, device_mask;
	uint32_t       class, class_mask;
};

struct host_root;
/* Of the function whose directory this is, by its uevent. -EINVAL: that does not say. */
int host_id_read(struct host_root *root, struct host_id *ret, const char *dir);

#define HOST_KIND_RULES_MAX 256

struct host_kinds {
	struct host_kind_rule rule[HOST_KIND_RULES_MAX];
	size_t                n;
	char                  fmpm[256]; /* [host] fmpm: NVIDIA's tool that lists Fabric Manager's partitions; "" none */
};

struct conf;
struct error;

/* Appends the blank-separated patterns of one conf value; an empty value forgets the kind's patterns so
 * far. key is gpu, nvswitch, nic, data-direct or nvme. -EINVAL names the pattern. */
int host_kinds_add(struct host_kinds *k, const char *key, const char *patterns, struct error *err);
/* All of a configuration's [kinds] and [host]; the error names the line. */
int host_kinds_load(struct host_kinds *k, const struct conf *conf, struct error *err);
/* The first rule that matches, or HOST_OTHER. */
enum host_kind host_kinds_match(const struct host_kinds *k, struct host_id id);
