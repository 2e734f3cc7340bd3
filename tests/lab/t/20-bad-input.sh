#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Bad input and broken surroundings: each gives an error that names the thing and the fix, and leaves the host as
# it was.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd --cmdline console=ttyS0"
guest="--gpus 1 --vfs-per-gpu 1 --numa-node 1 --memory 256M $boot"
before=$(host_state)

# refused TEXT STATUS REGEX COMMAND: the command fails with that status and says that, and nothing has changed
refused() {
	local seen rc
	seen=$(l1 -t 120 "$4" 2>&1)
	rc=$?
	is "$1: exit status $2" "$2" "$rc"
	matches "$1: says what and why" "$3" "$seen"
	is "$1: the host is as before" "$before" "$(host_state)"
}

post() { # BODY: a raw request to the socket; prints the answer
	l1 "body='$1'; printf 'POST /v1/instances HTTP/1.1\r\nHost: velad\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' \"\${#body}\" \"\$body\" |
		socat -t 60 - UNIX-CONNECT:/run/velad/velad.sock"
}

seen=$(post '{"gpus":')
matches "garbage JSON: 400" '^HTTP/1.1 400' "$seen"
matches "garbage JSON: a problem document" '"code":"invalid".*"detail":".*JSON' "$seen"
seen=$(post '{"name":"a","gpu":1}')
matches "an unknown key: 400 with the key" '"detail":"request has an unknown key \\"gpu\\"' "$seen"

refused "a BDF that does not exist" 5 '0000:ee:00.0.*no such function' \
	"velactl create bad $guest --require 0000:ee:00.0"
refused "memory that the host has not" 5 'NUMA node 1 has .* MiB that is free' \
	"velactl create bad --gpus 1 --numa-node 1 --memory 64G $boot"
refused "a kernel that does not exist" 1 '/nonexistent' \
	"velactl create bad --gpus 1 --vfs-per-gpu 1 --memory 256M --kernel /nonexistent"
is "the failed instance says so" failed "$(l1 'velactl -o json show bad | jq -r .state')"
matches "its devices are free again" '^true$' "$(l1 'velactl -o json plan --gpus 4 --vcpus 2 | jq .fits')"
passes "it can be deleted" l1 'velactl delete bad'

# ---- broken surroundings ---------------------------------------------------------------------------------------

l1 'systemctl stop libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket 2>/dev/null; true'
refused "libvirt not running" 1 'qemu:///system.*systemctl start libvirtd' "velactl create bad $guest"
l1 'systemctl start libvirtd.socket libvirtd.service'
l1 'velactl delete bad >/dev/null 2>&1; true'

l1 'modprobe -r vfio_pci; cd /lib/modules/$(uname -r)/kernel/drivers/vfio/pci && mv vfio-pci.ko /root/ && depmod'
refused "vfio-pci not there" 1 'vfio-pci' "velactl create bad $guest"
l1 'mv /root/vfio-pci.ko /lib/modules/$(uname -r)/kernel/drivers/vfio/pci/ && depmod'
l1 'velactl delete bad >/dev/null 2>&1; true'

# a NIC port whose driver makes no VFs: vfio-pci itself, without enable_sriov
l1 'modprobe vfio-pci
	cd /sys/bus/pci/devices/0000:85:00.0
	echo vfio-pci >driver_override; echo 0000:85:00.0 >driver/unbind; echo 0000:85:00.0 >/sys/bus/pci/drivers_probe'
before=$(host_state)
refused "VF count refused by the driver" 1 '0000:85:00.0.*vfio-pci' "velactl create bad $guest"
l1 'cd /sys/bus/pci/devices/0000:85:00.0
	echo >driver_override; echo 0000:85:00.0 >driver/unbind; echo 0000:85:00.0 >/sys/bus/pci/drivers_probe
	velactl delete bad >/dev/null 2>&1; true'

l1 'systemctl stop velad.socket velad.service'
refused_plain() { is "$1" "$2" "$(l1 "$3 >/dev/null 2>&1; echo \$?")"; }
refused_plain "the daemon is not there: exit status 7" 7 'velactl list'
matches "it names the socket and the fix" '/run/velad/velad.sock.*systemctl start velad.socket' "$(l1 'velactl list 2>&1')"
refused_plain "topo --root / works without it" 0 'velactl --root / topo'
passes "velad starts again" l1 'systemctl start velad.socket && velactl list'
l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
