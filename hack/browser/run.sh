#!/usr/bin/env bash
# Opens reports in a headless Chromium. Without one the tests skip, unless
# SIGMA_BROWSER names it; arguments go to `go test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
make -s build
SIGMA=$PWD/bin/sigma
export SIGMA
cd hack/browser
exec go test -count=1 "$@" ./...
