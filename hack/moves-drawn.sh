#!/usr/bin/env bash
# Moves the pods of CLUSTERS (60) generated clusters on a real control plane, ROUNDS (10) times each, half of them
# while labels, taints and namespaces change. Writes docs/results/moves-drawn.md; another page: hack/moves-drawn.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=$PWD/${1:-docs/results/moves-drawn.md}
clusters=${CLUSTERS:-60}
export SIGMA_MOVES_ROUNDS=${ROUNDS:-10}
commit=$(git rev-parse --short HEAD)
dir=$PWD/out/moves-drawn
rm -rf "$dir" && mkdir -p "$dir/still" "$dir/changing"
dump() { SIGMA_ORACLE_MOVABLE=1 SIGMA_ORACLE_DUMP=$dir/$1 SIGMA_ORACLE_FROM=$2 SIGMA_ORACLE_COUNT=$((clusters / 2)) go test -count=1 -run '^TestDump$' ./internal/oracle >/dev/null; }
dump still 1000
dump changing 2000
status=0
SIGMA_MOVES=$dir/still SIGMA_MOVES_OUT=$dir/still.txt hack/e2e.sh -timeout=12h -run '^TestDrawnMoves$' || status=1
SIGMA_MOVES=$dir/changing SIGMA_MOVES_OUT=$dir/changing.txt SIGMA_MOVES_CHANGE=1 hack/e2e.sh -timeout=12h -run '^TestDrawnMoves$' || status=1
sum() {
	awk -v name="$2" '{ n++; for (i = 2; i <= 6; i++) s[i] += $i; if ($7 > most) most = $7; late += $8 }
		END { printf "| %s | %d | %d | %d | %d | %d | %d | %.1f | %d |\n", name, n, s[2], s[3], s[4], s[5], s[6], most, late }' "$dir/$1.txt"
}
{
	cat <<'TEXT'
# Moves of generated pods on a real control plane

The clusters of the [oracle of constraints](oracle-constraints.md): 5 to 40 nodes; on the nodes of one are the workloads of ten that a Rebalance moves, their ReplicaSets as Deployments of twice as many pods, without claims, with new names in each round. `sigma-scheduler` places them.
In each round the Deployments lose a random part of their pods (in the first every second one half), and one plan of a Rebalance in mode Auto is carried out. A watch looks at each waiting pod ten times a second; a
replacement is late after ten seconds without a node. In the second row labels and taints of nodes and labels of namespaces change every six seconds during the Rebalance; a
wait does not count there if something changed from a second before it to two seconds after its begin.

| | clusters | rounds | moved | nodes freed | given up | of these by a filter before an eviction | longest wait, s | late |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
TEXT
	sum still 'nothing changes'
	sum changing 'labels, taints and namespaces change'
	printf '\n`CLUSTERS=%s ROUNDS=%s make moves-drawn` at commit %s.\n' "$clusters" "$SIGMA_MOVES_ROUNDS" "$commit"
} >"$dir/page.md"
cp "$dir/page.md" "$page"
exit "$status"
