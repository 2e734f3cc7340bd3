#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Settings of VFs: real velad on a simulated host. What is asked is set and read back, restored at the end, and gone for the
# next tenant; the address stays; what a driver refuses is said with its name; a failure and a kill at every write.
# test_vf.sh [BUILD]; prints ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

nic="s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
velad_conf "$nic"
mount_host --uevents "$dir/uevents" "$host" || exit 1
pf=0000:25:00.0
guest=(--gpus 1 --vfs 1 --vcpus 1 --memory 256M)
settings() { cat "$mnt/answers/vf/$pf/$1"; }
vf_of() { ctl -o json show "$1" | of '"%s %d" % (d["bundle"]["vfs"][0]["pf"], d["bundle"]["vfs"][0]["index"])'; }
mac_of() { ctl -o json show "$1" | of 'd["bundle"]["vfs"][0]["settings"]["mac"]'; }
findings() { ctl -o json show "$1" | of '" ".join(sorted(set(f["rule"] for f in d["findings"] if f["rule"].startswith("vf"))))'; }
vf_writes() { cat "$sim/log" | grep "^answers/vf/"; }

put 2 "$sys/devices/$pf/sriov_numvfs" # VFs of the operator, who has set something of the first
is "a fresh VF" "mac=00:00:00:00:00:00 vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=on min_rate=0 max_rate=0 link_state=auto" "$(settings 0)"
put "vlan=9 qos=1 vlan_protocol=802.1Q" "$mnt/answers/vf/$pf/0"
put "trust=on" "$mnt/answers/vf/$pf/0"
put '' "$sim/log"
cat "$sim/state" >"$dir/before"
start_velad

# ---- one tenant after the other
out=$(ctl create one "${guest[@]}" --require 0000:25:10.0 --vf vlan=100,qos=3,trust=on,max_rate=1000,mac=02:00:00:12:34:56 2>&1)
read -r pf index < <(vf_of one) || not_ok "create" "$out"
is "what was asked is set, all else is standard" "mac=02:00:00:12:34:56 vlan=100 qos=3 vlan_protocol=802.1Q trust=on spoof_check=on \
min_rate=0 max_rate=1000 link_state=auto" "$(settings "$index")"
is "the rank map has the VF by both addresses, and the GPU that it serves" "True True" "$(ctl -o json rank-map one | of '"%s %s" % (
	[v["bdf"] for v in d["vfs"]] == ["0000:25:10.0"] and "serial" in d["gpus"][0] and d["vfs"][0]["gpu"] == 0 and d["vfs"][0]["switch"] == "0000:21:00.0",
	d["tenant"]["vfs"][0]["guest_bdf"] == d["vfs"][0]["guest_bdf"] and "25:10" not in str(d["tenant"]))')"
is "and a table of it a line for each" "gpu0 vf0" "$(ctl rank-map one | awk '/^(gpu|vf)/ { print $1 }' | xargs)"
ctl delete one >/dev/null
same "what the operator had set is back"
out=$(ctl create two "${guest[@]}" --require 0000:25:10.0 2>&1)
is "the next tenant has none of it" "mac=$(mac_of two) vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=on min_rate=0 max_rate=0 link_state=auto" \
	"$(settings "$index")"
is "and hears that it was otherwise" vf.left "$(findings two)"
mac=$(mac_of two)
is "its address is one station's, and local" "2 0" "$((0x${mac:0:2} & 3)) $((0x${mac:15}))"
map=$(ctl -o json rank-map two)
stop_velad KILL && start_velad
is "the rank map stays over a restart, with the host's name for the operator alone" "$map True" "$(ctl -o json rank-map two) $(of 'd["host"] not in str(d["tenant"])' <<<"$map")"
is "its address stays over a restart" "$mac ${mac}" "$(mac_of two) $(settings "$index" | grep -o "$mac")"
ctl delete two >/dev/null
same "all is back"

# ---- refusals
for bad in "vlan=4095" "vlan_protocol=802.1ad" "mac=01:00:5e:00:00:01" "trust=maybe" "speed=10" "min_rate=5,max_rate=1"; do
	out=$(ctl create bad "${guest[@]}" --vf "$bad" 2>&1)
	is "$bad is refused by name" "2 1" "$? $(grep -c -- "${bad%%=*}\|--vf" <<<"$out")"
done
out=$(ctl create three "${guest[@]}" --require 0000:25:10.0 --vf link_state=up 2>&1)
is "what igb has not is an error with its name" 1 "$(grep -c "driver igb of PF $pf refuses link_state=up for VF [0-9]*: Operation not supported.*may_refuse" <<<"$out")"
ctl delete three >/dev/null 2>&1
same "and nothing is left of it"
out=$(ctl plan "${guest[@]}" --mtu 9000 2>&1)
is "an MTU that no port is known to have is refused" 1 "$(grep -c "$pf: its MTU is unknown; needed: a port with a network interface" <<<"$out")"
stop_velad
velad_conf "$nic; s|^may_refuse = none|may_refuse = link_state|"
start_velad
ctl create four "${guest[@]}" --require 0000:25:10.0 --vf link_state=up >/dev/null 2>&1
is "unless it may be refused: the guest runs, and the finding says so" "running vf.refused" "$(ctl -o json show four | of 'd["state"]') $(findings four | grep -o vf.refused)"
ctl delete four >/dev/null
same "all is back again"

# ---- failures and kills at each write
put '' "$sim/log"
ctl create ok "${guest[@]}" --require 0000:25:10.0 --vf vlan=5,trust=off,max_rate=100 >/dev/null 2>&1
n=$(vf_writes | wc -l)
ctl delete ok >/dev/null
((n >= 3)) || not_ok "several writes" "$(vf_writes)"
for ((k = 0; k < n; k++)); do
	echo "answers/vf/*:write:EIO:1:$k" >"$sim/fault"
	out=$(ctl create bad "${guest[@]}" --require 0000:25:10.0 --vf vlan=5,trust=off,max_rate=100 2>&1)
	rc=$?
	echo clear >"$sim/fault"
	ctl delete bad >/dev/null 2>&1
	differs=$(host_differs)
	is "write $k fails: so does the create, and the VF is as before" "1 " "$((rc != 0)) $differs"
done
for ((k = 0; k < n; k++)); do
	echo "answers/vf/*:write:hang 30:1:$k" >"$sim/fault"
	ctl create bad "${guest[@]}" --require 0000:25:10.0 --vf vlan=5,trust=off,max_rate=100 --no-wait >/dev/null 2>&1
	for ((i = 0; i < 100; i++)); do
		[[ $(vf_writes | wc -l) -gt $((2 * n + k)) ]] && break
		sleep 0.02
	done
	kill -KILL "$velad"
	echo clear >"$sim/fault"
	wait "$velad" 2>/dev/null
	start_velad
	for ((i = 0; i < 100; i++)); do
		[[ $(ctl -o json show bad 2>/dev/null | of 'd["state"]') == failed ]] && break
		sleep 0.05
	done
	ctl delete bad >/dev/null 2>&1
	is "killed at write $k: after the restart the VF is as before" "" "$(host_differs)"
done
stop_velad

# ---- mlx5 of Ethernet, which takes all of it
velad_conf
unmount; rm -f "$dir/uevents" "$dir"/velad.db*
mount_host --uevents "$dir/uevents" "$PWD/tests/hosts/hgx-b200-8gpu/sys.txt" || exit 1
pf=0000:18:00.0
guest=(--gpus 1 --vfs-per-gpu 1 --max-path PIX --vcpus 1 --memory 256M --require 0000:17:00.0 --require 0000:18:00.1)
cat "$sim/state" >"$dir/before"
start_velad
all=mac=02:00:00:12:34:56,vlan=100,qos=3,vlan_protocol=802.1ad,trust=on,spoof_check=on,min_rate=10,max_rate=1000,link_state=up
out=$(ctl create one "${guest[@]}" --vf "$all" 2>&1) || not_ok "create" "$out"
is "everything that can be set" "${all//,/ }" "$(settings 0)"
for how in reboot stop start; do ctl "$how" one >/dev/null 2>&1; done
is "case 59: it stays over a reboot, a stop and a start" "${all//,/ }" "$(settings 0)"
uuid() { ctl -o json show one | of 'd["uuid"]'; }
uuid=$(uuid)
stop_velad KILL; unmount; rm -f "$dir/uevents" # the host reboots: no VFs, no guests
mount_host --uevents "$dir/uevents" "$PWD/tests/hosts/hgx-b200-8gpu/sys.txt" || exit 1
start_velad
state() { ctl -o json show one | of 'd["state"]'; }
until_is stopped state
ctl start one >/dev/null 2>&1
is "case 59: and over a reboot of the host, as its id does" "$uuid ${all//,/ }" "$(uuid) $(settings 0)"
ctl create two --vfs 1 --vcpus 1 --memory 256M --require 0000:18:00.2 >/dev/null 2>&1 # the port keeps its VFs
ctl delete one >/dev/null
ctl create three "${guest[@]}" >/dev/null 2>&1
is "case 58: the next tenant of that VF has nothing of it" "mac=$(mac_of three) vlan=0 qos=0 vlan_protocol=802.1Q trust=off spoof_check=on min_rate=0 \
max_rate=0 link_state=auto" "$(settings 0)"
ctl delete three >/dev/null; ctl delete two >/dev/null
same "all is as before"
stop_velad

# ---- InfiniBand: a VF's GUIDs, which are none at first
velad_conf
unmount; rm -f "$dir/uevents" "$dir"/velad.db*
mount_host --uevents "$dir/uevents" "$PWD/tests/hosts/dgx-a100/sys.txt" || exit 1
pf=0000:12:00.0
guest=(--gpus 1 --vfs-per-gpu 1 --max-path PIX --vcpus 1 --memory 256M --require 0000:0f:00.0 --require 0000:12:00.1)
none=00:00:00:00:00:00:00:00
put 2 "$sys/devices/$pf/sriov_numvfs"
is "a fresh VF of InfiniBand" "link_state=auto node_guid=$none port_guid=$none" "$(settings 0)"
cat "$sim/state" >"$dir/before"
start_velad
guids() { ctl -o json show "$1" | of '"link_state=auto node_guid=%(node_guid)s port_guid=%(port_guid)s" % d["bundle"]["vfs"][0]["settings"]'; }
out=$(ctl create ib "${guest[@]}" --mtu 4092 2>&1) || not_ok "create" "$out"
guids=$(guids ib)
is "case 57: it has GUIDs before its guest starts, other than none" "vf domain 0" "$(ctl -o json show ib | of '" ".join(s["id"] for s in d["steps"] if s["id"] in ("vf", "domain"))') \
$(grep -c "$none" <<<"$guids")"
is "they are what the kernel has" "$guids" "$(settings 0)"
for how in reboot stop start; do ctl "$how" ib >/dev/null 2>&1; done
is "and stay over a reboot, a stop and a start" "$guids $guids" "$(guids ib) $(settings 0)"
ctl delete ib >/dev/null
same "they are none again"
echo "answers/vf/*:write:EIO:1:1" >"$sim/fault"
out=$(ctl create ib "${guest[@]}" 2>&1)
is "case 56: one GUID was written, and the other failed" "1 1" "$? $(grep -c "Input/output error" <<<"$out")"
echo clear >"$sim/fault"
same "the first is none again"
ctl delete ib >/dev/null 2>&1
ctl create ib "${guest[@]}" >/dev/null 2>&1
is "the next attempt has its own" "$(guids ib)" "$(settings 0)"
ctl delete ib >/dev/null
same "and what it took for the original was none"
out=$(ctl create ib "${guest[@]}" --vf vlan=5,node_guid=02:00:00:00:00:00:00:01 2>&1)
is "a VLAN beside a GUID is refused" "2 1" "$? $(grep -c "GUIDs, which are InfiniBand's, and vlan" <<<"$out")"
out=$(ctl create ib "${guest[@]}" --vf vlan=5 2>&1)
is "and a VLAN of an InfiniBand port" "5 1" "$? $(grep -c "$pf: its port is InfiniBand's, whose VFs have no vlan" <<<"$out")"
out=$(ctl plan "${guest[@]}" --mtu 9000 2>&1)
is "an MTU that it has not" 1 "$(grep -c "$pf: its MTU is 4092; needed: 9000" <<<"$out")"
same "all is as before"
stop_velad
summary
