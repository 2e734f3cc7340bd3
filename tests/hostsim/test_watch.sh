#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# velad hears of changes: real velad on a simulated kernel that tells by uevents. Each change must be in the topology
# and in the list of changes, and the topology be what a full reading gives. test_watch.sh [BUILD].
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
velad=
cleanup() { stop_velad; }
# shellcheck source=tests/hostsim/sim.bash
. tests/hostsim/sim.bash
gpu=0000:19:00.0 pf=0000:1a:00.0 vf=0000:1a:00.1 port=0000:17:02.0

mount_host --uevents "$dir/uevents" tests/hosts/xe9680/sys.txt || exit 1
velad_conf
start_velad
# get PATH [EXPRESSION [SECONDS]]: the answer, or a part of it as python's `d`; with SECONDS, asked until that is true
get() {
	python3 - "$dir/sock" "$@" <<-'END'
		import http.client, json, socket, sys, time
		c = http.client.HTTPConnection("velad")
		c.sock = socket.socket(socket.AF_UNIX)
		c.sock.connect(sys.argv[1])
		until = time.monotonic() + float(sys.argv[4] if len(sys.argv) > 4 else 0)
		while True:
		    c.request("GET", sys.argv[2])
		    d = json.load(c.getresponse())
		    value = eval(sys.argv[3]) if len(sys.argv) > 3 else json.dumps(d)
		    if value or time.monotonic() >= until:
		        break
		    time.sleep(0.02)
		print(value)
	END
}
last=$(get /v1/topology 'd["generation"]')
# heard [N]: waits for N (1) generations, without asking velad to look; then it is asked, for what has come meanwhile; what they
# changed, "BDF WHAT FIELD OLD NEW", a line each, is in $seen
heard() {
	get "/v1/changes/$last" "d['generation'] >= $last + ${1:-1}" 5 >/dev/null
	get /v1/topology >/dev/null
	seen=$(get "/v1/changes/$last" '"\n".join(" ".join(str(i[k]) for k in ("bdf", "what", "field", "old", "new"))
		for c in d["changes"] for i in c["items"])')
	last=$(get "/v1/changes/$last" 'd["generation"]')
}
# whole TEXT: velad's topology is what reading everything gives
whole() {
	local strip='sorted((n["bdf"], json.dumps({k: v for k, v in n.items() if k != "owner"}, sort_keys=True))
		for n in d["nodes"]), d["matrix"], d["findings"]'
	is "$1: equals a full reading" "$("$build/velactl" --root "$mnt" --conf "$dir/velad.conf" -o json topo | of "$strip")" \
		"$(get /v1/topology "$strip")"
}
calls() { grep -c 'reading all of it' "$dir/velad.log"; }

timeout 600 "$build/velactl" --conf "$dir/velad.conf" watch >"$dir/watch" 2>&1 & # stays until velad ends
watch=$!
timeout 600 "$build/velactl" --conf "$dir/velad.conf" watch -o json >"$dir/watch.json" 2>&1 &
sleep 0.5
put $gpu $sys/drivers/nvidia/unbind
heard
is "unbind is heard of" "$gpu changed driver nvidia None" "$seen"
put vfio-pci $sys/devices/$gpu/driver_override
put $gpu $sys/drivers/vfio-pci/bind
heard
is "bind is heard of, and what was written before it" "$gpu changed driver None vfio-pci
$gpu changed driver_override None vfio-pci
$gpu changed power.control on auto
$gpu changed power.d3cold_allowed None True" "$seen"
whole "bind"

put 16 $sys/devices/$pf/sriov_numvfs
heard
is "16 VFs are heard of" "16 1" "$(grep -c ' added ' <<<"$seen") $(grep -c "^$pf changed sriov.num 0 16" <<<"$seen")"
whole "16 VFs"
put $vf $sys/drivers/mlx5_core/unbind
heard
is "a VF's driver is heard of" "$vf changed driver mlx5_core None" "$seen"
put 0 $sys/devices/$pf/sriov_numvfs
heard
is "VFs that go are heard of" "16 1" "$(grep -c ' removed ' <<<"$seen") $(grep -c "^$pf changed sriov.num 16 0" <<<"$seen")"
whole "no VFs"

put "remove $port" $sim/event
heard
is "a port that goes takes what is below along" "$pf removed $port removed" "$(awk '{ print $1, $2 }' <<<"$seen" | sort -r | xargs)"
whole "a port less"

before=$(calls)
put "uevents lose 1" $sim/event
put $gpu $sys/drivers/vfio-pci/unbind
put '' $sys/devices/$gpu/driver_override
put $gpu $sys/drivers/nvidia/bind
heard
is "lost events are known to be lost" $((before + 1)) "$(calls)"
is "and everything is read then" "$gpu nvidia" "$(awk '$3 == "driver" { print $1, $5 }' <<<"$seen")"
whole "lost events"

put "uevents lose 1000000" $sim/event
put $gpu $sys/drivers/nvidia/unbind
plan=$(ctl -o json plan --gpus 1 --vcpus 1 --memory 256M --require $gpu)
is "a plan reads what it stands on: no event came" "$gpu none" "$(of '[(s["target"], s["from"]) for s in d["steps"]
	if s["id"] == "bind"][0]' <<<"$plan" | tr -d "(),'" | sed 's/(none)/none/')"
is "and it says so" 1 "$(grep -c 'differs from what was heard of' "$dir/velad.log")"

last=$(get /v1/changes/$last 'd["generation"]') # with what the plan found
for ((i = 0; i < 100; i++)); do # each asks once a second
	tail -n 1 "$dir/watch.json" | grep -q '"generation":'"$last" && [[ $(wc -l <"$dir/watch.json") == "$(wc -l <"$dir/watch")" ]] && break
	sleep 0.1
done
is "velactl watch: a line" "$gpu  gpu        driver  nvidia -> -" "$(head -n 1 "$dir/watch" | cut -c 18-)"
is "velactl watch: as many as there are items" "$(wc -l <"$dir/watch.json")" "$(wc -l <"$dir/watch")"
is "velactl watch -o json: documents" "$gpu driver" "$(head -n 1 "$dir/watch.json" | of 'd["bdf"] + " " + d["field"]')"

is "an old generation is gone" "410 gone" "$(get /v1/changes/0 '"%d %s" % (d["status"], d["code"])')"
is "one to come, too" "410" "$(get /v1/changes/$((last + 50)) 'd["status"]')"
is "what is no number is refused" "400 invalid" "$(get /v1/changes/x '"%d %s" % (d["status"], d["code"])')"

stop_velad
wait "$watch"
is "velactl watch ends with velad" "7" "$?"

summary
