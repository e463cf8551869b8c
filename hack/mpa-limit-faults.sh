#!/usr/bin/env bash
# Faults while a limit of requests at once is learned and applied, ROUNDS of each (20). Writes
# docs/results/mpa-limit-faults.md; another page: hack/mpa-limit-faults.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/mpa-limit-faults.md}
rounds=${ROUNDS:-20}
commit=$(git rev-parse --short HEAD)
dir=out/mpa-limit-faults/$commit
mkdir -p "$dir"
SIGMA_ROUNDS=$rounds go test -trimpath -count=1 -timeout 2h -v -run '^TestLimitFaults$' ./mpa/recommender >"$dir/recommender.txt" || {
	grep -v '^=== ' "$dir/recommender.txt" >&2
	exit 1
}
# Every write of the updater, and all that users do, in one run each: nothing there is drawn.
go test -trimpath -count=1 -run '^Test(LimitKilledAnywhere|UserSetsTheLimit|UserIsFaster|LimitForbidden)$' ./mpa/updater >"$dir/updater.txt" || {
	cat "$dir/updater.txt" >&2
	exit 1
}
{
	cat <<'TEXT'
# Faults while a limit is learned and applied

A recommender in virtual time decides every 15 s for two pods of half a core and 512 MiB behind gates. Each round draws another function: 3 to 30 ms of cpu and 5 to 100 ms of waiting a request, 1 to 31 MiB a request inside,
half to one and a half times the requests that the first limit, 10, lets through. The fault comes after up to a quarter of an hour, and twenty minutes are left to settle. Each round asks for: the limit fills at most .9 of a
pod's memory at the end (the guard is .85, of what was measured), or it is 1: nothing is lower; as many pods or fewer are killed, and at most 3 % of the requests more are lost, than with a fixed limit of 10 and the same fault (what a limit of a user's loses is not ours); every change is an event with its
reason. *Kills* are the 15 s in which the pods ran out of memory; *lost* are requests that the gate refuses for want of room, or that a killed pod had inside; *memory* is what the limit at the end would fill at most, of all rounds.

| fault | rounds | changes | kills | at a fixed 10 | lost | at a fixed 10 | memory |
|---|---:|---:|---:|---:|---:|---:|---:|
TEXT
	sed -n 's/^ *limitfaults_test.go:[0-9]*: |/|/p' "$dir/recommender.txt"
	cat <<'TEXT'

The updater carries each recommendation out at once there. It is tested on its own (`mpa/updater`): killed before and after each of its four writes; two of them; a user who sets, changes or removes the limit, in the
template too, also between reading and writing; without the right to patch pods. One run on a real control plane with real gates and Prometheus, TestMPALimits, kills a recommender and updater after the first pod was written, and
a gate, while two lead.

TEXT
	echo "\`make mpa-limit-faults\` at commit $commit."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
