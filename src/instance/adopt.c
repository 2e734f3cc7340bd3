/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The looking; src/instance/adopt_rows.c has the SQL. libvirt and the machine are asked without the store's lock: what became of a
 * domain meanwhile is news, and then all is asked again. */
#include "instance/adopt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "host/root.h"
#include "instance/adopt_rows.h"
#include "instance/jobs.h"
#include "instance/manager.h"
#include "instance/reconcile.h"
#include "instance/reconcile_rules.h"
#include "instance/store.h"

#define TRIES 8 /* while domains come and go */

void adopt_init(struct inst_manager *m)
{
	struct adopt *a = &m->adopt;

	a->news = 1; /* nothing was seen yet */
	a->to_start = true;
	if (!m->env.root || host_read(m->env.root, a->boot, sizeof(a->boot), "proc/sys/kernel/random/boot_id") < 0)
		a->boot[0] = '\0';
}

/* ---- the machine ------------------------------------------------------------------------------------------ */

struct scene {
	struct inst_manager       *m;
	struct arena               arena;
	struct reconcile_input     in;
	struct reconcile_function *fn;
	size_t                     nfn, size;
	unsigned                   domain_news, news;
};

static int no_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "no memory to compare instances with the machine");
}

static int group_of(const struct scene *s, const char *name)
{
	char link[HOST_PATH_MAX];
	const char *base;

	if (!s->m->env.root || host_link(s->m->env.root, link, sizeof(link), "sys/bus/pci/devices/%s/iommu_group", name) < 0)
		return -1;
	base = strrchr(link, '/');
	return base && base[1] >= '0' && base[1] <= '9' ? atoi(base + 1) : -1;
}

static bool has_function(const struct scene *s, struct bdf bdf)
{
	for (size_t i = 0; i < s->nfn; i++)
		if (bdf_eq(s->fn[i].bdf, bdf))
			return true;
	return false;
}

/* One of zeros is none. */
static bool has_serial(const struct act_alive *a)
{
	return strspn(a->serial, "0") != strlen(a->serial);
}

/* What is not there is left out; what cannot be read is there, and unknown. */
static int add_function(struct scene *s, struct bdf bdf, bool vf, struct error *err)
{
	const struct act *act = &s->m->env.act;
	struct error ignored = ERROR_INIT;
	struct act_alive alive = { 0 };
	struct act_driver driver = { 0 };
	char name[BDF_TEXT_MAX];
	int r, d;

	if (has_function(s, bdf))
		return 0;
	r = act->ops->alive(act->self, &alive, bdf, &ignored);
	if (r == -ENODEV)
		return 0;
	d = act->ops->driver(act->self, &driver, bdf, &ignored);
	if (s->nfn == s->size) {
		size_t size = s->size ? 2 * s->size : 64;
		struct reconcile_function *fn = arena_array(&s->arena, size, sizeof(*fn));

		if (!fn)
			return no_memory(err);
		if (s->nfn)
			memcpy(fn, s->fn, s->nfn * sizeof(*fn));
		s->fn = fn;
		s->size = size;
	}
	s->fn[s->nfn] = (struct reconcile_function){
		.bdf = bdf, .vf = vf, .group = group_of(s, bdf_text(name, bdf)),
		.serial = r == 0 && alive.answers && has_serial(&alive) ? arena_strdup(&s->arena, alive.serial) : "",
		.driver = d == 0 ? arena_strdup(&s->arena, driver.driver) : NULL,
	};
	return s->fn[s->nfn++].serial ? 0 : no_memory(err);
}

static const struct reconcile_function *find_function(const struct scene *s, struct bdf bdf)
{
	for (size_t i = 0; i < s->nfn; i++)
		if (bdf_eq(s->fn[i].bdf, bdf))
			return &s->fn[i];
	return NULL;
}

/* Of an instance that an operation works on nothing is decided. */
static size_t to_look_at(const struct reconcile_instance *in)
{
	return in->busy ? 0 : in->n;
}

/* Whether a device is somewhere else than it was. */
static bool is_missed(const struct scene *s)
{
	for (size_t i = 0; i < s->in.ninstances; i++)
		for (size_t k = 0; k < to_look_at(&s->in.instance[i]); k++) {
			const struct reconcile_device *d = &s->in.instance[i].device[k];
			const struct reconcile_function *f = find_function(s, bdf_eq(d->pf, BDF_NONE) ? d->bdf : d->pf);

			if (*d->serial && (!f || (*f->serial && strcmp(f->serial, d->serial) != 0)))
				return true;
		}
	return false;
}

/* Every physical function of the host. */
static int search(struct scene *s, const struct host_names *all, struct error *err)
{
	char link[HOST_PATH_MAX];
	struct bdf bdf;
	int r = 0;

	for (size_t i = 0; r == 0 && i < all->n; i++)
		if (bdf_parse(&bdf, all->name[i]) &&
		    host_link(s->m->env.root, link, sizeof(link), "sys/bus/pci/devices/%s/physfn", all->name[i]) < 0)
			r = add_function(s, bdf, false, err);
	return r;
}

static int by_bdf(const void *a, const void *b)
{
	const struct reconcile_function *x = a, *y = b;

	return bdf_cmp(x->bdf, y->bdf);
}

static int look_at_machine(struct scene *s, struct error *err)
{
	struct host_names all = { 0 };
	int r = 0;

	if (s->m->env.root && (host_list(s->m->env.root, &all, &s->arena, "sys/bus/pci/devices") < 0 || all.n == 0))
		return 0; /* not known: that all is gone would be nonsense */
	for (size_t i = 0; i < s->in.ninstances; i++)
		for (size_t k = 0; r == 0 && k < to_look_at(&s->in.instance[i]); k++) {
			const struct reconcile_device *d = &s->in.instance[i].device[k];
			bool vf = !bdf_eq(d->pf, BDF_NONE);

			r = add_function(s, d->bdf, vf, err);
			if (r == 0 && vf)
				r = add_function(s, d->pf, false, err);
		}
	if (r == 0 && is_missed(s))
		r = search(s, &all, err);
	if (r == 0 && s->nfn)
		qsort(s->fn, s->nfn, sizeof(*s->fn), by_bdf);
	s->in.read = r == 0;
	return r;
}

/* ---- looking ----------------------------------------------------------------------------------------------- */

/* Another thread has asked, and waits longer than reading anything of the machine may take: meanwhile nobody knows. */
static bool is_late(const struct inst_manager *m)
{
	uint64_t since = m->adopt.asking;

	return since && clock_ms() - since >= m->guard->deadlines.look_ms;
}

static bool ask(struct scene *s, struct error *why)
{
	const struct act *act = &s->m->env.act;
	struct act_guest *guest = NULL;
	unsigned long long none = 0;
	bool first, answered;

	if (is_late(s->m)) {
		(void)error_set(why, -ETIMEDOUT, "libvirt has not answered for %u s", s->m->guard->deadlines.look_ms / 1000);
		return false;
	}
	first = atomic_compare_exchange_strong(&s->m->adopt.asking, &none, clock_ms());
	if (first)
		pool_look_within(s->m, s->m->guard->deadlines.look_ms);
	answered = act->ops->domains(act->self, &guest, &s->in.nguests, &s->arena, why) == 0;
	if (first)
		s->m->adopt.asking = 0;
	s->in.guest = guest;
	return answered;
}

/* That it does not answer is said once. */
static void ask_libvirt(struct scene *s)
{
	struct adopt *a = &s->m->adopt;
	struct error why = ERROR_INIT;

	s->in.asked = ask(s, &why);
	if (!s->in.asked)
		s->in.nguests = 0;
	if (!s->in.asked && !atomic_exchange(&a->silent, true))
		log_warning("%s; until it answers, what is known of guests stays as it is", why.text);
	if (s->in.asked && atomic_exchange(&a->silent, false))
		log_info("libvirt answers again");
}

static int load(struct scene *s, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, s->m->store, err);

	return r < 0 ? r : adopt_rows_load(tx, &s->in, &s->arena, err);
}

/* 0: there is other news of domains by now. */
static int commit(struct scene *s, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct reconcile_decision *d = NULL;
	size_t n = 0;
	int r = store_begin(&tx, s->m->store, err);

	if (r == 0 && s->domain_news != atomic_load(&s->m->domain_news))
		return 0;
	if (r == 0)
		r = adopt_rows_load(tx, &s->in, &s->arena, err); /* operations have gone on */
	if (r == 0)
		r = reconcile(&d, &n, &s->in, &s->arena, err);
	if (r == 0)
		r = adopt_rows_apply(s->m, tx, d, n, err);
	return r < 0 ? r : 1;
}

static bool any_degraded(const struct reconcile_input *in)
{
	bool any = false;

	for (size_t i = 0; i < in->ninstances; i++)
		any = any || in->instance[i].state == INST_DEGRADED;
	return any;
}

static bool any_of_other_boot(const struct inst_manager *m, const struct reconcile_input *in)
{
	bool any = false;

	for (size_t i = 0; i < in->ninstances; i++)
		any = any || (in->instance[i].state == INST_RUNNING && *in->instance[i].boot && strcmp(in->instance[i].boot, m->adopt.boot) != 0);
	return any && *m->adopt.boot;
}

int adopt_begin(struct inst_manager *m, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct scene s = { .m = m };
	struct reconcile_decision *d = NULL;
	size_t n = 0;
	int r = store_begin(&tx, m->store, err);

	s.in.boot = m->adopt.boot;
	if (r == 0)
		r = adopt_rows_load(tx, &s.in, &s.arena, err);
	if (r == 0 && any_of_other_boot(m, &s.in)) {
		r = reconcile(&d, &n, &s.in, &s.arena, err);
		if (r == 0)
			r = adopt_rows_apply(m, tx, d, n, err);
	}
	arena_done(&s.arena);
	return r;
}

static int look_once(struct inst_manager *m, bool machine, struct error *err)
{
	struct scene s = { .m = m, .news = atomic_load(&m->adopt.news), .domain_news = atomic_load(&m->domain_news) };
	bool silent = m->adopt.silent;
	int r;

	s.in.boot = m->adopt.boot;
	s.in.restart = m->env.restart;
	ask_libvirt(&s);
	r = machine ? load(&s, err) : 0;
	if (r == 0 && machine)
		r = look_at_machine(&s, err);
	s.in.function = s.fn;
	s.in.nfunctions = s.nfn;
	if (!s.in.asked)
		m->adopt.asked = false; /* before the store says so: who looks at guests meanwhile must not take one for running (instance/keep) */
	if (r == 0)
		r = commit(&s, err);
	if (r > 0) {
		if (s.in.asked && !atomic_exchange(&m->adopt.asked, true) && any_degraded(&s.in))
			keep_wake(m, KEEP_ALL); /* why, if not for libvirt, is to be seen now */
		m->adopt.seen = s.news;
		m->adopt.looked = m->adopt.looked || machine;
		pool_asked(m, s.in.asked);
		if (silent && s.in.asked && !machine)
			pool_wake(m, POOL_ADOPT); /* what was left undecided */
	}
	arena_done(&s.arena);
	return r;
}

int adopt_look(struct inst_manager *m, bool machine, struct error *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < TRIES; i++)
		r = look_once(m, machine, err);
	if (machine && !atomic_exchange(&m->adopt.tried, true) && m->env.ended)
		m->env.ended(m->env.self);
	if (r == 0)
		pool_wake(m, machine ? POOL_ADOPT : POOL_LOOK); /* whoever changes domains all the time must not keep a thread */
	return r < 0 ? r : 0;
}

int inst_foreign(struct inst_manager *m, struct inst_foreign **ret, size_t *n, bool *known, struct arena *arena, struct error *err)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = store_begin(&tx, m->store, err);

	*known = m->adopt.asked;
	return r < 0 ? r : adopt_rows_foreign(tx, ret, n, arena, err);
}

void adopt_look_after(struct inst_manager *m, const char *name)
{
	auto_(store_end) struct store_tx *tx = NULL;
	struct rows_finding *f = NULL;
	struct arena arena = { 0 };
	struct error err = ERROR_INIT;
	bool any = false;
	size_t n = 0;
	int r = store_begin(&tx, m->store, &err);

	if (r == 0)
		r = rows_findings(tx, &f, &n, name, &arena, &err);
	for (size_t i = 0; r == 0 && i < n; i++)
		any = any || reconcile_finds(f[i].rule);
	if (r < 0)
		log_warning("%s", err.text); /* the next look at the machine tells */
	if (any)
		pool_wake(m, POOL_ADOPT);
	arena_done(&arena);
}

bool inst_looked(const struct inst_manager *m)
{
	return m->adopt.tried;
}

bool inst_adopted(const struct inst_manager *m)
{
	return m->adopt.settled;
}

/* ---- before operations -------------------------------------------------------------------------------------- */

/* In the words of a call that tries once more. */
static int unanswered(struct inst_manager *m, struct error *why)
{
	const struct act *act = &m->env.act;
	struct act_guest *guest = NULL;
	struct error seen = ERROR_INIT;
	struct arena arena = { 0 };
	size_t n = 0;
	int r = act->ops->domains(act->self, &guest, &n, &arena, &seen);

	arena_done(&arena);
	if (r == 0)
		return error_set(why, -EAGAIN, "libvirt answers only now whether another domain has its devices; ask again");
	return error_set(why, -EREMOTEIO, "whether another domain has its devices is not known: %s", seen.text);
}

static int look_if_new(struct inst_manager *m, bool must, struct error *why)
{
	struct adopt *a = &m->adopt;

	if (!a->asked || a->seen != a->news || !a->looked) {
		int r = adopt_look(m, !a->looked, why);

		if (r < 0)
			return r;
	}
	if (must && !a->asked)
		return unanswered(m, why);
	return 0;
}

int adopt_check(struct inst_manager *m, struct job *j, bool must, struct error *why)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = look_if_new(m, must, why);

	if (r == 0)
		r = store_begin(&tx, m->store, why);
	if (r == 0)
		r = adopt_rows_domain(tx, &j->in->domain, j->in->name, &j->arena, why);
	j->steps.domain = j->in->domain;
	return r < 0 ? r : adopt_rows_check(tx, j->in->name, why);
}

static int check_card(const struct act *act, const struct reconcile_device *d, struct error *why)
{
	struct bdf at = bdf_eq(d->pf, BDF_NONE) ? d->bdf : d->pf;
	struct act_alive now = { 0 };
	char name[BDF_TEXT_MAX];
	int r = *d->serial ? act->ops->alive(act->self, &now, at, why) : 0;

	(void)bdf_text(name, at);
	if (r == -ENODEV)
		return error_set(why, r, "its card, serial number %s, is not at %s; put it back, or delete the instance", d->serial, name);
	if (r == 0 && *d->serial && now.answers && has_serial(&now) && strcmp(now.serial, d->serial) != 0)
		return error_set(why, -ESTALE, "another card is at %s: its serial number is %s, and was %s; put the card back, or delete the instance",
				 name, now.serial, d->serial);
	return r;
}

int adopt_check_cards(struct inst_manager *m, struct job *j, struct error *why)
{
	const struct reconcile_device *d = NULL;
	size_t n = 0;
	int r = 0;

	{
		auto_(store_end) struct store_tx *tx = NULL;

		r = store_begin(&tx, m->store, why);
		if (r == 0)
			r = adopt_rows_devices(tx, &d, &n, j->in->name, &j->arena, why);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_card(&m->env.act, &d[i], why);
	return r;
}

int adopt_check_function(struct inst_manager *m, struct bdf bdf, struct error *why)
{
	auto_(store_end) struct store_tx *tx = NULL;
	int r = look_if_new(m, false, why);

	if (r == 0)
		r = store_begin(&tx, m->store, why);
	return r < 0 ? r : adopt_rows_check_function(tx, bdf, why);
}
