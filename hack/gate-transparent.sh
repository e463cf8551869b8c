#!/usr/bin/env bash
# REQUESTS (100000) drawn requests with the gate and without. Writes docs/results/gate-transparent.md;
# another page: hack/gate-transparent.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

page=${1:-docs/results/gate-transparent.md}
requests=${REQUESTS:-100000}
commit=$(git rev-parse --short HEAD)
dir=out/gate-transparent/$commit
mkdir -p "$dir"
go test -trimpath -count=1 -timeout 2h -v -run '^Test(Transparent.*|Recorded|Malformed)$' ./cmd/sigma-gate -transparent "$requests" >"$dir/run.txt" 2>&1 || {
	grep -v '^=== ' "$dir/run.txt" | head -n 200 >&2
	exit 1
}
{
	cat <<'TEXT'
# Bytes with the gate and without

Drawn requests are sent to a server directly and through the gate. The server keeps the bytes that it receives and answers
with drawn bytes: heads, bodies, chunks with their extensions, trailers and interim answers of HTTP/1 are compared byte by byte
on both sides; fields, bodies, trailers and the codes of reset streams of HTTP/2 and gRPC are compared after decoding.

The one difference that is allowed is X-Forwarded-For at the server: the caller's address is appended to the last line of that name, or is
a line at the end. With `--forwarded=keep` no difference is allowed.

| protocol | kind | requests | differences |
|---|---|---:|---:|
TEXT
	sed -nE 's/^ *(transparent|http2|grpc)_test.go:[0-9]+: (\|.*\|)$/\2 0 |/p' "$dir/run.txt"
	printf '\n%s malformed requests were refused, and no server received one whole.\n\n' "$(grep -c '^ *--- PASS: TestMalformed/' "$dir/run.txt")"
	echo "\`make gate-transparent\` at commit $commit, $requests requests."
} >"$dir/page.md"
cp "$dir/page.md" "$page"
