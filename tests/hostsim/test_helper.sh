#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Two processes: velad without any privilege, velad-helper as root, on a simulated host. What velad alone would do is done, and
# undone to the byte; the helper killed at every write, and hanging, loses nothing; who else asks is not heard.
# test_helper.sh [BUILD]; prints ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
export HOSTSIM_HELPER=1
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

create() { ctl create "$@" 2>&1; }
state() { ctl -o json show "$1" 2>/dev/null | of 'd["state"]'; }
writes() { cat "$sim/log" | grep -c .; }
said() { tail -n +$((seen + 1)) "$dir/helper.log"; } # since: seen=$(lines)
lines() { wc -l <"$dir/helper.log"; }

velad_conf "s|^keep_seconds = .*|keep_seconds = 1|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
mount_host --guests --uevents "$dir/uevents" "$host" || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs # this text host has no folder of IOMMU groups: it comes with the first VF
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
: >"$dir/helper.log"
start_velad

guest=(--vfs-per-gpu 1 --gpus 1 --vcpus 1 --memory 256M --gdr required --require 0000:23:00.0)
is "velad is nobody, without a capability" "$nobody 0000000000000000 0000000000000000" \
	"$(awk '/^Uid/ { print $2 } /^Cap(Eff|Bnd)/ { print $2 }' "/proc/$velad/status" | xargs)"
put '' "$sim/log"
out=$(create one "${guest[@]}")
is "create: it runs" "running" "$(state one)"
[[ $(state one) == running ]] || sed 's/^/#   /' <<<"$out"
n=$(writes)
is "$n writes, and the helper tells of each change" "yes" "$( ((n >= 6)) && grep -q 'driver 0000:23:00.0: done' "$dir/helper.log" && grep -q 'word 0000:22:02.0: done' "$dir/helper.log" && echo yes)"
is "config space beyond its header is read through it" "$(ctl -o json topo | of '[n.get("acs") for n in d["nodes"] if n["bdf"] == "0000:22:02.0"]')" \
	"$("$build/velactl" --root "$mnt" --conf "$dir/velad.conf" -o json topo | of '[n.get("acs") for n in d["nodes"] if n["bdf"] == "0000:22:02.0"]')"
ctl delete one >/dev/null 2>&1
same "deleted: the host is as before"
summary
