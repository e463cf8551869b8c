#!/usr/bin/env bash
# Compares the model of what kube-scheduler allows with its default filters on CLUSTERS (10000) drawn clusters. Writes
# docs/results/oracle-constraints.md; another page: hack/oracle-constraints.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/oracle-constraints.md}
clusters=${CLUSTERS:-10000}
commit=$(git rev-parse --short HEAD)
dir=out/oracle-constraints/$commit
mkdir -p "$dir"
SIGMA_ORACLE=$clusters go test -trimpath -count=1 -timeout 4h -v -run '^TestConstraints$' ./internal/oracle >"$dir/run.txt" 2>&1 || {
	grep -v '^=== ' "$dir/run.txt" | tail -n 100 >&2
	exit 1
}
rows() { sed -nE "s/^ *tally_test.go:[0-9]+: \\| $1 \\|(.*)$/|\\1/p" "$dir/run.txt"; }
{
	cat <<'TEXT'
# The model beside kube-scheduler's filters

Clusters of 5 to 40 nodes are drawn, with every field of a pod that a filter reads; their pods come through the API server's defaults and
validation, and are placed by the filters. Each pod that Sigma would move, or takes as fully known while it waits, is asked about on every node
with the pod itself taken away: by explain's model, and by the trace of a snapshot, which compare, plan, whatif and rebalance read. The moves that rebalance
and make-room plan are checked one after the other. *Wider*: allowed, and a filter refuses it; no such pair may be. *Narrower*: refused,
and all filters allow it. Nodes of a trace that a note calls overcommitted are left out of the trace's pairs.

TEXT
	echo "In $(rows asked | sed -e 's/^| //' -e 's/ |$//' -e 's/ | /, /g'). Wider: $(rows wider | wc -l) kinds."
	echo
	echo '| narrower | pairs of explain | of the trace | moves of rebalance | of make-room | first in cluster |'
	echo '|---|---:|---:|---:|---:|---:|'
	rows narrower
	echo
	echo 'Pods of which nothing is said, since they may not move or are not known ([constraints](../constraints.md)):'
	echo
	echo '| pods | why |'
	echo '|---:|---|'
	rows ignored | awk -F' [|] ' '{ sub(/^[|] /, "", $1); sub(/ [|]$/, "", $2); print "| " $2 " | " $1 " |" }'
	echo
	echo "\`make oracle-constraints\` at commit $commit, Kubernetes $(go list -m -f '{{.Version}}' k8s.io/kubernetes)."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
