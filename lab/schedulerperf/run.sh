#!/usr/bin/env bash
# Compares scheduler profiles, with Sigma and without, by pods per CPU-second of
# the scheduler, as Markdown on stdout; about 10 CPU-minutes at 1,000 nodes and
# 40 more at 5,000. Building what is missing takes up to 15 more.
#   make bench-scheduler, or lab/schedulerperf/run.sh --doc to renew docs/scheduler-performance.md
#   NODES="1000 5000" ROUNDS=5 PODS=3000 PROFILES="mostallocated sigma" (empty: all, and scheduler_perf)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

programs=$(lab/controlplane/build.sh)
release=$(go list -m -f '{{.Replace.Version}}' k8s.io/kubernetes)
bin=$PWD/bin
go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$release" \
	-o "$bin/sigma-scheduler" ./cmd/sigma-scheduler
cd lab/schedulerperf
go build -buildvcs=false -o "$bin/schedulerperf" .
# Not with -trimpath: the API server's test code looks for its own folder.
[[ -n ${PROFILES:-} ]] || go test -c -o "$bin/scheduler_perf.test" ./upstream

tables=$(mktemp)
trap 'rm -f "$tables"' EXIT
"$bin/schedulerperf" -programs "$programs" -scheduler "$bin/sigma-scheduler" -upstream "$bin/scheduler_perf.test" \
	-nodes "${NODES:-1000}" -rounds "${ROUNDS:-5}" -pods "${PODS:-3000}" -profiles "${PROFILES:-}" >"$tables"

if [[ ${1:-} != --doc ]]; then
	cat "$tables"
	exit
fi
# The text between the markers is what this command prints.
doc=../../docs/scheduler-performance.md
awk -v tables="$tables" '
  /<!-- end of make bench-scheduler -->/ { inside = 0 }
  !inside { print }
  /<!-- make bench-scheduler -->/ { inside = 1; while ((getline line < tables) > 0) print line; print "" }
' "$doc" >"$tables.md"
mv "$tables.md" "$doc"
