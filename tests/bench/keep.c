/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What it costs to look at the ports of running guests twice a second: reads, one for each port, and CPU time of the
 * whole process, in an hour, with so many ports. Their config spaces are files in memory; a real one answers in about a microsecond more. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "act/pci.h"
#include "instance/fixture.h"

#define TICK_MS 20 /* the bench's, so that it is over soon; what is printed is for the default */
#define SECONDS 10
#define HOUR    (3600 * 1000 / 500)

static struct act_pci pci;

static int word(void *self, uint16_t *ret, struct bdf fn, enum act_word which, uint16_t set, uint16_t clear, struct error *err)
{
	(void)self;
	return act_pci_word(&pci, ret, fn, which, set, clear, err);
}

static void file(const char *dir, const char *name, const void *bytes, size_t len)
{
	char path[700];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_true(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static void folder(const char *root, const char *path)
{
	char text[512];

	for (const char *p = path; *p; p += *p == '/') {
		p += strcspn(p, "/");
		(void)snprintf(text, sizeof(text), "%s/%.*s", root, (int)(p - path), path);
		(void)mkdir(text, 0755);
	}
}

/* Header, PCIe capability of a switch port, ACS as Linux sets it. */
static void port(const char *root, const char *bdf)
{
	static const uint8_t acs[] = { 0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x5d, 0x00 };
	uint8_t bytes[4096] = { 0x00, 0x10, 0x30, 0xc0, 0x06, 0x00, 0x10, 0x00, 0x00, 0x00, 0x04, 0x06, 0x00, 0x00, 0x01, 0x00 };
	char dir[256], link[600], target[256];

	bytes[0x34] = 0x40, bytes[0x40] = 0x10, bytes[0x42] = 0x62;
	memcpy(bytes + 0x100, acs, sizeof(acs));
	(void)snprintf(dir, sizeof(dir), "sys/devices/pci0000:00/%s", bdf);
	folder(root, dir);
	(void)snprintf(link, sizeof(link), "%s/%s", root, dir);
	file(link, "config", bytes, sizeof(bytes));
	(void)snprintf(link, sizeof(link), "%s/sys/bus/pci/devices/%s", root, bdf);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s", bdf);
	assert_int_equal(symlink(target, link), 0);
}

static struct plan *plan_of(const char *root, unsigned n)
{
	struct plan *p = calloc(1, sizeof(*p));
	char bdf[BDF_TEXT_MAX];

	p->fits = true;
	p->step = arena_array(&p->arena, n + 1, sizeof(*p->step));
	p->domain_xml = arena_strdup(&p->arena, "<domain> </domain>");
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", i + 1);
		port(root, bdf);
		fx_step(p, PLAN_STEP_ACS, bdf, "0x5d", "0x5d");
	}
	fx_step(p, PLAN_STEP_DOMAIN, "a", "absent", "running");
	return p;
}

static double cpu(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void measure(unsigned n)
{
	struct plan_request req = test_request("{\"name\": \"a\"}");
	struct error err = ERROR_INIT;
	struct act_ops ops;
	struct plan *p;
	uint64_t calls, op = 0;
	double before;
	struct fx fx;

	fx_new(&fx);
	folder(fx.dir, "sys/bus/pci/devices");
	p = plan_of(fx.dir, n);
	assert_int_equal(host_root_open(&fx.root, fx.dir, &err), 0);
	pci = (struct act_pci){ .root = fx.root, .deadline_ms = 1000, .words = act_words_new() };
	ops = *fake_act(fx.machine).ops;
	ops.word = word;
	assert_int_equal(inst_manager_new(&fx.m, &(struct inst_env){ .store = fx.store, .act = { &ops, fx.machine }, .keep_ms = TICK_MS,
								     .keep_seconds = 30 }, &err), 0);
	assert_int_equal(inst_create(fx.m, &op, &req, p, "uuid", &err), 0);
	assert_true(fx_wait(&fx, op));
	(void)nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	calls = host_root_stats(fx.root).syscalls;
	before = cpu();
	(void)nanosleep(&(struct timespec){ .tv_sec = SECONDS }, NULL);
	calls = host_root_stats(fx.root).syscalls - calls;
	assert_true(n ? calls / n > 0 : calls == 0);
	printf("%5u  %10u  %10.2f\n", n, n * HOUR, (cpu() - before) * (n ? (double)HOUR * n / (double)calls : 3600.0 / SECONDS));
	fx_close(&fx);
	plan_request_done(&req);
	plan_free(p);
	act_words_free(pci.words);
	host_root_close(fx.root);
	fx_done(&fx);
}

int main(void)
{
	log_init((enum log_level)0);
	puts("ports  reads/hour  CPU s/hour");
	measure(0);
	measure(8);
	measure(100);
	return 0;
}
