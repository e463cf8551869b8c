#!/usr/bin/env bash
# The speed of the packing core as Markdown on stdout: rates and ratios to plain
# twins, measured in turns, and placements by machines, dimensions and items; at
# most 4 CPU-minutes. SIGMA_DATA adds tianchi-prelim-b.
#   make bench > tables.md, or hack/bench.sh --doc to renew docs/performance.md
set -euo pipefail
cd "$(dirname "$0")/.."

tables=$(mktemp)
trap 'rm -f "$tables"' EXIT
if [[ -z ${SIGMA_DATA:-} && -d ../shared/data ]]; then
  SIGMA_DATA=$(cd ../shared/data && pwd)
  export SIGMA_DATA
fi
SIGMA_BENCH=$tables go test -count=1 -timeout 30m -run '^TestSpeed$' ./binpack/policy >&2

if [[ ${1:-} != --doc ]]; then
  cat "$tables"
  exit
fi
# Between the markers stands what this command prints.
awk -v tables="$tables" '
  /<!-- end of make bench -->/ { inside = 0 }
  !inside { print }
  /<!-- make bench -->/ { inside = 1; while ((getline line < tables) > 0) print line; print "" }
' docs/performance.md > "$tables.md"
mv "$tables.md" docs/performance.md
