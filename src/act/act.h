/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* act — changes the machine. Every setter reads its effect back and fails if it is not there.
 *
 * Two implementations: the machine (act_machine_new: sysfs through host_root, libvirt, kmod) and the
 * fake of the tests. It is told BDFs and text and knows no topology. All calls may block; they are
 * made on worker threads only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/bdf.h"
#include "host/aer.h"
#include "host/pcicap.h"
#include "host/vpd.h"

struct arena;
struct error;
struct host_root;
struct plan_vf_settings;

#define ACT_DRIVER_MAX 64
/* An override that no driver has as its name: nobody gets the function (pci_match_device(), drivers/pci/pci-driver.c). */
#define ACT_NOBODY "quarantine"

struct act_driver {
	char driver[ACT_DRIVER_MAX];   /* "" none */
	char override[ACT_DRIVER_MAX]; /* "" none */
};

enum act_domain { ACT_DOMAIN_ABSENT, ACT_DOMAIN_SHUTOFF, ACT_DOMAIN_RUNNING, ACT_DOMAIN_CRASHED /* off, by a fault */,
		  ACT_DOMAIN_CHANGED /* of an event only: it was defined, or got or lost a device; how it is has to be asked */ };

#define ACT_UUID_MAX 37

struct act_guest { /* a domain of libvirt's, whoever made it */
	const char       *name;
	char              uuid[ACT_UUID_MAX];
	enum act_domain   state;
	bool              ours;   /* it carries velad's mark */
	bool              known;  /* false: its XML could not be read, and what devices it has is not known */
	const struct bdf *device; /* PCI functions of the host that it has, or will have once it is started */
	size_t            n;
	const char       *loses;  /* settings by which its devices lose peer-to-peer, "x-no-mmap (ua-gpu0)"; "" none; NULL unknown */
};

/* What a domain that runs can be told: ACPI's power button, and the plug; ACPI's restart, and the reset button. */
enum act_order { ACT_ORDER_SHUTDOWN, ACT_ORDER_OFF, ACT_ORDER_REBOOT, ACT_ORDER_RESET, ACT_ORDER_MAX_ };

struct act_power {
	char   control[8]; /* "on" or "auto"; "" the kernel has no such file, or: as it is */
	int8_t d3cold;     /* 0, 1; -1 the same */
};

#define ACT_SERIAL_MAX VPD_SERIAL_MAX

/* How a function looks from outside. */
struct act_alive {
	bool               answers; /* false: its config space reads as ff, and nothing below is known */
	char               id[12];  /* "10DE:2330"; "" unknown */
	char               serial[ACT_SERIAL_MAX]; /* of the device, of a VF its PF's (host_serial_text()); "" it has none */
	struct pcicap_link link;    /* 0: unknown, or a VF */
	uint8_t            bars;    /* bit n: BAR n has an address */
	int                acs;     /* its ACS control; -1: it has none */
	bool               ats;     /* it has ATS */
	struct host_aer    aer;
	bool               by_vpd;  /* its serial number is to be in VPD, if it has one */
};

/* With the bits that may be changed; it is a programming error to name others. */
enum act_word {
	ACT_ACS,     /* ACS control of a port: DirectTrans 0x40, TransBlk 0x02 */
	ACT_ATS,     /* ATS control: none */
	ACT_DEVCTL,  /* device control: RlxdOrd 0x10, ExtTag 0x100, MaxReadReq 0x7000 */
	ACT_DEVCTL2, /* device control 2: 10BitTagReq 0x1000 */
	ACT_WORD_MAX_,
};

enum act_want { ACT_LOOK, ACT_ON, ACT_OFF };

/* ---- files of guests: images, disks, seeds, by name in one directory ---- */

#define ACT_FILE_NEW ".%s.new" /* while it is written */

struct act_file {
	bool    there;
	int64_t size, mtime; /* mtime: nanoseconds of the epoch; both 0 for what only libvirt knows */
};

struct act_image {
	enum { ACT_RAW, ACT_QCOW2, ACT_FORMAT_MAX_ } format;
	uint64_t size, virtual_size; /* bytes: of the file, of the disk in it */
	int64_t  mtime;
	char     sha256[65]; /* of the file, hex */
};

const char *act_format_text(int format); /* "raw" "qcow2" */

struct act_image_source {
	const char *file;           /* in the directory that is for it */
	const char *format, *sha256; /* NULL: not said; else it must have these */
};

struct act_disk { /* a qcow2 file */
	const char *name;
	uint64_t    size;          /* bytes */
	const char *image, *format; /* the file below it, and its format; NULL: it is empty */
};

struct act_seed { /* texts; NULL: no such file */
	const char *meta_data, *user_data, *vendor_data, *network;
};

struct act_ops {
	int (*vfio_loaded)(void *self, bool *ret, struct error *err);
	int (*vfio_load)(void *self, struct error *err);
	int (*vf_count)(void *self, uint16_t *ret, struct bdf pf, struct error *err);
	int (*vf_count_set)(void *self, struct bdf pf, uint16_t n, struct error *err);
	/* Whether drivers of the host take the VFs that this PF gets, once it is as wanted: 0, 1; -1: the kernel is too old to say
	 * (Linux 4.12). -ENODEV as below; -EIO. */
	int (*autoprobe)(void *self, int *ret, struct bdf pf, enum act_want want, struct error *err);
	/* -ENODEV: there is no such function */
	int (*driver)(void *self, struct act_driver *ret, struct bdf fn, struct error *err);
	int (*driver_set)(void *self, struct bdf fn, const struct act_driver *want, struct error *err);
	/* A control word of a function's config space, once these bits are set and those cleared; all others are as they
	 * were. Without bits it only looks. -ENODEV as above; -ENXIO: the function has no such register or bit, or
	 * has it hard-wired; -EIO. */
	int (*word)(void *self, uint16_t *ret, struct bdf fn, enum act_word which, uint16_t set, uint16_t clear,
		    struct error *err);
	/* Whether a function may sleep by itself, once it is as wanted. want NULL: it only looks. -ENODEV as above; -EIO. */
	int (*power)(void *self, struct act_power *ret, struct bdf fn, const struct act_power *want, struct error *err);
	/* -ENODEV as above; what does not answer is no error. -ENOTCONN, also below: velad-helper is not there. */
	int (*alive)(void *self, struct act_alive *ret, struct bdf fn, struct error *err);
	/* mine: functions of the same guest, which alone may be hit with it. -ENOTTY: there is no way to; -EBUSY: only one that
	 * would hit others, or the kernel says so; -EIO: it failed, or the function did not come back. */
	int (*reset)(void *self, struct bdf fn, const struct bdf *mine, size_t n, struct error *err);
	/* Runs the operator's program with the function's BDF. -ETIMEDOUT, -EIO. */
	int (*scrub)(void *self, struct bdf fn, const char *program, unsigned seconds, struct error *err);
	/* Whether a partition of Fabric Manager is active, once it is as wanted. -ENODEV: there is no such partition, or no
	 * Fabric Manager; -EBUSY: another one that is active has GPUs of it; -EIO, -ETIMEDOUT. */
	int (*partition)(void *self, bool *ret, unsigned id, enum act_want want, struct error *err);
	/* Settings of a VF, once these are set, all of which the kernel sets by one message (plan_vf_group()). want NULL: it
	 * only looks. -ENODEV as above; -ENETDOWN: its PF has no interface; -ENXIO: its driver refuses them; -EIO. */
	int (*vf)(void *self, struct plan_vf_settings *ret, struct bdf vf, const struct plan_vf_settings *want, struct error *err);
	int (*file)(void *self, struct act_file *ret, const char *name, struct error *err);
	int (*file_drop)(void *self, const char *name, struct error *err); /* absent is fine */
	/* -ENOSPC: less room is left than this disk and all others could take. */
	int (*disk_make)(void *self, const struct act_disk *disk, struct error *err);
	int (*seed_make)(void *self, const char *name, const struct act_seed *seed, struct error *err);
	/* Copies it, and nobody can write it. -ENOENT, -EINVAL: it is no image, or not this; -ENOSPC. */
	int (*image_make)(void *self, struct act_image *ret, const char *name, const struct act_image_source *from, struct error *err);
	int (*domain)(void *self, enum act_domain *ret, const char *name, struct error *err);
	/* All of libvirt's domains; what is returned lives in the arena. It fails as a whole: then nothing is known of any of them. */
	int (*domains)(void *self, struct act_guest **ret, size_t *n, struct arena *arena, struct error *err);
	int (*domain_start)(void *self, const char *name, const char *xml, struct error *err); /* define, create */
	/* -ENOENT: there is no such domain of velad's; one that is off already is off. The order is given, not yet obeyed, but for
	 * the plug. */
	int (*domain_order)(void *self, const char *name, enum act_order order, struct error *err);
	int (*domain_stop)(void *self, const char *name, struct error *err); /* destroy, undefine; absent is fine */
	/* What the guest's serial console says goes to the socket fd, after hello, and what comes from there to it, until either ends;
	 * fd stays the caller's. -ENOENT as above; -EBUSY: it is off, or somebody has its console, from whom force takes it. */
	int (*console)(void *self, const char *name, bool force, int fd, const char *hello, struct error *err);
};

struct act {
	const struct act_ops *ops;
	void                 *self; /* owned by whoever made it */
};

struct act_machine; /* opaque */

/* Where images, disks and seeds are, and the logs of consoles. */
struct act_images {
	const char *pool, *dir, *source, *logs;
};

/* libvirt, and velad-libvirt, which talks to it; and velad-helper. All borrowed. */
struct act_hypervisor {
	const char       *program; /* NULL: velad-libvirt beside this program */
	const char       *uri;
	const char       *seccomp; /* as --seccomp takes it; NULL: off */
	struct act_images images;
	unsigned          look_ms, start_ms, stop_ms; /* how long calls may take before that process is ended; 0: as long as they like */
	unsigned          helper_seconds; /* how long a velad that starts waits for its helper; 0: 30 */
	void            (*begins)(void *self); /* first of all, on the thread of act_domain_watch(); NULL: nothing is to be done */
	void             *self;
};

/* root is borrowed and must outlive it; libvirt is connected to on first use, and again after a loss. helper: the socket of
 * velad-helper, which then changes what is to be changed, and opens for root what this process may not read; NULL: this
 * process does it itself. fmpm: Fabric Manager's tool, borrowed; "" none. */
int act_machine_new(struct act_machine **ret, struct host_root *root, const struct act_hypervisor *hyper, const char *helper,
		    const char *fmpm, struct error *err);
struct act_machine *act_machine_free(struct act_machine *m);
AUTO_DEFINE(struct act_machine *, act_machine_free);
struct act act_machine_act(struct act_machine *m);
/* A descriptor of a file of the log of a guest's console (act/log.h). May be called where nothing may block. */
int act_machine_log(struct act_machine *m, const char *name, unsigned file, struct error *err);

/* Whether velad-helper could be asked when that was tried last, or now; in the second case it may wait as long as one waits for files of it. 0;
 * -ENOTCONN, and why. 0 also where there is to be none. */
int act_machine_helper(struct act_machine *m, bool now, struct error *why);

struct act_offer {
	char     type[16]; /* what the hypervisor can start: "kvm", "qemu" or "test" */
	unsigned qemu;     /* its version, major * 1000000 + minor * 1000 + release; 0 unknown, or not QEMU */
	unsigned lacks;    /* PLAN_LACKS_* */
};

/* Does not wait: -EAGAIN before libvirt has answered those who watch; -EREMOTEIO: it cannot be reached. */
int act_domain_offer(struct act_machine *m, struct act_offer *ret, struct error *err);

/* Calls fn on a thread of its own whenever a domain starts, starts again, ends or changes; and with name NULL when libvirt is reached,
 * and anything may have happened meanwhile, or cannot be reached any more. fn may only queue work. One watch at a time. */
int act_domain_watch(struct act_machine *m,
		     void (*fn)(void *self, const char *name, enum act_domain state), void *self,
		     struct error *err);
/* Ends the watch: when it returns, fn does not run and will not be called. act_machine_free does it, too. */
void act_domain_unwatch(struct act_machine *m);
