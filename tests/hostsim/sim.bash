# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the tests of this folder share: checks, a mount point $mnt, writes to it, and velad. A script sets $build first, and
# may define cleanup, which runs before the file system is taken away.
dir=$(mktemp -d)
mnt=$dir/root
sys=$mnt/sys/bus/pci
sim=$mnt/.hostsim
passed=0
failed=0
mkdir "$mnt"

unmount() { stop_helper; ! mountpoint -q "$mnt" || umount "$mnt"; }
leave() {
	[[ ! -e $sim/fault ]] || echo clear >"$sim/fault"
	! declare -F cleanup >/dev/null || cleanup
	stop_helper
	unmount
	rmdir "$mnt" && rm -rf "$dir"
}
trap leave EXIT
trap 'exit 1' INT TERM

ok() { passed=$((passed + 1)); echo "ok - $1"; }
not_ok() {
	failed=$((failed + 1))
	echo "not ok - $1"
	sed 's/^/#   /' <<<"${2:-}" | head -n 12
}
# is TEXT WANTED SEEN
is() { if [[ $2 == "$3" ]]; then ok "$1"; else not_ok "$1" "wanted: $2"$'\n'"seen:   $3"; fi; }
summary() { echo "# $passed passed, $failed failed, $SECONDS s"; ((failed == 0)); }
# attempt COMMAND...: "ok" or the error number's words of a shell's write
attempt() { local out; if out=$({ "$@"; } 2>&1); then echo ok; else sed 's/.*: //' <<<"$out"; fi; }
# the writes of the log that a fault of sys/*:write counts; those of answers/ (VF settings) are messages, not files
sys_writes() { cat "$sim/log" | grep '^sys/'; }
# release_all: out of quarantine, once what failed works again
release_all() {
	local bdf
	for bdf in $(ctl -o json quarantine list | of '" ".join(q["bdf"] for q in d["quarantine"])'); do
		ctl quarantine release "$bdf" 2>&1
	done
}
# fake_fmpm: tests/plan/fmpm plays Fabric Manager; $dir/fm is what it knows, $dir/said what it was told, for velad_conf "s|^fmpm = .*|fmpm = $dir/fmpm|"
fake_fmpm() {
	# ids are positions: 3 is {1,3}, and so on, as on the real board
	put '{"sets":[[1,2,3,4,5,6,7,8],[1,2,3,4],[5,6,7,8],[1,3],[2,4],[5,7],[6,8],[1],[2],[3],[4],[5],[6],[7],[8]],"gpus":{},"hidden":[],"active":[]}' "$dir/fm"
	cat >"$dir/fmpm" <<-END
		#!/bin/bash
		# the socket that it is told is the simulated host's
		args=(); while [[ \${1:-} != --unix-domain-socket && \$# -gt 0 ]]; do args+=("\$1"); shift; done
		echo "\${args[*]}" >>"$dir/said"
		exec "$PWD/tests/plan/fmpm" "\${args[@]}" --unix-domain-socket "$dir/fm"
	END
	chmod 755 "$dir/fmpm"
}
# of an operation's resets: how many, how many of them at once, and milliseconds from the first to the last
resets_of() {
	ctl -o json op show "$1" | python3 -c 'import datetime, json, sys
spans = []
for s in json.load(sys.stdin)["steps"]:
    if s["id"] == "reset":
        began = datetime.datetime.fromisoformat(s["started"].replace("Z", "+00:00")).timestamp()
        spans.append((began, began + s["duration_us"] / 1e6))
print(len(spans), max(sum(a <= x < b for a, b in spans) for x, _ in spans),
      round(1000 * (max(b for _, b in spans) - min(a for a, _ in spans))))'
}
put() { printf '%s\n' "$1" >"$2"; }
until_tries=400
# until_is TEXT COMMAND...: the command prints TEXT within that many twentieths of a second
until_is() {
	local want=$1 seen=
	shift
	for ((i = 0; i < until_tries; i++)); do
		seen=$("$@" 2>/dev/null)
		[[ $seen == "$want" ]] && return
		sleep 0.05
	done
	echo "# \"$seen\" is not \"$want\"" >&2
	return 1
}
driver() { basename "$(readlink "$sys/devices/$1/driver" || echo none)"; }
group() { basename "$(readlink "$sys/devices/$1/iommu_group" || echo none)"; }

velad_conf() { # velad_conf [SED]: the shipped configuration, with all that is written in $dir
	sed "s|^state_dir = .*|state_dir = $dir|; s|^console_dir = .*|console_dir = $dir|; s|^socket = .*|socket = $dir/sock|
		s|^helper = .*|helper = $dir/helper.sock|
		${1:-}" conf/velad.conf >"$dir/velad.conf"
}
ctl() { timeout 30 "$build/velactl" --conf "$dir/velad.conf" "$@"; }
# of EXPRESSION: of the JSON on standard input, python's `d`
of() { python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
# With HOSTSIM_HELPER=1 velad is nobody, and velad-helper does what needs root; else velad is root and needs none.
helper=
nobody=65534
velad_as=() # a command that starts it as somebody else
if [[ ${HOSTSIM_HELPER:-} ]]; then
	velad_as=(setpriv "--reuid=$nobody" "--regid=$nobody" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs)
	chmod 755 "$dir"
	chown "$nobody" "$dir"
fi
start_helper() { # start_helper [OPTION]...
	rm -f "$dir/helper.sock" "$dir/helper.pid"
	tests/hostsim/socket-unit "$dir/helper.sock" "$dir/helper.pid" "$build/velad-helper" --root "$mnt" --conf "$dir/velad.conf" \
		--user "$nobody" --keep "$dir" "$@" 2>>"$dir/helper.log" &
	helper=$!
	for ((i = 0; i < 200; i++)); do
		[[ -S $dir/helper.sock ]] && return
		sleep 0.02
	done
	not_ok "socket-unit starts" "$(tail "$dir/helper.log")"
	exit 1
}
kill_helper() { kill -KILL "$(<"$dir/helper.pid")"; } # the process; the socket stays, and the next call starts another
stop_helper() {
	[[ $helper ]] || return 0
	kill "$helper" 2>/dev/null
	wait "$helper" 2>/dev/null
	helper=
}
launch_velad() {
	rm -f "$dir/sock"
	if [[ ${HOSTSIM_HELPER:-} ]]; then
		[[ $helper || ${HOSTSIM_HELPER} == later ]] || start_helper
		[[ ! -e $dir/uevents ]] || chmod 666 "$dir/uevents"
	fi
	"${velad_as[@]}" "$build/velad" --root "$mnt" --uevents "$dir/uevents" --conf "$dir/velad.conf" --libvirt "${HOSTSIM_LIBVIRT:-test:///default}" 2>>"$dir/velad.log" &
	velad=$!
}
await_velad() {
	local i
	for ((i = 0; i < 200; i++)); do
		[[ -S $dir/sock ]] && ctl list >/dev/null 2>&1 && return
		sleep 0.02
	done
	not_ok "velad starts" "$(tail "$dir/velad.log")"
	exit 1
}
start_velad() { launch_velad && await_velad; }
stop_velad() { # stop_velad [SIGNAL]; its process is $velad
	[[ $velad ]] || return 0
	kill "-${1:-TERM}" "$velad" 2>/dev/null
	wait "$velad" 2>/dev/null
	velad=
}
# what differs from the host as it was at first ($dir/before); status 0 if nothing does
host_differs() { cat "$sim/state" | diff "$dir/before" - 2>&1 | head -n 5; return "${PIPESTATUS[1]}"; }
same() { # same TEXT: the host is as it was at first
	local out
	if out=$(host_differs); then ok "$1"; else not_ok "$1" "$out"; fi
}

mount_host() { unmount && "$build/tests/hostsim/hostsim" "$@" "$mnt"; } # [OPTION]... HOST.txt
if [[ ! -c /dev/fuse ]] || ((EUID != 0)); then
	not_ok "/dev/fuse can be used" "this test mounts a FUSE file system: it needs root, and modprobe fuse"
	exit 1
fi

# Registers: of a 16-bit one its four digits; a write is one write of two bytes.
peek() { od -An -v -tx2 -j $(($2)) -N 2 "$sys/devices/$1/config" | tr -d ' '; }                # BDF OFFSET
poke() { # BDF OFFSET VALUE
	# shellcheck disable=SC2059 # the format is the bytes
	printf "\\x${3:2:2}\\x${3:0:2}" | dd of="$sys/devices/$1/config" bs=2 seek=$(($2 / 2)) conv=notrunc status=none
}
# extended BDF ID: the offset of an extended capability, "" if there is none
extended() {
	local at=256 word
	while ((at)); do
		word=$(od -An -v -tx4 -j $at -N 4 "$sys/devices/$1/config" | tr -d ' ')
		((16#${word:-0} == 0)) && return
		((16#${word:4} == 16#$2)) && echo $at && return
		at=$((16#${word:0:3}))
	done
}
