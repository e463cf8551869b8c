#!/usr/bin/env bash
# Checks every step of SEQUENCES random sequences of moves (1000000 by default) and writes what
# they held to docs/results/moves-properties.md. It works in parts of 50000 and keeps them below
# out/, so that a run that was stopped goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

sequences=${1:-1000000} part=50000
commit=$(git rev-parse --short HEAD)
dir=out/moves-properties/$commit
mkdir -p "$dir"
go test -c -trimpath -o "$dir/moves.test" ./binpack/plan/defrag
for ((first = 0; first < sequences; first += part)); do
	if [[ ! -s $dir/$first.txt ]]; then
		n=$((sequences - first < part ? sequences - first : part))
		SIGMA_MOVES_FIRST=$first SIGMA_MOVES_SEQUENCES=$n "$dir/moves.test" -test.timeout 10h -test.v -test.run '^TestSequencesKeepAllConstraints$' >"$dir/part" || {
			tail -n 40 "$dir/part" >&2
			exit 1
		}
		grep -o '[0-9]* sequences: .*' "$dir/part" >"$dir/part.sum"
		mv "$dir/part.sum" "$dir/$first.txt"
	fi
done
cat "$dir"/*.txt | awk -v commit="$commit" '
	{ sequences += $1; moves += $3; freed += $5; let += $8; joint += $12 }
	END {
		print "# A million sequences of moves\n"
		print "`make moves-properties` at commit " commit ": random small fleets in which devices and shares, limits, rules, spread, types, immovable"
		print "items, prices, caps for each app and moves at the same time meet. A checker that shares nothing with the search carries out each"
		print "sequence and checks all constraints after every step; budget, caps and immovable items are counted again. The gate runs 250.\n"
		print "| sequences | moves | machines emptied | items let in | sequences with moves at the same time | broken |"
		print "|---:|---:|---:|---:|---:|---:|"
		printf "| %d | %d | %d | %d | %d | 0 |\n", sequences, moves, freed, let, joint
	}' >"$dir/page.md"
mv "$dir/page.md" docs/results/moves-properties.md
