/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine as an act_ops: hands each call to the file that does it, and what changes PCI functions to velad-helper where
 * there is one, and what is libvirt's to velad-libvirt. Looking at functions is always done here. */
#include "act/act.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act/hyper.h"
#include "act/image.h"
#include "act/kmod.h"
#include "act/log.h"
#include "act/partition.h"
#include "act/pci.h"
#include "act/remote.h"
#include "base/arena.h"
#include "base/error.h"

struct act_machine {
	struct act_pci   pci;
	struct act_remote *remote; /* owned; NULL: this process does it */
	struct act_hyper *hyper; /* owned */
	struct act_words *words; /* owned */
	struct act_images images; /* borrowed */
};

static int vfio_loaded(void *self, bool *ret, struct error *err)
{
	return act_vfio_loaded(((struct act_machine *)self)->pci.root, ret, err);
}

static int vfio_load(void *self, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_VFIO_LOAD, (struct bdf){ 0 });

	return m->remote ? act_remote_call(m->remote, NULL, &c, err) : act_vfio_load(m->pci.root, err);
}

static int vf_count(void *self, uint16_t *ret, struct bdf pf, struct error *err)
{
	return act_pci_vf_count(&((struct act_machine *)self)->pci, ret, pf, err);
}

static int vf_count_set(void *self, struct bdf pf, uint16_t n, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_VF_COUNT, pf);

	c.number = n;
	return m->remote ? act_remote_call(m->remote, NULL, &c, err) : act_pci_vf_count_set(&m->pci, pf, n, err);
}

static int autoprobe(void *self, int *ret, struct bdf pf, enum act_want want, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_AUTOPROBE, pf);
	int r = act_pci_autoprobe(&m->pci, ret, pf, m->remote ? ACT_LOOK : want, err);

	if (r < 0 || !m->remote || want == ACT_LOOK || *ret < 0 || *ret == (want == ACT_ON))
		return r;
	c.set = (uint16_t)want;
	r = act_remote_call(m->remote, NULL, &c, err);
	if (r == 0)
		*ret = want == ACT_ON;
	return r;
}

static int driver(void *self, struct act_driver *ret, struct bdf fn, struct error *err)
{
	return act_pci_driver(&((struct act_machine *)self)->pci, ret, fn, err);
}

static int driver_set(void *self, struct bdf fn, const struct act_driver *want, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_DRIVER, fn);

	(void)snprintf(c.driver.driver, sizeof(c.driver.driver), "%s", want->driver);
	(void)snprintf(c.driver.override, sizeof(c.driver.override), "%s", want->override);
	return m->remote ? act_remote_call(m->remote, NULL, &c, err) : act_pci_driver_set(&m->pci, fn, want, err);
}

static int word(void *self, uint16_t *ret, struct bdf fn, enum act_word which, uint16_t set, uint16_t clear,
		struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_WORD, fn);
	struct wire_answer a;
	int r;

	if (!m->remote || !(set | clear))
		return act_pci_word(&m->pci, ret, fn, which, set, clear, err);
	c.number = (uint16_t)which;
	c.set = set;
	c.clear = clear;
	r = act_remote_call(m->remote, &a, &c, err);
	if (r == 0)
		*ret = a.word;
	return r;
}

static int power(void *self, struct act_power *ret, struct bdf fn, const struct act_power *want, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_POWER, fn);
	struct wire_answer a;
	int r;

	if (!m->remote || !want)
		return act_pci_power(&m->pci, ret, fn, want, err);
	(void)snprintf(c.power.control, sizeof(c.power.control), "%s", want->control);
	c.power.d3cold = want->d3cold;
	r = act_remote_call(m->remote, &a, &c, err);
	if (r == 0)
		*ret = a.power;
	return r;
}

static int alive(void *self, struct act_alive *ret, struct bdf fn, struct error *err)
{
	return act_pci_alive(&((struct act_machine *)self)->pci, ret, fn, err);
}

static int reset(void *self, struct bdf fn, const struct bdf *mine, size_t n, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_RESET, fn);
	int r;

	if (!m->remote)
		return act_pci_reset(&m->pci, fn, mine, n, err);
	r = act_pci_reset_may(&m->pci, fn, mine, n, err);
	return r < 0 ? r : act_remote_call(m->remote, NULL, &c, err);
}

static int scrub(void *self, struct bdf fn, const char *program, unsigned seconds, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_SCRUB, fn);

	return m->remote ? act_remote_call(m->remote, NULL, &c, err) : act_scrub(&m->pci, fn, program, seconds, err);
}

/* Fabric Manager listens to root only, so that looking is the helper's, too. */
static int partition(void *self, bool *ret, unsigned id, enum act_want want, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_PARTITION, (struct bdf){ 0 });
	struct wire_answer a;
	int r;

	if (!m->remote)
		return act_partition(m->pci.root, m->pci.fmpm, ret, id, want, err);
	c.number = (uint16_t)id;
	c.set = (uint16_t)want;
	r = id > UINT16_MAX ? error_set(err, -ENODEV, "Fabric Manager has no partition %u", id) : act_remote_call(m->remote, &a, &c, err);
	if (r == 0)
		*ret = a.word;
	return r;
}

static int vf(void *self, struct plan_vf_settings *ret, struct bdf fn, const struct plan_vf_settings *want, struct error *err)
{
	struct act_machine *m = self;
	struct wire_call c = wire_call(WIRE_VF, fn);
	struct wire_answer a;
	int r;

	if (!m->remote)
		return act_pci_vf(&m->pci, ret, fn, want, err);
	c.vf_has = want ? want->has : 0; /* looking, too: velad may be in another network namespace than the PF's interface */
	for (int i = 0; i < PLAN_VF_ATTR_MAX_; i++)
		c.vf_value[i] = c.vf_has & PLAN_VF_BIT(i) ? want->value[i] : 0;
	r = act_remote_call(m->remote, &a, &c, err);
	if (r < 0)
		return r;
	ret->has = a.vf_has;
	memcpy(ret->value, a.vf_value, sizeof(ret->value));
	return 0;
}

/* For what answers with a value or none. */
static int ask_hyper(void *self, struct hyper_answer *ret, const struct hyper_call *c, struct error *err)
{
	struct arena arena = { 0 };
	int r = act_hyper_call(((struct act_machine *)self)->hyper, ret, c, &arena, err);

	arena_done(&arena);
	return r;
}

static int tell_hyper(void *self, const struct hyper_call *c, struct error *err)
{
	struct hyper_answer ignored;

	return ask_hyper(self, &ignored, c, err);
}

static int file(void *self, struct act_file *ret, const char *name, struct error *err)
{
	struct hyper_answer a;
	int r = ask_hyper(self, &a, &(struct hyper_call){ .verb = HYPER_FILE, .name = name }, err);

	if (r == 0)
		*ret = a.file;
	return r;
}

static int file_drop(void *self, const char *name, struct error *err)
{
	return tell_hyper(self, &(struct hyper_call){ .verb = HYPER_DROP, .name = name }, err);
}

static int disk_make(void *self, const struct act_disk *disk, struct error *err)
{
	return tell_hyper(self, &(struct hyper_call){ .verb = HYPER_DISK, .name = disk->name, .disk = *disk }, err);
}

static int seed_make(void *self, const char *name, const struct act_seed *seed, struct error *err)
{
	return tell_hyper(self, &(struct hyper_call){ .verb = HYPER_SEED, .name = name, .seed = *seed }, err);
}

/* Copying takes hours at worst, and needs nothing of libvirt, which is told of it: a libvirt that hangs ends no copy. */
static int image_make(void *self, struct act_image *ret, const char *name, const struct act_image_source *from, struct error *err)
{
	const struct hyper_call pool = { .verb = HYPER_POOL };
	const struct act_machine *m = self;
	int r = tell_hyper(self, &pool, err);

	if (r == 0)
		r = act_image_copy(ret, m->images.dir, name, m->images.source, from->file, from->format, from->sha256, err);
	return r < 0 ? r : tell_hyper(self, &pool, err);
}

static int domain(void *self, enum act_domain *ret, const char *name, struct error *err)
{
	struct hyper_answer a;
	int r = ask_hyper(self, &a, &(struct hyper_call){ .verb = HYPER_DOMAIN, .name = name }, err);

	if (r == 0)
		*ret = a.domain;
	return r;
}

static int domains(void *self, struct act_guest **ret, size_t *n, struct arena *arena, struct error *err)
{
	struct hyper_answer a;
	int r = act_hyper_call(((struct act_machine *)self)->hyper, &a, &(struct hyper_call){ .verb = HYPER_DOMAINS }, arena, err);

	if (r == 0) {
		*ret = a.guest;
		*n = a.nguests;
	}
	return r;
}

static struct wire_call log_call(const char *name, unsigned file)
{
	struct wire_call c = wire_call(WIRE_LOG, (struct bdf){ 0 });

	(void)snprintf(c.driver.driver, sizeof(c.driver.driver), "%s", name);
	c.number = (uint16_t)file;
	return c;
}

int act_machine_log(struct act_machine *m, const char *name, unsigned file, struct error *err)
{
	struct wire_call c = log_call(name, file);

	return m->remote ? act_remote_fd(m->remote, &c, err) : act_log_open(m->images.logs, name, file, err);
}

static int drop_log(struct act_machine *m, const char *name, struct error *err)
{
	struct wire_call c = log_call(name, WIRE_LOG_DROP);

	if (!m->images.logs)
		return 0;
	return m->remote ? act_remote_call(m->remote, NULL, &c, err) : act_log_drop(m->images.logs, name, err);
}

/* One that is new is not to have what the console of an earlier one of its name said. */
static int domain_start(void *self, const char *name, const char *xml, struct error *err)
{
	struct act_machine *m = self;
	enum act_domain now = ACT_DOMAIN_RUNNING;
	int r = domain(self, &now, name, err);

	if (r == 0 && now == ACT_DOMAIN_ABSENT)
		r = drop_log(m, name, err);
	return r < 0 ? r : tell_hyper(self, &(struct hyper_call){ .verb = HYPER_START, .name = name, .xml = xml }, err);
}

static int domain_order(void *self, const char *name, enum act_order order, struct error *err)
{
	return tell_hyper(self, &(struct hyper_call){ .verb = HYPER_ORDER, .name = name, .order = order }, err);
}

static int domain_stop(void *self, const char *name, struct error *err)
{
	return tell_hyper(self, &(struct hyper_call){ .verb = HYPER_STOP, .name = name }, err);
}

static int console(void *self, const char *name, bool force, int fd, const char *hello, struct error *err)
{
	const struct hyper_call c = { .verb = HYPER_CONSOLE, .name = name, .force = force, .fd = fd, .hello = hello };

	return tell_hyper(self, &c, err);
}

static const struct act_ops machine_ops = {
	.vfio_loaded = vfio_loaded,
	.vfio_load = vfio_load,
	.vf_count = vf_count,
	.vf_count_set = vf_count_set,
	.autoprobe = autoprobe,
	.driver = driver,
	.driver_set = driver_set,
	.word = word,
	.power = power,
	.alive = alive,
	.reset = reset,
	.scrub = scrub,
	.partition = partition,
	.vf = vf,
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

int act_machine_new(struct act_machine **ret, struct host_root *root, const struct act_hypervisor *hyper, const char *helper,
		    const char *fmpm, struct error *err)
{
	auto_(act_machine_free) struct act_machine *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return error_set(err, -ENOMEM, "no memory for the machine");
	m->words = act_words_new();
	if (!m->words)
		return error_set(err, -ENOMEM, "no memory for the machine");
	m->pci = (struct act_pci){ .root = root, .deadline_ms = ACT_PCI_DEADLINE_MS, .words = m->words, .fmpm = fmpm };
	r = helper ? act_remote_new(&m->remote, helper, err) : 0;
	if (r == 0 && helper && hyper->helper_seconds)
		act_remote_patience(m->remote, (int)hyper->helper_seconds);
	if (r == 0)
		r = act_hyper_new(&m->hyper, hyper, err);
	if (r < 0)
		return r;
	if (m->remote)
		host_root_set_opener(root, act_remote_open, m->remote);
	host_vpd_want(root);
	m->images = hyper->images;
	*ret = steal(m);
	return 0;
}

struct act_machine *act_machine_free(struct act_machine *m)
{
	if (m) {
		if (m->remote)
			host_root_set_opener(m->pci.root, NULL, NULL);
		(void)act_remote_free(m->remote);
		(void)act_hyper_free(m->hyper);
		(void)act_words_free(m->words);
	}
	free(m);
	return NULL;
}

/* That there is no such function is an answer. */
int act_machine_helper(struct act_machine *m, bool now, struct error *why)
{
	struct wire_call c = wire_call(WIRE_OPEN, (struct bdf){ 0 });
	struct error answer = ERROR_INIT;
	int fd = m->remote && now ? act_remote_fd(m->remote, &c, &answer) : -1;

	if (fd >= 0)
		(void)close(fd);
	return m->remote ? act_remote_away(m->remote, why) : 0;
}

struct act act_machine_act(struct act_machine *m)
{
	return (struct act){ .ops = &machine_ops, .self = m };
}

int act_domain_offer(struct act_machine *m, struct act_offer *ret, struct error *err)
{
	return act_hyper_offer(m->hyper, ret, err);
}

int act_domain_watch(struct act_machine *m, void (*fn)(void *self, const char *name, enum act_domain state),
		     void *self, struct error *err)
{
	return act_hyper_watch(m->hyper, fn, self, err);
}

void act_domain_unwatch(struct act_machine *m)
{
	act_hyper_unwatch(m->hyper);
}
