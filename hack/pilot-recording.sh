#!/usr/bin/env bash
# Records a million events in segments, and replays these. Writes docs/results/pilot-recording.md; another page:
# hack/pilot-recording.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/pilot-recording.md}
events=${EVENTS:-1000000}
commit=$(git rev-parse --short HEAD)
dir=out/pilot-recording/$commit
mkdir -p "$dir"
go test -trimpath -c -o "$dir/control.test" ./plugins/pilot/control
"$dir/control.test" -test.run '^TestRecording$' -test.v -recorded-events "$events" >"$dir/record.txt" || {
	cat "$dir/record.txt" >&2
	exit 1
}
{
	cat <<'TEXT'
# A million events in segments

Ten days of a cluster of 200 nodes. The scheduler keeps the newest files of its [decision log](../decision-log.md) only, the pilot
makes a [segment](../pilot.md#the-record) of each day and keeps as many as it may. Heap is that in use after a garbage
collection at midnight. At the end each segment that is kept is read as a trace, and replayed as it stood.

TEXT
	echo '```'
	sed -n -E 's/^ +million_test\.go:[0-9]+: //p' "$dir/record.txt"
	echo '```'
	echo
	echo "\`make pilot-recording\` at commit $commit, EVENTS=$events. The test fails above 200 MiB, beyond the bytes that are allowed, where"
	echo "memory grows with the days, and where node-hours differ by more than a thousandth."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
