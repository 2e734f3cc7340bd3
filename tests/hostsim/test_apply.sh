#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# velactl acs apply and acs restore: real velad on a simulated host. What is printed is what is written; it is kept without
# guests and shared with them; a failure and a kill at every write. And a kernel that obeys the plan's argument has the
# groups that the plan says. test_apply.sh [BUILD]; prints ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^keep_seconds = .*|keep_seconds = 1|; s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
config_writes() { cat "$sim/log" | grep '/config '; }
word() { peek "$1" $(($(extended "$1" 000d) + 6)); } # of ACS control
set_word() { poke "$1" $(($(extended "$1" 000d) + 6)) "$2"; }
held() { ctl -o json acs plan | of '"; ".join("%s %s %s" % (h["port"], " ".join(h["by"]), h["was"]) for h in d["held"])'; }

# ---- the kernel argument
gb200=$PWD/tests/hosts/gb200-oci-4gpu/sys.txt
argument=$("$build/velactl" -o json acs plan --host "$gb200" | of 'd["boot"]')
mount_host --groups boot --cmdline "$argument" "$gb200" || exit 1
"$build/velactl" -o json acs plan --root "$mnt" >"$dir/plan.json"
is "a kernel started with the plan's argument: all is direct, and velad knows it" "True True" "$(of '"%s %s" % (d["booted"], all(
	p["now"] == "direct" for p in d["pairs"]))' <"$dir/plan.json")"
bad=
while read -r -a functions; do
	for f in "${functions[@]}"; do [[ $(group "$f") == "$(group "${functions[0]}")" ]] || bad+=" $f"; done
done < <(of '"\n".join(" ".join(s) for s in d["shared"])' <"$dir/plan.json")
is "and the groups are those that the plan says" "4 " "$(of 'len(d["shared"])' <"$dir/plan.json") $bad"

# ---- apply
mount_host --uevents "$dir/uevents" "$host" || exit 1
put 1 $sys/devices/0000:25:00.0/sriov_numvfs # this text host has no folder of IOMMU groups: it comes with the first VF
put 0 $sys/devices/0000:25:00.0/sriov_numvfs
cat "$sim/state" >"$dir/before"
start_velad
port=0000:22:02.0 gpu=0000:23:00.0
put '' "$sim/log"
dry=$(ctl acs apply --dry-run)
is "apply --dry-run writes nothing" 0 "$(config_writes | wc -l)"
n=$(grep -c '0x1d  0x5d' <<<"$dry")
((n > 1)) || not_ok "the plan has several writes" "$dry"
out=$(ctl acs apply 2>&1) || not_ok "acs apply" "$out"
is "what is written is what it printed" "$(grep -o '^0000:[^ ]*' <<<"$dry" | sort)" "$(config_writes | grep -o '0000:[0-9a-f:.]*/config' |
	sed 's|/config||' | sort)"
is "and told" "$n" "$(grep -c '^done  *acs  *0000:.* 0x1d -> 0x5d$' <<<"$out")"
is "acs show says by whom it is held, and what it was" "$port acs apply: was TB- DT-" "$(COLUMNS=120 ctl acs show |
	sed -n "s/^\($port\) .*\(acs apply: .*\)/\1 \2/p" | sed 's/ *$//')"
is "it is no guest" "" "$(ctl list 2>/dev/null)"
put '' "$sim/log"
ctl acs apply >/dev/null 2>&1
is "again: nothing is written, and it is held once" "0 1" "$(config_writes | wc -l) $(held | grep -o "$port acs apply" | wc -l)"
is "apply --dry-run has nothing more" "nothing to write" "$(ctl acs apply --dry-run)"
put 1 $sys/devices/$port/reset
until_is 005d word $port
is "kept without a guest: a reset takes it away, and velad puts it back" "005d" "$(word $port)"

# ---- shared with a guest
guest=(--vfs-per-gpu 1 --gpus 1 --vcpus 1 --memory 256M --gdr required --require $gpu)
ctl create one "${guest[@]}" >/dev/null 2>&1
is "a guest holds it, too" "acs apply one" "$(held | tr ';' '\n' | sed -n "s/^ *$port \(.*\) 0x.*/\1/p")"
dry=$(ctl acs restore --dry-run)
is "restore --dry-run leaves that port out, and has the others" "0 $((n - 1))" "$(grep -c "^$port" <<<"$dry") $(grep -c '0x5d  0x1d' <<<"$dry")"
put '' "$sim/log"
ctl acs restore >/dev/null 2>&1
is "restored: the others are given back, the guest's port stays" "005d $((n - 1))" "$(word $port) $(config_writes | wc -l)"
ctl acs apply >/dev/null 2>&1
ctl delete one >/dev/null 2>&1
is "the guest is gone: what was applied stays" "005d" "$(word $port)"
ctl acs restore >/dev/null 2>&1
same "restored: the host is as before"
is "restored again: nothing to do" "0 nothing to write" "$(ctl acs restore >/dev/null 2>&1; echo $?) $(ctl acs restore --dry-run)"
put "*/config:write:hang 2:1" "$sim/fault"
ctl acs apply --no-wait >/dev/null
is "one at a time: busy" "1 1" "$(out=$(ctl acs restore 2>&1); r=$?; echo "$((r != 0)) $(grep -c 'wait for its end' <<<"$out")")"
put clear "$sim/fault"
for ((i = 0; i < 100; i++)); do ctl acs restore >/dev/null 2>&1 && break; sleep 0.1; done
same "and restored when it was"

# ---- a failure and a kill at every write
bad=
for ((k = 0; k < n; k++)); do
	put "*/config:write:EIO:1:$k" "$sim/fault"
	out=$(ctl acs apply 2>&1) && bad+="write $k: it did not fail"$'\n'
	put clear "$sim/fault"
	grep -q "cannot write ACS control 0x5d" <<<"$out" || bad+="it says: $out"
	diff=$(host_differs) || bad+="write $k: the host differs: $diff"$'\n'
	[[ -z $(held) ]] || bad+="write $k: held: $(held)"$'\n'
done
if [[ $bad ]]; then not_ok "EIO at each of $n writes" "$bad"; else ok "EIO at each of $n writes: failed, host as before"; fi
for verb in apply restore; do
	bad=
	for ((k = 0; k < n; k++)); do
		[[ $verb == apply ]] || ctl acs apply >/dev/null 2>&1
		put '' "$sim/log"
		put "*/config:write:hang 20:1:$k" "$sim/fault"
		ctl acs $verb --no-wait >/dev/null 2>&1
		for ((i = 0; i < 500 && $(config_writes | wc -l) <= k; i++)); do sleep 0.01; done
		stop_velad KILL
		put clear "$sim/fault"
		start_velad
		until_is "" held || bad+="write $k: held: $(held)"$'\n'
		diff=$(host_differs) || bad+="write $k: the host differs: $diff"$'\n'
		ctl acs restore >/dev/null 2>&1
	done
	if [[ $bad ]]; then not_ok "$verb killed after each of $n writes" "$bad"; else ok "$verb killed after each of $n writes: the next velad ends it"; fi
done
same "after all of that the host is as before"
summary
