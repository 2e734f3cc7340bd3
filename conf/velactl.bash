# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion for velactl(1). Verbs and options come from velactl itself, so they cannot be outdated.

_velactl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb='' word
	COMPREPLY=()
	case $prev in
	-o | --output) mapfile -t COMPREPLY < <(compgen -W 'json text' -- "$cur"); return ;;
	--with) mapfile -t COMPREPLY < <(compgen -W 'acs-plan' -- "$cur"); return ;;
	--image) mapfile -t COMPREPLY < <(compgen -W "$(velactl images list 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur"); return ;;
	--format) mapfile -t COMPREPLY < <(compgen -W 'raw qcow2' -- "$cur"); return ;;
	--gdr) mapfile -t COMPREPLY < <(compgen -W 'required preferred off' -- "$cur"); return ;;
	--plan) mapfile -t COMPREPLY < <(compgen -W "$(velactl leases 2>/dev/null | awk 'NR > 1 && $1 ~ /^[0-9a-f]{16}$/ { print $1 }')" -- "$cur"); return ;;
	--policy) mapfile -t COMPREPLY < <(compgen -W 'strict loose' -- "$cur"); return ;;
	--pcie) mapfile -t COMPREPLY < <(compgen -W 'switches root-ports' -- "$cur"); return ;;
	--firmware) mapfile -t COMPREPLY < <(compgen -W 'bios uefi' -- "$cur"); return ;;
	--spread) mapfile -t COMPREPLY < <(compgen -W 'pf' -- "$cur"); return ;;
	--hugepages) mapfile -t COMPREPLY < <(compgen -W '2M 1G' -- "$cur"); return ;;
	--max-path | --max-gpu-path) mapfile -t COMPREPLY < <(compgen -W 'PIX PXB PHB NODE SYS' -- "$cur"); return ;;
	--root | --host | --conf | --socket | --file | -f | --user-data | --ssh-keys | --network-config | --svg | --dot | --kernel | --initrd | --disk)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return ;;
	esac
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in
		topo | path | routes | acs | pool | doctor | plan | capacity | leases | release | create | list | show | nccl-topology | rank-map | console | log | start | stop | reboot | reset | delete | images | quarantine | op | host | watch | dump | help) verb=$word; break ;;
		esac
	done
	if [[ $cur == -* ]]; then
		[[ $verb == op ]] && verb='op wait'
		[[ $verb == images ]] && verb='images add'
		[[ $verb == acs ]] && verb='acs plan'
		[[ $verb == quarantine ]] && verb='quarantine release'
		# shellcheck disable=SC2086 # two words: op wait
		word=$(velactl help $verb 2>/dev/null | grep -oE -- '(^| )--?[a-z][a-z-]*')
		mapfile -t COMPREPLY < <(compgen -W "$word" -- "$cur")
		return
	fi
	case $verb in
	'' | help) word='topo path routes acs pool doctor plan capacity leases release create list show nccl-topology rank-map console log start stop reboot reset delete images quarantine op host watch dump help' ;;
	op) word='list show wait cancel' ;;
	images) word='add list show delete' ;;
	acs) word='show plan apply restore' ;;
	pool) word='show plan apply release' ;;
	quarantine) word='list add release' ;;
	release) word=$(velactl leases 2>/dev/null | awk 'NR > 1 && $1 ~ /^[0-9a-f]{16}$/ { print $1 }') ;;
	show | nccl-topology | rank-map | console | log | start | stop | reboot | reset | delete) word=$(velactl list 2>/dev/null | awk 'NR > 1 { print $1 }') ;;
	dump) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
	*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$word" -- "$cur")
}
complete -o filenames -F _velactl velactl
