#!/usr/bin/env bash
# Pastes what the last full `make demo` printed (out/demo/savings.txt) into README.md, and
# cluster.txt, small.txt, large.txt into docs/results/demo.md, between the lines demo:KIND and
# demo:end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

block=$(mktemp)
trap 'rm -f "$block"' EXIT

# paste_table KIND PAGE
paste_table() {
	local kind=$1 page=$2
	if [[ ! -s out/demo/$kind.txt ]]; then
		echo "out/demo/$kind.txt does not exist: run make demo first" >&2
		exit 1
	fi
	[[ $(grep -c "^<!-- demo:$kind -->\$" "$page") == 1 ]] || {
		echo "$page: want one line <!-- demo:$kind --> and behind it one <!-- demo:end -->" >&2
		exit 1
	}
	{
		printf '\n```\n'
		sed '/./,$!d' "out/demo/$kind.txt"
		printf '```\n\n'
	} >"$block"
	sed -i -e "/^<!-- demo:$kind -->\$/,/^<!-- demo:end -->\$/{//!d}" -e "/^<!-- demo:$kind -->\$/r $block" "$page"
}

paste_table savings README.md
for kind in cluster small large; do paste_table "$kind" docs/results/demo.md; done
