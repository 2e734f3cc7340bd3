/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

static int on_watchdog(sd_event_source *source, uint64_t usec, void *self)
{
	const struct notify *n = self;

	(void)usec;
	notify_send(n, "WATCHDOG=1");
	if (sd_event_source_set_time(source, clock_usec(CLOCK_MONOTONIC) + n->every) < 0)
		log_err("cannot set the watchdog's timer");
	return 0;
}

/* Half of the time that the service manager gives, as sd_watchdog_enabled(3) has it. */
static int start_watchdog(struct notify *n, sd_event *event, struct error *err)
{
	int r = sd_watchdog_enabled(0, &n->every);

	if (r <= 0)
		return 0; /* there is none, or it is another process's */
	n->every /= 2;
	r = sd_event_add_time(event, &n->watchdog, CLOCK_MONOTONIC, 0, n->every / 2, on_watchdog, n);
	if (r >= 0)
		r = sd_event_source_set_enabled(n->watchdog, SD_EVENT_ON);
	return r < 0 ? error_set(err, r, "cannot watch the watchdog's time: %s", strerror(-r)) : 0;
}

int notify_open(struct notify *n, sd_event *event, struct error *err)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;

	*n = (struct notify){ .fd = -1 };
	if (!len)
		return 0;
	if (len >= sizeof(to.sun_path) || (*path != '/' && *path != '@'))
		return error_set(err, -EINVAL, "NOTIFY_SOCKET is \"%.60s\", and no path of a socket", path);
	memcpy(to.sun_path, path, len);
	if (*path == '@')
		to.sun_path[0] = '\0'; /* an abstract one (unix(7)) */
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (n->fd < 0 || connect(n->fd, (const struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return error_set(err, -errno, "cannot reach the service manager at %s: %s", path, strerror(errno));
	return start_watchdog(n, event, err);
}

void notify_send(const struct notify *n, const char *text)
{
	if (n->fd >= 0 && send(n->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		log_warning("cannot tell the service manager \"%s\": %s", text, strerror(errno));
}

void notify_done(struct notify *n)
{
	sd_event_source_disable_unref(n->watchdog);
	if (n->fd >= 0)
		(void)close(n->fd);
	*n = (struct notify){ .fd = -1 };
}
