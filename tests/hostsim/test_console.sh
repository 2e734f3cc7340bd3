#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Guests' consoles and their logs: real velad and velad-helper on a simulated host. Libvirt's test driver has no console, so what
# is said of it is a refusal; the log is written here in virtlogd's place. test_console.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
export HOSTSIM_HELPER=1
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|; s|^console_dir = .*|console_dir = $dir/logs|"
mount_host --guests --uevents "$dir/uevents" "$host" || exit 1
mkdir "$dir/logs"
log=$dir/logs/one.log
start_velad
say() { printf '%s\n' "$@" >>"$log"; chmod 600 "$log"; } # as virtlogd: only root may read it
put_away() { [[ ! -e $log.0 ]] || mv "$log.0" "$log.1"; mv "$log" "$log.0"; }
with_status() { # ARGUMENTS...: what velactl says, and its status
	local out rc
	out=$(ctl "$@" 2>&1 </dev/null)
	rc=$?
	echo "$out $rc"
}
hears() { if until_is "$2" heard; then ok "$1"; else not_ok "$1" "$(heard)"; fi; } # TEXT WANTED
heard() { tr '\n' ' ' <"$dir/heard"; }

say "of an earlier guest"
cp "$log" "$log.2"
ctl create one --gpus 1 --vcpus 1 --memory 256M >/dev/null 2>&1
is "a new guest's log has nothing of an earlier one of its name" "0 0" "$(ctl log one; echo "$? $(find "$dir/logs" -type f | wc -l)")"
is "nobody's log" "velactl: there is no instance two 3" "$(with_status log two)"
say one two
is "what root alone may read" "one two" "$(ctl log one | xargs)"
put_away
say three four $'\xff\xc3\xa4\e[31m'
is "with what was put away; what is no UTF-8 is marked, on no terminal nothing else" $'one two three four \xef\xbf\xbd\xc3\xa4\e[31m' "$(ctl log one | xargs)"
is "its last two lines" $'four \xef\xbf\xbd\xc3\xa4\e[31m' "$(ctl log one -n 2 | xargs)"
is "its last five reach into what was put away" "one two three" "$(ctl log one -n 5 | head -n 3 | xargs)"
is "on a terminal, the guest's escape sequences are shown" "^[[31m" "$(script -qec "$build/velactl --socket $dir/sock log one -n 1" /dev/null </dev/null | grep -ao '\^.*m')"
is "lines and after together" 2 "$(curl -s --unix-socket "$dir/sock" 'http://v/v1/instances/one/log?lines=1&after=1.2' | of 'len([1 for k in ("after", "lines") if k in d["detail"]])')"
is "a place that is none" "invalid" "$(curl -s --unix-socket "$dir/sock" 'http://v/v1/instances/one/log?after=x' | of 'd["code"]')"

timeout 30 "$build/velactl" --socket "$dir/sock" log one -n 1 -f >>"$dir/heard" &
follower=$!
until_tries=100
begun() { [[ -s $dir/heard ]] && echo yes; }
until_is yes begun
: >"$dir/heard"
say five
hears "-f: what is said from now on" "five "
put_away
say six
hears "also when the log was put away" "five six "
say seven
put_away; say eight; put_away; say nine
hears "twice, before it looked again" "five six seven eight nine "
kill "$follower"
wait "$follower" 2>/dev/null
curl -s --unix-socket "$dir/sock" 'http://v/v1/instances/one/log?after=7.7' >"$dir/piece"
is "a place in a file that is gone: from the oldest on, and it says so" "True six" "$(of 'str(d["lost"]) + " " + d["text"].split()[0]' <"$dir/piece")"

ctl stop one --force >/dev/null 2>&1
is "one that is stopped has a log" "nine" "$(ctl log one -n 1)"
is "and no console" "velactl: instance one is stopped; it has a console while it runs 4" "$(with_status console one)"
ctl start one >/dev/null 2>&1
is "over a stop and a start, too" "nine" "$(ctl log one -n 1)"
out=$(with_status console one)
if [[ $out == "velactl: cannot open"*"not supported"*" 1" ]]; then ok "what libvirt refuses is said in its words"; else not_ok "what libvirt refuses is said in its words" "$out"; fi
stop_velad
start_velad
is "kept over a restart of velad" "nine" "$(ctl log one -n 1)"
is "no guest" "velactl: there is no instance two 3" "$(with_status console two)"
ctl delete one >/dev/null 2>&1
is "deleted: there is no log" 3 "$(ctl log one >/dev/null 2>&1; echo $?)"
stop_velad
stop_helper
summary
