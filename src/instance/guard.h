/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* instance/guard — the machine, with a deadline for each call. What does not return by then is left alone (instance/crew),
 * and the call fails with -ETIMEDOUT: then the state of its target is unknown, and no call on that target is made before the
 * one that hangs returns. */

#include "act/act.h"
#include "instance/crew.h"
#include "instance/instance.h"

struct guard {
	struct crew          *crew; /* borrowed */
	struct act            act;  /* the machine */
	struct inst_deadlines deadlines;
};

struct guard_self {
	const struct guard *guard; /* borrowed */
	struct task        *task;  /* the calls are its fn's; NULL: each call is a task of its own, and is waited for */
};

/* A machine with guard's calls. self is borrowed. */
struct act guard_act(struct guard_self *self);
