#!/usr/bin/env bash
# The product in one go, on generated data: makes traces, trains policies on
# some of them, and compares the policies on others, which training never saw.
#
#   hack/demo.sh                  about a minute of CPU, besides a cold build
#   DEMO_BUDGET=ci hack/demo.sh   a few seconds of it
#
# Everything goes to out/demo, the report to out/report.html.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${DEMO_BUDGET:-full} in
full) train=48 tests=40 orders=20 evaluations=2000 large_train=8 large_tests=10 large_evaluations=800 ;;
ci) train=4 tests=10 orders=5 evaluations=400 large_train=2 large_tests=3 large_evaluations=100 ;;
*)
	echo "DEMO_BUDGET=$DEMO_BUDGET: want full or ci" >&2
	exit 2
	;;
esac

say() { printf '\n== %s\n' "$*"; }

make -s build
sigma=bin/sigma
dir=out/demo
rm -rf "$dir"
mkdir -p "$dir"

say "traces: seeds from 1 to train on, from 900000 to test on"
"$sigma" generate small --seed 1 --count "$train" --out "$dir/small-train" | tail -n 1
"$sigma" generate small --seed 900000 --count "$tests" --out "$dir/small-test" | tail -n 1
"$sigma" generate large --set scale=.2 --seed 1 --count "$large_train" --out "$dir/large-train" | tail -n 1
"$sigma" generate large --set scale=.2 --seed 900000 --count "$large_tests" --out "$dir/large-test" | tail -n 1

# The controls get the same number of replays as the swarm.
for optimizer in swarm random cmaes; do
	say "training on small with $optimizer"
	"$sigma" train --trace "$dir/small-train" --knowledge K1 --orders 1 --evaluations "$evaluations" \
		--optimizer "$optimizer" --log "$dir/$optimizer.csv" --out "$dir/$optimizer.yaml"
done
say "training on large with swarm; the policy also sees how much of the day is over"
"$sigma" train --trace "$dir/large-train" --knowledge K1+clock --orders 2 --evaluations "$large_evaluations" \
	--log "$dir/swarm-large.csv" --out "$dir/swarm-large.yaml"

policies=firstfit,bestfit,worstfit,dotproduct,mostallocated,leastallocated,requestedtocapacityratio,balancedallocation
if compgen -G 'benchdata/policies/hand-k1*.yaml' >/dev/null; then
	policies+=,hand
fi
policies+=,$dir/swarm.yaml,$dir/random.yaml,$dir/cmaes.yaml,$dir/swarm-large.yaml

for kind in small large; do
	say "unseen $kind instances, $orders orders of arrival each"
	"$sigma" compare --trace "$dir/$kind-test" --policy "$policies" --orders "$orders" | tee "$dir/$kind.txt"
done
"$sigma" compare --trace "$dir/small-test" --trace "$dir/large-test" --policy "$policies" --orders "$orders" \
	--report out/report.html >"$dir/all.txt"

# `times` must run in this shell: a subshell has no children yet.
times >"$dir/times"
printf '\n%s CPU seconds\n' "$(awk -F '[ms ]+' 'NR == 2 {printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4}' "$dir/times")"
echo 'the report is in out/report.html'
if [[ -t 1 && -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open >/dev/null; then
	xdg-open out/report.html
elif [[ -t 1 ]] && command -v open >/dev/null && [[ $(uname) == Darwin ]]; then
	open out/report.html
fi
