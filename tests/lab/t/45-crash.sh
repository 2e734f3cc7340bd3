#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# velad is killed while it makes a real guest, at several moments: the next one undoes what was begun, or finds the guest running;
# either way it can be deleted, and the host is as before. A guest that runs goes on while velad is killed or restarted.
#
# shellcheck disable=SC2016 # scripts for the emulated host are in single quotes

# shellcheck source=tests/lab/t/lib.sh
. "$(dirname "$0")/lib.sh"

boot="--kernel /srv/lab/guest/vmlinuz --initrd /srv/lab/guest/initrd --cmdline 'console=ttyS0 report.stay mitigations=off nokaslr'"
request="--gpus 1 --vfs-per-gpu 1 --numa-node 1 --vcpus 1 --memory 256M $boot"
before=$(host_state)

# killed_at SECONDS: the state of the instance once the next velad has settled it; "none" if its request had not been taken
killed_at() {
	l1 -t 120 "velactl --no-wait create crash $request >/dev/null 2>&1 & sleep $1; kill -9 \$(systemctl show -P MainPID velad); wait
		for _ in \$(seq 60); do
			state=\$(velactl -o json show crash 2>/dev/null | jq -r .state)
			case \$state in running | failed) break ;; esac
			sleep 1
		done; echo \"\${state:-none}\""
}

for at in 0.2 2 7; do
	state=$(killed_at $at)
	matches "killed $at s after create: undone, or done" '^(failed|running|none)$' "$state"
	is "killed $at s after create: a domain if it runs, and else none" "$(case $state in running) echo crash ;; esac)" \
		"$(l1 'virsh list --all --name' | xargs)"
	[ "$state" = running ] || is "killed $at s after create: the host is as before" "$before" "$(host_state)"
	[ "$state" = none ] || passes "killed $at s after create: it can be deleted" l1 -t 120 'velactl delete crash'
done
is "the host is as before" "$before" "$(host_state)"

# ---- a guest that runs -------------------------------------------------------------------------------------------

passes "a guest" l1 -t 180 "velactl create stays $request"
after=$(host_state)
seen() { l1 'echo "$(pgrep -f guest=stays) $(velactl -o json show stays | jq -r "[.uuid, .state] | join(\" \")")"'; }
pid=$(seen)
matches "it runs" '^[0-9]+ .* running$' "$pid"
l1 'kill -9 $(systemctl show -P MainPID velad)'
is "velad was killed: the same guest runs" "$pid" "$(seen)"
l1 'systemctl restart velad'
is "velad was restarted: the same guest runs" "$pid" "$(seen)"
is "and has all that it had" "$after" "$(host_state)"

# ---- velad-helper is not there when velad starts -------------------------------------------------------------------

doctor() { l1 -t 60 "for _ in \$(seq 60); do seen=\$(velactl -o json doctor | jq -r .helper); [[ \$seen == $1 ]] && break; sleep 0.5; done; echo \"\$seen\""; }
l1 'printf "[deadlines]\nhelper_start = 1\n" >/etc/velad/velad.conf.d/late.conf; mv /run/velad/helper.sock /run/velad/away; systemctl restart velad'
matches "velad starts without velad-helper, and says so" 'cannot reach velad-helper' "$(doctor '*helper*')"
is "the same guest runs; whether it has all that it needs nobody can tell" "${pid% running} degraded" "$(seen)"
l1 'mv /run/velad/away /run/velad/helper.sock'
is "it is there: velad finds it by itself" null "$(doctor null)"
is "and hears of changes of the machine" 1 "$(l1 'journalctl -u velad --no-pager | grep -c "changes of the machine are heard of from here on"')"
is "the same guest runs, with all that it had" "$pid $after" "$(seen) $(host_state)"
l1 'rm /etc/velad/velad.conf.d/late.conf'
passes "delete" l1 -t 120 'velactl delete stays'
is "the host is as before again" "$before" "$(host_state)"
l1 'journalctl -u velad --no-pager -o short-monotonic' >"$logs/velad.journal"
finish
