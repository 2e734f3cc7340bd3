#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What became of domains, cards and the host while no velad was there, or behind its back: libvirt's domains, boots.
# test_adopt.sh [BUILD]; prints ok / not ok lines.
cd "$(dirname "$0")/../.." || exit 1
exec tests/crash/adopt --build "${1:-build}" domains boots
