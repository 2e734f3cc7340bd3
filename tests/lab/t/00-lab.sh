#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The lab itself, without velad: the emulated host has the hardware that the other tests count on, and a guest
# that is started by hand gets it. What fails here is the lab's fault, not velad's.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

gpus="0000:23:00.0 0000:24:00.0 0000:83:00.0 0000:84:00.0"
pf=0000:85:00.0
console=/var/log/libvirt/qemu/smoke-console.log

# ---- hardware -----------------------------------------------------------------------------------------------

seen=$(l1 '
	cd /sys/bus/pci/devices
	for d in 0000:[28]*; do
		read -r vendor <$d/vendor; read -r device <$d/device; read -r class <$d/class; read -r node <$d/numa_node
		read -r speed _ <$d/current_link_speed; read -r width <$d/current_link_width
		echo "$d $vendor:$device $class node=$node link=${speed}x$width"
	done
	echo "groups $(readlink 0000:[28]*/iommu_group | sort -u | wc -l) functions $(echo 0000:[28]* | wc -w)"
	echo "vfio $(lsmod | grep -c vfio)"
	ls -d /dev/kvm /dev/vfio/vfio')
for gpu in $gpus; do
	node=$([[ $gpu = 0000:2* ]] && echo 0 || echo 1)
	is "GPU $gpu: id, class, node, link" "$gpu 0x10de:0x2330 0x030200 node=$node link=32.0x16" "$(grep "^$gpu" <<<"$seen")"
done
is "NIC $pf: id, class, node" "$pf 0x8086:0x10c9 0x020000 node=1" "$(grep "^$pf" <<<"$seen" | sed 's/ link.*//')"
is "a group for every function on the two sockets" "groups 20 functions 20" "$(grep ^groups <<<"$seen")"
is "vfio is not loaded at boot" "vfio 0" "$(grep ^vfio <<<"$seen")"
is "KVM and VFIO can be used" "/dev/kvm /dev/vfio/vfio" "$(grep ^/dev <<<"$seen" | xargs)"

# ACS: capability SV TB RR CR UF DT; Linux has set SV RR CR UF; a control write stays.
seen=$(l1 '
	acs() { setpci -s $1 ECAP_ACS+4.w ECAP_ACS+6.w | xargs; }
	for d in 20:00.0 22:00.0 22:01.0 22:02.0 22:03.0 80:00.0 82:00.0 82:01.0 82:02.0 82:03.0; do acs $d; done | sort -u
	setpci -s 22:02.0 ECAP_ACS+6.w=005d; acs 22:02.0; setpci -s 22:02.0 ECAP_ACS+6.w=001d; acs 22:02.0')
is "ACS of root ports and switches: as Linux sets it, DT written, put back" \
	"005f 001d 005f 005d 005f 001d" "$(xargs <<<"$seen")"

# ---- VFs ------------------------------------------------------------------------------------------------------

seen=$(l1 "
	cd /sys/bus/pci/devices/$pf
	cat sriov_totalvfs; echo 7 >sriov_numvfs; readlink virtfn*; sort -u virtfn*/device; sort -u virtfn*/numa_node
	readlink virtfn*/iommu_group | sort -u | wc -l" | xargs)
is "7 VFs: addresses, id, node, groups" \
	"7 $(printf '../0000:85:%s ' 10.0 10.2 10.4 10.6 11.0 11.2 11.4)0x10ca 1 7" "$seen"

# ---- a guest ------------------------------------------------------------------------------------------------

cp "$lab/smoke.xml" "$logs/"
"$lab/run" push "$logs/smoke.xml" /tmp
passes "libvirt starts a guest with two GPUs and a VF" l1 -t 240 '
	for node in 0 1; do
		echo 140 >/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages
	done
	peer=$(ls /sys/bus/pci/devices/0000:25:00.0/net)
	ip link set "$(ls /sys/bus/pci/devices/0000:85:00.0/net)" up
	ip link set "$peer" up
	ip link add link "$peer" name vlan77 type vlan id 77
	ip addr add 192.168.77.1/24 dev vlan77
	ip link set vlan77 up
	virsh create /tmp/smoke.xml'
seen=$(l1 'for d in 83:00.0 84:00.0 85:10.2 85:00.0; do
		driver=$(readlink /sys/bus/pci/devices/0000:$d/driver)
		echo "$d ${driver##*/} $(setpci -s $d ECAP_ATS+6.w)"
	done')
is "drivers while it runs; ATS on for GPUs and VF, off for the PF" \
	"83:00.0 vfio-pci 8000 84:00.0 vfio-pci 8000 85:10.2 vfio-pci 8000 85:00.0 igb 0000" "$(xargs <<<"$seen")"

wait_report "$console" 240
matches "the report is whole" '^REPORT end' "$report"
is "the guest sees two GPUs on node 1 with a full link" "2" \
	"$(facts dev id=10de:2330 class=030200 kind=endpoint numa=1 speed=32.0 width=16 | wc -l)"
is "GPUs and VF are under one switch" "3 1" \
	"$(facts dev kind=endpoint 'id=(10de:2330|8086:10ca)' | field switch | grep -v '^-$' | sort | uniq -c | awk '{ n++; c += $1 } END { print c, n }')"
is "every BAR of the GPUs has an address" "6" \
	"$(facts dev id=10de:2330 | field bdf | while read -r bdf; do facts bar "bdf=$bdf" 'start=0x[1-9a-f][0-9a-f]*'; done | wc -l)"
is "the GPUs are in clique 3" "3 3" "$(facts gpu scratch=ok | field clique | xargs)"
is "DMA: GPUs and VF to memory, to and from the GPUs" "11" "$(facts dma status=ok | wc -l)"
is "as it travels: to memory; to peers through the root complex, as each port has Request Redirect and not DT" \
	"memory none -; redirected rr 82:00.0; redirected rr 82:01.0; redirected rr 82:02.0" \
	"$(facts dma | grep -o 'route=.*' | sed 's/[a-z]*=//g' | sort -u | paste -sd ';' | sed 's/;/; /g')"
is "no DMA went wrong" "" "$(facts dma status=bad)"
is "the VF reaches the other NIC through its VLAN" "52:54:00:aa:00:03 3 3" \
	"$(facts net ping=192.168.77.1 | sed 's/.* mac=\([^ ]*\).* sent=\([0-9]*\) received=\([0-9]*\).*/\1 \2 \3/')"
is "memory of two cells" "0 1" "$(facts node | field id | xargs)"

# ---- the DMA engine routes by the bits of the moment ------------------------------------------------------------

# travels TEXT SETPCI WANTED UNDO: with that written, the VF's copies travel so
travels() {
	l1 "setpci -s $2"
	is "$1" "$3" "$(guest_routes "$console" "$3")"
	l1 "setpci -s $4"
}
dt="82:02.0 ECAP_ACS+6.w=005d"
travels "Direct Translated P2P at the NIC's port: direct" "$dt" "$(both_ways ok direct dt 82:02.0)" "$dt"
travels "Translation Blocking, too: nothing arrives" "82:02.0 ECAP_ACS+6.w=005f" "$(both_ways bad blocked tb 82:02.0)" "$dt"
travels "the VF's ATS off: by the root complex" "85:10.2 ECAP_ATS+6.w=0000" "$(both_ways ok redirected root 80:00.0)" \
	"85:10.2 ECAP_ATS+6.w=8000"
travels "no Relaxed Ordering: the GPUs' answers are redirected" "85:00.0 CAP_EXP+8.w=0000:0010" \
	"read ok redirected cr 82:00.0; read ok redirected cr 82:01.0; write ok direct dt 82:02.0" "85:00.0 CAP_EXP+8.w=0010:0010"
travels "no redirect, no DT: direct" "82:02.0 ECAP_ACS+6.w=0011" "$(both_ways ok direct plain 82:02.0)" "82:02.0 ECAP_ACS+6.w=001d"
travels "no Upstream Forwarding at the root port: what is redirected is refused there, and does not arrive" \
	"80:00.0 ECAP_ACS+6.w=000d" "$(both_ways bad blocked no-uf 80:00.0)" "80:00.0 ECAP_ACS+6.w=001d"
is "as at first: redirected" "$(both_ways ok redirected rr 82:02.0)" "$(guest_routes "$console" "$(both_ways ok redirected rr 82:02.0)")"
passes "the guest ends" l1 'virsh shutdown smoke'

# ---- as before ----------------------------------------------------------------------------------------------

seen=$(l1 -t 60 '
	while virsh domstate smoke >/dev/null 2>&1; do sleep 0.5; done
	for d in 83:00.0 84:00.0; do
		echo "$(ls -d /sys/bus/pci/devices/0000:$d/driver 2>/dev/null)$(cat /sys/bus/pci/devices/0000:$d/driver_override)"
	done
	echo 0 >/sys/bus/pci/devices/0000:85:00.0/sriov_numvfs
	ip link del vlan77
	for node in 0 1; do
		echo 0 >/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages
	done
	ls /sys/bus/pci/devices | wc -l; cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages
	modprobe -r vfio_pci vfio_iommu_type1')
is "the guest gave everything back" "(null) (null)" "$(head -n 2 <<<"$seen" | xargs)"
is "VFs and hugepages are gone" "0 0" "$(tail -n 2 <<<"$seen" | xargs)"
keep '/var/log/libvirt/qemu/smoke*.log'
finish
