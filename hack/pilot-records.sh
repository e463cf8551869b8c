#!/usr/bin/env bash
# Plays a month under the pilot's loop on ten clusters, and holds promises against what came on twenty. Writes
# docs/results/pilot.md; another page: hack/pilot-records.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/pilot.md}
commit=$(git rev-parse --short HEAD)
dir=out/pilot-records/$commit
mkdir -p "$dir"
go test -trimpath -tags records -c -o "$dir/evidence.test" ./internal/evidence
failed=
(cd internal/evidence && "../../$dir/evidence.test" -test.run '^TestMonth$|^TestRecord' -test.v -test.timeout 2h) >"$dir/records.txt" || failed=yes
part() { sed -n "/^=== RUN   $1\$/,/^--- /p" "$dir/records.txt"; }
said() { sed -n -E 's/^ +[a-z]+_test\.go:[0-9]+: //p'; }
{
	cat <<'TEXT'
# A month under the pilot's loop

Thirty simulated days of a generated cluster under the loop of [sigma-pilot](../pilot.md), `approval: Auto`, trainings in the process
with 30 evaluations. On day 12 the workload changes: pods ask for more memory. From day 20 on the next candidate is poisoned: it
looks a tenth better where it is judged, and opens a node for each pod once it decides. The guard looks every 3 hours.

Costs are node-hours over the month: of the loop, of `mostallocated`, of the first policy kept for ever, and of the best policy
in hindsight, day by day, of all that were made. The gap is that between the first policy and hindsight after the change; what
is closed is the loop's share of it. Where the gate let no policy through before the change, `mostallocated` was in force, and is the first: a policy that
learned from the change does not age by it. Where a first policy goes on being good after the change the gap is small, and the
poison and the trials cost more than there is to gain.

TEXT
	part TestRecordMonths | said | awk -f hack/pilot-records.awk
	echo
	echo "Seed 106 is the one that \`go test\` plays, with its days:"
	echo
	echo '```'
	part TestMonth | said
	echo '```'
	echo
	echo '## What was promised and what came'
	echo
	echo "Learned from five days, judged on three, promised for the seven after them with a probability of 90 %, on twenty clusters:"
	echo
	echo '```'
	part TestRecordPromises | said
	echo '```'
	echo
	echo "\`make pilot-records\` at commit $commit."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
[[ -z $failed ]] || { grep -E '^ +Error|^--- FAIL' "$dir/records.txt" >&2; exit 1; }
