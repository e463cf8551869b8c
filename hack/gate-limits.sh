#!/usr/bin/env bash
# 10⁶ requests over a limit that changes 1,000 times: never more inside than the limit at admission, none lost, none stuck.
set -euo pipefail
cd "$(dirname "$0")/.."

go test -trimpath ./mpa/gate -count=1 -v -run '^TestNeverAboveTheLimit$' -every | sed -n 's/^.*gate_test.go:[0-9]*: //p' | tail -n 1
