/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Settings of a VF: on the machine through its PF's network interface (rtnl.c); below another root as one line of text,
 * answers/vf/PF/INDEX, "mac=... vlan=0 ...", where what is written is what shall change. */
#include "act/pci.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "act/rtnl.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/parse.h"
#include "host/system.h"
#include "plan/vf.h"

struct port { /* where a VF is set */
	struct bdf pf;
	unsigned   index;
	int        ifindex; /* 0: as text */
	char       pf_name[BDF_TEXT_MAX], vf_name[BDF_TEXT_MAX], driver[ACT_DRIVER_MAX];
};

/* The PF's link virtfnN that leads to the VF (drivers/pci/iov.c, pci_iov_sysfs_link()). */
static int find_index(const struct act_pci *p, struct port *port, const char *dir, struct error *err)
{
	struct arena arena = { 0 };
	struct host_names names = { 0 };
	bool found = false;

	(void)host_list(p->root, &names, &arena, "%s", dir);
	for (size_t i = 0; i < names.n && !found; i++) {
		char link[HOST_PATH_MAX];
		uint64_t n;

		found = strncmp(names.name[i], "virtfn", 6) == 0 && parse_uint(&n, names.name[i] + 6, 10, UINT16_MAX) == 0 &&
			host_link(p->root, link, sizeof(link), "%s/%s", dir, names.name[i]) == 0 && strncmp(link, "../", 3) == 0 &&
			strcmp(link + 3, port->vf_name) == 0;
		if (found)
			port->index = (unsigned)n;
	}
	arena_done(&arena);
	return found ? 0 : error_set(err, -EIO, "PF %s has no link to its VF %s", port->pf_name, port->vf_name);
}

/* The interface of the port itself, not a VF's representor; of several (IPoIB's partitions) the first made. */
static int find_interface(const struct act_pci *p, struct port *port, const char *dir, struct error *err)
{
	struct arena arena = { 0 };
	struct host_names names = { 0 };
	uint64_t least = 0;

	(void)host_list(p->root, &names, &arena, "%s/net", dir);
	for (size_t i = 0; i < names.n; i++) {
		char port_name[64] = "";
		uint64_t n;

		(void)host_read(p->root, port_name, sizeof(port_name), "%s/net/%s/phys_port_name", dir, names.name[i]);
		if (!host_is_representor(port_name) &&
		    host_read_uint(p->root, &n, 10, INT_MAX, "%s/net/%s/ifindex", dir, names.name[i]) == 0 && (!least || n < least))
			least = n;
	}
	arena_done(&arena);
	port->ifindex = (int)least;
	return least ? 0 : error_set(err, -ENETDOWN, "PF %s has no network interface, through which its VFs are set; its driver brings it "
				     "(of InfiniBand: ib_ipoib)", port->pf_name);
}

static int find_port(const struct act_pci *p, struct port *port, struct bdf vf, struct error *err)
{
	char path[HOST_PATH_MAX], dir[HOST_PATH_MAX], link[HOST_PATH_MAX];
	int r = act_pci_path(p, path, vf, err);

	*port = (struct port){ 0 };
	(void)bdf_text(port->vf_name, vf);
	if (r < 0)
		return r;
	r = host_link(p->root, link, sizeof(link), "%s/physfn", path);
	if (r < 0 || strncmp(link, "../", 3) != 0 || !bdf_parse(&port->pf, link + 3))
		return error_set(err, -EIO, "%s is no VF of a PF of this host", port->vf_name);
	(void)bdf_text(port->pf_name, port->pf);
	r = act_pci_path(p, dir, port->pf, err);
	if (r == 0)
		r = find_index(p, port, dir, err);
	if (r == 0 && host_link(p->root, link, sizeof(link), "%s/driver", dir) == 0 && strrchr(link, '/'))
		(void)snprintf(port->driver, sizeof(port->driver), "%.63s", strrchr(link, '/') + 1);
	return r < 0 || !host_root_is_machine(p->root) ? r : find_interface(p, port, dir, err);
}

static int read_settings(const struct act_pci *p, struct plan_vf_settings *ret, const struct port *port, struct error *err)
{
	char text[PLAN_VF_TEXT_MAX];
	int r;

	if (port->ifindex)
		return rtnl_vf_read(ret, port->ifindex, port->index, err);
	r = host_read(p->root, text, sizeof(text), "answers/vf/%s/%u", port->pf_name, port->index);
	if (r == -ENOENT)
		return error_set(err, -ENETDOWN, "PF %s has no network interface, through which its VFs are set (answers/vf)", port->pf_name);
	return r < 0 ? error_set(err, -EIO, "cannot read answers/vf/%s/%u: %s", port->pf_name, port->index, strerror(-r)) :
		       plan_vf_parse(ret, text, err);
}

static int write_settings(const struct act_pci *p, const struct plan_vf_settings *want, const struct port *port, struct error *err)
{
	char text[PLAN_VF_TEXT_MAX];
	int r;

	if (port->ifindex)
		return rtnl_vf_set(port->ifindex, port->index, want, err);
	r = host_write(p->root, plan_vf_text(text, want), "answers/vf/%s/%u", port->pf_name, port->index);
	return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

/* What a driver says that has no such setting, or not this value. */
static bool is_refusal(int r)
{
	return r == -EOPNOTSUPP || r == -EINVAL || r == -EPROTONOSUPPORT || r == -ERANGE;
}

static int cannot(int r, const struct port *port, const struct plan_vf_settings *want, const struct error *why, struct error *err)
{
	char text[PLAN_VF_TEXT_MAX];

	return error_set(err, is_refusal(r) ? -ENXIO : r == -ENODEV ? r : -EIO, "driver %s of PF %s refuses %.100s for VF %u: %.60s%s",
			 *port->driver ? port->driver : "(none)", port->pf_name, plan_vf_text(text, want), port->index, why->text,
			 r == -EPERM || r == -EACCES ? "; velad must be root on the real machine" : "");
}

int act_pci_vf(const struct act_pci *p, struct plan_vf_settings *ret, struct bdf vf, const struct plan_vf_settings *want,
	       struct error *err)
{
	struct plan_vf_settings now = { 0 };
	char names[PLAN_VF_TEXT_MAX], text[PLAN_VF_TEXT_MAX];
	struct error why = ERROR_INIT;
	struct port port;
	uint32_t wrong;
	int r = find_port(p, &port, vf, err);

	if (r == 0 && want) {
		r = write_settings(p, want, &port, &why);
		if (r < 0)
			return cannot(r, &port, want, &why, err);
	}
	if (r == 0)
		r = read_settings(p, &now, &port, err);
	if (r < 0)
		return r;
	wrong = want ? plan_vf_changes(&now, want) : 0;
	if (wrong) {
		now = plan_vf_pick(&now, wrong);
		return error_set(err, -ENXIO, "driver %s of PF %s took %s of VF %u, and has %s", port.driver, port.pf_name,
				 plan_vf_names(names, wrong), port.index, plan_vf_text(text, &now));
	}
	*ret = now;
	return 0;
}
