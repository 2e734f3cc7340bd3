# SPDX-License-Identifier: GPL-2.0-or-later
"""PCI configuration space: write one function's registers, walk the capabilities of any.

Numbers are offsets and values of <linux/pci_regs.h> and the PCI Express base specification. Where
a function's capabilities lie is its layout ("layouts" in parts.json); what no layout places goes
behind the last one. Every capability has a writer of its own in STD or EXT.
"""
import struct

from iommu_groups import DOWNSTREAM, ROOT_PORT


class Config(bytearray):
    """Little-endian registers, and two chains of capabilities in the order they were added."""

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
    put_header(out, fn)
    put_chain(out, fn, STD, fn.layout.get("std", {}), 0x40)
    if fn.kind is not None:
        put_chain(out, fn, EXT, fn.layout.get("ext", {}), 0x100)
    return bytes(out)


def put_header(out, fn):
    """Type 0 or type 1 header. A VF answers ffff for its ids, and has no BARs (PCIe 9.3.4.1)."""
    intx_off = 0x0400 if fn.msix and fn.driver and not fn.is_bridge else 0
    command = (0 if fn.is_vf else 0x0002) | (0x0004 if fn.driver or not fn.is_vf else 0)
    ids = (0xFFFF, 0xFFFF) if fn.is_vf else (fn.vendor, fn.device)
    out.put("HHHH", 0x00, *ids, command | intx_off, 0x0010)
    out.put("L", 0x08, fn.cls << 8 | fn.revision)
    out[0x0E] = (0x80 if fn.multifunction else 0) | fn.is_bridge
    if not fn.is_vf:
        out.bars(0x10, fn.bars)
    if fn.is_bridge:
        put_bridge(out, fn)
    else:
        out.put("HH", 0x2C, *fn.subsystem)


def put_bridge(out, fn):
    """Type 1 header: bus numbers and the two memory windows; the I/O window is closed."""
    out.put("BBB", 0x18, *fn.buses)
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


def put_chain(out, fn, writers, layout, start):
    """Every capability that fn has: first those that the layout places, in its order."""
    todo = {name: w for name, w in writers.items() if w.has(fn)}
    free = start
    for name, at in layout.items():
        if name in todo:
            writer = todo.pop(name)
            writer.put(out, fn, int(at, 16))
            free = max(free, int(at, 16) + writer.size(fn))
    for writer in todo.values():
        at = align(free, writer.align)
        writer.put(out, fn, at)
        free = at + writer.size(fn)
    assert free <= (0x100 if start == 0x40 else 0x1000), f"{fn.bdf}: no room for capabilities"


def align(value, to):
    return (value + to - 1) & -to


class Writer:
    """One kind of capability: does fn have it, how long is it, how is it written."""

    def __init__(self, has, size, put, to=16):
        self.has, self.put, self.align = has, put, to
        self.size = size if callable(size) else lambda fn: size


# The standard capabilities

def put_pm(out, fn, at):
    out.cap(at, 0x01)
    out.put("HH", at + 2, 0x0003, 0x0008)           # PM version 3; D0, NoSoftRst+


def put_msix(out, fn, at):
    """Table and PBA as the part says; a driver enables it."""
    m = fn.msix
    out.cap(at, 0x11)
    out.put("HLL", at + 2, (m["count"] - 1) | (0x8000 if fn.driver else 0),
            int(m["table"], 16) | m["bar"], int(m["pba"], 16) | m["bar"])


def put_vpd(out, fn, at):
    out.cap(at, 0x03)


def put_ssvid(out, fn, at):
    """A bridge has its subsystem in a capability."""
    out.cap(at, 0x0D)
    out.put("HH", at + 4, *fn.subsystem)


def put_msi(out, fn, at):
    out.cap(at, 0x05)
    out.put("H", at + 2, 0x0080 | (fn.driver is not None))  # 64-bit, one vector


def put_express(out, fn, at):
    """PCI Express capability, version 2."""
    downward = fn.kind in (ROOT_PORT, DOWNSTREAM)
    mps, mrrs = ((value // 128).bit_length() - 1 for value in (fn.mps, fn.mrrs))
    mps_cap = (fn.mps_cap // 128).bit_length() - 1
    out.cap(at, 0x10)
    out.put("H", at + 0x02, 2 | fn.kind << 4 | fn.slot << 8)
    out.put("L", at + 0x04, mps_cap | 1 << 5 | 1 << 15 | fn.flr << 28)
    if not fn.is_vf:                                # a VF's are its PF's (PCIe 9.3.5.4)
        out.put("H", at + 0x08, 0x0107 | fn.relaxed << 4 | mps << 5 | mrrs << 12)
    speed, width = fn.link_cap
    out.put("L", at + 0x0C, speed | width << 4 | downward << 20 | fn.port_number << 24)
    if not fn.is_vf:
        active = downward and fn.link_sta[1] > 0
        out.put("H", at + 0x12, fn.link_sta[0] | fn.link_sta[1] << 4 | 1 << 12 | active << 13)
    if fn.slot:
        out.put("L", at + 0x14, fn.buses[1] << 19)
        out.put("H", at + 0x1A, 0x0040 if fn.kids else 0)   # presence detected
    comp, req = fn.tag10
    out.put("L", at + 0x24, 0x1F | downward << 5 | comp << 16 | req << 17)
    forward = any(kid.has_ari() for kid in fn.kids)
    out.put("H", at + 0x28, (forward and downward) << 5 | fn.tag10_enable << 12)
    out.put("L", at + 0x2C, (2 << speed) - 2)
    if not fn.is_vf:
        out.put("H", at + 0x30, speed)
        equalised = fn.link_sta[0] >= 3             # complete, and its three phases
        out.put("H", at + 0x32, 0x1E if equalised else 0)


STD = {
    "pm": Writer(lambda fn: not fn.is_vf and fn.pm, 8, put_pm),
    "ssvid": Writer(lambda fn: fn.is_bridge and any(fn.subsystem), 8, put_ssvid),
    "msi": Writer(lambda fn: fn.msi, 14, put_msi),
    "msix": Writer(lambda fn: fn.msix is not None, 12, put_msix),
    "express": Writer(lambda fn: fn.kind is not None, 0x3C, put_express),
    "vpd": Writer(lambda fn: fn.vpd and not fn.is_vf, 8, put_vpd),
}


# The extended capabilities

def put_aer(out, fn, at):
    out.ext(at, 0x0001, 2)
    out.put("LLL", at + 0x0C, 0x00462030, 0, 0x00002000)    # severity; status; correctable mask


def put_dsn(out, fn, at):
    out.ext(at, 0x0003, 1)
    out.put("Q", at + 4, int(fn.serial, 16))


def put_acs(out, fn, at):
    out.ext(at, 0x000D, 1)
    out.put("HH", at + 4, fn.acs_cap, fn.acs_ctl)
    for bit in fn.facts.get("egress", []):
        out[at + 8 + bit // 8] |= 1 << bit % 8


def acs_size(fn):
    """With Egress Control, and a vector of as many bits as 15:8 of the capability say, or 256 (PCIe 7.7.11)."""
    return 8 + (((fn.acs_cap >> 8 or 256) + 31) // 32 * 4 if fn.acs_cap & 0x20 else 0)


def put_ari(out, fn, at):
    """The next function of the device, from the first of several."""
    other = fn.multifunction and fn.bdf[-1] == "0"
    out.ext(at, 0x000E, 1)
    out.put("H", at + 4, other << 8)


def put_ats(out, fn, at):
    """Queue depth, page aligned; a VF's smallest unit is its PF's, and reads 0 (PCIe 10.5.1.3)."""
    ats = fn.ats
    out.ext(at, 0x000F, 1)
    out.put("HH", at + 4, ats.get("qdep", 0) | 1 << 5,
            ats.get("enable", False) << 15 | (0 if fn.is_vf else ats.get("stu", 0)))


def put_sriov(out, fn, at):
    """Linux sets ARI Capable Hierarchy in the first PF of a device only."""
    vf = fn.sriov
    on = 0x9 if vf["num"] else 0                    # VF Enable, VF MSE
    ari = fn.bdf[-1] == "0" and (fn.parent is not None)
    out.ext(at, 0x0010, 1)
    out.put("L", at + 0x04, 0x2)                    # ARI Capable Hierarchy Preserved
    out.put("H", at + 0x08, on | ari << 4)
    out.put("HHHBB", at + 0x0C, vf["initial"], vf["total"], vf["num"], int(fn.bdf[-1]), 0)
    out.put("HHHH", at + 0x14, vf["offset"], vf["stride"], 0, int(vf["vf_device"], 16))
    out.put("LL", at + 0x1C, 0x573, 0x1)            # page sizes supported; 4 KiB in use
    out.bars(at + 0x24, fn.vf_bars)


def put_pri(out, fn, at):
    out.ext(at, 0x0013, 1)
    out.put("HHLL", at + 4, 0, 0x0100, fn.pri, 0)   # disabled, stopped; so many requests


def put_pasid(out, fn, at):
    out.ext(at, 0x001B, 1)
    out.put("HH", at + 4, fn.pasid << 8 | 0x4, 0)   # width, privileged mode; off


def put_rebar(out, fn, at):
    """One pair of registers per BAR: sizes from 1 MiB at bit 4; index, count, size (PCIe 7.8.6)."""
    out.ext(at, 0x0015, 1)
    for n, (number, sizes) in enumerate(fn.rebar.items()):
        now = (fn.bars[number].size >> 20).bit_length() - 1
        low = sizes << 4 & 0xFFFFFFFF
        out.put("LL", at + 4 + 8 * n, low, number | len(fn.rebar) << 5 | now << 8
                | (sizes >> 28) << 16)


def put_secondary(out, fn, at):
    """Lane equalisation presets of the 8 GT/s lanes; no lane error."""
    out.ext(at, 0x0019, 1)
    for lane in range(fn.link_cap[1]):
        out.put("H", at + 12 + 2 * lane, 0x5555)


def put_dlf(out, fn, at):
    out.ext(at, 0x0025, 1)
    out.put("LL", at + 4, 0x80000001, 0x80000001 if fn.link_sta[1] else 0)


def put_pl16(out, fn, at):
    """Equalised at 16 GT/s, where the link runs that fast."""
    out.ext(at, 0x0026, 1)
    out.put("LLL", at + 4, 0, 0, 0x1F if fn.link_sta[0] >= 4 else 0)
    for lane in range(fn.link_cap[1]):
        out[at + 0x20 + lane] = 0x55


def put_pl32(out, fn, at):
    out.ext(at, 0x002A, 1)
    out.put("LLL", at + 4, 0, 0, 0x0F if fn.link_sta[0] >= 5 else 0)
    for lane in range(fn.link_cap[1]):
        out[at + 0x20 + lane] = 0x55


def put_dpc(out, fn, at):
    out.ext(at, 0x001D, 1)
    out.put("HH", at + 4, 0x0020, 0x0000)           # poisoned TLP blocking; not enabled


def has_link(fn, speed):
    """Multi-function devices carry the link's registers in function 0 only (PCIe 7.7.3)."""
    return not fn.is_vf and fn.link_cap[0] >= speed and fn.link_cap[1] > 0 \
        and fn.rich and (fn.is_bridge or fn.bdf[-1] == "0")


EXT = {
    "aer": Writer(lambda fn: not fn.is_vf and fn.aer, 0x48, put_aer),
    "dsn": Writer(lambda fn: fn.serial is not None and not fn.is_vf, 12, put_dsn),
    "acs": Writer(lambda fn: fn.acs_cap is not None, acs_size, put_acs),
    "ari": Writer(lambda fn: fn.has_ari(), 8, put_ari),
    "sriov": Writer(lambda fn: fn.sriov is not None, 0x40, put_sriov),
    "ats": Writer(lambda fn: fn.ats is not None, 8, put_ats),
    "pri": Writer(lambda fn: fn.pri is not None and not fn.is_vf, 16, put_pri),
    "pasid": Writer(lambda fn: fn.pasid is not None and not fn.is_vf, 8, put_pasid),
    "rebar": Writer(lambda fn: bool(fn.rebar), lambda fn: 4 + 8 * len(fn.rebar), put_rebar),
    "secondary": Writer(lambda fn: has_link(fn, 3), 0x2C, put_secondary),
    "dlf": Writer(lambda fn: has_link(fn, 4), 12, put_dlf),
    "pl16": Writer(lambda fn: has_link(fn, 4), 0x30, put_pl16),
    "pl32": Writer(lambda fn: has_link(fn, 5), 0x30, put_pl32),
    "dpc": Writer(lambda fn: fn.dpc, 0x30, put_dpc),
}


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
    if 0x10 not in std or not any(data[0x100:0x104]):
        return std, {}

    def step(d, at):
        head = int.from_bytes(d[at:at + 4], "little")
        return head & 0xFFFF, head >> 20
    return std, walk(data, 0x100, (0x100, 0xFFC), step)
