#!/usr/bin/env bash
# Faults of sizes by use, of relief and of batch work in virtual time, ROUNDS of each (20). Writes
# docs/results/usage-faults.md; another page: hack/usage-faults.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/usage-faults.md}
rounds=${ROUNDS:-20}
commit=$(git rev-parse --short HEAD)
dir=out/usage-faults/$commit
mkdir -p "$dir"
run() { # PACKAGE TESTS: their rows
	SIGMA_ROUNDS=$rounds go test -trimpath -count=1 -timeout 1h -v -run "$2" "./$1" >"$dir/${1//\//-}.txt" || {
		grep -v '^=== ' "$dir/${1//\//-}.txt" >&2
		exit 1
	}
	sed -n "s#^ *[a-z_]*_test.go:[0-9]*: |#| \`$1\` |#p" "$dir/${1//\//-}.txt"
}
{
	cat <<'TEXT'
# Faults of sizes by use, of relief and of batch work

Each round draws other loads and moments, in virtual time. `mpa/recommender`: nothing shrinks without data, no request is below the memory in use, and after the fault sizes are those of the use. `plugins/drain`, goal Relief: the
limits hold, nothing stays reserved, and where use is not known, or no node has room, nothing moves. `mpa/batch`: the offer is never negative nor above the formula, nobody leaves while use is not known, and only as many as needed leave.

| package | fault | rounds | |
|---|---|---:|---|
TEXT
	run mpa/recommender '^TestUseFaults$'
	run plugins/drain '^TestRelief(Faults|IsKilledAtEachStep)$'
	run mpa/batch '^TestFaults$'
	run mpa/history '^Test(TenfoldLoad|KilledReading|Failures)$'
	run mpa/namespaces '^TestKilledAtEachCall$'
	run mpa/updater '^TestHorizontal'
	cat <<TEXT

Without rows: batch work, whose 20 rounds of 15 hours mix Prometheus away, a clock set back, kubelets that register anew, kills and all nodes full at once; kills of relief after each of 20 seconds, and of the objects of a namespace at each call;
a tenth of the workloads with tenfold load, 20 rounds (\`mpa/history\`).

\`make usage-faults\` at commit $commit.
TEXT
} >"$dir/page.md"
cp "$dir/page.md" "$page"
