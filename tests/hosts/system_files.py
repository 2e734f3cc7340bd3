# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a machine that are not those of its PCI functions, from "system" of a source.json."""
from texthost import Link

MEMINFO = (("MemTotal", "total"), ("MemFree", "free"), ("MemUsed", "used"), ("FilePages", "cache"),
           ("AnonPages", "anon"))


def cpu_list(text):
    """The numbers of "0-3,8"."""
    out = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def list_text(cpus):
    """"0-3,8" of the numbers."""
    rows = []
    for cpu in sorted(cpus):
        if rows and rows[-1][1] == cpu - 1:
            rows[-1][1] = cpu
        else:
            rows.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in rows)


def add_nodes(tree, nodes):
    """CPUs, distances, memory and huge pages of each NUMA node; memory in kB in the source."""
    base = "sys/devices/system/node"
    tree[f"{base}/online"] = list_text(node["id"] for node in nodes)
    for kind, test in (("has_cpu", lambda n: n["cpus"]), ("has_memory", lambda n: n["memory"])):
        tree[f"{base}/{kind}"] = list_text(node["id"] for node in nodes if test(node))
    for node in nodes:
        home, n = f"{base}/node{node['id']}", node["id"]
        tree[f"{home}/cpulist"] = node["cpus"]
        tree[f"{home}/distance"] = " ".join(map(str, node["distance"]))
        tree[f"{home}/meminfo"] = meminfo_text(n, node)
        for size, (total, free) in node.get("huge", {}).items():
            pool = f"{home}/hugepages/hugepages-{size}kB"
            tree.update({f"{pool}/nr_hugepages": str(total), f"{pool}/free_hugepages": str(free),
                         f"{pool}/surplus_hugepages": "0"})


def meminfo_text(n, node):
    """node_read_meminfo(); a pool of huge pages counts as used."""
    total, free = node["memory"], node["free"]
    kb = {"total": total, "free": free, "used": total - free, "cache": free // 16, "anon": free // 64}
    huge = node.get("huge", {}).get("2048", (0, 0))
    rows = [f"Node {n} {name + ':':<16}{kb[key]:>8} kB" for name, key in MEMINFO]
    rows += [f"Node {n} HugePages_Total:{huge[0]:>6}", f"Node {n} HugePages_Free: {huge[1]:>6}",
             f"Node {n} HugePages_Surp:      0"]
    return "\n".join(rows)


def add_cpus(tree, system):
    """CPUs: "packages" is one list per socket; "smt" is how far a sibling's number is away (0: none).

    Only the first thread of a core and the first CPU of a package have files: the rest repeats them.
    """
    base, packages = "sys/devices/system/cpu", [cpu_list(cpus) for cpus in system["packages"]]
    cpus = sorted(cpu for package in packages for cpu in package)
    online = list_text(cpus)
    tree.update({f"{base}/online": online, f"{base}/present": online,
                 f"{base}/possible": system.get("possible", online)})
    tree[f"{base}/smt/active"] = str(int(system["smt"] > 0))
    for number, package in enumerate(packages):
        for cpu in package:
            core = core_of(cpu, system["smt"], package)
            if cpu == core[0]:
                tree[f"{base}/cpu{cpu}/topology/core_cpus_list"] = list_text(core)
        tree[f"{base}/cpu{package[0]}/topology/package_cpus_list"] = list_text(package)
        tree[f"{base}/cpu{package[0]}/topology/physical_package_id"] = str(number)


def core_of(cpu, smt, package):
    """cpu and its sibling: the other one of a pair for 1, else smt further or nearer."""
    if smt == 1:
        return [cpu & ~1, cpu | 1]
    lower = cpu if not smt or cpu - smt not in package else cpu - smt
    return [lower, lower + smt] if smt else [cpu]


def add_iommu(tree, units):
    """sys/class/iommu: one directory for each unit, {name: {"at": parent, file: text}}."""
    if not units:
        tree["sys/class/iommu"] = None
    for name, files in (units or {}).items():
        home = f"devices/{files.get('at', 'virtual')}/iommu/{name}"
        tree[f"sys/class/iommu/{name}"] = Link(f"../../{home}")
        tree.update({f"sys/{home}/{file}": text for file, text in files.items() if file != "at"})
        if len(files) == ("at" in files):
            tree[f"sys/{home}"] = None


def add_modules(tree, modules):
    """sys/module: a directory for each, with the parameters that the source names."""
    for name, parameters in modules.items():
        tree[f"sys/module/{name}/initstate"] = "live"
        tree.update({f"sys/module/{name}/parameters/{key}": str(value)
                     for key, value in parameters.items()})


def add_system(tree, system):
    """Kernel, firmware, CPUs, memory, modules."""
    tree.update({
        "proc/cmdline": system["cmdline"],
        "proc/sys/kernel/osrelease": system["kernel"],
        "proc/cpuinfo": "\n".join(f"{key}\t: {value}" for key, value in
                                  {"processor": 0, **system["cpuinfo"]}.items()) + "\n",
        "sys/class/dmi/id": Link("../../devices/virtual/dmi/id"),
    })
    for key, value in system["dmi"].items():
        tree[f"sys/devices/virtual/dmi/id/{key}"] = value
    if system.get("kvm"):
        tree[f"lib/modules/{system['kernel']}/kernel/drivers/vfio/pci/vfio-pci.ko"] = ""
    if system["cpuinfo"].get("vendor_id") in ("GenuineIntel", "AuthenticAMD"):
        tree["sys/kernel/irq/0/chip_name"] = "IR-IO-APIC" if system["iommu"] else "IO-APIC"
    if "vfio_pci" in system["modules"]:
        tree.setdefault("sys/bus/pci/drivers/vfio-pci/new_id", "")
    if system.get("kvm"):
        tree["sys/devices/virtual/misc/kvm/dev"] = "10:232"
    add_cpus(tree, system)
    add_nodes(tree, system["nodes"])
    add_iommu(tree, system["iommu"])
    add_modules(tree, system["modules"])
    tree.update({path: text for path, text in system.get("files", {}).items()})
