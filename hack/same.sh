#!/usr/bin/env bash
# Compares the outputs of `sigma` with those of a former commit on generated inputs, byte for byte. A change of
# structure must leave them equal.
#
#   hack/same.sh COMMIT
#
# A command that fails must fail alike. Of a page the data inside it are compared: its markup may change. Prints
# each command that differs, and the numbers; exits with 1 where one differs.
set -euo pipefail
cd "$(dirname "$0")/.."

before=${1:?COMMIT}
dir=$PWD/out/same
rm -rf "$dir" && mkdir -p "$dir"
trap 'git worktree remove --force "$dir/tree" 2>/dev/null || true' EXIT
git worktree prune
git worktree add -q --detach "$dir/tree" "$before"
(cd "$dir/tree" && go build -trimpath -buildvcs=false -o "$dir/old" ./cmd/sigma)
go build -trimpath -buildvcs=false -o "$dir/new" ./cmd/sigma

printf 'size_bytes,cdf\n0,0\n1000,.3\n10000,.6\n100000,.9\n10000000,1\n' >"$dir/sizes.csv"

equal=0 different=0 failed=0
# both runs a command by both programs, each in a folder of its own, where the files that it writes are.
both() {
	local side
	for side in old new; do
		mkdir -p "$dir/$side.d"
		(cd "$dir/$side.d" && timeout 300 "../$side" "$@" >stdout 2>stderr && echo 0 >status || echo $? >status)
		[[ ! -e $dir/$side.d/page.html ]] || sed -i -n '/id="sigma-data"/p' "$dir/$side.d/page.html"
	done
	if ! diff -rq "$dir/old.d" "$dir/new.d" >"$dir/diff.txt"; then
		different=$((different + 1))
		printf 'differs: sigma %s\n' "$*"
		diff -r "$dir/old.d" "$dir/new.d" | head -n 5 || true
	elif [[ $(<"$dir/new.d/status") == 0 ]]; then
		equal=$((equal + 1))
	else
		failed=$((failed + 1))
	fi
	rm -rf "$dir/old.d" "$dir/new.d"
}

inputs=0
while read -r kind seed set; do
	inputs=$((inputs + 1))
	in=$dir/in/$kind-$seed
	# shellcheck disable=SC2086 # one word each
	"$dir/new" generate "$kind" --seed "$seed" $set --out "$in" >/dev/null
	both generate "$kind" --seed "$seed" $set --out generated
	both bound --trace "$in" --format json --effort 0
	both compare --trace "$in" --policy firstfit,bestfit,worstfit,learned --orders 2 --effort 0
	both compare --trace "$in" --policy dotproduct,leastallocated,mostallocated --effort 0 --format json --report page.html
	both replay --trace "$in" --policy learned --placements placements.csv
	both plan --trace "$in" --placements plan.csv --effort 0 --starts 1 --steps 500
	both explain --trace "$in" --policy bestfit --request "$(awk -F, 'NR == 2 { print $3 }' "$in/events.csv")"
	"$dir/new" replay --trace "$in" --policy firstfit --placements "$dir/start.csv" >/dev/null 2>&1 || true
	both rebalance --trace "$in" --placements "$dir/start.csv" --moves 2% --out moves.csv
	rm -rf "$in"
done <<'INPUTS'
small 1
small 2
small 900001 --set sigma=0.5
small 900002 --set fleet=fixed
large 1 --set scale=.2
large 2 --set scale=.2
large 900003 --set scale=.3
large2d 1 --set scale=.2
large2d 2 --set scale=.2
large3d 1 --set scale=.2
large3d 2 --set scale=.2
fixed 1 --set scale=.2
fixed 2 --set scale=.2
churn 1 --set scale=.1
kubernetes 1
kubernetes 2
kubernetes 900004
kubernetes 3 --set fleet=fixed
large 3 --set scale=.2
small 3 --set total=known
INPUTS
for seed in 1 2 3; do
	both mpa simulate --trace synthetic:flash-crowd --set high=100 --app "$PWD/docs/examples/autoscaling/web.yaml" --hours 3 --seed $seed --agents hpa,hpa+vpa,learned --format json
	both flow simulate --sizes "$dir/sizes.csv" --load .6 --rate 10G --flows 20000 --seeds 1 --seed $seed --policy fair,tuned,las,srpt --format json
done
printf '%d inputs: %d outputs equal, %d fail alike, %d differ from %s\n' "$inputs" "$equal" "$failed" "$different" "$before"
((different == 0))
