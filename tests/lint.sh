#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# make lint: cppcheck and gcc -fanalyzer over src, and the length report (functions over 80 lines, files over
# 600 fail). Needs cppcheck and universal-ctags.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

for tool in cppcheck ctags; do
	command -v "$tool" >/dev/null || { echo "make lint needs $tool: apt-get install cppcheck universal-ctags" >&2; exit 1; }
done

echo "== lengths"
ctags -R --languages=C --kinds-C=f --fields=+ne -f - src | python3 -c '
import sys
rows = []
for line in sys.stdin:
    f = dict(x.split(":", 1) for x in line.rstrip("\n").split("\t")[3:] if ":" in x)
    if "line" in f and "end" in f:
        name, path = line.split("\t")[:2]
        rows.append((int(f["end"]) - int(f["line"]) + 1, name, path))
rows.sort()
n = len(rows)
print(f"{n} functions, median {rows[n // 2][0]}, p90 {rows[n * 9 // 10][0]} lines; longest:")
for r in rows[-5:]:
    print(f"  {r[0]:4d} {r[1]} {r[2]}")
sys.exit(any(r[0] > 80 for r in rows))' || { echo "a function has more than 80 lines"; bad=1; }
find src -name '*.[ch]' -print0 | xargs -0 wc -l | sort -n | tail -n 6
if find src -name '*.[ch]' -print0 | xargs -0 wc -l | awk '$2 != "total" && $1 > 600 { exit 1 }'; then :; else
	echo "a file has more than 600 lines"
	bad=1
fi

echo "== SPDX"
while read -r f; do
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier' || { echo "$f: no SPDX line"; bad=1; }
done < <(git ls-files 'src/*' 'include/*' 'tests/*.[ch]' 'tests/*.sh' 'tests/*.py' 'tests/check' 'systemd/*' 'conf/*' ':!*LICENSE')

echo "== cppcheck"
cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr --error-exitcode=1 \
	--suppress=missingIncludeSystem --suppress=unknownMacro -D_GNU_SOURCE -Iinclude -Isrc -Ibuild/gen -j2 src || bad=1

echo "== gcc -fanalyzer"
flags=$(pkg-config --cflags json-c libxml-2.0 libsystemd libmicrohttpd sqlite3 inih smartcols libkmod libvirt libpci zlib libnl-genl-3.0)
for f in src/*/*.c; do
	# shellcheck disable=SC2086 # pkg-config gives words
	gcc -fsyntax-only -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc -Ibuild/gen $flags -DVELAD_VERSION='""' -DVELAD_CONF='""' \
		-fanalyzer -Wno-analyzer-malloc-leak -Werror "$f" || bad=1
done

((bad == 0)) && echo "lint: clean"
exit "$bad"
