#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What users of other systems suffer from when functions are bound: real velad on simulated hosts. test_cases.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

fake_fmpm # two GPUs of xe9680 are a partition
# the workstation's GPUs have no reset of their own
velad_conf "s|^fmpm = .*|fmpm = $dir/fmpm|; s|^gpu = .*|gpu = 10de:*:0302 10de:*:0300|; s|^no_reset = .*|no_reset = allow|"
state() { ctl -o json show "$1" 2>/dev/null | sed -n 's/^ *"state": *"\([a-z]*\)".*/\1/p' | head -n 1; }
drivers() { for d in "$@"; do driver "$d"; done | xargs; }
line_of() { sys_writes | grep -n -- "$1" | head -n 1 | cut -d: -f1; }

# ---- case 22, dra-driver-nvidia-gpu#1191: the GPU's audio function stays on the host's driver, and the group is not viable
mount_host --uevents "$dir/uevents" tests/hosts/workstation-epyc-starship-2gpu/sys.txt || exit 1
start_velad
gpu=0000:41:00.0 audio=0000:41:00.1 port=0000:40:01.1
was=$(drivers $gpu $audio $port)
put '' "$sim/log"
out=$(ctl create one --gpus 1 --require $gpu --vcpus 1 --memory 256M 2>&1)
is "case 22: both endpoints are bound, the bridge is left alone" "running vfio-pci vfio-pci pcieport" "$(state one) $(drivers $gpu $audio $port)"
[[ $(state one) == running ]] || sed 's/^/#   /' <<<"$out"

# ---- case 23, kubeswift#93: a function is bound while it, or what shares its group, still has another driver. The simulated kernel refuses the
# first as the real one does (EBUSY), so every bind comes after its own unbind, and none is tried twice
is "case 23: each function leaves its driver before it is bound" "True True 0" "$(python3 -c 'import sys; a, b, c, d = map(int, sys.argv[1:]); print(a < b, c < d)' \
	"$(line_of "$gpu.*unbind\|unbind.*$gpu")" "$(line_of "vfio-pci/bind.*$gpu\|$gpu.*vfio-pci/bind")" "$(line_of "$audio.*unbind\|unbind.*$audio")" \
	"$(line_of "vfio-pci/bind.*$audio\|$audio.*vfio-pci/bind")") $(sys_writes | grep -vc ' ok$')"
ctl delete one >/dev/null 2>&1
is "both have their drivers back" "$was" "$(drivers $gpu $audio $port)"
stop_velad
rm -f "$dir/uevents"

# ---- case 25, harvester#10499: after a new kernel, groups have other numbers; what is kept has none
host=tests/hosts/xe9680/sys.txt
sed 's|kernel/iommu_groups/\([0-9]*\)$|kernel/iommu_groups/1\1|; s|^sys/kernel/iommu_groups/\([0-9]*\)/|sys/kernel/iommu_groups/1\1/|' $host >"$dir/new.txt"
mount_host --uevents "$dir/uevents" $host || exit 1
start_velad
out=$(ctl create two --gpus 2 --vfs-per-gpu 1 --vcpus 2 --memory 256M 2>&1)
devices=$(ctl -o json show two | of '" ".join(x["bdf"] for k in ("gpus", "vfs") for x in d["bundle"][k])')
is "case 25: a guest" "running" "$(state two)"
ctl stop two --force >/dev/null 2>&1
stop_velad
rm -f "$dir/uevents"
mount_host --uevents "$dir/uevents" "$dir/new.txt" || exit 1
start_velad
is "with groups of other numbers it has what it had, and starts" "$devices running" "$(ctl -o json show two | of '" ".join(x["bdf"] for k in ("gpus", "vfs") for x in d["bundle"][k])') $(
	out=$(ctl start two 2>&1); state two)"
is "and all is given back" "0 " "$(ctl delete two >/dev/null 2>&1; echo $?) $(state two)"

stop_velad
rm -f "$dir/uevents"
summary
