#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Proves the layering: every #include "room/..." of a room against the rooms it may use (docs/architecture.md).
# Everything may include base. Also: each foreign library stays in the file that is meant for it.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A may=(
	[base]=''
	[host]=''
	[topo]='host'
	[plan]='host topo'
	[check]='host topo plan'
	[guest]='host topo plan'
	[act]='host plan'
	[instance]='host topo plan guest act'
	[helper]='host act'
	[hyper]='act'
	[api]=''
	[client]=''
	[velad]='host topo plan check guest act instance api'
	[velactl]='host topo plan check guest api'
)
# header -> the only files that may include it
declare -A only=(
	['libvirt/']='^src/act/(libvirt|domains|console|offer|storage)\.c$'
	['libkmod.h']='^src/act/kmod\.c$'
	['sqlite3.h']='^src/instance/(store|store_[a-z]+)\.[ch]$'
	['microhttpd.h']='^src/api/(server\.c|(answer|call|upgrade)\.[ch])$'
	['http_parser.h']='^src/client/wire\.h$'
	['ini.h']='^src/base/conf\.c$'
	['libxml/']='^src/(guest/(xml|domain)|act/(libvirt|domains|loses|offer|storage))\.[ch]$'
	['nettle/']='^src/(act/image|velad/operations)\.c$'
	['archive']='^src/act/seed\.c$'
	['libsmartcols/']='^src/velactl/[a-z_]+\.[ch]$'
	['netlink/']='^src/host/devlink\.c$'
	['lldpctl.h']='^src/host/lldp\.c$'
	['zlib.h']='^src/host/rdmatopo\.c$'
	['dlfcn.h']='^src/base/lazy\.h$'
	['pci/']='^src/velactl/names\.c$'
)
bad=0
arrows=0

for dir in src/*/; do
	room=$(basename "$dir")
	[[ -v may[$room] ]] || { echo "src/$room: not a room that docs/architecture.md knows"; bad=1; continue; }
	while IFS=: read -r file line text; do
		to=${text#*\"}; to=${to%%/*}
		arrows=$((arrows + 1))
		[[ $to == "$room" || $to == base || " ${may[$room]} " == *" $to "* ]] && continue
		echo "$file:$line: $room may not include $to ($text)"
		bad=1
	done < <(grep -Hn '^#include "[a-z]*/' "$dir"*.[ch] 2>/dev/null || true)
done
for header in "${!only[@]}"; do
	while IFS=: read -r file line _; do
		[[ $file =~ ${only[$header]} ]] && continue
		echo "$file:$line: <$header...> belongs into ${only[$header]}"
		bad=1
	done < <(grep -rHn "^#include <$header" src || true)
done
# the client library is under another licence: it may use nothing of ours, base included
if grep -n '^#include "' src/client/*.[ch] | grep -v '"client/'; then
	echo "src/client: the LGPL client library may include only <velad/client.h> and itself"
	bad=1
fi
# the only place that knows where sysfs is mounted is host/root.c; paths elsewhere are relative
while read -r hit; do
	echo "$hit: an absolute /sys path; go through host/root"
	bad=1
done < <(grep -rn '"/sys/[a-z]' src --include='*.[ch]' | grep -v 'src/host/root\.c' || true)

((bad == 0)) && echo "arrows: $arrows includes, all point the right way"
exit "$bad"
