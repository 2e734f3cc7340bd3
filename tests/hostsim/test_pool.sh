#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The pool of velad.conf on a simulated host of eight L40S: what is made when velad starts, in parallel and with ports that fail or hang; that
# it stays between guests, is made once, over restarts, reboots and kills at every write, and is given back to the byte.
# test_pool.sh [BUILD]; ok / not ok lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
velad=
cleanup() { stop_velad KILL; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash

host=tests/hosts/l40s-4u/sys.txt
pf=0000:3f:00.0 pf2=0000:bd:00.0 gpu=0000:3e:00.0
vfs="0000:3f:00.1 0000:3f:00.2"
with_pool() { velad_conf "/^vfs_on_demand/i\\vfs = 2 $pf $pf2\\nbind = $gpu vf"; }
boot() { rm -f "$dir/uevents"; mount_host --uevents "$dir/uevents" "$@" "$host" || exit 1; } # a reboot: the store stays
wipe() { stop_velad KILL; rm -f "$dir"/velad.db*; }
attr() { cat "$sys/devices/$1/$2"; }
pool_state() { ctl -o json pool show | of '" ".join(sorted(set(s["state"] for s in d["held"])))'; }
settled() { ctl -o json op list 2>/dev/null | grep -c '"finished": *null'; }
ops() { ctl -o json op list | of '" ".join(o["kind"] + ":" + o["state"] for o in d["operations"])'; }
error() { ctl -o json pool show | of 'd["error"]'; }
ready() { echo "$(attr $pf sriov_numvfs)$(attr $pf2 sriov_numvfs) $(for f in $vfs $gpu; do driver "$f"; done | sort -u)"; }
writes() { sys_writes | wc -l; }
guest=(--gpus 1 --vfs-per-gpu 1 --vcpus 1 --memory 256M --require $gpu --gdr off)

boot
cat "$sim/state" >"$dir/before"
with_pool
start_velad
until_is 0 settled
is "velad's start makes VFs and binds, in one operation" "22 vfio-pci pool-apply:succeeded" "$(ready) $(ops)"
is "no driver of the host is asked for VFs" "0 0 2" "$(attr $pf sriov_drivers_autoprobe) $(attr $pf2 sriov_drivers_autoprobe) $(
	cat "$sim/log" | grep -c '/sriov_drivers_autoprobe ')"
is "every write was in the plan that is shown" "" "$(cat "$sim/log" | grep '^sys/' | grep -o '0000:[0-9a-f:.]*/[a-z_]* \|[a-z_-]*/\(un\)\?bind .*' |
	grep -v "^0000:\(3f:00\|bd:00\|3e:00\)\.[012]/\(sriov_numvfs\|sriov_drivers_autoprobe\|driver_override\) $\|^\(vfio-pci/bind\|nvidia/unbind\) ")"
is "pool show has every step, done" "done" "$(pool_state)"
is "pool plan says that all is so" "True" "$(ctl -o json pool plan | of 'all(s["from"] == s["to"] for s in d["steps"] if s["id"] in ("bind", "vf-count"))')"
is "its document is as docs/openapi.json says" "True" "$(ctl -o json pool show | of '(lambda s: sorted(d) == sorted(s["properties"]) == sorted(
	s["required"]))(json.load(open("docs/openapi.json"))["components"]["schemas"]["Pool"])')"

# ---- a guest that comes while it is made
for slow in driver_override sriov_numvfs; do
	wipe
	boot
	with_pool
	put "*/$slow:write:delay 300" "$sim/fault"
	start_velad
	out=$(ctl create one "${guest[@]}" 2>&1) || not_ok "a create while $slow of the pool is slow" "$(tail -n 2 <<<"$out")"
	is "a create that comes while the pool is made waits for it, and makes nothing of it" "2 create:succeeded pool-apply:succeeded" "$(attr $pf sriov_numvfs) $(ops)"
	put clear "$sim/fault"
	ctl delete one >/dev/null 2>&1
done

# ---- a guest of it
wipe
boot
with_pool
start_velad
until_is 0 settled
put '' "$sim/log"
out=$(ctl create one "${guest[@]}" 2>&1) || not_ok "create" "$out"
is "a create makes no VFs and binds nothing" "0" "$(sys_writes | grep -c 'sriov_numvfs\|driver_override\|/bind\|/unbind')"
is "its steps say that it is so already" "bind vfio-pci vf-count 2" "$(ctl -o json op show 2 | of '" ".join(sorted(set(
	s["id"] + " " + s["from"] for s in d["steps"] if s["id"] in ("bind", "vf-count") and s["from"] == s["to"])))')"
ctl pool release >/dev/null 2>&1
vf=$(ctl -o json show one | of 'd["bundle"]["vfs"][0]["bdf"]')
is "released while a guest runs: what it has stays with it" "2 vfio-pci vfio-pci nothing is in the pool" "$(
	attr "$(basename "$(readlink "$sys/devices/$vf/physfn")")" sriov_numvfs) $(driver "$vf") $(driver $gpu) $(ctl pool show | head -n 1)"
ctl delete one >/dev/null 2>&1
same "and is given back with it: the host is as before"
ctl pool apply >/dev/null 2>&1
ctl create one "${guest[@]}" >/dev/null 2>&1
ctl delete one >/dev/null 2>&1
is "of the pool: after the guest it stays with vfio-pci" "22 vfio-pci" "$(ready)"

# ---- once
put '' "$sim/log"
n=$(ops | wc -w)
stop_velad
start_velad
until_is 0 settled
is "started again: no operation, no write" "$n 0" "$(ops | wc -w) $(writes)"
stop_velad
boot
put '' "$sim/log"
start_velad
until_is 0 settled
is "after a reboot it is made again" "22 vfio-pci done" "$(ready) $(pool_state)"
stop_velad
velad_conf "/^vfs_on_demand/i\\vfs = 2 $pf\\nbind = vf"
start_velad
until_is 0 settled
is "what the configuration names no more is given back" "20 nvidia done" "$(attr $pf sriov_numvfs)$(attr $pf2 sriov_numvfs) $(driver $gpu) $(pool_state)"
stop_velad
velad_conf
start_velad
until_is 0 settled
same "without [pool]: the host is as before"
is "and on demand it is as ever" "3" "$(ctl -o json plan "${guest[@]}" | of 'sum(s["id"] in ("bind", "vf-count") and s["from"] != s["to"] for s in d["steps"])')"
stop_velad
velad_conf "s/^vfs_on_demand = .*/vfs_on_demand = no/"
start_velad
is "vfs_on_demand = no: without the pool's VFs it does not fit" "1" "$(ctl plan "${guest[@]}" 2>&1 | grep -c 'vfs_on_demand = yes' | sed 's/[1-9][0-9]*/1/')"
stop_velad

# ---- late, failing, hanging
wipe
boot --vf-delay 100
with_pool
start_velad
until_is 0 settled
is "VFs that the kernel brings late are waited for" "22 vfio-pci done" "$(ready) $(pool_state)"
wipe
boot
put "*/$pf/sriov_numvfs:write:EIO:1" "$sim/fault"
start_velad
until_is 0 settled
is "a port that fails is no reason for the others not to be ready" "02 vfio-pci pool-apply:failed 2 of 3 are ready" "$(
	attr $pf sriov_numvfs)$(attr $pf2 sriov_numvfs) $(driver $gpu) $(ops) $(error | grep -o '2 of 3 are ready')"
stop_velad
start_velad
until_is 0 settled
is "the next start tries it again" "22 vfio-pci done" "$(ready) $(pool_state)"
wipe
boot
with_pool
sed -i 's/^vfs = 300/vfs = 1/' "$dir/velad.conf" # [deadlines]
put "*/$pf/sriov_numvfs:write:hang 20:1" "$sim/fault"
start_velad
until_is 0 settled
is "one that hangs costs its own deadline; the others are ready" "2 vfio-pci pool-apply:failed" "$(attr $pf2 sriov_numvfs) $(driver $gpu) $(ops)"
put clear "$sim/fault"

# ---- killed after every write; each starts from what the one before gave back
with_one() { velad_conf "/^vfs_on_demand/i\\vfs = 1 $pf\\nbind = $gpu vf"; }
one() { echo "$(attr $pf sriov_numvfs) $(driver 0000:3f:00.1) $(driver $gpu)"; }
with_one
wipe
boot
start_velad
until_is 0 settled
n=$(writes)
bad=
if ((n < 6)); then not_ok "the pool takes at least 6 writes" "$n"; exit 1; fi # or the loop below would show nothing
stop_velad KILL
for ((k = 0; k < n; k++)); do
	wipe
	boot
	put "sys/*:write:hang 20:1:$k" "$sim/fault"
	start_velad
	for ((i = 0; i < 500 && $(writes) <= k; i++)); do sleep 0.01; done
	stop_velad KILL
	put clear "$sim/fault"
	start_velad
	until_is 0 settled
	[[ $(one) == "1 vfio-pci vfio-pci" && $(pool_state) == done ]] || bad+="write $k: $(one), $(pool_state), $(ops)"$'\n'
	stop_velad KILL
	velad_conf # [pool] is gone meanwhile
	start_velad
	until_is 0 settled
	diff=$(host_differs) || bad+="write $k: given back, the host differs: $diff"$'\n'
	with_one
done
if [[ $bad ]]; then not_ok "killed after each of $n writes" "$bad"; else ok "killed after each of $n writes: made to the end, and given back to the byte"; fi
summary
