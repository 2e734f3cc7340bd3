/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* api/upgrade — a connection that speaks another protocol from now on (RFC 9110, 7.8; room-private). Its socket is given away:
 * libmicrohttpd, and the limits of its user, know it no more. */

#include <microhttpd.h>

#include "api/method.h"

struct upgrade { /* lives as long as the request */
	const struct api_route *route;
	struct api_request      req; /* without what is borrowed */
	void                   *self;
};

/* 101. *u is filled; it must be the first member of what MHD has as the request's state. */
enum MHD_Result api_upgrade_send(struct upgrade *u, struct MHD_Connection *c, const struct api_route *route, const struct api_request *req, void *self);
