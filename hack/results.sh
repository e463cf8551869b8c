#!/usr/bin/env bash
# Measures the shipped policies on instances and orders that training never saw
# and writes docs/results.md. Public sets are included when SIGMA_DATA is set.
# About 4 CPU-minutes. The seeds are those that nobody looked at while policies and
# planner were made (some from 900,000 on were).
set -euo pipefail
cd "$(dirname "$0")/.."
go build -trimpath -o bin/sigma ./cmd/sigma
work=out/results
rm -rf "$work"
mkdir -p "$work"
report=$work/results.md

cat >"$report" <<'MD'
# Results

Made by `hack/results.sh`: shipped policies (`learned`) on test instances (seeds
from 950,000) and shuffled orders, beside peers of the same run. `±` is the
standard error over instances. K0 knows only the past; +clock also the elapsed
share of the arrival period; K1 a forecast per app; K2 the true counts.
MD

# block TITLE: the next tables stand below it.
block() { printf '\n## %s\n' "$1" | tee -a "$report" >&2; }

# instances NAME KIND SEED COUNT [SET…]
instances() {
	local name=$1 kind=$2 seed=$3 count=$4 sets=()
	shift 4
	for s in "$@"; do sets+=(--set "$s"); done
	bin/sigma generate "$kind" --seed "$seed" --count "$count" "${sets[@]}" --out "$work/$name" >"$work/log"
}

# compare NAME POLICIES ORDERS [FLAGS…]
compare() {
	local name=$1 policies=$2 orders=$3
	shift 3
	{
		printf '\n```\nsigma compare --trace %s --policy %s --orders %s --seed 7 %s\n```\n\n' "$name" "$policies" "$orders" "$*"
		bin/sigma compare --trace "$work/$name" --policy "$policies" --orders "$orders" --seed 7 --format markdown "$@"
	} >>"$report"
}

block "small: 40 instances × 20 orders"
instances small small 950000 40
compare small bestfit,worstfit,dotproduct,firstfit,hand,learned 20 --knowledge K1
compare small bestfit,learned 20 --knowledge K2
compare small bestfit,learned 20 --knowledge K0

block "large at full scale: 8 instances × 20 orders"
instances large large 950000 8
for k in K1+clock K0+clock K1 K0; do compare large bestfit,worstfit,dotproduct,learned 20 --knowledge $k; done

block "large, a forecast 30 % too high and too low: 8 instances × 5 orders"
instances high large 950000 8 forecast=1.3
instances low large 950000 8 forecast=.7
instances noisy large 950000 8 noise=.7
for name in high low noisy; do compare $name bestfit,worstfit,learned 5 --knowledge K1+clock; done

block "large2d at full scale: 8 instances × 10 orders"
instances large2d large2d 950000 8
for k in K1+clock K0+clock K0; do compare large2d bestfit,worstfit,learned 10 --knowledge $k; done

block "fixed fleets of 1.02 × the volume bound: 8 instances × 5 orders"
instances fixed fixed 950000 8
compare fixed bestfit,worstfit,learned 5 --knowledge K0

block "churn: 4 instances in the file's order, 6 × 3 shuffled"
instances churn churn 950000 4
compare churn bestfit,worstfit,movetofront,learned 0 --knowledge K0
compare churn bestfit,worstfit,movetofront,learned 0 --knowledge K1
instances churn2 churn 950000 6
compare churn2 bestfit,learned 3 --knowledge K0

block "one dimension, fresh instances"
instances orlib orlib 950000 20
instances weibull weibull 950000 4
compare orlib firstfit,bestfit,learned 2
compare weibull firstfit,bestfit,learned 2

if [[ -n ${SIGMA_DATA:-} ]]; then
	block "public sets"
	bin/sigma convert funsearch "$SIGMA_DATA/funsearch-binpack/or3.json" --out "$work/or3" >"$work/log"
	bin/sigma convert funsearch "$SIGMA_DATA/funsearch-binpack/weibull-5k.json" --out "$work/weibull-5k" >"$work/log"
	bin/sigma convert tianchi "$SIGMA_DATA/tianchi2018-common" "$SIGMA_DATA/tianchi2018-prelim-b" --large-first --empty --out "$work/tianchi" >"$work/log"
	compare or3 firstfit,bestfit-l1,learned 0
	compare or3 bestfit-l1,learned 10
	compare weibull-5k firstfit,bestfit-l1,learned 0
	compare weibull-5k bestfit-l1,learned 5
	compare tianchi firstfit,bestfit,dotproduct,learned 0
	compare tianchi bestfit,learned 3
fi
mv "$report" docs/results.md
echo 'wrote docs/results.md' >&2
