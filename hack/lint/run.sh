#!/usr/bin/env bash
# Runs the linter pinned in hack/lint/go.mod on the main module, or on the
# folder given with LINT_DIR. Arguments are golangci-lint's; without any, the
# whole module is linted.
#
# Building the linter takes minutes and `go tool` keeps only what Go's own build
# cache keeps, so the binary is stored in the user's cache folder under a name
# made of everything it depends on: this module's checksums and the toolchain.
# A changed pin is a changed name; an old binary is never run by mistake.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint

key=$({ cat "$here/go.sum"; cd "$here" && go version; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sigma-tools
linter=$cache/golangci-lint-$key

if [[ ! -x $linter ]]; then
	echo "lint: building $package (minutes of CPU time, once)" >&2
	mkdir -p "$cache"
	building=$(mktemp "$cache/building-XXXXXX")
	trap 'rm -f "$building"' EXIT
	version=$(cd "$here" && go list -m -f '{{.Version}}' github.com/golangci/golangci-lint/v2)
	(cd "$here" && go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$building" "$package")
	chmod 755 "$building"
	mv "$building" "$linter" # atomic: a second run meanwhile sees all of it or nothing
	trap - EXIT
fi

cd "${LINT_DIR:-$root}"
if [[ $# -eq 0 ]]; then
	set -- run --config "$root/.golangci.yml" ./...
fi
exec "$linter" "$@"
