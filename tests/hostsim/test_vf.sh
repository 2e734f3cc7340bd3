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
summary
