#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the kernel does, as a table: tests/hostsim is a simulated kernel and has to do the same. LAB_RECORD=1 writes the
# table anew. velad is not needed.

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

hostsim=$lab/../hostsim
table=$hostsim/kernel.txt

without_source() { sed 's/ *#.*//; s/ *$//; /^$/d' "$1"; }

"$lab/run" push "$hostsim/facts" /tmp
l1 -t 300 'bash /tmp/facts' >"$logs/facts.txt" 2>"$logs/facts.err" || die "facts: status $?: $(cat "$logs/facts.err")"
is "nothing goes wrong on the way" "" "$(cat "$logs/facts.err")"
if [ -n "${LAB_RECORD:-}" ]; then
	{ sed '/^[^#]/,$d' "$table"; sed 's/ *$/ # lab/' "$logs/facts.txt"; } >"$logs/kernel.txt"
	cp "$logs/kernel.txt" "$table"
fi
matches "the table is one" '^kernel VFs of 0000:85:00.0, 7 = ok' "$(cat "$logs/facts.txt")"
passes "the kernel does what the table says" diff <(without_source "$table" | grep '^kernel') \
	<(without_source "$logs/facts.txt" | grep '^kernel')
finish
