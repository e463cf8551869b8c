#!/usr/bin/env bash
# What counting egress is worth on generated clusters. Writes docs/results/egress.md; another
# page: hack/egress-records.sh FILE. SEEDS=20 clusters, the first of them 900000.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/egress.md}
seeds=${SEEDS:-20}
commit=$(git rev-parse --short HEAD)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/sigma" ./cmd/sigma

cat >"$dir/partners.yaml" <<'TEXT'
apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: partners}
spec: {featureVersion: 1, model: linear, knowledge: K0, features: [util, partners], weights: [1, 0.5]}
TEXT
for share in .3 .5 .7; do
	for ((i = 0; i < seeds; i++)); do
		"$dir/sigma" generate kubernetes --seed $((900000 + i)) --set egress=$share --set partners=.5 --out "$dir/$share/$((900000 + i))" >"$dir/stderr" 2>&1 || {
			cat "$dir/stderr" >&2
			exit 1
		}
	done
	(cd "$dir" && ./sigma compare --trace "$share" --policy bestfit,learned,partners.yaml --orders 1 --seed 1 >"$share.txt")
done
{
	cat <<'TEXT'
# Counting what pods send

Two days of random small clusters (`sigma generate kubernetes`, one node size), whose nodes have 10 Gbit/s for 32 cores. What a pod of an app sends is lognormal (σ 1.2) and has nothing to do with its cores; together the
declared replicas send a share of what the uplinks of the nodes can that they fill. Half of the Deployments are in pairs, of which one sends half of its traffic to the other, pod to pod. A node's pods may have .8 of its uplink together, and what one pod
sends is cut to that of a node: the heaviest pods of a real cluster stay above it, whatever places them. What is sent is as declared: it does not vary over the day.

Each policy replays each cluster once with egress and once as if it did not count; a machine is *above 95 %* by what its items send at the moment at which they send most together. The cost is that of machines over time, its mean over the clusters with the standard error.
The seeds are test seeds. `partners.yaml` is `util` with weight 1 and [`partners`](../features.md#features) with .5, set by hand; nothing was trained or tuned.

TEXT
	for share in .3 .5 .7; do
		printf '## Traffic %s of the uplinks\n\n' "$share"
		grep ': uplinks under ' "$dir/$share.txt" | sed -E 's/^[0-9]+ traces: uplinks under ([^:]+) when most is sent: /- `\1`: /'
		echo
	done
	echo "\`make egress-records\` at commit $commit, $seeds clusters each."
} >"$page.new"
mv "$page.new" "$page"
