#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# velad, unmodified, on a simulated kernel: create, conflict, delete, a failure at every write, a kill after every
# write; each time the host must be as before, byte for byte. test_hostsim.sh [BUILD]; prints ok / not ok lines.
# Needs /dev/fuse and root; libvirt's test driver stands in for QEMU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/xe9680/sys.txt
dir=$(mktemp -d)
mnt=$dir/root
sys=$mnt/sys/bus/pci
sim=$mnt/.hostsim
passed=0
failed=0
velad=
mkdir "$mnt"

stop_velad() { # stop_velad [SIGNAL]
	[[ $velad ]] || return 0
	kill "-${1:-TERM}" "$velad" 2>/dev/null
	wait "$velad" 2>/dev/null
	velad=
}
finish() {
	[[ -e $sim/fault ]] && echo clear >"$sim/fault"
	stop_velad KILL
	mountpoint -q "$mnt" && umount "$mnt"
	rmdir "$mnt" && rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM

ok() { passed=$((passed + 1)); echo "ok - $1"; }
not_ok() {
	failed=$((failed + 1))
	echo "not ok - $1"
	sed 's/^/#   /' <<<"${2:-}" | head -n 12
}
# is TEXT WANTED SEEN
is() { if [[ $2 == "$3" ]]; then ok "$1"; else not_ok "$1" "wanted: $2"$'\n'"seen:   $3"; fi; }
# what differs from the host as it was at first; status 0 if nothing does
host_differs() { cat "$sim/state" | diff "$dir/before" - 2>&1 | head -n 5; return "${PIPESTATUS[1]}"; }
# same TEXT: the host is as it was at first
same() {
	local out
	if out=$(host_differs); then ok "$1"; else not_ok "$1" "$out"; fi
}
# attempt COMMAND...: "ok" or the error number's words of a shell's write
attempt() { local out; if out=$({ "$@"; } 2>&1); then echo ok; else sed 's/.*: //' <<<"$out"; fi; }
put() { printf '%s\n' "$1" >"$2"; }
driver() { basename "$(readlink "$sys/devices/$1/driver" || echo none)"; }

if [[ ! -c /dev/fuse ]] || ((EUID != 0)); then
	not_ok "/dev/fuse can be used" "this test mounts a FUSE file system: it needs root, and modprobe fuse"
	exit 1
fi
mount_host() { "$build/tests/hostsim/hostsim" "$@" "$host" "$mnt"; }

# ---- the simulated kernel itself
if ! out=$(mount_host --no-vfio 2>&1); then
	not_ok "hostsim mounts the text host" "$out"
	exit 1
fi
topo() { "$build/velactl" -o json "$@" topo | grep -v '"generation"'; }
is "topo of the mounted host is topo of the text host" "$(topo --host "$host")" "$(topo --root "$mnt")"
is "its state is the text host" "$(grep -v '^#' "$host")" "$(cat "$sim/state" | grep -v '^#')"
umount "$mnt"
mount_host || exit 1
cat "$sim/state" >"$dir/before" # cp would believe its size

gpu=0000:19:00.0 pf=0000:1a:00.0 vf=0000:1a:00.1 port=0000:17:01.0
is "override: set, cut at the newline" "ok vfio-pci" \
	"$(attempt put vfio-pci $sys/devices/$gpu/driver_override) $(<$sys/devices/$gpu/driver_override)"
is "bind: busy while it has another driver" "Device or resource busy" "$(attempt put $gpu $sys/drivers/vfio-pci/bind)"
is "unbind from a driver that does not have it" "No such device" "$(attempt put $gpu $sys/drivers/nvme/unbind)"
is "unbind, bind" "ok ok vfio-pci DRIVER=vfio-pci" "$(attempt put $gpu $sys/drivers/nvidia/unbind) $(attempt put $gpu \
	$sys/drivers/vfio-pci/bind) $(driver $gpu) $(head -n 1 $sys/devices/$gpu/uevent)"
is "vfio-pci takes no bridge" "Invalid argument" "$(put $port $sys/drivers/pcieport/unbind
	put vfio-pci $sys/devices/$port/driver_override; attempt put $port $sys/drivers/vfio-pci/bind)"
is "a driver without this id" "No such device" "$(put '' $sys/devices/$port/driver_override
	attempt put $port $sys/drivers/nvme/bind)"
put $port $sys/drivers_probe
is "drivers_probe gives it to the driver that knows it" "pcieport" "$(driver $port)"
is "too many VFs" "Numerical result out of range" "$(attempt put 17 $sys/devices/$pf/sriov_numvfs)"
is "VFs: ids, driver, group, PF" "ok 0x101e ffffffff mlx5_core 100 ../$pf" \
	"$(attempt put 2 $sys/devices/$pf/sriov_numvfs) $(<$sys/devices/$vf/device) $(head -c 4 $sys/devices/$vf/config |
		od -An -tx4 | tr -d ' ') $(driver $vf) $(basename "$(readlink $sys/devices/$vf/iommu_group)") $(readlink \
		$sys/devices/$vf/physfn)"
is "another count of VFs" "Device or resource busy" "$(attempt put 3 $sys/devices/$pf/sriov_numvfs)"
put 0 $sys/devices/$pf/sriov_numvfs
is "VFs are gone" "absent" "$([[ -e $sys/devices/$vf || -L $sys/devices/$pf/virtfn0 ]] || echo absent)"
put $gpu $sys/drivers/vfio-pci/unbind
is "VFs of a PF without a driver" "No such file or directory" "$(attempt put 1 $sys/devices/$gpu/sriov_numvfs)"
put '' $sys/devices/$gpu/driver_override
put $gpu $sys/drivers_probe
is "a file that velad never writes" "Permission denied" "$(attempt put 1 $sys/devices/$gpu/numa_node)"
acs() { od -An -tx2 -j $((0x166)) -N 2 $sys/devices/$port/config | tr -d ' '; }
poke() { printf "$2" | dd of=$sys/devices/$port/config bs=1 seek=$(($1)) conv=notrunc status=none; }
is "ACS control: only what ACSCap has" "001d 005f 001d" "$(acs) $(poke 0x166 '\xff\xff'; acs) $(poke 0x166 '\x1d\x00'; acs)"
poke 0 '\x12\x34\x56\x78'
is "a reset, a wrong value for it" "ok Invalid argument" \
	"$(attempt put 1 $sys/devices/$gpu/reset) $(attempt put 2 $sys/devices/$gpu/reset)"
is "faults: a read, counted" "Input/output error,0" "$(put "*/$gpu/numa_node:read:EIO:1" $sim/fault
	attempt cat $sys/devices/$gpu/numa_node),$(<$sys/devices/$gpu/numa_node)"
is "faults: nonsense is refused" "Invalid argument" "$(attempt put "sys/*:write:ENOSUCH" $sim/fault)"
put clear $sim/fault
same "all of that undone: the host is as before"

# ---- velad on it
sed "s|^state_dir = .*|state_dir = $dir|; s|^console_dir = .*|console_dir = $dir|; s|^socket = .*|socket = $dir/sock|" \
	conf/velad.conf >"$dir/velad.conf"
ctl() { timeout 30 "$build/velactl" --conf "$dir/velad.conf" "$@"; }
start_velad() {
	rm -f "$dir/sock"
	"$build/velad" --root "$mnt" --conf "$dir/velad.conf" --libvirt test:///default 2>>"$dir/velad.log" &
	velad=$!
	for ((i = 0; i < 200; i++)); do
		[[ -S $dir/sock ]] && ctl list >/dev/null 2>&1 && return
		sleep 0.02
	done
	not_ok "velad starts" "$(tail "$dir/velad.log")"
	exit 1
}
wanted=(--gpus 2 --vfs-per-gpu 1 --max-path PIX --vcpus 2 --memory 512M)
create() { ctl create "$@" "${wanted[@]}" 2>&1; }
state() { ctl -o json show "$1" 2>/dev/null | sed -n 's/^ *"state": *"\([a-z]*\)".*/\1/p' | head -n 1; }
writes() { wc -l <"$sim/log"; }

start_velad
put '' "$sim/log"
out=$(create one)
is "create: 2 GPUs, 2 VFs" "running" "$(state one)"
[[ $(state one) == running ]] || sed 's/^/#   /' <<<"$out"
n=$(writes)
is "it took writes to do so, all in the log" "$n" "$(cat "$sim/log" | grep -c ' ok$')"
if ((n < 8)); then not_ok "create writes at least 8 times" "$n"; exit 1; fi # or the loops below would show nothing
is "drivers and VFs as ordered" "vfio-pci vfio-pci vfio-pci vfio-pci 8 8" "$(for d in $gpu $vf 0000:3b:00.0 0000:3c:00.1; do
	driver $d; done | xargs) $(cat $sys/devices/{$pf,0000:3c:00.0}/sriov_numvfs | xargs)"
out=$(create two)
is "a second instance" "running" "$(state two)"
ctl create three "${wanted[@]}" --require $gpu >/dev/null 2>&1
is "a device of another instance is refused" "1 " "$(($? != 0)) $(state three)"
for order in "one two" "two one"; do
	[[ $(state one) ]] || { create one && create two; } >/dev/null
	for name in $order; do ctl delete "$name" >/dev/null 2>&1; done
	is "deleted in the order $order" "" "$(state one)$(state two)"
	same "after that the host is as before"
done

# ---- a failure at every write of create
for error in EIO EBUSY; do
	bad=
	for ((k = 0; k < n; k++)); do
		put '' "$sim/log"
		put "sys/*:write:$error:1:$k" "$sim/fault"
		out=$(create fail)
		put clear "$sim/fault"
		line=$(sed -n $((k + 1))p "$sim/log")
		[[ $(state fail) == failed ]] || bad+="write $k ($line): it is \"$(state fail)\": $(tail -n 1 <<<"$out")"$'\n'
		diff=$(host_differs) || bad+="write $k ($line): the host differs: $diff"$'\n'
		ctl delete fail >/dev/null 2>&1
	done
	if [[ $bad ]]; then not_ok "$error at each of $n writes" "$bad"; else ok "$error at each of $n writes: failed, host as before"; fi
done
same "after all failures the host is as before"

# ---- failures that last: what cannot be given back stays held until it can
bad=
for ((k = 0; k < n; k += 3)); do
	put "sys/*:write:EIO:1000:$k" "$sim/fault"
	out=$(create stuck)
	put clear "$sim/fault"
	[[ $(state stuck) == failed ]] || bad+="from write $k on: it is \"$(state stuck)\": $(tail -n 1 <<<"$out")"$'\n'
	out=$(ctl delete stuck 2>&1)
	diff=$(host_differs) || bad+="from write $k on: the host differs: $diff $out"$'\n'
done
if [[ $bad ]]; then not_ok "EIO that lasts, then delete" "$bad"; else ok "EIO that lasts, then delete: host as before"; fi

# ---- kill -9 after every write of create
bad=
for ((k = 0; k < n; k++)); do
	put '' "$sim/log"
	put "sys/*:write:hang 20:1:$k" "$sim/fault"
	out=$(create kill --no-wait)
	for ((i = 0; i < 500 && $(writes) <= k; i++)); do sleep 0.01; done
	line=$(sed -n $((k + 1))p "$sim/log")
	[[ $line ]] || bad+="write $k did not come: $out"$'\n'
	stop_velad KILL
	put clear "$sim/fault"
	start_velad
	for ((i = 0; i < 500; i++)); do
		now=$(state kill)
		[[ $now == failed || $now == running ]] && break
		sleep 0.01
	done
	[[ $now == failed || $now == running ]] || bad+="write $k ($line): it is \"$now\""$'\n'
	if [[ $now != running ]]; then
		diff=$(host_differs) || bad+="write $k ($line): \"$now\", the host differs: $diff"$'\n'
	fi
	ctl delete kill >/dev/null 2>&1
done
if [[ $bad ]]; then not_ok "killed after each of $n writes" "$bad"; else ok "killed after each of $n writes, started again: host as before"; fi
same "after all kills and deletes the host is as before"

echo "# $passed passed, $failed failed, $SECONDS s"
((failed == 0))
