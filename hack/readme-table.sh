#!/usr/bin/env bash
# Pastes the tables of the last full `make demo` (out/demo/small.txt, large.txt)
# into README.md and docs/results/demo.md, between the lines demo:KIND and demo:end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

block=$(mktemp)
trap 'rm -f "$block"' EXIT

# paste KIND PAGE
paste_table() {
	local kind=$1 page=$2
	if [[ ! -s out/demo/$kind.txt ]]; then
		echo "out/demo/$kind.txt does not exist: run make demo first" >&2
		exit 1
	fi
	[[ $(grep -c "^<!-- demo:\($kind\|end\) -->\$" "$page") == 2 ]] || {
		echo "$page: want one line <!-- demo:$kind --> and one <!-- demo:end -->" >&2
		exit 1
	}
	{
		printf '\nUnseen `%s` instances:\n\n```\n' "$kind"
		cat "out/demo/$kind.txt"
		printf '```\n\n'
	} >"$block"
	sed -i -e "/^<!-- demo:$kind -->\$/,/^<!-- demo:end -->\$/{//!d}" -e "/^<!-- demo:$kind -->\$/r $block" "$page"
}

paste_table small README.md
paste_table large docs/results/demo.md
