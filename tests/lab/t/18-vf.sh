#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Settings of VFs on a real kernel, through a real driver: igb's VFs have what was asked, keep their address, are clean for
# the next tenant and as before at the end. What igb refuses is said by its name.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd"
pf=0000:25:00.0

# vf INDEX: what ip-link says of it, in words
vf() { l1 "ip link show dev \$(ls /sys/bus/pci/devices/$pf/net) | grep \" vf $1 \"" | sed 's/^ *//'; }
create() { # NAME FLAGS...
	local name=$1
	shift
	l1 -t 180 "velactl create $name --vfs 1 --require 0000:25:10.0 --vcpus 1 --memory 256M $boot \
		--cmdline 'console=ttyS0 report.stay mitigations=off nokaslr cryptomgr.notests' $* 2>&1"
}
finding() { l1 "velactl -o json show $1 | jq -r '[.findings[].rule | select(startswith(\"vf\"))] | unique | join(\" \")'"; }

# VFs that are there already, the first with something that its last user left
l1 "echo 2 >/sys/bus/pci/devices/$pf/sriov_numvfs; nic=\$(ls /sys/bus/pci/devices/$pf/net); ip link set \"\$nic\" up
	until [ \"\$(cat /sys/class/net/\$nic/carrier)\" = 1 ]; do sleep 0.2; done # without, igb takes no rate
	ip link set \"\$nic\" vf 0 mac 0a:00:00:00:00:09 vlan 9 qos 1 trust on max_tx_rate 50"
before=$(vf 0)
matches "what an operator has set" '0a:00:00:00:00:09.*vlan 9.*qos 1.*trust on' "$before"

seen=$(create one --vf mac=02:00:00:12:34:56,vlan=100,qos=3,max_rate=40)
is "create: exit status" 0 $?
matches "the step is shown" 'vf *0000:25:10.0' "$seen"
matches "what was asked is what the kernel says, and trust is off" '02:00:00:12:34:56.*vlan 100.*qos 3.*tx rate 40.*spoof checking on.*trust off' \
	"$(vf 0)"
is "that it was otherwise is a finding" vf.left "$(finding one)"
matches "the guest has that address" '02:00:00:12:34:56' "$(l1 "velactl -o json show one | jq -r '.bundle.vfs[0].settings.mac'")"
is "delete" 0 "$(l1 'velactl delete one >/dev/null 2>&1; echo $?')"
is "what the operator had set is back" "$before" "$(vf 0)"

seen=$(create two --vf trust=on)
mac=$(l1 "velactl -o json show two | jq -r '.bundle.vfs[0].settings.mac'")
matches "without an address it has one of its own; nothing of the tenant before" "$mac.*spoof checking on.*trust on" "$(vf 0)"
is "no VLAN of the tenant before" "" "$(vf 0 | grep -o 'vlan [1-9][0-9]*')"
l1 'systemctl restart velad; for _ in $(seq 50); do velactl list >/dev/null 2>&1 && break; sleep 0.2; done'
matches "a restart of velad changes nothing" "$mac.*trust on" "$(vf 0)"
is "delete of the second" 0 "$(l1 'velactl delete two >/dev/null 2>&1; echo $?')"
is "and all is back again" "$before" "$(vf 0)"

seen=$(create three --vf link_state=up)
matches "what igb cannot is said" "driver igb of PF $pf refuses link_state=up for VF 0: Operation not supported" "$seen"
l1 'velactl delete three >/dev/null 2>&1'
is "and nothing is left of the attempt" "$before" "$(vf 0)"
seen=$(create four --vf vlan=10,vlan_protocol=802.1ad)
matches "a protocol that igb has not" "driver igb of PF $pf refuses .*802.1ad.* for VF 0: Protocol not supported" "$seen"
l1 'velactl delete four >/dev/null 2>&1'
seen=$(l1 'velactl plan --vfs 1 --mtu 9000 2>&1')
matches "an MTU that the port has not is refused" "$pf: its MTU is 1500; needed: 9000" "$seen"
l1 "nic=\$(ls /sys/bus/pci/devices/$pf/net); ip link set \"\$nic\" vf 0 mac 00:00:00:00:00:00 vlan 0 trust off max_tx_rate 0
	echo 0 >/sys/bus/pci/devices/$pf/sriov_numvfs"
finish
