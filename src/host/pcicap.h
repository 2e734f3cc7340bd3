/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* host/pcicap — our own walker over one function's config space. Pure: bytes come through a callback.
 *
 * Bounded: each list visits an offset at most once; a list that loops, leaves its space or reads as all
 * ones is cut there and marked broken. Layouts: PCIe Base Specification 6.0, chapter 7; register names
 * and offsets from linux/pci_regs.h. */

#include <stdbool.h>
#include <stdint.h>

enum host_known { HOST_UNKNOWN, HOST_ABSENT, HOST_PRESENT }; /* unknown is never taken for either */

/* PCIe capability, device/port type (7.5.3.2) */
enum pcicap_type {
	PCICAP_ENDPOINT = 0,
	PCICAP_LEGACY = 1,
	PCICAP_ROOT_PORT = 4,
	PCICAP_USP = 5,
	PCICAP_DSP = 6,
	PCICAP_TO_PCI = 7,   /* PCIe to PCI bridge */
	PCICAP_FROM_PCI = 8,
	PCICAP_RCIEP = 9,
	PCICAP_RCEC = 10,
	PCICAP_NONE = 255,   /* conventional PCI, or not known */
};

struct pcicap_link {
	uint8_t speed; /* 1..6 = 2.5, 5, 8, 16, 32, 64 GT/s; 0 unknown */
	uint8_t width; /* lanes; 0 unknown, or no link: then link_up says so */
};

struct pcicap_acs {
	enum host_known known;
	uint16_t        at, cap, ctl; /* 7.7.11: bits SV 1 TB 2 RR 4 CR 8 UF 10 EC 20 DT 40 (hex) */
	uint16_t        egress_bits;  /* of the Egress Control Vector; 0: EC is off, or it cannot be read */
	uint32_t        egress[8];    /* that vector (7.7.11.4): bit n % 32 of egress[n / 32] is bit n */
};

struct pcicap_ats {
	enum host_known known;
	uint16_t        at, cap, ctl; /* 10.5.1: ctl bit 15 enable, bits 4:0 STU */
};

struct pcicap_sriov {
	enum host_known known;
	uint16_t        at, ctl, total, num, offset, stride, vf_device; /* 9.3.3; ctl bit 0 VF enable, bit 3 VF MSE */
};

/* A capability whose control register says the rest. */
struct pcicap_part {
	enum host_known known;
	uint16_t        cap, ctl;
};

/* Resizable BARs (7.8.6), or those of VFs (7.8.7). A size n is 1 MiB << n. */
struct pcicap_rebar {
	enum host_known known;
	uint8_t         n; /* 0 although present: its registers make no sense */
	struct {
		uint8_t  bar, size;
		uint64_t sizes; /* bit n: size n is possible */
	} bar[6];
};

struct pcicap {
	bool     readable;    /* at least the 64 bytes of the header */
	bool     dead;        /* reads as all ones: the device is gone, or in D3cold */
	bool     bad_header;  /* a header type that there is none of (7f): the device is not all there */
	bool     broken;      /* a capability list was cut: loop or bad offset */
	uint8_t  header;      /* header type without the multi-function bit */
	uint8_t  revision;
	bool     multifunction;
	uint16_t vendor, device, command, status;
	uint32_t class;       /* 24 bits */
	uint8_t  secondary, subordinate; /* bridges */
	uint16_t pcie_at;     /* 0: none or unknown */
	enum host_known pcie;
	enum pcicap_type type;
	bool     dev_known, dev2_known; /* devcap and devctl were read; devcap2 and devctl2 */
	uint32_t devcap, devcap2;
	uint16_t devctl, devctl2;
	bool     flr;         /* devcap bit 28 */
	uint64_t serial;      /* Device Serial Number (7.9.3), which all functions of a device have; 0: none, or it is not known */
	struct pcicap_link link_cap, link_now;
	bool     port_known;
	uint8_t  port;        /* Port Number, of Link Capabilities (7.5.3.6) */
	enum host_known link_up; /* Data Link Layer Link Active of a port: the link below it; unknown where it has none */
	struct pcicap_acs   acs;
	struct pcicap_ats   ats;
	struct pcicap_sriov sriov;
	struct pcicap_part  msi, msix;  /* ctl: Message Control (7.7.1.2, 7.7.2.2) */
	struct pcicap_part  pri, pasid; /* 10.5.2 (ctl only), 7.8.9 */
	enum host_known     aer, ari;   /* there or not: 7.8.4, 7.8.8 */
	uint16_t            ari_at;
	struct pcicap_part  ari_groups; /* of ARI; read only where EC is on */
	struct pcicap_rebar rebar, vf_rebar;
};

#define PCICAP_SIZE_MAX 43 /* the biggest size of a resizable BAR, 2^63 bytes */

#define PCICAP_READ_MAX 5 /* dwords in one call */

/* Reads n aligned dwords; -errno (normally -ENODATA) where the space ends before, for this reader. */
typedef int (*pcicap_read_fn)(void *self, uint16_t off, unsigned n, uint32_t *ret);

/* Never fails: what cannot be read stays unknown. */
void pcicap_walk(struct pcicap *ret, pcicap_read_fn read, void *self);

/* Whether bit n of the Egress Control Vector is set (present) or clear (absent). */
static inline enum host_known pcicap_egress(const struct pcicap_acs *acs, unsigned n)
{
	return n >= acs->egress_bits ? HOST_UNKNOWN : acs->egress[n / 32] >> n % 32 & 1 ? HOST_PRESENT : HOST_ABSENT;
}

#define PCICAP_SERIAL_MAX 17

/* "48b02d0000000001"; "" where it is not known. */
const char *pcicap_serial_text(char ret[PCICAP_SERIAL_MAX], const struct pcicap *c);

/* Whether header means something. */
static inline bool pcicap_answers(const struct pcicap *c)
{
	return c->readable && !c->dead && !c->bad_header;
}

const char *host_known_text(enum host_known k); /* "present", "absent", "unknown" */
const char *pcicap_speed_text(uint8_t speed); /* "32.0 GT/s", "?" */
