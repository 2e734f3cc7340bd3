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
helper=
nobody=65534
stop_helper() {
	[[ $helper ]] || return 0
	kill "-${1:-TERM}" "$helper" 2>/dev/null
	wait "$helper" 2>/dev/null
	helper=
}
cleanup() { stop_velad KILL; stop_helper KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

start_helper() { # start_helper [OPTION]...
	rm -f "$dir/helper.sock"
	"$build/velad-helper" --root "$mnt" --conf "$dir/velad.conf" --socket "$dir/helper.sock" --user $nobody --idle 0 "$@" 2>>"$dir/helper.log" &
	helper=$!
	for ((i = 0; i < 200; i++)); do
		[[ -S $dir/helper.sock ]] && return
		sleep 0.02
	done
	not_ok "velad-helper starts" "$(tail "$dir/helper.log")"
	exit 1
}
create() { ctl create "$@" 2>&1; }
state() { ctl -o json show "$1" 2>/dev/null | of 'd["state"]'; }
writes() { cat "$sim/log" | grep -c .; }
said() { tail -n +$((seen + 1)) "$dir/helper.log"; } # since: seen=$(lines)
lines() { wc -l <"$dir/helper.log"; }

chmod 755 "$dir" # for the user that velad is
chown $nobody "$dir"
velad_conf "s|^keep_seconds = .*|keep_seconds = 1|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|
	s|^helper = .*|helper = $dir/helper.sock|"
velad_as=(setpriv --reuid=$nobody --regid=$nobody --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs)

mount_host --guests --uevents "$dir/uevents" "$host" || exit 1
chmod 777 "$dir/uevents"
put 1 $sys/devices/0000:25:00.0/sriov_numvfs # this text host has no folder of IOMMU groups: it comes with the first VF
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
: >"$dir/helper.log"
start_helper
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
