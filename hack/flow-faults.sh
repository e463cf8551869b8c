#!/usr/bin/env bash
# Faults while flows pass through an ordered uplink, ROUNDS of each (20), as root. Writes
# docs/results/flow-faults.md; another page: hack/flow-faults.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/flow-faults.md}
rounds=${ROUNDS:-20}
commit=$(git rev-parse --short HEAD)
dir=out/flow-faults/$commit
mkdir -p "$dir"
SIGMA_ROUNDS=$rounds go test -trimpath -count=1 -timeout 1h -v -run '^TestOrderFaults$' ./flow/node >"$dir/node.txt" || {
	grep -v '^=== ' "$dir/node.txt" >&2
	exit 1
}
{
	cat <<'TEXT'
# Faults while an uplink is ordered

Two pods, a node and a peer are network namespaces of one machine, the node's uplink has HTB at 1 Gbit/s and the program of [`sigma-flow`](../flows.md). Six senders deliver flows of 100 bytes to 1 MB, one after the other, and the peer compares every byte. The fault comes
within 60 ms. Each round asks for: every flow arrives as it was sent; the program says bands afterwards, or the status says that it does not; once the order is turned off, queueing discipline, programs and pins are as they were
found, but for what somebody else has put there. A flow that did not arrive as it was sent ends the run; those of a pod that is gone do not count, nor do connections that find no way to the peer while the uplink is down.

| fault | rounds | flows | MB | what the killed agent had left |
|---|---:|---:|---:|---|
TEXT
	sed -n 's/^ *faults_test.go:[0-9]*: |/|/p' "$dir/node.txt"
	cat <<'TEXT'

Not here: a veth that vanishes while a program is attached to it and a restart of the CNI, as nothing is attached to veths; a node that is drained.
Thresholds that make no sense, older ones, a central that is away or writes garbage, and a clock that jumps are tested in virtual time (`flow/follow`, `flow/central`); the API server that goes away and a central that is killed on a real control plane (TestFlowPolicy).

TEXT
	echo "\`make flow-faults\` at commit $commit."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
