#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The gate between two tenants on a simulated host: what is reset, what goes into quarantine and comes out again, and a velad
# that is killed in the middle of it; and a guest that is stopped and started. test_release.sh [BUILD]; ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
resets() { cat "$sim/log" | grep '/reset ' | grep -o '0000:[0-9a-f:.]*/reset ' | sed 's|/reset ||' | sort | tr '\n' ' '; }
quarantine() { ctl -o json quarantine list | of '" ".join(q["bdf"] for q in d["quarantine"])'; }
state() { ctl -o json show one 2>/dev/null | of 'd.get("state", "")'; }

mount_host --uevents "$dir/uevents" tests/hosts/lab/sys.txt || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs # this text host has no folder of IOMMU groups: it comes with the first VF
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
start_velad
gpu=0000:23:00.0
guest=(--vfs-per-gpu 1 --gpus 1 --vcpus 1 --memory 256M --require $gpu)
functions=$(ctl -o json plan "${guest[@]}" | of '" ".join(sorted(s["target"] for s in d["steps"] if s["id"] == "reset")) + " "')
is "the plan says what will be reset" "2" "$(wc -w <<<"$functions")"

ctl create one "${guest[@]}" >/dev/null 2>&1
put '' "$sim/log"
out=$(ctl delete one 2>&1) || not_ok "delete" "$out"
is "delete resets each function of the guest, and no other" "$functions" "$(resets)"
same "the host is as before"
is "nothing is in quarantine, and scrub: not configured is shown" " not configured" "$(quarantine) $(ctl -o json op show 2 | of 'd["scrub"]')"
is "and doctor says it" "between guests, scrub: not configured" "$(ctl doctor 2>/dev/null | grep '^between guests')"

# ---- stopped and started
ctl create one "${guest[@]}" >/dev/null 2>&1
uuid=$(ctl -o json show one | of 'd["uuid"]')
out=$(ctl stop one --force 2>&1) || not_ok "stop" "$out"
is "stopped, and its function is still with vfio-pci" "stopped vfio-pci" "$(state) $(driver $gpu)"
is "a reboot of what is stopped is refused, with its state" "1" "$(ctl reboot one 2>&1 | grep -c 'instance one is stopped')"
out=$(ctl start one 2>&1) || not_ok "start" "$out"
is "started: it is the same guest" "running $uuid" "$(state) $(ctl -o json show one | of 'd["uuid"]')"
out=$(ctl reboot one 2>&1) || not_ok "reboot" "$out"
ctl delete one >/dev/null 2>&1
same "and the host is as before"

# ---- a reset after which nobody answers
ctl create one "${guest[@]}" >/dev/null 2>&1
put "*/$gpu/reset:write:ff:1" "$sim/fault"
out=$(ctl delete one 2>&1) || not_ok "delete of a guest whose GPU dies" "$out"
put clear "$sim/fault"
is "it is in quarantine, without a driver; the rest is given back" "$gpu none" "$(quarantine) $(driver $gpu)"
is "and is not planned" "1" "$(ctl plan "${guest[@]}" 2>&1 | grep -c 'device.quarantined\|quarantine' | sed 's/[1-9][0-9]*/1/')"
ctl quarantine release $gpu >/dev/null 2>&1
is "as long as it does not answer it stays there" "$gpu" "$(quarantine)"
stop_velad
start_velad
is "also over a restart" "$gpu" "$(quarantine)"
stop_velad
unmount

# ---- killed while a reset runs, and while a driver comes back
for rule in "*/reset:write:hang 20:1" "*/driver_override:write:hang 20:1:1"; do
	rm -f "$dir"/velad.db* "$dir/uevents"
	mount_host --uevents "$dir/uevents" tests/hosts/lab/sys.txt || exit 1
	put 1 $sys/devices/0000:25:00.0/sriov_numvfs
	put 0 $sys/devices/0000:25:00.0/sriov_numvfs
	cat "$sim/state" >"$dir/before"
	start_velad
	ctl create one "${guest[@]}" >/dev/null 2>&1
	put '' "$sim/log"
	put "$rule" "$sim/fault"
	ctl delete one --no-wait >/dev/null 2>&1
	for ((i = 0; i < 500 && $(cat "$sim/log" | grep -c '/reset ') < 1; i++)); do sleep 0.01; done
	sleep 0.2
	stop_velad KILL
	put clear "$sim/fault"
	start_velad
	until_is "" state
	is "killed at $rule: the next velad ends the delete" " " "$(state) $(quarantine)"
	same "and the host is as before"
	stop_velad
	unmount
done
summary
