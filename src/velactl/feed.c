/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "host/change.h"
#include "host/inventory.h"
#include "host/watch.h"
#include "topo/diff.h"
#include "topo/topo.h"
#include "velactl/ctl.h"
#include "velactl/doc.h"
#include "velactl/source.h"

#define ASK_MS   1000
#define QUIET_MS 20 /* so long nothing comes: it is over */
#define BURST_MS 500

struct feed {
	struct ctl        *ctl;
	uint64_t           generation;
	/* with --root */
	struct host_root  *root;
	struct host_watch *watch;
	struct host_kinds  kinds;
	struct topo       *topo;
};

/* ---- this machine ------------------------------------------------------------------------------------- */

static int read_all(struct feed *f, struct topo **ret, const struct host_changes *what, struct error *err)
{
	auto_(host_inventory_free) struct inventory *inv = NULL;
	bool whole;
	int r = host_inventory_follow(&inv, &whole, f->topo ? topo_inventory(f->topo) : NULL, what, f->root, &f->kinds, err);

	if (r == 0)
		r = topo_build(ret, inv, f->generation + 1, err);
	if (r == 0)
		inv = NULL; /* the topology has it */
	return r;
}

static int open_machine(struct feed *f, struct error *err)
{
	int r = ctl_source_root(&f->root, &f->kinds, f->ctl, err);

	if (r < 0)
		return r;
	if (!host_root_is_machine(f->root))
		return error_set(err, -EINVAL, "only this machine tells of its changes: say --root /, or nothing to ask velad");
	r = host_watch_open(&f->watch, NULL, NULL, err);
	return r < 0 ? r : read_all(f, &f->topo, NULL, err);
}

/* Until it is quiet after something came, or ms are over. */
static int hear(struct feed *f, struct host_changes *what, int ms, struct error *err)
{
	for (int waited = 0; waited < BURST_MS; waited += QUIET_MS) {
		struct pollfd fds[HOST_WATCH_FDS];
		int r;

		for (size_t i = 0; i < HOST_WATCH_FDS; i++)
			fds[i] = (struct pollfd){ .fd = host_watch_fd(f->watch, i), .events = POLLIN };
		r = poll(fds, HOST_WATCH_FDS, waited ? QUIET_MS : ms);
		if (r <= 0)
			return r == 0 || errno == EINTR ? 0 : error_set(err, -errno, "cannot wait: %s", strerror(errno));
		r = host_watch_read(f->watch, what);
		if (r < 0)
			return error_set(err, r, "no changes can be heard of any more: %s", strerror(-r));
	}
	return 0;
}

static int change_json(json_object **ret, uint64_t generation, json_object *items, struct error *err)
{
	json_object *list = json_object_new_array();
	struct json_out o = { .obj = list, .failed = !list };

	json_append(&o, list, topo_change_json(generation, time(NULL), items));
	*ret = json_finish(&o);
	return *ret ? 0 : error_set(err, -ENOMEM, "no memory for the changes");
}

static int next_of_machine(struct feed *f, json_object **ret, struct error *err)
{
	struct host_changes what = { 0 };
	struct topo *fresh = NULL;
	json_object *items = NULL;
	int r = hear(f, &what, ASK_MS, err);

	if (r == 0 && host_changes_any(&what))
		r = read_all(f, &fresh, &what, err);
	host_changes_done(&what);
	if (r == 0 && fresh) {
		items = topo_diff(f->topo, fresh);
		topo_unref(f->topo);
		f->topo = fresh;
		r = items ? 0 : error_set(err, -ENOMEM, "no memory for the changes");
	}
	if (r == 0 && ctl_doc_count(items))
		return change_json(ret, ++f->generation, items, err);
	json_object_put(items);
	*ret = NULL;
	return r;
}

/* ---- velad ---------------------------------------------------------------------------------------------- */

static int ask_generation(struct feed *f, struct error *err)
{
	auto_(json_object_put) json_object *doc = NULL;
	int r = ctl_source_host(&doc, f->ctl, err);
	int64_t generation = ctl_doc_int(doc, "generation", -1);

	if (r == 0 && generation < 0)
		return error_set(err, -EPROTO, "velad does not say its generation");
	f->generation = (uint64_t)generation;
	return r;
}

static int next_of_velad(struct feed *f, json_object **ret, struct error *err)
{
	auto_(json_object_put) json_object *doc = NULL;
	char path[64];
	int64_t generation;
	int r;

	(void)poll(NULL, 0, ASK_MS);
	(void)snprintf(path, sizeof(path), "/v1/changes/%" PRIu64, f->generation);
	r = ctl_remote(&doc, f->ctl, "GET", path, NULL, err);
	if (r == -EIDRM) {
		*err = ERROR_INIT;
		r = ask_generation(f, err);
		return r < 0 ? r : 1;
	}
	generation = ctl_doc_int(doc, "generation", -1);
	if (r == 0 && (generation < 0 || !ctl_doc_list(doc, "changes")))
		r = error_set(err, -EPROTO, "velad's answer has no changes");
	if (r < 0)
		return r;
	f->generation = (uint64_t)generation;
	*ret = json_object_get(ctl_doc_list(doc, "changes"));
	return 0;
}

/* ---- either --------------------------------------------------------------------------------------------- */

int feed_open(struct feed **ret, struct ctl *c, struct error *err)
{
	auto_(feed_close) struct feed *f = NULL;
	int r;

	if (c->args.host)
		return error_set(err, -EINVAL, "a text host does not change; say --root / for this machine, or nothing to ask velad");
	f = calloc(1, sizeof(*f));
	if (!f)
		return error_set(err, -ENOMEM, "no memory");
	f->ctl = c;
	r = c->args.root ? open_machine(f, err) : ask_generation(f, err);
	if (r == 0)
		*ret = steal(f);
	return r;
}

struct feed *feed_close(struct feed *f)
{
	if (f) {
		topo_unref(f->topo);
		host_watch_close(f->watch);
		host_root_close(f->root);
		free(f);
	}
	return NULL;
}

int feed_next(struct feed *f, json_object **ret, struct error *err)
{
	return f->root ? next_of_machine(f, ret, err) : next_of_velad(f, ret, err);
}
