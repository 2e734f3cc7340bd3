#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# No more files can be opened, the disk is full or read-only, the clock jumps: some of each; all: make chaos.
# test_short.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
exec tests/crash/run short --build "${1:-build}" --points 1 --seed 5
