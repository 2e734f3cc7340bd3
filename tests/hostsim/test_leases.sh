#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Leases: real velad on a simulated host. Many clients at once never get one device; a lease is used once, by its owner,
# gives exactly what it held, ends by itself, and is refused when the machine is another. test_leases.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
host=$PWD/tests/hosts/lab/sys.txt
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

velad_conf "s|^nic = 8086:1591|nic = 8086:10c9:0200 8086:1591|"
mount_host --uevents "$dir/uevents" "$host" || exit 1
start_velad
guest=(--gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M)
lease() { ctl -o json plan "${guest[@]}" --lease "$@" | of '" ".join([d["lease"]["id"]] + [x["bdf"] for k in ("gpus", "vfs") for x in d["bundle"][k]])'; }
owner() { ctl -o json topo | of "[n['owner'] for n in d['nodes'] if n['bdf'] == '$1'][0]"; }

# ---- many clients
put '' "$dir/held"
for ((i = 0; i < 24; i++)); do
	(ctl -o json plan "${guest[@]}" --lease 60 >"$dir/got.$i" 2>"$dir/err.$i"; echo $? >"$dir/rc.$i") &
	clients[i]=$!
done
wait "${clients[@]}"
is "24 clients at once: each GPU and VF to one of them, and the rest is told so" "$(ctl -o json topo |
	of 'sum(n["kind"] == "gpu" for n in d["nodes"])') True" "$(cd "$dir" && python3 -c '
import glob, json
docs = [json.load(open(f)) for f in glob.glob("got.*")]
fit = [d for d in docs if d["fits"]]
got = [x["bdf"] for d in fit for k in ("gpus", "vfs") for x in d["bundle"][k]]
rest = [open(f.replace("got", "rc")).read().strip() for f in glob.glob("got.*")]
print(len(fit), len(got) == len(set(got)) and all("lease" in d for d in fit) and rest.count("5") == 24 - len(fit) and
      all(any(r["rule"] == "gpu.count" for r in d["reasons"]) for d in docs if not d["fits"]))')"
is "as many leases are listed" "$(ctl -o json topo | of 'sum(n["kind"] == "gpu" for n in d["nodes"])')" \
	"$(ctl -o json leases | of 'len(d["leases"])')"
for id in $(ctl -o json leases | of '" ".join(l["id"] for l in d["leases"])'); do ctl release "$id" >/dev/null; done
is "all released" "no leases" "$(ctl leases)"

# ---- one lease
read -r id gpu vf < <(lease 60)
is "the topology says who has it" "lease $id" "$(owner "$gpu")"
is "it is refused to others by name" "$gpu: it is held by lease $id; needed: a free device" "$(ctl -o json plan "${guest[@]}" --require "$gpu" |
	of '[r["text"] for r in d["reasons"] if r["rule"] == "device.taken"][0]')"
out=$(ctl create one --plan "$id" 2>&1)
is "an instance of it has what it held" "$gpu $vf" "$(ctl -o json show one | of '" ".join(x["bdf"] for k in ("gpus", "vfs") for x in d["bundle"][k])')"
[[ $(ctl -o json show one | of 'd["state"]') == running ]] || sed 's/^/#   /' <<<"$out"
is "its request is the lease's" "1 1 268435456" "$(ctl -o json show one | of '"%d %d %d" % tuple(d["request"][k] for k in ("gpus", "vfs_per_gpu", "memory"))')"
is "the lease is gone" "no leases 3" "$(ctl leases) $(ctl create two --plan "$id" >/dev/null 2>&1; echo $?)"
read -r id gpu vf < <(lease 60)
is "to be said with a lease: nothing that it decided" "velactl: request.gpus is what the plan has decided; with plan only name, bundle, tags, and what the guest boots and is told at its boot can be said" "$(
	ctl create two --plan "$id" --gpus 2 2>&1)"
ctl create two --plan "$id" --tag team=blue --kernel /boot/vmlinuz --cmdline quiet >/dev/null 2>&1
is "but what the guest boots, and tags" "$gpu blue /boot/vmlinuz quiet" "$(ctl -o json show two | of '" ".join([d["bundle"]["gpus"][0]["bdf"], d["request"]["tags"]["team"], d["request"]["boot"]["kernel"], d["request"]["boot"]["cmdline"]])')"
ctl delete two >/dev/null 2>&1

# ---- several at once
last=$(ctl -o json topo | of "[n['bdf'] for n in d['nodes'] if n['kind'] == 'gpu' and not n['owner']][0]") # the first that is free
printf '{"bundles":[{"gpus":1,"vfs_per_gpu":1,"memory":"256M","vcpus":1},{"gpus":1,"memory":"256M","require":["%s"]}]}' "$last" >"$dir/gang.json"
read -r id first second < <(ctl -o json plan --file "$dir/gang.json" --lease 60 | of '" ".join([d["lease"]["id"]] + [p["bundle"]["gpus"][0]["bdf"] for p in d["plans"]])')
is "two bundles, of which the first would take what the second needs" "True lease $id lease $id" "$([[ $first != "$last" && $second == "$last" ]] && echo True) $(
	owner "$first") $(owner "$second")"
ctl create gang-1 --plan "$id" --bundle 1 >/dev/null 2>&1
is "one is used, the other held" "$second lease $id True" "$(ctl -o json show gang-1 | of 'd["bundle"]["gpus"][0]["bdf"]') $(owner "$first") $(
	ctl -o json leases | of 'd["leases"][0]["bundles"][1]["used"]')"
is "used once" "4" "$(ctl create again --plan "$id" --bundle 1 >/dev/null 2>&1; echo $?)"
ctl create gang-0 --plan "$id" >/dev/null 2>&1
is "both used: the lease is gone" "running running no leases" "$(ctl -o json show gang-0 | of 'd["state"]') $(ctl -o json show gang-1 | of 'd["state"]') $(ctl leases)"
is "capacity knows who has what" "True" "$(ctl -o json capacity | of 'any(r["rule"] == "device.taken" and "gang-1" in r["text"] for r in d["shapes"][0]["blocked"])')"
for i in {0..7}; do
	ctl -o json capacity >"$dir/free.$i" &
	clients[i]=$!
done
wait "${clients[@]:0:8}"
is "eight who ask at once all have an answer" "1" "$(for f in "$dir"/free.?; do of 'd["free"]' <"$f"; done | sort -u | wc -l)"
was=$(ctl -o json capacity | of 'd["free"]')
ctl delete gang-1 >/dev/null 2>&1
is "it is of the moment when it is asked" "$((was + 1))" "$(ctl -o json capacity | of 'd["free"]')"
ctl delete gang-0 >/dev/null 2>&1

# ---- better devices that come free do not change a lease
read -r id gpu2 _ < <(lease 60 --require "$(ctl -o json topo | of "[n['bdf'] for n in d['nodes'] if n['kind'] == 'gpu'][-1]")")
ctl delete one >/dev/null 2>&1
ctl create two --plan "$id" >/dev/null 2>&1
is "the lease's GPU, though a lower one is free" "$gpu2 running" "$(ctl -o json show two | of 'd["bundle"]["gpus"][0]["bdf"] + " " + d["state"]')"
ctl delete two >/dev/null 2>&1

# ---- the machine changes
read -r id gpu _ < <(lease 60)
put "remove $gpu" "$sim/event"
out=$(ctl -o json create one --plan "$id" 2>/dev/null)
is "its GPU went: stale_plan, with what changed, and the lease stays to be released" "stale_plan it was removed lease $id released" \
	"$(of '"%s %s" % (d["code"], " ".join(r["observed"] for r in d["reasons"] if r["rule"] == "plan.changed" and r["device"] == "'"$gpu"'"))' <<<"$out") $(ctl release "$id")"

# ---- it ends
read -r id gpu _ < <(lease 1)
sleep 1.1
is "after its time it is free" "None 3" "$(owner "$gpu") $(ctl create one --plan "$id" >/dev/null 2>&1; echo $?)"
is "at most 300 s" "velactl: request.lease_seconds must be a whole number, 0 to 300" "$(ctl plan "${guest[@]}" --lease 301 2>&1)"
is "not without velad" "velactl: --lease asks velad to hold devices and cannot work with --host" "$(ctl plan --gpus 1 --lease 5 --host "$host" 2>&1)"
read -r id gpu _ < <(lease 60)
stop_velad
start_velad
is "a restart ends it" "None no leases" "$(owner "$gpu") $(ctl leases)"

# ---- whose it is
read -r id gpu _ < <(lease 60)
chmod 755 "$dir"; chmod 666 "$dir/sock"
other() { setpriv --reuid=65534 --clear-groups curl -s -H 'Content-Type: application/json' --unix-socket "$dir/sock" "$@"; }
if command -v curl >/dev/null && command -v setpriv >/dev/null; then
	is "another user's: not found, to use or release" "not_found not_found 0" "$(other -X DELETE "http://velad/v1/plans/$id" | of 'd["code"]') $(
		other -d "{\"plan\":\"$id\",\"name\":\"x\"}" http://velad/v1/instances | of 'd["code"]') $(other http://velad/v1/plans | of 'len(d["leases"])')"
fi
ctl release "$id" >/dev/null

# ---- CPUs and memory are held, too
small=(--memory 64M --lease 60)
for ((i = 0; i < 4; i++)); do ctl -o json plan --vcpus 1 "${small[@]}" | of 'd["bundle"]["cells"][0]["cpus"]'; done >"$dir/cpus"
is "a lease for each of the four CPUs" "4 4" "$(wc -l <"$dir/cpus") $(sort -u "$dir/cpus" | wc -l)"
is "no CPU is left" "cpus.short" "$(ctl -o json plan --vcpus 1 "${small[@]}" | of 'd["reasons"][0]["rule"]')"
for id in $(ctl -o json leases | of '" ".join(l["id"] for l in d["leases"])'); do ctl release "$id" >/dev/null; done
free=$(($(ctl -o json host | of 'max(n["memory_free"] for n in d["nodes"])') / 2097152 - 256 + 1)) # half of a node and a bit
for ((i = 0; i < 2; i++)); do ctl -o json plan --vcpus 1 --memory "${free}M" --lease 60 | of 'd["bundle"]["cells"][0]["host_node"]'; done >"$dir/nodes"
is "two leases of half of a node's memory each: on two nodes; a third has no room" "0 1 memory.short" "$(sort "$dir/nodes" | tr '\n' ' ')$(
	ctl -o json plan --vcpus 1 --memory "${free}M" | of 'd["reasons"][0]["rule"]')"
for id in $(ctl -o json leases | of '" ".join(l["id"] for l in d["leases"])'); do ctl release "$id" >/dev/null; done

# ---- how many
stop_velad
sed -i 's/^cpus = .*/cpus = shared/' "$dir/velad.conf"
start_velad
for ((i = 0; i < 16; i++)); do ctl -o json plan --vcpus 1 "${small[@]}" >/dev/null || break; done
is "16 of one user, of as many CPUs as there are where they are shared" "4 velactl: uid $EUID has 16 leases already" "$(
	ctl plan --vcpus 1 "${small[@]}" >/dev/null 2>&1; echo $?) $(ctl plan --vcpus 1 "${small[@]}" 2>&1 | grep -o '^velactl: .* leases already')"
stop_velad
summary
