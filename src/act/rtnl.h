/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act/rtnl — settings of VFs through rtnetlink (rtnetlink(7), net/core/rtnetlink.c): a look at all of one VF, and one
 * message for each change. Without libnl: its error codes have neither the kernel's errno nor the driver's own words, and
 * a message here has one attribute. */

#include <stddef.h>
#include <stdint.h>

#include "plan/vf.h"

struct error;

/* Of VF `index` of the interface. -ENODEV: it has no such VF; -EIO. */
int rtnl_vf_read(struct plan_vf_settings *ret, int ifindex, unsigned index, struct error *err);
/* What the kernel sets by one message (plan_vf_group()). The kernel's errno, err has the driver's words if it has any. */
int rtnl_vf_set(int ifindex, unsigned index, const struct plan_vf_settings *s, struct error *err);

/* One RTM_NEWLINK message read, as far as it goes; for tests, too. -ENODEV as above; -EBADMSG. */
int rtnl_vf_parse(struct plan_vf_settings *ret, const void *msg, size_t len, unsigned index);
