#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# ACS steps on a real kernel: Direct Translated P2P is set at the port of the guest's NIC and nowhere else, IOMMU groups
# stay as they are; what is cleared behind velad's back comes back; a second guest shares the port; delete restores.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

port=0000:82:02.0 # above NIC 85:00.0; GPUs 83:00.0 and 84:00.0 are below the same switch
boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd --cmdline 'console=ttyS0 report.stay mitigations=off nokaslr'"
guest="--gpus 1 --vfs-per-gpu 1 --gdr required --vcpus 1 --memory 256M $boot"
groups() { l1 'cd /sys/bus/pci/devices; for d in *; do g=$(readlink $d/iommu_group); [ -e $d/physfn ] || echo "$d ${g##*/}"; done'; }
words() { l1 'for d in /sys/bus/pci/devices/*; do d=${d##*/}; w=$(setpci -s $d ECAP_ACS+6.w 2>/dev/null); [ -z "$w" ] || echo "$d $w"; done'; }
state() { l1 "velactl -o json show $1 | jq -r .state"; }

before=$(host_state)
words_before=$(words)
groups_before=$(groups)
is "plan: the port of the NIC" "$port 0x1d 0x5d" "$(l1 "velactl -o json plan $guest --require 0000:83:00.0" |
	jq -r '.steps[] | select(.id == "acs") | [.target, .from, .to] | join(" ")')"
seen=$(l1 "velactl plan $guest --require 0000:83:00.0 --require 0000:25:10.0")
is "gdr required with the other socket's NIC: exit status 5" 5 $?
matches "it says what stands in the way" '0000:83:00.0: its traffic with NIC 0000:25:00.0 is (redirected|unknown): ' "$seen"

seen=$(l1 -t 180 "velactl create one $guest --require 0000:83:00.0 2>&1")
is "create: exit status" 0 $?
matches "create shows the step" "done +acs +$port +0x1d -> 0x5d" "$seen"
is "setpci: the port has Direct Translated P2P" 005d "$(l1 "setpci -s $port ECAP_ACS+6.w")"
matches "lspci says the same" 'ACSCtl:.*DirectTrans\+' "$(l1 "lspci -vvv -s $port")"
is "no other port has changed" "${words_before/$port 001d/$port 005d}" "$(words)"
is "IOMMU groups are as before" "$groups_before" "$(groups)"

# ---- what the guest says, and behind velad's back
console=/var/log/velad/one.log
direct=$(both_ways ok direct dt 82:02.0)
redirected=$(both_ways ok redirected rr 82:02.0)
wait_report "$console" 240
is "the guest: the NIC's copies to and from the GPU are direct" "$direct" "$(guest_routes "$console" "$direct")"
l1 "systemctl kill --signal=STOP velad; setpci -s $port ECAP_ACS+6.w=001d"
is "cleared by hand while velad sleeps: the guest's copies are redirected" "$redirected" "$(guest_routes "$console" "$redirected")"
l1 'systemctl kill --signal=CONT velad'
is "velad awake: direct again" "$direct" "$(guest_routes "$console" "$direct")"
is "the guest has a finding, and runs" "running acs.lost $port" \
	"$(l1 'sleep 1; velactl -o json show one | jq -r "[.state, (.findings[] | select(.rule | startswith(\"acs.\")) | .rule, .device)] | join(\" \")"')"
matches "the journal has port and guest" "instance one: ACS control of port $port was 0x1d" "$(l1 'journalctl -u velad --no-pager')"
seen=$(l1 -t 120 "
	now() { echo \$((\${EPOCHREALTIME/./} / 1000)); }
	for round in 1 2 3 4 5; do
		sleep 0.\$round; setpci -s $port ECAP_ACS+6.w=001d; begin=\$(now)
		until [ \$(setpci -s $port ECAP_ACS+6.w) = 005d ] || [ \$((\$(now) - begin)) -gt 20000 ]; do :; done
		echo \$((\$(now) - begin))
	done")
passes "each time within a second, and what emulation takes (2 s here): after $(xargs <<<"$seen") ms" \
	test "$(sort -n <<<"$seen" | tail -n 1)" -le 2000

# A secondary bus reset at the root port resets the switch below. Then everything gets its registers back, by the script in
# place of the kernel, which has no such call in sysfs before 6.13: what it saves of ports is the first 256 bytes, and ACS
# comes back as it sets it by default (pci_restore_state). velad sleeps meanwhile: the kernel would let nobody in between.
is "a bus reset above the switch takes the port's ACS control" 0000 "$(l1 -t 120 '
	cd /sys/bus/pci/devices/0000:80:00.0 && mkdir /tmp/saved
	below=$(find . -mindepth 2 -name config -printf "%d %h\n" | sort -n | cut -d " " -f 2)
	for d in $below; do
		case ${d##*/} in 0000:8[12]:*) head -c 256 $d/config;; *) cat $d/config;; esac >/tmp/saved/${d##*/}
	done
	systemctl kill --signal=STOP velad
	setpci -s 80:00.0 BRIDGE_CONTROL=0040:0040; sleep 0.01; setpci -s 80:00.0 BRIDGE_CONTROL=0000:0040; sleep 0.1
	for d in $below; do
		case ${d##*/} in
		0000:85:1*) [ -e /tmp/saved/vfs ] || { >/tmp/saved/vfs; setpci -s 85:00.0 ECAP_SRIOV+8.w=0010
			setpci -s 85:00.0 ECAP_SRIOV+10.w=0007; setpci -s 85:00.0 ECAP_SRIOV+8.w=0019; };;
		esac
		cat /tmp/saved/${d##*/} >$d/config
	done
	setpci -s 82:02.0 ECAP_ACS+6.w
	for d in 82:00.0 82:01.0 82:02.0 82:03.0; do setpci -s $d ECAP_ACS+6.w=001d; done')"
is "the guest: redirected" "$redirected" "$(guest_routes "$console" "$redirected")"
l1 'systemctl kill --signal=CONT velad'
is "velad sets Direct Translated P2P again" 005d "$(l1 -t 60 "
	for _ in \$(seq 20); do w=\$(setpci -s $port ECAP_ACS+6.w); [ \$w = 001d ] || break; sleep 0.1; done; echo \$w")"
is "the guest, whose devices went through it: direct" "$direct" "$(guest_routes "$console" "$direct")"
l1 "systemctl stop velad; setpci -s $port ECAP_ACS+6.w=001d; systemctl start velad; velactl list >/dev/null"
is "and when velad starts" 005d "$(l1 -t 60 "
	for _ in \$(seq 20); do w=\$(setpci -s $port ECAP_ACS+6.w); [ \$w = 001d ] || break; sleep 0.5; done; echo \$w")"
l1 "setpci -s $port ECAP_ACS+6.w=0041"
is "the redirects cleared: degraded" degraded "$(l1 -t 60 '
	for _ in $(seq 20); do s=$(velactl -o json show one | jq -r .state); [ "$s" = running ] || break; sleep 0.5; done; echo "$s"')"
matches "it says which port, and that isolation may be lost" "port $port is 0x41.*isolation" "$(l1 'velactl -o json show one | jq -r .error')"
l1 "setpci -s $port ECAP_ACS+6.w=005d"
is "set again: it runs" running "$(l1 -t 60 '
	for _ in $(seq 20); do s=$(velactl -o json show one | jq -r .state); [ "$s" = degraded ] || break; sleep 0.5; done; echo "$s"')"

# ---- shared, and given back
seen=$(l1 -t 180 "velactl create two $guest --require 0000:84:00.0 2>&1")
is "a second guest at the same port: exit status" 0 $?
matches "it holds the port" "acs +$port +0x5d -> 0x5d" "$seen"
passes "delete the first" l1 -t 120 'velactl delete one'
is "the second still has it" "005d running" "$(l1 "setpci -s $port ECAP_ACS+6.w") $(state two)"
passes "delete the second" l1 -t 120 'velactl delete two'
is "drivers, overrides, VFs, ACS registers are as before" "$before" "$(host_state)"

l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
