#!/usr/bin/env bash
# Measures the cpu of the gate beside a bare reverse proxy of the standard library in the same run, and 10⁶ requests
# over a limit that changes 1,000 times. Writes docs/results/gate.md; another page: hack/gate-bench.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/gate.md}
commit=$(git rev-parse --short HEAD)
dir=out/gate-bench/$commit
mkdir -p "$dir"
go test -trimpath -c -o "$dir/gate.test" ./mpa/gate
"$dir/gate.test" -test.run '^TestOverhead$' -test.v -overhead "${REQUESTS:-20000}" >"$dir/overhead.txt" || {
	cat "$dir/overhead.txt" >&2
	exit 1
}
hack/gate-limits.sh >"$dir/limits.txt"
{
	cat <<'TEXT'
# What the gate costs

CPU of the process with the proxy, system time included; server and clients are another process. Eight clients keep their
connections, answers have 512 bytes. The median of twelve rounds, in which the two proxies take turns; in brackets the least
and the largest ratio of a round. The middleware is called in the process, without a network, and divided by the same proxy.

TEXT
	grep '^|' "$dir/overhead.txt"
	echo
	echo "$(tail -n 1 "$dir/limits.txt")"
	echo
	echo "\`make gate-bench\` at commit $commit, ${REQUESTS:-20000} requests a round."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
