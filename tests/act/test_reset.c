/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Resets through sysfs, looking whether a function is whole, and the operator's program. */
#include "act/fixture.h"

#include <linux/pci_regs.h>
#include <sys/stat.h>

#define GPU_DIR FX_DEVICES "/" FX_GPU
#define PF_DIR  FX_DEVICES "/" FX_PF

static struct bdf bdf(const char *text)
{
	struct bdf b;

	assert_true(bdf_parse(&b, text));
	return b;
}

static void expect_reset(const struct fx *f, const char *fn, const struct bdf *mine, size_t n, int want, const char *text)
{
	struct error err = ERROR_INIT;
	char path[128], value[64];
	int r;

	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/reset", fn);
	fx_file(f, path, "");
	r = act_pci_reset(&f->pci, bdf(fn), mine, n, &err);
	if (r != want || (r < 0 && !strstr(err.text, text)))
		fail_msg("%d (%s) is not %d (%s)", r, err.text, want, text);
	assert_string_equal(fx_text(f, value, path), want == 0 ? "1" : ""); /* what is refused writes nothing */
}

static void resets(void **state)
{
	const struct bdf pf = bdf(FX_PF);
	struct error err = ERROR_INIT;
	char value[64];
	struct fx f;

	(void)state;
	fx_init(&f);
	expect_reset(&f, FX_GPU, NULL, 0, -ENOTTY, "its reset_method is empty");
	fx_file(&f, GPU_DIR "/reset_method", "flr bus\n");
	expect_reset(&f, FX_GPU, NULL, 0, 0, "");
	fx_file(&f, GPU_DIR "/reset_method", "bus\n"); /* the PF is on the same bus */
	expect_reset(&f, FX_GPU, NULL, 0, -EBUSY, "without hitting " FX_PF);
	expect_reset(&f, FX_GPU, &pf, 1, -ENOTTY, "the port above has no reset_subordinate");
	fx_file(&f, FX_DEVICES "/reset_subordinate", "");
	expect_reset(&f, FX_GPU, &pf, 1, -EBUSY, "together with " FX_PF ", which has driver mlx5_core");
	expect_reset(&f, FX_GPU, NULL, 0, -EBUSY, "without hitting " FX_PF);
	assert_int_equal(act_pci_reset_idle(&f.pci, bdf(FX_GPU), &err), -EBUSY);
	assert_string_equal(fx_text(&f, value, FX_DEVICES "/reset_subordinate"), "");
	fx_unlink(&f, PF_DIR "/driver");
	err = ERROR_INIT;
	assert_int_equal(act_pci_reset(&f.pci, bdf(FX_GPU), &pf, 1, &err), 0);
	assert_string_equal(fx_text(&f, value, FX_DEVICES "/reset_subordinate"), "1");
	assert_string_equal(fx_text(&f, value, GPU_DIR "/reset"), ""); /* once, all of them */
	fx_file(&f, FX_DEVICES "/reset_subordinate", "");
	assert_int_equal(act_pci_reset(&f.pci, bdf(FX_GPU), NULL, 0, &err), -EBUSY); /* it is nobody's, and not of the same guest */
	err = ERROR_INIT;
	assert_int_equal(act_pci_reset_idle(&f.pci, bdf(FX_GPU), &err), 0);
	assert_string_equal(fx_text(&f, value, FX_DEVICES "/reset_subordinate"), "1");
	fx_file(&f, PF_DIR "/reset_method", "flr\n");
	expect_reset(&f, FX_PF, NULL, 0, 0, "");
	fx_set_vfs(&f, 2);
	expect_reset(&f, FX_PF, NULL, 0, -EBUSY, "without hitting 0000:18:00.2");
	expect_reset(&f, FX_PF, (const struct bdf[]){ bdf("0000:18:00.3"), bdf("0000:18:00.2") }, 2, 0, "");
	assert_int_equal(act_pci_reset(&f.pci, bdf("0000:99:00.0"), NULL, 0, &err), -ENODEV);
	fx_unlink(&f, GPU_DIR "/reset_method");
	fx_unlink(&f, GPU_DIR "/reset");
	fx_file(&f, GPU_DIR "/reset_method", "flr\n");
	fx_dir(&f, GPU_DIR "/reset");
	err = ERROR_INIT;
	assert_int_equal(act_pci_reset(&f.pci, bdf(FX_GPU), NULL, 0, &err), -EIO);
	assert_non_null(strstr(err.text, "cannot reset " FX_GPU));
	fx_done(&f);
}

/* ---- is it whole ---------------------------------------------------------------------------------------- */

static void put_config(const struct fx *f, const char *fn, const uint8_t *bytes, size_t n)
{
	char path[128], buf[512];
	int fd;

	(void)snprintf(path, sizeof(path), FX_DEVICES "/%s/config", fn);
	fd = open(fx_path(f, buf, path), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	assert_int_equal(close(fd), 0);
}

/* An endpoint at 32 GT/s x16 with a 64-bit BAR 0, a 32-bit BAR 2, ACS, ATS and a serial number. */
static void make_config(uint8_t bytes[4096])
{
	static const uint8_t head[] = { 0xde, 0x10, 0x30, 0x23, 0x06, 0x00, 0x10, 0x00, 0xa1, 0x00, 0x02, 0x03 };
	static const uint8_t pcie[] = { 0x10, 0x00, 0x02, 0x00 };
	static const uint8_t extended[] = { 0x0d, 0x00, 0x01, 0x11, 0x1f, 0x00, 0x1d, 0x00, 0, 0, 0, 0, 0, 0, 0, 0,
					    0x0f, 0x00, 0x01, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
					    0x03, 0x00, 0x01, 0x00, 0x78, 0x56, 0x34, 0x12, 0xbc, 0x9a, 0x2d, 0xb0 };

	memset(bytes, 0, 4096);
	memcpy(bytes, head, sizeof(head));
	memcpy(bytes + 0x10, (const uint8_t[]){ 0x0c, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0x10, 0x9a }, 12);
	bytes[0x34] = 0x40;
	memcpy(bytes + 0x40, pcie, sizeof(pcie));
	bytes[0x40 + PCI_EXP_LNKSTA] = 0x05;
	bytes[0x41 + PCI_EXP_LNKSTA] = 0x01;
	memcpy(bytes + 0x100, extended, sizeof(extended));
	bytes[0x102] = 0x01; /* ACS, next 0x110; ATS, next 0x120; serial number, the last */
	bytes[0x103] = 0x11;
	bytes[0x113] = 0x12;
}

static void alive(void **state)
{
	struct error err = ERROR_INIT;
	struct act_alive now;
	uint8_t bytes[4096];
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf(FX_GPU), &err), -EIO); /* without a config space nothing is known */
	make_config(bytes);
	put_config(&f, FX_GPU, bytes, sizeof(bytes));
	fx_file(&f, GPU_DIR "/uevent", "DRIVER=nvidia\nPCI_ID=10DE:2330\nPCI_SUBSYS_ID=10DE:16C1\n");
	fx_file(&f, GPU_DIR "/aer_dev_correctable", "RxErr 7\nTOTAL_ERR_COR 7\n");
	fx_file(&f, GPU_DIR "/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 2\n");
	fx_file(&f, GPU_DIR "/aer_dev_fatal", "TOTAL_ERR_FATAL 1\n");
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf(FX_GPU), &err), 0);
	assert_true(now.answers && now.ats);
	assert_string_equal(now.id, "10DE:2330");
	assert_string_equal(now.serial, "b02d9abc12345678");
	assert_int_equal(now.link.speed, 5);
	assert_int_equal(now.link.width, 16);
	assert_int_equal(now.bars, 1 << 0 | 1 << 2);
	assert_int_equal(now.acs, 0x1d);
	assert_true(now.aer.known && now.aer.fatal == 1 && now.aer.nonfatal == 2 && now.aer.correctable == 7);
	memset(bytes + 0x10, 0, 0x18); /* as after a bus reset */
	bytes[0x10] = 0x0c;
	put_config(&f, FX_GPU, bytes, sizeof(bytes));
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf(FX_GPU), &err), 0);
	assert_int_equal(now.bars, 0);
	put_config(&f, FX_GPU, bytes, 64); /* without privilege: only the header */
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf(FX_GPU), &err), 0);
	assert_true(now.answers && !now.ats && now.acs == -1);
	assert_string_equal(now.serial, "");
	memset(bytes, 0xff, sizeof(bytes));
	put_config(&f, FX_GPU, bytes, sizeof(bytes));
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf(FX_GPU), &err), 0);
	assert_false(now.answers);
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf("0000:99:00.0"), &err), -ENODEV);
	fx_done(&f);
}

/* A VF has its PF's serial number, and no BARs of its own. */
static void alive_vf(void **state)
{
	struct error err = ERROR_INIT;
	struct act_alive now;
	uint8_t bytes[4096];
	struct fx f;

	(void)state;
	fx_init(&f);
	make_config(bytes);
	put_config(&f, FX_PF, bytes, sizeof(bytes));
	fx_set_vfs(&f, 1);
	fx_link(&f, FX_DEVICES "/0000:18:00.2/physfn", "../" FX_PF);
	memset(bytes, 0, sizeof(bytes));
	memset(bytes, 0xff, 4); /* 9.3.4.1.1: vendor and device read as ff */
	bytes[0x0b] = 0x02;
	put_config(&f, "0000:18:00.2", bytes, sizeof(bytes));
	assert_int_equal(act_pci_alive(&f.pci, &now, bdf("0000:18:00.2"), &err), 0);
	assert_true(now.answers);
	assert_string_equal(now.serial, "b02d9abc12345678");
	assert_int_equal(now.bars, 0);
	assert_int_equal(now.link.width, 0);
	fx_done(&f);
}

static void scrub(void **state)
{
	struct error err = ERROR_INIT;
	char program[512], value[64];
	struct fx f;

	(void)state;
	fx_init(&f);
	fx_file(&f, "scrub", "#!/bin/sh\necho \"$#$1\" >\"$0.out\"\ncase $1 in *18*) exit 3;; esac\n");
	(void)fx_path(&f, program, "scrub");
	assert_int_equal(chmod(program, 0755), 0);
	assert_int_equal(act_scrub(&f.pci, bdf(FX_GPU), program, 10, &err), 0);
	assert_string_equal(fx_text(&f, value, "scrub.out"), "1" FX_GPU);
	assert_int_equal(act_scrub(&f.pci, bdf(FX_PF), program, 10, &err), -EIO);
	assert_non_null(strstr(err.text, "scrub " FX_PF " failed"));
	fx_file(&f, "scrub", "#!/bin/sh\nsleep 60\n");
	err = ERROR_INIT;
	assert_int_equal(act_scrub(&f.pci, bdf(FX_GPU), program, 1, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "within 1 s"));
	err = ERROR_INIT;
	assert_int_equal(act_scrub(&f.pci, bdf(FX_GPU), "/nowhere/scrub", 1, &err), -EIO);
	assert_non_null(strstr(err.text, "/nowhere/scrub"));
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(resets), cmocka_unit_test(alive), cmocka_unit_test(alive_vf),
					    cmocka_unit_test(scrub) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
