#!/usr/bin/env bash
# SCHEDULES (10000) random schedules of callers that leave. Writes docs/results/gate-leavers.md;
# another page: hack/gate-leavers.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/gate-leavers.md}
schedules=${SCHEDULES:-10000}
commit=$(git rev-parse --short HEAD)
dir=out/gate-leavers/$commit
mkdir -p "$dir"
go test -trimpath -count=1 -timeout 2h -v -run '^TestLeavers$' ./cmd/sigma-gate -schedules "$schedules" >"$dir/run.txt" 2>&1 || {
	grep -v '^=== ' "$dir/run.txt" | head -n 200 >&2
	exit 1
}
{
	cat <<'TEXT'
# The limit where callers leave

A server works on each request for up to 10 s, whether its caller is there or not. In each schedule 6 to 15 callers come within
6 s to a gate with a limit of 1 to 4: GETs, POSTs with a length or chunks, half a body, half a head, connections that are closed,
half-closed or reset, and streams of HTTP/2. Two in three leave after up to 12 s: before their request is whole, in the queue, inside or within the
answer. A second is 3 ms long. In no schedule did the server work on more requests at once than the limit; in the end all slots were
free, and each request was counted once.

| schedules | callers | that leave | requests at the server | answered whole | refused, or left in the queue | schedules in which the limit was reached |
|---:|---:|---:|---:|---:|---:|---:|
TEXT
	sed -nE 's/^ *leavers_test.go:[0-9]+: (\|.*\|)$/\1/p' "$dir/run.txt"
	echo
	echo "\`make gate-leavers\` at commit $commit."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
