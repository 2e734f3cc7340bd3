#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Cards in other slots, other ones in theirs, and buses with other numbers, while no velad was there.
# test_cards.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
exec tests/crash/adopt --build "${1:-build}" cards vpd
