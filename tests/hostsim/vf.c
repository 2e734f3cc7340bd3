/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Settings of VFs, answers/vf/PF/INDEX, where rtnetlink is (src/act/vf.c): what a write names changes, as one IFLA_VF_INFO
 * does; and refused is what the PF's driver refuses (drivers/net/ethernet: intel/igb, intel/ixgbe, intel/i40e, mellanox). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plan/vf.h"
#include "sim.h"

#define BIT PLAN_VF_BIT

static const struct vf_driver {
	const char *name;
	uint32_t    reports, sets; /* reports: what is there to read */
	bool        checks;        /* fresh VFs are spoof-checked */
	bool        ad, min_rate;
} drivers[] = {
	/* igb_ndo_get_vf_config() has no link state of its own: the kernel says auto */
	{ "igb", ~PLAN_VF_GUIDS, ~(PLAN_VF_GUIDS | BIT(PLAN_VF_LINK_STATE)), true, false, false },
	{ "ixgbe", ~PLAN_VF_GUIDS, ~PLAN_VF_GUIDS, true, false, false },
	{ "i40e", ~PLAN_VF_GUIDS, ~PLAN_VF_GUIDS, true, false, false },
	{ NULL, ~PLAN_VF_GUIDS, ~PLAN_VF_GUIDS, false, true, true }, /* mlx5 */
};

/* mlx5 of InfiniBand, whose VFs have no GUIDs at first (drivers/infiniband/hw/mlx5/ib_virt.c) */
#define INFINIBAND (PLAN_VF_GUIDS | BIT(PLAN_VF_LINK_STATE))
static const struct vf_driver infiniband = { "mlx5_ib", INFINIBAND, INFINIBAND, false, false, false };

static bool is_infiniband(const struct node *pf)
{
	const struct node *c = pf->child;

	while (c && strcmp(c->name, "class") != 0)
		c = c->next;
	return c && strncmp(c->text, "0x0207", 6) == 0;
}

static const struct vf_driver *driver_of(const struct node *pf)
{
	const struct vf_driver *d = drivers;

	if (is_infiniband(pf))
		return &infiniband;
	while (d->name && strcmp(d->name, sim_driver(pf)) != 0)
		d++;
	return d;
}

void vf_fresh(struct sim *s, const struct node *pf, unsigned i)
{
	const struct vf_driver *d = driver_of(pf);
	struct plan_vf_settings set = plan_vf_whole(&(struct plan_vf_settings){ .has = BIT(PLAN_VF_MAC) });
	char text[PLAN_VF_TEXT_MAX];

	set.value[PLAN_VF_SPOOF_CHECK] = d->checks;
	set.has = (set.has | PLAN_VF_GUIDS) & d->reports; /* 0 */
	sim_attach(node_add(s, TEXT_FILE, plan_vf_text(text, &set), "answers/vf/%s/%u", pf->name, i));
}

void vf_boot(struct sim *s, const struct node *pf)
{
	unsigned i;

	for (const struct node *c = pf->child; c; c = c->next)
		if (sscanf(c->name, "virtfn%u", &i) == 1 && !node_find(s, "answers/vf/%s/%u", pf->name, i))
			vf_fresh(s, pf, i);
}

void vf_gone(struct sim *s, const struct node *pf, unsigned i)
{
	struct node *n = node_find(s, "answers/vf/%s/%u", pf->name, i);

	while (n && n->parent && !n->child) { /* and folders that held nothing else */
		struct node *up = n->parent;

		node_remove(s, n);
		n = up;
	}
}

/* do_setvfinfo(), then the driver */
static int refused(const struct vf_driver *d, const struct plan_vf_settings *want)
{
	if (want->has & ~d->sets)
		return -EOPNOTSUPP;
	if (want->has & BIT(PLAN_VF_MAC) && want->value[PLAN_VF_MAC] >> 40 & 1)
		return -EINVAL; /* a group's address */
	if (want->has & BIT(PLAN_VF_PROTOCOL) && want->value[PLAN_VF_PROTOCOL] != 0x8100 && !d->ad)
		return -EPROTONOSUPPORT;
	if (want->has & BIT(PLAN_VF_MIN_RATE) && want->value[PLAN_VF_MIN_RATE] && !d->min_rate)
		return -EINVAL;
	return 0;
}

int vf_write(struct sim *s, struct node *n, const char *value, size_t len, off_t off)
{
	struct node *pf = sim_device(s, n->parent->name);
	struct plan_vf_settings now, want = { 0 };
	char text[PLAN_VF_TEXT_MAX];
	struct error ignored = ERROR_INIT;
	int r;

	(void)len;
	(void)off;
	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(value, "\n"), value);
	if (!pf || plan_vf_parse(&now, n->text, &ignored) < 0)
		return -ENODEV;
	if (plan_vf_parse(&want, text, &ignored) < 0 || !want.has)
		return -EINVAL;
	if (want.has & ~plan_vf_group(want.has))
		return -EINVAL; /* several messages */
	r = refused(driver_of(pf), &want);
	for (int a = 0; r == 0 && a < PLAN_VF_ATTR_MAX_; a++)
		if (want.has & BIT(a))
			now.value[a] = want.value[a];
	if (r == 0)
		node_text(n, plan_vf_text(text, &now));
	return r;
}
