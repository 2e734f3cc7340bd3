/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* guest — the libvirt domain XML of one plan (pure). Its PCIe tree mirrors the host's: per NUMA cell and host bridge a
 * pcie-expander-bus, per host switch a root port and a switch, below it the bundle's functions of that
 * host switch; functions of one device share a slot. */

#include "base/bdf.h"
#include "plan/plan.h"

struct error;
struct json_object;
struct topo;

struct guest_env {
	const char *name;     /* domain name */
	const char *uuid;
	const char *type;     /* "kvm", "qemu" or "test": what the hypervisor offers */
	unsigned    qemu;     /* its version, major * 1000000 + minor * 1000 + release; 0 unknown: as old as the floor's, 7.2 */
	const char *emulator; /* path; NULL: libvirt's choice */
	const char *console;  /* file the serial console is logged to; NULL: a pty without log */
	const char *images;       /* the directory of disks and seeds */
	const char *image_format; /* "raw", "qcow2", of the request's image; NULL: not known, libvirt looks at the disk */
};

struct guest_dirs { /* where files are on the host, and which QEMU */
	const char *console, *images;
	const char *image_format; /* as above */
	unsigned    qemu;
	unsigned    lacks; /* PLAN_LACKS_* */
};

/* Loads libxml2, which otherwise is loaded with the first document: for a thread that cannot. -ENOPKG. */
int guest_load(struct error *err);
/* The XML as text; the caller frees. -E2BIG: more buses, slots or addresses than a guest has; -EINVAL: a value has
 * control characters, which XML cannot carry. */
int guest_domain_xml(char **ret, const struct plan *plan, const struct plan_request *request,
		     const struct topo *topo, const struct guest_env *env, struct error *err);

/* NCCL's topology file for that guest: its own addresses, the host's switches and links. The caller frees. -E2BIG: more
 * elements than NCCL takes. */
int guest_nccl_xml(char **ret, const struct plan *plan, const struct topo *topo, struct error *err);

/* {"gpus", "vfs", "tenant": {"gpus", "vfs"}}: which function of the host each of the guest's is (docs/openapi.json, RankMap).
 * -ENOMEM, and as guest_domain_xml(). */
int guest_rank_json(struct json_object **ret, const struct plan *plan, const struct topo *topo, struct error *err);

/* Where the guest has that file, and what NCCL is told there: lines NAME=VALUE, good for /etc/nccl.conf and
 * /etc/environment; "" without GPUs. The caller frees. -ENOMEM */
#define GUEST_NCCL_PATH "/etc/nccl-topology.xml"
int guest_environment(char **ret, const struct plan *plan, const struct topo *topo, struct error *err);

/* Of the cloud-init seed (NoCloud), what the request does not have as it is; the caller frees. nccl NULL: no such file. -ENOMEM */
int guest_meta_data(char **ret, const struct plan_request *r, const char *uuid, struct error *err);
int guest_vendor_data(char **ret, const struct plan_request *r, const char *uuid, const char *nccl, const char *environment,
		      struct error *err);

/* Of a plan that fits: sets its domain_xml, and nccl_xml if there are GPUs, as both programs do: the domain has the instance's
 * name, its console is logged to NAME.log. With a seed, what of it is velad's: meta-data and vendor-data. type NULL: what the host
 * looks able to start. uuid NULL: of a dry run, all zeros, so that a plan is the same each time. Where a guest cannot have so much
 * (guest_domain_xml(), -E2BIG), or the host lacks something for it, the plan does not fit any more, by the rules guest.limits and
 * guest.lacks, and 0 is returned. */
int guest_plan_xml(struct plan *plan, const struct plan_request *request, const struct topo *topo,
		   const char *type, const char *uuid, const struct guest_dirs *dirs, struct error *err);
