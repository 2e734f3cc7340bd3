#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the API promises: real velad on a simulated host. Operations are waited for and listed; a request with an
# Idempotency-Key happens once, also over a restart; If-Match holds a plan to its topology. test_api.sh [BUILD]
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
http() { timeout 30 tests/hostsim/ask.py "$dir/sock" "$@" >"$dir/answer"; head -n 1 "$dir/answer"; }
body() { tail -n +2 "$dir/answer" | of "$1"; }
request='{"name":"one","gpus":1,"vfs_per_gpu":1,"vcpus":1,"memory":"256M"}'

# ---- waiting
is "accepted, and where its operation is" "202 Location=/v1/operations/1" "$(http POST /v1/instances "$request")"
start=$SECONDS
is "the answer comes with the end, not with the time" "200 yes" "$(http GET '/v1/operations/1?wait=25') $( ((SECONDS - start < 20)) && echo yes)"
is "it has succeeded with all its steps" "succeeded True" "$(body '"%s %s" % (d["state"], d["progress"]["done"] == d["progress"]["total"] == len(d["steps"]) > 2)')"
is "no need to wait for what has ended" "200" "$(http GET '/v1/operations/1?wait=60')"
is "sixty-one seconds is too long" "400 wait=61 is no number from 0 to 60" "$(http GET '/v1/operations/1?wait=61') $(body 'd["detail"]')"
is "a parameter that is none" "400" "$(http GET '/v1/operations/1?wate=1')"

# ---- one request, once
two=${request/one/two}
is "a delete with a key" "202 Location=/v1/operations/2" "$(http DELETE /v1/instances/one '' Idempotency-Key:del-1)"
http GET '/v1/operations/2?wait=20' >/dev/null
is "again: the same operation, and no \"not found\"" "202 Location=/v1/operations/2" "$(http DELETE /v1/instances/one '' Idempotency-Key:del-1)"
is "a create with a key" "202 Location=/v1/operations/3" "$(http POST /v1/instances "$two" Idempotency-Key:new-2)"
http GET '/v1/operations/3?wait=20' >/dev/null
is "again: the same operation" "202 Location=/v1/operations/3 succeeded" "$(http POST /v1/instances "$two" Idempotency-Key:new-2) $(body 'd["state"]')"
is "without the key it is another request" "409 exists" "$(http POST /v1/instances "$two") $(body 'd["code"]')"
is "the key with another body" "422 key_reused" "$(http POST /v1/instances "${two/256M/512M}" Idempotency-Key:new-2) $(body 'd["code"]')"
is "the key on another path" "422" "$(http DELETE /v1/instances/two '' Idempotency-Key:new-2)"
is "what is refused uses no key up" "404 409" "$(http DELETE /v1/instances/nine '' Idempotency-Key:k) $(http POST /v1/instances "$two" Idempotency-Key:k)"
is "a key where none is heeded" "400" "$(http POST /v1/plans "$request" Idempotency-Key:k)"
stop_velad KILL
start_velad
is "velad was killed: the key is known" "202 Location=/v1/operations/3" "$(http POST /v1/instances "$two" Idempotency-Key:new-2)"
is "as is another body" "422" "$(http POST /v1/instances "${two/256M/512M}" Idempotency-Key:new-2)"
until_is "gate succeeded" eval "http GET /v1/operations/4 >/dev/null; body 'd[\"kind\"] + \" \" + d[\"state\"]'" # with velad its guest has ended, the test driver's

# ---- lists
http GET '/v1/operations?limit=2' >/dev/null
is "operations, newest first" "[4, 3] 3" "$(body '"%s %s" % ([o["id"] for o in d["operations"]], d["next"])')"
http GET '/v1/operations?before=2' >/dev/null
is "the next page" "[1] None" "$(body '"%s %s" % ([o["id"] for o in d["operations"]], d["next"])')"
http GET '/v1/operations?instance=one&state=succeeded' >/dev/null
is "those of one instance" "[2, 1]" "$(body '[o["id"] for o in d["operations"]]')"

http POST /v1/instances "${request/'"name":"one"'/'"name":"tagged","tags":{"team":"blue","x/y":"1"}'}" >/dev/null
tagged=$(of 'd["id"]' < <(tail -n +2 "$dir/answer"))
http GET "/v1/operations/$tagged?wait=20" >/dev/null
for query in tag=team tag=team=blue tag=team=red tag=x%2fy=1 'state=running&tag=team' state=failed 'limit=1&view=brief' after=tagged; do
	http GET "/v1/instances?$query" >/dev/null
	body '"%s %s" % (",".join(i["name"] for i in d["instances"]), d["next"])'
done >"$dir/lists"
is "instances by tag and state, and in pages" "tagged None|tagged None| None|tagged None|tagged None| None|tagged tagged|two None|" "$(tr '\n' '|' <"$dir/lists")"
is "what is no state, and no view" "400 400 400" "$(http GET '/v1/instances?state=asleep') $(http GET '/v1/instances?view=long') $(http GET '/v1/instances?limit=0')"
http DELETE /v1/instances/tagged >/dev/null
http GET "/v1/operations/$((tagged + 1))?wait=20" >/dev/null

# ---- reserved, and started later
http POST /v1/instances "${request/'"name":"one"'/'"name":"later","start":false'}" >/dev/null
is "not started: its operation has ended with the answer, and it has its devices" "succeeded stopped 1 1" "$(body 'd["state"]') $(
	http GET /v1/instances/later >/dev/null; body '"%s %d %d" % (d["state"], len(d["bundle"]["gpus"]), len(d["bundle"]["vfs"]))')"
is "start is a word for yes or no" "400" "$(http POST /v1/instances "${request/'"name":"one"'/'"name":"x","start":1'}")"
is "by hand: started, stopped, and deleted" "later is running|later is stopped|later is deleted|" "$(for verb in start stop delete; do
	ctl "$verb" later 2>&1 | tail -n 1; done | tr '\n' '|')"
is "and one that never was" "again is stopped, and has its devices|again is deleted|" "$(
	(ctl create again --gpus 1 --no-start --memory 256M | tail -n 1; ctl delete again | tail -n 1) | tr '\n' '|')"

# ---- figures
is "figures for Prometheus" "200" "$(http GET /metrics)"
# prometheus.io/docs/instrumenting/exposition_formats: HELP and TYPE once and before the samples of their metric, which stand
# together, no series twice; and by its habits only counters end in _total
is "in the order that the format wants" "gauge counter" "$(tail -n +2 "$dir/answer" | python3 -c '
import re, sys
types, done, series, last = {}, set(), set(), None
for line in sys.stdin.read().splitlines():
    m = re.fullmatch(r"# (HELP|TYPE) (velad_[a-z_]+) (.+)", line)
    if m and m[1] == "HELP":
        assert m[2] not in done and m[3].endswith("."), line
        done.add(m[2])
        last = m[2]
    elif m:
        assert m[2] == last and m[2] not in types and m[2].endswith("_total") == (m[3] == "counter"), line
        types[m[2]] = m[3]
    elif line:
        name, value = re.fullmatch(r"(.+) ([0-9]+)", line).groups()
        assert name.split("{")[0] == last in types and name not in series, line
        series.add(name)
assert {"velad_hanging_calls", "velad_quarantined_functions"} <= series, series
print(*sorted(set(types.values()), reverse=True))')"
is "nothing hangs, nothing is in quarantine" "velad_quarantined_functions 0 velad_hanging_calls 0" "$(grep -E '^velad_(hanging|quarantined)' "$dir/answer" | tr '\n' ' ' | sed 's/ $//')"
is "each line is one" "" "$(tail -n +2 "$dir/answer" | grep -Ev '^$|^# (HELP|TYPE) velad_[a-z_]+ .+|^velad_[a-z_]+(\{[a-z]+="[a-z0-9-]+"(,[a-z]+="[a-z0-9-]+")*\})? [0-9]+$')"
is "what there is" 'velad_instances 1
velad_operations{kind="create",state="succeeded"} 5
velad_operations{kind="delete",state="succeeded"} 4
velad_operations{kind="gate",state="succeeded"} 1
velad_operations{kind="start",state="succeeded"} 1
velad_operations{kind="stop",state="succeeded"} 1' "$(grep -E '^velad_(instances|operations)\{' "$dir/answer" | sed 's/^\(velad_instances\){[^}]*}/\1/')" # with velad the test driver's domains went
sick=$(ctl -o json topo | of "[n['bdf'] for n in d['nodes'] if n['kind'] == 'gpu'][-1]")
ctl quarantine add "$sick" "it is sick" >/dev/null
is "one is in quarantine" "200 1" "$(http GET /metrics) $(sed -n 's/^velad_quarantined_functions //p' "$dir/answer")"
ctl quarantine release "$sick" >/dev/null

# ---- generations
etag=$(http GET /v1/topology)
etag=${etag#*ETag=}
is "a plan says its generation" "200 ETag=$etag" "$(http POST /v1/plans "${request/one/three}" "If-Match:$etag")"
is "which is the document's" "True" "$(body "'\"%d\"' % d['generation'] == '''$etag'''")"
is "made of another generation" "412 changed" "$(http POST /v1/plans "$request" 'If-Match:"1000"') $(body 'd["code"]')"
is "nothing is begun then" "412 404" "$(http POST /v1/instances "${request/one/three}" 'If-Match:"1000"') $(http GET /v1/instances/three)"

# ---- generations of an instance
http GET '/v1/operations?limit=1' >/dev/null
last=$(body 'd["operations"][0]["id"]')
tag=$(http GET /v1/instances/two)
tag=${tag#*ETag=}
is "an instance says its generation" "True" "$(body "'\"%d\"' % d['generation'] == '''$tag'''")"
is "not that generation: nothing begins" "412 412 412 412 412" "$(for what in start stop reboot reset; do http POST /v1/instances/two/$what '' 'If-Match:"0"'; done | tr '\n' ' ')$(http DELETE /v1/instances/two '' 'If-Match:"0"')"
is "nor without an instance" "404" "$(http DELETE /v1/instances/nine '' "If-Match:$tag")"
is "nor was it touched" "200 ETag=$tag" "$(http GET /v1/instances/two)"
is "that generation" "202 Location=/v1/operations/$((last + 1))" "$(http DELETE /v1/instances/two '' "If-Match:$tag")"
is "by now it is another one, or gone" "412 404" "$(http DELETE /v1/instances/two '' "If-Match:$tag" | sed s/404/412/) $(http GET "/v1/operations/$((last + 1))?wait=20" >/dev/null; http GET /v1/instances/two)"
is "If-Match where nothing has a generation" "400" "$(http POST /v1/operations/$((last + 1))/cancel '' 'If-Match:"1"')"

# ---- case 80: a start takes longer than its client waits (here for a driver; on a host, for memory)
slow=$(ctl -o json topo | of "[n['bdf'] for n in d['nodes'] if n['kind'] == 'gpu'][0]")
echo "sys/bus/pci/drivers/vfio-pci/bind:write:hang 600:1" >"$sim/fault"
ctl create slow --gpus 1 --require "$slow" --vcpus 1 --memory 256M --timeout 1 >"$dir/slow" 2>&1
is "case 80: the client's time is up, and it is told how to go on" "8 1" "$? $(grep -c "goes on; see velactl op wait [0-9]*$" "$dir/slow")"
id=$(grep -o '[0-9]*$' "$dir/slow" | tail -n 1)
is "case 80: the operation goes on, and others are answered" "running provisioning" "$(ctl -o json op show "$id" | of 'd["state"]') $(ctl -o json show slow | of 'd["state"]')"
is "case 80: asked for again, it is not made twice" 4 "$(ctl create slow --gpus 1 --vcpus 1 --memory 256M >/dev/null 2>&1; echo $?)"
(sleep 0.5; echo clear >"$sim/fault") &
ctl op wait "$id" >/dev/null 2>&1
is "case 80: another client hears the end of it" "0 succeeded running" "$? $(ctl -o json op show "$id" | of 'd["state"]') $(ctl -o json show slow | of 'd["state"]')"
ctl delete slow >/dev/null 2>&1
summary
