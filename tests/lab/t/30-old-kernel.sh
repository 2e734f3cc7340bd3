#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# boot: --kernel 6.1
# boot: --device pcie-root-port,id=rp2,bus=pxb0,chassis=3,slot=20,addr=1,hotplug=off --device pcie-pci-bridge,id=br2,bus=rp2
# boot: --device hgx-gpu,id=gpu02,bus=br2,addr=1 --device e1000,id=nic2,bus=br2,addr=2
#
# Kernel 6.1 with iommu=pt does not set what a VF's ATS needs, as 6.12 does (6c17c7d5936e): GPUDirect RDMA of a VF is
# refused where it is required, before anything is touched, and told where it is preferred. And a GPU behind a
# conventional bridge, in one IOMMU group with a NIC of the host.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd --cmdline 'console=ttyS0 report.stay mitigations=off nokaslr'"
guest="--gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M --require 0000:83:00.0 $boot"
console=/var/log/velad/old.log

matches "the kernel is 6.1" '^6\.1\.' "$(l1 'uname -r')"
is "the DMA of the PF is not translated" identity "$(l1 'cat /sys/bus/pci/devices/0000:85:00.0/iommu_group/type')"
before=$(host_state)

# ---- GPUDirect RDMA, required and preferred ---------------------------------------------------------------------

seen=$(l1 -t 180 "velactl create old --gdr required $guest 2>&1")
is "gdr required: exit status 5" 5 $?
matches "it says the reason" '0000:85:00.0 is not translated .*kernel 6\.1\..* does not set the STU' "$seen"
matches "and what helps" '6\.12.*iommu=nopt' "$seen"
is "the host is as before" "$before" "$(host_state)"
is "the rule has a name" ats.identity "$(l1 "velactl -o json plan --gdr required $guest" |
	jq -r '.reasons[] | select(.device == "0000:83:00.0") | .rule')"
is "there is no instance" 0 "$(l1 'velactl -o json list | jq ".instances | length"')"

seen=$(l1 -t 240 "velactl create old --gdr preferred $guest 2>&1")
is "gdr preferred: it starts" 0 $?
is "the instance says so" "ats.identity" "$(l1 'velactl -o json show old | jq -r ".notes[].rule"')"
is "ATS of GPU and VF while it runs" "8000 0000" "$(l1 'setpci -s 83:00.0 ECAP_ATS+6.w; setpci -s 85:10.0 ECAP_ATS+6.w' | xargs)"
wait_report "$console" 240
is "velad has seen that: a finding, and it runs" "running on off ats.off" \
	"$(l1 'velactl -o json show old | jq -r "[.state, .bundle.gpus[].ats, .bundle.vfs[].ats, .findings[].rule] | join(\" \")"')"
redirected=$(both_ways ok redirected root 80:00.0)
is "and so it is: the VF's copies go by the root complex, right but slow" "$redirected" "$(guest_routes "$console" "$redirected")"
passes "delete" l1 -t 120 'velactl delete old'
is "the host is as before again" "$before" "$(host_state)"

# ---- a group that is not viable ----------------------------------------------------------------------------------

seen=$(l1 'cd /sys/bus/pci/devices
	for d in *; do
		driver=$(readlink $d/driver); g=$(readlink $d/iommu_group)
		case $(cat $d/vendor)$(cat $d/device) in
		0x10de0x2330) [ $(cat $d/iommu_group/devices/*/class 2>/dev/null | grep -c "^0x02") = 0 ] || echo "gpu $d ${g##*/}";;
		0x80860x100e) echo "nic $d ${g##*/} ${driver##*/}";;
		esac
	done')
read -r _ gpu group <<<"$(grep ^gpu <<<"$seen")"
read -r _ nic nic_group driver <<<"$(grep ^nic <<<"$seen")"
is "a GPU in one group with a NIC that has its driver" "$group e1000" "$nic_group $driver"
seen=$(l1 "velactl create old --gpus 1 --vcpus 1 --memory 256M --require $gpu $boot 2>&1")
is "it is refused: exit status 5" 5 $?
matches "by name" "$gpu.*IOMMU group $group also has $nic" "$seen"
is "the host is as before" "$before" "$(host_state)"

seen=$(l1 -t 120 'velactl -o json doctor')
is "doctor fails" 100 $?
is "doctor names the function and its driver" "$gpu IOMMU group $group also has $nic (other), which driver e1000 has" \
	"$(jq -r '.checks[] | select(.id == "group.not-viable" and .result == "fail") | .component + " " + .observed' <<<"$seen")"

# ---- an ordinary user --------------------------------------------------------------------------------------------

seen=$(l1 'runuser -u nobody -- velactl --root / -o json routes | jq -r ".routes[].verdict" | sort | uniq -c')
is "config space cut off after 64 bytes: unknown, never direct" unknown "$(awk '{ print $2 }' <<<"$seen" | xargs)"
l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
