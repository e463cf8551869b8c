#!/usr/bin/env bash
# Measures `sigma tune` on generated clusters that nothing was developed on, and writes docs/results/tune.md.
# One part: hack/tune-records.sh Drift prints it and writes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

measure() {
	local module=. package=./internal/tune
	if [[ $1 == Settings ]]; then module=lab package=./records/tune; fi # two of its kinds are the laboratory's
	go test -C $module -v -tags records -count=1 -timeout 6h -run "^TestRecord($1)\$" $package | grep -vE "^ *(=== |--- |ok|PASS)"
}
if [ $# -gt 0 ]; then
	measure "$1"
	exit
fi
page=$(mktemp)
trap 'rm -f "$page"' EXIT
{
	echo "# What tune saves"
	echo
	echo "\`make tune-records\` at commit $(git rev-parse --short HEAD). Clusters are those of \`sigma generate kubernetes\`, seeds from 910000,"
	echo "unseen while \`tune\` and the shipped files were developed. \`tune\` has its defaults unless said."
	echo
	echo "## Tight fixed fleets"
	echo
	echo "\`tune\` is given the first 24 h (\`--until 24h\`) of fixed fleets of 1.01 times the peak volume, the least that the generator draws. What it"
	echo "advises replays both days with \`--retry\`: pods that find no place at once on day two. Elastic fleets are [a page of their own](tune-floor.md)."
	echo
	measure Fixed
	echo
	echo "## Other kinds of clusters"
	echo
	echo "Six fill-ups (seeds from 600201; churn: three of two days each) are the history, three others (seeds from 981000, three orders each)"
	echo "the test. \`tune\` has 40 evaluations and one seed."
	echo "The gap is to the volume bound, on fixed the rejected cpu, in %. The last two columns are the best of six rules in hindsight."
	echo
	echo "| setting | chosen | gap | best rule | its gap |"
	echo "|---|---|---:|---|---:|"
	measure Settings
	echo
	echo "## Drift"
	echo
	echo "After two days of six all apps of a cluster of 20 nodes are replaced by those of another within two hours. \`tune\` (100 evaluations) runs each"
	echo "night on all that it has, and its advice has the next day, after a day of its own. Each line is a day."
	echo
	measure Drift
	echo
	echo "## CPU"
	echo
	measure CPU
} >"$page"
cp "$page" docs/results/tune.md
