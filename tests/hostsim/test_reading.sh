#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Reading a file of the machine that does not return, as where a driver hangs and keeps its device locked, costs one thread: nobody else waits,
# what it says is unknown, its function is given to nobody, and when it returns all is as before. test_reading.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
export HOSTSIM_HELPER=${HOSTSIM_HELPER-1} # as in production, with a list of system calls for each thread
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

gpu=0000:24:00.0
other=0000:23:00.0
hang() { put "sys/devices/*$1:read:hang 100" "$sim/fault"; }
ms() { local t=${EPOCHREALTIME/./}; "$@" >/dev/null 2>&1; echo $(((${EPOCHREALTIME/./} - t) / 1000)); } # how long a command takes
http() { timeout 60 tests/hostsim/ask.py "$dir/sock" "$@"; }
findings() { ctl -o json doctor | of '[c["observed"] for c in d["checks"] if "does not return" in (c["observed"] or "")]'; }
plan_of() { ctl -o json plan --gpus 1 --vcpus 1 --memory 256M "$@" | of '[g["bdf"] for g in d["bundle"]["gpus"]] if d["fits"] else [r for r in d["reasons"] if "does not return" in str(r)] != [] or d["reasons"]'; }
said() { grep -c "$1" "$dir/velad.log"; }
# beside TEXT: while one asks for what cannot be read, others are answered as ever; the slowest of 30 is far from the 3 s of a thread that is left
beside() {
	local doctor worst
	ctl -o json doctor >"$dir/doctor" 2>&1 &
	doctor=$!
	worst=$(python3 - "$dir/sock" <<-'END'
		import http.client, socket, sys, time
		c = http.client.HTTPConnection("v")
		c.sock = socket.socket(socket.AF_UNIX)
		c.sock.connect(sys.argv[1])
		worst = 0
		for i in range(30):
		    time.sleep(0.05)
		    t = time.monotonic()
		    c.request("GET", "/v1/instances")
		    c.getresponse().read()
		    worst = max(worst, time.monotonic() - t)
		print(int(worst * 1000))
	END
	)
	if kill -0 $doctor 2>/dev/null && ((worst < 1000)); then ok "$1"; else not_ok "$1" "the slowest of 30 took $worst ms"; fi
	wait $doctor
}

velad_conf "s|^look = .*|look = 3|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
mount_host --uevents "$dir/uevents" "$host" || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
: >"$dir/velad.log"
start_velad
is "what the host has is planned with" "['$gpu']" "$(plan_of --require $gpu)"

# ---- one file of one function: the lock of its device is held
hang "/$gpu/driver_override"
beside "driver_override hangs: nobody else waits"
is "it is said, once, and which file" 1 "$(said "reading /sys/devices/.*/$gpu/driver_override has not returned for [3-9] s")"
is "doctor says that it is unknown" "['cannot use its driver_override: reading it does not return']" "$(findings)"
is "a plan does without it" "['$other']" "$(plan_of)"
is "nobody gets it" True "$(plan_of --require $gpu)"
ctl create one --gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M >"$dir/out" 2>&1
is "a guest gets another one" "running" "$(ctl -o json show one | of 'd["state"]')"
ctl delete one >"$dir/out" 2>&1
same "and gives it back"
echo clear >"$sim/fault"
until_is 1 said "reading .*driver_override has returned"
until_is "['$gpu']" plan_of --require $gpu
is "it returns: it is known again, and given" "[] ['$gpu']" "$(findings) $(plan_of --require $gpu)"

# ---- another thread, another kind of file
hang "/$gpu/config"
beside "config space hangs: nobody else waits"
is "nobody gets it" True "$(plan_of --require $gpu)"
hang "/node0/meminfo"
beside "a node's memory as well: nobody else waits"
is "what is left can be planned with" "['0000:83:00.0']" "$(plan_of)" # of the other node
echo clear >"$sim/fault"
until_is 1 said "reading .*meminfo has returned"
until_is "['$gpu']" plan_of --require $gpu
is "both return" "['$gpu'] ['$other']" "$(plan_of --require $gpu) $(plan_of --require $other)"

# ---- it hangs when velad starts, and when it ends
stop_velad
hang "/$gpu/driver_override"
: >"$dir/velad.log"
start_velad
is "velad starts where it hangs" "1 ['$other']" "$(said "driver_override has not returned") $(plan_of)"
t=$(ms stop_velad)
if ((t < 5000)); then ok "and ends"; else not_ok "and ends" "after $t ms"; fi
echo clear >"$sim/fault"

# ---- more than there are threads
: >"$dir/velad.log"
sed -i "s|^look = .*|look = 1|" "$dir/velad.conf"
start_velad
functions=("$sys"/devices/*)
for bdf in "${functions[@]:4:12}"; do hang "/${bdf##*/}/config"; done
beside "twelve hang: nobody else waits"
if grep -q 'the machine cannot be read: reading /sys/devices/.*config has not returned for .* s, nor have 11 others' "$dir/doctor"; then
	ok "who needs what is unreadable is told which file"
else
	not_ok "who needs what is unreadable is told which file" "$(<"$dir/doctor")"
fi
if (($(ms ctl doctor) < 1000)); then ok "and at once from then on"; else not_ok "and at once from then on"; fi
is "guests are listed" "200" "$(http GET /v1/instances | head -n 1)"
echo clear >"$sim/fault"
until_is 12 said "config has returned"
until_is "['$gpu']" plan_of --require $gpu
is "they return: all is known again" "[] ['$gpu']" "$(findings) $(plan_of --require $gpu)"
stop_velad
same "the host is as before"
summary
