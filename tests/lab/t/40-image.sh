#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A guest from a cloud's image: added and checked, booted from an overlay, told its name, key, network and NCCL's file by cloud-init;
# reached by ssh over its VF; deleted without a trace, and the image is as it was.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

images=/var/lib/libvirt/images/velad
boot="--kernel /srv/lab/guest/vmlinuz --initrd /lab/cloud/initrd"
cmdline="console=ttyS0 root=/dev/vda rw mitigations=off nokaslr random.trust_cpu=on cryptomgr.notests loglevel=4 systemd.show_status=0"
mac=52:54:00:77:00:02

ssh="ssh -i /root/cloud/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5 debian@192.168.77.2"
guest() { l1 -t "${2:-60}" "$ssh '$1'"; } # SCRIPT: a command in the guest, over its VF
left() { l1 "ls -A $images" | xargs; }

# ---- the image ---------------------------------------------------------------------------------------------------

before=$(host_state)
sum=$(sha256sum <"$lab/../../build/lab/share/cloud/debian.qcow2")
l1 'mkdir -p /root/cloud; cp /lab/cloud/debian.qcow2 /var/lib/velad/incoming/; chmod 644 /var/lib/velad/incoming/debian.qcow2
	ssh-keygen -q -t ed25519 -N "" -f /root/cloud/key </dev/null'
passes "an image is added, with its sum" l1 -t 120 "velactl images add debian debian.qcow2 --format qcow2 --sha256 ${sum%% *}"
is "nobody can write it" 444 "$(l1 "stat -c %a $images/debian.image")"
matches "it is in libvirt's storage pool" '^ *debian\.image ' "$(l1 'virsh vol-list velad')"
seen=$(l1 "velactl create cloud --image debian --disk-size 1T --memory 256M 2>&1")
is "more than there is room for: exit status 5" 5 $?
matches "it says how much there is" 'cloud\.disk may grow to 1048576 MiB; storage pool velad has [0-9]+ MiB free' "$seen"
passes "what is left of it can be deleted" l1 'velactl delete cloud'

# ---- a guest -----------------------------------------------------------------------------------------------------

l1 '	ip link set "$(ls /sys/bus/pci/devices/0000:85:00.0/net)" up
	peer=$(ls /sys/bus/pci/devices/0000:25:00.0/net)
	ip link set "$peer" up
	ip addr add 192.168.77.1/24 dev "$peer"'
before=$(host_state)
l1 "echo '{\"version\": 2, \"ethernets\": {\"vf\": {\"match\": {\"macaddress\": \"$mac\"}, \"set-name\": \"vf\", \"addresses\": [\"192.168.77.2/24\"]}}}' >/root/cloud/network
	printf '#cloud-config\nwrite_files:\n- {path: /run/mine, content: \"here\"}\n' >/root/cloud/user-data"
seen=$(l1 -t 200 "velactl create cloud --gpus 2 --vfs 1 --numa-node 1 --max-path PIX --vcpus 2 --memory 768M --image debian --disk-size 1200M \
	--data-disk 64M --vf mac=$mac --ssh-keys /root/cloud/key.pub --user-data /root/cloud/user-data --network-config /root/cloud/network \
	--hostname node-1 --tag job=42 $boot --cmdline '$cmdline' 2>&1")
rc=$?
is "create: exit status" 0 $rc
((rc == 0)) || { echo "$seen"; die "there is no guest"; }
is "its files" "cloud.data0 cloud.disk cloud.seed debian.image" "$(left)"
is "QEMU's user has the overlay, and not the image" "libvirt-qemu other" "$(l1 "stat -c %U $images/cloud.disk $images/debian.image" |
	sed '2 { /^libvirt-qemu$/ !s/.*/other/ }' | xargs)"
l1 -t 600 "for _ in \$(seq 180); do $ssh 'cloud-init status --wait; true' >/dev/null 2>&1 && break; sleep 3; done"
keep /var/log/velad/cloud.log
is "sshd in the guest, by the key, over the VF: its name" node-1 "$(guest hostname)"
is "what the tenant said is done, too" here "$(guest 'cat /run/mine')"
is "who it is, without a network" "cloud 42" "$(guest 'cat /etc/velad/instance.json' | jq -r '.name + " " + .tags.job')"
is "NCCL's file is velad's" "$(l1 'velactl nccl-topology cloud')" "$(guest 'cat /etc/nccl-topology.xml')"
matches "and NCCL is told where it is" '^NCCL_TOPO_FILE=/etc/nccl-topology.xml$' "$(guest 'cat /etc/nccl.conf')"
seen=$(guest 'cd /sys/bus/pci/devices; for d in *; do echo $d $(cat $d/vendor $d/device $d/numa_node) $(basename $(readlink -f $d/../..)); done')
is "GPUs and VF below one switch, on the node of the host" "3 1" \
	"$(awk '$2 $3 ~ /0x10de0x2330|0x80860x10ca/ { n++; up[$5 $4] } END { print n, length(up) }' <<<"$seen")"
is "NCCL's file has their addresses" "$(awk '$2 $3 ~ /0x10de0x2330|0x80860x10ca/ { print $1 }' <<<"$seen" | sort | xargs)" \
	"$(l1 'velactl nccl-topology cloud' | grep -o 'busid="[^"]*" class="0x0[23]' | cut -d'"' -f2 | sort | xargs)"
matches "lspci shows the tree" 'H100' "$(guest 'lspci -tv')"
matches "lstopo, too" 'PCI.*82:|PCI.*81:|PCI 8' "$(guest 'lstopo-no-graphics')"
is "disks: overlay, seed (read only), data" "vda 1200M 0 vdb 1 vdc 64M 0" \
	"$(guest 'lsblk -dnro NAME,SIZE,RO' | awk '{ sub(/1.2G/, "1200M"); print $1, $1 == "vdb" ? $3 : $2 " " $3 }' | xargs)"
matches "its console is logged" 'node-1 login:|cloud-init' "$(l1 'velactl log cloud')"
is "its guest agent answers" '{"return":{}}' "$(l1 "virsh qemu-agent-command cloud '{\"execute\": \"guest-ping\"}'" | xargs -0 | tr -d '\n')"
is "firmware with secure boot and a TPM can be had here, as libvirt says" 0 \
	"$(l1 'velactl plan --gpus 1 --numa-node 0 --secure-boot --tpm >/dev/null 2>&1; echo $?')"
seen=$(l1 'velactl images delete debian 2>&1')
is "an image in use: exit status 4" 4 $?
matches "by whom" 'below the disk of instance cloud' "$seen"

# ---- its VF and its GPUs -----------------------------------------------------------------------------------------

is "its VF passes packets" 3 "$(l1 'ping -c 3 -i 0.3 -W 5 192.168.77.2' | sed -n 's/.* \([0-9]*\) received.*/\1/p')"
# The guest's report, as in 10-guest, by root and on the console: for it the VF's driver has to leave, and with it goes ssh.
l1 "cd /root/cloud; busybox cpio -id bin/report </srv/lab/guest/initrd 2>/dev/null
	cat >dma.sh <<'END'
exec >/dev/ttyS0
sleep 1
for vf in /sys/bus/pci/drivers/igbvf/0*; do echo \"\${vf##*/}\" >/sys/bus/pci/drivers/igbvf/unbind; done
printf '\nREPORT begin\n'
/home/debian/bin/report devices
echo 'REPORT end'
END
	tar c bin/report dma.sh | $ssh 'tar x'
	virsh qemu-agent-command cloud '{\"execute\": \"guest-exec\", \"arguments\": {\"path\": \"/bin/sh\", \"arg\": [\"/home/debian/dma.sh\"]}}'" >/dev/null
wait_report /var/log/velad/cloud.log 60
is "DMA: GPUs and VF to memory, to and from the GPUs" 11 "$(facts dma status=ok | wc -l)"
is "the VF's way to and from each GPU is direct" 4 "$(facts dma route=direct rule=dt port=82:02.0 | wc -l)"
is "no DMA went wrong" "" "$(facts dma status=bad)"

# ---- as before ---------------------------------------------------------------------------------------------------

passes "delete" l1 -t 120 'velactl delete cloud'
is "its files are gone, the image is not" debian.image "$(left)"
is "the image is as it was" "${sum%% *}" "$(l1 "sha256sum $images/debian.image" | cut -d' ' -f1)"
is "the host is as before" "$before" "$(host_state)"
passes "an image that nobody uses can go" l1 'velactl images delete debian'
is "nothing is left" "" "$(left)"
l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
