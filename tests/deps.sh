#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs what a fresh Debian 12 or 13 lacks for building, testing and the emulated GPU host (make deps).
set -euo pipefail

packages=(
	# build: docs/architecture.md says what each library is for
	gcc make pkg-config libc6-dev libjson-c-dev nettle-dev libxml2-dev libsystemd-dev libmicrohttpd-dev libsqlite3-dev
	libinih-dev libsmartcols-dev libkmod-dev libvirt-dev libpci-dev pci.ids libhttp-parser-dev libnl-genl-3-dev liblldpctl-dev
	zlib1g-dev libarchive-dev nettle-dev
	# unit tests
	libcmocka-dev python3 libxml2-utils libvirt-clients graphviz diffutils util-linux systemd
	libfuse3-dev fuse3 # tests/hostsim
	libvirt-daemon-driver-qemu qemu-system-x86 ovmf swtpm swtpm-tools # tests/golden/libvirt
	clang libclang-rt-dev # fuzz
	# the emulated GPU host: mmdebstrap builds its image, the plug-in is compiled for its QEMU
	mmdebstrap arch-test e2fsprogs xz-utils zstd libglib2.0-dev ca-certificates debian-archive-keyring
)
missing=()
for p in "${packages[@]}"; do
	dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' || missing+=("$p")
done
((${#missing[@]})) || exit 0
if ((EUID != 0)); then
	echo "missing packages: ${missing[*]}" >&2
	echo "run: sudo make deps" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
