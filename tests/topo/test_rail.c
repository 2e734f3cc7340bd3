/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rails and NVLink domains: hosts where the pairing is a fact, and hosts where it is none. */
#include "base/sbuf.h"
#include "support.h"
#include "synth.h"
#include "topo/rail.h"

/* "gpu0:0 nic0:0 nic1:- ...": the rails of GPUs, then of NICs, in BDF order. */
static void assert_rails(struct topo *t, const char *want)
{
	static const enum host_kind kinds[] = { HOST_GPU, HOST_NIC };
	struct sbuf out = { 0 };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (uint32_t i = 0; i < topo_count(t); i++) {
			const struct topo_node *n = topo_at(t, i);

			if (n->fn->facts->kind != kinds[k])
				continue;
			if (n->rail < 0)
				sbuf_add(&out, "-");
			else
				sbuf_addf(&out, "%d", n->rail);
		}
		sbuf_add(&out, k ? "" : " ");
	}
	for (uint32_t i = 0; i < topo_count(t); i++)
		if (topo_at(t, i)->fn->facts->kind != HOST_GPU && topo_at(t, i)->fn->facts->kind != HOST_NIC)
			assert_int_equal(topo_at(t, i)->rail, -1);
	assert_string_equal(out.text, want);
	sbuf_done(&out);
	topo_unref(t);
}

static struct topo *synth_topo(struct synth s)
{
	char *text = synth_text(&s);
	struct topo *t = test_topo_text(text);

	free(text);
	return t;
}

static void one_nic_per_gpu(void **state)
{
	(void)state;
	assert_rails(test_topo_host("xe9680"), "01234567 0--1234--567");
	assert_rails(test_topo_host("consumer-no-acs"), "0 0");
	assert_rails(test_topo_host("lab"), "---- --"); /* two GPUs and one NIC on each switch */
	assert_rails(synth_topo((struct synth){ .nodes = 2, .bridges = 1, .switches = 2, .gpus = 2, .nics = 2 }), "01234567 01234567");
	/* a spare NIC stays a spare */
	assert_rails(synth_topo((struct synth){ .nodes = 1, .bridges = 1, .switches = 2, .gpus = 2, .nics = 3 }), "0123 01-23-");
}

static void counts_that_do_not_fit(void **state)
{
	(void)state;
	/* two GPUs and one NIC on each switch: which one has it? */
	assert_rails(synth_topo((struct synth){ .nodes = 2, .bridges = 1, .switches = 2, .gpus = 2, .nics = 1 }), "-------- ----");
	assert_rails(synth_topo((struct synth){ .nodes = 1, .bridges = 1, .switches = 1, .gpus = 4 }), "---- ");
	assert_rails(synth_topo((struct synth){ .nodes = 1, .bridges = 1, .switches = 1, .nics = 2 }), " --");
}

#define FN(dir, bdf, class, id)                                              \
	"sys/bus/pci/devices/" bdf " -> ../../../devices/" dir bdf "\n"      \
	"sys/devices/" dir bdf "/uevent\tPCI_CLASS=" class "\\nPCI_ID=" id "\n"
#define WIDTH(dir, bdf, n) \
	"sys/devices/" dir bdf "/max_link_speed\t32.0 GT/s PCIe\nsys/devices/" dir bdf "/max_link_width\t" n "\n" \
	"sys/devices/" dir bdf "/current_link_speed\t32.0 GT/s PCIe\nsys/devices/" dir bdf "/current_link_width\t" n "\n"
#define NODES "sys/devices/system/node/node0/cpulist\t0\nsys/devices/system/node/node1/cpulist\t1\n"
#define ON(dir, bdf, node) "sys/devices/" dir bdf "/numa_node\t" node "\n"
#define PORT(bdf)      FN("pci0000:10/", bdf, "60400", "1234:5678") ON("pci0000:10/", bdf, "0") WIDTH("pci0000:10/", bdf, "16")
#define BELOW(port)    "pci0000:10/" port "/"
#define GPU(dir, bdf)  FN(dir, bdf, "30200", "10DE:2330") ON(dir, bdf, "0") WIDTH(dir, bdf, "16")
#define NIC(dir, bdf, width) FN(dir, bdf, "20000", "15B3:1021") ON(dir, bdf, "0") WIDTH(dir, bdf, width)

static void cards_and_widths(void **state)
{
	(void)state;
	/* two GPUs, two cards with two ports each: a card each, and its second port goes along */
	assert_rails(test_topo_text(TEXT_MAGIC_LINE NODES PORT("0000:10:01.0") PORT("0000:10:02.0") PORT("0000:10:03.0")
		PORT("0000:10:04.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0") GPU(BELOW("0000:10:02.0"), "0000:12:00.0")
		NIC(BELOW("0000:10:03.0"), "0000:13:00.0", "16") NIC(BELOW("0000:10:03.0"), "0000:13:00.1", "16")
		NIC(BELOW("0000:10:04.0"), "0000:14:00.0", "16") NIC(BELOW("0000:10:04.0"), "0000:14:00.1", "16")), "01 0011");
	/* two GPUs, one card with two ports: a port each */
	assert_rails(test_topo_text(TEXT_MAGIC_LINE NODES PORT("0000:10:01.0") PORT("0000:10:02.0") PORT("0000:10:03.0")
		GPU(BELOW("0000:10:01.0"), "0000:11:00.0") GPU(BELOW("0000:10:02.0"), "0000:12:00.0")
		NIC(BELOW("0000:10:03.0"), "0000:13:00.0", "16") NIC(BELOW("0000:10:03.0"), "0000:13:00.1", "16")), "01 01");
	/* the wider of two, though it comes later */
	assert_rails(test_topo_text(TEXT_MAGIC_LINE NODES PORT("0000:10:01.0") PORT("0000:10:02.0") PORT("0000:10:03.0")
		GPU(BELOW("0000:10:01.0"), "0000:11:00.0") NIC(BELOW("0000:10:02.0"), "0000:12:00.0", "8")
		NIC(BELOW("0000:10:03.0"), "0000:13:00.0", "16")), "0 -0");
}

static void far_is_no_pair(void **state)
{
	(void)state;
	/* on another NUMA node, and on an unknown one */
	assert_rails(test_topo_text(TEXT_MAGIC_LINE NODES PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0")
		FN("pci0000:20/", "0000:20:01.0", "20000", "15B3:1021") ON("pci0000:20/", "0000:20:01.0", "1")), "- -");
	assert_rails(test_topo_text(TEXT_MAGIC_LINE NODES PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0")
		FN("pci0000:20/", "0000:20:01.0", "20000", "15B3:1021")), "- -");
	/* one GPU has a NIC beside it: the other does not get one that is farther */
	assert_rails(test_topo_text(TEXT_MAGIC_LINE NODES PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0")
		NIC(BELOW("0000:10:01.0"), "0000:11:01.0", "16") PORT("0000:10:02.0") GPU(BELOW("0000:10:02.0"), "0000:12:00.0")
		PORT("0000:10:03.0") NIC(BELOW("0000:10:03.0"), "0000:13:00.0", "16")), "0- 0-");
}

static void nvlink_domains(void **state)
{
	static const struct {
		const char *text;
		int         gpu;
	} cases[] = {
		{ TEXT_MAGIC_LINE PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0"), -1 },
		{ TEXT_MAGIC_LINE PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0")
			  FN("pci0000:10/", "0000:10:02.0", "68000", "10DE:22A3"), 0 },
		{ TEXT_MAGIC_LINE PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0")
			  FN("pci0000:10/", "0000:10:02.0", "68000", "10DE:22A3") FN("pci0000:10/", "0000:10:03.0", "30200", "10DE:26B9"), -1 },
		/* the same, and Fabric Manager knows the first */
		{ TEXT_MAGIC_LINE PORT("0000:10:01.0") GPU(BELOW("0000:10:01.0"), "0000:11:00.0")
			  FN("pci0000:10/", "0000:10:02.0", "68000", "10DE:22A3") FN("pci0000:10/", "0000:10:03.0", "30200", "10DE:26B9")
			  "usr/share/nvidia/nvswitch/fabricmanager.cfg\tFABRIC_MODE=1\n"
			  "answers/fmpm/partitions\t{\"version\":1,\"partitionInfo\":[{\"partitionId\":1,\"isActive\":1,\"numGpus\":1,"
			  "\"gpuInfo\":[{\"physicalId\":1,\"pciBusId\":\"00000000:11:00.0\",\"uuid\":\"\"}]}]}\n", 0 },
	};
	struct topo *t = test_topo_host("xe9680");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct topo *one = test_topo_text(cases[i].text);

		assert_int_equal(topo_nvlink_domain(one, test_at(one, "0000:11:00.0")), cases[i].gpu);
		topo_unref(one);
	}
	assert_int_equal(topo_nvlink_domain(t, test_at(t, "0000:83:00.0")), 0);
	assert_int_equal(topo_nvlink_domain(t, test_at(t, "0000:4c:00.0")), 0);
	assert_int_equal(topo_nvlink_domain(t, test_at(t, "0000:4d:00.0")), -1);
	topo_unref(t);
}

/* Whatever the host: a rail has the number of its GPU, each GPU that has one has a NIC port at the same class, the
 * nearest on the host, and a port is on one rail only if no nearer GPU exists. */
static void rails_hold_their_promises(void **state)
{
	size_t paired = 0, alone = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t r = seed;
		struct synth s = { .nodes = 1 + synth_random(&r, 2), .bridges = 1 + synth_random(&r, 2), .switches = 1 + synth_random(&r, 2),
				   .gpus = synth_random(&r, 4), .nics = synth_random(&r, 4), .cascade = synth_random(&r, 2), .total_vfs = 2,
				   .seed = seed };
		struct topo *t = synth_topo(s);
		enum topo_class level = TOPO_UNKNOWN;
		int ordinal = 0;

		for (uint32_t g = 0; g < topo_count(t); g++)
			for (uint32_t n = 0; n < topo_count(t); n++)
				if (topo_at(t, g)->fn->facts->kind == HOST_GPU && topo_at(t, n)->fn->facts->kind == HOST_NIC &&
				    topo_path(t, g, n) < level)
					level = topo_path(t, g, n);
		for (uint32_t g = 0; g < topo_count(t); g++) {
			const struct topo_node *gpu = topo_at(t, g);
			unsigned ports = 0;

			if (gpu->fn->facts->kind != HOST_GPU)
				continue;
			assert_true(gpu->rail == -1 || gpu->rail == ordinal);
			ordinal++;
			for (uint32_t n = 0; n < topo_count(t); n++)
				if (topo_at(t, n)->fn->facts->kind == HOST_NIC && gpu->rail >= 0 && topo_at(t, n)->rail == gpu->rail) {
					assert_int_equal(topo_path(t, g, n), level);
					ports++;
				}
			assert_int_equal(ports, gpu->rail >= 0);
			assert_true(gpu->rail >= 0 || s.nics < s.gpus);
			paired += gpu->rail >= 0;
			alone += gpu->rail < 0;
		}
		topo_unref(t);
	}
	assert_true(paired > 100 && alone > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_nic_per_gpu), cmocka_unit_test(counts_that_do_not_fit), cmocka_unit_test(cards_and_widths),
		cmocka_unit_test(far_is_no_pair),  cmocka_unit_test(nvlink_domains),	     cmocka_unit_test(rails_hold_their_promises),
	};

	return cmocka_run_group_tests_name("rail", tests, NULL, NULL);
}
