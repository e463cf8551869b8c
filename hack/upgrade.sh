#!/usr/bin/env bash
# Tests an upgrade on one control plane and the way back: from the programs and manifests
# of a commit to those of the working tree.
#
#   BEFORE=35cf6bd hack/upgrade.sh
#   BEFORE=0d6a4c4 hack/upgrade.sh -run '^TestUpgradeToChart$' -v
#
# Without arguments, which are those of go test, it runs all tests of upgrades.
# The commit's programs are built with its own go.mod (5 CPU-minutes cold) into
# out/upgrade/before, beside its manifests. The worktree they come from is temporary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(git rev-parse --short=7 --verify "${BEFORE:-35cf6bd}^{commit}") || { # the last on Kubernetes 1.34
	echo 'a clone with the whole history is needed: git fetch --unshallow' >&2
	exit 1
}
before=$PWD/out/upgrade/before
rm -rf "$before"
mkdir -p "$before"
scratch=$(mktemp -d)
trap 'git worktree remove --force "$scratch/tree" 2>/dev/null; rm -rf "$scratch"' EXIT
git worktree add --quiet --detach "$scratch/tree" "$commit"
(
	cd "$scratch/tree"
	for program in sigma sigma-scheduler sigma-mpa; do
		go build -trimpath -ldflags '-s -w' -o "$before/$program" "./cmd/$program"
	done
	cp -R manifests "$before"
)

echo "before $commit, after $(git describe --always --dirty)"
(($#)) || set -- -run '^TestUpgrade(Files|ToChart)?$' -v
SIGMA_BEFORE=$before hack/e2e.sh "$@"
