#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Partitions of NVSwitches: real velad on a simulated XE9680, tests/plan/fmpm plays Fabric Manager. A guest's partition is
# active while it is there, and what overlaps with another active one is refused. test_partition.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/xe9680/sys.txt
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^fmpm = .*|fmpm = $dir/fmpm|"
mount_host --uevents "$dir/uevents" "$host" || exit 1
fake_fmpm
start_velad
active() { of '" ".join(map(str, d["active"]))' <"$dir/fm"; }

two=(--gpus 2 --vcpus 2 --memory 512M)
is "a plan says which partition, and the step" "3 inactive active" "$(ctl -o json plan "${two[@]}" --require 0000:4c:00.0 |
	of '"%s %s %s" % (d["bundle"]["partition"], *[(s["from"], s["to"]) for s in d["steps"] if s["id"] == "partition"][0])')"
ctl create one "${two[@]}" --require 0000:4c:00.0 >/dev/null 2>&1
is "active before its guest starts: modules 1 and 3 are 4c and 5d" "running 0000:4c:00.0 0000:5d:00.0 3" "$(ctl -o json show one |
	of '" ".join([d["state"]] + [g["bdf"] for g in d["bundle"]["gpus"]])') $(active)"
is "activated once, by its number" "1" "$(grep -c '^-a 3$' "$dir/said")"
ctl create two "${two[@]}" >/dev/null 2>&1
is "another pair beside it" "running 3 4" "$(ctl -o json show two | of 'd["state"]') $(active)"
ctl delete one >/dev/null 2>&1
is "inactive when it is gone" "4" "$(active)"
ctl delete two >/dev/null 2>&1
is "all given back" "" "$(active)"

# somebody else activates the four of them, which velad has not heard of
put "$(of 'json.dumps(dict(d, active=[1]))' <"$dir/fm")" "$dir/fm"
out=$(ctl create late "${two[@]}" --require 0000:4c:00.0 2>&1)
is "refused where it overlaps, by name" "failed 1" "$(ctl -o json show late | of 'd["state"]') $(grep -c 'step partition 3: it has a GPU in common with partition 1' <<<"$out")"
is "and what was begun is undone" "1 nvidia" "$(active) $(basename "$(readlink "$mnt/sys/bus/pci/devices/0000:4c:00.0/driver")")"
ctl delete late >/dev/null 2>&1
stop_velad
summary
