/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/exits.h"

#include <errno.h>
#include <stddef.h>

#include "api/method.h"
#include "base/auto.h"

static const struct {
	int           error;
	enum ctl_exit exit;
} exits[] = {
	{ -EINVAL, CTL_USAGE },
	{ -E2BIG, CTL_USAGE },
	{ -ENOENT, CTL_NOT_FOUND },
	{ -EEXIST, CTL_CONFLICT },
	{ -EBUSY, CTL_CONFLICT },
	{ -ESTALE, CTL_CONFLICT },
	{ -EIDRM, CTL_CONFLICT },
	{ -EREMCHG, CTL_CONFLICT },
	{ -EKEYREJECTED, CTL_CONFLICT },
	{ -ENOSPC, CTL_NO_CAPACITY },
	{ -ECONNREFUSED, CTL_UNREACHABLE },
	{ -ETIMEDOUT, CTL_TIMEOUT },
};

enum ctl_exit ctl_exit_of(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(exits); i++)
		if (exits[i].error == error)
			return exits[i].exit;
	return CTL_FAILED;
}

int ctl_exit_errno(const char *code)
{
	const struct api_error *e = api_error_named(code);

	return e ? e->code : -EPROTO;
}
