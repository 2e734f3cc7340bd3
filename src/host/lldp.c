/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks lldpd who is at the other end of each cable. liblldpctl is loaded only where lldpd's socket is there: most
 * hosts have neither, and velactl should not pay for it at each start. The library's own socket waits without
 * end, so it is given ours. What a neighbour announces is foreign text; host/net judges it. */
#include <lldpctl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lazy.h"
#include "host/answer.h"

#define LIBRARY "liblldpctl.so.4"

#define FUNCTIONS(X)             \
	X(lldpctl_new)           \
	X(lldpctl_release)       \
	X(lldpctl_log_callback)  \
	X(lldpctl_get_interfaces) \
	X(lldpctl_get_port)      \
	X(lldpctl_atom_get)      \
	X(lldpctl_atom_get_str)  \
	X(lldpctl_atom_iter)     \
	X(lldpctl_atom_iter_next) \
	X(lldpctl_atom_iter_value) \
	X(lldpctl_atom_dec_ref)

LAZY_LIBRARY(LIBRARY, FUNCTIONS)

/* Else it writes to standard error. */
static void be_quiet(int severity, const char *text)
{
	(void)severity, (void)text;
}

static ssize_t send_cb(lldpctl_conn_t *conn, const uint8_t *data, size_t length, void *self)
{
	ssize_t n = send(*(int *)self, data, length, MSG_NOSIGNAL);

	(void)conn;
	return n < 0 ? LLDPCTL_ERR_CALLBACK_FAILURE : n;
}

static ssize_t recv_cb(lldpctl_conn_t *conn, const uint8_t *data, size_t length, void *self)
{
	/* the library declares what we are to fill as const */
	ssize_t n = read(*(int *)self, (void *)(uintptr_t)data, length); /* as recv(2), which velad's reader has not (velad/sandbox) */

	(void)conn;
	return n < 0 ? LLDPCTL_ERR_CALLBACK_FAILURE : n == 0 ? LLDPCTL_ERR_EOF : n;
}

static int connect_lldpd(const char *path)
{
	const struct timeval wait = { .tv_sec = ANSWER_MS / 1000, .tv_usec = ANSWER_MS % 1000 * 1000 };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (snprintf(to.sun_path, sizeof(to.sun_path), "%s", path) >= (int)sizeof(to.sun_path))
		return -1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -1;
	return steal_fd(&fd);
}

static void put(struct answers *a, const struct lib *l, lldpctl_atom_t *neighbour, lldpctl_key_t key, const char *netdev,
		const char *name)
{
	const char *text = l->lldpctl_atom_get_str(neighbour, key);

	if (text && *text)
		answer_put(a, text, "answers/lldp/%s/%s", netdev, name);
}

/* The first one heard; a NIC's port has one cable. */
static void take_port(struct answers *a, const struct lib *l, lldpctl_atom_t *interface)
{
	const char *netdev = l->lldpctl_atom_get_str(interface, lldpctl_k_interface_name);
	lldpctl_atom_t *port = netdev ? l->lldpctl_get_port(interface) : NULL;
	lldpctl_atom_t *list = port ? l->lldpctl_atom_get(port, lldpctl_k_port_neighbors) : NULL;
	lldpctl_atom_iter_t *it = list ? l->lldpctl_atom_iter(list) : NULL;
	lldpctl_atom_t *neighbour = it ? l->lldpctl_atom_iter_value(list, it) : NULL;

	if (neighbour) {
		put(a, l, neighbour, lldpctl_k_chassis_id, netdev, "chassis-id");
		put(a, l, neighbour, lldpctl_k_chassis_name, netdev, "chassis-name");
		put(a, l, neighbour, lldpctl_k_port_id, netdev, "port-id");
		put(a, l, neighbour, lldpctl_k_port_descr, netdev, "port-descr");
		l->lldpctl_atom_dec_ref(neighbour);
	}
	if (list)
		l->lldpctl_atom_dec_ref(list);
	if (port)
		l->lldpctl_atom_dec_ref(port);
}

static void take_all(struct answers *a, const struct lib *l, lldpctl_conn_t *conn)
{
	lldpctl_atom_t *all = l->lldpctl_get_interfaces(conn);
	uint64_t end = clock_ms() + ANSWER_MS;

	if (!all)
		return;
	for (lldpctl_atom_iter_t *it = l->lldpctl_atom_iter(all); it && clock_ms() < end;
	     it = l->lldpctl_atom_iter_next(all, it)) {
		lldpctl_atom_t *interface = l->lldpctl_atom_iter_value(all, it);

		if (!interface)
			break;
		take_port(a, l, interface);
		l->lldpctl_atom_dec_ref(interface);
	}
	l->lldpctl_atom_dec_ref(all);
}

void lldp_ask(struct answers *a, const char *path)
{
	autoclose int fd = connect_lldpd(path);
	lldpctl_conn_t *conn;
	struct lib l = { 0 };

	if (fd < 0)
		return;
	if (lib_open(&l)) {
		l.lldpctl_log_callback(be_quiet);
		conn = l.lldpctl_new(send_cb, recv_cb, &fd);
		if (conn) {
			take_all(a, &l, conn);
			(void)l.lldpctl_release(conn);
		}
	}
	lib_close(&l);
}
