#!/usr/bin/env bash
# Placements per CPU-second of a replay by nodes, as Markdown on stdout: marginal ones, that is the cpu of a
# comparison of 11 orders less that of one, ÷ 10. Best-Fit and the policy of a cluster's beginning take turns
# with the commit BASE; peak memory is that of 11 orders, two at a time.
#   make bench-replay, NODES="1000 5000" BASE=HEAD~1 ROUNDS=1
# Clusters of more than 5,000 nodes are several of 5,000 together.
set -euo pipefail
cd "$(dirname "$0")/.."
nodes=${NODES:-1000 5000}
base=$(git rev-parse --short "${BASE:-HEAD~1}")
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/base" 2>"$dir/err" || true; rm -rf "$dir"' EXIT
git worktree add --detach -q "$dir/base" "$base"
go build -o "$dir/now" ./cmd/sigma
(cd "$dir/base" && go build -o "$dir/before" ./cmd/sigma)

# trace NODES: a cluster with about 20 pods a node, and churn.
trace() {
	local copies=$((($1 + 4999) / 5000)) t="$dir/$1" i
	"$dir/now" generate kubernetes --seed 2 --set days=1 --set nodes=$(($1 / copies)) --out "$t" --quiet >"$dir/out"
	((copies > 1)) || return 0
	for f in apps rules events; do
		awk -F, -v OFS=, -v copies="$copies" -v f=$f '
			NR == 1 { print; next }
			{
				r = $0
				for (i = 1; i <= copies; i++) {
					$0 = r
					if (f == "apps") { $1 = i "-" $1; $2 = $2 == "" ? "" : i "-" $2 }
					if (f == "rules") { $1 = i "-" $1; $2 = i "-" $2 }
					if (f == "events") { $3 = i "-" $3; $4 = $4 == "" ? "" : i "-" $4 }
					print
				}
			}' "$t/$f.csv" >"$dir/csv"
		mv "$dir/csv" "$t/$f.csv"
	done
}

# cpu PROGRAM NODES POLICY: marginal placements per CPU-second, and MiB.
cpu() {
	local orders
	for orders in 1 11; do
		command time -f '%U %S %M' -o "$dir/time$orders" "$dir/$1" compare --trace "$dir/$2" --policy "$3" --orders $orders --quiet >"$dir/out"
	done
	cat "$dir/time1" "$dir/time11" | awk -v items="$(awk -F, '$2 == "create" { n += $5 } END { print n }' "$dir/$2/events.csv")" '
		{ s[NR] = $1 + $2; m = $3 } END { printf "%.0f %.0f\n", 10 * items / (s[2] - s[1]), m / 1024 }'
}

echo "| nodes | policy | placements/CPU-s | ÷ Best-Fit | before | now ÷ before (least … most) | MiB |"
echo "|---:|---|---:|---:|---:|---|---:|"
for n in $nodes; do
	trace "$n"
	for p in bestfit manifests/policy.yaml; do
		for ((r = 0; r < ${ROUNDS:-1}; r++)); do
			echo "$(cpu before "$n" $p) $(cpu now "$n" $p)"
		done >"$dir/rounds"
		sort -n -k 3 "$dir/rounds" | awk -v n="$n" -v p=$p -v file="$dir/bestfit" '
			{ before[NR] = $1; now[NR] = $3; mib = $4 > mib ? $4 : mib; q = $3 / $1; lo = NR == 1 || q < lo ? q : lo; hi = q > hi ? q : hi; sum += q }
			END {
				m = int((NR + 1) / 2)
				if (p == "bestfit") print now[m] >file; else getline best <file
				printf "| %d | %s | %d | %s | %d | **%.2f** (%.2f … %.2f) | %d |\n", n, p == "bestfit" ? p : "installed", now[m], p == "bestfit" ? "1" : sprintf("%.2f", now[m] / best), before[m], sum / NR, lo, hi, mib
			}'
	done
done
echo
echo "Commit $(git describe --always --dirty), before: $base."
