#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# velad, unmodified, on a simulated kernel: create, conflict, delete, a failure at every write, a kill after every
# write; each time the host must be as before, byte for byte. test_hostsim.sh [BUILD]; prints ok / not ok lines.
# Needs /dev/fuse and root; libvirt's test driver stands in for QEMU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/xe9680/sys.txt
velad=
cleanup() { stop_velad KILL; }
. tests/hostsim/sim.bash

# ---- the simulated kernel itself
if ! out=$(mount_host --no-vfio "$host" 2>&1); then
	not_ok "hostsim mounts the text host" "$out"
	exit 1
fi
# power/control, which no text host has, is there, as of a real kernel; then d3cold_allowed is asked of fewer
topo() { "$build/velactl" -o json "$@" topo | grep -v '"generation"\|"control":\|"d3cold_allowed":'; }
is "topo of the mounted host is topo of the text host" "$(topo --host "$host")" "$(topo --root "$mnt")"
is "its state is the text host" "$(grep -v '^#' "$host")" "$(cat "$sim/state" | grep -v '^#\|/power/control	\(on\|auto\)$')"
rm -f "$dir/uevents"
mount_host --uevents "$dir/uevents" "$host" || exit 1
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
is "a reset, a wrong value for it" "ok Invalid argument" \
	"$(attempt put 1 $sys/devices/$gpu/reset) $(attempt put 2 $sys/devices/$gpu/reset)"
is "faults: a read, counted" "Input/output error,0" "$(put "*/$gpu/numa_node:read:EIO:1" $sim/fault
	attempt cat $sys/devices/$gpu/numa_node),$(<$sys/devices/$gpu/numa_node)"
is "faults: nonsense is refused" "Invalid argument" "$(attempt put "sys/*:write:ENOSUCH" $sim/fault)"
put clear $sim/fault
same "all of that undone: the host is as before"

# ---- velad on it
fake_fmpm # two GPUs of this board are a partition
velad_conf "s|^fmpm = .*|fmpm = $dir/fmpm|"
wanted=(--gpus 2 --vfs-per-gpu 1 --max-path PIX --vcpus 2 --memory 512M)
create() { ctl create "$@" "${wanted[@]}" 2>&1; }
state() { ctl -o json show "$1" 2>/dev/null | sed -n 's/^ *"state": *"\([a-z]*\)".*/\1/p' | head -n 1; }
writes() { sys_writes | wc -l; }

start_velad
put '' "$sim/log"
out=$(create one)
is "create: 2 GPUs, 2 VFs" "running" "$(state one)"
[[ $(state one) == running ]] || sed 's/^/#   /' <<<"$out"
n=$(writes)
is "it took writes to do so, all in the log" "$n" "$(sys_writes | grep -c ' ok$')"
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
		line=$(sys_writes | sed -n $((k + 1))p)
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
	out=$(ctl delete stuck 2>&1; release_all)
	diff=$(host_differs) || bad+="from write $k on: the host differs: $diff $out"$'\n'
done
if [[ $bad ]]; then not_ok "EIO that lasts, then delete" "$bad"; else ok "EIO that lasts, then delete: host as before"; fi

# ---- a machine that does not do as it is told
# fails NAME TEXT: create fails, says TEXT, and the host is as before
fails() {
	local out bad=
	out=$(create "$1")
	put clear "$sim/fault"
	[[ $(state "$1") == failed ]] || bad+="it is \"$(state "$1")\": $out"$'\n'
	grep -qF -- "$2" <<<"$out" || bad+="it says: $out"$'\n'
	out=$(host_differs) || bad+="the host differs: $out"
	if [[ $bad ]]; then not_ok "$1: create fails and the host is as before" "$bad"; else ok "$1: create fails and the host is as before"; fi
	ctl delete "$1" >/dev/null 2>&1
}
put '*/sriov_numvfs:write:missing 0:1' "$sim/fault"
fails missing-vf "shows 8 VFs and not each has its device"
put '*/sriov_numvfs:write:delay 300:1' "$sim/fault"
create slow >/dev/null
is "a slow write: it waits" "running" "$(state slow)"
ctl delete slow >/dev/null 2>&1
same "and after that the host is as before"

# ---- kill -9 after every write of create
bad=
for ((k = 0; k < n; k++)); do
	put '' "$sim/log"
	put "sys/*:write:hang 20:1:$k" "$sim/fault"
	out=$(create kill --no-wait)
	for ((i = 0; i < 500 && $(writes) <= k; i++)); do sleep 0.01; done
	line=$(sys_writes | sed -n $((k + 1))p)
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


# ---- VFs that take their time, a device that goes
stop_velad
rm -f "$dir/uevents"
mount_host --uevents "$dir/uevents" --vf-delay 30 "$host" || exit 1
cat "$sim/state" >"$dir/before"
start_velad
out=$(create late)
is "VFs that come later: it waits" "running" "$(state late)"
ctl delete late >/dev/null 2>&1
same "after that the host is as before"
of=$(group $gpu)
create gone >/dev/null
put "remove $gpu" "$sim/event"
out=$(ctl delete gone 2>&1)
is "a GPU gone from the bus: its guest can be deleted" "0 " "$? $(state gone)"
is "and all else is as before" "" "$(cat "$sim/state" | diff "$dir/before" - | grep '^[<>]' | grep -v -e "$gpu" -e "iommu_groups/$of/type" -e '^< *[ 0-9a-f]\{3\}:')"
summary
