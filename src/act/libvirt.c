/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Domains through libvirt (https://libvirt.org/html/libvirt-libvirt-domain.html). One shared connection;
 * each call holds a reference of its own while it works, so that a reconnect never pulls it away. */
#include "act/libvirt.h"

#include <assert.h>
#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "plan/plan.h"

AUTO_DEFINE(virConnectPtr, virConnectClose);
AUTO_DEFINE(virDomainPtr, virDomainFree);

#define TICK_MS 5000 /* how often the watch looks whether libvirt is still there */

struct act_virt {
	pthread_mutex_t lock; /* conn, callback */
	char           *uri;  /* owned */
	virConnectPtr   conn; /* owned; NULL while there is none */
	int             callback[4]; /* of the watch on conn; -1 */
	void (*fn)(void *self, const char *name, enum act_domain state); /* NULL: no watch */
	void           *fn_self; /* borrowed */
	bool            told; /* fn, that there is no connection */
	pthread_t       thread;
	int             timer;
	atomic_bool     stop;
};

/* libvirt prints every error to stderr by default; ours are in struct error. */
static void keep_quiet(void *self, virErrorPtr e)
{
	(void)self;
	(void)e;
}

/* libvirt's last error of this thread, as one line */
static const char *last_text(char line[256])
{
	(void)snprintf(line, 256, "%s", virGetLastErrorMessage());
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = ' ';
	return line;
}

static int virt_error(struct error *err, const char *what, const char *name)
{
	char line[256];

	return error_set(err, -EREMOTEIO, "cannot %s %s: %s", what, name, last_text(line));
}

static bool last_error_is(int code)
{
	return virGetLastErrorCode() == code;
}

/* ---- the connection --------------------------------------------------------------------------------- */

static void init_process(void)
{
	virSetErrorFunc(NULL, keep_quiet);
	xmlInitParser(); /* before threads parse (libxml2's threading rules) */
}

int act_virt_new(struct act_virt **ret, const char *uri, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct act_virt *v = calloc(1, sizeof(*v));

	if (v)
		v->uri = strdup(uri);
	if (!v || !v->uri) {
		free(v);
		return error_set(err, -ENOMEM, "no memory for a libvirt client");
	}
	(void)pthread_once(&once, init_process); /* cannot fail with a valid once */
	(void)pthread_mutex_init(&v->lock, NULL); /* cannot fail on Linux */
	for (size_t i = 0; i < ARRAY_SIZE(v->callback); i++)
		v->callback[i] = -1;
	*ret = v;
	return 0;
}

static void drop_connection(struct act_virt *v)
{
	if (!v->conn)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(v->callback); i++) {
		if (v->callback[i] >= 0)
			(void)virConnectDomainEventDeregisterAny(v->conn, v->callback[i]); /* a dead one cannot answer */
		v->callback[i] = -1;
	}
	(void)virConnectClose(v->conn); /* our reference is gone either way */
	v->conn = NULL;
}

static void on_event(virConnectPtr conn, virDomainPtr dom, int event, int detail, void *opaque);
static void on_reboot(virConnectPtr conn, virDomainPtr dom, void *opaque);
static void on_device(virConnectPtr conn, virDomainPtr dom, const char *alias, void *opaque);

static int watch_connection(struct act_virt *v, struct error *err)
{
	const struct {
		int                                 id;
		virConnectDomainEventGenericCallback fn;
	} events[] = {
		{ VIR_DOMAIN_EVENT_ID_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(on_event) },
		{ VIR_DOMAIN_EVENT_ID_REBOOT, VIR_DOMAIN_EVENT_CALLBACK(on_reboot) },
		{ VIR_DOMAIN_EVENT_ID_DEVICE_ADDED, VIR_DOMAIN_EVENT_CALLBACK(on_device) },
		{ VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, VIR_DOMAIN_EVENT_CALLBACK(on_device) },
	};

	static_assert(ARRAY_SIZE(events) == sizeof(v->callback) / sizeof(v->callback[0]), "a place for each");
	(void)virConnectSetKeepAlive(v->conn, 5, 3); /* the test driver has none, a local socket needs none */
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		v->callback[i] = virConnectDomainEventRegisterAny(v->conn, NULL, events[i].id, events[i].fn, v, NULL);
		if (v->callback[i] < 0)
			return virt_error(err, "watch the domains of", v->uri);
	}
	return 0;
}

/* Who watches is told when the connection is another one, or none. */
static void tell_anew(struct act_virt *v)
{
	if (v->fn)
		v->fn(v->fn_self, NULL, ACT_DOMAIN_CHANGED);
}

static int connect_locked(struct act_virt *v, struct error *err)
{
	char line[256];
	int r = 0;

	if (v->conn && virConnectIsAlive(v->conn) == 1)
		return 0;
	drop_connection(v);
	v->conn = virConnectOpen(v->uri);
	if (!v->conn)
		r = error_set(err, -EREMOTEIO,
			      "cannot reach libvirt at %s: %s; systemctl start libvirtd, or set uri in section [libvirt] of velad.conf",
			      v->uri, last_text(line));
	else if (v->fn)
		r = watch_connection(v, err);
	if (r < 0)
		drop_connection(v);
	if (r == 0 || !v->told)
		tell_anew(v);
	v->told = r < 0;
	return r;
}

int act_virt_connection(struct act_virt *v, virConnectPtr *ret, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&v->lock);
	r = connect_locked(v, err);
	if (r == 0 && virConnectRef(v->conn) < 0)
		r = virt_error(err, "share the connection to", v->uri);
	if (r == 0)
		*ret = v->conn;
	(void)pthread_mutex_unlock(&v->lock);
	return r;
}

/* ---- looking ---------------------------------------------------------------------------------------- */

/* *dom is NULL if there is no such domain. Tries twice: a client without an event loop learns only from
 * its next call that libvirtd was restarted. */
static int find(struct act_virt *v, virConnectPtr *conn, virDomainPtr *dom, const char *name, struct error *err)
{
	for (bool again = true;; again = false) {
		auto_(virConnectClose) virConnectPtr c = NULL;
		int r = act_virt_connection(v, &c, err);

		if (r < 0)
			return r;
		*dom = virDomainLookupByName(c, name);
		if (*dom || last_error_is(VIR_ERR_NO_DOMAIN)) {
			*conn = steal(c);
			return 0;
		}
		r = virt_error(err, "look for domain", name);
		if (!again || virConnectIsAlive(c) == 1)
			return r;
	}
}

int act_virt_ours(virDomainPtr dom, struct error *err)
{
	autofree char *mark = virDomainGetMetadata(dom, VIR_DOMAIN_METADATA_ELEMENT, PLAN_DOMAIN_MARK, 0);

	if (mark)
		return 1;
	if (last_error_is(VIR_ERR_NO_DOMAIN_METADATA) || last_error_is(VIR_ERR_NO_DOMAIN))
		return 0;
	return virt_error(err, "read the metadata of domain", virDomainGetName(dom));
}

/* As find(), of velad's domains only. */
int act_virt_find(struct act_virt *v, virConnectPtr *conn, virDomainPtr *dom, const char *name, struct error *err)
{
	auto_(virConnectClose) virConnectPtr c = NULL;
	auto_(virDomainFree) virDomainPtr d = NULL;
	int r = find(v, &c, &d, name, err);

	if (r == 0 && d)
		r = act_virt_ours(d, err);
	if (r < 0)
		return r;
	*dom = r ? steal(d) : NULL;
	*conn = steal(c);
	return 0;
}

/* *ret: is it active; a domain that has just gone is not. */
static int is_active(virDomainPtr dom, bool *ret, struct error *err)
{
	int r = virDomainIsActive(dom);

	if (r < 0 && !last_error_is(VIR_ERR_NO_DOMAIN))
		return virt_error(err, "read the state of domain", virDomainGetName(dom));
	*ret = r == 1;
	return 0;
}

/* Not VIR_DOMAIN_SHUTOFF_FAILED: there QEMU could not be started. */
static bool has_crashed(virDomainPtr dom)
{
	int state = VIR_DOMAIN_NOSTATE, reason = 0;

	if (virDomainGetState(dom, &state, &reason, 0) < 0)
		return false;
	return state == VIR_DOMAIN_CRASHED || (state == VIR_DOMAIN_SHUTOFF && reason == VIR_DOMAIN_SHUTOFF_CRASHED);
}

int act_virt_state(virDomainPtr dom, enum act_domain *ret, struct error *err)
{
	bool active = false;
	int r = is_active(dom, &active, err);

	if (r == 0)
		*ret = active ? ACT_DOMAIN_RUNNING : has_crashed(dom) ? ACT_DOMAIN_CRASHED : ACT_DOMAIN_SHUTOFF;
	return r;
}

int act_virt_domain(struct act_virt *v, enum act_domain *ret, const char *name, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virDomainFree) virDomainPtr dom = NULL;
	enum act_domain now = ACT_DOMAIN_ABSENT;
	int r = act_virt_find(v, &conn, &dom, name, err);

	if (r == 0 && dom)
		r = act_virt_state(dom, &now, err);
	if (r == 0)
		*ret = now;
	return r;
}

/* ---- starting and stopping --------------------------------------------------------------------------- */

static int undefine(virDomainPtr dom, struct error *err)
{
	const unsigned all = VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA |
			     VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | VIR_DOMAIN_UNDEFINE_NVRAM;

	/* not each driver knows each flag */
	if (virDomainUndefineFlags(dom, all) == 0 || last_error_is(VIR_ERR_NO_DOMAIN))
		return 0;
	if (virDomainUndefine(dom) == 0 || last_error_is(VIR_ERR_NO_DOMAIN))
		return 0;
	return virt_error(err, "undefine domain", virDomainGetName(dom));
}

static int destroy(virDomainPtr dom, struct error *err)
{
	bool active = false;
	int r = is_active(dom, &active, err);

	if (r < 0 || !active)
		return r;
	if (virDomainDestroy(dom) == 0 || last_error_is(VIR_ERR_NO_DOMAIN))
		return 0;
	r = virt_error(err, "destroy domain", virDomainGetName(dom));
	/* it may have ended by itself in between */
	return virDomainIsActive(dom) == 0 ? 0 : r;
}

static virDomainPtr define(virConnectPtr conn, const char *xml)
{
	virDomainPtr dom = virDomainDefineXMLFlags(conn, xml, VIR_DOMAIN_DEFINE_VALIDATE);
	int code = dom ? VIR_ERR_OK : virGetLastErrorCode();

	/* a driver without the flag, or a libvirt without its schema files */
	if (code == VIR_ERR_INVALID_ARG || code == VIR_ERR_NO_SUPPORT || code == VIR_ERR_INTERNAL_ERROR)
		dom = virDomainDefineXML(conn, xml);
	return dom;
}

/* The domain of this XML, which is defined over it: so it keeps what is beside it, as its NVRAM. */
static bool is_same(virDomainPtr dom, const char *xml)
{
	char uuid[VIR_UUID_STRING_BUFLEN];

	return virDomainGetUUIDString(dom, uuid) == 0 && strstr(xml, uuid);
}

/* Makes room for the name: refuses a foreign domain, clears a left-over of ours. 1: it runs already. *again: it is there. */
static int clear_name(struct act_virt *v, virConnectPtr *conn, const char *name, const char *xml, bool *again, struct error *err)
{
	auto_(virDomainFree) virDomainPtr dom = NULL;
	bool active = false;
	int r = find(v, conn, &dom, name, err);

	if (r < 0 || !dom)
		return r;
	r = act_virt_ours(dom, err);
	if (r == 0)
		return error_set(err, -EEXIST,
				 "libvirt already has a domain %s which velad did not make; rename or undefine it", name);
	if (r > 0)
		r = is_active(dom, &active, err);
	if (r < 0)
		return r;
	*again = r >= 0 && !active && is_same(dom, xml);
	return active ? 1 : *again ? 0 : undefine(dom, err);
}

static int create(virDomainPtr dom, const char *name, struct error *err)
{
	bool active = false;
	int r = act_virt_ours(dom, err);

	if (r == 0 || (r > 0 && strcmp(virDomainGetName(dom), name) != 0))
		return error_set(err, -EINVAL, "the XML for domain %s has another name or lacks velad's mark", name);
	if (r < 0)
		return r;
	if (virDomainCreate(dom) < 0)
		return virt_error(err, "start domain", name);
	r = is_active(dom, &active, err);
	if (r == 0 && !active)
		return error_set(err, -EREMOTEIO, "domain %s ended as soon as it was started; see its console log", name);
	return r;
}

int act_virt_start(struct act_virt *v, const char *name, const char *xml, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virDomainFree) virDomainPtr dom = NULL;
	bool again = false;
	int r = clear_name(v, &conn, name, xml, &again, err);

	if (r != 0)
		return r < 0 ? r : 0;
	dom = define(conn, xml);
	if (!dom)
		return virt_error(err, "define domain", name);
	r = create(dom, name, err);
	if (r < 0) {
		struct error ignored = ERROR_INIT; /* the first error says more */

		(void)destroy(dom, &ignored);
		if (!again)
			(void)undefine(dom, &ignored);
	}
	return r;
}

static int give_order(virDomainPtr dom, enum act_order order, struct error *err)
{
	static const char *const what[ACT_ORDER_MAX_] = {
		[ACT_ORDER_SHUTDOWN] = "shut down domain", [ACT_ORDER_REBOOT] = "reboot domain", [ACT_ORDER_RESET] = "reset domain",
	};
	int r;

	switch (order) {
	case ACT_ORDER_SHUTDOWN:
		r = virDomainShutdown(dom);
		break;
	case ACT_ORDER_REBOOT:
		r = virDomainReboot(dom, 0);
		break;
	case ACT_ORDER_RESET:
		r = virDomainReset(dom, 0);
		break;
	case ACT_ORDER_OFF:
	default:
		return destroy(dom, err);
	}
	return r < 0 ? virt_error(err, what[order], virDomainGetName(dom)) : 0;
}

int act_virt_order(struct act_virt *v, const char *name, enum act_order order, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virDomainFree) virDomainPtr dom = NULL;
	bool active = false;
	int r = act_virt_find(v, &conn, &dom, name, err);

	if (r == 0 && !dom)
		return error_set(err, -ENOENT, "libvirt has no domain %s that velad made", name);
	if (r == 0)
		r = is_active(dom, &active, err);
	if (r < 0 || (!active && order <= ACT_ORDER_OFF))
		return r;
	return give_order(dom, order, err);
}

int act_virt_stop(struct act_virt *v, const char *name, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virDomainFree) virDomainPtr dom = NULL;
	enum act_domain left = ACT_DOMAIN_ABSENT;
	int r = act_virt_find(v, &conn, &dom, name, err);

	if (r < 0 || !dom)
		return r;
	r = destroy(dom, err);
	if (r == 0)
		r = undefine(dom, err);
	if (r == 0)
		r = act_virt_domain(v, &left, name, err);
	if (r == 0 && left != ACT_DOMAIN_ABSENT)
		return error_set(err, -EREMOTEIO, "libvirt took the order to remove domain %s, and still has it", name);
	return r;
}

/* ---- watching ------------------------------------------------------------------------------------------ */

/* "Failed" is what QEMU's driver says when QEMU died (processMonitorEOFEvent(), src/qemu/qemu_driver.c). */
static void on_event(virConnectPtr conn, virDomainPtr dom, int event, int detail, void *opaque)
{
	struct act_virt *v = opaque;

	(void)conn;
	if (event == VIR_DOMAIN_EVENT_STARTED)
		v->fn(v->fn_self, virDomainGetName(dom), ACT_DOMAIN_RUNNING);
	else if (event == VIR_DOMAIN_EVENT_STOPPED)
		v->fn(v->fn_self, virDomainGetName(dom), detail == VIR_DOMAIN_EVENT_STOPPED_CRASHED || detail == VIR_DOMAIN_EVENT_STOPPED_FAILED ?
		      ACT_DOMAIN_CRASHED : ACT_DOMAIN_SHUTOFF);
	else if (event == VIR_DOMAIN_EVENT_UNDEFINED)
		v->fn(v->fn_self, virDomainGetName(dom), ACT_DOMAIN_ABSENT);
	else if (event == VIR_DOMAIN_EVENT_DEFINED)
		v->fn(v->fn_self, virDomainGetName(dom), ACT_DOMAIN_CHANGED);
}

static void on_device(virConnectPtr conn, virDomainPtr dom, const char *alias, void *opaque)
{
	(void)alias;
	on_event(conn, dom, VIR_DOMAIN_EVENT_DEFINED, 0, opaque);
}

static void on_reboot(virConnectPtr conn, virDomainPtr dom, void *opaque)
{
	on_event(conn, dom, VIR_DOMAIN_EVENT_STARTED, 0, opaque);
}

/* The timer only makes virEventRunDefaultImpl() return. */
static void on_tick(int timer, void *self)
{
	(void)timer;
	(void)self;
}

static void *watch_thread(void *self)
{
	struct act_virt *v = self;
	const struct timespec nap = { .tv_sec = TICK_MS / 1000 };

	while (!v->stop) {
		struct error ignored = ERROR_INIT; /* whoever calls us next gets it, too */
		int r;

		(void)pthread_mutex_lock(&v->lock);
		r = connect_locked(v, &ignored);
		(void)pthread_mutex_unlock(&v->lock);
		virEventUpdateTimeout(v->timer, r == 0 ? -1 : TICK_MS); /* a connection wakes the loop when it ends */
		if (v->stop) /* before that: its timer of 0 may be what was just switched off */
			break;
		if (virEventRunDefaultImpl() < 0)
			(void)nanosleep(&nap, NULL);
	}
	return NULL;
}

/* The loop must be registered before the connection it is to serve is opened (virEventRegisterImpl). */
int act_virt_watch(struct act_virt *v, void (*fn)(void *self, const char *name, enum act_domain state),
		   void *self, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int r;

	if (virEventRegisterDefaultImpl() < 0)
		return virt_error(err, "register an event loop for", v->uri);
	v->timer = virEventAddTimeout(TICK_MS, on_tick, NULL, NULL);
	if (v->timer < 0)
		return virt_error(err, "make a timer for", v->uri);
	(void)pthread_mutex_lock(&v->lock);
	drop_connection(v);
	v->fn_self = self;
	v->fn = fn;
	v->told = false;
	(void)connect_locked(v, &ignored); /* from here on no event is missed; else the thread tries again */
	(void)pthread_mutex_unlock(&v->lock);
	r = pthread_create(&v->thread, NULL, watch_thread, v);
	if (r == 0)
		return 0;
	(void)virEventRemoveTimeout(v->timer);
	v->fn = NULL;
	return error_set(err, -r, "cannot start the thread that watches libvirt: %s", strerror(r));
}

/* The connection goes, too: its keepalive would take the silence of the ended loop for a dead libvirtd. */
void act_virt_unwatch(struct act_virt *v)
{
	if (!v->fn)
		return;
	v->stop = true;
	virEventUpdateTimeout(v->timer, 0);
	(void)pthread_join(v->thread, NULL); /* cannot fail: it is ours and not detached */
	(void)virEventRemoveTimeout(v->timer);
	(void)pthread_mutex_lock(&v->lock);
	drop_connection(v);
	v->fn = NULL;
	v->stop = false;
	(void)pthread_mutex_unlock(&v->lock);
}

struct act_virt *act_virt_free(struct act_virt *v)
{
	if (!v)
		return NULL;
	act_virt_unwatch(v);
	drop_connection(v);
	(void)pthread_mutex_destroy(&v->lock);
	free(v->uri);
	free(v);
	return NULL;
}
