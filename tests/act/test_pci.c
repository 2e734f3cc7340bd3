/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Drivers, VF counts, control words and power, on a root that reacts as the kernel would, and on one that does not. */
#include "act/fixture.h"

#include <signal.h>
#include <sys/resource.h>

#define GPU_DIR FX_DEVICES "/" FX_GPU
#define PF_DIR  FX_DEVICES "/" FX_PF

static const struct act_driver vfio = { .driver = "vfio-pci", .override = "vfio-pci" };

static struct bdf bdf(const char *text)
{
	struct bdf b;

	assert_true(bdf_parse(&b, text));
	return b;
}

static void assert_driver(const struct fx *f, const char *fn, const char *driver, const char *override)
{
	struct error err = ERROR_INIT;
	struct act_driver now;

	assert_int_equal(act_pci_driver(&f->pci, &now, bdf(fn), &err), 0);
	assert_string_equal(now.driver, driver);
	assert_string_equal(now.override, override);
}

static void assert_fails(int r, int code, const struct error *err, const char *text)
{
	assert_int_equal(r, code);
	assert_int_equal(err->code, code);
	if (!strstr(err->text, text))
		fail_msg("\"%s\" is not in: %s", text, err->text);
}

static void test_read(void **state)
{
	struct error err = ERROR_INIT;
	struct act_driver now;
	uint16_t n = 77;
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_driver(&f, FX_GPU, "nvidia", "");
	fx_file(&f, GPU_DIR "/driver_override", "vfio-pci\n");
	fx_unlink(&f, GPU_DIR "/driver");
	assert_driver(&f, FX_GPU, "", "vfio-pci");
	fx_unlink(&f, GPU_DIR "/driver_override"); /* kernels before 3.16 */
	assert_driver(&f, FX_GPU, "", "");
	assert_fails(act_pci_driver(&f.pci, &now, bdf("0000:99:00.0"), &err), -ENODEV, &err, "0000:99:00.0");
	assert_int_equal(act_pci_vf_count(&f.pci, &n, bdf(FX_PF), &err), 0);
	assert_int_equal(n, 0);
	assert_fails(act_pci_vf_count(&f.pci, &n, bdf(FX_GPU), &err), -EIO, &err, "no SR-IOV");
	assert_fails(act_pci_vf_count(&f.pci, &n, bdf("0000:99:00.0"), &err), -ENODEV, &err, "0000:99:00.0");
	fx_done(&f);
}

static void test_bind_and_back(void **state)
{
	static const struct act_driver nvidia = { .driver = "nvidia" };
	static const struct act_driver bare = { 0 };
	struct error err = ERROR_INIT;
	char value[64];
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_start_kernel(&f);
	assert_int_equal(act_pci_driver_set(&f.pci, bdf(FX_GPU), &vfio, &err), 0);
	assert_driver(&f, FX_GPU, "vfio-pci", "vfio-pci");
	assert_int_equal(act_pci_driver_set(&f.pci, bdf(FX_GPU), &nvidia, &err), 0);
	assert_driver(&f, FX_GPU, "nvidia", "");
	assert_string_equal(fx_text(&f, value, GPU_DIR "/driver_override"), ""); /* "\n" was written */
	assert_int_equal(act_pci_driver_set(&f.pci, bdf(FX_GPU), &bare, &err), 0);
	assert_driver(&f, FX_GPU, "", "");
	fx_done(&f);
}

static void test_autoprobe(void **state)
{
	struct error err = ERROR_INIT;
	char value[64];
	int now = 7;
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_int_equal(act_pci_autoprobe(&f.pci, &now, bdf(FX_PF), ACT_OFF, &err), 0); /* an old kernel has no such file */
	assert_int_equal(now, -1);
	fx_file(&f, FX_DEVICES "/" FX_PF "/sriov_drivers_autoprobe", "1\n");
	assert_int_equal(act_pci_autoprobe(&f.pci, &now, bdf(FX_PF), ACT_LOOK, &err), 0);
	assert_int_equal(now, 1);
	assert_int_equal(act_pci_autoprobe(&f.pci, &now, bdf(FX_PF), ACT_OFF, &err), 0);
	assert_int_equal(now, 0);
	assert_string_equal(fx_text(&f, value, FX_DEVICES "/" FX_PF "/sriov_drivers_autoprobe"), "0");
	fx_file(&f, FX_DEVICES "/" FX_PF "/sriov_drivers_autoprobe", "perhaps\n");
	assert_fails(act_pci_autoprobe(&f.pci, &now, bdf(FX_PF), ACT_ON, &err), -EIO, &err, "cannot read sriov_drivers_autoprobe");
	assert_fails(act_pci_autoprobe(&f.pci, &now, bdf("0000:99:00.0"), ACT_ON, &err), -ENODEV, &err, "0000:99:00.0");
	fx_done(&f);
}

/* What is so already is not written: the files to write to are not even there. */
static void test_idempotent(void **state)
{
	static const struct act_driver nvidia = { .driver = "nvidia" };
	struct error err = ERROR_INIT;
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_unlink(&f, "sys/bus/pci/drivers/nvidia/bind");
	fx_unlink(&f, "sys/bus/pci/drivers/nvidia/unbind");
	assert_int_equal(act_pci_driver_set(&f.pci, bdf(FX_GPU), &nvidia, &err), 0);
	assert_int_equal(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 0, &err), 0);
	fx_done(&f);
}

/* Nothing reacts here: the orders are written, and their absence is noticed. */
static void test_no_effect(void **state)
{
	struct error err = ERROR_INIT;
	char value[64];
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_fails(act_pci_driver_set(&f.pci, bdf(FX_GPU), &vfio, &err), -ETIMEDOUT, &err,
		     FX_GPU " still has driver nvidia and override vfio-pci");
	assert_string_equal(fx_text(&f, value, GPU_DIR "/driver_override"), "vfio-pci");
	assert_string_equal(fx_text(&f, value, "sys/bus/pci/drivers/nvidia/unbind"), FX_GPU);
	assert_string_equal(fx_text(&f, value, "sys/bus/pci/drivers/vfio-pci/bind"), FX_GPU);
	err = ERROR_INIT;
	assert_fails(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 2, &err), -ETIMEDOUT, &err, "not each has its device");
	fx_done(&f);
}

static void test_bind_refused(void **state)
{
	static const struct act_driver ghost = { .driver = "ghost" };
	struct error err = ERROR_INIT;
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_start_kernel(&f);
	assert_fails(act_pci_driver_set(&f.pci, bdf(FX_GPU), &ghost, &err), -EIO, &err, "no driver ghost in the kernel");
	err = ERROR_INIT;
	f.vfio_refuses = true;
	assert_fails(act_pci_driver_set(&f.pci, bdf(FX_GPU), &vfio, &err), -ETIMEDOUT, &err, "to have driver vfio-pci");
	err = ERROR_INIT;
	assert_fails(act_pci_driver_set(&f.pci, bdf("0000:99:00.0"), &vfio, &err), -ENODEV, &err, "0000:99:00.0");
	fx_done(&f);
}

/* A write that fails: here because the attribute is a directory (EISDIR). */
static void test_write_errors(void **state)
{
	struct error err = ERROR_INIT;
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_unlink(&f, GPU_DIR "/driver");
	fx_unlink(&f, "sys/bus/pci/drivers/vfio-pci/bind");
	fx_dir(&f, "sys/bus/pci/drivers/vfio-pci/bind");
	assert_fails(act_pci_driver_set(&f.pci, bdf(FX_GPU), &vfio, &err), -EIO, &err, "cannot bind it to vfio-pci");
	err = ERROR_INIT;
	fx_unlink(&f, GPU_DIR "/iommu_group");
	assert_fails(act_pci_driver_set(&f.pci, bdf(FX_GPU), &vfio, &err), -EIO, &err, "without an IOMMU group");
	fx_done(&f);
}

static void test_text_root_is_read_only(void **state)
{
	static const char text[] = "# velad text host 1\n"
				   "sys/bus/pci/devices/0000:17:00.0 -> ../../../devices/pci0000:15/0000:17:00.0\n"
				   "sys/devices/pci0000:15/0000:17:00.0/driver -> ../../../bus/pci/drivers/nvidia\n"
				   "sys/devices/pci0000:15/0000:17:00.0/driver_override\t(null)\n";
	auto_(host_root_close) struct host_root *root = NULL;
	struct error err = ERROR_INIT;
	struct act_pci pci = { .deadline_ms = 100 };
	struct act_driver now;

	(void)state;
	if (host_root_parse_text(&root, text, strlen(text), "test", &err) < 0)
		fail_msg("%s", err.text);
	pci.root = root;
	assert_int_equal(act_pci_driver(&pci, &now, bdf(FX_GPU), &err), 0);
	assert_string_equal(now.driver, "nvidia");
	assert_fails(act_pci_driver_set(&pci, bdf(FX_GPU), &vfio, &err), -EIO, &err, "must be root on the real machine");
}

static void assert_count(const struct fx *f, uint16_t n)
{
	struct error err = ERROR_INIT;
	uint16_t now;

	assert_int_equal(act_pci_vf_count(&f->pci, &now, bdf(FX_PF), &err), 0);
	assert_int_equal(now, n);
}

static void test_vfs(void **state)
{
	struct error err = ERROR_INIT;
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_start_kernel(&f);
	assert_int_equal(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 3, &err), 0);
	assert_count(&f, 3);
	assert_driver(&f, "0000:18:00.4", "", "");
	assert_int_equal(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 3, &err), 0);
	assert_int_equal(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 2, &err), 0);
	assert_count(&f, 2);
	assert_fails(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 5, &err), -ENOSPC, &err, "at most 4 VFs, 5 were asked for");
	assert_count(&f, 2);
	assert_int_equal(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 0, &err), 0);
	assert_count(&f, 0);
	fx_done(&f);
}

static void test_used_vfs_stay(void **state)
{
	struct error err = ERROR_INIT;
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_start_kernel(&f);
	assert_int_equal(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 2, &err), 0);
	assert_int_equal(act_pci_driver_set(&f.pci, bdf("0000:18:00.3"), &vfio, &err), 0);
	assert_fails(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 0, &err), -EBUSY, &err, "0000:18:00.3");
	err = ERROR_INIT;
	assert_fails(act_pci_vf_count_set(&f.pci, bdf(FX_PF), 4, &err), -EBUSY, &err, "0000:18:00.3");
	assert_count(&f, 2);
	fx_done(&f);
}

/* With no bytes allowed, the kernel refuses the write: what is said then names PF, driver and number. */
static void test_vf_write_refused(void **state)
{
	struct error err = ERROR_INIT;
	struct rlimit old, none;
	struct fx f;
	int r;

	(void)state;
	fx_init(&f);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	r = act_pci_vf_count_set(&f.pci, bdf(FX_PF), 2, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_fails(r, -EIO, &err, FX_PF ": driver mlx5_core refused 2 VFs");
	fx_done(&f);
}

/* ---- ACS control ------------------------------------------------------------------------------------- */

#define ACS_AT 0x148 /* where the capability is; control is six bytes on */

static void put_config(const struct fx *f, const uint8_t bytes[4096])
{
	char buf[512];
	int fd = open(fx_path(f, buf, GPU_DIR "/config"), O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, 4096), 4096);
	assert_int_equal(close(fd), 0);
}

/* A port's config space: header, PCIe capability, and the ACS capability behind another one. */
static void make_port(const struct fx *f, uint8_t bytes[4096], uint8_t cap, uint8_t ctl)
{
	static const uint8_t head[] = { 0x00, 0x10, 0x30, 0xc0, 0x06, 0x00, 0x10, 0x00, 0x00, 0x00, 0x04, 0x06, 0x00, 0x00, 0x01, 0x00 };
	static const uint8_t pcie[] = { 0x10, 0x00, 0x62, 0x00 };
	static const uint8_t first[] = { 0x03, 0x00, 0x81, 0x14 }; /* serial number, next 0x148 */
	const uint8_t acs[] = { 0x0d, 0x00, 0x01, 0x00, cap, 0x00, ctl, 0x00 };

	memset(bytes, 0, 4096);
	memcpy(bytes, head, sizeof(head));
	bytes[0x34] = 0x40;
	memcpy(bytes + 0x40, pcie, sizeof(pcie));
	memcpy(bytes + 0x100, first, sizeof(first));
	memcpy(bytes + ACS_AT, acs, sizeof(acs));
	put_config(f, bytes);
}

/* The file is these bytes, but for the control word. */
static void assert_config(const struct fx *f, const uint8_t bytes[4096], uint8_t ctl)
{
	uint8_t now[4096];
	char buf[512];
	int fd = open(fx_path(f, buf, GPU_DIR "/config"), O_RDONLY);

	assert_int_equal(read(fd, now, sizeof(now)), 4096);
	assert_int_equal(close(fd), 0);
	assert_int_equal(now[ACS_AT + 6], ctl);
	now[ACS_AT + 6] = bytes[ACS_AT + 6];
	assert_memory_equal(now, bytes, sizeof(now));
}

static void test_acs(void **state)
{
	struct error err = ERROR_INIT;
	uint8_t bytes[4096];
	uint16_t ctl = 0;
	struct fx f;

	(void)state;
	fx_init(&f);
	make_port(&f, bytes, 0x5f, 0x1f);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), 0);
	assert_int_equal(ctl, 0x1f);
	assert_config(&f, bytes, 0x1f);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0x40, 0x02, &err), 0);
	assert_int_equal(ctl, 0x5d);
	assert_config(&f, bytes, 0x5d);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0x02, 0x40, &err), 0); /* and back */
	assert_config(&f, bytes, 0x1f);
	fx_done(&f);
}

static uint64_t calls(const struct fx *f)
{
	return host_root_stats(f->root).syscalls;
}

/* Looks are many: the second is one read. It believes nothing but what it reads. */
static void test_look_again(void **state)
{
	struct error err = ERROR_INIT;
	uint8_t bytes[4096];
	uint16_t ctl = 0;
	uint64_t before;
	struct timespec t[2];
	struct fx f;

	(void)state;
	fx_init(&f);
	f.pci.words = act_words_new();
	make_port(&f, bytes, 0x5f, 0x1d);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), 0);
	before = calls(&f);
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[0]);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), 0);
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[1]);
	assert_int_equal(calls(&f) - before, 100000);
	print_message("# a look at a known word: 1 call, %ld ns of CPU\n",
		      ((t[1].tv_sec - t[0].tv_sec) * 1000000000 + t[1].tv_nsec - t[0].tv_nsec) / 100000);
	assert_int_equal(ctl, 0x1d);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0x40, 0, &err), 0);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), 0);
	assert_int_equal(ctl, 0x5d);
	memmove(bytes + ACS_AT + 16, bytes + ACS_AT, 8); /* another device: its capability lies elsewhere */
	memset(bytes + ACS_AT, 0, 8);
	bytes[0x102] = 0x01, bytes[0x103] = (ACS_AT + 16) >> 4;
	bytes[0x102] = (uint8_t)(1 | ((ACS_AT + 16) & 0xf) << 4);
	put_config(&f, bytes);
	assert_int_equal(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), 0);
	assert_int_equal(ctl, 0x1d);
	memset(bytes, 0xff, sizeof(bytes));
	put_config(&f, bytes);
	assert_fails(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), -EIO, &err, "reads as ff");
	act_words_free(f.pci.words);
	fx_done(&f);
}

static void test_acs_refused(void **state)
{
	struct error err = ERROR_INIT;
	uint8_t bytes[4096];
	uint16_t ctl = 0;
	char buf[512];
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_fails(act_pci_word(&f.pci, &ctl, bdf("0000:99:00.0"), ACT_ACS, 0, 0, &err), -ENODEV, &err, "0000:99:00.0");
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), -EIO, &err, "cannot read the config space of " FX_GPU);
	make_port(&f, bytes, 0x1f, 0x1d);
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0x40, 0, &err), -ENXIO, &err,
		     "port " FX_GPU " has no DirectTrans");
	assert_config(&f, bytes, 0x1d);
	assert_int_equal(truncate(fx_path(&f, buf, GPU_DIR "/config"), 64), 0); /* what an ordinary user sees */
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), -EIO, &err, "cannot read the ACS capability");
	make_port(&f, bytes, 0x5f, 0x1d);
	bytes[0x102] = 1, bytes[0x103] = 0; /* the list ends before it */
	put_config(&f, bytes);
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), -ENXIO, &err, "has no ACS capability");
	memset(bytes, 0xff, sizeof(bytes));
	put_config(&f, bytes);
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &ctl, bdf(FX_GPU), ACT_ACS, 0, 0, &err), -EIO, &err, "reads as ff");
	fx_done(&f);
}

static void put16(uint8_t *bytes, size_t at, uint16_t v)
{
	bytes[at] = (uint8_t)v;
	bytes[at + 1] = (uint8_t)(v >> 8);
}

/* Device control and its second; status, which lies beside and is cleared by writing ones, stays. ATS is only looked at. */
static void test_words(void **state)
{
	enum { EXP = 0x40, ATS = 0x148 };
	static const uint8_t ats[] = { 0x0f, 0x00, 0x01, 0x00, 0x20, 0x00, 0x00, 0x80 };
	struct error err = ERROR_INIT;
	uint8_t bytes[4096];
	uint16_t v = 0;
	struct fx f;

	(void)state;
	fx_init(&f);
	make_port(&f, bytes, 0, 0);
	put16(bytes, EXP + 4, 0x8020); /* DevCap: extended tags */
	put16(bytes, EXP + 8, 0x2827);
	put16(bytes, EXP + 10, 0x000f); /* DevSta: every error */
	put16(bytes, EXP + 0x28, 0x0006);
	memcpy(bytes + ATS, ats, sizeof(ats));
	put_config(&f, bytes);
	assert_int_equal(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_ATS, 0, 0, &err), 0);
	assert_int_equal(v, 0x8000);
	assert_int_equal(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_DEVCTL, 0x5110, 0x2000, &err), 0);
	assert_int_equal(v, 0x5937);
	put16(bytes, EXP + 8, 0x5937);
	assert_config(&f, bytes, 0x00); /* of ATS at that place */
	assert_int_equal(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_DEVCTL, 0x2000, 0x5110, &err), 0); /* and back */
	assert_int_equal(v, 0x2827);
	assert_fails(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_DEVCTL2, 0x1000, 0, &err), -ENXIO, &err, "function " FX_GPU " has no 10BitTagReq");
	bytes[EXP + 0x26] = 0x03; /* DevCap2: 10-bit tags, as completer and requester */
	bytes[EXP + 5] = 0x80;
	bytes[EXP + 4] = 0; /* no extended tags */
	put_config(&f, bytes);
	assert_int_equal(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_DEVCTL2, 0x1000, 0, &err), 0);
	assert_int_equal(v, 0x1006);
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_DEVCTL, 0x110, 0, &err), -ENXIO, &err, "has no ExtTag");
	err = ERROR_INIT;
	assert_fails(act_pci_word(&f.pci, &v, bdf(FX_GPU), ACT_ACS, 0, 0, &err), -ENXIO, &err, "has no ACS capability");
	fx_done(&f);
}

static void test_power(void **state)
{
	static const struct act_power awake = { "on", 0 }, was = { "auto", 1 }, control = { "auto", -1 };
	struct error err = ERROR_INIT;
	struct act_power now;
	char value[64];
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_int_equal(act_pci_power(&f.pci, &now, bdf(FX_GPU), NULL, &err), 0);
	assert_string_equal(now.control, ""); /* no such files: nothing sleeps, and nothing is to be written */
	assert_int_equal(now.d3cold, -1);
	assert_int_equal(act_pci_power(&f.pci, &now, bdf(FX_GPU), &awake, &err), 0);
	fx_dir(&f, GPU_DIR "/power");
	fx_file(&f, GPU_DIR "/power/control", "auto\n");
	fx_file(&f, GPU_DIR "/d3cold_allowed", "1\n");
	assert_int_equal(act_pci_power(&f.pci, &now, bdf(FX_GPU), &awake, &err), 0);
	assert_string_equal(now.control, "on");
	assert_int_equal(now.d3cold, 0);
	assert_int_equal(act_pci_power(&f.pci, &now, bdf(FX_GPU), &control, &err), 0);
	assert_string_equal(now.control, "auto");
	assert_int_equal(now.d3cold, 0); /* was not asked for */
	assert_int_equal(act_pci_power(&f.pci, &now, bdf(FX_GPU), &was, &err), 0);
	assert_string_equal(fx_text(&f, value, GPU_DIR "/d3cold_allowed"), "1");
	assert_fails(act_pci_power(&f.pci, &now, bdf("0000:99:00.0"), NULL, &err), -ENODEV, &err, "0000:99:00.0");
	fx_file(&f, GPU_DIR "/d3cold_allowed", "perhaps\n");
	err = ERROR_INIT;
	assert_fails(act_pci_power(&f.pci, &now, bdf(FX_GPU), NULL, &err), -EIO, &err, "cannot read d3cold_allowed");
	fx_unlink(&f, GPU_DIR "/d3cold_allowed");
	fx_unlink(&f, GPU_DIR "/power/control");
	fx_dir(&f, GPU_DIR "/power/control");
	err = ERROR_INIT;
	assert_fails(act_pci_power(&f.pci, &now, bdf(FX_GPU), &awake, &err), -EIO, &err, "power/control");
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_bind_and_back),
		cmocka_unit_test(test_autoprobe),
		cmocka_unit_test(test_idempotent),
		cmocka_unit_test(test_no_effect),
		cmocka_unit_test(test_bind_refused),
		cmocka_unit_test(test_write_errors),
		cmocka_unit_test(test_text_root_is_read_only),
		cmocka_unit_test(test_vfs),
		cmocka_unit_test(test_used_vfs_stay),
		cmocka_unit_test(test_vf_write_refused),
		cmocka_unit_test(test_acs),
		cmocka_unit_test(test_acs_refused),
		cmocka_unit_test(test_look_again),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_power),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
