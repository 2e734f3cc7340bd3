#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A guest's life while somebody looks at its console: reset, stopped and started it is the same guest, with its address and its
# tree; one viewer at a time; the log goes on; one that crashes is started again.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd"
log=/var/log/velad/life.log
nvme=0000:86:00.0
l1 "echo $nvme >/sys/bus/pci/drivers/nvme/unbind" # the host gives it up
before=$(host_state)
l1 'mkdir -p /root/life; printf "[guests]\non_crash = restart\ncrash_limit = 1\n" >/etc/velad/velad.conf.d/life.conf; systemctl restart velad'

# viewer N [FLAGS]: a viewer that stays; what it shows is in /root/life/N
viewer() { l1 "(setsid bash -c 'velactl console life ${2:-} < <(sleep 300) >/root/life/$1 2>&1; echo status \$? >>/root/life/$1' >/dev/null 2>&1 &)"; }
shows() { l1 -t 240 "for _ in \$(seq 400); do grep -Eaq -- '$2' /root/life/$1 && break; sleep 0.5; done; grep -Eao -- '$2' /root/life/$1 | head -n 1"; }
identity() { l1 'velactl -o json show life | jq -r "[.uuid, .bundle.vfs[0].settings.mac, .bundle.gpus[0].bdf, .bundle.vfs[0].bdf] | join(\" \")"'; }
tree() { l1 "tr -d '\\r' <$log" | awk '/^REPORT begin/ { out = "" } /^REPORT dev / { out = out $0 "\n" } END { printf "%s", out }' | sed 's/ \(driver\|irq\)=[^ ]*//g'; }
reports() { l1 -t 240 "for _ in \$(seq 400); do [ \$(grep -c '^REPORT end' $log) -ge $1 ] && break; sleep 0.5; done; grep -c '^REPORT end' $log"; }

seen=$(l1 -t 180 "velactl create life --gpus 1 --vfs-per-gpu 1 --nvme 1 --numa-node 1 --vcpus 1 --memory 256M $boot \
	--cmdline 'console=ttyS0 report.stay mitigations=off nokaslr cryptomgr.notests' 2>&1")
rc=$?
is "create: exit status" 0 $rc
((rc == 0)) || { echo "$seen"; die "there is no guest"; }
is "the log has its report" 1 "$(reports 1)"
who=$(identity)
tree=$(tree)
matches "the guest sees its GPU, its VF and its drive" 'class=010802' "$tree"
viewer one
seen=$(l1 -t 60 'for _ in $(seq 60); do seen=$(velactl console life </dev/null 2>&1); rc=$?; [ $rc = 4 ] && break; sleep 0.3; done; echo "$seen"; exit $rc')
is "a second viewer: exit status 4" 4 $?
matches "it says how to get it" 'somebody else has the console of life.*--force takes it from them' "$seen"
passes "reset" l1 'velactl reset life'
is "the viewer sees it boot" "REPORT begin" "$(shows one 'REPORT begin')"
viewer two --force
is "by force another gets it, and the first is told" "somebody took it over" "$(shows one 'somebody took it over')"
is "the log goes on" 2 "$(reports 2)"
passes "reboot, by ACPI" l1 -t 60 'velactl reboot life'
is "and on" 3 "$(reports 3)"
is "rebooted, it is the same guest: id, address, devices" "$who" "$(identity)"
is "and its tree the same" "$tree" "$(tree)"
l1 "(velactl log life -n 1 -f >/root/life/follow 2>&1 &)"
passes "stop" l1 -t 120 'velactl stop life'
matches "the viewer is told" 'the guest is stop(ping|ped)' "$(shows two 'the guest is stop(ping|ped)')"
is "and ends well" "status 0" "$(shows two 'status [0-9]')"
passes "start" l1 -t 180 'velactl start life'
is "the log has all of them" 4 "$(reports 4)"
is "started again, the same guest: id, address, devices" "$who" "$(identity)"
is "its tree, too" "$tree" "$(tree)"
is "who followed the log has seen it" "REPORT end" "$(shows follow 'REPORT end')"

# ---- a guest that crashes ----------------------------------------------------------------------------------------

l1 'kill -SEGV $(pgrep -f guest=life)'
is "one whose QEMU dies is started again" 5 "$(reports 5)"
is "as the same guest" "$who" "$(identity)"
l1 'kill -SEGV $(pgrep -f guest=life)'
is "but not for ever" stopped "$(l1 -t 60 '
	for _ in $(seq 60); do state=$(velactl -o json show life | jq -r .state); [ "$state" = stopped ] && break; sleep 0.5; done; echo "$state"')"
matches "and says why" 'crashed 2 times within 600 s and is left stopped' "$(l1 'velactl show life')"
passes "delete" l1 -t 120 'velactl delete life'
is "the host is as before" "$before" "$(host_state)"
l1 "echo $nvme >/sys/bus/pci/drivers/nvme/bind"
l1 'rm /etc/velad/velad.conf.d/life.conf; systemctl restart velad; pkill velactl; true'
l1 'journalctl -u velad -u velad-helper --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
