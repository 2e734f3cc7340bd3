/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/upgrade.h"

#include <string.h>

/* Clients wait for the 101 before they say more: extra is nothing. */
static void on_upgrade(void *cls, struct MHD_Connection *c, void *state, const char *extra, size_t size, MHD_socket fd,
		       struct MHD_UpgradeResponseHandle *urh)
{
	const struct upgrade *u = state;

	(void)cls, (void)c, (void)extra, (void)size;
	u->route->upgraded(u->self, &u->req, fd);
	(void)MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE); /* our descriptor; without TLS, nothing is shut down */
}

enum MHD_Result api_upgrade_send(struct upgrade *u, struct MHD_Connection *c, const struct api_route *route, const struct api_request *req, void *self)
{
	struct MHD_Response *r = MHD_create_response_for_upgrade(on_upgrade, NULL);
	enum MHD_Result ok = MHD_NO;

	if (!r)
		return MHD_NO; /* no memory: the connection closes */
	*u = (struct upgrade){ .route = route, .self = self };
	memcpy(u->req.param, req->param, sizeof(u->req.param));
	memcpy(u->req.query, req->query, sizeof(u->req.query));
	if (MHD_add_response_header(r, MHD_HTTP_HEADER_UPGRADE, route->upgrade) == MHD_YES)
		ok = MHD_queue_response(c, MHD_HTTP_SWITCHING_PROTOCOLS, r);
	MHD_destroy_response(r);
	return ok;
}
