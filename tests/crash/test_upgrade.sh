#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Stores of earlier velads, with a guest that runs.
# test_upgrade.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
exec tests/crash/adopt --build "${1:-build}" upgrades
