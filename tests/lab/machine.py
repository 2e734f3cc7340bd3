# SPDX-License-Identifier: GPL-2.0-or-later
"""The hardware of the emulated GPU host, as a QEMU command line.

Two sockets; on each a PCIe root port, below it a switch with two GPUs, an SR-IOV NIC and an NVMe disk:

    pxb0 (bus 20, node 0) - rp0 - up0 -+- dn00 - gpu00   0000:23:00.0
                                       +- dn01 - gpu01   0000:24:00.0
                                       +- dn02 - pf0     0000:25:00.0   its VFs: 25:10.0, 25:10.2, ... 25:11.4
                                       `- dn03 - nvme0   0000:26:00.0
    pxb1 (bus 80, node 1) - rp1 - up1 -+- dn10 - gpu10   0000:83:00.0   and so on

The two NICs are on one hub. The names are the ids of QEMU's devices: in the monitor, and for extra options.
Paths are those seen from in-root, where build/lab is /mnt.
"""

import itertools

NODE_MIB = 3072
KERNEL_ARGS = ("console=ttyS0 loglevel=4 root=/dev/vda rw mitigations=off nokaslr audit=0 nowatchdog "
               "rcupdate.rcu_expedited=1 cryptomgr.notests random.trust_cpu=on systemd.show_status=0 "
               "rcupdate.rcu_cpu_stall_timeout=10 intel_iommu=on iommu=pt")


def socket_args(node, slots):
    """The PCIe tree of one socket. A slot number may be used only once in the machine."""
    yield "-netdev", f"hubport,id=net{node},hubid=0"
    yield "-drive", f"if=none,id=disk{node},file.driver=null-co,file.size=1G,format=raw"
    yield "-device", f"pxb-pcie,id=pxb{node},bus=pcie.0,bus_nr={0x20 + 0x60 * node},numa_node={node}"
    yield "-device", (f"pcie-root-port,id=rp{node},bus=pxb{node},chassis={node + 1},slot={next(slots)},"
                      "hotplug=off,x-speed=32,x-width=16")
    yield "-device", f"hgx-switch-up,id=up{node},bus=rp{node}"
    for port in range(4):
        yield "-device", (f"hgx-switch-down,id=dn{node}{port},bus=up{node},chassis={16 * (node + 1) + port},"
                          f"slot={next(slots)},hotplug=off")
    yield "-device", f"hgx-gpu,id=gpu{node}0,bus=dn{node}0"
    yield "-device", f"hgx-gpu,id=gpu{node}1,bus=dn{node}1"
    yield "-device", f"igb,id=pf{node},bus=dn{node}2,netdev=net{node},mac=52:54:00:00:0{node}:01"
    yield "-device", f"nvme,id=nvme{node},bus=dn{node}3,serial=nvme{node},drive=disk{node}"


def board_args():
    """Processors, memory, IOMMU."""
    # No keyboard controller: while Linux probes it, a processor loses its timer in one boot of five.
    yield "-machine", "q35,i8042=off"
    yield "-accel", "tcg,thread=multi,tb-size=512"
    # max has AMD-V, so that L1 has /dev/kvm; la57 would cost a level of page tables in each walk.
    yield "-cpu", "max,la57=off"
    yield "-smp", "4,sockets=2,cores=2"
    yield "-m", f"{2 * NODE_MIB}M"
    for node in range(2):
        yield "-object", f"memory-backend-ram,id=ram{node},size={NODE_MIB}M"
        yield "-numa", f"node,nodeid={node},cpus={2 * node}-{2 * node + 1},memdev=ram{node}"
    yield "-numa", "dist,src=0,dst=1,val=21"
    yield "-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on,aw-bits=48"


def service_args():
    """What the lab needs for itself: disk, shared folder, consoles, monitor. All of it on bus 0."""
    yield "-serial", "file:/mnt/logs/console.log"
    yield "-qmp", "unix:/mnt/run/qmp.sock,server=on,wait=off"
    yield "-chardev", "socket,id=ctl,path=/mnt/run/ctl.sock,server=on,wait=off"
    yield "-chardev", "socket,id=shell,path=/mnt/run/shell.sock,server=on,wait=off"
    yield "-device", "virtio-serial-pci,id=serial,bus=pcie.0"
    yield "-device", "virtserialport,bus=serial.0,chardev=ctl,name=lab.ctl"
    yield "-device", "virtconsole,bus=serial.0,chardev=shell"
    # snapshot: nothing that a test does is kept.
    yield "-drive", "file=/mnt/l1.img,if=none,id=root,format=raw,snapshot=on,cache=unsafe,discard=unmap"
    yield "-device", "virtio-blk-pci,bus=pcie.0,drive=root"
    yield "-fsdev", "local,id=lab,path=/mnt/share,security_model=none"
    yield "-device", "virtio-9p-pci,bus=pcie.0,fsdev=lab,mount_tag=lab"
    yield "-object", "rng-random,id=rng,filename=/dev/urandom"
    yield "-device", "virtio-rng-pci,bus=pcie.0,rng=rng"


def device_id(text):
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part).get("id")


KERNELS = {"6.12": ("vmlinux", "l1.initrd"), "6.1": ("vmlinux-old", "l1-old.initrd")}


def qemu_command(kernel="6.12", append="", extra=None, devices=()):
    """The whole command. APPEND goes to the kernel, EXTRA maps a device id to more options, DEVICES come in addition."""
    vmlinux, initrd = KERNELS[kernel]
    extra = dict(extra or {})
    slots = itertools.count(1)
    command = ["env", "LD_PRELOAD=/mnt/hgx.so", "qemu-system-x86_64", "-name", "velad-lab",
               "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-vga", "none",
               "-kernel", f"/mnt/{vmlinux}", "-initrd", f"/mnt/{initrd}",
               "-append", f"{KERNEL_ARGS} {append}".strip()]
    for option, text in itertools.chain(board_args(), service_args(), socket_args(0, slots), socket_args(1, slots)):
        more = extra.pop(device_id(text), None) if option == "-device" else None
        command += [option, f"{text},{more}" if more else text]
    for text in devices:
        command += ["-device", text]
    if extra:
        raise ValueError(f"no device has the id {', '.join(sorted(extra))}")
    return command
