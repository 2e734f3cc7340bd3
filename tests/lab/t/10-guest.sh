#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The main job: velactl makes a guest with two GPUs and a VF of one switch on node 1; the guest says what it sees;
# what does not fit is refused with reasons; delete gives the host back as it was.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

console=/var/log/velad/train.log
boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd"

# ---- what velad sees ------------------------------------------------------------------------------------------

before=$(host_state)
seen=$(l1 'velactl -o json topo | jq -r ".nodes[] | select(.kind == \"gpu\" or .kind == \"nic\") |
	[.bdf, .kind, .parent, (.numa_node | tostring), .driver // \"-\", .acs.state, .ats.state] | join(\" \")"')
is "topo: GPUs and NICs with parent, node, driver, capabilities" \
"0000:23:00.0 gpu 0000:22:00.0 0 - absent present
0000:24:00.0 gpu 0000:22:01.0 0 - absent present
0000:25:00.0 nic 0000:22:02.0 0 igb absent present
0000:83:00.0 gpu 0000:82:00.0 1 - absent present
0000:84:00.0 gpu 0000:82:01.0 1 - absent present
0000:85:00.0 nic 0000:82:02.0 1 igb absent present" "$seen"
is "topo: ACS of the switch ports as the kernel set it" "0x5f 0x1d" "$(l1 'velactl -o json topo |
	jq -r ".nodes[] | select(.kind == \"dsp\") | .acs.cap + \" \" + .acs.ctl" | sort -u' | sed 's/0x005/0x5/')"
matches "the matrix has the classes" '^ *GPU2 .*PIX.*SYS|^ *GPU2 .*SYS.*PIX' "$(l1 'velactl topo -m')"
is "the text host of the emulated host is today's" "" "$(l1 'velactl dump' >"$logs/sys.txt"; lab_drift "$logs/sys.txt")"

# ---- a guest ---------------------------------------------------------------------------------------------------

l1 '	ip link set "$(ls /sys/bus/pci/devices/0000:85:00.0/net)" up
	peer=$(ls /sys/bus/pci/devices/0000:25:00.0/net)
	ip link set "$peer" up
	ip addr add 192.168.77.1/24 dev "$peer"'
seen=$(l1 -t 180 "velactl create train --gpus 2 --vfs 1 --numa-node 1 --max-path PIX --vcpus 2 --memory 512M $boot \
	--cmdline 'console=ttyS0 report.stay mitigations=off nokaslr cryptomgr.notests' 2>&1")
is "create: exit status" 0 $?
matches "create shows its steps" 'vf-count.*0000:85:00.0' "$seen"
is "the instance runs with the GPUs and the VF of one switch" \
	"running 0000:83:00.0 0000:84:00.0 0000:85:10.0 PIX" \
	"$(l1 'velactl -o json show train | jq -r "[.state, .bundle.gpus[].bdf, .bundle.vfs[].bdf, .bundle.vfs[].path] | join(\" \")"')"
is "drivers while it runs; ATS on for GPUs and VF" "vfio-pci 8000 vfio-pci 8000 vfio-pci 8000" "$(l1 '
	for d in 83:00.0 84:00.0 85:10.0; do
		driver=$(readlink /sys/bus/pci/devices/0000:$d/driver)
		echo "${driver##*/} $(setpci -s $d ECAP_ATS+6.w)"
	done' | xargs)"
seen_ats='velactl -o json show train | jq -r "[.bundle.gpus[].ats, .bundle.vfs[].ats, .findings[].rule] | join(\" \")"'
is "velad has seen ATS on, too" "on on on" "$(l1 -t 60 "
	for _ in \$(seq 20); do s=\$($seen_ats); [ \"\$s\" = 'on on on' ] && break; sleep 0.5; done; echo \"\$s\"")"
matches "topo says who uses a GPU" '0000:83:00.0.*train' "$(l1 'COLUMNS=160 velactl topo')"

wait_report "$console" 240
matches "the report is whole" '^REPORT end' "$report"
is "the guest sees two GPUs on node 1" 2 "$(facts dev id=10de:2330 class=030200 kind=endpoint numa=0 | wc -l)"
is "GPUs and VF are under one switch" "3 1" \
	"$(facts dev kind=endpoint 'id=(10de:2330|8086:10ca)' | field switch | grep -v '^-$' | sort | uniq -c | awk '{ n++; c += $1 } END { print c, n }')"
nccl=$(l1 'velactl nccl-topology train')
busids() { grep -o "busid=\"[^\"]*\" class=\"0x$1" <<<"$nccl" | cut -d'"' -f2 | sort -u | xargs; } # CLASS
is "NCCL's file has GPUs and VF by the guest's own addresses" \
	"$(facts dev kind=endpoint 'id=(10de:2330|8086:10ca)' | field bdf | sort | xargs)" "$(busids '0[23]')"
is "and their switch" "$(facts dev kind=endpoint id=10de:2330 | field switch | sort -u)" "$(busids 0604)"
is "every BAR of the GPUs has an address" 6 \
	"$(facts dev id=10de:2330 | field bdf | while read -r bdf; do facts bar "bdf=$bdf" 'start=0x[1-9a-f][0-9a-f]*'; done | wc -l)"
is "DMA: GPUs and VF to memory, to and from the GPUs" 11 "$(facts dma status=ok | wc -l)"
is "the VF's way to and from each GPU is direct" 4 "$(facts dma route=direct rule=dt port=82:02.0 | wc -l)"
is "no DMA went wrong" "" "$(facts dma status=bad)"
is "the VF passes packets" "3 3" \
	"$(facts net ping=192.168.77.1 | sed 's/.* sent=\([0-9]*\) received=\([0-9]*\).*/\1 \2/')"
is "the guest's memory lies on host node 1" yes "$(l1 '
	pid=$(pgrep -f "guest=train")
	grep -o "N[01]=[0-9]*" "/proc/$pid/numa_maps" | awk -F= "{ n[\$1] += \$2 }
		END { if (n[\"N1\"] > 100000 && n[\"N1\"] > 4 * n[\"N0\"]) print \"yes\"; else print n[\"N0\"], n[\"N1\"] }"')"
qemu=$(l1 'tr "\0" "\n" <"/proc/$(pgrep -f "guest=train")/cmdline"')
matches "QEMU has the host's link at the guest's root port, and no I/O window there" \
	'"driver":"pcie-root-port".*"x-speed":"32".*"x-width":"16".*"io-reserve":0' "$qemu"
is "it may lock the guest's memory, and more" yes "$(l1 'awk "/^Max locked memory/ { print (\$4 == \"unlimited\" || \$4 > 536870912) ? \"yes\" : \$4 }" \
	"/proc/$(pgrep -f "guest=train")/limits"')"

# ---- what does not fit, and what is taken ------------------------------------------------------------------------

after_create=$(host_state)
seen=$(l1 'velactl create second --gpus 2 --vfs-per-gpu 1 --numa-node 1 --max-path PIX 2>&1')
is "a second guest on the same GPUs: exit status 5" 5 $?
matches "it names the GPU and who holds it" '0000:83:00.0.*instance train' "$seen"
seen=$(l1 'velactl create second --gpus 4 --vfs 1 --max-path PIX 2>&1')
is "four GPUs: exit status 5" 5 $?
seen=$(l1 'velactl plan --gpus 1 --require 0000:24:00.0 --exclude 0000:25:00.0 --vfs-per-gpu 1 --max-path PIX')
is "a plan with the other node's NIC: fits" 0 $?
seen=$(l1 'for v in 0 1 2 3 4 5 6; do printf "%s " "--exclude 0000:25:$((10 + v / 4)).$((v % 4 * 2))"; done')
# shellcheck disable=SC2086 # words
seen=$(l1 "velactl plan --gpus 1 --numa-node 0 $seen --vfs-per-gpu 1 --max-path PIX")
is "no VF at PIX: exit status 5" 5 $?
matches "it says how far the nearest VF is" 'nearest free VF is at SYS.*PIX' "$seen"
is "a name that is taken: exit status 4" 4 "$(l1 'velactl create train --gpus 1 >/dev/null 2>&1; echo $?')"
is "refusals changed nothing" "$after_create" "$(host_state)"
is "list has the one instance" "train running" "$(l1 'velactl -o json list | jq -r ".instances[] | .name + \" \" + .state"')"

# ---- the daemon may restart ------------------------------------------------------------------------------------

generation=$(l1 'velactl -o json topo | jq .generation')
l1 'systemctl restart velad' || fail "velad restarts" "status $?"
is "after a restart of velad the guest still runs" running "$(l1 'velactl -o json show train | jq -r .state')"
passes "the generation does not go back" test "$(l1 'velactl -o json topo | jq .generation')" -ge "$generation"

# ---- as before -----------------------------------------------------------------------------------------------

passes "delete" l1 -t 120 'velactl delete train'
is "drivers, overrides, VFs, ACS registers are as before" "$before" "$(host_state)"
is "the instance is gone: exit status 3" 3 "$(l1 'velactl show train >/dev/null 2>&1; echo $?')"
is "libvirt knows no domain of ours" "" "$(l1 'virsh list --all --name' | xargs)"

# ---- a guest that ends by itself, and is deleted then -------------------------------------------------------------

seen=$(l1 -t 180 "velactl create short --gpus 1 --vcpus 1 --memory 256M $boot --cmdline 'console=ttyS0 mitigations=off nokaslr' 2>&1")
is "a guest with one GPU and no VF: exit status" 0 $?
wait_report /var/log/velad/short.log 120
matches "its report is whole" '^REPORT end' "$report"
is "it is stopped once it powered off" stopped "$(l1 -t 60 '
	for _ in $(seq 40); do
		state=$(velactl -o json show short | jq -r .state); [ "$state" = stopped ] && break; sleep 0.5
	done; echo "$state"')"
is "and what it had passed the gate" "gate succeeded" "$(l1 'velactl -o json op list short | jq -r ".operations[0] | [.kind, .state] | join(\" \")"')"
passes "delete of a stopped guest" l1 -t 120 'velactl delete short'
is "the host is as before again" "$before" "$(host_state)"
keep '/var/log/libvirt/qemu/[ts]*.log'
l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
