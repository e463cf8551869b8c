#!/usr/bin/env bash
# CLUSTERS (10000) generated clusters, the model beside kube-scheduler's default filters. Writes
# docs/results/oracle-constraints.md; another page: hack/oracle-constraints.sh FILE. The page is written where the
# model differs too; then the script fails, and out/oracle-constraints holds the smallest cluster of each kind.
# NEXT=1: the filters of the next Kubernetes, as pinned in lab/oracle/next.mod; the page has its name then.
set -euo pipefail
cd "$(dirname "$0")/.."

clusters=${CLUSTERS:-10000}
[[ $clusters =~ ^[1-9][0-9]*$ ]] || { echo "CLUSTERS=$clusters: want a number from 1" >&2 && exit 2; }
page=${1:-docs/results/oracle-constraints.md} flags=() command='make oracle-constraints'
if [[ ${NEXT:-} ]]; then
	page=${1:-docs/results/oracle-constraints-next.md} flags=(-modfile=lab/oracle/next.mod) command+=' NEXT=1'
fi
[[ $clusters == 10000 ]] || command+=" CLUSTERS=$clusters"
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- '*.go' go.mod go.sum || commit+=' with changes that are not committed'
version=$(go list "${flags[@]}" -m -f '{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}' k8s.io/kubernetes)
dir=out/oracle-constraints/$version
rm -rf "$dir" && mkdir -p "$dir"
result=0
CGO_ENABLED=0 SIGMA_ORACLE=$clusters SIGMA_ORACLE_EXAMPLES=$PWD/$dir \
	go test "${flags[@]}" -trimpath -count=1 -timeout 6h -v -run '^TestConstraints$' ./internal/oracle >"$dir/run.txt" 2>&1 || result=$?

# rows are those of one table.
rows() { sed -nE "s/^ *tally_test.go:[0-9]+: \| $1 \| (.*\|)$/| \1/p" "$dir/run.txt"; }
asked=$(rows asked)
[[ $asked ]] || { tail -n 100 "$dir/run.txt" >&2 && exit 1; }
{
	cat <<TEXT
# The model of constraints beside kube-scheduler's filters

Generated clusters of 5 to 40 nodes, with every field of a pod that a filter of kube-scheduler's default profile reads. Each pod that Sigma would
move, and each that waits and is taken as fully known, is asked about on every node, with the pod itself taken away. Kubernetes is $version.

*Wider*: the model allows what a filter refuses. *Narrower*: it refuses what all filters allow. Explain's model is also the scheduler's and make-room's; the trace is
what compare, plan, whatif and rebalance read. A planned move counts where the filters refuse it at its turn. The last column is a cluster with the difference:
\`SIGMA_ORACLE_CLUSTER=N SIGMA_ORACLE_KIND=TEXT go test -v -run 'TestExample\$' ./internal/oracle\` prints the smallest part of it that still differs.

| asked | | | | | |
|---|---|---|---|---|---|
$asked

| wider: filter, reason and feature | explain | trace | moves of rebalance | of make-room | cluster |
|---|---:|---:|---:|---:|---:|
$(rows wider)

| narrower: constraint of the model | explain | trace | | | cluster |
|---|---:|---:|---:|---:|---:|
$(rows narrower)

| pods of which nothing is said | |
|---|---:|
$(rows ignored)

\`$command\` at commit $commit, $(go env GOVERSION).
TEXT
} >"$dir/page.md"
cp "$dir/page.md" "$page"
((result == 0)) || { echo "the model differs: read $page and $dir" >&2 && exit "$result"; }
