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
state() { ctl -o json show "$1" 2>/dev/null | of 'd["state"]' 2>/dev/null; }
writes() { sys_writes | wc -l; }
said() { tail -n +$((seen + 1)) "$dir/helper.log"; } # since: seen=$(lines)
lines() { wc -l <"$dir/helper.log"; }

velad_conf "s|^keep_seconds = .*|keep_seconds = 1|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
mount_host --guests --uevents "$dir/uevents" "$host" || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs # this text host has no folder of IOMMU groups: it comes with the first VF
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
: >"$dir/helper.log"
: >"$dir/velad.log"
JOURNAL_STREAM=$(stat -c %d:%i "$dir/velad.log") # as below systemd: what changes goes to the journal's own socket
export JOURNAL_STREAM
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
is "config space beyond its header is read through it" "$(ctl -o json topo | of '[n["acs"]["cap"] for n in d["nodes"] if n["bdf"] == "0000:22:02.0"]')" \
	"$("$build/velactl" --root "$mnt" --conf "$dir/velad.conf" -o json topo | of '[n["acs"]["cap"] for n in d["nodes"] if n["bdf"] == "0000:22:02.0"]')"
ctl delete one >/dev/null 2>&1
same "deleted: the host is as before"

# ---- who may ask, and how
cat >"$dir/ask.py" <<'END'
import os, socket, struct, sys
if len(sys.argv) > 3:
    os.setuid(int(sys.argv[3]))
def connect():
    c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    c.settimeout(20)
    c.connect(sys.argv[1])
    return c
s = connect()
def raw(data): # the answer's code
    try:
        s.send(data)
        a = s.recv(4096)
    except (BrokenPipeError, ConnectionResetError):
        a = b""
    return struct.unpack_from("i", a, 4)[0] if a else "closed"
OPEN, LOAD, COUNT, AUTOPROBE, DRIVER, WORD = range(1, 7) # act/wire.h
def call(verb, bdf="0000:00:00.0", number=0, set=0, clear=0, driver="", override="", version=2):
    d, b, f = bdf.split(":")
    dev, fn = f.split(".")
    return raw(struct.pack("IIIBBHHH64s64s108s", version, verb, int(d, 16), int(b, 16), int(dev, 16) << 3 | int(fn), number, set, clear,
        driver.encode(), override.encode(), b""))
exec(sys.argv[2])
END
ask() { python3 "$dir/ask.py" "$dir/helper.sock" "$@"; } # ask PYTHON [UID]
is "root may ask, and is told that a port takes no driver" "-1" "$(ask 'print(call(DRIVER, "0000:20:00.0", driver="vfio-pci", override="vfio-pci"))')"
seen=$(lines)
is "another user is not heard" "closed" "$(ask 'print(call(LOAD))' 1)"
is "and the journal has it" 1 "$(said | grep -c 'uid 1, process .*may not ask')"
is "a message of another version is refused, and ends the connection" "-71 closed" "$(ask 'print(call(LOAD, version=3), call(LOAD))')"
is "one of another size, and noise, too" "-71 closed -71 closed" "$(ask 'print(raw(b"x" * 5000), call(LOAD))' | tr '\n' ' ')$(ask 'print(raw(bytes(range(256))), call(LOAD))')"
is "64 silent connections: one more is told to come again; when they are gone, velad goes on" "-16 running" "$(ask '
all = [connect() for _ in range(64)]
print(struct.unpack_from("i", all[-1].recv(4096), 4)[0])') $(sleep 0.2; create two "${guest[@]}" >/dev/null; state two)"
ctl delete two >/dev/null 2>&1

# ---- one that hangs holds up no other
put "*/driver_override:write:hang 20:1" "$sim/fault"
create slow "${guest[@]}" --no-wait >/dev/null
for ((i = 0; i < 200; i++)); do
	[[ $(ctl -o json show slow | of '[s["state"] for s in d["steps"] if s["id"] == "bind"][0]') == begun ]] && break
	sleep 0.05
done
start=$EPOCHREALTIME
out=$(ask 'print(call(WORD, "0000:82:02.0", set=0x40), call(WORD, "0000:82:02.0", clear=0x40))')
took=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
is "while one write hangs, another call is done" "0 0 yes" "$out $( ((took < 5000)) && echo yes)"
kill -STOP "$velad" # threads wait with a time-out just now: their system calls go on by another one (restart_syscall(2))
sleep 0.2
kill -CONT "$velad"
put clear "$sim/fault"
for ((i = 0; i < 200; i++)); do [[ $(state slow) == running ]] && break; sleep 0.05; done
is "and when it goes on, so does the guest" running "$(state slow)"
ctl delete slow >/dev/null 2>&1
same "deleted: the host is as before"

# ---- the helper killed after every write: velad asks the next one, or undoes
bad= ran=0
for ((k = 0; k < n; k++)); do
	put '' "$sim/log"
	put "sys/*:write:hang 20:1:$k" "$sim/fault"
	create kill "${guest[@]}" --no-wait >/dev/null
	for ((i = 0; i < 500 && $(writes) <= k; i++)); do sleep 0.01; done
	line=$(sys_writes | sed -n $((k + 1))p)
	[[ $line ]] || bad+="write $k did not come"$'\n'
	kill_helper
	put clear "$sim/fault"
	for ((i = 0; i < 500; i++)); do
		now=$(state kill)
		[[ $now == failed || $now == running ]] && break
		sleep 0.01
	done
	[[ $now == running ]] && ran=$((ran + 1))
	[[ $now == running ]] || diff=$(host_differs) || bad+="write $k ($line): \"$now\", the host differs: $diff"$'\n'
	[[ $now == failed || $now == running ]] || bad+="write $k ($line): it is \"$now\""$'\n'
	ctl delete kill >/dev/null 2>&1
	diff=$(host_differs) || bad+="write $k ($line): deleted, the host differs: $diff"$'\n'
done
if [[ $bad ]]; then not_ok "the helper killed after each of $n writes" "$bad"; else ok "the helper killed after each of $n writes: $ran guests ran all the same"; fi
stop_helper
out=$(create none "${guest[@]}")
is "without a helper what it would read is unknown, and nothing is begun" "yes" "$(grep -q "ACS cannot be read" <<<"$out" && echo yes)$(state none 2>/dev/null)"
ctl delete none >/dev/null 2>&1
same "the host is as before"

# ---- idle, and system calls
start_helper --idle 1
there() { grep -c 'velad-helper is there again' "$dir/velad.log"; }
until_is 1 there # velad, which looks for it, has found it
seen=$(lines)
ask 'call(LOAD)'
for ((i = 0; i < 200; i++)); do said | grep -q 'helper has ended' && break; sleep 0.05; done
is "nobody asks: it ends by itself" "socket-unit: the helper has ended, status 0" "$(said | tail -n 1)"
ask 'call(LOAD)'
is "the helper's system calls are filtered" 2 "$(awk '/^Seccomp:/ { print $2 }' "/proc/$(<"$dir/helper.pid")/status")"
# two filters: the process's, and that of its kind (velad/sandbox), after which it is called
unlisted() { awk '/^Seccomp_filters:/ && $2 != 2 { print FILENAME }' /proc/"$velad"/task/*/status; }
is "and those of each of velad's threads, by a list of its own" "" "$(unlisted)"
is "there is one of each kind that is there always" "velad velad-calls velad-consoles velad-end velad-events velad-images velad-keeper velad-operation velad-planner velad-reader" \
	"$(cat /proc/"$velad"/task/*/comm | sort -u | xargs)"

# ---- a helper that is there, and does nothing
ask 'call(LOAD)'
kill -STOP "$(<"$dir/helper.pid")"
start=$EPOCHREALTIME
out=$(create none "${guest[@]}")
again=$(create none "${guest[@]}")
took=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
is "a helper that is stopped: what it would read is unknown after 5 s (it had ended), and at once when it is asked again" "yes yes yes" \
	"$(grep -q "ACS cannot be read" <<<"$out" && echo yes) $([[ $again == "$out" ]] && echo yes) $( ((took < 6900)) && echo yes || echo "$took ms")"
kill -CONT "$(<"$dir/helper.pid")"
stop_velad
is "velad ends cleanly under its filter" "" "$(grep -a 'Bad system call' "$dir/velad.log")"
summary
