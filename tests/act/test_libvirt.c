/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Domains on libvirt's test driver, as velad-libvirt makes them. test:///default is one hypervisor for the whole
 * process, and comes with a domain "test" that velad did not make. */
#include "act/fixture.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <time.h>

#include "act/libvirt.h"
#include "base/arena.h"
#include "plan/plan.h"

#define URI  "test:///default"
#define MARK "<metadata><velad:domain xmlns:velad='" PLAN_DOMAIN_MARK "'/></metadata>"
#define XML(name, mark, more)                                                                                  \
	"<domain type='test'><name>" name "</name>" mark "<memory unit='MiB'>8</memory><vcpu>1</vcpu>"          \
	"<os><type arch='x86_64'>hvm</type></os>" more "</domain>"

static struct act_virt *new_virt(const char *uri)
{
	struct act_virt *v = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(act_virt_new(&v, uri, &err), 0);
	return v;
}

static void assert_state(struct act_virt *t, const char *name, enum act_domain expected)
{
	struct error err = ERROR_INIT;
	enum act_domain now;

	if (act_virt_domain(t, &now, name, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(now, expected);
}

static void assert_fails(int r, int code, const struct error *err, const char *text)
{
	assert_int_equal(r, code);
	if (!strstr(err->text, text))
		fail_msg("\"%s\" is not in: %s", text, err->text);
	assert_null(strchr(err->text, '\n'));
}

static void test_life(void **state)
{
	struct error err = ERROR_INIT;
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	assert_state(t, "a", ACT_DOMAIN_ABSENT);
	assert_int_equal(act_virt_stop(t, "a", &err), 0); /* absent is fine */
	assert_int_equal(act_virt_start(t, "a", XML("a", MARK, ""), &err), 0);
	assert_state(t, "a", ACT_DOMAIN_RUNNING);
	assert_int_equal(act_virt_start(t, "a", XML("a", MARK, ""), &err), 0); /* it is so already */
	assert_state(t, "a", ACT_DOMAIN_RUNNING);
	assert_int_equal(act_virt_stop(t, "a", &err), 0);
	assert_state(t, "a", ACT_DOMAIN_ABSENT);
	act_virt_free(t);
}

/* A crash between define and create leaves a domain of ours that does not run. */
static void test_left_over(void **state)
{
	struct error err = ERROR_INIT;
	virConnectPtr conn = virConnectOpen(URI);
	virDomainPtr dom;
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	dom = virDomainDefineXML(conn, XML("left", MARK, ""));
	assert_non_null(dom);
	assert_state(t, "left", ACT_DOMAIN_SHUTOFF);
	assert_int_equal(act_virt_start(t, "left", XML("left", MARK, ""), &err), 0);
	assert_state(t, "left", ACT_DOMAIN_RUNNING);
	assert_int_equal(act_virt_stop(t, "left", &err), 0);
	assert_state(t, "left", ACT_DOMAIN_ABSENT);
	(void)virDomainFree(dom);
	(void)virConnectClose(conn);
	act_virt_free(t);
}

static void test_foreign(void **state)
{
	struct error err = ERROR_INIT;
	virConnectPtr conn = virConnectOpen(URI);
	virDomainPtr dom;
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	assert_state(t, "test", ACT_DOMAIN_ABSENT); /* none of ours */
	assert_fails(act_virt_start(t, "test", XML("test", MARK, ""), &err), -EEXIST, &err,
		     "already has a domain test which velad did not make");
	assert_int_equal(act_virt_stop(t, "test", &err), 0);
	dom = virDomainLookupByName(conn, "test");
	assert_non_null(dom);
	assert_int_equal(virDomainIsActive(dom), 1);
	(void)virDomainFree(dom);
	(void)virConnectClose(conn);
	act_virt_free(t);
}

static void test_bad_xml(void **state)
{
	struct error err = ERROR_INIT;
	virConnectPtr conn = virConnectOpen(URI);
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	assert_fails(act_virt_start(t, "b", "<domain type='test'><name>b</name>", &err), -EREMOTEIO,
		     &err, "cannot define domain b: ");
	err = ERROR_INIT;
	assert_fails(act_virt_start(t, "b", XML("b", MARK, "<devices><nothing/></devices>"), &err),
		     -EREMOTEIO, &err, "cannot define domain b: ");
	err = ERROR_INIT;
	assert_fails(act_virt_start(t, "b", XML("b", "", ""), &err), -EINVAL, &err, "velad's mark");
	err = ERROR_INIT;
	assert_fails(act_virt_start(t, "b", XML("c", MARK, ""), &err), -EINVAL, &err, "another name");
	/* nothing is left behind */
	assert_null(virDomainLookupByName(conn, "b"));
	assert_null(virDomainLookupByName(conn, "c"));
	(void)virConnectClose(conn);
	act_virt_free(t);
}

static void test_unreachable(void **state)
{
	static const char uri[] = "qemu+unix:///system?socket=/nonexistent/libvirt-sock";
	struct error err = ERROR_INIT;
	enum act_domain now;
	struct act_offer offer;
	struct act_virt *t;

	(void)state;
	t = new_virt(uri);
	assert_fails(act_virt_domain(t, &now, "a", &err), -EREMOTEIO, &err, uri);
	assert_non_null(strstr(err.text, "systemctl start libvirtd"));
	err = ERROR_INIT;
	assert_fails(act_virt_offer(t, &offer, &err), -EREMOTEIO, &err, uri);
	err = ERROR_INIT;
	assert_fails(act_virt_start(t, "a", XML("a", MARK, ""), &err), -EREMOTEIO, &err, uri);
	err = ERROR_INIT;
	assert_fails(act_virt_stop(t, "a", &err), -EREMOTEIO, &err, uri);
	act_virt_free(t);
}

static void test_type(void **state)
{
	struct error err = ERROR_INIT;
	struct act_offer offer = { .qemu = 1, .lacks = 7 };
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	assert_int_equal(act_virt_offer(t, &offer, &err), 0);
	assert_string_equal(offer.type, "test");
	assert_int_equal(offer.qemu, 0); /* it is none */
	assert_int_equal(offer.lacks, 0);
	act_virt_free(t);
}

/* As libvirt 9 and 11 have it with QEMU, and with or without OVMF and swtpm beside it. */
static void test_lacks(void **state)
{
#define DOMAIN(firmware, secure, tpm)                                                                                                  \
	"<domainCapabilities><os supported='yes'><enum name='firmware'>" firmware "</enum><loader supported='yes'><enum name='type'>"  \
	"<value>pflash</value></enum><enum name='secure'>" secure "<value>no</value></enum></loader></os><devices>" tpm               \
	"</devices></domainCapabilities>"
#define TPM(backend, version) "<tpm supported='yes'><enum name='backendModel'>" backend "</enum>" version "</tpm>"
#define EMULATOR "<value>passthrough</value><value>emulator</value>"
	static const struct {
		const char *xml;
		unsigned    lacks;
	} cases[] = {
		{ DOMAIN("<value>efi</value>", "<value>yes</value>", TPM(EMULATOR, "<enum name='backendVersion'><value>1.2</value><value>2.0</value></enum>")), 0 },
		{ DOMAIN("<value>efi</value>", "<value>yes</value>", TPM(EMULATOR, "")), 0 }, /* one that does not say versions */
		{ DOMAIN("<value>efi</value>", "<value>yes</value>", TPM(EMULATOR, "<enum name='backendVersion'><value>1.2</value></enum>")), PLAN_LACKS_TPM },
		{ DOMAIN("<value>efi</value>", "", TPM("<value>passthrough</value>", "")), PLAN_LACKS_SECURE_BOOT | PLAN_LACKS_TPM },
		{ DOMAIN("", "", "<tpm supported='no'/>"), PLAN_LACKS_UEFI | PLAN_LACKS_SECURE_BOOT | PLAN_LACKS_TPM },
		{ "<domainCapabilities><os supported='yes'/></domainCapabilities>", 0 }, /* nothing known */
		{ "no XML", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(act_domain_lacks(cases[i].xml), cases[i].lacks);
}

/* ---- threads ---------------------------------------------------------------------------------------- */

static void *start_and_stop(void *self)
{
	struct act_virt *t = self;
	struct error err = ERROR_INIT;
	enum act_domain now;

	for (int i = 0; i < 50; i++)
		if (act_virt_domain(t, &now, "test", &err) < 0 || now != ACT_DOMAIN_ABSENT)
			return (void *)"a call failed";
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t thread[4];
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, start_and_stop, t), 0);
	for (int i = 0; i < 4; i++) {
		void *said;

		assert_int_equal(pthread_join(thread[i], &said), 0);
		assert_null(said);
	}
	act_virt_free(t);
}

struct seen {
	pthread_mutex_t lock;
	pthread_cond_t  more;
	unsigned        running, shutoff, absent, changed, connected;
};

static void on_change(void *self, const char *name, enum act_domain now)
{
	struct seen *s = self;

	(void)pthread_mutex_lock(&s->lock);
	s->connected += !name;
	if (!name || strcmp(name, "w") != 0) {
		(void)pthread_mutex_unlock(&s->lock);
		return;
	}
	s->changed += now == ACT_DOMAIN_CHANGED;
	s->running += now == ACT_DOMAIN_RUNNING;
	s->shutoff += now == ACT_DOMAIN_SHUTOFF;
	s->absent += now == ACT_DOMAIN_ABSENT;
	(void)pthread_cond_signal(&s->more);
	(void)pthread_mutex_unlock(&s->lock);
}

static void await(struct seen *s, const unsigned *count)
{
	struct timespec end;

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &end), 0);
	end.tv_sec += 10;
	(void)pthread_mutex_lock(&s->lock);
	while (!*count)
		if (pthread_cond_timedwait(&s->more, &s->lock, &end) != 0)
			break;
	(void)pthread_mutex_unlock(&s->lock);
	assert_int_equal(*count, 1);
}

static void test_watch(void **state)
{
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };
	struct error err = ERROR_INIT;
	virConnectPtr other;
	virDomainPtr dom;
	struct act_virt *t;

	(void)state;
	t = new_virt(URI);
	assert_state(t, "w", ACT_DOMAIN_ABSENT); /* connected already: the watch starts over */
	assert_int_equal(act_virt_watch(t, on_change, &seen, &err), 0);
	assert_int_equal(seen.connected, 1); /* whoever listed domains before has to do it again */
	assert_int_equal(act_virt_start(t, "w", XML("w", MARK, ""), &err), 0);
	await(&seen, &seen.changed);
	await(&seen, &seen.running);
	assert_int_equal(seen.shutoff, 0);

	other = virConnectOpen(URI);
	dom = virDomainLookupByName(other, "w");
	assert_non_null(dom);
	assert_int_equal(virDomainDestroy(dom), 0);
	await(&seen, &seen.shutoff);
	assert_state(t, "w", ACT_DOMAIN_SHUTOFF);
	assert_int_equal(act_virt_stop(t, "w", &err), 0);
	await(&seen, &seen.absent);
	(void)virDomainFree(dom);
	(void)virConnectClose(other);

	act_virt_unwatch(t);
	act_virt_unwatch(t); /* twice is fine */
	assert_int_equal(act_virt_start(t, "w", XML("w", MARK, ""), &err), 0);
	assert_int_equal(act_virt_stop(t, "w", &err), 0);
	assert_int_equal(seen.running + seen.shutoff + seen.absent, 3);
	assert_int_equal(act_virt_watch(t, on_change, &seen, &err), 0); /* and again */
	seen.running = 0;
	assert_int_equal(act_virt_start(t, "w", XML("w", MARK, ""), &err), 0);
	await(&seen, &seen.running);
	assert_int_equal(act_virt_stop(t, "w", &err), 0);
	act_virt_free(t); /* ends the thread */
}

/* Nobody there yet: the watch waits, and ends when told. */
static void test_watch_without_libvirt(void **state)
{
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };
	struct error err = ERROR_INIT;
	struct act_virt *t;

	(void)state;
	t = new_virt("qemu+unix:///system?socket=/nonexistent/libvirt-sock");
	assert_int_equal(act_virt_watch(t, on_change, &seen, &err), 0);
	act_virt_free(t);
	assert_int_equal(seen.running + seen.shutoff + seen.absent, 0);
	assert_int_equal(seen.connected, 1); /* said once, though it is tried again and again */
}

/* ---- all domains ---------------------------------------------------------------------------------------- */

#define SOURCE(bus, fn) "<source><address domain='0x0000' bus='" bus "' slot='0x00' function='" fn "'/></source>"

static const struct act_guest *guest_of(const struct act_guest *g, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(g[i].name, name) == 0)
			return &g[i];
	return NULL;
}

/* Of whoever made them, with all the ways in which a domain has a function of the host. */
static void test_domains(void **state)
{
	static const char uuid[] = "5c1f8a2e-6b1d-4f0e-9d65-0e6f6a9f7c11";
	struct error err = ERROR_INIT;
	virConnectPtr conn = virConnectOpen(URI);
	const struct act_guest *g;
	struct act_guest *all;
	struct arena arena = { 0 };
	virDomainPtr dom;
	struct act_virt *t;
	size_t n = 0;

	(void)state;
	t = new_virt(URI);
	dom = virDomainDefineXML(conn, XML("other", "<uuid>5c1f8a2e-6b1d-4f0e-9d65-0e6f6a9f7c11</uuid>",
		"<devices><hostdev mode='subsystem' type='pci' managed='no'>" SOURCE("0x19", "0x0") "</hostdev>"
		"<hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>"
		"<interface type='hostdev'><mac address='52:54:00:6d:90:02'/><source><address type='pci' domain='0x0000' bus='0x1a' slot='0x00'"
		" function='0x1'/></source></interface></devices>"));
	assert_non_null(dom);
	assert_int_equal(act_virt_start(t, "mine", XML("mine", MARK, ""), &err), 0);
	assert_int_equal(act_virt_domains(t, &all, &n, &arena, &err), 0);
	g = guest_of(all, n, "other");
	assert_non_null(g);
	assert_string_equal(g->uuid, uuid);
	assert_int_equal(g->state, ACT_DOMAIN_SHUTOFF);
	assert_true(g->known && !g->ours && g->n == 2);
	assert_true(bdf_in(g->device, g->n, (struct bdf){ .bus = 0x19 }) && bdf_in(g->device, g->n, (struct bdf){ .bus = 0x1a, .devfn = 1 }));
	g = guest_of(all, n, "mine");
	assert_true(g && g->known && g->ours && g->n == 0 && g->state == ACT_DOMAIN_RUNNING);
	g = guest_of(all, n, "test");
	assert_true(g && g->known && !g->ours && g->n == 0 && g->state == ACT_DOMAIN_RUNNING);

	assert_int_equal(virDomainRename(dom, "renamed", 0), 0); /* behind our back: its uuid stays */
	assert_int_equal(act_virt_domains(t, &all, &n, &arena, &err), 0);
	assert_null(guest_of(all, n, "other"));
	assert_string_equal(guest_of(all, n, "renamed")->uuid, uuid);
	assert_int_equal(virDomainUndefine(dom), 0);
	assert_int_equal(act_virt_stop(t, "mine", &err), 0);
	(void)virDomainFree(dom);
	(void)virConnectClose(conn);
	arena_done(&arena);
	act_virt_free(t);
}

static void test_domains_unknown(void **state)
{
	struct error err = ERROR_INIT;
	struct arena arena = { 0 };
	struct act_guest *all;
	struct act_virt *t;
	size_t n = 0;

	(void)state;
	t = new_virt("qemu+unix:///system?socket=/nonexistent/libvirt-sock");
	assert_fails(act_virt_domains(t, &all, &n, &arena, &err), -EREMOTEIO, &err, "systemctl start libvirtd");
	arena_done(&arena);
	act_virt_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_left_over),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_bad_xml),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_type),
		cmocka_unit_test(test_lacks),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_watch),
		cmocka_unit_test(test_watch_without_libvirt),
		cmocka_unit_test(test_domains),
		cmocka_unit_test(test_domains_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
