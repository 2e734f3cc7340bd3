/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* fake_act — a machine in memory behind struct act: drivers, overrides, VFs that come and go, control words, power, domains.
 *
 * It can fail or end the process at call k: before the effect, in the middle of it or after it. It lies in
 * shared memory, so that it outlives a child that "crashed". As the kernel does, it refuses to take a
 * function from a running guest; `violations` counts who tried (on a real host that write may hang). */

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "act/act.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "plan/vf.h"

#define FAKE_PARTITIONS 4 /* of NVSwitches; 0 has a GPU in common with each of the others */
#define FAKE_FNS     32
#define FAKE_DOMAINS 8
#define FAKE_FILES   8
#define FAKE_CRASH   77 /* exit status of a process that "crashed" */
#define FAKE_VFS     8  /* total of each PF */
#define FAKE_PORTS   2
#define FAKE_PORT    "0000:17:01.0"
#define FAKE_PORT_TB "0000:17:02.0"
#define FAKE_DT      0x40
#define FAKE_TB      0x02
#define FAKE_ATS     0x8000

enum fake_fault { FAKE_NONE, FAKE_FAIL, FAKE_CRASHES };
enum fake_when { FAKE_BEFORE, FAKE_HALF, FAKE_AFTER, FAKE_WHEN_MAX_ };

struct fake_words { /* control words of a config space */
	unsigned has;  /* bit n: it has word n */
	bool     dead; /* reads as ff */
	struct act_power power;
	uint16_t now[ACT_WORD_MAX_], stuck[ACT_WORD_MAX_]; /* stuck: bits that take no write, which shows when they are read back */
};

struct fake_fn {
	struct bdf        bdf;
	struct fake_words w;
	bool              there;
	int               pf; /* index of the PF of a VF; -1 */
	struct plan_vf_settings set; /* of a VF */
	struct act_driver d;
	bool              no_probe; /* of a PF: the host's drivers do not take its VFs */
	char              serial[ACT_SERIAL_MAX];
	uint8_t           width;    /* of its link */
	unsigned          resets, scrubs;
	bool              dirty;    /* a guest had it since its last reset */
	bool              dies;     /* reads as ff after its next reset */
	bool              fixed;    /* the kernel knows no way to reset it */
	uint8_t           narrows;  /* its link has these lanes after its next reset; 0: as before */
};

struct fake_port {
	struct bdf        bdf;
	bool              gone; /* from the bus */
	struct fake_words w;
};

struct fake_domain {
	char            name[48], uuid[ACT_UUID_MAX];
	bool            foreign; /* without velad's mark */
	bool            opaque;  /* its XML cannot be read */
	enum act_domain state;
	char            xml[512];
};

struct fake {
	pthread_mutex_t    lock;
	pthread_cond_t     cond;
	struct fake_fn     fn[FAKE_FNS];
	size_t             nfns;
	struct fake_port   port[FAKE_PORTS];
	struct fake_domain domain[FAKE_DOMAINS];
	char               file[FAKE_FILES][48];
	int64_t            file_mtime; /* of all of them */
	bool               vfio, no_ats; /* no_ats: no function gets it */
	bool               partition[FAKE_PARTITIONS]; /* active */
	unsigned           calls, violations;
	uint32_t           vf_lacks, vf_refuses, vf_ignores; /* settings of VFs: the driver has none, says no, does nothing */
	bool               no_interface; /* PFs have none, so that nothing can be set of VFs */
	bool               deaf;
	bool               away; /* velad-helper: nothing can be set */
	bool               no_libvirt; /* domains cannot be listed */
	unsigned           lists;      /* how often they were */
	unsigned           reboots;
	bool               lose_after_read; /* the next port whose ACS control is read loses Direct Translated P2P then */
	enum fake_fault    fault;
	enum fake_when     when;
	unsigned           at;     /* the call at which `fault` happens; 0 never */
	bool               sticky; /* and at all that follow */
	bool               fired;
	bool               hit;    /* the call that runs now is it */
	char               broken[32], paused[32], last[32]; /* names of calls */
	char               hang[32], meet[32];     /* hang: the next of these never returns; meet: calls wait for each other */
	unsigned           hangs, meeting, most;   /* hangs: inside; most: of those that met */
	unsigned           to_meet;
	char               held[32], work[32]; /* held: one that is paused now; work: the last that was no look at what is kept */
};

static inline struct fake_fn *fake_find(struct fake *f, struct bdf bdf)
{
	for (size_t i = 0; i < f->nfns; i++)
		if (f->fn[i].there && bdf_eq(f->fn[i].bdf, bdf))
			return &f->fn[i];
	return NULL;
}

static inline struct fake_words *fake_words(struct fake *f, struct bdf bdf)
{
	struct fake_fn *fn = fake_find(f, bdf);

	for (size_t i = 0; i < FAKE_PORTS; i++)
		if (bdf_eq(f->port[i].bdf, bdf) && !f->port[i].gone)
			return &f->port[i].w;
	return fn ? &fn->w : NULL;
}

/* ---- faults ----------------------------------------------------------------------------------------- */

/* Until as many as are to meet are inside; gives up after some seconds, and `most` tells. */
static inline void fake_meet(struct fake *f, const char *call)
{
	struct timespec until;

	if (strcmp(f->meet, call) != 0)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	f->meeting++;
	f->most = f->meeting > f->most ? f->meeting : f->most;
	(void)pthread_cond_broadcast(&f->cond);
	while (f->most < f->to_meet)
		if (pthread_cond_timedwait(&f->cond, &f->lock, &until) == ETIMEDOUT)
			break;
	f->meeting--;
}

static inline struct fake *fake_enter(void *self, const char *call)
{
	struct fake *f = self;

	(void)pthread_mutex_lock(&f->lock);
	if (strcmp(f->paused, call) == 0)
		(void)snprintf(f->held, sizeof(f->held), "%s", call);
	while (strcmp(f->paused, call) == 0)
		(void)pthread_cond_wait(&f->cond, &f->lock);
	if (strcmp(f->hang, call) == 0) {
		f->hang[0] = '\0';
		f->hangs++;
		while (f->hangs)
			(void)pthread_cond_wait(&f->cond, &f->lock);
	}
	fake_meet(f, call);
	(void)snprintf(f->last, sizeof(f->last), "%s", call);
	if (strcmp(call, "acs") != 0 && strcmp(call, "ats") != 0) /* what is kept is looked at by another thread, too */
		(void)snprintf(f->work, sizeof(f->work), "%s", call);
	f->calls++;
	f->hit = f->at && (f->calls == f->at || (f->sticky && f->calls > f->at));
	return f;
}

static inline int fake_leave(struct fake *f, int r)
{
	(void)pthread_mutex_unlock(&f->lock);
	return r;
}

/* 0, or the fault if it is to happen at this point of the call. */
static inline int fake_point(struct fake *f, enum fake_when when, struct error *err)
{
	if (strcmp(f->broken, f->last) == 0)
		return error_set(err, -EIO, "%s is broken", f->last);
	if (f->away && strncmp(f->last, "domain", 6) != 0 && strcmp(f->last, "vfio_loaded") != 0 && strcmp(f->last, "driver") != 0)
		return error_set(err, -ENOTCONN, "cannot reach velad-helper");
	if (!f->hit || f->when != when)
		return 0;
	f->fired = true;
	if (f->fault == FAKE_CRASHES)
		_exit(FAKE_CRASH);
	return f->fault == FAKE_FAIL ? error_set(err, -EIO, "%s failed at call %u", f->last, f->calls) : 0;
}

/* Call k from now on, and with sticky all that follow. */
static inline void fake_arm(struct fake *f, enum fake_fault fault, enum fake_when when, unsigned k, bool sticky)
{
	(void)pthread_mutex_lock(&f->lock);
	f->calls = 0;
	f->fault = fault;
	f->when = when;
	f->at = k;
	f->sticky = sticky;
	f->fired = false;
	(void)pthread_mutex_unlock(&f->lock);
}

static inline void fake_disarm(struct fake *f)
{
	fake_arm(f, FAKE_NONE, FAKE_BEFORE, 0, false);
}

/* What a test sets by itself, while threads look at it. */
#define FAKE_LOCKED(f, statement)                        \
	do {                                             \
		(void)pthread_mutex_lock(&(f)->lock);    \
		statement;                               \
		(void)pthread_mutex_unlock(&(f)->lock);  \
	} while (0)

static inline void fake_break(struct fake *f, const char *call)
{
	(void)pthread_mutex_lock(&f->lock);
	(void)snprintf(f->broken, sizeof(f->broken), "%s", call);
	(void)pthread_mutex_unlock(&f->lock);
}

/* The named call waits inside until the pause is lifted with "". */
static inline void fake_pause(struct fake *f, const char *call)
{
	(void)pthread_mutex_lock(&f->lock);
	(void)snprintf(f->paused, sizeof(f->paused), "%s", call);
	f->held[0] = '\0';
	(void)pthread_cond_broadcast(&f->cond);
	(void)pthread_mutex_unlock(&f->lock);
}

/* The next call of this name does not return before fake_return(); others do. */
static inline void fake_hang(struct fake *f, const char *call)
{
	(void)pthread_mutex_lock(&f->lock);
	(void)snprintf(f->hang, sizeof(f->hang), "%s", call);
	(void)pthread_mutex_unlock(&f->lock);
}

static inline void fake_return(struct fake *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->hangs = 0;
	f->hang[0] = '\0';
	(void)pthread_cond_broadcast(&f->cond);
	(void)pthread_mutex_unlock(&f->lock);
}

static inline void fake_to_meet(struct fake *f, const char *call, unsigned n)
{
	(void)pthread_mutex_lock(&f->lock);
	(void)snprintf(f->meet, sizeof(f->meet), "%s", call);
	f->to_meet = n;
	f->most = 0;
	(void)pthread_mutex_unlock(&f->lock);
}

static inline void fake_forget_last(struct fake *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->last[0] = f->work[0] = '\0';
	(void)pthread_mutex_unlock(&f->lock);
}

static inline bool fake_last_is(struct fake *f, const char *call)
{
	bool is;

	(void)pthread_mutex_lock(&f->lock);
	is = strcmp(f->last, call) == 0 || strcmp(f->work, call) == 0 || strcmp(f->held, call) == 0;
	(void)pthread_mutex_unlock(&f->lock);
	return is;
}

static inline bool fake_fired(struct fake *f)
{
	bool fired;

	(void)pthread_mutex_lock(&f->lock);
	fired = f->fired;
	(void)pthread_mutex_unlock(&f->lock);
	return fired;
}

/* ---- the calls -------------------------------------------------------------------------------------- */

static inline int fake_vfio_loaded(void *self, bool *ret, struct error *err)
{
	struct fake *f = fake_enter(self, "vfio_loaded");
	int r = fake_point(f, f->when, err);

	if (r == 0)
		*ret = f->vfio;
	return fake_leave(f, r);
}

static inline int fake_vfio_load(void *self, struct error *err)
{
	struct fake *f = fake_enter(self, "vfio_load");
	int r = fake_point(f, FAKE_BEFORE, err);

	if (r == 0) {
		f->vfio = true;
		r = fake_point(f, f->when, err);
	}
	return fake_leave(f, r);
}

/* Is the function in the XML of a running guest? */
static inline bool fake_in_use(struct fake *f, struct bdf bdf)
{
	char text[BDF_TEXT_MAX];

	(void)bdf_text(text, bdf);
	for (size_t i = 0; i < FAKE_DOMAINS; i++)
		if (f->domain[i].state == ACT_DOMAIN_RUNNING && strstr(f->domain[i].xml, text)) {
			f->violations++;
			return true;
		}
	return false;
}

static inline uint16_t fake_count(struct fake *f, int pf)
{
	uint16_t n = 0;

	for (size_t i = 0; i < f->nfns; i++)
		n += f->fn[i].there && f->fn[i].pf == pf;
	return n;
}

static inline int fake_vf_count(void *self, uint16_t *ret, struct bdf pf, struct error *err)
{
	struct fake *f = fake_enter(self, "vf_count");
	struct fake_fn *fn = fake_find(f, pf);
	int r = fake_point(f, f->when, err);

	if (r == 0 && !fn)
		r = error_set(err, -ENODEV, "there is no such PF");
	if (r == 0)
		*ret = fake_count(f, (int)(fn - f->fn));
	return fake_leave(f, r);
}

/* As mlx5_core makes them: no address, no spoof check. */
static inline struct plan_vf_settings fake_vf_fresh(const struct fake *f)
{
	struct plan_vf_settings s = plan_vf_whole(&(struct plan_vf_settings){ 0 });

	s.has |= PLAN_VF_BIT(PLAN_VF_MAC);
	s.value[PLAN_VF_SPOOF_CHECK] = 0;
	s.has &= ~f->vf_lacks;
	return s;
}

/* VFs come with the host's driver bound to them (sriov_drivers_autoprobe). */
static inline int fake_make_vfs(struct fake *f, int pf, uint16_t n, struct error *err)
{
	uint16_t made = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->nfns && made < n; i++) {
		if (f->fn[i].pf != pf)
			continue;
		if (made == n / 2)
			r = fake_point(f, FAKE_HALF, err);
		if (r == 0) {
			f->fn[i].there = true;
			f->fn[i].dirty = false;
			f->fn[i].d = (struct act_driver){ .driver = "mlx5_core" };
			if (f->fn[pf].no_probe)
				f->fn[i].d.driver[0] = '\0';
			f->fn[i].set = fake_vf_fresh(f);
			made++;
		}
	}
	return r;
}

static inline int fake_drop_vfs(struct fake *f, int pf, struct error *err)
{
	for (size_t i = 0; i < f->nfns; i++)
		if (f->fn[i].there && f->fn[i].pf == pf && fake_in_use(f, f->fn[i].bdf))
			return error_set(err, -EBUSY, "a guest has a VF of it");
	for (size_t i = 0; i < f->nfns; i++)
		if (f->fn[i].there && f->fn[i].pf == pf && strcmp(f->fn[i].d.driver, "vfio-pci") == 0)
			return error_set(err, -EBUSY, "a VF of it is bound to vfio-pci");
	for (size_t i = 0; i < f->nfns; i++)
		if (f->fn[i].pf == pf)
			f->fn[i].there = false;
	return fake_point(f, FAKE_HALF, err);
}

static inline int fake_vf_count_set(void *self, struct bdf pf, uint16_t n, struct error *err)
{
	struct fake *f = fake_enter(self, "vf_count_set");
	struct fake_fn *fn = fake_find(f, pf);
	int r = fake_point(f, FAKE_BEFORE, err), i = fn ? (int)(fn - f->fn) : -1;

	if (r == 0 && !fn)
		r = error_set(err, -ENODEV, "there is no such PF");
	if (r == 0 && n && fake_count(f, i))
		r = error_set(err, -EBUSY, "it has VFs");
	if (r == 0)
		r = n ? fake_make_vfs(f, i, n, err) : fake_drop_vfs(f, i, err);
	if (r == 0)
		r = fake_point(f, FAKE_AFTER, err);
	return fake_leave(f, r);
}

static inline int fake_autoprobe(void *self, int *ret, struct bdf pf, enum act_want want, struct error *err)
{
	struct fake *f = fake_enter(self, "autoprobe");
	struct fake_fn *fn = fake_find(f, pf);
	int r = fake_point(f, want == ACT_LOOK ? f->when : FAKE_BEFORE, err);

	if (r == 0 && !fn)
		r = error_set(err, -ENODEV, "there is no such PF");
	if (r == 0 && want != ACT_LOOK) {
		fn->no_probe = want == ACT_OFF;
		r = fake_point(f, FAKE_AFTER, err);
	}
	if (r == 0)
		*ret = !fn->no_probe;
	return fake_leave(f, r);
}

static inline int fake_driver(void *self, struct act_driver *ret, struct bdf bdf, struct error *err)
{
	struct fake *f = fake_enter(self, "driver");
	struct fake_fn *fn = fake_find(f, bdf);
	int r = fake_point(f, f->when, err);

	if (r == 0 && !fn && !fake_words(f, bdf))
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0)
		*ret = fn ? fn->d : (struct act_driver){ .driver = "pcieport" };
	return fake_leave(f, r);
}

static inline int fake_driver_set(void *self, struct bdf bdf, const struct act_driver *want, struct error *err)
{
	struct fake *f = fake_enter(self, "driver_set");
	struct fake_fn *fn = fake_find(f, bdf);
	int r = fake_point(f, FAKE_BEFORE, err);

	if (r == 0 && !fn)
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0 && strcmp(want->driver, "vfio-pci") == 0 && !f->vfio)
		r = error_set(err, -EIO, "vfio-pci is not loaded");
	if (r == 0 && strcmp(fn->d.driver, want->driver) != 0 && fake_in_use(f, bdf))
		r = error_set(err, -EBUSY, "a guest has it");
	if (r == 0) {
		(void)snprintf(fn->d.override, sizeof(fn->d.override), "%s", want->override);
		if (strcmp(fn->d.driver, "vfio-pci") == 0) /* vfio_pci_core_unregister_device() */
			(void)snprintf(fn->w.power.control, sizeof(fn->w.power.control), "on");
		fn->d.driver[0] = '\0'; /* unbound, not yet bound again */
		r = fake_point(f, FAKE_HALF, err);
	}
	if (r == 0) {
		(void)snprintf(fn->d.driver, sizeof(fn->d.driver), "%s", want->driver);
		if (strcmp(fn->d.driver, "vfio-pci") == 0) /* vfio_pci_core_register_device() */
			(void)snprintf(fn->w.power.control, sizeof(fn->w.power.control), "auto");
		r = fake_point(f, FAKE_AFTER, err);
	}
	return fake_leave(f, r);
}

/* Looking at ACS control is the call "acs", also where what is wanted is so already; writing is "acs_set". */
static inline const char *fake_word_call(enum act_word which, bool writes)
{
	static const char *const look[] = { "acs", "ats", "devctl", "devctl2" };
	static const char *const write[] = { "acs_set", "ats_set", "devctl_set", "devctl2_set" };

	return writes ? write[which] : look[which];
}

static inline int fake_word_write(struct fake *f, uint16_t *now, uint16_t stuck, uint16_t want, struct error *err)
{
	bool optional = strncmp(f->last, "devctl", 6) == 0;
	int r;

	*now = (uint16_t)((want & ~stuck) | (*now & stuck));
	r = fake_point(f, FAKE_HALF, err);
	if (r == 0 && *now != want)
		r = error_set(err, optional ? -ENXIO : -EIO, "%s: control is 0x%02x after 0x%02x", f->last, *now, want);
	return r < 0 ? r : fake_point(f, FAKE_AFTER, err);
}

static inline int fake_word(void *self, uint16_t *ret, struct bdf bdf, enum act_word which, uint16_t set, uint16_t clear,
			    struct error *err)
{
	static const uint16_t may[ACT_WORD_MAX_] = { FAKE_DT | FAKE_TB, 0, 0x7110, 0x1000 };
	struct fake *f = fake_enter(self, fake_word_call(which, false));
	struct fake_words *w = fake_words(f, bdf);
	char text[BDF_TEXT_MAX];
	uint16_t want;
	bool writes;
	int r;

	assert(((set | clear) & ~may[which]) == 0 && !(set & clear));
	want = w ? (uint16_t)((w->now[which] | set) & ~clear) : 0;
	writes = w && want != w->now[which] && !w->dead && w->has >> which & 1;
	(void)snprintf(f->last, sizeof(f->last), "%s", fake_word_call(which, writes));
	r = fake_point(f, writes ? FAKE_BEFORE : f->when, err);
	if (r == 0 && !w)
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0 && w->dead)
		r = error_set(err, -EIO, "port %s reads as ff", bdf_text(text, bdf));
	if (r == 0 && !(w->has >> which & 1))
		r = error_set(err, -ENXIO, "%s has no such capability", bdf_text(text, bdf));
	if (r == 0 && writes)
		r = fake_word_write(f, &w->now[which], w->stuck[which], want, err);
	if (r == 0)
		*ret = w->now[which];
	if (r == 0 && which == ACT_ACS && !writes && f->lose_after_read) { /* a reset between two looks */
		w->now[which] &= (uint16_t)~FAKE_DT;
		f->lose_after_read = false;
	}
	return fake_leave(f, r);
}

static inline bool fake_power_is(const struct act_power *now, const struct act_power *want)
{
	return (!want->control[0] || strcmp(now->control, want->control) == 0) && (want->d3cold < 0 || now->d3cold == want->d3cold);
}

/* Looking is the call "power", also where it is so already; writing is "power_set". */
static inline int fake_power(void *self, struct act_power *ret, struct bdf bdf, const struct act_power *want, struct error *err)
{
	struct fake *f = fake_enter(self, "power");
	struct fake_words *w = fake_words(f, bdf);
	bool writes = w && want && !fake_power_is(&w->power, want);
	int r;

	(void)snprintf(f->last, sizeof(f->last), "power%s", writes ? "_set" : "");
	r = fake_point(f, writes ? FAKE_BEFORE : f->when, err);
	if (r == 0 && !w)
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0 && writes) {
		if (want->control[0])
			memcpy(w->power.control, want->control, sizeof(want->control));
		r = fake_point(f, FAKE_HALF, err);
	}
	if (r == 0 && writes) {
		w->power.d3cold = want->d3cold < 0 ? w->power.d3cold : want->d3cold;
		r = fake_point(f, FAKE_AFTER, err);
	}
	if (r == 0)
		*ret = w->power;
	return fake_leave(f, r);
}

static inline int fake_partition(void *self, bool *ret, unsigned id, enum act_want want, struct error *err)
{
	struct fake *f = fake_enter(self, "partition");
	bool changes = id < FAKE_PARTITIONS && want != ACT_LOOK && f->partition[id] != (want == ACT_ON);
	int r = fake_point(f, changes ? FAKE_BEFORE : f->when, err);

	if (r == 0 && id >= FAKE_PARTITIONS)
		r = error_set(err, -ENODEV, "there is no such partition");
	for (unsigned i = 0; r == 0 && changes && want == ACT_ON && i < FAKE_PARTITIONS; i++)
		if (f->partition[i] && (i == 0 || id == 0))
			r = error_set(err, -EBUSY, "partition %u is active", i);
	if (r == 0 && changes) {
		f->partition[id] = want == ACT_ON;
		r = fake_point(f, f->when == FAKE_AFTER ? FAKE_AFTER : FAKE_HALF, err);
	}
	if (r == 0)
		*ret = f->partition[id];
	return fake_leave(f, r);
}

/* ---- between two tenants ---------------------------------------------------------------------------- */

static inline int fake_alive(void *self, struct act_alive *ret, struct bdf bdf, struct error *err)
{
	struct fake *f = fake_enter(self, "alive");
	struct fake_fn *fn = fake_find(f, bdf);
	struct fake_words *w = fake_words(f, bdf);
	int r = fake_point(f, f->when, err);

	if (r == 0 && !w)
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0) {
		*ret = (struct act_alive){ .answers = !w->dead, .acs = -1 };
		if (ret->answers && fn) {
			(void)snprintf(ret->id, sizeof(ret->id), "10DE:2330");
			memcpy(ret->serial, fn->serial, sizeof(ret->serial));
			ret->link = (struct pcicap_link){ 5, fn->width };
			ret->bars = fn->pf < 0;
			ret->ats = fn->w.has >> ACT_ATS & 1;
		}
	}
	return fake_leave(f, r);
}

static inline int fake_reset_fn(void *self, struct bdf bdf, const struct bdf *mine, size_t n, struct error *err)
{
	struct fake *f = fake_enter(self, "reset");
	struct fake_fn *fn = fake_find(f, bdf);
	bool found = false;
	int r = fake_point(f, FAKE_BEFORE, err);

	for (size_t i = 0; i < n; i++)
		found = found || bdf_eq(mine[i], bdf);
	assert(found);
	if (r == 0 && !fn)
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0 && fake_in_use(f, bdf))
		r = error_set(err, -EBUSY, "a guest has it");
	if (r == 0 && fn->fixed)
		r = error_set(err, -ENOTTY, "the kernel knows no way to reset it");
	if (r == 0) {
		fn->resets++;
		r = fake_point(f, FAKE_HALF, err);
	}
	if (r == 0) {
		fn->dirty = false;
		fn->w.dead = fn->w.dead || fn->dies;
		fn->width = fn->narrows ? fn->narrows : fn->width;
		if (fn->w.dead)
			r = error_set(err, -EIO, "it did not come back from its reset");
	}
	if (r == 0)
		r = fake_point(f, FAKE_AFTER, err);
	return fake_leave(f, r);
}

static inline int fake_scrub(void *self, struct bdf bdf, const char *program, unsigned seconds, struct error *err)
{
	struct fake *f = fake_enter(self, "scrub");
	struct fake_fn *fn = fake_find(f, bdf);
	int r = fake_point(f, FAKE_BEFORE, err);

	(void)program;
	(void)seconds;
	if (r == 0 && !fn)
		r = error_set(err, -ENODEV, "this host has no such function");
	if (r == 0) {
		assert(!fn->dirty); /* first the reset */
		fn->scrubs++;
		r = fake_point(f, f->when == FAKE_AFTER ? FAKE_AFTER : FAKE_HALF, err);
	}
	return fake_leave(f, r);
}

/* Looking is the call "vf"; writing "vf_set". */
static inline int fake_vf(void *self, struct plan_vf_settings *ret, struct bdf bdf, const struct plan_vf_settings *want, struct error *err)
{
	struct fake *f = fake_enter(self, want ? "vf_set" : "vf");
	struct fake_fn *fn = fake_find(f, bdf);
	int r = fake_point(f, want ? FAKE_BEFORE : f->when, err);

	if (r == 0 && (!fn || fn->pf < 0))
		r = error_set(err, -ENODEV, "this host has no such VF");
	if (r == 0 && f->no_interface)
		r = error_set(err, -ENETDOWN, "its PF has no network interface");
	if (r == 0 && want) {
		assert(!(want->has & ~plan_vf_group(want->has))); /* one message */
		if (want->has & (f->vf_refuses | ~fn->set.has))
			r = error_set(err, -ENXIO, "the driver refuses it");
	}
	for (int a = 0; r == 0 && want && a < PLAN_VF_ATTR_MAX_; a++)
		if (want->has & ~f->vf_ignores & PLAN_VF_BIT(a))
			fn->set.value[a] = want->value[a];
	if (r == 0 && want)
		r = fake_point(f, FAKE_HALF, err);
	if (r == 0 && want)
		r = fake_point(f, FAKE_AFTER, err);
	if (r == 0 && want && plan_vf_changes(&fn->set, want))
		r = error_set(err, -ENXIO, "the driver took it, and did nothing");
	if (r == 0)
		*ret = fn->set;
	return fake_leave(f, r);
}

static inline char *fake_file_find(struct fake *f, const char *name)
{
	for (size_t i = 0; i < FAKE_FILES; i++)
		if (strcmp(f->file[i], name) == 0)
			return f->file[i];
	return NULL;
}

static inline int fake_file(void *self, struct act_file *ret, const char *name, struct error *err)
{
	struct fake *f = fake_enter(self, "file");
	int r = fake_point(f, FAKE_BEFORE, err);

	*ret = (struct act_file){ .there = fake_file_find(f, name), .size = 100, .mtime = f->file_mtime };
	return fake_leave(f, r == 0 ? fake_point(f, FAKE_AFTER, err) : r);
}

static inline int fake_file_drop(void *self, const char *name, struct error *err)
{
	struct fake *f = fake_enter(self, "file_drop");
	int r = fake_point(f, FAKE_BEFORE, err);
	char *file = fake_file_find(f, name);

	if (r == 0 && file)
		*file = '\0';
	return fake_leave(f, r == 0 ? fake_point(f, FAKE_AFTER, err) : r);
}

/* Half made, it is there under its own name: on the machine it would have another one. */
static inline int fake_make_file(void *self, const char *call, const char *name, struct error *err)
{
	struct fake *f = fake_enter(self, call);
	int r = fake_point(f, FAKE_BEFORE, err);
	char *at = fake_file_find(f, "");

	if (r == 0)
		assert(at && !fake_file_find(f, name));
	if (r == 0)
		(void)snprintf(at, sizeof(f->file[0]), "%s", name);
	if (r == 0)
		r = fake_point(f, FAKE_HALF, err);
	return fake_leave(f, r == 0 ? fake_point(f, FAKE_AFTER, err) : r);
}

static inline int fake_disk_make(void *self, const struct act_disk *disk, struct error *err)
{
	return fake_make_file(self, "disk_make", disk->name, err);
}

static inline int fake_seed_make(void *self, const char *name, const struct act_seed *seed, struct error *err)
{
	assert(seed->meta_data && seed->vendor_data);
	return fake_make_file(self, "seed_make", name, err);
}

static inline int fake_image_make(void *self, struct act_image *ret, const char *name, const struct act_image_source *from, struct error *err)
{
	int r;

	assert(strcmp(from->file, "a file") == 0 && strcmp(from->format, "raw") == 0 && !from->sha256);
	r = fake_make_file(self, "image_make", name, err);
	*ret = (struct act_image){ .format = ACT_RAW, .size = 100, .virtual_size = 1 << 20, .mtime = ((struct fake *)self)->file_mtime };
	(void)snprintf(ret->sha256, sizeof(ret->sha256), "%064d", 7);
	return r;
}

static inline struct fake_domain *fake_domain_find(struct fake *f, const char *name)
{
	for (size_t i = 0; i < FAKE_DOMAINS; i++)
		if (strcmp(f->domain[i].name, name) == 0)
			return &f->domain[i];
	return NULL;
}

static inline int fake_domain(void *self, enum act_domain *ret, const char *name, struct error *err)
{
	struct fake *f = fake_enter(self, "domain");
	struct fake_domain *d = fake_domain_find(f, name);
	int r = fake_point(f, f->when, err);

	if (r == 0)
		*ret = d ? d->state : ACT_DOMAIN_ABSENT;
	return fake_leave(f, r);
}

/* The functions in the XML of the tests, which is a list of BDFs. */
static inline void fake_functions(struct act_guest *g, const char *xml, struct arena *arena)
{
	char copy[512], *save = NULL;
	struct bdf *device = arena_array(arena, FAKE_FNS, sizeof(*device));

	assert(device);
	g->device = device;
	(void)snprintf(copy, sizeof(copy), "%s", xml);
	for (char *t = strtok_r(copy, " ", &save); t; t = strtok_r(NULL, " ", &save))
		g->n += bdf_parse(&device[g->n], t);
}

/* No fault of fake_arm() happens in it, nor is it counted: a manager may list domains at any time. fake_break() of "domain" is of it, too. */
static inline int fake_domains(void *self, struct act_guest **ret, size_t *n, struct arena *arena, struct error *err)
{
	struct fake *f = self;
	struct act_guest *all = arena_array(arena, FAKE_DOMAINS, sizeof(*all));

	assert(all);
	(void)pthread_mutex_lock(&f->lock);
	if (strcmp(f->hang, "domains") == 0) {
		f->hang[0] = '\0';
		f->hangs++;
		while (f->hangs)
			(void)pthread_cond_wait(&f->cond, &f->lock);
	}
	f->lists++;
	*n = 0;
	for (size_t i = 0; i < FAKE_DOMAINS; i++) {
		struct fake_domain *d = &f->domain[i];
		struct act_guest *g = &all[*n];

		if (!d->name[0])
			continue;
		*g = (struct act_guest){ .name = arena_strdup(arena, d->name), .state = d->state, .ours = !d->foreign, .known = !d->opaque };
		(void)snprintf(g->uuid, sizeof(g->uuid), "%s", d->uuid);
		if (g->known)
			fake_functions(g, d->xml, arena);
		++*n;
	}
	*ret = all;
	if (f->no_libvirt || strcmp(f->broken, "domain") == 0)
		return fake_leave(f, error_set(err, -EREMOTEIO, "cannot reach libvirt"));
	return fake_leave(f, 0);
}

/* The XML of the tests is a list of BDFs. Each must be there, and with vfio-pci. */
static inline int fake_check_xml(struct fake *f, const char *xml, struct error *err)
{
	char copy[512], *save = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", xml);
	for (char *t = strtok_r(copy, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
		struct fake_fn *fn;
		struct bdf b;

		if (!bdf_parse(&b, t))
			continue;
		fn = fake_find(f, b);
		if (!fn || strcmp(fn->d.driver, "vfio-pci") != 0 || strcmp(fn->d.override, "vfio-pci") != 0)
			return error_set(err, -EREMOTEIO, "%s is not with vfio-pci", t);
	}
	return 0;
}

/* VFIO attaches a guest's functions to its address space, for which the IOMMU driver enables ATS of those that have it, and
 * takes them from there. */
static inline void fake_ats(struct fake *f, const char *xml, bool on)
{
	char text[BDF_TEXT_MAX];

	for (size_t i = 0; i < f->nfns; i++)
		if (strstr(xml, bdf_text(text, f->fn[i].bdf))) {
			f->fn[i].w.now[ACT_ATS] = on ? FAKE_ATS : 0;
			f->fn[i].dirty = f->fn[i].dirty || on;
		}
}

static inline int fake_domain_start(void *self, const char *name, const char *xml, struct error *err)
{
	struct fake *f = fake_enter(self, "domain_start");
	struct fake_domain *there = fake_domain_find(f, name), *d = there ? there : fake_domain_find(f, "");
	int r = fake_point(f, FAKE_BEFORE, err);

	assert(d && (!there || there->state != ACT_DOMAIN_RUNNING)); /* who starts one looks first */
	if (r == 0) {
		(void)snprintf(d->name, sizeof(d->name), "%s", name);
		if (!there)
			(void)snprintf(d->uuid, sizeof(d->uuid), "uuid-of-%.20s", name);
		(void)snprintf(d->xml, sizeof(d->xml), "%s", xml);
		d->state = ACT_DOMAIN_SHUTOFF;
		r = fake_point(f, FAKE_HALF, err);
	}
	if (r == 0)
		r = fake_check_xml(f, xml, err);
	if (r == 0) {
		d->state = ACT_DOMAIN_RUNNING;
		fake_ats(f, xml, !f->no_ats);
		r = fake_point(f, FAKE_AFTER, err);
	}
	return fake_leave(f, r);
}

/* With `deaf` the guest does not hear of ACPI. */
static inline int fake_domain_order(void *self, const char *name, enum act_order order, struct error *err)
{
	static const char *const calls[ACT_ORDER_MAX_] = { "domain_shutdown", "domain_off", "domain_reboot", "domain_reset" };
	struct fake *f = fake_enter(self, calls[order]);
	struct fake_domain *d = fake_domain_find(f, name);
	int r = fake_point(f, FAKE_BEFORE, err);

	if (r == 0 && !d)
		r = error_set(err, -ENOENT, "there is no such domain");
	if (r == 0 && d->state != ACT_DOMAIN_RUNNING && order >= ACT_ORDER_REBOOT)
		r = error_set(err, -EREMOTEIO, "the domain is not running");
	if (r == 0 && (order == ACT_ORDER_OFF || (order == ACT_ORDER_SHUTDOWN && !f->deaf))) {
		d->state = ACT_DOMAIN_SHUTOFF;
		fake_ats(f, d->xml, false);
	}
	f->reboots += r == 0 && order >= ACT_ORDER_REBOOT;
	if (r == 0)
		r = fake_point(f, f->when == FAKE_AFTER ? FAKE_AFTER : FAKE_HALF, err);
	return fake_leave(f, r);
}

static inline int fake_domain_stop(void *self, const char *name, struct error *err)
{
	struct fake *f = fake_enter(self, "domain_stop");
	struct fake_domain *d = fake_domain_find(f, name);
	int r = fake_point(f, FAKE_BEFORE, err);

	if (r == 0 && d) {
		d->state = ACT_DOMAIN_SHUTOFF;
		fake_ats(f, d->xml, false);
		r = fake_point(f, FAKE_HALF, err);
	}
	if (r == 0 && d)
		*d = (struct fake_domain){ 0 };
	if (r == 0)
		r = fake_point(f, FAKE_AFTER, err);
	return fake_leave(f, r);
}

/* A console that says its name, and what it was told first. */
static inline int fake_console(void *self, const char *name, bool force, int fd, const char *hello, struct error *err)
{
	struct fake *f = fake_enter(self, "console");
	const struct fake_domain *d = fake_domain_find(f, name);
	int r = fake_point(f, FAKE_BEFORE, err);

	if (r == 0 && (!d || d->state != ACT_DOMAIN_RUNNING))
		r = error_set(err, d ? -EBUSY : -ENOENT, "domain %s does not run", name);
	if (r == 0 && (dprintf(fd, "%s%s%s console\n", hello, name, force ? " forced" : "") < 0))
		r = error_set(err, -EIO, "the socket is closed");
	return fake_leave(f, r);
}

/* ---- making, changing and comparing it -------------------------------------------------------------- */

static inline struct act fake_act(struct fake *f)
{
	static const struct act_ops ops = {
		.vfio_loaded = fake_vfio_loaded,
		.vfio_load = fake_vfio_load,
		.vf_count = fake_vf_count,
		.vf_count_set = fake_vf_count_set,
		.autoprobe = fake_autoprobe,
		.driver = fake_driver,
		.driver_set = fake_driver_set,
		.word = fake_word,
		.power = fake_power,
		.vf = fake_vf,
		.alive = fake_alive,
		.reset = fake_reset_fn,
		.scrub = fake_scrub,
		.partition = fake_partition,
		.domain = fake_domain,
		.domains = fake_domains,
		.domain_start = fake_domain_start,
		.domain_order = fake_domain_order,
		.domain_stop = fake_domain_stop,
		.console = fake_console,
		.file = fake_file,
		.file_drop = fake_file_drop,
		.disk_make = fake_disk_make,
		.seed_make = fake_seed_make,
		.image_make = fake_image_make,
	};

	return (struct act){ .ops = &ops, .self = f };
}

static inline void fake_add(struct fake *f, const char *bdf, const char *driver, int pf)
{
	struct fake_fn *fn = &f->fn[f->nfns++];

	assert(f->nfns <= FAKE_FNS);
	if (!bdf_parse(&fn->bdf, bdf))
		abort();
	(void)snprintf(fn->d.driver, sizeof(fn->d.driver), "%s", driver);
	fn->w = (struct fake_words){ .has = 1u << ACT_ATS | 1u << ACT_DEVCTL | 1u << ACT_DEVCTL2, .power = { "on", 1 },
				     .now = { [ACT_DEVCTL] = 0x2820 } };
	fn->there = pf < 0;
	fn->pf = pf;
	fn->width = pf < 0 ? 16 : 0;
	(void)snprintf(fn->serial, sizeof(fn->serial), "48b02d00000000%02x", (unsigned)(pf < 0 ? (int)f->nfns : pf + 1));
}

/* After a crash the lock may be held by nobody any more. */
static inline void fake_reset_lock(struct fake *f)
{
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->cond, NULL);
}

/* Two GPUs, one with a companion, two NIC PFs with FAKE_VFS VFs each, none of them there; and the ports above the
 * first PF, the second of which blocks translated requests. */
static inline struct fake *fake_new(void)
{
	struct fake *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static const char *const pfs[] = { "0000:1a:00.0", "0000:3c:00.0" };

	if (f == MAP_FAILED)
		abort();
	fake_reset_lock(f);
	f->port[0] = (struct fake_port){ .w = { .has = 1u << ACT_ACS, .power = { "auto", 1 }, .now = { [ACT_ACS] = 0x1d } } };
	f->port[1] = (struct fake_port){ .w = { .has = 1u << ACT_ACS, .power = { "auto", 1 }, .now = { [ACT_ACS] = 0x1f } } };
	if (!bdf_parse(&f->port[0].bdf, FAKE_PORT) || !bdf_parse(&f->port[1].bdf, FAKE_PORT_TB))
		abort();
	fake_add(f, "0000:19:00.0", "nvidia", -1);
	fake_add(f, "0000:19:00.1", "snd_hda_intel", -1);
	fake_add(f, "0000:3b:00.0", "", -1);
	(void)snprintf(f->fn[2].d.override, sizeof(f->fn[2].d.override), "nothing/at all"); /* an operator's */
	for (int p = 0; p < 2; p++) {
		int pf = (int)f->nfns;

		fake_add(f, pfs[p], "mlx5_core", -1);
		for (int v = 0; v < FAKE_VFS; v++) {
			char text[BDF_TEXT_MAX];

			(void)snprintf(text, sizeof(text), "%.8s%02x.%x", pfs[p], (v + 1) >> 3, (v + 1) & 7);
			fake_add(f, text, "", pf);
		}
	}
	return f;
}

static inline void fake_free(struct fake *f)
{
	(void)munmap(f, sizeof(*f));
}

/* Its power went and came back: firmware and kernel have set it up anew, libvirt's definitions stayed. */
static inline void fake_reboot(struct fake *f)
{
	struct fake *fresh = fake_new();

	memcpy(fresh->domain, f->domain, sizeof(f->domain));
	for (size_t i = 0; i < FAKE_DOMAINS; i++)
		if (fresh->domain[i].name[0])
			fresh->domain[i].state = ACT_DOMAIN_SHUTOFF;
	memcpy(f, fresh, sizeof(*f));
	fake_reset_lock(f);
	fake_free(fresh);
}

/* Everything that must come back, as text; the caller frees. Not the module: it stays loaded. */
static inline char *fake_text(struct fake *f)
{
	struct sbuf b = { 0 };
	char text[BDF_TEXT_MAX], set[PLAN_VF_TEXT_MAX];

	(void)pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->nfns; i++)
		if (f->fn[i].there && f->fn[i].pf >= 0)
			sbuf_addf(&b, "%s %s\n", bdf_text(text, f->fn[i].bdf), plan_vf_text(set, &f->fn[i].set));
	for (size_t i = 0; i < f->nfns; i++)
		if (f->fn[i].there)
			sbuf_addf(&b, "%s %s/%s %s,%d %04x %04x %04x\n", bdf_text(text, f->fn[i].bdf), f->fn[i].d.driver,
				  f->fn[i].d.override, f->fn[i].w.power.control, f->fn[i].w.power.d3cold, f->fn[i].w.now[ACT_ATS], f->fn[i].w.now[ACT_DEVCTL],
				  f->fn[i].w.now[ACT_DEVCTL2]);
	for (size_t i = 0; i < FAKE_PORTS; i++)
		sbuf_addf(&b, "%s acs %02x %s,%d\n", bdf_text(text, f->port[i].bdf), f->port[i].w.now[ACT_ACS],
			  f->port[i].w.power.control, f->port[i].w.power.d3cold);
	for (unsigned i = 0; i < FAKE_PARTITIONS; i++)
		sbuf_addf(&b, "partition %u %d\n", i, f->partition[i]);
	for (size_t i = 0; i < FAKE_DOMAINS; i++)
		if (f->domain[i].name[0])
			sbuf_addf(&b, "domain %s %d\n", f->domain[i].name, (int)f->domain[i].state);
	for (size_t i = 0; i < FAKE_FILES; i++)
		if (f->file[i][0])
			sbuf_addf(&b, "file %s\n", f->file[i]);
	(void)pthread_mutex_unlock(&f->lock);
	return sbuf_steal(&b);
}

/* Behind velad's back. */
static inline void fake_port_is(struct fake *f, size_t i, uint16_t ctl)
{
	(void)pthread_mutex_lock(&f->lock);
	f->port[i].w.now[ACT_ACS] = ctl;
	(void)pthread_mutex_unlock(&f->lock);
}

static inline uint16_t fake_port_ctl(struct fake *f, size_t i)
{
	uint16_t ctl;

	(void)pthread_mutex_lock(&f->lock);
	ctl = f->port[i].w.now[ACT_ACS];
	(void)pthread_mutex_unlock(&f->lock);
	return ctl;
}

static inline void fake_ats_is(struct fake *f, struct bdf bdf, uint16_t ctl)
{
	(void)pthread_mutex_lock(&f->lock);
	fake_find(f, bdf)->w.now[ACT_ATS] = ctl;
	(void)pthread_mutex_unlock(&f->lock);
}

static inline void fake_domain_is(struct fake *f, const char *name, enum act_domain state)
{
	(void)pthread_mutex_lock(&f->lock);
	fake_domain_find(f, name)->state = state;
	(void)pthread_mutex_unlock(&f->lock);
}
