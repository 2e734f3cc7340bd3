/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Settings of VFs as values: texts and JSON both ways, every refusal by name, what changes, addresses. */
#include "plan/vf.h"

#include "support.h"

static struct plan_vf_settings parse(const char *text)
{
	struct plan_vf_settings s = { 0 };
	struct error err = ERROR_INIT;

	if (plan_vf_parse(&s, text, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return s;
}

static void text_both_ways(void **state)
{
	static const char *const texts[] = {
		"", "mac=auto", "mac=02:00:00:12:34:ab", "vlan=4094 qos=7 vlan_protocol=802.1ad", "trust=on spoof_check=off",
		"min_rate=1 max_rate=4294967295", "link_state=down", "node_guid=02:00:00:00:00:12:34:56 port_guid=auto",
		("mac=ff:ff:ff:ff:ff:ff vlan=4094 qos=7 vlan_protocol=802.1ad trust=off spoof_check=off min_rate=4294967295 "
		 "max_rate=4294967295 link_state=down node_guid=ff:ff:ff:ff:ff:ff:ff:fe port_guid=ff:ff:ff:ff:ff:ff:ff:fe"),
	};
	char out[PLAN_VF_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct plan_vf_settings s = parse(texts[i]);

		assert_string_equal(plan_vf_text(out, &s), texts[i]);
	}
	assert_int_equal(parse("vlan=5,qos=1").value[PLAN_VF_VLAN], 5);
}

static void bad_texts(void **state)
{
	static const char *const bad[][2] = {
		{ "speed=10", "\"speed\" is nothing that can be set of a VF; there are mac, vlan" },
		{ "vlan", "vlan is \"\"; it can be 0 to 4094" },
		{ "vlan=4095", "vlan is \"4095\"; it can be 0 to 4094" },
		{ "vlan=-1", "vlan is \"-1\"" },
		{ "vlan=1 vlan=1", "vlan is said twice" },
		{ "trust=yes", "trust is \"yes\"; it can be off, on" },
		{ "link_state=enable", "it can be auto, up, down" },
		{ "vlan_protocol=0x8100", "it can be 802.1Q, 802.1ad" },
		{ "mac=02:00:00:12:34", "mac is \"02:00:00:12:34\"; it can be like 02:00:00:12:34:56" },
		{ "mac=02-00-00-12-34-56", "mac is" },
		{ "mac=02:00:00:12:34:0x", "mac is" },
		{ "node_guid=02:00:00:12:34:56", "it can be like 02:00:00:00:00:12:34:56" },
		{ "mac=", "mac is \"\"" },
		{ "=1", "\"\" is nothing that can be set" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;
		struct plan_vf_settings s;

		assert_int_equal(plan_vf_parse(&s, bad[i][0], &err), -EINVAL);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("%s says \"%s\"", bad[i][0], err.text);
	}
}

static int read_json(struct plan_vf_settings *s, const char *text, struct error *err)
{
	auto_(json_object_put) json_object *o = NULL;
	struct arena arena = { 0 };
	int r;

	assert_int_equal(json_parse(&o, text, strlen(text), JSON_BYTES_MAX, err), 0);
	r = plan_vf_read(s, o, "request.vf", &arena, err);
	arena_done(&arena);
	return r;
}

static void json_refusals(void **state)
{
	static const char *const bad[][2] = {
		{ "{\"vlan\": \"5\"}", "request.vf.vlan must be a whole number" },
		{ "{\"vlan\": 4095}", "request.vf.vlan" },
		{ "{\"trust\": \"on\"}", "request.vf.trust" },
		{ "{\"wlan\": 5}", "unknown key \"wlan\"" },
		{ "{\"mac\": \"01:00:5e:00:00:01\"}", "request.vf.mac is a group's; it must be the address of one station" },
		{ "{\"mac\": \"00:00:00:00:00:00\"}", "request.vf.mac is all zero" },
		{ "{\"mac\": \"x\"}", "request.vf.mac is \"x\"; it can be like" },
		{ "{\"link_state\": \"on\"}", "request.vf.link_state is \"on\"; it can be auto, up, down" },
		{ "{\"qos\": 3}", "request.vf.qos is of a VLAN, and it has none" },
		{ "{\"vlan\": 0, \"vlan_protocol\": \"802.1ad\"}", "request.vf.vlan_protocol is of a VLAN" },
		{ "{\"min_rate\": 2, \"max_rate\": 1}", "request.vf.min_rate is more than max_rate" },
		{ "{\"node_guid\": \"00:00:00:00:00:00:00:00\"}", "request.vf.node_guid is all zero" },
		{ "{\"node_guid\": \"auto\", \"trust\": true, \"vlan\": 1}", "GUIDs, which are InfiniBand's, and vlan and trust, Ethernet's" },
		{ "{\"max_rate\": 4294967296}", "request.vf.max_rate" },
	};
	struct plan_vf_settings s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;

		assert_int_equal(read_json(&s, bad[i][0], &err), -EINVAL);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("%s says \"%s\"", bad[i][0], err.text);
	}
}

static void json_both_ways(void **state)
{
	static const char text[] = "{ \"mac\": \"02:00:00:00:00:01\", \"vlan\": 7, \"qos\": 0, \"vlan_protocol\": \"802.1ad\", "
				   "\"trust\": true, \"spoof_check\": false, \"min_rate\": 0, \"max_rate\": 9, \"link_state\": \"up\" }";
	auto_(json_object_put) json_object *o = NULL;
	struct plan_vf_settings s = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(read_json(&s, text, &err), 0);
	o = plan_vf_json(&s);
	assert_string_equal(json_object_to_json_string(o), text);
}

static void what_changes(void **state)
{
	struct plan_vf_settings fresh = parse("mac=00:00:00:00:00:00 vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=off "
					      "min_rate=0 max_rate=0 link_state=auto"), asked = parse("mac=02:00:00:00:00:01 vlan=5 max_rate=10");
	struct plan_vf_settings want = plan_vf_whole(&asked), none = plan_vf_whole(&(struct plan_vf_settings){ 0 });
	uint32_t changes = plan_vf_changes(&fresh, &want), group;
	char out[PLAN_VF_TEXT_MAX];

	(void)state;
	assert_string_equal(plan_vf_names(out, changes), "mac, vlan, spoof_check and max_rate");
	assert_string_equal(plan_vf_names(out, plan_vf_group(changes & ~1u)), "vlan, qos and vlan_protocol");
	group = plan_vf_group(PLAN_VF_BIT(PLAN_VF_MAX_RATE));
	assert_string_equal(plan_vf_names(out, group), "min_rate and max_rate");
	assert_int_equal(plan_vf_group(0), 0);
	assert_string_equal(plan_vf_text(out, &none), "vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=on min_rate=0 max_rate=0 link_state=auto");
	fresh.has &= ~PLAN_VF_BIT(PLAN_VF_SPOOF_CHECK); /* a driver without it */
	assert_int_equal(plan_vf_changes(&fresh, &none), 0);
	fresh.value[PLAN_VF_PROTOCOL] = 0x88a8; /* of no VLAN */
	assert_int_equal(plan_vf_changes(&fresh, &none), 0);
	fresh.value[PLAN_VF_VLAN] = 1;
	assert_string_equal(plan_vf_names(out, plan_vf_changes(&fresh, &none)), "vlan and vlan_protocol");
	asked = parse("node_guid=auto port_guid=auto");
	want = plan_vf_whole(&asked); /* InfiniBand's has nothing of Ethernet's */
	assert_string_equal(plan_vf_text(out, &want), "link_state=auto node_guid=auto port_guid=auto");
}

static void names(void **state)
{
	struct error err = ERROR_INIT;
	uint32_t bits = 7;

	(void)state;
	assert_int_equal(plan_vf_bits(&bits, "none", &err), 0);
	assert_int_equal(bits, 0);
	assert_int_equal(plan_vf_bits(&bits, "trust  link_state", &err), 0);
	assert_int_equal(bits, PLAN_VF_BIT(PLAN_VF_TRUST) | PLAN_VF_BIT(PLAN_VF_LINK_STATE));
	assert_int_equal(plan_vf_bits(&bits, "trust wlan", &err), -EINVAL);
	assert_non_null(strstr(err.text, "\"wlan\""));
}

/* Different VFs and instances have different ones; the same have the same, of one station, administered here. */
static void addresses(void **state)
{
	static const char *const uuids[] = { "5c2f5f0e-7a0e-4a52-9d5e-0a4c5b6d7e8f", "5c2f5f0e-7a0e-4a52-9d5e-0a4c5b6d7e90" };
	uint64_t seen[2 * PLAN_VFS_MAX];
	size_t n = 0;

	(void)state;
	for (size_t u = 0; u < 2; u++) {
		struct plan *p = calloc(1, sizeof(*p)), *q = calloc(1, sizeof(*q));

		p->nvfs = q->nvfs = PLAN_VFS_MAX;
		for (size_t i = 0; i < p->nvfs; i++)
			p->vf[i].set = q->vf[i].set = i % 2 ? parse("mac=auto vlan=1") : parse("node_guid=auto port_guid=auto");
		p->vf[3].set = q->vf[3].set = parse("mac=02:00:00:00:00:01"); /* given */
		assert_int_equal(plan_identify(p, uuids[u]), 0);
		assert_int_equal(plan_identify(q, uuids[u]), 0);
		assert_int_equal(p->vf[3].set.value[PLAN_VF_MAC], UINT64_C(0x020000000001));
		for (size_t i = 0; i < p->nvfs; i++) {
			const struct plan_vf_settings *s = &p->vf[i].set;
			uint64_t v = s->value[i % 2 ? PLAN_VF_MAC : PLAN_VF_NODE_GUID];

			assert_memory_equal(s, &q->vf[i].set, sizeof(*s));
			assert_int_equal(v >> (i % 2 ? 40 : 56) & 3, 2);
			assert_true(i % 2 == 0 || v >> 48 == 0);
			for (size_t k = 0; k < n && i != 3; k++)
				assert_true(seen[k] != v);
			if (i != 3)
				seen[n++] = v;
		}
		plan_free(p);
		plan_free(q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_both_ways), cmocka_unit_test(bad_texts), cmocka_unit_test(json_refusals),
		cmocka_unit_test(json_both_ways), cmocka_unit_test(what_changes), cmocka_unit_test(names),
		cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests_name("vf", tests, NULL, NULL);
}
