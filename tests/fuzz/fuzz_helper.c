/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages to velad-helper, as they come from a client that is not velad any more: read, judged, and done, on a machine that
 * takes no writes. What is read is what was sent; what is answered is an answer; a refusal has a text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "helper/serve.h"
#include "host/root.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char machine[] =
	"# velad text host 1\n"
	"sys/bus/pci/devices/0000:16:00.0 -> ../../../devices/pci0000:16/0000:16:00.0\n"
	"sys/bus/pci/devices/0000:17:00.0 -> ../../../devices/pci0000:16/0000:17:00.0\n"
	"sys/bus/pci/devices/0000:18:00.0 -> ../../../devices/pci0000:16/0000:18:00.0\n"
	"sys/bus/pci/devices/0000:18:00.1 -> ../../../devices/pci0000:16/0000:18:00.1\n"
	"sys/devices/pci0000:16/0000:16:00.0/uevent\tPCI_CLASS=60400\\nPCI_ID=8086:352A\n"
	"sys/devices/pci0000:16/0000:17:00.0/uevent\tPCI_CLASS=30200\\nPCI_ID=10DE:2330\n"
	"sys/devices/pci0000:16/0000:17:00.0/driver -> ../../../bus/pci/drivers/nvidia\n"
	"sys/devices/pci0000:16/0000:18:00.0/uevent\tPCI_CLASS=20000\\nPCI_ID=15B3:101D\n"
	"sys/devices/pci0000:16/0000:18:00.0/sriov_numvfs\t1\n"
	"sys/devices/pci0000:16/0000:18:00.0/sriov_totalvfs\t8\n"
	"sys/devices/pci0000:16/0000:18:00.0/virtfn0 -> ../0000:18:00.1\n"
	"sys/devices/pci0000:16/0000:18:00.1/uevent\tPCI_CLASS=20000\\nPCI_ID=15B3:101E\n"
	"sys/devices/pci0000:16/0000:18:00.1/physfn -> ../0000:18:00.0\n";

static struct act_pci pci;
static struct serve serve = { .judge = { .pci = &pci }, .programs = -1 };

static void open_machine(void)
{
	struct error err = ERROR_INIT;

	log_init((enum log_level)0);
	if (host_root_parse_text(&pci.root, machine, sizeof(machine) - 1, "machine", &err) < 0 ||
	    host_kinds_add(&serve.judge.kinds, "gpu", "10de:*:0302", &err) < 0 || host_kinds_add(&serve.judge.kinds, "nic", "15b3:*:0200", &err) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct wire_answer a, read;
	struct wire_call c;
	int fd = -1;

	if (!pci.root)
		open_machine();
	if (wire_call_read(&c, data, size, &err) == 0 && memcmp(&c, data, size) != 0)
		abort();
	serve_call(&serve, &a, &fd, data, size);
	if (wire_answer_read(&read, &a, sizeof(a), &err) < 0 || (a.code < 0 && !a.text[0]) || (a.code < 0 && fd >= 0))
		abort();
	if (fd >= 0)
		(void)close(fd);
	return 0;
}
