#!/usr/bin/env bash
# Compares PLACEMENTS random placements (100000 by default) with a model of the soft rule, and
# checks hard limits and rules by zone as items come, leave and move and while room is reserved.
# Writes what they held to docs/results/preferences-properties.md. It keeps what each test held
# below out/, so that a run that was stopped goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

placements=${1:-100000}
commit=$(git rev-parse --short HEAD)
dir=out/preferences-properties/$commit-$placements
mkdir -p "$dir"
# held PACKAGE TEST: what a test says that it held.
held() {
	if [[ ! -s $dir/$2.txt ]]; then
		go test -trimpath -count=1 -timeout 2h -v -run "^$2\$" "$1" >"$dir/part" || {
			tail -n 40 "$dir/part" >&2
			exit 1
		}
		mv "$dir/part" "$dir/$2.txt"
	fi
	sed -n 's/^ *[a-z_]*_test.go:[0-9]*: //p' "$dir/$2.txt" | tail -n 1
}
export SIGMA_PLACEMENTS=$placements SIGMA_MOVES_SEQUENCES=${SEQUENCES:-1000}
soft=$(held ./binpack TestPreferencesFollowTheirDefinition)
closed=$(held ./binpack TestZonesAgainstDefinition)
moves=$(held ./binpack/plan/defrag TestSequencesKeepZones)
replay=$(held ./cerebro TestMovesKeepZones)
rules=$(held ./plugins/kube TestChecksAgreeWithPlainRules)
packings=$(held ./binpack/plan TestZonesAgainstBruteForce)
{
	echo "# Preferences and zones against their definitions"
	echo
	echo "\`make preferences-properties\` at commit $commit. Each test fails at the first difference; none was found."
	echo
	echo "| what | against | held |"
	echo "|---|---|---|"
	echo "| where an item goes: \`soft\`, \`maxShareOfApp\`, all modes, fixed and open fleets | a model in maps and loops; hard limits and rules by zone are counted again after each placement | $soft |"
	echo "| which machines a hard limit or rule by zone closes | the definition, from the list of items | $closed |"
	echo "| moves of a plan: each step | zones counted again after every step | $moves |"
	echo "| moves of a replay with repair and rebalancing: each step | the slow checker | $replay |"
	echo "| nodes that PlacementRules close while pods come, go and move, zones change and room is reserved | rules counted from the pods | $rules |"
	echo "| packings, and the bound | all orders of placements | $packings |"
} >"$dir/page.md"
mv "$dir/page.md" docs/results/preferences-properties.md
