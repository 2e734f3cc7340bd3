#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The gate between two tenants on a simulated host: what is reset, what goes into quarantine and comes out again, and a velad
# that is killed in the middle of it; and a guest that is stopped and started. With velad-helper, or without it: HOSTSIM_HELPER=.
# test_release.sh [BUILD]; ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
velad=
export HOSTSIM_HELPER=${HOSTSIM_HELPER-1}
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
put '' "$sim/log"
out=$(ctl stop one --force 2>&1) || not_ok "stop" "$out"
is "stopped: each of its functions was reset, and is still with vfio-pci" "$functions stopped vfio-pci" "$(resets) $(state) $(driver $gpu)"
is "a reboot of what is stopped is refused, with its state" "1" "$(ctl reboot one 2>&1 | grep -c 'instance one is stopped')"
out=$(ctl start one 2>&1) || not_ok "start" "$out"
is "started: it is the same guest" "running $uuid" "$(state) $(ctl -o json show one | of 'd["uuid"]')"
out=$(ctl reboot one 2>&1) || not_ok "reboot" "$out"
put "*/$gpu/reset:write:EIO:1" "$sim/fault"
out=$(ctl stop one --force 2>&1) || not_ok "stop of a guest whose GPU cannot be reset" "$out"
put clear "$sim/fault"
is "a GPU that cannot be reset when its guest is stopped is in quarantine, and the guest's" "$gpu stopped vfio-pci" "$(quarantine) $(state) $(driver $gpu)"
is "a start is refused, and says by what" "1" "$(ctl start one 2>&1 | grep -c "$gpu is in quarantine: it was not reset.*velactl quarantine release $gpu")"
out=$(ctl quarantine release $gpu 2>&1) || not_ok "released while its guest is stopped" "$out"
out=$(ctl start one 2>&1) || not_ok "started with what was released" "$out"
is "once it is well it is released, and the guest started with it" " running" "$(quarantine) $(state)"
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

# ---- killed while a stopped guest's functions are reset
rm -f "$dir"/velad.db* "$dir/uevents"
mount_host --uevents "$dir/uevents" tests/hosts/lab/sys.txt || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
start_velad
ctl create one "${guest[@]}" >/dev/null 2>&1
put '' "$sim/log"
put "*/reset:write:hang 20:1" "$sim/fault"
ctl stop one --force --no-wait >/dev/null 2>&1
for ((i = 0; i < 500 && $(cat "$sim/log" | grep -c '/reset ') < 1; i++)); do sleep 0.01; done
sleep 0.2
stop_velad KILL
put clear "$sim/fault"
put '' "$sim/log"
start_velad
until_is stopped state
is "killed while a stopped guest's functions are reset: the next velad resets them" "$functions stopped " "$(resets) $(state) $(quarantine)"
out=$(ctl delete one 2>&1) || not_ok "delete" "$out"
same "and the host is as before"
stop_velad
unmount

# ---- a GPU that can only be reset with its whole bus, on which its audio is
bus=sys/devices/pci0000:40/0000:40:01.1
sed "s|^$bus/0000:41:00.0/revision.*|&\n$bus/0000:41:00.0/reset_method	bus|" tests/hosts/workstation-epyc-starship-2gpu/sys.txt >"$dir/bus.txt"
rm -f "$dir"/velad.db* "$dir/uevents"
mount_host --uevents "$dir/uevents" "$dir/bus.txt" || exit 1
cat "$sim/state" >"$dir/before"
start_velad
both=(--gpus 1 --vcpus 1 --memory 256M --require 0000:41:00.0)
is "the plan says that it is reset with its bus" "bus" "$(ctl -o json plan "${both[@]}" | of '" ".join(s["from"] for s in d["steps"] if s["id"] == "reset")')"
out=$(ctl create one "${both[@]}" 2>&1) || not_ok "create" "$out"
put '' "$sim/log"
out=$(ctl delete one 2>&1) || not_ok "delete" "$out"
is "both are reset, by the port above, once" "1 0 " "$(cat "$sim/log" | grep -c "0000:40:01.1/reset_subordinate ") $(cat "$sim/log" | grep -c '/reset ') $(quarantine)"
same "and the host is as before"
ctl create one "${both[@]}" >/dev/null 2>&1
put "*/reset_subordinate:write:EIO:1" "$sim/fault"
out=$(ctl delete one 2>&1) || not_ok "delete, and the bus is not reset" "$out"
put clear "$sim/fault"
is "a bus that is not reset: the GPU is in quarantine; its release says what has a driver" "0000:41:00.0 1" \
	"$(quarantine) $(ctl quarantine release 0000:41:00.0 2>&1 | grep -c 'together with 0000:41:00.1, which has driver snd_hda_intel')"
put 0000:41:00.1 $sys/drivers/snd_hda_intel/unbind
out=$(ctl quarantine release 0000:41:00.0 2>&1) || not_ok "release" "$out"
put 0000:41:00.1 $sys/drivers/snd_hda_intel/bind
is "which may be taken from it, and then it is released" "" "$(quarantine)"
same "and the host is as before"
stop_velad
unmount

# ---- twenty at once, each of which takes 100 ms to reset
rm -f "$dir"/velad.db* "$dir/uevents"
mount_host --uevents "$dir/uevents" tests/hosts/l40s-4u/sys.txt || exit 1
start_velad
out=$(ctl create one --gpus 8 --vfs 12 --vcpus 2 --memory 256M 2>&1) || not_ok "create with 20 functions" "$(tail -n 4 <<<"$out")"
put "*/reset:write:delay 100" "$sim/fault"
for what in "stop one --force" "delete one"; do
	# shellcheck disable=SC2086 # the words are the arguments
	op=$(ctl -o json $what --no-wait | of 'd["id"]')
	ctl op wait "$op" >/dev/null 2>&1
	read -r n most took <<<"$(resets_of "$op")"
	is "$what: 20 resets of 100 ms are under way at once, and took $took ms" "20 20 yes" "$n $most $( ((took < 2000)) && echo yes)"
done
put clear "$sim/fault"
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
