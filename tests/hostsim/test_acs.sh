#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ACS steps: real velad on a simulated host whose NICs have ATS. Direct Translated P2P is set at the planned ports and
# nowhere else, shared by instances, given back to the byte; a failure and a kill at every write; and it is kept: what a
# reset takes away comes back, what cannot come back is said. test_acs.sh [BUILD]; prints ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^keep_seconds = .*|keep_seconds = 1|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
create() { ctl create "$@" 2>&1; }
state() { ctl -o json show "$1" 2>/dev/null | of 'd["state"]'; }
findings() { ctl -o json show "$1" | of '", ".join("%s %s %d" % (f["rule"], f["device"], f["times"]) for f in d["findings"])'; }
# until_is has ten seconds here
until_tries=200
writes() { sys_writes | wc -l; }
config_writes() { cat "$sim/log" | grep "/$port/config "; } # of the port
word() { peek "$1" $(($(extended "$1" 000d) + 6)); } # of ACS control
set_word() { poke "$1" $(($(extended "$1" 000d) + 6)) "$2"; }
set_ats() { poke "$1" $(($(extended "$1" 000f) + 6)) "$2"; }
ats() { ctl -o json show "$1" | of '" ".join(f["ats"] for f in d["bundle"]["vfs"] + d["bundle"]["gpus"])'; }
vf_of() { ctl -o json show "$1" | of 'd["bundle"]["vfs"][0]["bdf"]'; }

mount_host --guests --uevents "$dir/uevents" "$host" || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs # this text host has no folder of IOMMU groups: it comes with the first VF
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
start_velad

# ---- the plan and its steps
port=0000:22:02.0 gpu=0000:23:00.0 gpu2=0000:24:00.0 # two GPUs and the NIC of one switch; the NIC's port
guest=(--vfs-per-gpu 1 --gpus 1 --vcpus 1 --memory 256M --gdr required)
is "plan: the port of the NIC, and no other" "['$port 0x1d 0x5d']" "$(ctl -o json plan "${guest[@]}" --require $gpu |
	of '[" ".join((s["target"], s["from"], s["to"])) for s in d["steps"] if s["id"] == "acs"]')"
put '' "$sim/log"
out=$(create one "${guest[@]}" --require $gpu)
is "create: it runs" "running" "$(state one)"
[[ $(state one) == running ]] || sed 's/^/#   /' <<<"$out"
is "its port has Direct Translated P2P, by the only write to its config space" "005d 1" "$(word $port) $(config_writes | wc -l)"
is "ATS of its VF, and of its GPU, is seen to be on" "on on, ATS on" "$(ats one), $(ctl show one | grep -o 'ATS on')"
is "velactl show has the step" "acs $port 0x1d 0x5d done" "$(ctl show one | awk '$1 == "acs" { print $1, $2, $3, $4, $5 }')"
is "velactl nccl-topology: GPU and VF below one switch" "1 2 302 200" "$(ctl nccl-topology one | python3 -c '
import sys, xml.etree.ElementTree as x
sw = x.parse(sys.stdin).getroot().findall("cpu/pci")
print(len(sw), len(sw[0]), *(p.get("class")[3:6] for p in sw[0]))')"
n=$(writes)
if ((n < 6)); then not_ok "create writes at least 6 times" "$n"; exit 1; fi # or the loops below would show nothing
ctl delete one >/dev/null 2>&1
same "deleted: the host is as before"
put '' "$sim/log"
create off --gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M --gdr off >/dev/null
is "gdr off: ACS is left alone" "running 0 001d" "$(state off) $(config_writes | wc -l) $(word $port)"
ctl delete off >/dev/null 2>&1
is "gdr required with a NIC of another switch is refused" "5 " "$(ctl create none --gpus 1 --vfs-per-gpu 1 \
	--require 0000:83:00.0 --require 0000:25:10.0 --gdr required --vcpus 1 --memory 256M >/dev/null 2>&1; echo $?) $(state none 2>/dev/null)"

# ---- a port of two instances
for order in "one two" "two one"; do
	create one "${guest[@]}" --require $gpu >/dev/null
	put '' "$sim/log"
	create two "${guest[@]}" --require $gpu2 >/dev/null
	is "the second guest finds it set, and holds it" "running 0 acs 0x5d 0x5d done" "$(state two) $(config_writes | wc -l) $(
		ctl show two | awk '$1 == "acs" { print $1, $3, $4, $5 }')"
	ctl delete "${order% *}" >/dev/null 2>&1
	is "deleted in the order $order: the other still has it" "005d" "$(word $port)"
	ctl delete "${order#* }" >/dev/null 2>&1
	same "and after that the host is as before"
done

# ---- registers have no event: asked for routes, velad reads them, and nothing else of the host
across() { ctl -o json routes $gpu2 $gpu | of 'd["routes"][1]["ports"][0]["rule"]'; } # a translated write, at the port above it
above=0000:22:01.0
before=$(across)
put "sys/devices/system/*:read:hang 20:1000" "$sim/fault"
set_word $above 005d
sleep 1.1
is "a register that changed behind velad's back is seen, without reading the rest of the host" "rr dt" "$before $(across)"
put clear "$sim/fault"
set_word $above 001d

# ---- a failure at every write, and a kill after every write
for error in EIO EBUSY; do
	bad=
	for ((k = 0; k < n; k++)); do
		put '' "$sim/log"
		put "sys/*:write:$error:1:$k" "$sim/fault"
		out=$(create fail "${guest[@]}" --require $gpu)
		put clear "$sim/fault"
		line=$(sys_writes | sed -n $((k + 1))p)
		[[ $(state fail) == failed ]] || bad+="write $k ($line): it is \"$(state fail)\": $(tail -n 1 <<<"$out")"$'\n'
		[[ $line != */$port/config* ]] || grep -q "step acs $port: port $port: cannot write ACS control 0x5d" <<<"$out" || bad+="it says: $out"
		diff=$(host_differs) || bad+="write $k ($line): the host differs: $diff"$'\n'
		ctl delete fail >/dev/null 2>&1
	done
	if [[ $bad ]]; then not_ok "$error at each of $n writes" "$bad"; else ok "$error at each of $n writes: failed, host as before"; fi
done
bad=
for ((k = 0; k < n; k++)); do
	put '' "$sim/log"
	put "sys/*:write:hang 20:1:$k" "$sim/fault"
	create kill "${guest[@]}" --require $gpu --no-wait >/dev/null
	for ((i = 0; i < 500 && $(writes) <= k; i++)); do sleep 0.01; done
	line=$(sys_writes | sed -n $((k + 1))p)
	[[ $line ]] || bad+="write $k did not come"$'\n'
	stop_velad KILL
	put clear "$sim/fault"
	start_velad
	for ((i = 0; i < 500; i++)); do
		now=$(state kill)
		[[ $now == failed || $now == running ]] && break
		sleep 0.01
	done
	[[ $now == running ]] || diff=$(host_differs) || bad+="write $k ($line): \"$now\", the host differs: $diff"$'\n'
	[[ $now == failed || $now == running ]] || bad+="write $k ($line): it is \"$now\""$'\n'
	ctl delete kill >/dev/null 2>&1
done
if [[ $bad ]]; then not_ok "killed after each of $n writes" "$bad"; else ok "killed after each of $n writes, started again: host as before"; fi
same "after all of that the host is as before"
# a kill in the middle of delete, after the write that gives the port back
create kill "${guest[@]}" --require $gpu >/dev/null
put "*/config:write:hang 20:1" "$sim/fault"
ctl delete kill --no-wait >/dev/null 2>&1
until_is 001d word $port
stop_velad KILL
put clear "$sim/fault"
start_velad
until_is "" state kill
same "killed in delete after the port was given back: the host is as before"

# ---- kept
create one "${guest[@]}" --require $gpu >/dev/null
create two "${guest[@]}" --require $gpu2 >/dev/null
put '' "$sim/log"
put 1 $sys/devices/$port/reset
start=$EPOCHREALTIME
until_is 005d word $port
start=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000)) # a shell that looks is part of it
echo "# put back after $start ms"
if ((start < 3000)); then ok "and is put back soon"; else not_ok "and is put back soon" "after $start ms"; fi
until_is "acs.lost $port 1" findings one
is "a reset takes it away, and velad puts it back, and nothing else" "005d 1" "$(word $port) $(config_writes | wc -l)"
until_is "acs.lost $port 1" findings two
is "both guests have a finding, and run" "acs.lost $port 1, acs.lost $port 1, running running" \
	"$(findings one), $(findings two), $(state one) $(state two)"
is "their documents are as docs/openapi.json says" "True True" "$(ctl -o json show one | of '"%s %s" % tuple(
	sorted(doc) == sorted(s[name]["properties"]) == sorted(s[name]["required"]) for s in [json.load(open("docs/openapi.json"))[
	"components"]["schemas"]] for name, doc in (("Instance", d), ("InstanceFinding", d["findings"][0])))')"
is "the journal names port and guest" 2 "$(grep -c "instance \(one\|two\): ACS control of port $port was 0x1d instead of 0x5d" "$dir/velad.log")"
is "velactl show says it" "$port: ACS control was 0x1d instead of 0x5d" "$(ctl show one | grep -o "$port: ACS control was.*0x5d")"
put "*/config:write:EIO:100000:1" "$sim/fault" # after the write that takes it away
set_word $port 001d
until_is degraded state one
until_is degraded state two
is "where it cannot be put back, the guests are degraded" "degraded degraded 001d" "$(state one) $(state two) $(word $port)"
is "velactl list and show say so" "degraded cannot write ACS control 0x5d" "$(ctl list | awk '$1 == "one" { print $2 }') $(
	ctl show one | grep -o 'cannot write ACS control 0x5d' | head -n 1)"
put clear "$sim/fault"
until_is running state one && until_is running state two
is "and run when it can" "running running 005d" "$(state one) $(state two) $(word $port)"
vf=$(vf_of one) vf2=$(vf_of two)
set_ats "$vf" 0000 # nobody does that; but who would know
until_is degraded state one
is "ATS of its VF is off: degraded, and the other runs" "degraded running, off on, ats.off $vf 1" "$(state one) $(state two), $(ats one), $(
	findings one | grep -o 'ats.off.*')"
set_ats "$vf" 8000
until_is running state one
is "and on again: it runs" "running on on" "$(state one) $(ats one)"
rp=0000:20:00.0 # a bus reset by hand, above it all: no kernel restores what was there
control=$(peek $rp 62)
poke $rp 62 "$(printf %04x $((16#$control | 64)))"
until_is degraded state one
is "a port in reset: degraded, it reads as ff" "the config space of port $port reads as ff" "$(ctl -o json show one |
	of 'd["error"]' | grep -o "the config space of port $port reads as ff")"
poke $rp 62 "$control"
until_is 0040 word $port
put 1 $sys/devices/0000:25:00.0/reset # its VFs answer again, as new
set_ats "$vf" 8000
set_ats "$vf2" 8000
says() { ctl -o json show one | of 'd["error"]' | grep -o "$1"; }
until_is "other bits than velad sets" says "other bits than velad sets"
is "isolation lost: degraded, and velad keeps its own bit only" "degraded 0040" "$(state one) $(word $port)"
set_word $port 001d
until_is running state one
is "set again by hand: it runs" "running 005d" "$(state one) $(word $port)"
stop_velad
set_word $port 001d
start_velad
until_is stopped state one # libvirt's test driver ended with velad, and the guests with it; tests/crash/adopt has one that runs on
until_is stopped state two
is "at velad's start it is not set for guests that do not run" "001d" "$(word $port)"
ctl delete one >/dev/null 2>&1
ctl delete two >/dev/null 2>&1
is "and gives the port back" "001d" "$(word $port)"

# ---- the same machine with an older kernel: its PF's DMA is not translated (iommu=pt), so VFs get no ATS
stop_velad
rm -f "$dir/uevents" "$dir"/velad.db* # the bus reset took the GPUs' BARs: velad's quarantine is not of this machine
sed 's|^proc/sys/kernel/osrelease\t.*|proc/sys/kernel/osrelease\t6.1.0-38-amd64|' "$host" >"$dir/old.txt"
mount_host --guests --uevents "$dir/uevents" "$dir/old.txt" || exit 1
start_velad
put '' "$sim/log"
out=$(create three "${guest[@]}" --require $gpu)
is "kernel 6.1, iommu=pt, gdr required: refused, and nothing touched" " 0 6.1.0-38-amd64 does not set the STU iommu=nopt" "$(state three) $(
	writes) $(tr -s '\n ' '  ' <<<"$out" | grep -o '6.1.0-38-amd64 does not set the STU\|iommu=nopt' | head -n 2 | tr '\n' ' ' | sed 's/ $//')"
create three "${guest[@]}" --gdr preferred --require $gpu >/dev/null
until_is "ats.off $(vf_of three) 1" findings three
is "gdr preferred: it runs, says why not, and it is so" "running ats.identity off on" "$(state three) $(ctl -o json show three |
	of 'd["notes"][0]["rule"]') $(ats three)"
ctl delete three >/dev/null 2>&1
stop_velad
rm -f "$dir/uevents"
mount_host --guests --cmdline "iommu=nopt" --uevents "$dir/uevents" "$dir/old.txt" || exit 1
set_ats 0000:25:00.0 8000 # as that kernel does
start_velad
create three "${guest[@]}" --require $gpu >/dev/null
is "with iommu=nopt it is given, and on" "running on on " "$(state three) $(ats three) $(findings three)"
ctl delete three >/dev/null 2>&1
summary
