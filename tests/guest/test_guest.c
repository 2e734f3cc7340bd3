/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The domain XML, read back through XPath, libvirt's schema and libvirt's test driver. */
#include "guest/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <libxml/xpathInternals.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

extern char **environ;

static char *make_xml(const struct fx *f)
{
	struct error err = ERROR_INIT;
	char *xml = NULL;

	if (guest_domain_xml(&xml, f->plan, &f->request, f->topo, &f->env, &err) < 0)
		fail_msg("%s", err.text);
	return xml;
}

/* What an XPath expression gives as text. */
static char *xpath(const char *xml, const char *expression)
{
	xmlDocPtr doc = xmlReadMemory(xml, (int)strlen(xml), "domain", NULL, XML_PARSE_NONET);
	xmlXPathContextPtr ctx;
	xmlXPathObjectPtr o;
	char *text;

	assert_non_null(doc);
	ctx = xmlXPathNewContext(doc);
	assert_int_equal(xmlXPathRegisterNs(ctx, (const xmlChar *)"v", (const xmlChar *)PLAN_DOMAIN_MARK), 0);
	o = xmlXPathEvalExpression((const xmlChar *)expression, ctx);
	if (!o)
		fail_msg("bad XPath: %s", expression);
	text = (char *)xmlXPathCastToString(o);
	xmlXPathFreeObject(o);
	xmlXPathFreeContext(ctx);
	xmlFreeDoc(doc);
	return text;
}

#define assert_xpath(xml, expression, expected)               \
	do {                                                  \
		char *got_ = xpath(xml, expression);          \
		assert_string_equal(got_, expected);          \
		xmlFree(got_);                                \
	} while (0)

/* The address attributes of the guest's place of a host function (bus in hex as the XML has it). */
#define HOSTDEV(bus, slot, function)                                                                           \
	"/domain/devices/hostdev[source/address[@domain='0x0000'][@bus='" bus "'][@slot='" slot "'][@function='" \
	function "']]"

static void whole_bundle(struct fx *f)
{
	fx_init(f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(f, 0, GIB, 3);
	fx_cell(f, 1, 512 * MIB, 1);
	fx_gpu(f, "0000:13:00.0");
	fx_gpu(f, "0000:83:00.0");
	fx_companion(f, "0000:13:00.1", "0000:13:00.0");
	fx_vf(f, "0000:15:00.3", "0000:15:00.0");
	fx_vf(f, "0000:84:00.2", "0000:84:00.0");
	f->request.kernel = arena_strdup(&f->plan->arena, "/boot/vmlinuz");
	f->request.initrd = arena_strdup(&f->plan->arena, "/boot/initrd");
	f->request.cmdline = arena_strdup(&f->plan->arena, "console=ttyS0");
	f->request.disk = arena_strdup(&f->plan->arena, "/srv/train-1.qcow2");
}

static void test_head(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/@type", "test");
	assert_xpath(xml, "/domain/name", "train-1");
	assert_xpath(xml, "/domain/uuid", "5c2f5f0e-7a0e-4a52-9d5e-0a4c5b6d7e8f");
	assert_xpath(xml, "count(/domain/metadata/v:domain)", "1");
	assert_xpath(xml, "/domain/memory[@unit='KiB']", "1572864");
	assert_xpath(xml, "/domain/currentMemory", "1572864");
	assert_xpath(xml, "/domain/vcpu", "4");
	assert_xpath(xml, "/domain/os/type[@machine='q35']", "hvm");
	assert_xpath(xml, "/domain/os/kernel", "/boot/vmlinuz");
	assert_xpath(xml, "/domain/os/initrd", "/boot/initrd");
	assert_xpath(xml, "/domain/os/cmdline", "console=ttyS0");
	assert_xpath(xml, "count(/domain/os/boot)", "0");
	assert_xpath(xml, "/domain/on_reboot", "restart");
	assert_xpath(xml, "/domain/devices/disk/driver/@type", "qcow2");
	assert_xpath(xml, "/domain/devices/disk/source/@file", "/srv/train-1.qcow2");
	assert_xpath(xml, "/domain/devices/serial[@type='pty']/log/@file", "/var/log/velad/train-1.log");
	assert_xpath(xml, "/domain/devices/rng/backend", "/dev/urandom");
	assert_xpath(xml, "count(/domain/devices/*[self::video or self::sound or self::input or self::graphics])", "0");
	fx_done(&f);
}

static void test_numa(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	xml = make_xml(&f);
	assert_xpath(xml, "count(/domain/cputune/vcpupin)", "4");
	assert_xpath(xml, "/domain/cputune/vcpupin[@vcpu='0']/@cpuset", "0-3,8-11");
	assert_xpath(xml, "/domain/cputune/vcpupin[@vcpu='2']/@cpuset", "0-3,8-11");
	assert_xpath(xml, "/domain/cputune/vcpupin[@vcpu='3']/@cpuset", "4-7,12-15");
	assert_xpath(xml, "/domain/cputune/emulatorpin/@cpuset", "0-15");
	assert_xpath(xml, "/domain/numatune/memory[@mode='strict']/@nodeset", "0-1");
	assert_xpath(xml, "/domain/numatune/memnode[@cellid='1'][@mode='strict']/@nodeset", "1");
	assert_xpath(xml, "/domain/cpu/@mode", "host-passthrough");
	assert_xpath(xml, "/domain/cpu/numa/cell[@id='0']/@cpus", "0-2");
	assert_xpath(xml, "/domain/cpu/numa/cell[@id='1']/@cpus", "3-3");
	assert_xpath(xml, "/domain/cpu/numa/cell[@id='1']/@memory", "524288");
	assert_xpath(xml, "/domain/cpu/numa/cell[@id='1']/distances/sibling[@id='0']/@value", "21");
	assert_xpath(xml, "/domain/cpu/numa/cell[@id='1']/distances/sibling[@id='1']/@value", "10");
	assert_xpath(xml, "count(//controller[@model='pcie-expander-bus'])", "2");
	assert_xpath(xml, "//controller[@model='pcie-expander-bus'][1]/target/node", "0");
	assert_xpath(xml, "//controller[@model='pcie-expander-bus'][2]/target/node", "1");
	fx_done(&f);
}

static void test_devices(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	xml = make_xml(&f);
	assert_xpath(xml, "count(/domain/devices/hostdev[@managed='no'])", "5");
	assert_xpath(xml, HOSTDEV("0x13", "0x00", "0x0") "/alias/@name", "ua-gpu0");
	assert_xpath(xml, HOSTDEV("0x13", "0x00", "0x1") "/alias/@name", "ua-gpu0-1");
	assert_xpath(xml, HOSTDEV("0x84", "0x00", "0x2") "/alias/@name", "ua-vf1");
	/* index 1 pxb, 2 port, 3 usp, 4 and 5 dsp; 6 pxb, 7 port, 8 usp, 9 and 10 dsp */
	assert_xpath(xml, HOSTDEV("0x13", "0x00", "0x0") "/address/@bus", "0x04");
	assert_xpath(xml, HOSTDEV("0x13", "0x00", "0x0") "/address/@multifunction", "on");
	assert_xpath(xml, HOSTDEV("0x13", "0x00", "0x1") "/address/@bus", "0x04");
	assert_xpath(xml, HOSTDEV("0x13", "0x00", "0x1") "/address/@function", "0x1");
	assert_xpath(xml, HOSTDEV("0x15", "0x00", "0x3") "/address/@bus", "0x05");
	assert_xpath(xml, HOSTDEV("0x83", "0x00", "0x0") "/address/@bus", "0x09");
	assert_xpath(xml, HOSTDEV("0x84", "0x00", "0x2") "/address/@bus", "0x0a");
	assert_xpath(xml, "//controller[@index='4']/@model", "pcie-switch-downstream-port");
	assert_xpath(xml, "//controller[@index='4']/address/@bus", "0x03");
	assert_xpath(xml, "//controller[@index='5']/address/@bus", "0x03");
	assert_xpath(xml, "//controller[@index='3']/@model", "pcie-switch-upstream-port");
	assert_xpath(xml, "//controller[@index='2']/@model", "pcie-root-port");
	assert_xpath(xml, "//controller[@index='0']/pcihole64", "536870912"); /* BARs of 128 GiB and a little */
	fx_done(&f);
}

static void test_types(void **state)
{
	autofree char *kvm = NULL, *qemu = NULL;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	f.env.type = "kvm";
	f.env.emulator = "/usr/bin/qemu-system-x86_64";
	f.env.console = NULL;
	kvm = make_xml(&f);
	assert_xpath(kvm, "/domain/@type", "kvm");
	assert_xpath(kvm, "/domain/cpu/@mode", "host-passthrough");
	assert_xpath(kvm, "/domain/cpu/maxphysaddr/@mode", "passthrough");
	assert_xpath(kvm, "/domain/devices/emulator", "/usr/bin/qemu-system-x86_64");
	assert_xpath(kvm, "count(/domain/devices/serial[@type='pty'])", "1");
	assert_xpath(kvm, "count(//log)", "0");
	f.env.type = "qemu";
	qemu = make_xml(&f);
	assert_xpath(qemu, "/domain/cpu/model", "Nehalem");
	assert_xpath(qemu, "count(/domain/cpu/numa/cell)", "2");
	fx_done(&f);
}

/* UEFI's window is sized by its own key, past libvirt; the test driver has no QEMU to tell. */
static void test_firmware(void **state)
{
	autofree char *xml = NULL, *test = NULL, *bios = NULL;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	f.env.type = "kvm";
	f.request.uefi = f.request.secure_boot = f.request.tpm = true;
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/os/@firmware", "efi");
	assert_xpath(xml, "/domain/os/firmware/feature[@name='secure-boot']/@enabled", "yes");
	assert_xpath(xml, "/domain/os/firmware/feature[@name='enrolled-keys']/@enabled", "yes");
	assert_xpath(xml, "/domain/features/smm/@state", "on");
	assert_xpath(xml, "/domain/devices/tpm[@model='tpm-crb']/backend[@type='emulator']/@version", "2.0");
	assert_xpath(xml, "string(//*[local-name()='arg'][2]/@value)", "name=opt/ovmf/X-PciMmio64Mb,string=524288");
	f.request.secure_boot = f.request.tpm = false;
	f.env.type = "test";
	test = make_xml(&f);
	assert_xpath(test, "/domain/os/firmware/feature[@name='secure-boot']/@enabled", "no");
	assert_xpath(test, "count(//tpm | //smm | //*[local-name()='commandline'])", "0");
	f.request.uefi = false;
	bios = make_xml(&f);
	assert_xpath(bios, "count(/domain/os/@firmware | /domain/os/firmware)", "0");
	fx_done(&f);
}

/* Emulator threads are on cores that no guest has, where there are such; memory is touched by as many threads as vCPUs. */
static void test_housekeeping(void **state)
{
	struct host_core core[4] = { { { 0, 8 }, 2 }, { { 1, 9 }, 2 }, { { 4, 12 }, 2 }, { { 5, 13 }, 2 } };
	autofree char *xml = NULL, *pages = NULL;
	struct inventory *inv;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	inv = (struct inventory *)topo_inventory(f.topo);
	inv->system.cpus.core = core;
	inv->system.cpus.ncores = 4;
	f.plan->host_cores = 1;
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/cputune/emulatorpin/@cpuset", "0,4,8,12");
	assert_xpath(xml, "/domain/iothreads", "1");
	assert_xpath(xml, "/domain/cputune/iothreadpin[@iothread='1']/@cpuset", "0,4,8,12");
	assert_xpath(xml, "/domain/devices/disk/driver/@iothread", "1");
	assert_xpath(xml, "/domain/memoryBacking/allocation[@mode='immediate']/@threads", "4");
	f.plan->hugepages = GIB;
	pages = make_xml(&f);
	assert_xpath(pages, "/domain/memoryBacking/hugepages/page[@unit='KiB']/@size", "1048576");
	assert_xpath(pages, "/domain/memoryBacking/allocation/@threads", "4");
	inv->system.cpus.ncores = 0;
	fx_done(&f);
}

/* No device, no cell with a known node: nothing is bound, nothing is mirrored. */
static void test_plain(void **state)
{
	autofree char *xml = NULL, *bound = NULL;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, -1, 512 * MIB, 2);
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/vcpu", "2");
	assert_xpath(xml, "count(//numatune | //cputune | //numa | //hostdev | //pcihole64)", "0");
	assert_xpath(xml, "count(//controller[@type='pci'])", "1");
	assert_xpath(xml, "/domain/os/boot/@dev", "hd");
	assert_xpath(xml, "count(//disk | //kernel | //cmdline | //iothreads | //iothreadpin)", "0");
	f.plan->cell[0].host_node = 1;
	bound = make_xml(&f);
	assert_xpath(bound, "/domain/numatune/memory/@nodeset", "1");
	assert_xpath(bound, "/domain/cpu/numa/cell[@id='0']/@cpus", "0-1");
	assert_xpath(bound, "count(//distances)", "0");
	fx_done(&f);
}

static void test_hostile(void **state)
{
	static const char evil[] = "a='\"<&>]]> </cmdline><x/>";
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	whole_bundle(&f);
	f.request.cmdline = arena_strdup(&f.plan->arena, evil);
	f.request.disk = arena_strdup(&f.plan->arena, "/srv/\"'<&>,x.raw");
	f.env.console = "/var/log/\"><evil/>";
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/os/cmdline", evil);
	assert_xpath(xml, "/domain/devices/disk/source/@file", "/srv/\"'<&>,x.raw");
	assert_xpath(xml, "/domain/devices/disk/driver/@type", "raw");
	assert_xpath(xml, "//log/@file", "/var/log/\"><evil/>");
	assert_xpath(xml, "count(//x | //evil)", "0");
	fx_done(&f);
}

static void assert_refused(const struct fx *f, const char *where)
{
	struct error err = ERROR_INIT;
	char *xml = NULL;

	assert_int_equal(guest_domain_xml(&xml, f->plan, &f->request, f->topo, &f->env, &err), -EINVAL);
	assert_null(xml);
	if (!strstr(err.text, where))
		fail_msg("%s", err.text);
}

static void test_control_characters(void **state)
{
	static const char *const bad[] = { "a\nb", "a\tb", "\x01", "\x7f", "\xff", "\xc0\xaf", "\xef\xbf\xbf", "a\xe4" };
	struct fx f;

	(void)state;
	whole_bundle(&f);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *old = f.request.cmdline;

		f.request.cmdline = arena_strdup(&f.plan->arena, bad[i]);
		assert_refused(&f, "cmdline");
		f.request.cmdline = old;
	}
	f.request.disk = arena_strdup(&f.plan->arena, "/srv/a\nb");
	assert_refused(&f, "file");
	fx_done(&f);
}

static void test_too_many_vcpus(void **state)
{
	struct error err = ERROR_INIT;
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	fx_cell(&f, 0, GIB, 127);
	fx_cell(&f, 1, GIB, 128);
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/vcpu", "255");
	f.plan->cell[0].vcpus++;
	free(xml);
	xml = NULL;
	assert_int_equal(guest_domain_xml(&xml, f.plan, &f.request, f.topo, &f.env, &err), -E2BIG);
	assert_non_null(strstr(err.text, "would have 256 vCPUs"));
	err = ERROR_INIT; /* whoever plans hears it as a reason */
	assert_int_equal(guest_plan_xml(f.plan, &f.request, f.topo, "kvm", NULL, &(struct guest_dirs){ .console = "/c", .images = "/i" }, &err), 0);
	assert_false(f.plan->fits);
	assert_string_equal(f.plan->reason[0].rule, "guest.limits");
	assert_string_equal(f.plan->reason[0].observed, "the guest would have 256 vCPUs, and for more than 255 libvirt wants an emulated IOMMU, which is "
							"in the way of its devices");
	assert_string_equal(f.plan->reason[0].needed, "255");
	fx_done(&f);
}

/* Of firmware and TPM what the host has not is a reason before anything is done, and only to who asks for it. */
static void test_lacks(void **state)
{
	static const struct {
		bool        uefi, secure, tpm;
		unsigned    lacks;
		const char *observed; /* NULL: it fits */
	} cases[] = {
		{ false, false, false, 7, NULL },
		{ true, true, true, 0, NULL },
		{ true, false, false, PLAN_LACKS_SECURE_BOOT | PLAN_LACKS_TPM, NULL },
		{ true, false, false, PLAN_LACKS_UEFI, "libvirt has no UEFI firmware" },
		{ true, true, false, PLAN_LACKS_SECURE_BOOT, "libvirt has no UEFI firmware with secure boot" },
		{ false, false, true, PLAN_LACKS_TPM, "libvirt has no emulated TPM 2.0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct guest_dirs dirs = { .console = "/c", .images = "/i", .lacks = cases[i].lacks };
		struct error err = ERROR_INIT;
		struct fx f;

		fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
		fx_cell(&f, 0, GIB, 1);
		f.request.uefi = cases[i].uefi;
		f.request.secure_boot = cases[i].secure;
		f.request.tpm = cases[i].tpm;
		assert_int_equal(guest_plan_xml(f.plan, &f.request, f.topo, "kvm", NULL, &dirs, &err), 0);
		assert_int_equal(f.plan->fits, !cases[i].observed);
		assert_true(!f.plan->domain_xml == !f.plan->fits);
		if (cases[i].observed) {
			assert_string_equal(f.plan->reason[0].rule, "guest.lacks");
			assert_string_equal(f.plan->reason[0].observed, cases[i].observed);
			assert_non_null(strstr(f.plan->reason[0].needed, "restart libvirt"));
		}
		fx_done(&f);
	}
}

static void test_block_disk(void **state)
{
	autofree char *xml = NULL;
	struct fx f;

	(void)state;
	fx_init(&f, fx_host, ARRAY_SIZE(fx_host));
	f.request.disk = arena_strdup(&f.plan->arena, "/dev/vg0/train");
	xml = make_xml(&f);
	assert_xpath(xml, "/domain/devices/disk[@type='block']/source/@dev", "/dev/vg0/train");
	assert_xpath(xml, "/domain/devices/channel/target[@type='virtio']/@name", "org.qemu.guest_agent.0");
	assert_xpath(xml, "/domain/devices/controller[@type='virtio-serial']/address/@function", "0x1");
	assert_xpath(xml, "/domain/devices/rng/address/@multifunction", "on");
	assert_xpath(xml, "/domain/memory", "524288"); /* no cells at all: the request's own numbers */
	assert_xpath(xml, "/domain/vcpu", "1");
	fx_done(&f);
}

/* ---- libvirt's own opinion -------------------------------------------------------------------------- */

static void assert_valid(const char *xml)
{
	char path[] = "/tmp/velad-test-XXXXXX";
	char *const argv[] = { (char[]){ "virt-xml-validate" }, path, (char[]){ "domain" }, NULL };
	posix_spawn_file_actions_t quiet;
	int fd = mkstemp(path), status = 0;
	pid_t pid;

	assert_true(fd >= 0 && write(fd, xml, strlen(xml)) == (ssize_t)strlen(xml));
	(void)close(fd);
	assert_int_equal(posix_spawn_file_actions_init(&quiet), 0);
	for (int out = 1; out <= 2; out++)
		assert_int_equal(posix_spawn_file_actions_addopen(&quiet, out, "/dev/null", O_WRONLY, 0), 0);
	if (posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) != 0) {
		(void)unlink(path);
		fail_msg("virt-xml-validate is not installed: make deps");
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)posix_spawn_file_actions_destroy(&quiet);
	(void)unlink(path);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("not valid:\n%s", xml);
}

static void test_schema(void **state)
{
	static const char *const types[] = { "kvm", "qemu", "test" };
	struct fx f;

	(void)state;
	whole_bundle(&f);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		autofree char *xml = NULL;

		f.env.type = types[i];
		xml = make_xml(&f);
		assert_valid(xml);
	}
	fx_done(&f);
}

static void test_driver_takes_it(void **state)
{
	virConnectPtr conn = virConnectOpen("test:///default");
	autofree char *xml = NULL, *back = NULL;
	virDomainPtr dom;
	struct fx f;

	(void)state;
	assert_non_null(conn);
	whole_bundle(&f);
	xml = make_xml(&f);
	dom = virDomainDefineXMLFlags(conn, xml, VIR_DOMAIN_DEFINE_VALIDATE);
	if (!dom)
		fail_msg("%s", virGetLastErrorMessage());
	assert_int_equal(virDomainCreate(dom), 0);
	assert_int_equal(virDomainIsActive(dom), 1);
	/* libvirt has added no bus and moved nothing */
	back = virDomainGetXMLDesc(dom, 0);
	assert_xpath(back, "count(//controller[@type='pci'])", "11");
	assert_xpath(back, HOSTDEV("0x13", "0x00", "0x1") "/address/@bus", "0x04");
	assert_xpath(back, HOSTDEV("0x84", "0x00", "0x2") "/alias/@name", "ua-vf1");
	assert_xpath(back, "count(/domain/metadata/v:domain)", "1");
	assert_int_equal(virDomainDestroy(dom), 0);
	assert_int_equal(virDomainUndefine(dom), 0);
	(void)virDomainFree(dom);
	(void)virConnectClose(conn);
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_numa),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_firmware),
		cmocka_unit_test(test_housekeeping),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_control_characters),
		cmocka_unit_test(test_too_many_vcpus),
		cmocka_unit_test(test_lacks),
		cmocka_unit_test(test_block_disk),
		cmocka_unit_test(test_schema),
		cmocka_unit_test(test_driver_takes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
