#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# only by name
#
# What velad adds to a start: a guest is started by velad, twice, and, with velad stopped, by virsh from the XML that it was started from, in
# turns. So the first start of a turn is that of a velad that was started just before. What a start of velad's took beside its step "domain",
# which is libvirt's, is all that velad can have added; the other turns say whether libvirt is slower for velad than for virsh.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-7}
before=$(host_state)
passes "a guest" l1 -t 180 "velactl create start --gpus 1 --vfs-per-gpu 1 --numa-node 1 --vcpus 1 --memory 256M \
	--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd --cmdline 'console=ttyS0 report.stay mitigations=off nokaslr'"
passes "its XML" l1 'virsh dumpxml --inactive start >/root/start.xml && velactl stop start --force'

# Three lines: of two starts of velad's microseconds, all and libvirt's part of it, and times of day, when it began, its first step, and
# libvirt's part; virsh's start in microseconds
turn='
	ms() { date +%s%6N; }
	start() {
		velactl start start >/dev/null && velactl -o json op list | jq -r "[.operations[] | select(.kind == \"start\")] | max_by(.id).id" >/root/id &&
		velactl -o json op show "$(cat /root/id)" | jq -r "(.steps[] | select(.id == \"domain\")) as \$d |
			\"$1 \(.duration_us) \(\$d.duration_us) \(.started) \([.steps[].started] | min) \(\$d.started)\"" &&
		velactl stop start --force >/dev/null
	}
	start first && start velad && systemctl stop velad.service || exit 1
	from=$(ms); virsh -q create /root/start.xml >/dev/null || exit 1
	echo "virsh $(($(ms) - from))"
	virsh -q destroy start >/dev/null; systemctl start velad.service'
for ((i = 0; i < rounds; i++)); do
	l1 -t 300 "$turn" || die "round $i"
done >"$logs/turns"
is "every start is measured" "$((3 * rounds))" "$(grep -Ec '^((first|velad) [0-9]+ [0-9]+( [0-9TZ:.-]+){3}|virsh [0-9]+)$' "$logs/turns")"
read -r adds domain virsh share begins looks ends first < <(python3 - "$logs/turns" <<'EOF'
import datetime, statistics, sys
turns = [line.split() for line in open(sys.argv[1])]
def parts(t):
    began, first, domain = (datetime.datetime.fromisoformat(x.replace("Z", "+00:00")).timestamp() * 1e6 for x in t[3:])
    adds = int(t[1]) - int(t[2])
    return adds, int(t[2]), first - began, domain - first, adds - (domain - began)
def medians(who):
    return [statistics.median(column) for column in zip(*(parts(t) for t in turns if t[0] == who))]
adds, domain, *where = medians("velad")
virsh = statistics.median(int(t[1]) for t in turns if t[0] == "virsh")
print(round(adds / 1000), round(domain / 1000), round(virsh / 1000), round(100 * adds / domain, 2), *(round(x / 1000) for x in where), round(medians("first")[0] / 1000))
EOF
)
echo "# velad adds $adds ms to libvirt's $domain, $share %; virsh's start took $virsh ms; medians of $rounds"
echo "# where: $begins ms before the first step, $looks in the steps before libvirt's, $ends beside the calls of libvirt's step and after it"
echo "# the first start of a velad that was started just before: $first ms"
is "velad adds no more than 2 % (1 % is wanted)" 1 "$(python3 -c "print(int($share <= 2))")"
passes "delete" l1 -t 120 'velactl delete start'
is "the host is as before" "$before" "$(host_state)"
finish
