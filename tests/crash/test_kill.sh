#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# velad and velad-helper, killed at some of the writes of each operation, and again while they recover; all of them: make chaos.
# test_kill.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
bad=0
tests/crash/run kill --build "${1:-build}" --helper --points 2 --seed 7 || bad=1
tests/crash/run kill --build "${1:-build}" --helper --helper-dies --points 2 --seed 8 || bad=1
exit $bad
