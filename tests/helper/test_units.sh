#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The units: systemd-analyze finds nothing wrong with them, and exposes no more of them than it may. test_units.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
check() { # check TEXT COMMAND...
	local text=$1 out
	shift
	if out=$("$@" 2>&1); then echo "ok - $text"; else echo "not ok - $text"; sed 's/^/#   /' <<<"$out" | tail -n 12; failed=1; fi
}
make -s install B="$(realpath "${1:-build}")" DESTDIR="$dir" PREFIX=/usr >/dev/null || exit 1
units=$dir/usr/lib/systemd/system
# programs are looked for where this system has its own
sed -i "s|^ExecStart=/usr|ExecStart=$dir/usr|" "$units"/velad*.service
quiet() { local out; out=$("$@" 2>&1 | grep -v "^.*Command 'man "); [[ ! $out ]] || { echo "$out"; return 1; }; }
check "systemd-analyze verify says nothing" quiet systemd-analyze verify "$units"/velad.service "$units"/velad.socket "$units"/velad-helper.service "$units"/velad-helper.socket
# the threshold is ten times the level, which is rounded
check "velad's exposure level is 0.5 at most" systemd-analyze security --offline=true --threshold=5 "$units/velad.service"
check "velad-helper's is 1.9 at most" systemd-analyze security --offline=true --threshold=19 "$units/velad-helper.service"
exit "$failed"
