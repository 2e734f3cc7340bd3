/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Image files: headers that are damaged or ask for other files, whatever bytes there are; and storage on libvirt's test driver. */
#include "program.h"
#include "support.h"

#include <endian.h>
#include <sys/stat.h>

#include "act/act.h"
#include "act/image.h"
#include "host/root.h"

static void put32(unsigned char *head, size_t at, uint32_t v)
{
	v = htobe32(v);
	memcpy(head + at, &v, sizeof(v));
}

static void put64(unsigned char *head, size_t at, uint64_t v)
{
	v = htobe64(v);
	memcpy(head + at, &v, sizeof(v));
}

static void qcow2(unsigned char head[ACT_IMAGE_HEAD])
{
	memset(head, 0, ACT_IMAGE_HEAD);
	memcpy(head, "QFI\xfb", 4);
	put32(head, 4, 3);
	put32(head, 20, 16);
	put64(head, 24, 10 << 20);
	put32(head, 100, 104);
}

static void looks(const unsigned char *head, size_t n, const char *format, int code, const char *says)
{
	struct error err = ERROR_INIT;
	struct act_image i;
	int r = act_image_look(&i, head, n, 65536, format, &err);

	if (r != code || (says && !strstr(err.text, says)))
		fail_msg("%d %s, wanted %d %s", r, err.text, code, says ? says : "");
}

static void headers(void **state)
{
	unsigned char head[ACT_IMAGE_HEAD];
	struct error err = ERROR_INIT;
	struct act_image i;

	(void)state;
	qcow2(head);
	assert_int_equal(act_image_look(&i, head, sizeof(head), 65536, NULL, &err), 0);
	assert_int_equal(i.format, ACT_QCOW2);
	assert_int_equal(i.virtual_size, 10 << 20);
	assert_int_equal(i.size, 65536);
	looks(head, sizeof(head), "raw", -EINVAL, "it is qcow2, and not raw");
	looks(head, 100, NULL, -EINVAL, "header is damaged"); /* cut off */
	put64(head, 8, 512);
	looks(head, sizeof(head), NULL, -EINVAL, "backing file");
	qcow2(head);
	put64(head, 72, 4);
	looks(head, sizeof(head), NULL, -EINVAL, "data are in another file");
	put64(head, 72, 2);
	looks(head, sizeof(head), NULL, -EINVAL, "qemu-img check");
	put64(head, 72, 8 | 16); /* compression type, extended L2 entries */
	looks(head, sizeof(head), "qcow2", 0, NULL);
	put64(head, 72, UINT64_C(1) << 40);
	looks(head, sizeof(head), NULL, -EINVAL, "features 0x10000000000");
	qcow2(head);
	put32(head, 32, 1);
	looks(head, sizeof(head), NULL, -EINVAL, "encrypted");
	qcow2(head);
	put32(head, 4, 1);
	looks(head, sizeof(head), NULL, -EINVAL, "neither 2 nor 3");
	qcow2(head);
	put64(head, 24, 1000);
	looks(head, sizeof(head), NULL, -EINVAL, "no whole number of sectors");
	memset(head, 0, sizeof(head));
	looks(head, sizeof(head), NULL, 0, NULL);
	looks(head, sizeof(head), "qcow2", -EINVAL, "it is raw, and not qcow2");
	memcpy(head, "\xfd" "7zXZ", 6);
	looks(head, sizeof(head), NULL, -EINVAL, "compressed (xz)");
}

/* Whatever bytes: no crash, and what is taken has a size of whole sectors and needs no other file. */
static void any_bytes(void **state)
{
	unsigned char head[ACT_IMAGE_HEAD];

	(void)state;
	srandom(7);
	for (unsigned n = 0; n < 20000; n++) {
		struct error err = ERROR_INIT;
		struct act_image i = { 0 };
		uint64_t backing;

		qcow2(head);
		for (unsigned k = 0; k < n % 5; k++)
			head[4 + (size_t)random() % 100] = (unsigned char)random();
		if (act_image_look(&i, head, (size_t)random() % (sizeof(head) + 1), 65536, "qcow2", &err) < 0) {
			assert_true(err.text[0]);
			continue;
		}
		memcpy(&backing, head + 8, sizeof(backing));
		assert_int_equal(backing, 0);
		assert_int_equal(i.virtual_size % 512, 0);
	}
}

/* ---- storage ----------------------------------------------------------------------------------------- */

struct place {
	char                dir[64], images[96], source[96];
	struct host_root   *root;
	struct act_machine *m;
	struct act          act;
};

/* Another libvirt, with this pool in it. */
static void place_pool(struct place *p, const char *pool)
{
	const struct act_hypervisor hyper = { .program = program("velad-libvirt"), .uri = "test:///default", .images = { pool, p->images, p->source } };
	struct error err = ERROR_INIT;

	if (act_machine_new(&p->m, p->root, &hyper, NULL, "", &err) < 0)
		fail_msg("%s", err.text);
	p->act = act_machine_act(p->m);
}

static void place_new(struct place *p)
{
	struct error err = ERROR_INIT;

	(void)snprintf(p->dir, sizeof(p->dir), "%s/velad-image.XXXXXX", P_tmpdir);
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->images, sizeof(p->images), "%s/images", p->dir);
	(void)snprintf(p->source, sizeof(p->source), "%s/source", p->dir);
	assert_int_equal(mkdir(p->source, 0700), 0);
	assert_int_equal(host_root_open(&p->root, p->dir, &err), 0);
	place_pool(p, "velad-test");
}

static void place_done(struct place *p)
{
	char command[128];

	p->m = act_machine_free(p->m);
	host_root_close(p->root);
	(void)snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
}

static bool there(struct place *p, const char *name)
{
	struct error err = ERROR_INIT;
	struct act_file f;

	if (p->act.ops->file(p->act.self, &f, name, &err) < 0)
		fail_msg("%s", err.text);
	return f.there;
}

static void disks(void **state)
{
	const struct act_disk one = { .name = "a.disk", .size = UINT64_C(60) << 30, .image = "d.image", .format = "raw" },
			      two = { .name = "b.disk", .size = UINT64_C(60) << 30 };
	struct error err = ERROR_INIT;
	struct place p;

	(void)state;
	place_new(&p);
	assert_false(there(&p, "a.disk"));
	if (p.act.ops->disk_make(p.act.self, &one, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(there(&p, "a.disk"));
	/* the test driver's pool has 100 GiB, of which the first disk may take 60 */
	assert_int_equal(p.act.ops->disk_make(p.act.self, &two, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "b.disk may grow to 61440 MiB; storage pool velad-test has 102400 MiB free"));
	assert_false(there(&p, "b.disk"));
	assert_int_equal(p.act.ops->file_drop(p.act.self, "a.disk", &err), 0);
	assert_int_equal(p.act.ops->file_drop(p.act.self, "a.disk", &err), 0);
	assert_false(there(&p, "a.disk"));
	assert_int_equal(p.act.ops->disk_make(p.act.self, &two, &err), 0);
	p.m = act_machine_free(p.m);
	place_pool(&p, "default-pool"); /* the test driver's own */
	assert_int_equal(p.act.ops->disk_make(p.act.self, &one, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "storage pool default-pool is of /default-pool, and not the directory"));
	place_done(&p);
}

static void seeds(void **state)
{
	const struct act_seed seed = { .meta_data = "{}", .vendor_data = "#!", .network = NULL };
	struct error err = ERROR_INIT;
	char path[128];
	struct stat st;
	struct place p;

	(void)state;
	place_new(&p);
	if (p.act.ops->seed_make(p.act.self, "a.seed", &seed, &err) < 0)
		fail_msg("%s", err.text);
	(void)snprintf(path, sizeof(path), "%s/a.seed", p.images);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size % 2048, 0);
	assert_int_equal(p.act.ops->seed_make(p.act.self, "a.seed", &seed, &err), 0); /* again, over the old one */
	assert_int_equal(p.act.ops->file_drop(p.act.self, "a.seed", &err), 0);
	assert_int_equal(stat(path, &st), -1);
	place_done(&p);
}

static void images(void **state)
{
	const struct act_image_source from = { .file = "disk" };
	struct error err = ERROR_INIT;
	struct act_image i;
	char path[128];
	struct stat st;
	struct place p;
	FILE *f;

	(void)state;
	place_new(&p);
	(void)snprintf(path, sizeof(path), "%s/disk", p.source);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite("velad", 1, 5, f), 5);
	assert_int_equal(ftruncate(fileno(f), 8 << 20), 0);
	assert_int_equal(fclose(f), 0);
	if (p.act.ops->image_make(p.act.self, &i, "d.image", &from, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(i.virtual_size, 8 << 20);
	/* printf velad, truncate -s 8M, sha256sum */
	assert_string_equal(i.sha256, "6d0eec72142d7b968a2cf6a6d74840d54d17337608f3870cbe72b1808aea0b8f");
	(void)snprintf(path, sizeof(path), "%s/d.image", p.images);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(st.st_size, 8 << 20);
	assert_true(st.st_blocks * 512 < 1 << 20); /* zeros take no room */
	assert_int_equal(p.act.ops->file_drop(p.act.self, "d.image", &err), 0);
	assert_false(there(&p, "d.image"));
	place_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers), cmocka_unit_test(any_bytes), cmocka_unit_test(disks), cmocka_unit_test(seeds), cmocka_unit_test(images),
	};

	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
