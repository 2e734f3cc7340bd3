#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What became of domains and of the host while velad was away. test_adopt.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
bad=0
tests/crash/adopt --build "${1:-build}" domains || bad=1
tests/crash/adopt --build "${1:-build}" --helper boots || bad=1
exit $bad
