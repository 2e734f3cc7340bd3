/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vfio-pci: looking for it, and not loading it for a root that is not the machine. */
#include "act/fixture.h"

#include "act/kmod.h"

static void test_loaded(void **state)
{
	struct error err = ERROR_INIT;
	bool loaded = false;
	char buf[512];
	struct fx f;

	(void)state;
	fx_init(&f);
	assert_int_equal(act_vfio_loaded(f.root, &loaded, &err), 0);
	assert_true(loaded);
	assert_int_equal(act_vfio_load(f.root, &err), 0); /* nothing to do */
	fx_unlink(&f, "sys/bus/pci/drivers/vfio-pci/bind");
	fx_unlink(&f, "sys/bus/pci/drivers/vfio-pci/unbind");
	assert_int_equal(rmdir(fx_path(&f, buf, "sys/bus/pci/drivers/vfio-pci")), 0);
	assert_int_equal(act_vfio_loaded(f.root, &loaded, &err), 0);
	assert_false(loaded);
	assert_int_equal(act_vfio_load(f.root, &err), -ENODEV);
	assert_non_null(strstr(err.text, "only where the root is /"));
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loaded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
