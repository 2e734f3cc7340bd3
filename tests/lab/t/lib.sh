# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What the scripts in this folder share. A script sources this, makes checks, and ends with "finish"; one that ends
# in another way counts as a failed check. Scripts run on the machine that emulates; l1 reaches into the emulated host.

set -u
lab=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$(cd "$lab/../.." && pwd)/build/lab/logs/$(basename "$0" .sh)
rm -rf "$logs"
mkdir -p "$logs"

# ---- how a script ends ------------------------------------------------------------------------------------

finished=
trap '[ -n "$finished" ] || { echo "the script ended before its end, status $?" >&2; exit 1; }' EXIT

finish() {
	finished=1
	exit 0
}

die() { # TEXT
	echo "$1" >&2
	exit 1
}

# ---- checks -----------------------------------------------------------------------------------------------

ok() { # TEXT
	echo "ok - $1"
}

fail() { # TEXT [SEEN]
	echo "not ok - $1"
	[ $# -lt 2 ] || printf '#   %s\n' "${2//$'\n'/$'\n#   '}"
}

is() { # TEXT WANTED SEEN: a check that passes if both are the same
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		fail "$1" "wanted: $2"$'\n'"seen:   $3"
	fi
}

matches() { # TEXT REGEX SEEN: a check that passes if some line of SEEN matches
	if grep -Eq -- "$2" <<<"$3"; then
		ok "$1"
	else
		fail "$1" "wanted: $2"$'\n'"seen:   $3"
	fi
}

passes() { # TEXT COMMAND...: a check that passes if COMMAND does; what it printed is shown if not
	local text=$1 seen
	shift
	if seen=$("$@" 2>&1); then
		ok "$text"
	else
		fail "$text" "status $?: $seen"
	fi
}

# ---- the emulated host ---------------------------------------------------------------------------------------

l1() { # [-t SECONDS] SCRIPT
	"$lab/run" exec "$@"
}

keep() { # FILES: copy files of the emulated host into the log folder of this script
	"$lab/run" pull "$1" "$logs" 2>/dev/null || :
}

# What differs between a dump of the emulated host and the text host in the repository, as the topology has it:
# addresses, kinds, places, capabilities. Memory, kernel version and the like may differ.
lab_drift() { # DUMP
	local f
	for f in "$lab/../hosts/lab/sys.txt" "$1"; do
		"$lab/../../build/velactl" --conf "$lab/../golden/velad.conf" --host "$f" -o json topo |
			python3 -c '
import json, sys
for n in json.load(sys.stdin)["nodes"]:
    print(*(f"{k}={n.get(k)}" for k in "bdf kind id parent root_bus numa_node iommu_group driver link acs ats sriov".split()))
' >"$logs/$(basename "$(dirname "$f")").nodes"
	done
	diff "$logs/lab.nodes" "$logs/$(basename "$(dirname "$1")").nodes"
}

# What velad may change and has to give back: drivers, overrides, VF counts and settings, ACS and ATS control, of device
# control Relaxed Ordering, sizes and tags, and whether the function may sleep.
host_state() {
	# shellcheck disable=SC2016 # a script for the emulated host
	l1 'cd /sys/bus/pci/devices
	for d in *; do
		driver=$(readlink $d/driver)
		echo "$d driver=${driver##*/} override=$(cat $d/driver_override) vfs=$(cat $d/sriov_numvfs 2>/dev/null)" \
			"acs=$(setpci -s $d ECAP_ACS+6.w 2>/dev/null) ats=$(setpci -s $d ECAP_ATS+6.w 2>/dev/null)" \
			"devctl=$((0x0$(setpci -s $d CAP_EXP+8.w 2>/dev/null) & 0x71f0)) power=$(cat $d/power/control)" \
			"d3cold=$(cat $d/d3cold_allowed 2>/dev/null)"
	done
	ip -o link show | grep -o "vf [0-9].*"; true'
}

# ---- the guest's report ------------------------------------------------------------------------------------

# Wait until the console log L1_FILE has a whole report; it is then in $report, without carriage returns.
# shellcheck disable=SC2034 # report is for the caller
wait_report() { # L1_FILE SECONDS
	local raw
	raw=$(l1 -t "$2" "until grep -qs '^REPORT end' '$1'; do sleep 1; done") || :
	raw=$(l1 "cat '$1'" | tr -d '\r')
	printf '%s\n' "$raw" >"$logs/$(basename "$1")"
	report=$(grep '^REPORT ' <<<"$raw")
}

facts() { # KIND [KEY=VALUE]...: the lines of $report of that kind that have all these fields
	local lines want
	lines=$(grep "^REPORT $1 " <<<"$report")
	shift
	for want in "$@"; do
		lines=$(grep -E " $want( |\$)" <<<"$lines")
	done
	[ -z "$lines" ] || printf '%s\n' "$lines"
}

field() { # KEY: the values of a field in the lines on standard input
	sed -n "s/.* $1=\([^ ]*\).*/\1/p"
}

# How the copies of the guest with the console L1_FILE travel, of all its pairs: wait until that is WANTED, for at most
# 20 s, and print it, such as "read ok direct dt 82:02.0; write ok direct dt 82:02.0".
guest_routes() { # L1_FILE WANTED
	l1 -t 60 "for _ in \$(seq 40); do
		seen=\$(tr -d '\r' <'$1' | awk '/^REPORT route / { last[\$4 \$5 \$6] = \$6 \" \" \$7 \" \" \$8 \" \" \$9 \" \" \$10 }
			END { for (i in last) print last[i] }' | sed 's/[a-z]*=//g' | sort -u | paste -sd ';' | sed 's/;/; /g')
		[ \"\$seen\" = '$2' ] && break
		sleep 0.5
	done; echo \"\$seen\""
}

# The wanted text of guest_routes when reads and writes travel alike.
both_ways() { # STATUS ROUTE RULE PORT
	echo "read $*; write $*"
}
