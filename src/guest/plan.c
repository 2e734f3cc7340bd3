/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a plan has of its guest: domain XML, NCCL's file, and of the seed what is velad's; or that the host cannot have such a guest. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "guest/guest.h"
#include "host/inventory.h"
#include "topo/topo.h"

static int write_seed(struct plan *plan, const struct plan_request *request, const struct topo *topo, const char *uuid,
		      struct error *err)
{
	autofree char *environment = NULL, *meta = NULL, *vendor = NULL;
	int r = guest_environment(&environment, plan, topo, err);

	if (r == 0)
		r = guest_meta_data(&meta, request, uuid, err);
	if (r == 0)
		r = guest_vendor_data(&vendor, request, uuid, plan->nccl_xml, environment, err);
	if (r < 0)
		return r;
	plan->meta_data = arena_strdup(&plan->arena, meta);
	plan->vendor_data = arena_strdup(&plan->arena, vendor);
	return plan->meta_data && plan->vendor_data ? 0 : error_set(err, -ENOMEM, "no memory for the seed");
}

/* "what there is; what to ask for", as all -E2BIG here say it. */
static int does_not_fit(struct plan *plan, const char *rule, struct error *err)
{
	const char *fix = strstr(err->text, "; ");
	struct plan_reason *reason = &plan->reason[plan->nreasons];

	assert(fix && plan->nreasons < PLAN_REASONS_MAX);
	*reason = (struct plan_reason){
		.rule = rule, .device = "",
		.observed = arena_printf(&plan->arena, "%.*s", (int)(fix - err->text), err->text),
		.needed = arena_strdup(&plan->arena, fix + (strncmp(fix, "; ask for ", 10) == 0 ? 10 : 2)),
	};
	*err = ERROR_INIT;
	if (!reason->observed || !reason->needed)
		return error_set(err, -ENOMEM, "no memory for a reason");
	plan->nreasons++;
	plan->fits = false;
	return 0;
}

/* libvirt would refuse it only when all else is done. */
static int check_offer(const struct plan_request *r, unsigned lacks, struct error *err)
{
	if (r->tpm && lacks & PLAN_LACKS_TPM)
		return error_set(err, -E2BIG, "libvirt has no emulated TPM 2.0; install swtpm and swtpm-tools on the host, and restart libvirt");
	if (r->uefi && lacks & PLAN_LACKS_UEFI)
		return error_set(err, -E2BIG, "libvirt has no UEFI firmware; install ovmf on the host, and restart libvirt");
	if (r->secure_boot && lacks & PLAN_LACKS_SECURE_BOOT)
		return error_set(err, -E2BIG, "libvirt has no UEFI firmware with secure boot; install one on the host, and restart libvirt");
	return 0;
}

int guest_plan_xml(struct plan *plan, const struct plan_request *request, const struct topo *topo,
		   const char *type, const char *uuid, const struct guest_dirs *dirs, struct error *err)
{
	const char *name = *request->name ? request->name : "unnamed";
	const struct guest_env env = {
		.name = name,
		.uuid = uuid ? uuid : "00000000-0000-0000-0000-000000000000",
		.type = type ? type : topo_inventory(topo)->kvm == HOST_PRESENT ? "kvm" : "qemu",
		.console = arena_printf(&plan->arena, "%s/%s.log", dirs->console, name),
		.images = dirs->images,
		.image_format = dirs->image_format,
		.qemu = dirs->qemu,
	};
	autofree char *xml = NULL, *nccl = NULL;
	int r;

	if (!env.console)
		return error_set(err, -ENOMEM, "no memory for the domain XML");
	if (check_offer(request, dirs->lacks, err) < 0)
		return does_not_fit(plan, "guest.lacks", err);
	r = guest_domain_xml(&xml, plan, request, topo, &env, err);
	if (r == 0 && plan->ngpus)
		r = guest_nccl_xml(&nccl, plan, topo, err);
	if (r == -E2BIG)
		return does_not_fit(plan, "guest.limits", err);
	if (r < 0)
		return r;
	plan->domain_xml = arena_strdup(&plan->arena, xml);
	plan->nccl_xml = nccl ? arena_strdup(&plan->arena, nccl) : NULL;
	if (!plan->domain_xml || (nccl && !plan->nccl_xml))
		return error_set(err, -ENOMEM, "no memory for the domain XML");
	return plan_seed_wanted(&request->seed) ? write_seed(plan, request, topo, env.uuid, err) : 0;
}
