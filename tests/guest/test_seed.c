/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Disks and seed of the domain XML, and the texts of the seed that are velad's. */
#include "guest/fixture.h"

#include "base/json.h"

#define DIRS "/var/lib/images"

static char *xml_of(struct fx *f)
{
	struct error err = ERROR_INIT;
	char *xml = NULL;

	f->env.images = DIRS;
	if (guest_domain_xml(&xml, f->plan, &f->request, f->topo, &f->env, &err) < 0)
		fail_msg("%s", err.text);
	return xml;
}

static void new_guest(struct fx *f)
{
	fx_init(f, fx_host, sizeof(fx_host) / sizeof(fx_host[0]));
	fx_cell(f, 0, 512 * MIB, 1);
}

static void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("lacks %s in\n%s", what, text);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static void overlay_and_seed(void **state)
{
	struct fx f;
	char *xml;

	(void)state;
	new_guest(&f);
	f.request.seed.image = arena_strdup(&f.plan->arena, "debian");
	f.request.seed.disk[0] = f.request.seed.disk[1] = GIB;
	f.request.seed.ndisks = 2;
	f.env.image_format = "raw";
	xml = xml_of(&f);
	has(xml, "<source file=\"" DIRS "/train-1.disk\"/>");
	has(xml, "<format type=\"raw\"/>");
	has(xml, "<source file=\"" DIRS "/debian.image\">"); /* its format is said, so nobody guesses it */
	has(xml, "<seclabel model=\"dac\" relabel=\"no\"/>");
	has(xml, "<source file=\"" DIRS "/train-1.seed\"/>");
	has(xml, "<source file=\"" DIRS "/train-1.data1\"/>");
	assert_int_equal(count(xml, "<readonly/>"), 1);
	assert_int_equal(count(xml, "<disk "), 4);
	has(xml, "<address type=\"pci\" domain=\"0x0000\" bus=\"0x00\" slot=\"0x01\" function=\"0x0\" multifunction=\"on\"/>");
	has(xml, "<target dev=\"vdd\" bus=\"virtio\"/>");
	has(xml, "slot=\"0x01\" function=\"0x3\"/>");
	free(xml);
	f.env.image_format = NULL; /* not known in a dry run without velad */
	xml = xml_of(&f);
	assert_int_equal(count(xml, "backingStore"), 0);
	free(xml);
	fx_done(&f);
}

static void seed_alone(void **state)
{
	struct fx f;
	char *xml;

	(void)state;
	new_guest(&f);
	xml = xml_of(&f);
	assert_int_equal(count(xml, "<disk "), 0);
	free(xml);
	f.request.seed.hostname = arena_strdup(&f.plan->arena, "n");
	xml = xml_of(&f);
	assert_int_equal(count(xml, "<disk "), 1);
	has(xml, "slot=\"0x01\" function=\"0x0\"/>");
	free(xml);
	fx_done(&f);
}

static void texts(void **state)
{
	static const char nccl[] = "<system version=\"1\">\n</system>\n";
	struct error err = ERROR_INIT;
	char *meta = NULL, *vendor = NULL;
	json_object *o = NULL;
	struct fx f;

	(void)state;
	new_guest(&f);
	f.request.name = arena_strdup(&f.plan->arena, "train-1");
	f.request.tenant = arena_strdup(&f.plan->arena, "");
	f.request.seed.key[f.request.seed.nkeys++] = "ssh-ed25519 AAAA \"quoted\"";
	f.request.seed.tag[f.request.seed.ntags++] = (struct plan_tag){ "a", "it's $HOME `x` \\ VELAD-END" };
	assert_int_equal(guest_meta_data(&meta, &f.request, "uuid-1", &err), 0);
	assert_int_equal(json_parse(&o, meta, strlen(meta), 4096, &err), 0);
	assert_string_equal(json_object_get_string(json_object_object_get(o, "local-hostname")), "train-1");
	assert_string_equal(json_object_get_string(json_object_object_get(o, "instance-id")), "uuid-1");
	assert_string_equal(json_object_get_string(json_object_array_get_idx(json_object_object_get(o, "public-keys"), 0)), "ssh-ed25519 AAAA \"quoted\"");
	json_object_put(o);
	free(meta);
	assert_int_equal(guest_vendor_data(&vendor, &f.request, "uuid-1", nccl, "NCCL_TOPO_FILE=/x\n", &err), 0);
	assert_int_equal(strncmp(vendor, "#cloud-boothook\n#!/bin/sh\n", 26), 0);
	has(vendor, "<<'VELAD-END'\n<system version=\"1\">\n</system>\nVELAD-END\n");
	has(vendor, "# by velad\nNCCL_TOPO_FILE=/x\nVELAD-END\n");
	assert_int_equal(count(vendor, "\nVELAD-END\n"), 3); /* what a tag says ends nothing */
	free(vendor);
	assert_int_equal(guest_vendor_data(&vendor, &f.request, "uuid-1", NULL, "", &err), 0);
	assert_int_equal(count(vendor, "nccl"), 0);
	free(vendor);
	fx_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(overlay_and_seed), cmocka_unit_test(seed_alone), cmocka_unit_test(texts) };

	return cmocka_run_group_tests_name("seed", tests, NULL, NULL);
}
