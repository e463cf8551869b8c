#!/usr/bin/env bash
# Runs every fuzz target of the product and of the laboratory, one after another, for equal shares
# of one total, with two workers each so that it costs the same on any machine:
#
#   hack/fuzz.sh [TOTAL [WITHOUT]]   TOTAL like 60s, 10m or 1h; 60s without
#
# Packages that import WITHOUT, say k8s.io, are left out: all that a target imports
# is compiled for the fuzzer, which for Kubernetes takes minutes.
# Targets are found by name, so a new one needs no list. A new input is minimised
# in ten tries only: Go's own minute for each would use up the share. Go writes a
# crasher to testdata/fuzz beside the target: commit it as a seed with the repair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

total=${1:-60s}
case $total in
*h) seconds=$((${total%h} * 3600)) ;;
*m) seconds=$((${total%m} * 60)) ;;
*s) seconds=${total%s} ;;
*) seconds=$total ;;
esac

# Folders below hack/ are modules of their own. lab is one, too, and its targets import no Kubernetes.
mapfile -t targets < <(grep -rHE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\([a-z]+ \*testing\.F\)' . |
	grep -vE '^\./(hack|out)/|/testdata/' | sed -E 's|/[^/]*:func (Fuzz[A-Za-z0-9_]*).*| \1|' | sort)
if [[ -n ${2-} ]]; then
	mapfile -t targets < <(
		for target in "${targets[@]}"; do
			[[ $target != ./lab/* && -z $(hack/without.sh "$2" "${target% *}") ]] || echo "$target"
		done
	)
fi
if [[ ${#targets[@]} -eq 0 ]]; then
	echo 'fuzz: no targets in this tree'
	exit 0
fi
share=$((seconds / ${#targets[@]}))
((share > 0)) || share=1
echo "fuzz: ${#targets[@]} targets, ${share}s each"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
for target in "${targets[@]}"; do
	read -r folder name <<<"$target"
	echo "--- $name in $folder"
	module=.
	if [[ $folder == ./lab/* ]]; then module=lab folder=./${folder#./lab/}; fi
	if go test -C "$module" -run '^$' -fuzz "^$name\$" -fuzztime "${share}s" -fuzzminimizetime 10x -parallel 2 "$folder" 2>&1 | tee "$log"; then
		continue
	fi
	# Go before 1.27 sometimes reports the end of -fuzztime itself as a failure
	# (go.dev/issue/75804). A real one names its input or its panic.
	if grep -q 'context deadline exceeded' "$log" && ! grep -qiE 'failing input|panic|_test\.go:[0-9]+' "$log"; then
		echo "--- $name: the time ran out (go.dev/issue/75804), nothing was found"
		continue
	fi
	failed=1
done
exit "$failed"
