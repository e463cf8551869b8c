#!/usr/bin/env bash
# Builds what tests of a real control plane need and runs them: without arguments
# all, or those of lab/e2e that match TESTS; with arguments (those of go test) the
# tests of lab/e2e in one process. It prints failures only.
#
#   hack/e2e.sh -run TestGang -v
#
# Programs are built into out/e2e, where those of the last run are reused;
# the control plane, Prometheus and Knative are cached by lab/controlplane,
# lab/prometheus and hack/knative. The logs of failed tests are kept in out/e2e/failed.
set -euo pipefail
shopt -s extglob
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lab/controlplane/build.sh >/dev/null
lab/prometheus/build.sh >/dev/null
if (($# == 0)) && [[ -z ${TESTS:-} ]]; then hack/knative/build.sh >/dev/null; fi # a test that needs it builds it too
mkdir -p out/e2e
rm -rf out/e2e/failed
for program in sigma sigma-scheduler sigma-extender sigma-mpa sigma-gate sigma-pilot sigma-flow; do
	if [[ -f cmd/$program/main.go ]]; then
		go build -tags grpcnotrace -ldflags '-s -w' -o "out/e2e/$program" "./cmd/$program"
	fi
done
# Chart and manifests as users get them, and Helm to install the one.
cp "$(hack/release/build.sh helm)/helm" out/e2e/helm
VERSION=test hack/release/run.sh chart out/e2e/chart >/dev/null
VERSION=test REGISTRY=registry.example.org hack/release/run.sh install out/e2e/install
go test -C lab -tags e2e,grpcnotrace -c -o ../out/e2e/e2e.test ./e2e
# A generated cluster for TestDrawnMoves.
rm -rf out/e2e/clusters && mkdir out/e2e/clusters
SIGMA_ORACLE_MOVABLE=1 SIGMA_ORACLE_DUMP=$PWD/out/e2e/clusters SIGMA_ORACLE_FROM=4 go test -count=1 -run '^TestDump$' ./internal/oracle >/dev/null

# The packages whose tests need an API server only.
others=$(grep -rl --include='*_test.go' '^//go:build e2e' plugins mpa manifests | xargs -n1 dirname | sort -u | sed 's|^|./|')
if (($# == 0)); then
	# The last test compares what all of them asked the API servers for with the manifests.
	rm -rf out/e2e/audit
	mkdir out/e2e/audit
	[[ ${TESTS:-} ]] || : >out/e2e/audit/whole
	# shellcheck disable=SC2086 # one word each
	lab/controlplane/run.sh go test -tags e2e,grpcnotrace -p 1 -count=1 $others
fi

flags=(-test.timeout=60m)
for flag in "$@"; do
	case $flag in
	-test.* | --test.*) flags+=("$flag") ;;
	-*) flags+=("-test.${flag##*(-)}") ;;
	*) flags+=("$flag") ;;
	esac
done
cd lab/e2e
e2e=(../../out/e2e/e2e.test "${flags[@]}")
if (($#)); then exec "${e2e[@]}"; fi

# Most tests wait for programs rather than for a core: two processes, each with a control plane
# of its own, take every second test. What all of them used is compared after both.
mapfile -t tests < <("${e2e[@]}" -test.list "${TESTS:-.}" | grep -v '^TestRightsUsed$')
((${#tests[@]})) || { echo "hack/e2e.sh: no test matches ${TESTS:-.}" >&2 && exit 2; }
half() { # the regular expression of every second test, from the given one on
	local -a mine=()
	for ((i = $1; i < ${#tests[@]}; i += 2)); do mine+=("${tests[i]}"); done
	local IFS='|'
	echo "^(${mine[*]})\$"
}
"${e2e[@]}" -test.run "$(half 0)" >../../out/e2e/half.log 2>&1 &
other=$!
trap 'kill $other 2>/dev/null || true' EXIT
status=0
"${e2e[@]}" -test.run "$(half 1)" || status=1
wait "$other" || status=1
cat ../../out/e2e/half.log
[[ ${TESTS:-} ]] || "${e2e[@]}" -test.run '^TestRightsUsed$' || status=1
exit "$status"
