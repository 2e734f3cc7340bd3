/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one error value of the project; see error.h for its rules. */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

static const struct {
	int         code;
	const char *name;
} names[] = {
	{ -EINVAL, "invalid" },       { -E2BIG, "too_large" },   { -EPERM, "denied" },     { -EACCES, "denied" },
	{ -ENOENT, "not_found" },     { -EOPNOTSUPP, "method" }, { -EEXIST, "exists" },    { -EBUSY, "busy" },
	{ -ESTALE, "stale_plan" },    { -EIDRM, "gone" },        { -ENOSPC, "no_capacity" }, { -ENODEV, "host" },
	{ -EREMOTEIO, "hypervisor" }, { -ETIMEDOUT, "timeout" }, { -ECANCELED, "cancelled" }, { -EREMCHG, "changed" },
	{ -EKEYREJECTED, "key_reused" }, { -EUSERS, "limit" }, { -ETIME, "not_decided" }, { -EIO, "internal" }, /* the last: what the rest becomes */
};

const char *error_name(int code)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(names) && names[i].code != code)
		i++;
	return names[i].name;
}

int error_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].code;
	return 0;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	assert(code < 0);
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* a cut text is still an error */
	va_end(ap);
	return code;
}

int error_prefix(struct error *err, const char *fmt, ...)
{
	char old[sizeof(err->text)];
	va_list ap;
	int n;

	assert(err->code < 0);
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->text))
		(void)snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", old);
	return err->code;
}
