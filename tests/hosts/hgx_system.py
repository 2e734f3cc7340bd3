# SPDX-License-Identifier: GPL-2.0-or-later
"""hgx_system — what an HGX host has beside its PCI functions: cores, NICs, modules, Fabric Manager

All invented, in the kernel's spelling, except the partitions of an HGX H100 board (NVIDIA WP-12736-002) and
the module ids, which the caller has. Addresses begin with 02: locally administered, so nobody's.
"""
import json

PARTITIONS = [
    (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4), (5, 6, 7, 8), (1, 3), (2, 4), (5, 7), (6, 8),
    (1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,),
]
NVLINKS = {8: 18, 4: 18, 2: 18, 1: 0}                       # per GPU, of 18
#       device: hca_type, board_id, firmware, Mb/s, rate
NICS = {
    0x1021: ("MT4129", "MT_0000000838", "28.39.1002", 400000, "400 Gb/sec (4X NDR)"),
    0x101d: ("MT4125", "MT_0000000436", "22.39.1002", 100000, "100 Gb/sec (4X EDR)"),
}


def add_cores(tree, sockets, threads):
    """sockets: lists of the first thread of each core; the others follow threads apart."""
    base = "sys/devices/system/cpu"
    tree[f"{base}/smt/active"] = "1"
    for number, (cpus, first) in enumerate(sockets):
        tree[f"{base}/cpu{first[0]}/topology/package_cpus_list"] = cpus
        tree[f"{base}/cpu{first[0]}/topology/physical_package_id"] = str(number)
        for cpu in first:
            tree[f"{base}/cpu{cpu}/topology/core_cpus_list"] = f"{cpu},{cpu + threads}"


def netdev_name(fn):
    """systemd's, by path; the driver's port name is at its end."""
    function = f"f{fn.bdf[-1]}" if fn.multifunction else ""
    return f"enp{int(fn.bdf[5:7], 16)}s{int(fn.bdf[8:10], 16)}{function}np{fn.bdf[-1]}"


def add_nic(tree, fn, number):
    """One Ethernet port of mlx5, up."""
    kind, board, firmware, speed, rate = NICS[fn.device]
    name, low = netdev_name(fn), f"{fn.bdf[5:7]}{fn.bdf[-1]}"
    net, dev = f"{fn.path()}/net/{name}", f"{fn.path()}/infiniband/mlx5_{number}"
    tree.update({
        f"{net}/address": f"02:00:00:00:{fn.bdf[5:7]}:0{fn.bdf[-1]}", f"{net}/carrier": "1", f"{net}/mtu": "9000",
        f"{net}/operstate": "up", f"{net}/phys_port_name": f"p{fn.bdf[-1]}", f"{net}/speed": str(speed),
        f"{net}/phys_switch_id": f"{low.zfill(4)}00feff000002",
        f"{dev}/node_guid": f"0200:0000:0000:0{low}", f"{dev}/sys_image_guid": f"0200:0000:0000:0{low[:2]}0",
        f"{dev}/fw_ver": firmware, f"{dev}/hca_type": kind, f"{dev}/board_id": board,
        f"{dev}/ports/1/state": "4: ACTIVE", f"{dev}/ports/1/phys_state": "5: LinkUp",
        f"{dev}/ports/1/rate": rate, f"{dev}/ports/1/link_layer": "Ethernet",
    })
    asked = f"answers/devlink/pci/{fn.bdf}"
    tree.update({
        f"{asked}/driver": "mlx5_core", f"{asked}/fixed/fw.psid": board,
        f"{asked}/running/fw": firmware, f"{asked}/stored/fw": firmware,
    })
    if speed == 400000:                                     # a leaf switch per rail
        lldp = f"answers/lldp/{name}"
        tree.update({
            f"{lldp}/chassis-id": f"02:00:00:01:00:{number:02x}", f"{lldp}/chassis-name": f"leaf-{number:02d}",
            f"{lldp}/port-id": "Ethernet1/1", f"{lldp}/port-descr": "gpu-host-1",
        })


def add_modules(tree):
    loaded = {
        "kvm": {"nx_huge_pages": "N"}, "kvm_intel": {"nested": "Y", "enable_apicv": "Y", "ept": "Y"},
        "vfio": {"enable_unsafe_noiommu_mode": "N"},
        "vfio_iommu_type1": {"allow_unsafe_interrupts": "N", "dma_entry_limit": "65535", "disable_hugepages": "N"},
        "mlx5_core": {"prof_sel": "2", "probe_vf": "Y"}, "mlx5_ib": {}, "nvidia": {},
    }
    for name, params in loaded.items():
        tree[f"sys/module/{name}/initstate"] = "live"
        tree.update({f"sys/module/{name}/parameters/{key}": value for key, value in params.items()})
    tree["sys/module/nvidia/version"] = "550.54.15"


def add_fabric(tree, modules):
    """Shared NVSwitch mode, nothing active. modules: {BDF: module id}."""
    of = {module: bdf for bdf, module in modules.items()}
    tree["usr/share/nvidia/nvswitch/fabricmanager.cfg"] = (
        "# Fabric Manager\nLOG_LEVEL=4\nFABRIC_MODE=1\nFABRIC_MODE_RESTART=0\n"
        "FM_CMD_UNIX_SOCKET_PATH=/run/nvidia-fabricmanager/socket\nUNIX_SOCKET_PATH=")
    tree["run/nvidia-fabricmanager/socket"] = "socket"
    partitions = [{
        "gpuInfo": [{"maxNumNvLinks": 18, "numNvLinksAvailable": NVLINKS[len(ids)], "nvlinkLineRateMBps": 25000,
                     "pciBusId": f"0000{of[n].upper()}", "physicalId": n, "uuid": ""} for n in ids],
        "isActive": 0, "numGpus": len(ids), "partitionId": number,
    } for number, ids in enumerate(PARTITIONS)]
    tree["answers/fmpm/partitions"] = json.dumps({
        "maxNumPartitions": len(partitions), "numPartitions": len(partitions), "partitionInfo": partitions,
        "version": 16909068})
