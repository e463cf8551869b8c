#!/usr/bin/env bash
# Prints those of some packages that import nothing below a path, or all of them
# where the path is empty:
#
#   hack/without.sh k8s.io/client-go ./swarm ./plugins/...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

path=$1
shift
go list "$@" | while read -r package; do
	if [[ -z $path ]] || ! go list -deps -test "$package" | grep "^$path\(/\|\$\)" >/dev/null; then
		echo "$package"
	fi
done
