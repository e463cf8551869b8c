#!/usr/bin/env bash
# Runs the servers' soak tests for EVENTS events (1000000 by default) and writes what
# they held to docs/results/soak.md and soak.svg.
set -euo pipefail
cd "$(dirname "$0")/../.."

events=${1:-1000000}
samples=$(mktemp -d)
trap 'rm -rf "$samples"' EXIT
commit=$(git rev-parse --short HEAD)
GOGC=400 SIGMA_SOAK=$samples SIGMA_SOAK_EVENTS=$events go test -count=1 -timeout 120m -run '^TestSoak$' \
	./plugins/engine ./plugins/extender ./mpa/recommender >&2

(cd lab && go run ./soak "$samples") >"$samples/soak.svg"
{
	echo "# A million events"
	echo
	echo "\`make soak\` at commit $commit: the heap after a garbage collection, the open files and the goroutines of the test"
	echo "process, sampled 50 times in $events events. The gate runs 20000 events of the engine and the extender, and 1000 of the recommender."
	echo "The test fails where the last quarter holds more than the one before it."
	echo
	echo "An event is a call of the engine or the extender, or what they hear of a pod. An event of the recommender is a whole"
	echo "decision, 15 seconds after the one before: it measures two pods, decides, writes to its journal, and writes the status where"
	echo "that changed or is a minute old. Its client, caches, connections and journal are those of the program; the API server"
	echo "is a small one of the test, at the other end of the connections in the same process."
	echo
	echo "![heap, open files and goroutines over the events](soak.svg)"
	echo
	echo "| server | events | heap, MiB: first quarter | last quarter | open files | goroutines |"
	echo "|---|---:|---:|---:|---:|---:|"
	for csv in "$samples"/*.csv; do
		awk -F, -v server="$(basename "$csv" .csv)" '
			function wide(least, most) { return least == most ? least : least " … " most }
			{ heap[NR] = $2; events = $1
			  if (NR == 1 || $3 < f0) f0 = $3; if ($3 > f1) f1 = $3; if (NR == 1 || $4 < g0) g0 = $4; if ($4 > g1) g1 = $4 }
			END { n = int(NR / 4)
			  for (i = 1; i <= n; i++) { first = heap[i] > first ? heap[i] : first; last = heap[NR + 1 - i] > last ? heap[NR + 1 - i] : last }
			  printf "| %s | %d | ≤ %.1f | ≤ %.1f | %s | %s |\n", server, events, first, last, wide(f0, f1), wide(g0, g1) }' "$csv"
	done
} >"$samples/soak.md"
mv "$samples/soak.md" "$samples/soak.svg" docs/results
