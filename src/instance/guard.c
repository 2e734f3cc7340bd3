/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One function per verb, which puts its arguments into a struct call, and one that takes them out on the thread that makes
 * the call: who waited for it may be gone by then, with all that the arguments point to. */
#include "instance/guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "plan/vf.h"

struct call;

struct verb {
	const char     *name;
	size_t          deadline; /* offset in struct inst_deadlines */
	enum task_group group;
	enum task_kind  kind;
	int (*fn)(const struct act *act, struct call *c, struct error *err);
};

struct call { /* arguments and results of all verbs */
	const struct guard *guard;
	const struct verb  *verb;
	struct bdf          bdf;
	const char         *name, *xml; /* of a domain; NULL: the target is bdf */
	char                target[BDF_TEXT_MAX];
	bool                yes, wanted;
	uint16_t            number, set, clear;
	enum act_word       word;
	enum act_want       order;
	int                 state;
	enum act_domain     domain;
	struct act_driver   driver;
	struct act_power    power, want;
	struct plan_vf_settings vf, vf_want;
	struct act_alive    alive;
	const struct bdf   *mine;
	size_t              nmine;
	const char         *program;
	unsigned            seconds; /* more than its deadline */
	struct act_file     file;
	struct act_disk     disk;
	struct act_seed     seed;
	struct act_image    image;
	struct act_image_source source;
	struct act_guest   *guest; /* in arena, which is the task's */
	size_t              nguests;
	struct arena       *arena, *into; /* into: the caller's; NULL: it wants no guests */
	const char         *hello;
	int                 fd; /* a descriptor of the task's own; 0 none */
};

/* ---- making a call -------------------------------------------------------------------------------------- */

static int make(struct task *t, struct call *c, struct error *err)
{
	const struct guard *g = c->guard;
	struct task_call call = { .what = c->verb->name, .target = c->name ? c->name : c->target, .group = c->verb->group };
	int r;

	call.ms = *(const unsigned *)((const char *)&g->deadlines + c->verb->deadline) + 1000 * c->seconds;
	r = task_enter(t, &call, err);
	if (r == 0)
		r = task_leave(t, c->verb->fn(&g->act, c, err), err);
	if (c->fd > 0)
		(void)close(c->fd);
	c->fd = 0;
	return r;
}

static int run(struct task *t, void *arg, struct error *err)
{
	return make(t, arg, err);
}

/* False: no memory for it. */
static bool keep(struct task *t, const char **text)
{
	if (!*text)
		return true;
	*text = arena_strdup(&t->arena, *text);
	return *text;
}

static bool keep_files(struct task *t, struct call *c)
{
	const char **text[] = { &c->disk.name, &c->disk.image, &c->disk.format, &c->seed.meta_data, &c->seed.user_data, &c->seed.vendor_data,
				&c->seed.network, &c->hello, &c->source.file, &c->source.format, &c->source.sha256 };

	for (size_t i = 0; i < ARRAY_SIZE(text); i++)
		if (!keep(t, text[i]))
			return false;
	return true;
}

/* A copy that belongs to the task. */
static struct call *copy(struct task *t, const struct call *c)
{
	struct call *own = arena_alloc(&t->arena, sizeof(*own));
	struct bdf *mine = arena_array(&t->arena, c->nmine, sizeof(*mine));

	if (!own || !mine)
		return NULL;
	*own = *c;
	own->mine = mine;
	own->arena = &t->arena;
	for (size_t i = 0; i < c->nmine; i++)
		mine[i] = c->mine[i];
	if (!keep(t, &own->name) || !keep(t, &own->xml) || !keep(t, &own->program) || !keep_files(t, own))
		return NULL;
	own->fd = c->fd > 0 ? fcntl(c->fd, F_DUPFD_CLOEXEC, 3) : 0;
	return own->fd < 0 ? NULL : own;
}

/* Guests are in the task's memory, which the caller's outlives. */
static int take_guests(struct call *c, const struct call *own, struct error *err)
{
	bool failed = false;

	*c = *own;
	if (!c->into)
		return 0;
	c->guest = arena_array(c->into, c->nguests, sizeof(*c->guest));
	for (size_t i = 0; c->guest && i < c->nguests; i++) {
		struct bdf *device = arena_array(c->into, own->guest[i].n, sizeof(*device));

		c->guest[i] = own->guest[i];
		c->guest[i].name = arena_strdup(c->into, own->guest[i].name);
		for (size_t k = 0; device && k < own->guest[i].n; k++)
			device[k] = own->guest[i].device[k];
		c->guest[i].device = device;
		c->guest[i].loses = own->guest[i].loses ? arena_strdup(c->into, own->guest[i].loses) : NULL; /* without memory: unknown */
		failed = failed || !device || !c->guest[i].name;
	}
	return c->guest && !failed ? 0 : error_set(err, -ENOMEM, "no memory for libvirt's domains");
}

static int hand_over(struct call *c, struct error *err)
{
	struct task *t = task_new(c->guard->crew);
	struct call *own = t ? copy(t, c) : NULL;
	struct span span;
	int r;

	if (!own) {
		(void)task_free(t);
		return error_set(err, -ENOMEM, "no memory for %s", c->verb->name);
	}
	t->kind = c->verb->kind;
	task_start(t, run, own);
	r = task_wait(&t, &span, err);
	if (!t)
		return r;
	if (r == 0)
		r = take_guests(c, own, err); /* the other texts in it are the task's, and not looked at any more */
	(void)task_free(t);
	return r;
}

static int call(void *self, struct call *c, struct error *err)
{
	const struct guard_self *s = self;
	struct call *own;
	int r;

	c->guard = s->guard;
	if (!c->name)
		(void)bdf_text(c->target, c->bdf);
	if (!s->task)
		return hand_over(c, err);
	own = copy(s->task, c);
	r = own ? make(s->task, own, err) : error_set(err, -ENOMEM, "no memory for %s", c->verb->name);
	return r == 0 ? take_guests(c, own, err) : r;
}

/* ---- the verbs ------------------------------------------------------------------------------------------ */

#define MACHINE(n, d, words) { .name = words, .deadline = offsetof(struct inst_deadlines, d), .group = TASK_MACHINE, .fn = do_##n }
#define LIBVIRT(n, d, words) { .name = "libvirt's " words, .deadline = offsetof(struct inst_deadlines, d), .group = TASK_LIBVIRT, .fn = do_##n }
#define IMAGES(n, d, words) { .name = "libvirt's " words, .deadline = offsetof(struct inst_deadlines, d), .group = TASK_LIBVIRT, .kind = TASK_IMAGES, .fn = do_##n }
#define MODULE "vfio-pci"

static int do_vfio_loaded(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->vfio_loaded(act->self, &c->yes, err);
}

static int vfio_loaded(void *self, bool *ret, struct error *err)
{
	static const struct verb verb = MACHINE(vfio_loaded, look_ms, "the look");
	struct call c = { .verb = &verb, .name = MODULE };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.yes;
	return r;
}

static int do_vfio_load(const struct act *act, struct call *c, struct error *err)
{
	(void)c;
	return act->ops->vfio_load(act->self, err);
}

static int vfio_load(void *self, struct error *err)
{
	static const struct verb verb = MACHINE(vfio_load, bind_ms, "the loading");

	return call(self, &(struct call){ .verb = &verb, .name = MODULE }, err);
}

static int do_vf_count(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->vf_count(act->self, &c->number, c->bdf, err);
}

static int vf_count(void *self, uint16_t *ret, struct bdf pf, struct error *err)
{
	static const struct verb verb = MACHINE(vf_count, look_ms, "the look at the VF count");
	struct call c = { .verb = &verb, .bdf = pf };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.number;
	return r;
}

static int do_autoprobe(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->autoprobe(act->self, &c->state, c->bdf, c->order, err);
}

static int autoprobe(void *self, int *ret, struct bdf pf, enum act_want want, struct error *err)
{
	static const struct verb verb = MACHINE(autoprobe, look_ms, "the autoprobe switch");
	struct call c = { .verb = &verb, .bdf = pf, .order = want };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.state;
	return r;
}

static int do_vf_count_set(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->vf_count_set(act->self, c->bdf, c->number, err);
}

static int vf_count_set(void *self, struct bdf pf, uint16_t n, struct error *err)
{
	static const struct verb verb = MACHINE(vf_count_set, vfs_ms, "the change of the VF count");

	return call(self, &(struct call){ .verb = &verb, .bdf = pf, .number = n }, err);
}

static int do_driver(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->driver(act->self, &c->driver, c->bdf, err);
}

static int driver(void *self, struct act_driver *ret, struct bdf fn, struct error *err)
{
	static const struct verb verb = MACHINE(driver, look_ms, "the look at the driver");
	struct call c = { .verb = &verb, .bdf = fn };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.driver;
	return r;
}

static int do_driver_set(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->driver_set(act->self, c->bdf, &c->driver, err);
}

static int driver_set(void *self, struct bdf fn, const struct act_driver *want, struct error *err)
{
	static const struct verb verb = MACHINE(driver_set, bind_ms, "the change of the driver");

	return call(self, &(struct call){ .verb = &verb, .bdf = fn, .driver = *want }, err);
}

static int do_word(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->word(act->self, &c->number, c->bdf, c->word, c->set, c->clear, err);
}

static int word(void *self, uint16_t *ret, struct bdf fn, enum act_word which, uint16_t set, uint16_t clear, struct error *err)
{
	static const struct verb verb = MACHINE(word, look_ms, "the access to a register");
	struct call c = { .verb = &verb, .bdf = fn, .word = which, .set = set, .clear = clear };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.number;
	return r;
}

static int do_power(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->power(act->self, &c->power, c->bdf, c->wanted ? &c->want : NULL, err);
}

static int power(void *self, struct act_power *ret, struct bdf fn, const struct act_power *want, struct error *err)
{
	static const struct verb verb = MACHINE(power, look_ms, "the power setting");
	struct call c = { .verb = &verb, .bdf = fn, .wanted = want };
	int r;

	if (want)
		c.want = *want;
	r = call(self, &c, err);
	if (r == 0)
		*ret = c.power;
	return r;
}

static int do_vf(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->vf(act->self, &c->vf, c->bdf, c->wanted ? &c->vf_want : NULL, err);
}

static int vf(void *self, struct plan_vf_settings *ret, struct bdf fn, const struct plan_vf_settings *want, struct error *err)
{
	static const struct verb verb = MACHINE(vf, vfs_ms, "the VF settings");
	struct call c = { .verb = &verb, .bdf = fn, .wanted = want };
	int r;

	if (want)
		c.vf_want = *want;
	r = call(self, &c, err);
	if (r == 0)
		*ret = c.vf;
	return r;
}

static int do_alive(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->alive(act->self, &c->alive, c->bdf, err);
}

static int alive(void *self, struct act_alive *ret, struct bdf fn, struct error *err)
{
	static const struct verb verb = MACHINE(alive, look_ms, "the look at the health");
	struct call c = { .verb = &verb, .bdf = fn };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.alive;
	return r;
}

static int do_reset(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->reset(act->self, c->bdf, c->mine, c->nmine, err);
}

static int reset(void *self, struct bdf fn, const struct bdf *mine, size_t n, struct error *err)
{
	static const struct verb verb = MACHINE(reset, reset_ms, "the reset");

	return call(self, &(struct call){ .verb = &verb, .bdf = fn, .mine = mine, .nmine = n }, err);
}

static int do_scrub(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->scrub(act->self, c->bdf, c->program, c->seconds, err);
}

/* It has a limit of its own; this is for the one that cannot be killed. */
static int scrub(void *self, struct bdf fn, const char *program, unsigned seconds, struct error *err)
{
	static const struct verb verb = MACHINE(scrub, look_ms, "the scrub");

	return call(self, &(struct call){ .verb = &verb, .bdf = fn, .program = program, .seconds = seconds }, err);
}

static int do_partition(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->partition(act->self, &c->yes, c->number, (enum act_want)c->set, err);
}

/* Each run of fmpm has a limit of its own, too (act/partition). */
static int partition(void *self, bool *ret, unsigned id, enum act_want want, struct error *err)
{
	static const struct verb verb = MACHINE(partition, reset_ms, "the partition");
	char number[12];
	struct call c = { .verb = &verb, .name = number, .number = (uint16_t)id, .set = (uint16_t)want };
	int r = id > UINT16_MAX ? error_set(err, -ENODEV, "Fabric Manager has no partition %u", id) : 0;

	(void)snprintf(number, sizeof(number), "%u", id);
	if (r == 0)
		r = call(self, &c, err);
	if (r == 0)
		*ret = c.yes;
	return r;
}

static int do_file(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->file(act->self, &c->file, c->name, err);
}

static int file(void *self, struct act_file *ret, const char *name, struct error *err)
{
	static const struct verb verb = LIBVIRT(file, domain_ms, "look at the disk");
	struct call c = { .verb = &verb, .name = name };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.file;
	return r;
}

static int do_file_drop(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->file_drop(act->self, c->name, err);
}

static int file_drop(void *self, const char *name, struct error *err)
{
	static const struct verb verb = LIBVIRT(file_drop, stop_ms, "removal of the disk");

	return call(self, &(struct call){ .verb = &verb, .name = name }, err);
}

static int do_disk_make(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->disk_make(act->self, &c->disk, err);
}

static int disk_make(void *self, const struct act_disk *disk, struct error *err)
{
	static const struct verb verb = LIBVIRT(disk_make, start_ms, "making of the disk");

	return call(self, &(struct call){ .verb = &verb, .name = disk->name, .disk = *disk }, err);
}

static int do_seed_make(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->seed_make(act->self, c->name, &c->seed, err);
}

static int seed_make(void *self, const char *name, const struct act_seed *seed, struct error *err)
{
	static const struct verb verb = LIBVIRT(seed_make, domain_ms, "making of the cloud-init disk");

	return call(self, &(struct call){ .verb = &verb, .name = name, .seed = *seed }, err);
}

static int do_image_make(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->image_make(act->self, &c->image, c->name, &c->source, err);
}

/* A terabyte from a slow disk takes hours. */
static int image_make(void *self, struct act_image *ret, const char *name, const struct act_image_source *from, struct error *err)
{
	static const struct verb verb = IMAGES(image_make, start_ms, "making of the image");
	struct call c = { .verb = &verb, .name = name, .source = *from, .seconds = 24 * 3600 };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.image;
	return r;
}

static int do_domain(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->domain(act->self, &c->domain, c->name, err);
}

static int domain(void *self, enum act_domain *ret, const char *name, struct error *err)
{
	static const struct verb verb = LIBVIRT(domain, domain_ms, "look at the domain");
	struct call c = { .verb = &verb, .name = name };
	int r = call(self, &c, err);

	if (r == 0)
		*ret = c.domain;
	return r;
}

static int do_domains(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->domains(act->self, &c->guest, &c->nguests, c->arena, err);
}

static int domains(void *self, struct act_guest **ret, size_t *n, struct arena *arena, struct error *err)
{
	static const struct verb verb = LIBVIRT(domains, domain_ms, "list");
	struct call c = { .verb = &verb, .name = "all domains", .into = arena };
	int r = call(self, &c, err);

	if (r == 0) {
		*ret = c.guest;
		*n = c.nguests;
	}
	return r;
}

static int do_domain_start(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->domain_start(act->self, c->name, c->xml, err);
}

static int domain_start(void *self, const char *name, const char *xml, struct error *err)
{
	static const struct verb verb = LIBVIRT(domain_start, start_ms, "start");

	return call(self, &(struct call){ .verb = &verb, .name = name, .xml = xml }, err);
}

static int do_domain_order(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->domain_order(act->self, c->name, (enum act_order)c->number, err);
}

static int domain_order(void *self, const char *name, enum act_order order, struct error *err)
{
	static const struct verb verb = LIBVIRT(domain_order, stop_ms, "shutdown, reboot or reset");

	return call(self, &(struct call){ .verb = &verb, .name = name, .number = (uint16_t)order }, err);
}

static int do_domain_stop(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->domain_stop(act->self, c->name, err);
}

static int domain_stop(void *self, const char *name, struct error *err)
{
	static const struct verb verb = LIBVIRT(domain_stop, stop_ms, "stop");

	return call(self, &(struct call){ .verb = &verb, .name = name }, err);
}

static int do_console(const struct act *act, struct call *c, struct error *err)
{
	return act->ops->console(act->self, c->name, c->yes, c->fd, c->hello, err);
}

static int console(void *self, const char *name, bool force, int fd, const char *hello, struct error *err)
{
	static const struct verb verb = LIBVIRT(console, domain_ms, "console");

	return call(self, &(struct call){ .verb = &verb, .name = name, .yes = force, .fd = fd, .hello = hello }, err);
}

struct act guard_act(struct guard_self *self)
{
	static const struct act_ops ops = {
		.vfio_loaded = vfio_loaded,
		.vfio_load = vfio_load,
		.vf_count = vf_count,
		.vf_count_set = vf_count_set,
		.autoprobe = autoprobe,
		.driver = driver,
		.driver_set = driver_set,
		.word = word,
		.power = power,
		.vf = vf,
		.alive = alive,
		.reset = reset,
		.scrub = scrub,
		.partition = partition,
		.file = file,
		.file_drop = file_drop,
		.disk_make = disk_make,
		.seed_make = seed_make,
		.image_make = image_make,
		.domain = domain,
		.domains = domains,
		.domain_start = domain_start,
		.domain_order = domain_order,
		.domain_stop = domain_stop,
		.console = console,
	};

	static_assert(sizeof(ops) == 25 * sizeof(ops.driver), "a verb of act_ops is not in here");
	return (struct act){ .ops = &ops, .self = self };
}
