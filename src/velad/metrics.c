/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velad/metrics.h"

#include <errno.h>
#include <inttypes.h>

#include "api/server.h"
#include "base/arena.h"
#include "base/error.h"
#include "instance/instance.h"
#include "topo/topo.h"
#include "velad/current.h"
#include "velad/manager.h"

static void begin(struct sbuf *b, const char *name, const char *type, const char *help)
{
	sbuf_addf(b, "# HELP velad_%s %s\n# TYPE velad_%s %s\n", name, help, name, type);
}

static void one(struct sbuf *b, const char *name, const char *type, const char *help, uint64_t value)
{
	begin(b, name, type, help);
	sbuf_addf(b, "velad_%s %" PRIu64 "\n", name, value);
}

static void add_server(struct sbuf *b, const struct api_stats *s)
{
	begin(b, "answers_total", "counter", "Answers, by the class of their HTTP status.");
	for (unsigned i = 2; i < 6; i++)
		sbuf_addf(b, "velad_answers_total{class=\"%uxx\"} %" PRIu64 "\n", i, s->answers[i]);
	one(b, "refused_total", "counter", "Connections and requests of users over their limits.", s->refused);
	one(b, "connections", "gauge", "Connections that are open.", s->connections);
}

/* States and kinds are words of ours: nothing in them has to be escaped. */
static int add_counts(struct sbuf *b, struct inst_manager *m, struct error *err)
{
	struct inst_count *instance, *op;
	size_t instances = 0, ops = 0;
	uint64_t quarantined = 0;
	struct arena arena = { 0 };
	int r = inst_counts(m, &instance, &instances, &op, &ops, &quarantined, &arena, err);

	if (r == 0) {
		begin(b, "instances", "gauge", "Instances, by state.");
		for (size_t i = 0; i < instances; i++)
			sbuf_addf(b, "velad_instances{state=\"%s\"} %" PRIu64 "\n", instance[i].state, instance[i].n);
		begin(b, "operations", "gauge", "Operations that are remembered, by kind and state.");
		for (size_t i = 0; i < ops; i++)
			sbuf_addf(b, "velad_operations{kind=\"%s\",state=\"%s\"} %" PRIu64 "\n", op[i].kind, op[i].state, op[i].n);
		one(b, "quarantined_functions", "gauge", "PCI functions that are given to nobody.", quarantined);
		one(b, "hanging_calls", "gauge", "Calls on the machine or libvirt that were given up and have not returned.", inst_hanging(m));
	}
	arena_done(&arena);
	return r;
}

int metrics_get(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct manager *m = self;
	struct sbuf *b = &m->metrics;
	int r;

	(void)req;
	sbuf_done(b);
	add_server(b, api_server_stats(m->server));
	one(b, "functions", "gauge", "PCI functions of the host.", topo_count(current_topo(m->now)));
	one(b, "topology_generation", "gauge", "Generation of the topology.", topo_generation(current_topo(m->now)));
	r = add_counts(b, m->instances, err);
	if (r == 0 && b->failed)
		r = error_set(err, -ENOMEM, "no memory for the answer");
	res->text = b->text;
	res->type = "text/plain; version=0.0.4";
	return r;
}
