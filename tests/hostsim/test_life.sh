#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What users of other systems suffer from when something fails, is killed or boots between a guest's steps: real velad on a simulated host.
# What goes on while a guest runs (restarts of velad and libvirt, calls of libvirt that never return) is in tests/crash/adopt.
# test_life.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

fake_fmpm
velad_conf "s|^fmpm = .*|fmpm = $dir/fmpm|; s|^bind = .*|bind = 2|"
host=tests/hosts/xe9680/sys.txt
state() { ctl -o json show "$1" 2>/dev/null | of 'd["state"]'; }
gpus() { ctl -o json show "$1" 2>/dev/null | of '" ".join(g["bdf"] for g in d["bundle"]["gpus"])'; }
quarantine() { ctl -o json quarantine list | of '" ".join(q["bdf"] for q in d["quarantine"])'; }
boot() { # boot HOST.txt: whatever was loaded and bound is as the text host has it, and what velad keeps is kept
	stop_velad "${2:-TERM}"
	rm -f "$dir/uevents"
	mount_host --uevents "$dir/uevents" "$1" || exit 1
	start_velad
}

boot $host
put nvidia $sys/devices/0000:19:00.0/driver_override # the lowest GPU, kept for its driver by an operator
cat "$sim/state" >"$dir/before"
four=(--gpus 4 --vcpus 2 --memory 256M)

# ---- case 43, dra-driver-nvidia-gpu#1255: a prepare that fails leaves k - 1 devices on vfio-pci, which nobody owns
for ((k = 0; k < 4; k++)); do
	put "*/vfio-pci/bind:write:EIO:1:$k" "$sim/fault"
	out=$(ctl create one "${four[@]}" 2>&1)
	is "case 43: bind $((k + 1)) of 4 fails, and the create says which" "failed 1" "$(state one) $(grep -c 'failed .*bind .*0000:' <<<"$out")"
	put clear "$sim/fault"
	same "what was bound before has its driver back"
	is "and nothing is held" " " "$(quarantine) $(ctl -o json plan "${four[@]}" | of '" ".join(r["rule"] for r in d["reasons"] if r["rule"].startswith("taken"))')"
	out=$(ctl delete one 2>&1) || not_ok "deleted" "$out"
done

# ---- case 51, lxd#12128: the host loses its lowest GPU, whose override is not given back
out=$(ctl create two "${four[@]}" --require 0000:19:00.0 2>&1)
is "case 51: a guest has the lowest GPU" "running vfio-pci" "$(state two) $(driver 0000:19:00.0)"
ctl delete two >/dev/null 2>&1
is "its driver and its driver_override are what they were" "nvidia nvidia" "$(driver 0000:19:00.0) $(<$sys/devices/0000:19:00.0/driver_override)"
same "as all else is"

# ---- case 46, dra-driver-nvidia-gpu#1037: somebody holds the device open, and an unbind does not return
put "*/nvidia/unbind:write:hang 1000:1" "$sim/fault"
from=$SECONDS
out=$(ctl create three --gpus 1 --vcpus 1 --memory 256M --require 0000:19:00.0 2>&1)
is "case 46: the operation ends at the step's deadline, and says what hangs" "failed 1" \
	"$(state three) $(grep -c 'the change of the driver of 0000:19:00.0 did not return within 2 s.*; that is in quarantine, the rest was given back$' <<<"$out")"
is "within seconds" 1 "$((SECONDS - from < 15))"
[[ $(state three) == failed ]] || sed 's/^/#   /' <<<"$out"
out=$(ctl create four --vfs 1 --vcpus 1 --memory 256M 2>&1) # another GPU's unbind would wait here: FUSE lets one write to a file at a time
is "meanwhile another guest is made" "running" "$(state four)"
ctl delete four >/dev/null 2>&1
is "whose state nobody knows is in quarantine" "0000:19:00.0" "$(quarantine)"
put clear "$sim/fault"
ctl delete three >/dev/null 2>&1
release_all >/dev/null
same "once the call has returned, it is released, and the host is as before"

# ---- case 44, dra-driver-nvidia-gpu#1330: killed when the devices are on vfio-pci already, the next one does not find them
put "*/vfio-pci/bind:write:hang 1000:1:3" "$sim/fault"
ctl --no-wait create five "${four[@]}" >/dev/null 2>&1
until_is 4 eval "ls $sys/drivers/vfio-pci | grep -c '^0000:'" || not_ok "four are bound"
stop_velad KILL
put clear "$sim/fault"
start_velad
until_is failed state five
is "case 44: killed after its fourth bind: the next velad undoes it" "failed " "$(state five) $(quarantine)"
same "the host is as before"
out=$(ctl delete five 2>&1 && ctl create five "${four[@]}" 2>&1)
is "and the guest can be made" running "$(state five)"

# ---- case 50, kubevirt#8496: a stopped guest loses its GPU to another one
ctl stop five --force >/dev/null 2>&1
had=$(gpus five)
out=$(ctl create six --gpus 1 --vcpus 1 --memory 256M --require "${had%% *}" 2>&1)
is "case 50: another guest does not get the GPU of one that is stopped, and is told whose it is" five "$(grep "${had%% *}.*five" <<<"$out" | grep -o five | head -n 1)"
is "which is there no less" "stopped $had" "$(state five) $(gpus five)"

# ---- case 48, harvester#3126: after a boot of the host everything has its host's driver again
boot $host KILL
is "case 48: after a boot the guest is there, with what it had" "stopped $had nvidia" "$(state five) $(gpus five) $(driver "${had%% *}")"
out=$(ctl start five 2>&1)
is "and starts with it" "running $had vfio-pci" "$(state five) $(gpus five) $(driver "${had%% *}")"
ctl delete five >/dev/null 2>&1
is "deleted, it gives it back" "nvidia" "$(driver "${had%% *}")"

# ---- a guest that has ended by itself (with velad its libvirt's test driver has): what it had is reset, and what is asked meanwhile waits for that
ops() { ctl -o json op list "$1" | of '" ".join(o["kind"] + ":" + o["state"] for o in d["operations"])'; }
for verb in start delete; do
	ctl create "$verb" --gpus 1 --vcpus 1 --memory 256M >/dev/null 2>&1
	put "*/reset:write:hang 100:1" "$sim/fault"
	stop_velad KILL
	start_velad
	until_is "gate:running create:succeeded" ops "$verb"
	ctl "$verb" "$verb" >"$dir/out" 2>&1 &
	asked=$!
	until_is "$verb:queued gate:running create:succeeded" ops "$verb"
	put clear "$sim/fault"
	wait $asked || not_ok "$verb is refused" "$(<"$dir/out")"
	is "$verb while it passes the gate comes after that" "$verb:succeeded gate:succeeded create:succeeded" "$(ops "$verb")"
	[[ $verb == delete ]] || ctl delete "$verb" >/dev/null 2>&1
done
is "nothing is held" "" "$(quarantine)$(ctl -o json list | of '" ".join(i["name"] for i in d["instances"])')"

stop_velad
rm -f "$dir/uevents"
summary
