# SPDX-License-Identifier: GPL-2.0-or-later
"""The PCI functions of a machine, from the devices of a source.json and the parts they name.

A device gives facts of its own; its part (parts.json) gives those of its model; the first wins.
Here the rest is derived: VFs from their PF, bus numbers from the tree, addresses, and the files
that sysfs has for each function. README.md has the words of both files.
"""
import re
from dataclasses import dataclass, field

from iommu_groups import DOWNSTREAM, ENDPOINT, LEGACY, PCI_BRIDGE, ROOT_PORT, UPSTREAM
from iommu_groups import RC_ENDPOINT
from texthost import Link

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

KINDS = {
    "Endpoint": ENDPOINT,
    "Legacy Endpoint": LEGACY,
    "Root Complex Integrated Endpoint": RC_ENDPOINT,
    "Root Port": ROOT_PORT,
    "Upstream Port": UPSTREAM,
    "Downstream Port": DOWNSTREAM,
    "PCI-Express to PCI/PCI-X Bridge": PCI_BRIDGE,
}
CLASSES = {                                                 # lspci's names in a source
    "PCI bridge": 0x060400,
    "Bridge": 0x068000,
    "Ethernet controller": 0x020000,
    "VGA compatible controller": 0x030000,
    "3D controller": 0x030200,
    "Non-Volatile memory controller": 0x010802,
    "Serial Attached SCSI controller": 0x010700,
}
SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}  # GT/s: Link Capabilities code
SPEED_TEXT = ["Unknown", "2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe",
              "32.0 GT/s PCIe", "64.0 GT/s PCIe"]

# enum of struct pci_dev.resource, and the flags that sysfs prints
IOV, WINDOW_MEM, WINDOW_PREF, N_DEVICE, N_BRIDGE = 7, 14, 15, 13, 17
FLAGS_WINDOW = {True: 0x102201, False: 0x200}


@dataclass
class Bar:
    """One memory BAR. wide: 64 bits; pref: prefetchable, so that it may lie above 4 GiB."""
    size: int
    wide: bool
    pref: bool
    count: int = 1                                          # VF BARs are an array
    addr: int = 0

    def resource(self):
        return self.addr, self.addr + self.size * self.count - 1, \
            0x40200 | (0x2008 if self.pref else 0) | (0x100004 if self.wide else 0)

    def register(self):
        return self.addr | (0x4 if self.wide else 0) | (0x8 if self.pref else 0)


def parse_size(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30, "T": 40}[text[-1]]


def parse_bars(facts, wide, count=1):
    """{number: Bar} of {"0": "16M"}; "16M 32" is a 32-bit BAR, "16M 64" one of 64 bits that is not
    prefetchable; without a word it is 64-bit prefetchable below PCI Express."""
    out = {}
    for number, text in (facts or {}).items():
        size, _, word = text.partition(" ")
        out[int(number)] = Bar(parse_size(size), wide and word != "32", wide and not word, count)
    return out


def parse_link(text):
    """(speed code, width) of '32GT/s x16'; (0, 0) where there is none."""
    match = re.fullmatch(r"([0-9.]+)GT/s x([0-9]+)", text or "")
    return (SPEEDS[match[1]], int(match[2])) if match else (0, 0)


@dataclass
class Fn:
    """One PCI function: its facts, and what is derived from them."""
    facts: dict
    bdf: str
    layout: dict = field(default_factory=dict)
    parent: "Fn" = None
    pf: "Fn" = None                                         # of a VF
    kids: list = field(default_factory=list)
    vfs: list = field(default_factory=list)
    multifunction: bool = False
    windows: dict = field(default_factory=dict)             # prefetchable: (first, last)
    buses: tuple = None                                     # primary, secondary, subordinate
    group: int = None

    def __post_init__(self):
        get = self.facts.get
        kind = get("type")
        self.is_vf = get("is_vf", False)
        self.kind = None if kind is None else KINDS[kind.split(" (")[0]]
        self.slot = bool(kind) and "(Slot+)" in kind
        self.vendor, self.device = hex_pair(self.facts["id"])
        self.subsystem = hex_pair(get("subsystem", "0:0"))
        self.cls = int(get("class"), 16) if get("class") else CLASSES[get("desc").split(":")[0]]
        self.revision = int(get("rev") or (re.findall(r"\(rev (..)\)$", get("desc", "")) or ["0"])[0],
                            16)
        self.is_bridge = self.cls >> 8 == 0x0604
        self.driver = get("driver")
        self.sriov = get("sriov")
        self.acs_cap = hex_or_none(get("acs_cap"))
        self.acs_ctl = hex_or_none(get("acs_ctl")) or 0
        self.set_link()
        self.set_express()
        pcie = self.kind is not None
        self.bars = {} if self.is_vf else parse_bars(get("bars"), pcie)
        self.vf_bars = parse_bars(self.sriov and self.sriov["vf_bars"], pcie,
                                  self.sriov["total"]) if self.sriov else {}
        self.rebar = {int(n): sum(parse_size(size) >> 20 for size in sizes.split())
                      for n, sizes in (get("rebar") or {}).items()} if not self.is_vf else {}

    def set_link(self):
        get = self.facts.get
        self.link_cap = parse_link(get("link_cap") or get("link"))
        self.link_sta = (0, 0) if self.is_vf else parse_link(get("link_sta") or get("link"))
        self.port_number = get("port", 0)

    def set_express(self):
        get = self.facts.get
        self.mps, self.mrrs = get("mps", 128), get("mrrs", 512)
        self.mps_cap = get("mps_cap", self.mps)
        self.relaxed = get("relaxed_ordering") == "+"
        self.tag10 = [sign == "+" for sign in get("tag10_comp_req", "--")]
        self.tag10_enable = get("tag10_enable", False)
        self.flr = get("flr", self.kind == ENDPOINT)
        self.msix, self.vpd = get("msix"), get("vpd", False)
        self.aer, self.dpc = get("aer", True), get("dpc", False)
        self.pm, self.msi = get("pm", True), get("msi", False)
        self.serial, self.rich = get("serial"), get("rich", True)
        self.ats, self.pri, self.pasid = get("ats"), get("pri"), get("pasid")

    def has_ari(self):
        return bool(self.facts.get("ari") or self.sriov or self.is_vf)

    def path(self):
        """Its directory below the root of the file system."""
        if self.parent:
            return f"{self.parent.path()}/{self.bdf}"
        return f"sys/devices/{self.facts.get('root', '')}pci{self.bdf[:-5]}/{self.bdf}"


def hex_pair(text):
    return tuple(int(x, 16) for x in text.split(":"))


def hex_or_none(text):
    return None if text is None else int(text, 16)


def number_of(bdf):
    """(domain, bus, device, function) as numbers, which is how Linux and velad sort."""
    return tuple(int(x, 16) for x in re.split("[:.]", bdf))


def routing_id(bdf, offset):
    """The function that many routing ids behind bdf."""
    domain, bus, dev, func = number_of(bdf)
    rid = (bus << 8 | dev << 3 | func) + offset
    return f"{bdf.split(':')[0]}:{rid >> 8:02x}:{rid >> 3 & 31:02x}.{rid & 7}"


def merge(part, device):
    """The device's own facts over its part's; an SR-IOV capability key by key."""
    out = {**part, **device}
    if part.get("sriov") and device.get("sriov"):
        out["sriov"] = {**part["sriov"], **device["sriov"]}
    return out


def facts_of_vf(pf, n):
    """What VF n of a PF has: its driver is in "vfs", {"0-3": {"driver": ...}}, by VF number."""
    part = pf.facts.get("vf", {})
    out = {"is_vf": True, "id": f"{pf.vendor:04x}:{pf.sriov['vf_device']}", "class": f"{pf.cls:06x}",
           "rev": f"{pf.revision:02x}", "type": "Endpoint", "numa": pf.facts["numa"],
           "link_cap": pf.facts.get("link_cap") or pf.facts.get("link"), "subsystem": "%x:%x" % pf.subsystem,
           "relaxed_ordering": pf.facts.get("relaxed_ordering"), "mps": pf.mps, "mrrs": pf.mrrs,
           "tag10_comp_req": pf.facts.get("tag10_comp_req", "--"), **part}
    for numbers, facts in pf.facts.get("vfs", {}).items():
        first, _, last = numbers.partition("-")
        if int(first) <= n <= int(last or first):
            out.update(facts)
    return out


def agree_on_payload(top):
    """Firmware and Linux give all below a root port one payload size (pci_configure_mps())."""
    tree = [top, *below(top)]
    least = min(fn.mps for fn in tree)
    for fn in tree:
        if not fn.mps_published:
            fn.mps = least


def load(source, catalogue):
    """All functions in order of number, VFs last: the order in which Linux meets them."""
    parts, layouts = catalogue["parts"], catalogue["layouts"]
    fns = {}
    for device in sorted(source["devices"], key=lambda d: number_of(d["bdf"])):
        facts = {**source.get("defaults", {}), **merge(parts[device["part"]] if "part" in device
                                                       else {}, device)}
        fns[device["bdf"]] = Fn(facts, device["bdf"], layouts.get(facts.get("layout"), {}))
        fns[device["bdf"]].mps_published = "mps" in device
    slots = [bdf[:-2] for bdf in fns]
    for fn in fns.values():
        fn.multifunction = fn.facts.get("multifunction", slots.count(fn.bdf[:-2]) > 1)
        if fn.facts.get("parent"):
            fn.parent = fns[fn.facts["parent"]]
            fn.parent.kids.append(fn)
    for top in [fn for fn in fns.values() if not fn.parent]:
        agree_on_payload(top)
    for pf in [fn for fn in fns.values() if fn.sriov and fn.sriov["num"]]:
        for n in range(pf.sriov["num"]):
            bdf = routing_id(pf.bdf, pf.sriov["offset"] + n * pf.sriov["stride"])
            vf = Fn(facts_of_vf(pf, n), bdf, layouts.get("vf", {}), pf.parent, pf)
            pf.vfs.append(vf)
            fns[bdf] = vf
    for fn in fns.values():
        if fn.is_bridge:
            set_buses(fn)
    place_all([fn for fn in fns.values() if not fn.is_vf])
    return list(fns.values())


def below(fn):
    for kid in fn.kids:
        yield kid
        yield from kid.vfs
        yield from below(kid)


def set_buses(fn):
    """Primary, secondary and subordinate bus; the last two from what lies below, unless given."""
    bus = fn.facts.get("bus")
    if bus:
        lower = int(bus["secondary"], 16), int(bus["subordinate"], 16)
    else:
        assert fn.kids, f"{fn.bdf}: a bridge with nothing below needs its bus numbers"
        lower = number_of(fn.kids[0].bdf)[1], max(number_of(at.bdf)[1] for at in below(fn))
    fn.buses = (number_of(fn.bdf)[1], *lower)


# Addresses. Invented, but laid out as firmware does: natural alignment, and every bridge
# forwards exactly what lies below it.

def align_up(value, to):
    return (value + to - 1) & -to


def asks(fn, pref):
    """[(size, align, place)]: the ranges that fn wants of its bus; place(addr) grants one."""
    out = []
    for bar in [*fn.bars.values(), *fn.vf_bars.values()]:
        if bar.pref == pref:
            size = bar.size * bar.count
            out.append((size, bar.size if bar.count > 1 and size & size - 1 else size,
                        lambda addr, bar=bar: setattr(bar, "addr", addr)))
    size, align, place = pack([ask for kid in fn.kids for ask in asks(kid, pref)])
    if size:
        size, align = align_up(size, MIB), max(align, MIB)

        def grant(addr, size=size, place=place):
            fn.windows[pref] = addr, addr + size - 1
            place(addr)
        out.append((size, align, grant))
    return out


def pack(wants):
    """(size, align, place) of the smallest range that holds all wants, largest alignment first."""
    at, spots = 0, []
    for size, align, place in sorted(wants, key=lambda want: -want[1]):
        at = align_up(at, align)
        spots.append((at, place))
        at += size

    def grant(addr):
        for offset, place in spots:
            place(addr + offset)
    return at, max((want[1] for want in wants), default=0), grant


def place_all(fns):
    """Each root gets 1 TiB above 32 TiB, or what it needs, and 64 MiB below 4 GiB."""
    high, low = 32 * TIB, 0x90000000
    for root in (fn for fn in fns if not fn.parent):
        size, align, place = pack(asks(root, True))
        high = align_up(high, max(align, 1))
        place(high)
        high += align_up(size, TIB) or TIB
        size, align, place = pack(asks(root, False))
        low = align_up(low, max(align, 1))
        place(low)
        low += align_up(size, 64 * MIB) if size else 64 * MIB
    for pf in fns:
        for n, vf in enumerate(pf.vfs):
            vf.bars = {number: Bar(bar.size, bar.wide, bar.pref, 1, bar.addr + n * bar.size)
                       for number, bar in pf.vf_bars.items()}


# The files of one function

def resource_text(fn):
    """resource_show(): 13 lines for a device, 17 with the windows of a bridge."""
    rows = [(0, 0, 0)] * (N_BRIDGE if fn.is_bridge else N_DEVICE)
    for number, bar in fn.bars.items():
        rows[number] = bar.resource()
    for number, bar in fn.vf_bars.items():
        rows[IOV + number] = bar.resource()
    for pref, window in fn.windows.items():
        rows[WINDOW_PREF if pref else WINDOW_MEM] = (*window, FLAGS_WINDOW[pref])
    return "\n".join("0x%016x 0x%016x 0x%016x" % row for row in rows)


def uevent_text(fn):
    """pci_uevent()."""
    cls, ids = fn.cls, (fn.vendor, fn.device, *fn.subsystem)
    rows = [f"DRIVER={fn.driver}"] if fn.driver else []
    rows += [
        "PCI_CLASS=%04X" % cls,
        "PCI_ID=%04X:%04X" % ids[:2],
        "PCI_SUBSYS_ID=%04X:%04X" % ids[2:],
        f"PCI_SLOT_NAME={fn.bdf}",
        "MODALIAS=pci:v%08Xd%08Xsv%08Xsd%08X" % ids
        + "bc%02Xsc%02Xi%02X" % (cls >> 16, cls >> 8 & 0xFF, cls & 0xFF),
    ]
    return "\n".join(rows)


def reset_methods(fn):
    """FLR where there is one; a bus reset needs the function to be alone on its bus."""
    if "reset" in fn.facts:
        return fn.facts["reset"]
    flr = ["flr"] if fn.flr else []
    alone = fn.parent and len(fn.parent.kids) == 1 and not fn.is_vf
    return " ".join(flr + (["bus"] if not fn.is_bridge and alone else []))


def link_files(fn):
    """Speed and width; a conventional function has no link."""
    if fn.kind in (None, RC_ENDPOINT):
        return {}
    out = {}
    for name, (speed, width) in (("max", fn.link_cap), ("current", fn.link_sta)):
        out[f"{name}_link_speed"] = SPEED_TEXT[speed]
        out[f"{name}_link_width"] = str(width)
    return out


def sriov_files(fn):
    if not fn.sriov:
        return {}
    return {
        "sriov_totalvfs": str(fn.sriov.get("limit", fn.sriov["total"])),
        "sriov_numvfs": str(fn.sriov["num"]),
        "sriov_offset": str(fn.sriov["offset"]),
        "sriov_stride": str(fn.sriov["stride"]),
        "sriov_vf_device": fn.sriov["vf_device"],
        "sriov_drivers_autoprobe": "1",
    }


def function_files(fn):
    """{name: text} of the attributes of one function, in sysfs spelling."""
    out = {
        "uevent": uevent_text(fn),
        "vendor": "0x%04x" % fn.vendor,
        "device": "0x%04x" % fn.device,
        "class": "0x%06x" % fn.cls,
        "numa_node": str(fn.facts["numa"]),
        "irq": "0",
        "driver_override": fn.facts.get("override") or "(null)",
        "d3cold_allowed": "0" if fn.is_vf else "1",
        "power_state": "D0",
        "power/runtime_status": "active",
        "resource": resource_text(fn),
        **link_files(fn),
        **sriov_files(fn),
    }
    if fn.is_bridge:
        out["msi_bus"] = "1"
    else:
        out.update({"revision": "0x%02x" % fn.revision,
                    "subsystem_vendor": "0x%04x" % fn.subsystem[0],
                    "subsystem_device": "0x%04x" % fn.subsystem[1]})
    if reset_methods(fn):
        out["reset_method"] = reset_methods(fn)
    for number, sizes in fn.rebar.items():
        out[f"resource{number}_resize"] = f"{sizes:016x}"   # bit n: 2^n MiB (resource_resize_show())
    out.update(fn.facts.get("files", {}))
    return {name: text for name, text in out.items() if text is not None}


def net_files(tree, fn, home):
    """net/ and infiniband/ of a NIC, with the links of their classes."""
    for net in fn.facts.get("net", []):
        base = f"{home}/net/{net['name']}"
        tree.update({f"{base}/{k}": str(v) for k, v in net.items() if k not in ("name",)})
        yield f"sys/class/net/{net['name']}", base
    rdma = fn.facts.get("rdma")
    if rdma:
        base = f"{home}/infiniband/{rdma['name']}"
        for key, value in rdma.items():
            if key == "port":
                tree.update({f"{base}/ports/1/{k}": str(v) for k, v in value.items()})
            elif key != "name":
                tree[f"{base}/{key}"] = str(value)
        yield f"sys/class/infiniband/{rdma['name']}", base


def link_to(path, target):
    """The link at path to target, both below the root, relative as the kernel makes it."""
    return Link("../" * path.count("/") + target)


def add_function(tree, fn, config, group_type):
    """Put fn, and the links that name it, into tree."""
    home = fn.path()
    tree.update({f"{home}/{name}": text for name, text in function_files(fn).items()})
    if config:
        tree[f"{home}/config"] = config
    links = [(f"sys/bus/pci/devices/{fn.bdf}", home), *net_files(tree, fn, home)]
    if fn.driver:
        driver = f"sys/bus/pci/drivers/{fn.driver}"
        links += [(f"{home}/driver", driver), (f"{driver}/{fn.bdf}", home)]
    if fn.group is not None:
        group = f"sys/kernel/iommu_groups/{fn.group}"
        links += [(f"{home}/iommu_group", group), (f"{group}/devices/{fn.bdf}", home)]
        tree[f"{group}/type"] = fn.facts.get("domain", group_type)
    for path, target in links:
        # both lie in sys/, so the link climbs to sys/ and no further
        tree[path] = link_to(path[4:], target[4:])
    for n, vf in enumerate(fn.vfs):
        tree[f"{home}/virtfn{n}"] = Link(f"../{vf.bdf}")
    if fn.pf:
        tree[f"{home}/physfn"] = Link(f"../{fn.pf.bdf}")
