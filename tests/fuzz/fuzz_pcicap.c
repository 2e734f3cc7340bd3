/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Config space bytes from anywhere: the walk ends, within a bounded number of reads. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "host/pcicap.h"

struct space {
	const uint8_t *b;
	size_t         len;
	unsigned       reads;
};

static int read_space(void *self, uint16_t off, unsigned n, uint32_t *ret)
{
	struct space *s = self;

	assert(++s->reads < 64 + 1024 * 8 && off % 4 == 0 && n >= 1 && n <= PCICAP_READ_MAX);
	if ((size_t)off + 4 * n > s->len)
		return -ENODATA;
	for (unsigned i = 0; i < n; i++, off += 4)
		ret[i] = (uint32_t)s->b[off] | (uint32_t)s->b[off + 1] << 8 | (uint32_t)s->b[off + 2] << 16 |
			 (uint32_t)s->b[off + 3] << 24;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct space s = { .b = data, .len = size < 4096 ? size : 4096 };
	struct pcicap c;

	pcicap_walk(&c, read_space, &s);
	assert(c.link_cap.speed <= 6 && c.link_now.width <= 32);
	assert(c.rebar.n <= 6 && c.vf_rebar.n <= 6);
	for (unsigned i = 0; i < c.rebar.n; i++)
		assert(c.rebar.bar[i].bar <= 5 && c.rebar.bar[i].sizes >> (PCICAP_SIZE_MAX + 1) == 0);
	assert(c.acs.known != HOST_ABSENT || c.pcie != HOST_UNKNOWN); /* absent only if the lists were seen */
	assert(c.readable || c.pcie == HOST_UNKNOWN);
	assert(c.acs.egress_bits <= 256 && (!c.acs.egress_bits || c.acs.ctl & 0x20));
	for (unsigned i = c.acs.egress_bits; i < 300; i++)
		assert(pcicap_egress(&c.acs, i) == HOST_UNKNOWN);
	return 0;
}
