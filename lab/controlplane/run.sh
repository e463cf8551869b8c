#!/usr/bin/env bash
# Starts a throw-away Kubernetes control plane on loopback, building it first
# if needed (minutes; see README.md).
#
#   lab/controlplane/run.sh kubectl get namespaces   runs a command against it
#   lab/controlplane/run.sh                          prints its kubeconfig, waits for ^C
#   lab/controlplane/run.sh -help                    the flags
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

programs=$("$here/build.sh")
work=$(mktemp -d "${TMPDIR:-/tmp}/controlplane-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# Compiled without cgo and with -trimpath, as the programs are: one set of
# cached packages. It deletes the folder when it is done.
(cd "$here" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/launch" ./launch)
exec "$work/launch" -programs "$programs" -dir "$work" "$@"
