#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A velad that is started before there is a velad-helper waits for it; then it goes on without, says so, and recovers when it comes: what was
# unknown is known, and what could not be given back is.
# test_patience.sh [BUILD]; prints ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
export HOSTSIM_HELPER=later
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

state() { ctl -o json show "$1" | of 'd["state"]'; }
error() { ctl -o json show "$1" | of 'd["error"]'; }
newest() { ctl -o json op list "$1" | of '"%s %s" % (d["operations"][0]["kind"], d["operations"][0]["state"])'; }
known() { ctl -o json topo | of '[bool(n["acs"] and n["acs"].get("cap")) for n in d["nodes"] if n["bdf"] == "0000:22:02.0"][0]'; }
doctor() { ctl -o json doctor | of 'd["helper"]'; }

velad_conf "s|^keep_seconds = .*|keep_seconds = 1|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|; s|^helper_start = .*|helper_start = 4|"
mount_host --guests --uevents "$dir/uevents" "$host" || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
: >"$dir/helper.log"
: >"$dir/velad.log"

launch_velad
sleep 0.4
start_helper
await_velad
is "a helper that comes while velad starts was waited for" "None 0" "$(doctor) $(grep -c 'cannot reach velad-helper' "$dir/velad.log")"
is "and all is known" "True" "$(known)"
stop_velad
stop_helper

sed -i "s|^helper_start = .*|helper_start = 1|" "$dir/velad.conf"
start_velad
is "without one velad starts nevertheless, and says what it lacks" "1 1" \
	"$(grep -c 'cannot reach velad-helper at .*; until it is there, config space is not known' "$dir/velad.log") $(doctor | grep -c 'cannot reach velad-helper at')"
is "velactl doctor says it, too" 1 "$(ctl doctor | grep -c 'velad works without its helper')"
is "what it opens is unknown, and not guessed" "False" "$(known)"
start_helper
until_is None doctor
is "it comes: velad finds it by itself" "None 1" "$(doctor) $(grep -c 'velad-helper is there again' "$dir/velad.log")"
is "and all is known" "True" "$(known)"

# ---- the pool is not given up
ops() { ctl -o json op list | of '" ".join(o["kind"] + ":" + o["state"] for o in d["operations"])'; }
stop_velad
cp "$dir/velad.conf" "$dir/without_pool"
sed -i "/^vfs_on_demand/i\\vfs = 2 0000:25:00.0" "$dir/velad.conf"
start_velad
until_is "pool-apply:succeeded" ops
is "the pool is made" "pool-apply:succeeded 2" "$(ops) $(cat $sys/devices/0000:25:00.0/sriov_numvfs)"
stop_velad
stop_helper
rm -f "$dir/helper.sock"
start_velad
start_helper
until_is None doctor
sleep 0.5
is "a velad that starts without helper leaves it as it is" "pool-apply:succeeded 2" "$(ops) $(cat $sys/devices/0000:25:00.0/sriov_numvfs)"
stop_velad
put 0 $sys/devices/0000:25:00.0/sriov_numvfs # as after a boot
stop_helper
rm -f "$dir/helper.sock"
start_velad
is "nor is anything begun" "pool-apply:succeeded" "$(ops)"
start_helper
until_is "pool-apply:succeeded pool-apply:succeeded" ops
is "it is made once there is one" 2 "$(cat $sys/devices/0000:25:00.0/sriov_numvfs)"
stop_velad
cp "$dir/without_pool" "$dir/velad.conf"
start_velad
until_is 0 cat $sys/devices/0000:25:00.0/sriov_numvfs

guest=(--vfs-per-gpu 1 --gpus 1 --vcpus 1 --memory 256M --gdr required --require 0000:23:00.0)
ctl create one "${guest[@]}" >/dev/null 2>&1
is "a guest runs" running "$(state one)"
stop_velad KILL
stop_helper
rm -f "$dir/helper.sock"
start_velad # who looks at what its guest has waits, too
is "with an instance, too, velad starts without a helper" 1 "$(doctor | grep -c 'cannot reach velad-helper at')"
ctl delete one >/dev/null 2>&1
is "it goes away: what the deleted guest had stays held, and why is said" "failed 1" "$(state one) $(error one | grep -c 'cannot reach velad-helper.*tried again until it can be')"
if until_is "undo queued" newest one; then ok "that is tried again"; else not_ok "that is tried again" "$(newest one)"; fi
start_helper
until_is "undo succeeded" newest one
is "it comes: everything is given back" "undo succeeded 1" "$(newest one) $(error one | grep -c 'later, everything was given back')"
ctl delete one >/dev/null 2>&1
same "deleted: the host is as before"
is "nothing is in quarantine" 0 "$(ctl -o json quarantine list | of 'len(d["quarantine"])')"
stop_velad
summary
