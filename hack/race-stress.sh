#!/usr/bin/env bash
# The race detector, ROUNDS times (20) over the tests of the packages that share most between goroutines, while a
# busy loop on each core competes for it. Writes docs/results/race-stress.md; another page: hack/race-stress.sh FILE.
# PACKAGES="./flow/follow ./mpa/gate": only these.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/race-stress.md}
rounds=${ROUNDS:-20}
packages=${PACKAGES:-./plugins/mover ./plugins/rebalance ./plugins/evict ./plugins/pilot/control ./mpa/updater ./mpa/gate ./cmd/sigma-gate ./flow/follow}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "ROUNDS=$rounds: want a number from 1" >&2 && exit 2; }
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- '*.go' go.mod go.sum || commit+=' with changes that are not committed'
cores=$(nproc)
dir=out/race-stress
mkdir -p "$dir"
export CGO_ENABLED=1
# shellcheck disable=SC2086 # a list
go test -race -short -count=1 -run '^$' $packages >"$dir/build.txt" || { cat "$dir/build.txt" >&2 && exit 1; }

load=()
trap 'kill "${load[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for _ in $(seq "$cores"); do
	while :; do :; done &
	load+=($!)
done

rows= failed=
for package in $packages; do
	log=$dir/$(tr / - <<<"${package#./}").txt
	begun=$SECONDS result=clean
	go test -race -short -count="$rounds" -timeout 2h -v "$package" >"$log" 2>&1 || result=failed
	took=$((SECONDS - begun))
	grep -q 'WARNING: DATA RACE' "$log" && result='data race'
	[[ $result == clean ]] || failed+=" $log"
	# Tests by name, without the parts of each.
	tests=$(awk '/^--- (PASS|FAIL): / { print $3 }' "$log" | sort -u | wc -l)
	skipped=$(awk '/^--- SKIP: / { print $3 }' "$log" | sort -u | wc -l)
	rows+="| \`${package#./}\` | $rounds | $tests | $skipped | $took | $result |"$'\n'
	echo "$package: $tests tests, $rounds times in $took s: $result" >&2
done

{
	cat <<TEXT
# The race detector under load

The tests of the packages that share most between goroutines, each run $rounds times with Go's race detector. Meanwhile a busy loop on each of the $cores cores, at the same priority, competes for it: goroutines are
interrupted where they seldom are, and deadlines come late. "Skipped" are tests that \`-short\` leaves out or that need another machine; seconds are of the clock.

\`\`\`
CGO_ENABLED=1 go test -race -short -count=$rounds PACKAGE
\`\`\`

| package | repetitions | tests | skipped | seconds | result |
|---|---:|---:|---:|---:|---|
TEXT
	printf '%s\n' "$rows"
	echo "\`make race-stress\` at commit $commit, $(go env GOVERSION)."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
[[ -z $failed ]] || { echo "read$failed" >&2 && exit 1; }
