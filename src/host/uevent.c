/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event says where to look, never what is there: of all its strings only the place and three actions count. */
#include "host/uevent.h"

#include <errno.h>
#include <string.h>

#include "host/change.h"

static const char *const actions[] = { /* enum kobject_action; those that mean a new object first */
	"add", "remove", "move", "change", "online", "offline", "bind", "unbind",
};
#define ACTIONS_ANEW 3

struct bdf host_uevent_function(const char *devpath)
{
	struct bdf found = BDF_NONE, b;
	char part[BDF_TEXT_MAX];

	for (const char *p = devpath; *p; p += strspn(p, "/")) {
		size_t n = strcspn(p, "/");

		if (n < sizeof(part)) {
			memcpy(part, p, n);
			part[n] = '\0';
			if (strchr(part, ':') != strrchr(part, ':') && bdf_parse(&b, part)) /* with a domain */
				found = b;
		}
		p += n;
	}
	return found;
}

/* The value of KEY= among the strings; NULL: it is not there. */
static const char *value_of(const char *buf, size_t len, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = buf; p < buf + len; p += strlen(p) + 1)
		if (strncmp(p, key, n) == 0 && p[n] == '=')
			return p + n + 1;
	return NULL;
}

static int action_of(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (strlen(actions[i]) == len && memcmp(actions[i], text, len) == 0)
			return (int)i;
	return -1;
}

static bool is_function(const char *devpath, struct bdf bdf)
{
	char name[BDF_TEXT_MAX];

	return strcmp(strrchr(devpath, '/') + 1, bdf_text(name, bdf)) == 0;
}

int host_uevent_parse(struct host_uevent *ret, const char *buf, size_t len)
{
	const char *at, *devpath, *subsystem;
	int action;

	if (len == 0 || len > HOST_UEVENT_MAX || buf[len - 1] != '\0')
		return -EINVAL;
	at = strchr(buf, '@');
	action = at ? action_of(buf, (size_t)(at - buf)) : -1;
	devpath = value_of(buf, len, "DEVPATH");
	subsystem = value_of(buf, len, "SUBSYSTEM");
	if (action < 0 || at[1] != '/' || !devpath || strcmp(devpath, at + 1) != 0 || !subsystem)
		return -EINVAL;
	*ret = (struct host_uevent){ .bdf = host_uevent_function(devpath) };
	if (bdf_is_none(ret->bdf))
		return 0;
	if (strcmp(subsystem, "net") == 0 || strcmp(subsystem, "infiniband") == 0)
		ret->what = HOST_CHANGE_NET;
	else if (strcmp(subsystem, "pci") == 0 && is_function(devpath, ret->bdf))
		ret->what = action < ACTIONS_ANEW ? HOST_CHANGE_ANEW : HOST_CHANGE_STATE;
	return 0;
}
