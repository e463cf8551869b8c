#!/usr/bin/env bash
# How far the autoscaler's simulator is right: renews the tables of
# docs/mpa-validation.md, against queueing theory (20 CPU-seconds) and against a real
# server whose processor the kernel limits (10 minutes; needs Linux, root, two cores, and
# the machine for itself).
#   make mpa-validate, or hack/mpa-validate.sh -runs 3 -app io
set -euo pipefail
cd "$(dirname "$0")/.."

tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
{
  printf '| | theory | simulated | deviation |\n|---|---:|---:|---:|\n'
  SIGMA_THEORY=$tables/rows go test -count=1 -run '^(TestErlangC|TestProcessorSharing|TestLittle|TestTurnsOverTime)$' ./mpa/loadsim >&2
  cat "$tables/rows"
} > "$tables/theory"
go build -o "$tables/mpavalidate" ./hack/mpavalidate
"$tables/mpavalidate" "$@" > "$tables/server"
{
  printf '\nMeasured on %s, %s cores, Linux %s, %s, timer of %s Hz.\n' \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$(uname -r | cut -d- -f1)" "$(go version | cut -d' ' -f3)" \
    "$(zcat /proc/config.gz 2>/dev/null | sed -n 's/^CONFIG_HZ=//p')"
} >> "$tables/server"

# Between the markers stands what was printed.
for part in theory server; do
  awk -v file="$tables/$part" -v part="$part" '
    $0 == "<!-- end of " part " -->" { inside = 0 }
    !inside { print }
    $0 == "<!-- " part " -->" { inside = 1; print ""; while ((getline line < file) > 0) print line; print "" }
  ' docs/mpa-validation.md > "$tables/page"
  cp "$tables/page" docs/mpa-validation.md
done
