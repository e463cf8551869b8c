#!/usr/bin/env bash
# Pastes the tables of the last full `make demo` (out/demo/small.txt, large.txt)
# into README.md, between the lines demo:start and demo:end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for kind in small large; do
	if [[ ! -s out/demo/$kind.txt ]]; then
		echo "out/demo/$kind.txt is not there: run make demo first" >&2
		exit 1
	fi
done

block=$(mktemp)
trap 'rm -f "$block"' EXIT
for kind in small large; do
	printf '\nUnseen `%s` instances:\n\n```\n' "$kind"
	cat "out/demo/$kind.txt"
	printf '```\n'
done >"$block"
printf '\n' >>"$block"

[[ $(grep -c '^<!-- demo:\(start\|end\) -->$' README.md) == 2 ]] || {
	echo 'README.md: want one line <!-- demo:start --> and one <!-- demo:end -->' >&2
	exit 1
}
sed -i -e '/^<!-- demo:start -->$/,/^<!-- demo:end -->$/{//!d}' -e "/^<!-- demo:start -->\$/r $block" README.md
