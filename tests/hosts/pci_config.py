# SPDX-License-Identifier: GPL-2.0-or-later
"""PCI configuration space: write one function's registers, walk the capabilities of any.

Numbers are offsets and values of <linux/pci_regs.h> and the PCI Express base specification.
"""
import struct

from iommu_groups import DOWNSTREAM, ROOT_PORT


class Config(bytearray):
    """Little-endian registers, and two chains of capabilities in order of address."""

    def __init__(self, size):
        super().__init__(size)
        self.last = self.last_ext = None

    def put(self, fmt, at, *values):
        struct.pack_into("<" + fmt, self, at, *values)

    def cap(self, at, ident):
        self[0x34 if self.last is None else self.last + 1] = at
        self[at] = ident
        self.last = at

    def ext(self, at, ident, version):
        if self.last_ext is not None:
            self.put("H", self.last_ext + 2, self[self.last_ext + 2] & 0xF | at << 4)
        self.put("HH", at, ident, version)
        self.last_ext = at

    def bars(self, at, bars):
        for number, bar in bars.items():
            self.put("Q" if bar.wide else "L", at + 4 * number, bar.register())


def config_space(fn):
    """The whole configuration space of fn."""
    out = Config(256 if fn.kind is None else 4096)
    msix = fn.kind is not None and not fn.is_bridge
    intx_off = 0x0400 if msix and fn.driver else 0
    out.put("HHHH", 0x00, fn.vendor, fn.device, 0x0006 | intx_off, 0x0010)
    out.put("L", 0x08, fn.cls << 8 | fn.revision)
    out[0x0E] = (0x80 if fn.multifunction else 0) | fn.is_bridge
    out.bars(0x10, fn.bars)
    if fn.is_bridge:
        put_bridge(out, fn)
    else:
        out.put("HH", 0x2C, *fn.subsystem)
    out.cap(0x40, 0x01)
    out.put("HH", 0x42, 0x0003, 0x0008)             # PM version 3; D0, NoSoftRst+
    if fn.kind is None:
        return bytes(out)
    if msix:
        out.cap(0x50, 0x11)
        out.put("HLL", 0x52, 0x801F, 0x2000, 0x3000)    # MSI-X enabled, 32 vectors, BAR 0
    put_express(out, fn)
    put_extended(out, fn)
    return bytes(out)


def put_bridge(out, fn):
    """Type 1 header: bus numbers and the two memory windows; the I/O window is closed."""
    bus = [int(x, 16) for x in (fn.bdf[5:7], fn.facts["bus"]["secondary"],
                                fn.facts["bus"]["subordinate"])]
    out.put("BBB", 0x18, *bus)
    out.put("BB", 0x1C, 0xF0, 0x00)
    out.put("HH", 0x20, 0xFFF0, 0x0000)
    out.put("HHLL", 0x24, 0xFFF1, 0x0001, 0xFFFFFFFF, 0)
    if False in fn.windows:
        first, last = fn.windows[False]
        out.put("HH", 0x20, first >> 16 & 0xFFF0, last >> 16 & 0xFFF0)
    if True in fn.windows:
        first, last = fn.windows[True]
        out.put("HHLL", 0x24, first >> 16 & 0xFFF0 | 1, last >> 16 & 0xFFF0 | 1,
                first >> 32, last >> 32)
    out.put("H", 0x3E, 0x0002)                      # SERR forwarding


def put_express(out, fn):
    """PCI Express capability, version 2."""
    at, facts = 0x60, fn.facts
    downward = fn.kind in (ROOT_PORT, DOWNSTREAM)
    mps, mrrs = ((facts[key] // 128).bit_length() - 1 for key in ("mps", "mrrs"))
    comp, req = (sign == "+" for sign in facts["tag10_comp_req"])
    out.cap(at, 0x10)
    out.put("H", at + 0x02, 2 | fn.kind << 4 | fn.slot << 8)
    out.put("L", at + 0x04, mps | 1 << 5 | 1 << 15 | fn.has_flr() << 28)
    relaxed = facts["relaxed_ordering"] == "+"
    out.put("H", at + 0x08, 0x0107 | relaxed << 4 | mps << 5 | mrrs << 12)
    speed, width = fn.link_cap
    out.put("L", at + 0x0C, speed | width << 4 | downward << 20)
    out.put("H", at + 0x12, fn.link_sta[0] | fn.link_sta[1] << 4 | 1 << 12 | downward << 13)
    if fn.slot:
        out.put("L", at + 0x14, int(facts["bus"]["secondary"], 16) << 19)
        out.put("H", at + 0x1A, 0x0040)             # presence detected
    out.put("L", at + 0x24, 0x1F | downward << 5 | comp << 16 | req << 17)
    out.put("H", at + 0x28, any(kid.has_ari() for kid in fn.kids) << 5)
    out.put("L", at + 0x2C, (2 << speed) - 2)
    out.put("H", at + 0x30, speed)


def put_extended(out, fn):
    """AER always; ACS, ARI and SR-IOV where the function has them."""
    out.ext(0x100, 0x0001, 2)
    out.put("LLL", 0x10C, 0x00462030, 0, 0x00002000)    # severity; status; correctable mask
    if fn.acs_cap is not None:
        out.ext(0x160, 0x000D, 1)
        out.put("HH", 0x164, fn.acs_cap, fn.acs_ctl)
    if fn.has_ari():
        other = fn.multifunction and fn.bdf[-1] == "0"
        out.ext(0x170, 0x000E, 1)
        out.put("H", 0x174, other << 8)             # the next function of the device
    if fn.sriov:
        put_sriov(out, fn)


def put_sriov(out, fn):
    """SR-IOV capability. Linux sets ARI Capable Hierarchy in the first PF of a device only."""
    at, vf = 0x180, fn.sriov
    out.ext(at, 0x0010, 1)
    out.put("L", at + 0x04, 0x2)                    # ARI Capable Hierarchy Preserved
    out.put("H", at + 0x08, (fn.bdf[-1] == "0") << 4)
    out.put("HHHBB", at + 0x0C, vf["initial"], vf["total"], vf["num"], int(fn.bdf[-1]), 0)
    out.put("HHHH", at + 0x14, vf["offset"], vf["stride"], 0, int(vf["vf_device"], 16))
    out.put("LL", at + 0x1C, 0x573, 0x1)            # page sizes supported; 4 KiB in use
    out.bars(at + 0x24, fn.vf_bars)


def walk(data, at, limit, step):
    """{id: offset} of one capability chain; step(offset) gives (id, next)."""
    found = {}
    while at:
        assert limit[0] <= at <= limit[1] and at % 4 == 0, f"capability at {at:#x}"
        assert at not in found.values(), f"loop at {at:#x}"
        ident, following = step(data, at)
        found[ident] = at
        at = following
    return found


def walk_config(data):
    """(standard, extended) capabilities of a configuration space."""
    std = walk(data, data[0x34], (0x40, 0xFC), lambda d, at: (d[at], d[at + 1]))
    assert (0x10 in std) == (len(data) == 4096), "PCI Express and the size disagree"
    if 0x10 not in std:
        return std, {}

    def step(d, at):
        head = int.from_bytes(d[at:at + 4], "little")
        return head & 0xFFFF, head >> 20
    return std, walk(data, 0x100, (0x100, 0xFFC), step)
