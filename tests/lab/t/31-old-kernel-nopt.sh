#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# boot: --kernel 6.1 --append iommu=nopt
#
# Kernel 6.1 with iommu=nopt: the PF's DMA is translated, so its VFs' ATS works, and GPUDirect RDMA is direct.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd --cmdline 'console=ttyS0 report.stay mitigations=off nokaslr'"
console=/var/log/velad/nopt.log

matches "the kernel is 6.1" '^6\.1\.' "$(l1 'uname -r')"
matches "the DMA of the PF is translated" '^DMA' "$(l1 'cat /sys/bus/pci/devices/0000:85:00.0/iommu_group/type')"
before=$(host_state)
seen=$(l1 -t 240 "velactl create nopt --gdr required --gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M --require 0000:83:00.0 $boot 2>&1")
rc=$?
is "gdr required: it starts" 0 $rc
((rc == 0)) || { echo "$seen"; die "there is no guest"; }
is "ATS of GPU, PF and VF while it runs" "8000 8000 8000" \
	"$(l1 'for d in 83:00.0 85:00.0 85:10.0; do setpci -s $d ECAP_ATS+6.w; done' | xargs)"
wait_report "$console" 240
direct=$(both_ways ok direct dt 82:02.0)
is "the guest: direct" "$direct" "$(guest_routes "$console" "$direct")"
is "velad has seen that: ATS on, no findings" "running on on" \
	"$(l1 'velactl -o json show nopt | jq -r "[.state, .bundle.gpus[].ats, .bundle.vfs[].ats, .findings[].rule] | join(\" \")"')"
passes "delete" l1 -t 120 'velactl delete nopt'
is "the host is as before" "$before" "$(host_state)"
l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
