#!/usr/bin/env bash
# Compares PLACEMENTS random placements (100000 by default) with a model of the soft rule, and
# checks hard limits and rules by zone as items come, leave and move and while room is reserved.
# Writes what they held to docs/results/preferences-properties.md.
set -euo pipefail
cd "$(dirname "$0")/.."

placements=${1:-100000}
commit=$(git rev-parse --short HEAD)
dir=out/preferences-properties
mkdir -p "$dir"
# held PACKAGE TEST: what a test says that it held.
held() {
	go test -trimpath -count=1 -timeout 2h -v -run "^$2\$" "$1" >"$dir/$2.txt" || {
		tail -n 40 "$dir/$2.txt" >&2
		exit 1
	}
	sed -n 's/^ *[a-z_]*_test.go:[0-9]*: //p' "$dir/$2.txt" | tail -n 1
}
export SIGMA_PLACEMENTS=$placements SIGMA_MOVES_SEQUENCES=${SEQUENCES:-2000}
{
	echo "# Preferences and zones against their definitions"
	echo
	echo "\`make preferences-properties\` at commit $commit. Each test fails at the first difference; none was found."
	echo
	echo "| what | against | held |"
	echo "|---|---|---|"
	echo "| where an item goes: \`soft\`, \`maxShareOfApp\`, all modes, fixed and open fleets | a model in maps and loops; hard limits and rules by zone are counted again after each placement | $(held ./binpack TestPreferencesFollowTheirDefinition) |"
	echo "| which machines a hard limit or rule by zone closes | the definition, from the list of items | $(held ./binpack TestZonesAgainstDefinition) |"
	echo "| moves of a plan: each step | zones counted again after every step | $(held ./binpack/plan/moves TestSequencesKeepZones) |"
	echo "| moves of a replay with repair and rebalancing: each step | the slow checker and zones counted again | $(held ./cerebro TestMovesKeepZones) |"
	echo "| nodes that PlacementRules close while pods come, go and move, zones change and room is reserved | rules counted from the pods | $(held ./plugins/kube TestChecksAgreeWithPlainRules) |"
	echo "| packings, and the bound | all orders of placements | $(held ./binpack/plan TestZonesAgainstBruteForce) |"
} >"$dir/page.md"
mv "$dir/page.md" docs/results/preferences-properties.md
