/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Anonymized text hosts: nothing planted remains, what was equal stays equal, the machine stays the same. */
#include <ctype.h>

#include "host/dump.h"
#include "host/text.h"
#include "support.h"

static struct text_host *host_of(const char *text)
{
	struct error err = ERROR_INIT;
	struct text_host *t = NULL;

	if (text_host_parse(&t, text, strlen(text), "test", &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

static char *hide(const char *text, struct anonymize_counts *n)
{
	struct text_host *t = host_of(text), *back;
	char *out;

	assert_int_equal(anonymize(t, n), 0);
	out = text_host_render(t);
	assert_non_null(out);
	text_host_free(t);
	back = host_of(out); /* still a text host */
	text_host_free(back);
	return out;
}

/* Letters and digits only, in lower case: "B8:CE:F6" is found in "b8cef6", too. */
static char *bare(const char *s)
{
	char *out = calloc(1, strlen(s) + 1), *p = out;

	assert_non_null(out);
	for (; *s; s++)
		if (isalnum((unsigned char)*s))
			*p++ = (char)tolower((unsigned char)*s);
	return out;
}

static void lacks(const char *text, const char *secret)
{
	char *all = bare(text), *one = bare(secret);

	if (strstr(text, secret) || strstr(all, one))
		fail_msg("\"%s\" is still in:\n%s", secret, text);
	free(all);
	free(one);
}

/* The part of the line that begins so, up to its end. */
static const char *after(char buf[256], const char *text, const char *begin)
{
	const char *at = strstr(text, begin);

	if (!at)
		fail_msg("no line with \"%s\" in:\n%s", begin, text);
	(void)snprintf(buf, 256, "%.*s", (int)strcspn(at + strlen(begin), "\n"), at + strlen(begin));
	return buf;
}

#define NET "sys/devices/pci0000:00/0000:00:01.0/net/"
#define IB  "sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0/"

static const char planted[] = TEXT_MAGIC_LINE
	"etc/machine-id\t8c4f1e0e6ad94d1db3f0a4f2ab1c9e77\n"
	"answers/lldp/ens1/chassis-id\tb8:ce:f6:11:22:33\n"
	"answers/lldp/ens1/chassis-name\tleaf07.dc3.example.net\n"
	"answers/lldp/ens1/mgmt-ip\t10.21.32.43, fd12:3456:789a::7\n"
	"answers/lldp/ens1/port-descr\track 44 to storage\n"
	"answers/lldp/ens1/port-id\tgpuhost31 eth0, seen by leaf07\n"
	"answers/lldp/ens1/text\tchassis-name: spine02\\nmgmt 10.21.32.43\n"
	"proc/cmdline\tBOOT_IMAGE=/vmlinuz-6.8.0 root=UUID=0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9 ro "
	"resume=/dev/mapper/vg_secret-swap ip=10.21.32.44::10.21.32.1:255.255.255.0:gpuhost31:ens1:none "
	"systemd.hostname=gpuhost31 BOOTIF=01-b8-ce-f6-aa-bb-cc rd.lvm.lv=vg_secret/root \"ds=nocloud;s=http://seed7/x y\" "
	"iommu=pt pci=realloc console=ttyS0,115200\n"
	"proc/sys/kernel/hostname\tgpuhost31.dc3.example.net\n"
	IB "node_desc\tgpuhost31 mlx5_0\n"
	IB "node_guid\tb8ce:f603:0011:2234\n"
	IB "ports/1/gids/0\tfe80:0000:0000:0000:b8ce:f603:0011:2234\n"
	IB "ports/1/gids/1\t0000:0000:0000:0000:0000:ffff:0a15:202c\n"
	IB "ports/1/gids/2\t0000:0000:0000:0000:0000:0000:0000:0000\n"
	IB "sys_image_guid\tb8ce:f603:0011:2233\n"
	NET "ens1/address\tb8:ce:f6:aa:bb:cc\n"
	NET "ens1/broadcast\tff:ff:ff:ff:ff:ff\n"
	NET "enxb8cef6aabbcc/address\tB8:CE:F6:AA:BB:CC\n"
	NET "ib0/address\t00:00:10:29:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:11:22:34\n"
	"sys/devices/pci0000:00/0000:00:01.0/config\tbytes 4096\n"
	" 000: b3 15 21 10 06 00 10 00 00 00 00 02 00 00 00 00\n"
	" 100: 01 00 02 15\n"
	" 150: 03 00 01 00 66 55 44 00 03 f6 ce b8\n"
	"sys/devices/pci0000:00/0000:00:01.0/nvme/nvme0/serial\tS6CSNA0W900123      \n"
	"sys/devices/pci0000:00/0000:00:01.0/serial_number\tMT2244X01234\n"
	"sys/devices/pci0000:00/0000:00:02.0/sys_image_guid\tb8ce:f603:0011:2233\n"
	"sys/devices/pci0000:00/0000:00:02.0/text\tboard MT2244X01234, GPU-0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9\n"
	"sys/devices/pci0000:00/0000:00:02.0/uevent\tDRIVER=nvidia\\nPCI_CLASS=30200\\nPCI_ID=10DE:2330\n"
	"sys/devices/virtual/dmi/id/bios_version\t2.1.5.0\n"
	"sys/devices/virtual/dmi/id/chassis_asset_tag\tRACK-17-U3\n"
	"sys/devices/virtual/dmi/id/product_name\tPowerEdge XE9680\n"
	"sys/devices/virtual/dmi/id/product_serial\t7ZQ4XV3\n"
	"sys/devices/virtual/dmi/id/product_uuid\t4c4c4544-005a-5110-8034-b7c04f585633\n";

static void no_secret_remains(void **state)
{
	static const char *const secrets[] = {
		"8c4f1e0e6ad94d1db3f0a4f2ab1c9e77", "b8:ce:f6:11:22:33", "leaf07", "dc3.example.net", "10.21.32.43",
		"fd12:3456:789a", "gpuhost31", "spine02", "rack 44", "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9", "vg_secret",
		"10.21.32.44", "10.21.32.1", "b8-ce-f6-aa-bb-cc", "seed7", "b8ce:f603:0011:2234", "0a15:202c",
		"b8ce:f603:0011:2233", "b8:ce:f6:aa:bb:cc", "66 55 44 00 03 f6 ce b8", "S6CSNA0W900123", "MT2244X01234",
		"RACK-17-U3", "7ZQ4XV3", "4c4c4544-005a-5110-8034-b7c04f585633",
	};
	struct anonymize_counts n;
	char *text = hide(planted, &n);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		lacks(text, secrets[i]);
	for (int i = 0; i < ANONYMIZE_MAX_; i++)
		assert_true(n.values[i] > 0 && n.places[i] >= n.values[i]);
	free(text);
}

/* By value: what names no machine is not touched, and the new values keep their notation. */
static void the_rest_remains(void **state)
{
	static const char *const lines[] = {
		"\n" NET "ens1/broadcast\tff:ff:ff:ff:ff:ff\n",
		"\n" IB "ports/1/gids/2\t0000:0000:0000:0000:0000:0000:0000:0000\n",
		"\n" IB "ports/1/gids/1\t0000:0000:0000:0000:0000:ffff:c612:00",
		"\n" IB "ports/1/gids/0\tfe80:0000:0000:0000:0200:00ff:fe00:00",
		"\n" NET "ib0/address\t00:00:10:29:fe:80:00:00:00:00:00:00:02:00:00:ff:fe:00:00:",
		"BOOT_IMAGE=/vmlinuz-6.8.0 root=UUID=00000000-0000-4000-8000-", " resume=/dev/hidden-",
		" iommu=pt pci=realloc console=ttyS0,115200\n", "DRIVER=nvidia\\nPCI_CLASS=30200\\nPCI_ID=10DE:2330\n",
		"\nsys/devices/virtual/dmi/id/bios_version\t2.1.5.0\n", "product_name\tPowerEdge XE9680\n",
		"\nproc/sys/kernel/hostname\thost-", " mlx5_0\n", "chassis-name: host-", "BOOTIF=01-02-00-00-00-00-",
		"\n 000: b3 15 21 10 06 00 10 00 00 00 00 02 00 00 00 00\n 100: 01 00 02 15 00",
	};
	struct anonymize_counts n;
	char *text = hide(planted, &n);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!strstr(text, lines[i]))
			fail_msg("\"%s\" is not in:\n%s", lines[i], text);
	free(text);
}

static void equal_stays_equal(void **state)
{
	struct anonymize_counts n;
	char *text = hide(planted, &n), a[256], b[256];

	(void)state;
	assert_string_equal(after(a, text, IB "sys_image_guid\t"), after(b, text, "0000:00:02.0/sys_image_guid\t"));
	assert_string_not_equal(after(a, text, IB "sys_image_guid\t"), after(b, text, IB "node_guid\t"));
	assert_string_equal(after(a, text, IB "node_guid\t"), after(b, text, "gids/0\tfe80:0000:0000:0000:"));
	assert_string_equal(after(a, text, NET "ens1/address\t"), after(b, text, "/address\t"));
	(void)after(a, text, "0000:00:02.0/text\tboard ");
	(void)after(b, text, "0000:00:01.0/serial_number\t");
	assert_int_equal(strncmp(a, b, strlen(b)), 0);
	assert_non_null(strstr(text, "root=UUID=00000000-0000-4000-8000-00000000000"));
	assert_int_equal(strncmp(strstr(text, "root=UUID=") + 10, strstr(text, "GPU-") + 4, 36), 0);
	/* a name that holds the address of an interface, and its address */
	(void)after(a, text, NET "ens1/address\t");
	assert_int_equal(strncmp(a, "02:00:00:00:00:", 15), 0);
	(void)snprintf(b, sizeof(b), "%senx0200000000%.2s/address\t%.17s\n", NET, a + 15, a);
	assert_non_null(strstr(text, b));
	free(text);
}

/* A name of one letter, a serial without digits: their own files only, or "a" and "none" would vanish elsewhere. */
static void common_words_stay_elsewhere(void **state)
{
	struct anonymize_counts n;
	char *text = hide(TEXT_MAGIC_LINE "a/text\tnone of a kind\nb/serial\tnone\nc/serial\t000\nproc/sys/kernel/hostname\ta\n", &n);

	(void)state;
	assert_string_equal(text, TEXT_MAGIC_LINE "a/text\tnone of a kind\nb/serial\tserial-1\nc/serial\t000\n"
			    "proc/sys/kernel/hostname\thost-1\n");
	free(text);
}

/* A value that looks like a replacement does not make one of the originals come back. */
/* A name that begins with another one, twice: the list of names had a loop (found by fuzz_text). */
static void a_name_in_a_name(void **state)
{
	struct anonymize_counts n;
	char *out = hide(TEXT_MAGIC_LINE "answers/lldp/a/chassis-name\tgpu31-x\nanswers/lldp/b/chassis-name\tgpu31\n"
			 "answers/lldp/c/chassis-name\tgpu31-x\nproc/cmdline\tgood guess: gpu31-x, gpu31\n", &n);

	(void)state;
	lacks(out, "gpu31");
	assert_non_null(strstr(out, "good guess"));
	free(out);
}

static void replacements_do_not_collide(void **state)
{
	struct anonymize_counts n;
	char *text = hide(TEXT_MAGIC_LINE "a/hostname\thost-2\nb/hostname\thost-1\nc/text\thost-2 and host-1\n", &n);

	(void)state;
	assert_string_equal(text, TEXT_MAGIC_LINE "a/hostname\thost-1\nb/hostname\thost-2\nc/text\thost-1 and host-2\n");
	free(text);
}

/* Takes out what is replaced, by the names that the host document has for it. */
static void blank(json_object *o)
{
	static const char *const keys[] = { "cmdline", "mac", "node_guid", "image_guid", "switch_id", "chassis_id",
					    "chassis_name", "port_descr", "cost" };

	for (size_t i = 0; json_object_is_type(o, json_type_array) && i < json_object_array_length(o); i++)
		blank(json_object_array_get_idx(o, i));
	if (!json_object_is_type(o, json_type_object))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		json_object_object_del(o, keys[i]);
	json_object_object_foreach(o, key, value) {
		(void)key;
		blank(value);
	}
}

static char *topology(const char *text, char **host)
{
	struct topo *t = test_topo_text(text);
	json_object *doc = topo_json(t), *h = topo_host_json(t);
	char *s = strdup(json_object_to_json_string(doc));

	blank(h);
	*host = strdup(json_object_to_json_string(h));
	json_object_put(doc);
	json_object_put(h);
	topo_unref(t);
	return s;
}

/* Of every host here: the same topology, and the same host but for what names it. */
static void the_machine_stays_the_same(void **state)
{
	static const char *const hosts[] = { "xe9680", "xe9680-iommu-off", "lab", "consumer-no-acs" };
	struct host_kinds kinds = test_kinds();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		char path[512], *plain = NULL, *hidden = NULL, *a, *b, *ha, *hb;
		struct error err = ERROR_INIT;
		struct host_root *root = NULL;
		struct anonymize_counts n;

		(void)snprintf(path, sizeof(path), TEST_SOURCE "/tests/hosts/%s/sys.txt", hosts[i]);
		assert_int_equal(host_root_open_text(&root, path, &err), 0);
		assert_int_equal(host_dump(&plain, root, &kinds, NULL, &err), 0);
		assert_int_equal(host_dump(&hidden, root, &kinds, &n, &err), 0);
		host_root_close(root);
		a = topology(plain, &ha);
		b = topology(hidden, &hb);
		assert_string_equal(a, b);
		assert_string_equal(ha, hb);
		assert_null(strstr(hidden, "vg0-root"));
		assert_null(strstr(hidden, "leaf-0"));
		free(plain), free(hidden), free(a), free(b), free(ha), free(hb);
	}
}

/* Comments may name anything; only velad's own are kept. */
static void comments_go(void **state)
{
	static const char text[] = TEXT_MAGIC_LINE "# the machine of Alice, 7ZQ4XV3\n"
		"sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0\n"
		"sys/devices/pci0000:00/0000:00:01.0/config ! EACCES\n";
	struct host_kinds kinds = test_kinds();
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct anonymize_counts n;
	char *plain = NULL, *hidden = NULL;

	(void)state;
	assert_int_equal(host_root_parse_text(&root, text, strlen(text), "test", &err), 0);
	assert_int_equal(host_dump(&plain, root, &kinds, NULL, &err), 0);
	assert_int_equal(host_dump(&hidden, root, &kinds, &n, &err), 0);
	assert_non_null(strstr(plain, "Alice"));
	assert_null(strstr(hidden, "Alice"));
	assert_non_null(strstr(hidden, "\n# not read: 1 files"));
	free(plain);
	free(hidden);
	host_root_close(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_secret_remains),           cmocka_unit_test(the_rest_remains),
		cmocka_unit_test(equal_stays_equal),           cmocka_unit_test(common_words_stay_elsewhere),
		cmocka_unit_test(a_name_in_a_name), cmocka_unit_test(replacements_do_not_collide), cmocka_unit_test(the_machine_stays_the_same),
		cmocka_unit_test(comments_go),
	};

	return cmocka_run_group_tests_name("anonymize", tests, NULL, NULL);
}
