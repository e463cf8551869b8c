#!/usr/bin/env bash
# Runs the checks that the gate leaves out, one after the other, and writes their results and the commit to
# out/nightly/page.md. Another page: hack/nightly.sh FILE. STEPS="e2e soak": only these.
set -uo pipefail
cd "$(dirname "$0")/.."

page=${1:-}
steps=${STEPS:-e2e e2e-matrix e2e-upgrade race soak fuzz}
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- . ':!docs' || commit+=' with changes that are not committed'
dir=$PWD/out/nightly
rm -rf "$dir" && mkdir -p "$dir"
export GOFLAGS="${GOFLAGS:-} -trimpath -vet=off -tags=grpcnotrace" CGO_ENABLED=0 FUZZTIME=${FUZZTIME:-10m}

rows= failed=
for step in $steps; do
	describe=$(sed -n "s/^$step:.*## *//p" Makefile)
	[[ $describe ]] || { echo "hack/nightly.sh: no target $step in the Makefile" >&2 && exit 2; }
	begun=$SECONDS result=passed
	make "$step" >"$dir/$step.txt" 2>&1 || result=failed
	took=$(((SECONDS - begun + 59) / 60))
	[[ $result == passed ]] || failed+=" $dir/$step.txt"
	rows+="| \`make $step\` | ${describe%% (*} | $took | $result |"$'\n'
	echo "$step: $result in $took min" >&2
done

cat >"$dir/page.md" <<TEXT
# The checks that the gate leaves out

The gate runs one story of each program on a real control plane. \`make nightly\` runs all of them and the long checks. It is run before a change of what they test is released.

| target | subject | minutes | result |
|---|---|---:|---|
$rows
\`make nightly\` at commit $commit, $(go env GOVERSION), $(nproc) cores.
TEXT
[[ -z $page ]] || cp "$dir/page.md" "$page"
[[ -z $failed ]] || { echo "read$failed" >&2 && exit 1; }
