#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Images, overlays and seeds: real velad on a simulated host, with libvirt's test driver, whose storage pools keep no files but
# count room. test_images.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|; s|^dir = .*|dir = $dir/images|; s|^source = .*|source = $dir/incoming|"
mount_host --uevents "$dir/uevents" "$host" || exit 1
mkdir "$dir/incoming"
images=$dir/images
# qcow2 FILE VERSION SIZE [BACKING [FEATURES]]: the header of one
qcow2() {
	python3 - "$@" <<'PY'
import struct, sys
file, version, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
backing, features = (int(a) for a in (sys.argv[4:] + ["0", "0"])[:2])
head = b"QFI\xfb" + struct.pack(">IQIIQIIQQIIQ", version, backing, 4 if backing else 0, 16, size, 0, 1, 196608, 65536, 1, 0, 0)
head += struct.pack(">QQQII", features, 0, 0, 4, 104)
open(file, "wb").write(head.ljust(262144, b"\0"))
PY
}
error_of() { ctl "$@" 2>&1 >/dev/null | sed 's/^velactl: //'; }
# says TEXT REGEX SEEN
says() { if grep -q -- "$2" <<<"$3"; then ok "$1"; else not_ok "$1" "wanted: $2"$'\n'"seen:   $3"; fi; }
files() { (cd "$images" 2>/dev/null && ls -A | xargs); }

qcow2 "$dir/incoming/good.qcow2" 3 $((1 << 30))
qcow2 "$dir/incoming/backed" 3 $((1 << 30)) 512
qcow2 "$dir/incoming/elsewhere" 3 $((1 << 30)) 0 4
head -c 1M /dev/urandom >"$dir/incoming/disk.raw"
head -c 1000 /dev/zero >"$dir/incoming/odd"
printf '\x1f\x8b' | cat - "$dir/incoming/disk.raw" >"$dir/incoming/disk.gz"
ln -s /etc/shadow "$dir/incoming/link"
ln "$dir/incoming/disk.raw" "$dir/second"
sum=$(sha256sum <"$dir/incoming/good.qcow2"); sum=${sum%% *}
start_velad

# ---- adding
is "an image is added, with its sum" "ready qcow2 262144 1073741824 $sum" "$(ctl images add debian-13 good.qcow2 --sha256 "$sum" >/dev/null 2>&1
	ctl -o json images show debian-13 | of '" ".join(str(d[k]) for k in ("state", "format", "size", "virtual_size", "sha256"))')"
is "nobody can write it" "444 debian-13.image" "$(stat -c '%a %n' "$images"/* | sed 's|/.*/||')"
is "a name that is taken" "there is an image debian-13 already; choose another name, or delete it first" "$(error_of images add debian-13 good.qcow2)"
is "a name that is none" 2 "$(ctl images add Debian good.qcow2 >/dev/null 2>&1; echo $?)"
refused() { # TEXT WANTED ARGUMENT...
	local text=$1 wanted=$2
	shift 2
	says "$text" "$wanted" "$(error_of images add bad "$@")"
	[[ $(ctl -o json images show bad 2>/dev/null | of 'd["state"]') == failed ]] && ctl images delete bad >/dev/null 2>&1
	is "$text: nothing is left" debian-13.image "$(files)"
}
refused "a sum that is not its own" "its SHA-256 is $sum, and not 0\{64\}" good.qcow2 --sha256 "$(printf '0%.0s' {1..64})"
refused "another format than was said" "it is qcow2, and not raw" good.qcow2 --format raw
refused "an image with a backing file" "it has a backing file, and an image must be whole: qemu-img convert" backed
refused "an image whose data are elsewhere" "its data are in another file" elsewhere
refused "a compressed one" "it is compressed (gzip); velad takes raw and qcow2" disk.gz
refused "no whole sectors" "a disk of 1000 bytes is no whole number of sectors" odd
refused "a link" "it is a link; copy the file there" link
refused "a file with a second name" "has a second name somewhere" disk.raw
refused "no file" "cannot open nothing in $dir/incoming: No such file" nothing
is "a path" "image.file \"../second\" must be the name of a file in the directory for new images, without a path" "$(error_of images add bad ../second)"
rm "$dir/second"
ctl images add raw-1 disk.raw >/dev/null 2>&1
is "a raw one: a disk as large as the file" "raw 1048576 1048576" "$(ctl -o json images show raw-1 | of '" ".join(str(d[k]) for k in ("format", "size", "virtual_size"))')"
is "the list" "debian-13 raw-1" "$(ctl images list | awk 'NR > 1 { print $1 }' | xargs)"

# ---- a guest
printf '#cloud-config\nruncmd: [[touch, /run/was-here]]\n' >"$dir/user-data"
printf '{"version": 2, "ethernets": {"vf": {"match": {"driver": "igbvf"}, "addresses": ["192.168.77.2/24"]}}}' >"$dir/network"
key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGNjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj me@here"
printf '# mine\n%s\n\n' "$key" >"$dir/key.pub"
guest=(--gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M --image debian-13)
seed=(--ssh-keys "$dir/key.pub" --user-data "$dir/user-data" --network-config "$dir/network" --hostname node-1 --tag rack=r7 --tag job=42)
out=$(ctl create one "${guest[@]}" "${seed[@]}" --disk-size 4G --data-disk 10G 2>&1)
is "a guest of an image: exit status" 0 $?
[[ $(ctl -o json show one | of 'd["state"]') == running ]] || sed 's/^/#   /' <<<"$out"
is "its disks and its seed are made first" "disk one.disk absent debian-13 4G, disk one.data0 absent 10G, seed one.seed absent written" "$(ctl -o json show one |
	of '", ".join(" ".join(s[k] for k in ("id", "target", "from", "to")) for s in d["steps"] if s["id"] in ("disk", "seed"))')"
is "before any device" "disk disk seed vfio" "$(ctl -o json show one | of '" ".join(s["id"] for s in d["steps"][:4])')"
is "the seed is its owner's only" "600 one.seed" "$(stat -c '%a %n' "$images/one.seed" | sed 's|/.*/||')"
iso() { python3 - "$images/$1.seed" "$2" <<'PY'
import struct, sys
# ISO 9660 with Joliet: the supplementary volume descriptor (type 2) has names in UCS-2 (ECMA-119, 8.5, 9.1)
data = open(sys.argv[1], "rb").read()
label = {}
for sector in range(16, 32):
    d = data[sector * 2048:][:2048]
    if d[0] == 255:
        break
    label[d[0]] = (d[40:72], d[156:190])
assert label[1][0].strip() in (b"cidata", b"CIDATA"), label[1][0]
assert label[2][0].decode("utf-16-be").strip() == "cidata", label[2][0]
at, size = struct.unpack_from("<I4xI", label[2][1], 2)
names, i = {}, at * 2048
while i < at * 2048 + size and data[i]:
    first, length = struct.unpack_from("<I4xI", data, i + 2)
    name = data[i + 33:][:data[i + 32]]
    if len(name) > 1:  # not the folder itself, nor the one above
        names[name.decode("utf-16-be").split(";")[0]] = data[first * 2048:][:length]
    i += data[i]
if sys.argv[2] == "list":
    print(" ".join(sorted(names)))
else:
    sys.stdout.buffer.write(names[sys.argv[2]])
PY
}
is "what cloud-init looks for is in it" "meta-data network-config user-data vendor-data" "$(iso one list)"
is "user-data are as they were given" "$(cat "$dir/user-data")" "$(iso one user-data)"
is "meta-data: id, host name, key, tags" "$(ctl -o json show one | of 'd["uuid"]') node-1 $key job=42,rack=r7" "$(iso one meta-data |
	of '" ".join([d["instance-id"], d["local-hostname"], d["public-keys"][0], ",".join(f"{k}={v}" for k, v in d["tags"].items())])')"
is "network-config" "2 192.168.77.2/24" "$(iso one network-config | of 'str(d["version"]) + " " + d["ethernets"]["vf"]["addresses"][0]')"
iso one vendor-data >"$dir/hook"
is "vendor-data: a boot hook, a shell script without an error" "#cloud-boothook ok" "$(head -n 1 "$dir/hook") $(sh -n "$dir/hook" && echo ok)"
mkdir "$dir/etc" && sed "s|/etc/|$dir/etc/|g" "$dir/hook" >"$dir/hook.sh"
is "it can be run twice" 0 "$(sh "$dir/hook.sh" && sh "$dir/hook.sh"; echo $?)"
is "it writes NCCL's topology file as velactl has it" "" "$(diff "$dir/etc/nccl-topology.xml" <(ctl nccl-topology one))"
is "and where that is" "NCCL_TOPO_FILE=$dir/etc/nccl-topology.xml" "$(grep TOPO "$dir/etc/nccl.conf")"
is "and who the guest is" "one 42" "$(of 'd["name"] + " " + d["tags"]["job"]' <"$dir/etc/velad/instance.json")"
echo NCCL_DEBUG=INFO >"$dir/etc/nccl.conf"; sh "$dir/hook.sh"
is "an image's own nccl.conf stays" NCCL_DEBUG=INFO "$(cat "$dir/etc/nccl.conf")"
is "the image is in use" "image debian-13 is below the disk of instance one; delete that first" "$(error_of images delete debian-13)"
is "with whom" one "$(ctl -o json images show debian-13 | of 'd["instances"][0]')"

# ---- stopped, and its image gone meanwhile
ctl stop one --force >/dev/null 2>&1
mv "$images/debian-13.image" "$dir/away"
out=$(ctl start one 2>&1)
is "a start without the image below its disk: exit status" 3 $?
says "a start without the image below its disk: why" "the file of image debian-13 is gone from the directory of images" "$out"
is "and it stays stopped" stopped "$(ctl -o json show one | of 'd["state"]')"
mv "$dir/away" "$images/debian-13.image"
is "with it, it starts" "0 running" "$(ctl start one >/dev/null 2>&1; echo $?) $(ctl -o json show one | of 'd["state"]')"

# ---- what is refused, and leaves nothing
none() { # TEXT STATUS WANTED ARGUMENT...
	local text=$1 status=$2 wanted=$3
	shift 3
	out=$(ctl create two "$@" 2>&1)
	is "$text: exit status" "$status" $?
	says "$text: why" "$wanted" "$out"
	[[ $(ctl -o json show two 2>/dev/null | of 'd["state"]' 2>/dev/null) == failed ]] && ctl delete two >/dev/null 2>&1
	is "$text: nothing is left" "debian-13.image one.seed raw-1.image" "$(files)"
}
one=(--gpus 1 --vcpus 1 --memory 256M)
none "no such image" 3 "there is no image nothing" "${one[@]}" --image nothing
none "a disk smaller than its image" 2 "request.disk_size is 512 MiB, and image debian-13 is a disk of 1024 MiB" "${one[@]}" --image debian-13 --disk-size 512M
none "more than the pool has room for" 5 "two.disk may grow to 2097152 MiB; storage pool velad has [0-9]* MiB free" "${one[@]}" --image debian-13 --disk-size 2T
chmod 644 "$images/raw-1.image"; echo more >>"$images/raw-1.image"
none "an image that was written since" 1 "the file of image raw-1 was written since it was added" "${one[@]}" --image raw-1
mv "$images/debian-13.image" "$dir/away"; mv "$images/raw-1.image" "$images/keep"
out=$(ctl create two "${one[@]}" --image debian-13 2>&1)
says "an image whose file is gone" "the file of image debian-13 is gone from the directory of images" "$out"
is "no device was touched" "" "$(ctl -o json op show "$(ctl -o json show two | of 'd["operation"]')" | of '" ".join(s["id"] for s in d["steps"] if s["state"] not in ("pending", "failed"))')"
ctl delete two >/dev/null 2>&1
mv "$dir/away" "$images/debian-13.image"; mv "$images/keep" "$images/raw-1.image"
: >"$images/two.seed"
out=$(ctl create two "${one[@]}" --image debian-13 2>&1)
says "a file in its way is not velad's" "there is a file two.seed already" "$out"
ctl delete two >/dev/null 2>&1
is "and stays" "two.seed" "$(files | grep -o two.seed)"
rm "$images/two.seed"

# ---- as before
ctl delete one >/dev/null 2>&1
is "deleted: the images stay" "debian-13.image raw-1.image" "$(files)"
ctl images delete debian-13 >/dev/null 2>&1
is "an image that nobody uses can go" "raw-1.image raw-1" "$(files) $(ctl images list | awk 'NR > 1 { print $1 }' | xargs)"

# ---- a daemon that dies while it copies
truncate -s 4G "$dir/incoming/large"
head -c 64M /dev/urandom | dd of="$dir/incoming/large" conv=notrunc bs=1M status=none
ctl --no-wait images add large large >/dev/null 2>&1
for ((i = 0; i < 500; i++)); do [[ -e $images/.large.image.new ]] && break; sleep 0.01; done
is "it is being copied" "$images/.large.image.new" "$(ls "$images/.large.image.new" 2>&1)"
stop_velad KILL
start_velad
for ((i = 0; i < 500; i++)); do [[ $(ctl -o json images show large | of 'd["state"]') == adding ]] || break; sleep 0.02; done
is "the next one undoes it" "failed raw-1.image" "$(ctl -o json images show large | of 'd["state"]') $(files)"
says "and says why" "velad was restarted" "$(ctl -o json images show large | of 'd["error"]')"
ctl images delete large >/dev/null 2>&1
is "it can be deleted" 3 "$(ctl images show large >/dev/null 2>&1; echo $?)"
stop_velad
summary
