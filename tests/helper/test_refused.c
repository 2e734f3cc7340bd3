/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a velad that is somebody else's by now could ask of the helper, at its worst: each refused by name, with nothing
 * written. And what it may ask is not refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/error.h"
#include "helper/serve.h"
#include "host/root.h"

static char dir[] = "/tmp/velad-helper-XXXXXX";
static struct host_root *root;
static struct act_pci pci = { .deadline_ms = 50 };
static struct serve serve = { .judge = { .pci = &pci }, .programs = -1 };

/* ---- a machine ------------------------------------------------------------------------------------------ */

static const char *at(const char *name)
{
	static char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void parents(const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s", at(name));
	for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		(void)mkdir(path, 0755);
	}
}

static void put(const char *name, const char *text)
{
	FILE *f;

	parents(name);
	f = fopen(at(name), "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void link_to(const char *name, const char *target)
{
	parents(name);
	assert_int_equal(symlink(target, at(name)), 0);
}

#define DEVICES "sys/devices/pci0000:16/"

static void add(const char *bdf, const char *id, const char *class, const char *driver)
{
	char name[256], text[256];

	(void)snprintf(name, sizeof(name), DEVICES "%s/uevent", bdf);
	(void)snprintf(text, sizeof(text), "PCI_CLASS=%s\nPCI_ID=%s\nPCI_SLOT_NAME=%s\n", class, id, bdf);
	put(name, text);
	(void)snprintf(name, sizeof(name), DEVICES "%s/driver_override", bdf);
	put(name, "(null)\n");
	(void)snprintf(name, sizeof(name), DEVICES "%s/config", bdf);
	put(name, "");
	(void)snprintf(name, sizeof(name), "sys/bus/pci/devices/%s", bdf);
	(void)snprintf(text, sizeof(text), "../../../devices/pci0000:16/%s", bdf);
	link_to(name, text);
	if (*driver) {
		(void)snprintf(name, sizeof(name), DEVICES "%s/driver", bdf);
		(void)snprintf(text, sizeof(text), "../../../bus/pci/drivers/%s", driver);
		link_to(name, text);
		(void)snprintf(name, sizeof(name), "sys/bus/pci/drivers/%s/unbind", driver);
		put(name, "");
	}
}

static void add_vf(const char *bdf, const char *pf, const char *index, const char *driver)
{
	char name[256], text[64];

	add(bdf, "15B3:101E", "20000", driver);
	(void)snprintf(name, sizeof(name), DEVICES "%s/physfn", bdf);
	(void)snprintf(text, sizeof(text), "../%s", pf);
	link_to(name, text);
	(void)snprintf(name, sizeof(name), DEVICES "%s/virtfn%s", pf, index);
	(void)snprintf(text, sizeof(text), "../%s", bdf);
	link_to(name, text);
}

static void add_disk(const char *bdf, const char *name, const char *number)
{
	char path[256], target[256];

	(void)snprintf(target, sizeof(target), "../../devices/pci0000:16/%s/nvme/%s/%sn1/%sn1p2", bdf, name, name, name);
	(void)snprintf(path, sizeof(path), "sys/dev/block/%s", number);
	link_to(path, target);
	(void)snprintf(path, sizeof(path), "sys/class/block/%sn1p2", name);
	link_to(path, target);
}

static int setup(void **state)
{
	struct error err = ERROR_INIT;
	struct conf conf;

	(void)state;
	assert_non_null(mkdtemp(dir));
	add("0000:16:00.0", "8086:352A", "60400", "pcieport");
	add("0000:17:00.0", "10DE:2330", "30200", "nvidia");
	add("0000:17:00.1", "10DE:22BA", "40300", "");
	add("0000:17:00.2", "10DE:1AD8", "20000", "r8169"); /* of the same device, and no part of a GPU */
	add("0000:18:00.0", "15B3:101D", "20000", "mlx5_core");
	put(DEVICES "0000:18:00.0/sriov_numvfs", "2\n");
	put(DEVICES "0000:18:00.0/sriov_totalvfs", "8\n");
	add_vf("0000:18:00.1", "0000:18:00.0", "0", "mlx5_core");
	add_vf("0000:18:00.2", "0000:18:00.0", "1", "");
	put(DEVICES "0000:18:00.1/net/ens1v0/ifindex", "7\n");
	add("0000:19:00.0", "144D:A80A", "10802", "nvme"); /* the root file system */
	add("0000:1a:00.0", "144D:A80A", "10802", "nvme"); /* below it, through device mapper: swap */
	add("0000:1b:00.0", "144D:A80A", "10802", "nvme"); /* nobody's */
	add_disk("0000:19:00.0", "nvme0", "259:2");
	add_disk("0000:1a:00.0", "nvme1", "259:5");
	link_to("sys/class/block/dm-0", "../../devices/virtual/block/dm-0");
	link_to("sys/devices/virtual/block/dm-0/slaves/nvme1n1p2", "../../../../x");
	add("0000:1c:00.0", "8086:1533", "20000", "igb"); /* management: not a NIC of [kinds] */
	put(DEVICES "0000:1c:00.0/sriov_numvfs", "0\n");
	add_vf("0000:1c:10.0", "0000:1c:00.0", "0", "igbvf");
	add("0000:00:1f.2", "8086:A182", "10601", "ahci");
	put("proc/self/mountinfo", "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n");
	put("proc/swaps", "Filename\tType\n/dev/dm-0 partition 1 0 -2\n");
	put("proc/net/route", "Iface\tDestination\nens1v0\t0000000A\t00000000\n");
	put("sys/bus/pci/drivers/vfio-pci/bind", "");
	assert_int_equal(host_root_open(&root, dir, &err), 0);
	pci.root = root;
	assert_int_equal(conf_load(&conf, TEST_SOURCE "/conf/velad.conf", &err), 0);
	assert_int_equal(host_kinds_load(&serve.judge.kinds, &conf, &err), 0);
	conf_done(&conf);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	host_root_close(root);
	(void)snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* ---- asking --------------------------------------------------------------------------------------------- */

static struct wire_call call(enum wire_verb verb, const char *bdf)
{
	struct bdf fn = { 0 };

	assert_true(!*bdf || bdf_parse(&fn, bdf));
	return wire_call(verb, fn);
}

static struct wire_call driver_call(const char *bdf, const char *driver, const char *override)
{
	struct wire_call c = call(WIRE_DRIVER, bdf);

	(void)snprintf(c.driver.driver, sizeof(c.driver.driver), "%s", driver);
	(void)snprintf(c.driver.override, sizeof(c.driver.override), "%s", override);
	return c;
}

static struct wire_call word_call(const char *bdf, uint16_t which, uint16_t set)
{
	struct wire_call c = call(WIRE_WORD, bdf);

	c.number = which;
	c.set = set;
	return c;
}

static struct wire_call number_call(enum wire_verb verb, const char *bdf, uint16_t number)
{
	struct wire_call c = call(verb, bdf);

	c.number = number;
	return c;
}

static struct wire_call want_call(enum wire_verb verb, const char *bdf, enum act_want want)
{
	struct wire_call c = call(verb, bdf);

	c.set = (uint16_t)want;
	return c;
}

static struct wire_call power_call(const char *bdf, const char *control)
{
	struct wire_call c = call(WIRE_POWER, bdf);

	memcpy(c.power.control, control, strlen(control));
	return c;
}

static const char *content(const char *name)
{
	static char text[256];
	FILE *f = fopen(at(name), "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = '\0';
	if (f)
		(void)fclose(f);
	return text;
}

static void refused(struct wire_call c, int code, const char *why)
{
	struct wire_answer a;
	int fd = -1;

	serve_call(&serve, &a, &fd, &c, sizeof(c));
	if (a.code != code || !strstr(a.text, why))
		fail_msg("%s: %d \"%s\", not %d \"%s\"", wire_verb_text((enum wire_verb)c.verb), a.code, a.text, code, why);
	assert_int_equal(fd, -1);
}

/* Passes the judge; what this folder, which is no kernel, makes of it is not asked. */
static void allowed(struct wire_call c)
{
	struct wire_answer a;
	int fd = -1;

	serve_call(&serve, &a, &fd, &c, sizeof(c));
	if (a.code == -EPERM || a.code == -EBUSY || a.code == -EPROTO)
		fail_msg("%s: %d \"%s\"", wire_verb_text((enum wire_verb)c.verb), a.code, a.text);
	if (fd >= 0)
		(void)close(fd);
}

/* ---- the worst things ------------------------------------------------------------------------------------- */

static void the_host_keeps_its_disks(void **state)
{
	(void)state;
	refused(driver_call("0000:19:00.0", "vfio-pci", "vfio-pci"), -EBUSY, "0000:19:00.0: the host uses it: the file system at / lies on it");
	refused(driver_call("0000:19:00.0", "", ""), -EBUSY, "the file system at /");
	refused(driver_call("0000:00:1f.2", "vfio-pci", "vfio-pci"), -EPERM, "(other, 8086:a182, class 010601)");
	refused(call(WIRE_RESET, "0000:19:00.0"), -EPERM, "this is nvme's");
	refused(call(WIRE_RESET, "0000:1b:00.0"), -EPERM, "this is nvme's");
	refused(call(WIRE_SCRUB, "0000:19:00.0"), -EPERM, "this is nvme's");
	assert_string_equal(content(DEVICES "0000:19:00.0/driver_override"), "(null)\n");
	assert_string_equal(content("sys/bus/pci/drivers/nvme/unbind"), "");
}

static void the_host_keeps_its_swap(void **state)
{
	(void)state;
	refused(driver_call("0000:1a:00.0", "vfio-pci", "vfio-pci"), -EBUSY, "the host swaps to /dev/dm-0");
}

static void the_host_keeps_its_network(void **state)
{
	struct wire_call c = call(WIRE_VF, "0000:18:00.1");

	(void)state;
	refused(driver_call("0000:1c:00.0", "vfio-pci", "vfio-pci"), -EPERM, "0000:1c:00.0 (other, 8086:1533");
	refused(driver_call("0000:18:00.0", "vfio-pci", "vfio-pci"), -EPERM, "0000:18:00.0 (nic,");
	refused(driver_call("0000:18:00.1", "vfio-pci", "vfio-pci"), -EBUSY, "interface ens1v0 has an address or a route");
	refused(driver_call("0000:1c:10.0", "vfio-pci", "vfio-pci"), -EPERM, "0000:1c:10.0 (vf,");
	refused(driver_call("0000:17:00.2", "vfio-pci", "vfio-pci"), -EPERM, "class 020000");
	refused(number_call(WIRE_VF_COUNT, "0000:18:00.0", 0), -EBUSY, "0000:18:00.1: the host uses it");
	refused(number_call(WIRE_VF_COUNT, "0000:1c:00.0", 7), -EPERM, "velad-helper makes VFs only of NICs");
	refused(number_call(WIRE_VF_COUNT, "0000:17:00.0", 1), -EPERM, "velad-helper makes VFs only of NICs");
	refused(want_call(WIRE_AUTOPROBE, "0000:17:00.0", ACT_OFF), -EPERM, "velad-helper says which drivers VFs get only of NICs");
	refused(want_call(WIRE_AUTOPROBE, "0000:18:00.0", ACT_LOOK), -EPERM, "it can be switched on and off");
	c.vf_has = PLAN_VF_BIT(PLAN_VF_TRUST);
	c.vf_value[PLAN_VF_TRUST] = 1;
	refused(c, -EBUSY, "ens1v0");
	c = call(WIRE_VF, "0000:1c:10.0");
	refused(c, -EPERM, "only of VFs of NICs");
	assert_string_equal(content(DEVICES "0000:18:00.0/sriov_numvfs"), "2\n");
}

static void only_its_drivers(void **state)
{
	(void)state;
	refused(driver_call("0000:17:00.0", "uio_pci_generic", "uio_pci_generic"), -EPERM, "not uio_pci_generic");
	refused(driver_call("0000:17:00.0", "", "pci-stub"), -EPERM, "not pci-stub");
	refused(driver_call("0000:17:00.0", "../../x", ""), -EPERM, "that is no driver's name");
	refused(driver_call("0000:17:00.0", "vfio-pci", ""), -EPERM, "with an override only");
	refused(driver_call("0000:17:00.0", "nvidia", "vfio-pci"), -EPERM, "driver nvidia with override vfio-pci cannot be");
	refused(driver_call("0000:17:00.0", "nvidia", "quarantine"), -EPERM, "not quarantine"); /* nobody, or somebody */
	refused(driver_call("0000:16:00.0", "vfio-pci", "vfio-pci"), -EPERM, "0000:16:00.0 (bridge,");
	assert_string_equal(content(DEVICES "0000:17:00.0/driver_override"), "(null)\n");
}

static void only_its_bits(void **state)
{
	(void)state;
	refused(word_call("0000:16:00.0", ACT_ACS, 0x01), -EPERM, "velad does not change these bits"); /* source validation off, if cleared */
	refused(word_call("0000:16:00.0", ACT_ATS, 0x8000), -EPERM, "velad does not change these bits");
	refused(word_call("0000:17:00.0", ACT_DEVCTL, 0x8000), -EPERM, "velad does not change these bits"); /* starts an FLR */
	refused(word_call("0000:17:00.0", ACT_WORD_MAX_, 0), -EPERM, "not one of the words");
	refused(word_call("0000:17:00.0", 0xffff, 0xffff), -EPERM, "not one of the words");
	refused(word_call("0000:17:00.0", ACT_ACS, 0x40), -EPERM, "velad-helper writes ACS control only of ports");
	refused(word_call("0000:19:00.0", ACT_DEVCTL, 0x10), -EPERM, "velad-helper writes device control only of GPUs and NICs");
	refused(power_call("0000:19:00.0", "auto"), -EPERM, "velad-helper sets power control only of ports, GPUs and NICs");
	refused(power_call("0000:17:00.0", "off"), -EPERM, "power/control takes");
	assert_string_equal(content(DEVICES "0000:16:00.0/config"), "");
}

static void nothing_else(void **state)
{
	struct wire_call c = call(WIRE_VFIO_LOAD, "");

	(void)state;
	refused(number_call(WIRE_OPEN, "0000:17:00.0", WIRE_FILE_MAX_), -EPERM, "not one of the files");
	refused(number_call(WIRE_OPEN, "0000:ff:1f.7", WIRE_CONFIG), -ENODEV, "this host has no PCI function 0000:ff:1f.7");
	refused(call(WIRE_RESET, "0000:17:00.0"), -EPERM, "this is nvidia's");
	refused(call(WIRE_RESET, "0000:16:00.0"), -EPERM, "0000:16:00.0 (bridge,");
	refused(call(WIRE_NONE, ""), -EPROTO, "verb 0 is none");
	refused(call(WIRE_VERB_MAX_, ""), -EPROTO, "is none");
	c.driver.driver[0] = 'x'; /* a field that it has not got */
	refused(c, -EPROTO, "not zero");
	c = driver_call("0000:17:00.0", "vfio-pci", "vfio-pci");
	c.driver.driver[63] = 'x'; /* behind the end */
	refused(c, -EPERM, "that is no driver's name");
	c.version = 9;
	refused(c, -EPROTO, "version 9");
}

static void what_cannot_be_told_is_refused(void **state)
{
	char was[512];

	(void)state;
	(void)snprintf(was, sizeof(was), "%s", at("proc/self/was"));
	assert_int_equal(rename(at("proc/self/mountinfo"), was), 0);
	assert_int_equal(mkdir(at("proc/self/mountinfo"), 0755), 0);
	refused(driver_call("0000:1b:00.0", "vfio-pci", "vfio-pci"), -EIO, "cannot read which file systems are mounted");
	assert_int_equal(rmdir(at("proc/self/mountinfo")), 0);
	assert_int_equal(rename(was, at("proc/self/mountinfo")), 0);
}

/* ---- what it may ------------------------------------------------------------------------------------------ */

static void the_rest_is_allowed(void **state)
{
	(void)state;
	allowed(number_call(WIRE_OPEN, "0000:17:00.0", WIRE_CONFIG));
	allowed(number_call(WIRE_OPEN, "0000:19:00.0", WIRE_CONFIG));
	allowed(word_call("0000:16:00.0", ACT_ACS, 0x40));
	allowed(word_call("0000:17:00.0", ACT_DEVCTL, 0x10));
	allowed(word_call("0000:18:00.0", ACT_DEVCTL, 0x10));
	allowed(power_call("0000:17:00.1", "on"));
	allowed(driver_call("0000:18:00.2", "vfio-pci", "vfio-pci"));
	allowed(driver_call("0000:17:00.1", "vfio-pci", "vfio-pci"));
	allowed(driver_call("0000:1b:00.0", "vfio-pci", "vfio-pci"));
	allowed(driver_call("0000:17:00.0", "vfio-pci", "vfio-pci"));
	allowed(call(WIRE_RESET, "0000:18:00.2"));
}

/* An override that somebody had set before may be given back, by another helper than that which took it. */
static void overrides_of_others_are_kept(void **state)
{
	char keep[256];

	(void)state;
	refused(driver_call("0000:17:00.0", "", "others"), -EPERM, "not others");
	(void)snprintf(keep, sizeof(keep), "%s/keep", dir);
	assert_int_equal(mkdir(keep, 0700), 0);
	serve.judge.overrides = keep;
	put(DEVICES "0000:17:00.0/driver_override", "others\n");
	allowed(driver_call("0000:17:00.0", "vfio-pci", "vfio-pci"));
	put(DEVICES "0000:17:00.0/driver_override", "vfio-pci\n");
	allowed(driver_call("0000:17:00.0", "", "others"));
	refused(driver_call("0000:17:00.0", "", "more"), -EPERM, "not more");
	serve.judge.overrides = NULL;
}

static struct wire_call log_call(const char *name, uint16_t number)
{
	struct wire_call c = number_call(WIRE_LOG, "", number);

	(void)snprintf(c.driver.driver, sizeof(c.driver.driver), "%s", name);
	return c;
}

/* Logs of consoles, and nothing else of that directory or beside it. */
static void only_its_logs(void **state)
{
	struct wire_call c = log_call("train", 1);
	struct wire_answer a;
	char text[16] = "";
	int fd = -1;

	(void)state;
	put("logs/train.log", "new");
	put("logs/train.log.0", "old");
	put("logs/other.log", "other");
	put("secret.log", "secret");
	link_to("logs/link.log", "../secret.log");
	(void)snprintf(serve.logs, sizeof(serve.logs), "%s/logs", dir);
	refused(log_call("../secret", 0), -EPERM, "that is no guest's name");
	refused(log_call(".", 0), -EPERM, "that is no guest's name");
	refused(log_call("", 0), -EPERM, "that is no guest's name");
	refused(log_call("train", 16), -EPERM, "a console's log has fewer files");
	refused(log_call("link", 0), -EIO, "logs/link.log: Too many levels of symbolic links");
	refused(log_call("train", 2), -ENOENT, "logs/train.log.1");
	serve_call(&serve, &a, &fd, &c, sizeof(c));
	assert_int_equal(a.code, 0);
	assert_int_equal(read(fd, text, sizeof(text)), 3);
	assert_string_equal(text, "old");
	assert_int_equal(write(fd, "x", 1), -1);
	(void)close(fd);
	allowed(log_call("train", WIRE_LOG_DROP));
	assert_int_equal(access(at("logs/train.log"), F_OK), -1);
	assert_int_equal(access(at("logs/train.log.0"), F_OK), -1);
	assert_string_equal(content("logs/other.log"), "other");
	allowed(log_call("link", WIRE_LOG_DROP)); /* the link, not what it leads to */
	assert_string_equal(content("secret.log"), "secret");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_host_keeps_its_disks),
		cmocka_unit_test(the_host_keeps_its_swap),
		cmocka_unit_test(the_host_keeps_its_network),
		cmocka_unit_test(only_its_drivers),
		cmocka_unit_test(only_its_bits),
		cmocka_unit_test(nothing_else), cmocka_unit_test(only_its_logs),
		cmocka_unit_test(what_cannot_be_told_is_refused),
		cmocka_unit_test(the_rest_is_allowed),
		cmocka_unit_test(overrides_of_others_are_kept),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
