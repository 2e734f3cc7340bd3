#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# velactl as a user meets it: exit statuses, messages, output. cli.sh [BUILD]; prints ok / not ok lines.
# fake_velad.py gives the answers of a daemon.
# shellcheck disable=SC2016 # what eval gets expands there
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
velactl=$(realpath "${1:-build}/velactl")
host=tests/hosts/xe9680/sys.txt
dir=$(mktemp -d)
export LC_ALL=C.UTF-8 TERM=xterm
unset COLUMNS NO_COLOR JOURNAL_STREAM
passed=0
failed=0
daemon=
finish() {
	[[ $daemon ]] && kill "$daemon" 2>/dev/null
	rm -rf "$dir"
}
trap finish EXIT

ok() {
	passed=$((passed + 1))
	echo "ok - $1"
}
not_ok() {
	failed=$((failed + 1))
	echo "not ok - $1"
	sed 's/^/#   /' <<<"${2:-}"
}
# check TEXT COMMAND...: the command succeeds
check() {
	local text=$1 out
	shift
	if out=$("$@" 2>&1); then ok "$text"; else not_ok "$text" "$out"; fi
}
# run ARGUMENTS...: velactl; output in $dir/out and $dir/err, status in $rc
run() {
	"$velactl" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
}
# says STATUS MESSAGE ARGUMENTS...: nothing on stdout, one line on stderr, without the leading "velactl: "
says() {
	local status=$1 message=$2
	shift 2
	run "$@"
	if [[ $rc == "$status" && $(<"$dir/err") == "velactl: $message" && ! -s $dir/out ]]; then
		ok "$* (exit $status)"
	else
		not_ok "$* (exit $status)" "exit $rc: $(cat "$dir/err") $(head -n 3 "$dir/out")"
	fi
}
# gives STATUS PATTERN ARGUMENTS...: the pattern is on stdout
gives() {
	local status=$1 pattern=$2
	shift 2
	run "$@"
	if [[ $rc == "$status" ]] && grep -Eq -- "$pattern" "$dir/out"; then
		ok "$* (exit $status)"
	else
		not_ok "$* (exit $status)" "exit $rc, wanted $pattern: $(cat "$dir/err") $(head -n 20 "$dir/out")"
	fi
}
json() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$dir/out" "$1"; }
# narrow FILE WIDTH: no line of it is wider
narrow() { python3 -c 'import sys; sys.exit(max(len(l.rstrip("\r\n")) for l in open(sys.argv[1])) > int(sys.argv[2]))' "$1" "$2"; }
# terminal WIDTH ARGUMENTS...: on a pty of that width; output in $dir/out
terminal() {
	local width=$1
	shift
	script -qec "stty cols $width rows 50; $velactl $*" /dev/null </dev/null >"$dir/out" 2>/dev/null
}

# ---- bad usage
says 2 'which verb? see velactl help'
says 2 'unknown verb "foo"; see velactl help' foo
says 2 'unknown verb "tpoo"; did you mean topo? see velactl help' tpoo
says 2 'op what? say op list or op show or op wait or op cancel' op
says 2 'unknown option --vfz; did you mean --vfs?' plan --vfz 2
says 2 'plan has no option --gpu; see velactl help plan' plan --gpu 2
says 2 '--memory: "12Q" is not a size; say 512M or 4G' plan --memory 12Q
says 2 '--gpus: "many" is not a whole number' plan --gpus many
says 2 '--gpus is 99, allowed are 0 to 16' plan --gpus 99
says 2 '--max-path is "NEAR"; known are PIX, PXB, PHB, NODE, SYS' plan --max-path NEAR
says 2 'create: NAME is missing; usage: velactl create NAME [FLAGS | --file FILE]' create --gpus 1
says 2 'show: an argument is missing; usage: velactl show NAME | BDF [--vpd]' show
says 2 'show NAME asks velad and cannot work with --root' show train-1 --root /
says 2 'show NAME has no option --vpd; see velactl help show NAME' show train-1 --vpd
says 2 'list: too many arguments; usage: velactl list [--state WORD] [--tag KEY=VAL]' list all
says 2 'list asks velad and cannot work with --root' list --root /
says 2 'list has no option --xml; see velactl help list' list --xml
says 2 '--root and --host are two hosts; say one of them' topo --root / --host x
says 2 '"0x7" is not the number of an operation' op show 0x7
says 2 '"../host" cannot be a guest'\''s name: those have lower-case letters, digits and -, up to 40' show ../host
says 1 'cannot read /nonexistent: No such file or directory' plan --file /nonexistent

# ---- hosts that are none
says 1 'cannot read the text host /nonexistent: No such file or directory' topo --host /nonexistent
says 2 'Makefile is not a text host: its first line is not "# velad text host 1"' topo --host Makefile
printf '# velad text host 1\nsys/a\tb\nno tab here\n' >"$dir/broken.txt"
run topo --host "$dir/broken.txt"
check 'a broken text host: exit 2, and the line is named' eval '((rc == 2)) && grep -Fq "broken.txt:3" "$dir/err"'
says 1 'cannot enter the root /nonexistent: No such file or directory' topo --root /nonexistent

# ---- help
gives 0 '^usage: velactl ' help
check "help is no wider than 80 columns" bash -c '"$1" help | awk "length > 80 { print; wide = 1 } END { exit wide }"' - "$velactl"
gives 0 '^velactl [0-9.]+$' --version
gives 0 '^usage: velactl plan ' plan --help
gives 0 '^usage: velactl op wait ' help op wait
says 2 'unknown verb "foo"; see velactl help' help foo
says 2 'instance what? say create or list or show or nccl-topology or rank-map or start or stop or console or log or reboot or reset or delete' instance images
gives 0 '^usage: velactl rank-map NAME' help instance rank-map
man=docs/velactl.1
missing=
"$velactl" help | sed -nE '/^options/q; s/^  ((acs|pool|quarantine|images|op) [a-z]+|[a-z-]+) .*/\1/p' >"$dir/verbs"
check 'the help has verbs of one word, and of two' eval '(($(grep -c " " "$dir/verbs") > 10 && $(grep -vc " " "$dir/verbs") > 20))'
: >"$dir/options"
while read -r verb; do
	# shellcheck disable=SC2086 # two words: op show
	run help $verb
	narrow "$dir/out" 80 || missing+=" (a line of help $verb is too long)"
	grep -q "^\.Cm .*${verb%% *}" "$man" && grep -qE "^\.(Cm|It Cm) (.*\| )?$verb( |\$)|^\.Cm ${verb% *} .*${verb#* }" "$man" || missing+=" $verb"
	grep -oE -- '--[a-z0-9-]+' "$dir/out" >>"$dir/options"
	grep -Eq "(^|[ |'])${verb%% *}([ |)']|\$)" conf/velactl.bash || missing+=" (completion: $verb)"
done <"$dir/verbs"
grep -oE 'Fl -[a-z][a-z0-9-]+|, -[a-z][a-z0-9-]+' "$man" | sed -E 's/^(Fl|,) -/--/' | sort -u >"$dir/documented"
missing+=$(sort -u "$dir/options" | comm -3 - "$dir/documented" | sed 's/^\t/documented only: /')
if [[ $missing ]]; then not_ok 'the man page and the completion have every verb and option of the help, and the man page no more' "$missing"; else ok 'the man page and the completion have every verb and option of the help, and the man page no more'; fi

# ---- without velad
says 7 "velad is not there on $dir/sock (No such file or directory): systemctl start velad.socket" --socket "$dir/sock" list
run --socket "$dir/sock" topo
check 'topo without velad: exit 7, and how to go on' eval '((rc == 7)) && grep -q "or read this machine without velad: --root /$" "$dir/err"'
gives 0 '0000:19:00\.0 +gpu' topo --host "$host"
gives 0 '^GPU0 .*PIX' topo -m --host "$host"
# ---- routes and ACS
gives 0 '^0000:1a:00.0  nic  R ' routes --host "$host"
gives 0 '^0000:19:00.0  gpu     +R ' routes --host "$host"
run routes --host "$host" --gpu 0000:19:00.0
check 'routes --gpu has a line for each' eval '((rc == 0)) && grep -q "^0000:1a:00.0  nic   PIX   redirected  63.0  rr" "$dir/out"'
gives 0 '^  0000:17:02\.0 is sent up: P2P Request Redirect$' routes 0000:1a:00.0 0000:19:00.0 --host "$host"
gives 0 '^  0000:15:01\.0 turns round in the root complex' routes --explain 0000:1a:00.0 0000:19:00.0 --host "$host"
says 3 'there is no function 0000:ff:00.0; velactl topo lists them' routes 0000:ff:00.0 0000:19:00.0 --host "$host"
says 2 '"gpu0" is no PCI address: say 0000:4c:00.0' routes gpu0 0000:19:00.0 --host "$host"
says 2 'routes takes two functions, or --gpu and --with and none' routes 0000:19:00.0 --host "$host"
says 2 '--with takes acs-plan, not "acs"' routes --with acs --host "$host"
says 3 'there is no GPU 0000:1a:00.0 with a NIC or another GPU; velactl topo lists them' routes --gpu 0000:1a:00.0 --host "$host"
says 3 'this host has no GPU and NIC to plan for' acs plan --host tests/hosts/lab/sys.txt
gives 0 'mlxconfig -d 0000:1a:00.0 set' acs plan --host "$host"
gives 0 '^0000:17:02\.0  dsp        0x5f  0x1d  SV\+ TB- RR\+ CR\+ UF\+ EC\. DT-$' acs show --host "$host"
run -o json acs plan --host "$host"
check 'acs plan -o json: twelve pairs, no write' json 'len(d["pairs"]) == 12 and d["writes"] == [] and d["boot"] is None'
# ---- doctor
run doctor --host "$host"
check 'doctor: exit 100, and the fix of an error' eval '((rc == 100)) && grep -q "fix  *mlxconfig -d BDF set ATS_ENABLED=true" "$dir/out"'
COLUMNS=80 run doctor --all --host tests/hosts/cascade/sys.txt
check 'doctor --all fits into 80 columns' narrow "$dir/out" 80
check 'doctor --all also has what passes' eval 'grep -q "^pass  *iommu.off " "$dir/out"'
gives 0 '^unknown   gpu.bar-qemu' doctor --host tests/hosts/snc4/sys.txt
gives 101 '^unknown   boot.noats' doctor --host tests/hosts/rdma-topo-direct-nic/rdma_topo.json
run -o json doctor --host "$host"
check 'doctor -o json: the document' json 'd["counts"]["error"] == 12 and d["checks"][0]["id"] == "ats.absent"'
check 'doctor -o json: the same exit status' eval '((rc == 100))'
gives 0 '^ats.absent \(error\): ' doctor --explain ats.absent
gives 0 'mlxconfig|vendor' -o json doctor --explain ats.absent
says 3 'there is no check ats.none; velactl doctor --all lists them' doctor --explain ats.none
says 2 'to explain a check say: velactl doctor --explain ID' doctor ats.absent
gives 0 '0000:15:02\.0|0000:00:' topo --all --host "$host"
gives 0 '10de:2330' topo --numeric --host "$host"
gives 0 '^IOMMU +on' host --host "$host"
gives 0 '^below +0000:15:01\.0  root-port' show 19:00.0 --host "$host"
gives 0 '^acs +present: cap 0x5f .*ctl 0x1d SrcValid ReqRedir' show 0000:17:01.0 --numeric --host "$host"
COLUMNS=80 run show 0000:19:00.0 --host "$host"
check 'a function fits into 80 columns' narrow "$dir/out" 80
run -o json show 0000:19:00.0 --host "$host"
check 'a function as JSON is its node, without VPD' json 'd["bdf"] == "0000:19:00.0" and d["msix"]["vectors"] > 0 and "vpd" not in d'
says 3 'there is no PCI function 0000:ff:00.0; velactl topo --all has all' show ff:00.0 --host "$host"
says 2 'this text host has no VPD: serial numbers are not in dumps' show 0000:19:00.0 --vpd --host "$host"
tests/hosts/unpack "$host" "$dir/vpd"
printf '\202\3\0NIC\220\14\0SN\3A7\1EC\4B2 \170' >"$dir/vpd/sys/bus/pci/devices/0000:1a:00.0/vpd" # SN is no text, and EC leaves its tag
says 1 'the VPD of 0000:1a:00.0 is no list of resource data tags' show 0000:1a:00.0 --vpd --root "$dir/vpd"
printf '\202\3\0NIC\220\14\0SN\3A7\1EC\3B2 \170' >"$dir/vpd/sys/bus/pci/devices/0000:1a:00.0/vpd"
run -o json show 0000:1a:00.0 --vpd --root "$dir/vpd"
check 'VPD on request' json 'd["vpd"] == {"name": "NIC", "fields": [{"key": "SN", "value": None, "writable": False}, {"key": "EC", "value": "B2", "writable": False}], "checksum": "absent"}'
gives 0 '^vpd +name NIC, fields key SN' show 0000:1a:00.0 --vpd --root "$dir/vpd"
says 1 'cannot read the VPD of 0000:19:00.0: it has none' show 0000:19:00.0 --vpd --root "$dir/vpd"
gives 0 '^fits: 2 GPUs, 2 VFs; worst GPU-VF path PIX' plan --gpus 2 --vfs-per-gpu 1 --max-path PIX --host "$host"
gives 0 '^bind +0000:19:00\.0 +nvidia +vfio-pci$' plan --gpus 1 --host "$host"
gives 0 '^<domain ' plan a --xml --gpus 1 --host "$host"
gives 5 '^does not fit:$' plan --gpus 9 --host "$host"
gives 5 'the IOMMU is off' plan --gpus 2 --host tests/hosts/xe9680-iommu-off/sys.txt
gives 5 '"fits": ?false' -o json plan --gpus 2 --host tests/hosts/xe9680-iommu-off/sys.txt
check 'its first reason is iommu.off' json 'd["reasons"][0]["rule"] == "iommu.off"'
run -o json topo --host "$host"
check 'topo -o json is a topology' json 'len(d["nodes"]) == 102 and len(d["matrix"]["devices"]) == 32 and [g["rail"] for g in d["gpus"]] == list(range(8))'
run -o json path 4c:00.0 0000:bb:00.0 --host "$host"
check 'path -o json is a path' json '(d["class"], d["from"], len(d["hops"]), d["bandwidth"]) == ("SYS", "0000:4c:00.0", 10, 63015384615)'
gives 0 '^SYS, NUMA distance 21: at most 63.0 GB/s' path 4c:00.0 bb:00.0 --host "$host"
says 3 'there is no function 0000:4c:00.1 on this host; velactl topo --all lists them' path 4c:00.0 4c:00.1 --host "$host"
gives 0 '^0000:19:00.0 ' path GPU0 nic11 --host "$host"
gives 0 '^0000:dc:00.0 ' path GPU0 nic11 --host "$host"
says 2 'path: "GPU8" is not a PCI address such as 0000:4c:00.0, and no label of velactl topo -m' path GPU8 4c:00.1 --host "$host"
echo '{"gpus": 2, "vfs_per_gpu": 1}' >"$dir/req.json"
gives 0 '^domain +b +absent +running$' plan b --file "$dir/req.json" --host "$host"
check 'a request from standard input' eval '"$velactl" plan -f - --host "$host" <"$dir/req.json" | grep -q "^fits: 2 GPUs"'
run dump --host "$host"
cp "$dir/out" "$dir/dump.txt"
run dump --host "$dir/dump.txt" "$dir/again.txt"
check 'dump FILE: a dump of a dump is the same text' eval '[[ $rc == 0 && ! -s $dir/out ]] && cmp "$dir/dump.txt" "$dir/again.txt"'
run dump --host "$host" --anonymize -
check 'dump --anonymize tells what it replaced' eval '[[ $rc == 0 ]] && ! grep -q vg0-root "$dir/out" &&
	grep -q "^velactl: replaced [0-9]* MAC addresses in .*boot arguments and descriptions in [0-9]* places$" "$dir/err"'
says 2 'dump needs a FILE, it is empty; - is standard output' dump --host "$host" ''
says 1 "cannot write $dir/no/dump.txt: No such file or directory" dump --host "$host" "$dir/no/dump.txt"
says 2 'topo has no option --anonymize; see velactl help topo' topo --anonymize --host "$host"
echo '[{"realpath": "/sys/devices/pci0000:00/0000:00:01.0"}]' >"$dir/bad.json"
says 2 "$dir/bad.json: function 0 (0000:00:01.0): config: it is missing" topo --host "$dir/bad.json"
"$velactl" -o json topo --host "$host" >"$dir/a"
"$velactl" -o json topo --host "$dir/dump.txt" >"$dir/b"
check 'a dump is the same host' cmp "$dir/a" "$dir/b"

# ---- output
# ---- pictures
says 2 'topo: too many arguments at "x"; only --dot takes one' topo x --host "$host"
says 2 'topo: too many arguments at "y"; only --dot takes one' topo --dot=x y --host "$host"
says 2 '--svg and --dot are two pictures; say one of them' topo --svg a --dot b --host "$host"
says 2 '--matrix is no picture; say it without --svg' topo -m --svg a --host "$host"
says 2 '-o json is no picture; say it without --dot' topo -o json --dot --host "$host"
says 2 '--svg needs a value: --svg FILE' topo --host "$host" --svg
says 1 "cannot write $dir/no/a.svg: No such file or directory" topo --svg "$dir/no/a.svg" --host "$host"
says 1 "cannot write $dir: Is a directory" topo --svg "$dir" --host "$host"
says 1 'cannot write /dev/full: No space left on device' topo --svg /dev/full --host "$host"
gives 0 '>GPU7<' topo --svg - --host "$host"
cp "$dir/out" "$dir/want.svg"
gives 0 'label="32GT/s x16"' topo --dot --host "$host"
cp "$dir/out" "$dir/want.dot"
ln -s a.svg "$dir/link.svg"
(umask 027; "$velactl" topo --svg "$dir/a.svg" --host "$host")
check 'a new file has the mode that umask leaves' test "$(stat -c %a "$dir/a.svg")" = 640
echo old >"$dir/a.svg"
run topo --svg "$dir/link.svg" --host "$host"
check 'a link stays, its file is replaced, nothing is left beside it' \
	eval '((rc == 0)) && [[ -L $dir/link.svg && ! -s $dir/out && ! -s $dir/err ]] && cmp "$dir/a.svg" "$dir/want.svg" &&
		[[ -z $(find "$dir" -name "*.svg.*") ]]'
for form in "--dot $dir/a.dot" "--dot=$dir/a.dot"; do
	rm -f "$dir/a.dot"
	# shellcheck disable=SC2086 # two words
	run topo $form --host "$host"
	check "topo ${form%%"$dir"*}FILE" cmp "$dir/a.dot" "$dir/want.dot"
done
for args in '' --all; do
	# shellcheck disable=SC2086 # none or one word
	check "topo --svg $args is XML" xmllint --noout <("$velactl" topo --svg - $args --host "$host")
	# shellcheck disable=SC2086
	check "topo --dot $args is DOT" eval '"$velactl" topo --dot $args --host "$host" | dot -Tsvg 2>"$dir/dot" >/dev/null && ! grep . "$dir/dot"'
done

run topo --host "$host"
check 'no escape sequences when it is no terminal' eval '! grep -q "$(printf "\033")" "$dir/out"'
check 'no blanks at the ends of lines' eval '! grep -q " $" "$dir/out"'
export COLUMNS=80
for verb in topo 'topo --all' 'topo -m' host 'plan --gpus 8 --vfs-per-gpu 1' 'plan --gpus 9'; do
	# shellcheck disable=SC2086 # words are arguments
	run $verb --host "$host"
	check "$verb with COLUMNS=80" narrow "$dir/out" 80
done
unset COLUMNS
terminal 80 topo --numeric --host "$host"
check 'a terminal of 80 columns: colours' grep -q "$(printf '\033')" "$dir/out"
NO_COLOR=1 terminal 80 topo --host "$host"
check 'NO_COLOR' eval '! grep -q "$(printf "\033")" "$dir/out"'
check 'a terminal of 80 columns: no line is longer' narrow "$dir/out" 80
NO_COLOR=1 terminal 160 topo --host "$host"
check 'a terminal of 160 columns has more of them' grep -q 'GROUP' "$dir/out"
"$velactl" topo --host "$host" >/dev/full 2>"$dir/err"
rc=$?
check 'a full disk: exit 1' eval '((rc == 1)) && grep -q "cannot write the output: No space left" "$dir/err"'
"$velactl" topo --host "$host" >&- 2>"$dir/err"
rc=$?
check 'standard output closed: exit 1' eval '((rc == 1)) && grep -q "cannot write the output" "$dir/err"'
"$velactl" -o json topo --host "$host" 2>"$dir/err" | head -c 1 >/dev/null
rc=${PIPESTATUS[0]}
check 'a closed pipe: exit 1, and silence' eval '((rc == 1)) && [[ ! -s $dir/err ]]'

# ---- with a velad
python3 tests/velactl/fake_velad.py "$dir/sock" 2>"$dir/daemon.err" &
daemon=$!
for _ in {1..100}; do [[ -S $dir/sock ]] && break; sleep 0.05; done
online=(--socket "$dir/sock")
gives 0 '^good +running +1 +1 +2 +512M +0 +2026' list "${online[@]}"
gives 0 '^good ' list --state running --tag who=good "${online[@]}"
check 'list of some: a state and a tag' test "$(wc -l <"$dir/out")" = 2
says 2 '--tag twice: list takes one' list --tag a=b --tag c=d "${online[@]}"
run list "${online[@]}"
check 'foreign escape sequences stay out of tables' eval '! grep -q "$(printf "\033")" "$dir/out"'
gives 0 '^state +running$' show good "${online[@]}"
gives 0 '^good is running$' create good --gpus 1 "${online[@]}"
check 'create tells each step once' test "$(grep -c '^done ' "$dir/out")" = 5
gives 0 '"state": ?"succeeded"' -o json create good "${online[@]}"
check 'create -o json is one document' json 'd["id"] == 1'
gives 0 '^operation 1 is queued; velactl op wait 1 follows it$' create good --no-wait "${online[@]}"
gives 1 '^reverted +bind' create broken "${online[@]}"
check 'a failed create says why' grep -Fxq 'velactl: create of broken failed (operation 2): step domain good: qemu said no' "$dir/err"
gives 8 '^done +vfio' create slow --timeout 1 "${online[@]}"
check 'a time-out says how to go on' grep -q 'goes on; see velactl op wait 3$' "$dir/err"
# broken WAIT COMMAND...: Ctrl-C after WAIT seconds, and again as long as it runs
broken() {
	local wait=$1 pid
	shift
	"$velactl" "$@" >"$dir/out" 2>"$dir/err" </dev/null &
	pid=$!
	sleep "$wait"
	while kill -INT "$pid" 2>/dev/null; do sleep 1; done
	wait "$pid"
	rc=$?
}
broken 0.5 create long "${online[@]}"
check 'Ctrl-C asks velad to cancel, and says what came of it: exit 1' eval '((rc == 1)) && grep -q "^velactl: asked velad to cancel operation 6;" "$dir/err" &&
	grep -Fxq "velactl: create of long was cancelled (operation 6): everything was given back" "$dir/err"'
broken 0.5 create slow "${online[@]}"
check 'what cannot be cancelled is said, and the second Ctrl-C leaves it: exit 1' eval '((rc == 1)) && grep -Fxq "velactl: operation 3 cannot be cancelled" "$dir/err" &&
	grep -Fxq "velactl: operation 3 is running and goes on; velactl op wait 3 follows it" "$dir/err"'
broken 0.5 op wait 3 "${online[@]}"
check 'op wait only looks: Ctrl-C leaves it' eval '((rc == 1)) && ! grep -q cancel "$dir/err" && grep -q "goes on; velactl op wait 3" "$dir/err"'
run create long --no-wait "${online[@]}"
gives 0 '^create of long was cancelled' op cancel 6 "${online[@]}"
says 4 'operation 3 cannot be cancelled' op cancel 3 "${online[@]}"
gives 0 '^ *2 +create +broken +failed +1/5' op list "${online[@]}"
check 'one page of them' test "$(wc -l <"$dir/out")" = 3
says 2 '"a/b" cannot be a guest'"'"'s name' op list a/b "${online[@]}"
for width in 80 160; do
	terminal "$width" create good "${online[*]}"
	check "create on a terminal of $width columns: a line that moves, none too wide" python3 -c '
import re, sys
text = open(sys.argv[1], newline="").read()
lines = [re.sub("\033\\[[0-9;]*[A-Za-z]", "", l) for l in re.split("[\r\n]+", text)]
assert any(l.startswith("####") and "/5" in l for l in lines), text
assert sum(l.startswith("done ") for l in lines) == 5 and "good is running" in lines, text
assert max(map(len, lines)) <= int(sys.argv[2]), text' "$dir/out" "$width"
done
run create full "${online[@]}"
check 'no capacity: exit 5, and the reasons' eval '((rc == 5)) && (($(grep -c "^  - 0000:" "$dir/err") == 2))'
run -o json create full "${online[@]}"
check 'no capacity, -o json: exit 5, one line, the problem document' eval \
	'((rc == 5 && $(wc -l <"$dir/err") == 1)) && json "len(d[\"reasons\"]) == 2"'
says 4 'the name taken is taken' create taken "${online[@]}"
says 1 'not for you' create other "${online[@]}"
gives 0 '^good is deleted$' delete good "${online[@]}"
says 4 'an operation runs on busy' delete busy "${online[@]}"
says 3 'there is no instance nobody' delete nobody "${online[@]}"
gives 0 '^state +failed$' op show 2 "${online[@]}"
gives 0 '^vf-count +0000:1a:00.0 +0 +8 +\+0.050 s +38.2 s +7.0 ms +300 s +reverted +slowest$' op show 2 "${online[@]}"
check 'only the slowest step is marked, and each has its span' eval '(($(grep -c slowest "$dir/out") == 1)) && grep -Eq "^took +40.1 s$" "$dir/out" &&
	grep -Eq "^vfio .* \+0.000 s +850 us +60 s +done$" "$dir/out" && grep -Eq "^domain .* running +failed$" "$dir/out"'
for width in 80 160; do
	terminal "$width" op show 2 "${online[*]}"
	check "op show on a terminal of $width columns: what took how long is there, no line too wide" python3 -c '
import re, sys
lines = [re.sub("\033\\[[0-9;]*[A-Za-z]", "", l) for l in re.split("[\r\n]+", open(sys.argv[1], newline="").read())]
assert any(re.match("vf-count +0000:1a:00.0 .*38.2 s .*reverted +slowest", l) for l in lines), lines
assert any(re.match("STEP +TARGET .*BEGAN +TOOK .*DEADLINE +RESULT", l) for l in lines), lines
assert max(map(len, lines)) <= int(sys.argv[2]), lines' "$dir/out" "$width"
done
says 3 'there is no /v1/operations/99' op wait 99 "${online[@]}"
says 1 'cannot list the PCI bus' topo "${online[@]}"
gives 5 '^  - 0000:19:00.0: GPU is held by instance good' plan --gpus 1 "${online[@]}"
run show nonsense "${online[@]}"
check 'an answer that is no JSON: exit 1' eval '((rc == 1)) && grep -q "^velactl: the answer of velad.*not JSON" "$dir/err"'
run op wait 4 "${online[@]}"
check 'foreign control characters stay out of all output' eval '((rc == 4)) && ! grep -Pq "[\x00-\x08\x0b-\x1f]" "$dir/out" "$dir/err"'
check 'and forge no line' test "$(wc -l <"$dir/err")" = 1
# ---- a console, on a terminal of our own
# typed TEXT...: each is typed after a while; what the terminal then shows is in $dir/out, without carriage returns
typed() {
	{ for text in "$@"; do sleep 0.4; printf '%b' "$text"; done; sleep 0.4; } | timeout 20 script -qec \
		"$velactl ${online[*]} console good ${key:-}; echo status \$?; stty -a | grep -o -- '-*icanon'" /dev/null 2>&1 | tr -d '\r' >"$dir/out"
}
typed 'hi\003\r' '\035'
check 'console: what is typed, Ctrl-C too, is for the guest; ^] leaves' grep -q $'login: HI\003' "$dir/out"
check 'the terminal is as before' eval 'grep -Fxq "status 0" "$dir/out" && grep -xq icanon "$dir/out"'
check 'the guest has no viewer then' eval 'for _ in {1..40}; do [[ -e $dir/sock.left ]] && break; sleep 0.05; done; [[ -e $dir/sock.left ]]'
key="--escape ^q" typed '\035' '\021'
check 'another key leaves, and ^] is for the guest then' eval 'grep -q "login: "$(printf "\035") "$dir/out" && grep -q "; ^Q leaves it" "$dir/out"'
typed 'off'
check 'the other end closes, and the guest runs: status 1, and why' eval 'grep -Fxq "status 1" "$dir/out" &&
	grep -q "has ended, and the guest runs: somebody took it over" "$dir/out"'
says 4 'somebody else has it' console evil "${online[@]}"
says 4 'instance nobody is stopped' console nobody "${online[@]}"
says 2 '--escape takes a character, or ^ and one, such as ^]; not "quit"' console good --escape quit "${online[@]}"
touch "$dir/sock.empty"
run list "${online[@]}"
check 'no guests: nothing on standard output' eval '((rc == 0)) && [[ ! -s $dir/out ]] && grep -q "^no guests$" "$dir/err"'
http_proxy=http://127.0.0.1:9 ALL_PROXY=socks5://127.0.0.1:9 run show good "${online[@]}"
check 'proxies are for others' test "$rc" = 0

echo "$passed passed, $failed failed"
((failed == 0))
