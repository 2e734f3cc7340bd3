/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The vfio-pci module through libkmod: no modprobe is executed, and the reasons come as numbers. The library brings OpenSSL's, and is
 * loaded only by who loads the module: a velad that has no helper, once. */
#include "act/kmod.h"

#include <errno.h>
#include <libkmod.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/lazy.h"
#include "host/root.h"

#define MODULE "vfio-pci"

#define FUNCTIONS(X) \
	X(kmod_new) X(kmod_unref) X(kmod_module_new_from_lookup) X(kmod_module_probe_insert_module) X(kmod_module_get_module) \
	X(kmod_module_get_name) X(kmod_module_unref) X(kmod_module_unref_list) X(kmod_list_next)

LAZY_LIBRARY("libkmod.so.2", FUNCTIONS)

/* The driver's own directory, so that a built-in one counts as well. */
int act_vfio_loaded(struct host_root *root, bool *ret, struct error *err)
{
	struct arena arena = { 0 };
	struct host_names names;
	int r = host_list(root, &names, &arena, "sys/bus/pci/drivers/" MODULE);

	arena_done(&arena);
	if (r < 0 && r != -ENOENT)
		return error_set(err, -ENODEV, "cannot look for the driver " MODULE ": %s", strerror(-r));
	*ret = r == 0;
	return 0;
}

static int insert(const struct lib *lib, struct kmod_module *mod, struct error *err)
{
	int r = lib->kmod_module_probe_insert_module(mod, KMOD_PROBE_APPLY_BLACKLIST, NULL, NULL, NULL, NULL);

	if (r > 0) /* the flag that stopped it */
		return error_set(err, -ENODEV, "module %s is on a blacklist in modprobe.d; remove it there or modprobe " MODULE,
				 lib->kmod_module_get_name(mod));
	if (r == -EPERM || r == -EACCES)
		return error_set(err, -ENODEV, "velad may not load modules; modprobe " MODULE " as root");
	if (r < 0)
		return error_set(err, -ENODEV, "the kernel refused module %s: %s; see its log", lib->kmod_module_get_name(mod),
				 strerror(-r));
	return 0;
}

static int insert_all(const struct lib *lib, struct kmod_list *list, struct error *err)
{
	int r = 0;

	for (struct kmod_list *at = list; at; at = lib->kmod_list_next(list, at)) {
		struct kmod_module *mod = lib->kmod_module_get_module(at);

		if (r == 0)
			r = insert(lib, mod, err);
		lib->kmod_module_unref(mod);
	}
	return r;
}

static int load_by(const struct lib *lib, struct error *err)
{
	struct kmod_ctx *ctx = lib->kmod_new(NULL, NULL);
	struct kmod_list *list = NULL;
	int r;

	if (!ctx)
		return error_set(err, -ENOMEM, "no memory for libkmod");
	r = lib->kmod_module_new_from_lookup(ctx, MODULE, &list);
	if (r < 0 || !list)
		r = error_set(err, -ENODEV, "the running kernel has no module " MODULE
			      "; install the modules package of this very kernel, then modprobe " MODULE);
	else
		r = insert_all(lib, list, err);
	(void)lib->kmod_module_unref_list(list); /* NULL is fine */
	(void)lib->kmod_unref(ctx);
	return r;
}

static int load(struct error *err)
{
	struct lib lib = { 0 };
	int r = lib_open(&lib) ? load_by(&lib, err) : error_set(err, -ENODEV, "libkmod.so.2 is not there, by which velad loads " MODULE
								"; apt-get install libkmod2, or modprobe " MODULE);

	lib_close(&lib);
	return r;
}

int act_vfio_load(struct host_root *root, struct error *err)
{
	bool loaded = false;
	int r = act_vfio_loaded(root, &loaded, err);

	if (r < 0 || loaded)
		return r;
	if (!host_root_is_machine(root))
		return error_set(err, -ENODEV, "the driver " MODULE
				 " is not in this root, and velad loads modules only where the root is /");
	r = load(err);
	if (r == 0)
		r = act_vfio_loaded(root, &loaded, err);
	if (r == 0 && !loaded)
		return error_set(err, -ENODEV, "module " MODULE " was loaded, but its driver is not in sysfs; see the kernel log");
	return r;
}
