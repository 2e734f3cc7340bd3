#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Some of the writes and libvirt calls of each operation fail, hang, or do nothing; all of them: make chaos.
# test_fail.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
exec tests/crash/run fail --build "${1:-build}" --points 3 --seed 3
