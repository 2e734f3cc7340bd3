#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The simulated kernel against the real one (kernel.txt, text hosts that were dumped) and against the specification.
# test_kernel.sh [BUILD]; prints ok / not ok lines. Needs /dev/fuse and root.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
. tests/hostsim/sim.bash

lab=tests/hosts/lab/sys.txt
attr() { cat "$sys/devices/$1/$2"; }

# ---- what the lab's kernel does ---------------------------------------------------------------------------------
seen() { sed -n 's/ *#.*//; s/ *$//; /^kernel /p'; } # the facts about the kernel, without where they come from
for groups in text boot; do
	mount_host --groups $groups $lab
	if out=$(diff <(seen <tests/hostsim/kernel.txt) <(tests/hostsim/facts "$mnt" 2>&1 | seen)); then
		ok "groups $groups: all $(seen <tests/hostsim/kernel.txt | wc -l) facts of the lab's kernel"
	else
		not_ok "groups $groups: a fact of the lab's kernel" "$out"
	fi
done

# ---- groups -----------------------------------------------------------------------------------------------------
# sets: the groups, each as its functions
sets() { for d in "$sys"/devices/*; do echo "$(basename "$(readlink "$d/iommu_group" || echo none)") ${d##*/}"; done | sort |
	awk '$1 "" != g { printf "\n"; g = $1 } { printf "%s ", $2 }' | sort | grep .; }
for host in tests/hosts/*/sys.txt; do
	mount_host "$host" 2>/dev/null || continue # one that no kernel could have
	text=$(sets)
	mount_host --groups boot "$host"
	is "$(basename "$(dirname "$host")"): groups formed anew are those of the text host" "$text" "$(sets)"
done
off=0000:22:00.0\;0000000@0000:22:01.0
mount_host --groups boot --cmdline "pci=config_acs=0000000@$off" $lab
# shellcheck disable=SC2046 # group numbers have no blanks
is "kernel's flaw: two ports of a switch without ACS, two groups" "distinct 22:00=23 22:01=24" \
	"$([[ $(group 0000:22:00.0) != $(group 0000:22:01.0) ]] && echo distinct) $( (($(group 0000:22:00.0) == $(group 0000:23:00.0))) &&
		echo 22:00=23) $( (($(group 0000:22:01.0) == $(group 0000:24:00.0))) && echo 22:01=24)"
mount_host --groups fixed --cmdline "pci=config_acs=0000000@$off" $lab
is "without the flaw: the switch and all below is one group, the other switch is as it was" "8 10" \
	"$(for d in 22:00.0 22:01.0 22:02.0 22:03.0 23:00.0 24:00.0 25:00.0 26:00.0; do group 0000:$d; done | uniq -c | awk '{ print $1 }') $(
		for d in "$sys"/devices/0000:8*; do group "${d##*/}"; done | sort -u | wc -l)"
mount_host --groups boot --cmdline "pcie_acs_override=downstream,multifunction" tests/hosts/consumer-no-acs/sys.txt
is "pcie_acs_override: a group each" "5" "$(for d in "$sys"/devices/*; do group "${d##*/}"; done | sort -u | wc -l)"
is "bus reset: not of one function of several" "bus, Inappropriate ioctl for device" \
	"$(attr 0000:01:00.0 reset_method), $(attempt put 1 $sys/devices/0000:01:00.0/reset)"

mount_host $lab
dsp=0000:22:01.0 ep=0000:24:00.0
acs=$(($(extended $dsp 000d) + 6)) ats=$(($(extended $ep 000f) + 6))
poke $dsp $acs 0042
poke $ep $ats 8000
is "reset: ACS is the kernel's default, ATS that others enabled is off" "ok 001d ok 0000" \
	"$(attempt put 1 $sys/devices/$dsp/reset) $(peek $dsp $acs) $(attempt put 1 $sys/devices/$ep/reset) $(peek $ep $ats)"
poke $dsp $acs 0042
poke $ep $ats 8000
cat $sim/state >"$dir/rebooted"
mount_host "$dir/rebooted"
put 1 $sys/devices/$ep/reset
is "reset: ATS that the kernel enabled is on again" "8000" "$(peek $ep $ats)"
mount_host --groups boot "$dir/rebooted"
is "boot: the default is ORed onto what firmware left" "005f" "$(peek $dsp $acs)"

# ---- ACS by the command line --------------------------------------------------------------------------------------
acs() { for d in "$@"; do peek 0000:$d $(($(extended 0000:$d 000d) + 6)); done | xargs; }
boot() { mount_host --groups boot "$@" $lab; }
boot --cmdline 'pci=config_acs=1011101@0000:22:00.0;xx0x0xx@22:01.0;11111111@22:02.0;0000000@22:03.0'
is "config_acs: bits, x is the firmware's, a bit too many ends the list" "005d 0009 001d 001d" "$(acs 22:00.0 22:01.0 22:02.0 22:03.0)"
boot --old-config-acs --cmdline 'pci=config_acs=1011101@0000:22:00.0;1011101@22:01.0'
is "config_acs before its fix: only the first device" "005d 001d" "$(acs 22:00.0 22:01.0)"
boot --cmdline 'pci=config_acs=1011101@20:00.0/00.0/02.0,noats'
is "config_acs: a device by its path; noats: translation is blocked" "001f 005d" "$(acs 22:03.0 22:02.0)"
boot --cmdline 'pci=disable_acs_redir=pci:104c:8233;0000:80:00.0'
is "disable_acs_redir: by id, by address" "0011 0011 0011 001d" "$(acs 22:00.0 82:03.0 80:00.0 20:00.0)"
boot --old-config-acs --cmdline 'pci=disable_acs_redir=22:00.0'
is "disable_acs_redir in 6.11: the wrong bits" "005f" "$(acs 22:00.0)"
mount_host --groups boot --cmdline 'pci=config_acs=0000000@0000:17:01.0' tests/hosts/xe9680/sys.txt
is "config_acs before 6.11: unknown" "001d" "$(acs 17:01.0)"
is "a wrong option" "2" "$("$build/tests/hostsim/hostsim" --groups all $lab "$mnt" 2>/dev/null; echo $?)"

# ---- registers (xe9680) -------------------------------------------------------------------------------------------
mount_host tests/hosts/xe9680/sys.txt
gpu=0000:19:00.0 pf=0000:1a:00.0 port=0000:17:01.0 usp=0000:16:00.0 root=0000:15:01.0
exp() { # BDF: offset of its PCI Express capability
	local at=$((16#$(peek "$1" 52) & 255))
	while ((at && (16#$(peek "$1" $at) & 255) != 16)); do at=$((16#$(peek "$1" $at) >> 8)); done
	echo $at
}
wrote() { poke "$@" && peek "$1" "$2"; }
e=$(exp $gpu)
is "ids are read-only" "10de" "$(wrote $gpu 0 1234)"
is "command: the bits that an endpoint has, status is not written" "0547 0010" "$(wrote $gpu 4 ffff) $(wrote $gpu 6 ffff)"
is "device control: what the capability offers, payload up to 256" "7d3f 0000" "$(wrote $gpu $((e + 8)) 7fff) $(wrote $gpu $((e + 8)) 0000)"
is "device control 2: 10-bit tags on an endpoint, ARI forwarding on a port" "135f 037f" \
	"$(wrote $gpu $((e + 40)) ffff) $(wrote $port $(($(exp $port) + 40)) ffff)"
is "link control of an endpoint and of a port" "02cb 0ec3" "$(wrote $gpu $((e + 16)) ffff) $(wrote $port $(($(exp $port) + 16)) ffef)"
put "link $gpu 8.0 4" $sim/event
at=$(($(exp $port) + 18))
is "link: both ends say so, a port keeps it until a 1 is written" "1043 7043 7043 3043" \
	"$(peek $gpu $((e + 18))) $(peek $port $at) $(wrote $port $at 0000) $(wrote $port $at ffff)"
is "link: velactl sees it" '"8.0 GT/s" 4' "$("$build/velactl" -o json --root "$mnt" topo | python3 -c '
import json, sys
link = next(n["link"] for n in json.load(sys.stdin)["nodes"] if n["bdf"] == sys.argv[1])
print("\"" + link["speed"] + "\"", link["width"])' $gpu)"
is "link: not beyond the capability, not of what is not there" "Invalid argument No such device" \
	"$(attempt put "link $gpu 64.0 4" $sim/event) $(attempt put 'link 0000:ff:00.0 8.0 4' $sim/event)"

# ---- resets -------------------------------------------------------------------------------------------------------
poke $port $(($(extended $port 000d) + 6)) 005d
poke $gpu $((e + 8)) 5137
poke $gpu $((e + 8)) d137
is "FLR by device control: defaults but for the payload, commands off, the port is not touched" "2830 0000 0000 005d" \
	"$(peek $gpu $((e + 8))) $(peek $gpu 4) $(peek $gpu $((e + 40))) $(peek $port $(($(extended $port 000d) + 6)))"
is "memory BARs are gone" "0000 000c" "$(peek $gpu 18) $(peek $gpu 24)"
poke $port $(($(extended $port 000d) + 6)) 001d
put 2 $sys/devices/$pf/sriov_numvfs
sriov=$(($(extended $pf 0010) + 8)) vf=0000:1a:00.1
poke $vf 4 0004
is "a VF has its own bus mastering, and no device control" "0004 0000" "$(peek $vf 4) $(wrote $vf $(($(exp $vf) + 8)) 7fff)"
poke $pf 4 0146
is "reset of a PF: the kernel restores it and VF Enable, not its VFs" "ok 0019 0002 0146 0000" \
	"$(attempt put 1 $sys/devices/$pf/reset) $(peek $pf $sriov) $(peek $pf $((sriov + 8))) $(peek $pf 4) $(peek $vf 4)"
poke $pf $(($(exp $pf) + 8)) d137
is "FLR of a PF by device control: no VF answers" "0000 ffff" "$(peek $pf $sriov) $(peek $vf 4)"
put 0 $sys/devices/$pf/sriov_numvfs
acs=$(($(extended $port 000d) + 6))
poke $port $acs 005d
old=$(peek $root 62)
poke $root 62 "$(printf %04x $((16#$old | 0x40)))"
is "secondary bus reset, held: all below is away, and takes no write" "ffff ffff ffff" "$(peek $usp 0) $(peek $port $acs) $(wrote $gpu 4 0006)"
poke $root 62 "$old"
is "secondary bus reset, over: ACS of nested ports, commands, bus numbers are gone" "0000 0000 0000 0000 10de" \
	"$(peek $port $acs) $(peek $usp 4) $(peek $gpu 4) $(peek $port 24) $(peek $gpu 0)"
mount_host tests/hosts/xe9680/sys.txt
at=$(($(exp $port) + 16)) old=$(peek $port $at)
poke $port $at "$(printf %04x $((16#$old | 0x10)))"
is "link disable: the device is away" "ffff" "$(peek $gpu 0)"
poke $port $at "$old"
is "and comes back as after a reset" "10de 0000" "$(peek $gpu 0) $(peek $gpu 4)"

# ---- what befalls a machine -----------------------------------------------------------------------------------------
mount_host tests/hosts/xe9680/sys.txt
put "*/$gpu/reset:write:ff:1" $sim/fault
is "ff after a reset: it fails, and the device stays away" "Inappropriate ioctl for device ffff Inappropriate ioctl for device" \
	"$(attempt put 1 $sys/devices/$gpu/reset) $(peek $gpu 0) $(attempt put 1 $sys/devices/$gpu/reset)"
is "ff after a reset: velactl takes ff for no capability" "unknown unknown" "$("$build/velactl" -o json --root "$mnt" topo | python3 -c '
import json, sys
n = next(n for n in json.load(sys.stdin)["nodes"] if n["bdf"] == sys.argv[1])
print(n["acs"]["state"], n["ats"]["state"])' $gpu)"
put "*/$pf/sriov_numvfs:write:missing 1:1" $sim/fault
is "a VF that does not appear" "ok 3 virtfn0 virtfn2 absent" "$(attempt put 3 $sys/devices/$pf/sriov_numvfs) $(attr $pf sriov_numvfs) $(
	cd $sys/devices/$pf && echo virtfn*) $([[ -e $sys/devices/0000:1a:00.2 ]] || echo absent)"
is "and taken away again" "ok" "$(attempt put 0 $sys/devices/$pf/sriov_numvfs)"
put "*/$gpu/numa_node:read:delay 200:1" $sim/fault
begin=${EPOCHREALTIME/./}
attr $gpu numa_node >/dev/null
is "a delay of a read" "1" "$((${EPOCHREALTIME/./} - begin >= 200000))"
is "AER counters jump" "RxErr 5 BadTLP 2 TOTAL_ERR_COR 7 SDES 1 TOTAL_ERR_FATAL 1" "$(for e in 'correctable RxErr 5' 'correctable BadTLP 2' \
	'fatal SDES 1'; do put "aer $gpu $e" $sim/event; done; cat $sys/devices/$gpu/aer_dev_{correctable,fatal} | grep -v ' 0$' | xargs)"
is "AER: an error that is none, a kind that is none" "Invalid argument Invalid argument" \
	"$(attempt put "aer $gpu fatal RxErr 1" $sim/event) $(attempt put "aer $gpu bad RxErr 1" $sim/event)"
nic=0000:1a:00.0
poke $nic 4 0146
is "D3cold: not of who may not sleep" "Operation not permitted" "$(put on $sys/devices/$nic/power/control; attempt put "power $nic D3cold" $sim/event)"
is "power/control: on and auto, nothing else" "ok Invalid argument auto" "$(attempt put auto $sys/devices/$nic/power/control) $(
	attempt put off $sys/devices/$nic/power/control) $(attr $nic power/control)"
is "D3cold: away" "ok D3cold ffff" "$(attempt put "power $nic D3cold" $sim/event) $(attr $nic power_state) $(peek $nic 4)"
is "D0: back, restored" "ok D0 0146" "$(attempt put "power $nic D0" $sim/event) $(attr $nic power_state) $(peek $nic 4)"
is "D3cold: d3cold_allowed forbids it" "Operation not permitted" \
	"$(put 0 $sys/devices/$nic/d3cold_allowed; attempt put "power $nic D3cold" $sim/event)"
put 1 $sys/devices/$pf/sriov_numvfs
put "remove $port" $sim/event
put "remove $pf" $sim/event
is "remove: the device, all below, VFs, and what leads to it" "" \
	"$(find "$mnt/sys" | grep -E "$port|$gpu|$pf|$vf"; "$build/velactl" --root "$mnt" topo | grep -E '19:00|1a:00')"
is "remove: twice" "No such device" "$(attempt put "remove $gpu" $sim/event)"

# ---- uevents -----------------------------------------------------------------------------------------------------------
# each message of the socket as a line
listen() {
	exec python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
print("ready", flush=True)
s.settimeout(10)
while m := s.recv(8192):
    print(" ".join(m.decode().split("\0")), flush=True)' "$dir/uevents"
}
mount_host --uevents "$dir/uevents" --vf-delay 500 tests/hosts/xe9680/sys.txt
coproc client { listen; }
read -r _ <&"${client[0]}"
put $gpu $sys/drivers/nvidia/unbind
read -r line <&"${client[0]}"
is "a uevent over the socket" "unbind@/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/$gpu ACTION=unbind DEVPATH=/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/$gpu SUBSYSTEM=pci $(grep -v ^MODALIAS= $sys/devices/$gpu/uevent | xargs) SEQNUM=N" \
	"$(sed 's/SEQNUM=[0-9]*/SEQNUM=N/; s/ $//' <<<"$line")"
begin=${EPOCHREALTIME/./}
put 2 $sys/devices/$pf/sriov_numvfs
is "VFs that come later: the count is there, they are not" "2 absent" "$(attr $pf sriov_numvfs) $([[ -e $sys/devices/$vf ]] || echo absent)"
for ((i = 0; i < 7; i++)); do read -r line <&"${client[0]}" && actions+="${line%%@*} "; done
is "and come with their uevents" "add change bind add change bind change ../0000:1a:00.2 1" \
	"$actions$(readlink $sys/devices/$pf/virtfn1) $((${EPOCHREALTIME/./} - begin >= 1000000))"
put 0 $sys/devices/$pf/sriov_numvfs
put 3 $sys/devices/$pf/sriov_numvfs
put 0 $sys/devices/$pf/sriov_numvfs
sleep 0.7
is "none comes after it was called off" "0 absent" "$(attr $pf sriov_numvfs) $([[ -e $sys/devices/$vf ]] || echo absent)"
while read -r -t 0.1 line <&"${client[0]}"; do :; done
put "uevents lose 1" $sim/event
put $gpu $sys/drivers_probe
put $gpu $sys/drivers/nvidia/unbind
read -r line <&"${client[0]}"
read -r next <&"${client[0]}"
is "lost uevents: the receiver is told before the next one" "ENOBUFS unbind" "${line% } ${next%%@*}"
is "and the file has them all" "bind unbind" "$(tail -n 2 <(cat $sim/uevents) | sed 's/@.*//' | xargs)"
kill "$client_PID" && wait "$client_PID" 2>/dev/null
coproc slow { python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline() # while this waits, nobody reads
s.settimeout(0)
n = 0
try:
    while s.recv(8192):
        n += 1
except BlockingIOError:
    print(n, flush=True)
s.settimeout(10)
print(*[s.recv(8192).split(b"@")[0].decode().strip("\0") for _ in range(2)], flush=True)' "$dir/uevents"; }
read -r _ <&"${slow[0]}"
before=$(cat $sim/uevents | wc -l)
for ((i = 0; i < 250; i++)); do put $gpu $sys/drivers/nvidia/bind; put $gpu $sys/drivers/nvidia/unbind; done
echo go >&"${slow[1]}"
read -r n <&"${slow[0]}"
sent=$(($(cat $sim/uevents | wc -l) - before))
put $gpu $sys/drivers/nvidia/bind
read -r line <&"${slow[0]}"
is "a full buffer: some of the uevents are lost, and the receiver is told" "500 1 1 ENOBUFS bind" "$sent $((n > 50)) $((n < sent)) $line"

# ---- huge pages ---------------------------------------------------------------------------------------------------------
pool=$mnt/sys/devices/system/node/node0/hugepages/hugepages-1048576kB
free_kb() { sed -n 's/.*MemFree: *\([0-9]*\) kB/\1/p' "$mnt/sys/devices/system/node/node0/meminfo"; }
before=$(free_kb)
is "a pool grows by what is free, the rest is no error" "ok 994 994" "$(attempt put 1000 $pool/nr_hugepages) $(cat $pool/{nr,free}_hugepages | xargs)"
is "and takes it from memory" "$((94 * 1048576))" "$((before - $(free_kb)))"
is "both nodes together" "1894 1894" "$(cat $mnt/sys/kernel/mm/hugepages/hugepages-1048576kB/{nr,free}_hugepages | xargs)"
is "a pool shrinks, memory is back" "ok 900 $before" "$(attempt put 900 $pool/nr_hugepages) $(<$pool/nr_hugepages) $(free_kb)"
put "memory 0 3000000" $sim/event
is "memory: so much is free" "ok 902" "$(attempt put 950 $pool/nr_hugepages) $(<$pool/nr_hugepages)"
is "velactl sees it" "902" "$("$build/velactl" -o json --root "$mnt" host | grep -o '"total": *902' | grep -o '[0-9]*' | head -n 1)"
summary
