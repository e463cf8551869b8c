#!/usr/bin/env bash
# The race detector, ROUNDS times (20) over the tests of the packages that share most between goroutines. Two
# processes for each core repeat the tests of a package at the same time and compete for the cores.
# Writes docs/results/race-stress.md; another page: hack/race-stress.sh FILE.
# PACKAGES="./flow/follow ./mpa/gate": only these.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/race-stress.md}
rounds=${ROUNDS:-20}
packages=${PACKAGES:-./plugins/evict ./mpa/updater ./mpa/gate ./cmd/sigma-gate ./flow/follow ./plugins/drain ./plugins/pilot/control}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "ROUNDS=$rounds: want a number from 1" >&2 && exit 2; }
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- '*.go' go.mod go.sum || commit+=' with changes that are not committed'
copies=$((2 * $(nproc)))
each=$(((rounds + copies - 1) / copies))
dir=$PWD/out/race-stress
rm -rf "$dir" && mkdir -p "$dir"
export CGO_ENABLED=1

running=()
trap 'kill "${running[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

rows= failed=
for package in $packages; do
	name=$(tr / - <<<"${package#./}")
	go test -race -c -o "$dir/$name.test" "$package"
	begun=$SECONDS result=clean running=()
	for copy in $(seq "$copies"); do
		(cd "$package" && exec "$dir/$name.test" -test.short -test.count="$each" -test.timeout=2h -test.v >"$dir/$name-$copy.txt" 2>&1) &
		running+=($!)
	done
	for pid in "${running[@]}"; do wait "$pid" || result=failed; done
	took=$((SECONDS - begun))
	! grep -q 'WARNING: DATA RACE' "$dir/$name"-*.txt || result='data race'
	[[ $result == clean ]] || failed+=" $dir/$name-*.txt"
	# Tests by name, without the parts of each.
	tests=$(awk '/^--- (PASS|FAIL): / { print $3 }' "$dir/$name"-*.txt | sort -u | wc -l)
	skipped=$(awk '/^--- SKIP: / { print $3 }' "$dir/$name"-*.txt | sort -u | wc -l)
	rows+="| \`${package#./}\` | $((each * copies)) | $tests | $skipped | $took | $result |"$'\n'
	echo "$package: $tests tests, $((each * copies)) times in $took s: $result" >&2
done

{
	cat <<TEXT
# The race detector under load

The tests of the packages that share most between goroutines, repeated with Go's race detector by $copies processes at the same time on $(nproc) cores: goroutines are interrupted at more
places, and deadlines are missed. "Skipped" are tests that \`-short\` leaves out or that need another machine; seconds are of the clock.

| package | repetitions | tests | skipped | seconds | result |
|---|---:|---:|---:|---:|---|
TEXT
	printf '%s\n' "$rows"
	echo "\`make race-stress\` at commit $commit, $(go env GOVERSION)."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
[[ -z $failed ]] || { echo "read$failed" >&2 && exit 1; }
