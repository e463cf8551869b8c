#!/usr/bin/env bash
# The speed of the packing core as Markdown on stdout: rates and ratios to plain
# twins, measured in turns, the same for 6,000 machines and 9,338 apps, and
# placements by machines, dimensions and items; at most 5 CPU-minutes. SIGMA_DATA
# adds tianchi-prelim-b.
#   make bench > tables.md, or hack/bench.sh --doc to renew docs/performance.md
# With mpa: the speed of the autoscaler's simulator, decisions and training, 2 CPU-minutes.
#   make mpa-bench > tables.md, or hack/bench.sh mpa --doc
# With flow: accuracy and speed of the simulator of flows, 1 CPU-minute.
#   make flow-bench > tables.md, or hack/bench.sh flow --doc to renew docs/flow-validation.md
# With flow-records: figures of the simulator beside their targets, its thresholds, and the paper's agents
# as controls, 9 CPU-minutes.
#   make flow-records > tables.md, or hack/bench.sh flow-records --doc to renew docs/flow-records.md
set -euo pipefail
cd "$(dirname "$0")/.."

tables=$(mktemp)
trap 'rm -f "$tables"' EXIT
if [[ -z ${SIGMA_DATA:-} && -d ../shared/data ]]; then
  SIGMA_DATA=$(cd ../shared/data && pwd)
  export SIGMA_DATA
fi
target=bench packages=./binpack/learned/linear tests='^TestSpeed$' page=docs/performance.md
if [[ ${1:-} == mpa ]]; then
  target=mpa-bench packages='./mpa/loadsim ./mpa ./internal/learn/rl'
  shift
elif [[ ${1:-} == flow ]]; then
  target=flow-bench packages=./flow/sim tests='^Test(Accuracy|Speed)$' page=docs/flow-validation.md
  shift
elif [[ ${1:-} == flow-records ]]; then
  target=flow-records packages=./flow/tune tests='^TestRecords$' page=docs/flow-records.md
  printf 'Measured at commit %s.\n\n' "$(git describe --always --dirty)" > "$tables"
  shift
fi
# One package at a time: they write to the same file.
for p in $packages; do
  SIGMA_BENCH=$tables go test -count=1 -timeout 30m -run "$tests" "$p" >&2
done

if [[ ${1:-} != --doc ]]; then
  cat "$tables"
  exit
fi
# The text between the markers is what this command prints.
awk -v tables="$tables" -v target="$target" '
  $0 == "<!-- end of make " target " -->" { inside = 0 }
  !inside { print }
  $0 == "<!-- make " target " -->" { inside = 1; while ((getline line < tables) > 0) print line; print "" }
' "$page" > "$tables.md"
mv "$tables.md" "$page"
