#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Calls of libvirt that never return.
# test_hang.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
exec tests/crash/adopt --build "${1:-build}" hangs
