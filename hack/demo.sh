#!/usr/bin/env bash
# The product in one go, on generated data. First the bill of a cluster, from a dump.
# Then another cluster: sigma tune learns from its first day, and its second day judges
# what that chose. Then the article's instances: policies trained on some, compared on others.
#
#   make demo                  about two minutes of CPU, besides a cold build
#   DEMO_BUDGET=ci make demo   a few seconds of it
#
# Everything goes to out/demo, the report to out/report.html.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${DEMO_BUDGET:-full} in
full)
	fleets='one open fixed' cluster=(--set nodes=100) first=24h tune=()
	train=32 tests=20 orders=10 evaluations=1200 large_train=4 large_tests=8 large_evaluations=400
	;;
ci)
	fleets='open fixed' cluster=(--set nodes=20) first=24h tune=(--evaluations 10 --seeds 1)
	train=4 tests=5 orders=3 evaluations=200 large_train=2 large_tests=2 large_evaluations=50
	;;
*)
	echo "DEMO_BUDGET=$DEMO_BUDGET: want full or ci" >&2
	exit 2
	;;
esac

say() { printf '\n== %s\n' "$*"; }

# rows FILE: some columns of the table that compare has written.
rows() {
	awk -F '  +' '
		/^policy / {
			n = split("policy,knowledge,peak,gap %,vs bestfit %,alloc cpu,unplaced,wait s", wanted, ",")
			for (i = 1; i <= NF; i++) at[$i] = i
		}
		/^(forecast|weights) / { exit }
		n {
			printf "%-26s", $1
			for (i = 2; i <= n; i++) if (wanted[i] in at) printf "  %*s", i == 2 ? 9 : length(wanted[i]) + 1, $at[wanted[i]]
			print ""
		}' "$1"
}

make -s build
sigma=bin/sigma
dir=out/demo
rm -rf "$dir"
mkdir -p "$dir"

bill=docs/examples/messy.json.gz,docs/examples/messy.csv.gz
say "the bill of a cluster: sigma savings --from $bill"
"$sigma" savings --from "$bill" --quiet --report "$dir/savings.html" | tee "$dir/savings.txt"

say "a Kubernetes cluster with roll-outs, daily scaling and jobs, as three kinds of fleet"
for fleet in $fleets; do
	tight=()
	[[ $fleet != fixed ]] || tight=(--set f=1.02) # of the peak volume, as on the page of results
	"$sigma" generate kubernetes --seed 300000 "${cluster[@]}" --set "fleet=$fleet" ${tight[@]+"${tight[@]}"} --out "$dir/$fleet" | tail -n 1
done
about_one='an autoscaler adds nodes of one size'
about_open='an autoscaler adds nodes of several sizes'
about_fixed='as many nodes as hold 1.02 times the peak'
rules=bestfit,mostallocated,worstfit,dotproduct
for fleet in $fleets; do
	about=about_$fleet flags=() all=manifests/policy.yaml,$rules
	if [[ $fleet == fixed ]]; then
		all+=,leastallocated flags=(--retry) # kube-scheduler's default, which takes each empty node that an elastic fleet offers
	fi
	"$sigma" tune --trace "$dir/$fleet" --until "$first" "${tune[@]}" --quiet \
		--out "$dir/tuned-$fleet.yaml" --report "$dir/verdict-$fleet.html" >"$dir/tune-$fleet.txt"
	# Without a file, the verdict names a built-in rule, or keeps the installed policy.
	chosen=$dir/tuned-$fleet.yaml
	[[ -f $chosen ]] || chosen=$(sed -nE '1s/^use the rule ([a-z0-9-]*):.*/\1/p' "$dir/tune-$fleet.txt")
	[[ -z $chosen || ,$all, == *,$chosen,* ]] || all+=,$chosen
	"$sigma" compare --trace "$dir/$fleet" --policy "$all" ${flags[@]+"${flags[@]}"} --quiet \
		--report "$dir/report-$fleet.html" >"$dir/compare-$fleet.txt"
	[[ $fleet != open ]] || cp "$dir/report-open.html" out/report.html
	{
		say "${!about}: the first $first to sigma tune, the rest judges"
		echo "sigma tune: $(head -n 1 "$dir/tune-$fleet.txt")"
		echo "after that: $(head -n 1 "$dir/compare-$fleet.txt")"
		echo
		rows "$dir/compare-$fleet.txt"
	} | tee -a "$dir/cluster.txt"
done

say "the article's instances: seeds from 1 to train on, from 900000 to test on"
"$sigma" generate small --seed 1 --count "$train" --out "$dir/small-train" | tail -n 1
"$sigma" generate small --seed 900000 --count "$tests" --out "$dir/small-test" | tail -n 1
"$sigma" generate large --set scale=.2 --seed 1 --count "$large_train" --out "$dir/large-train" | tail -n 1
"$sigma" generate large --set scale=.2 --seed 900000 --count "$large_tests" --out "$dir/large-test" | tail -n 1
"$sigma" train --trace "$dir/small-train" --knowledge K1 --orders 1 --evaluations "$evaluations" --quiet \
	--log "$dir/swarm.csv" --out "$dir/swarm.yaml"
# This one also knows how much of the day is over: for offline use, or planned windows.
"$sigma" train --trace "$dir/large-train" --knowledge K1+clock --orders 2 --evaluations "$large_evaluations" --quiet \
	--log "$dir/swarm-large.csv" --out "$dir/swarm-large.yaml"
for kind in small large; do
	say "unseen $kind instances, $orders orders of arrival each"
	"$sigma" compare --trace "$dir/$kind-test" --orders "$orders" --quiet \
		--policy "firstfit,$rules,manifests/policy.yaml,$dir/swarm.yaml,$dir/swarm-large.yaml" | tee "$dir/$kind.txt"
done

echo
echo 'the report on several node sizes is in out/report.html; the others, and the verdicts, are in out/demo'
if [[ -t 1 && -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open >/dev/null; then
	xdg-open out/report.html
elif [[ -t 1 ]] && command -v open >/dev/null && [[ $(uname) == Darwin ]]; then
	open out/report.html
fi
