#!/usr/bin/env bash
# Builds the programs of a Kubernetes control plane as pinned in go.mod, once,
# and prints the folder that holds them.
#
# The folder's name is made of everything the programs depend on: this module's
# checksums, the toolchain, and the flags and packages below. A changed pin is a
# changed name; an old program is never run by mistake. Folders of former pins
# stay and may be deleted at any time.
#
# CONTROLPLANE_LINE=next builds the newer release that is pinned in that folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/${CONTROLPLANE_LINE:-.}"

packages=(
	go.etcd.io/etcd/server/v3
	k8s.io/kubernetes/cmd/kube-apiserver
	k8s.io/kubernetes/cmd/kube-controller-manager
	k8s.io/kubernetes/cmd/kube-scheduler
	k8s.io/kubernetes/cmd/kubectl
)

# Without the version stamp the programs call themselves v0.0.0-master.
version=$(awk '$1 == "k8s.io/kubernetes" && $2 == "=>" {print $4}' go.mod)
IFS=. read -r major minor _ <<<"${version#v}"
stamp=k8s.io/component-base/version
flags=(-trimpath -buildvcs=false -ldflags
	"-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor")
export CGO_ENABLED=0

key=$({ cat go.sum && go version && echo "${flags[@]}" "${packages[@]}"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sigma-tools
programs=$cache/controlplane-$key

if [[ ! -d $programs ]]; then
	mkdir -p "$cache"
	# Two builds at once would compile everything twice.
	exec {lock}>"$cache/controlplane.lock"
	if command -v flock >/dev/null; then flock "$lock"; fi
fi
if [[ ! -d $programs ]]; then
	building=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$building"' EXIT
	for package in "${packages[@]}"; do
		name=${package##*/}
		if [[ $name == v3 ]]; then name=etcd; fi
		echo "controlplane: building $name" >&2
		go build "${flags[@]}" -o "$building/$name" "$package"
	done
	chmod 755 "$building"
	mv "$building" "$programs" # atomic: nobody sees half of it
	trap - EXIT
fi
echo "$programs"
