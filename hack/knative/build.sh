#!/usr/bin/env bash
# Builds the programs of Knative Serving pinned in go.mod, once, and prints the folder that
# holds them, with its CRDs and ConfigMaps in config.
#
# The folder's name is made of everything the programs depend on, as in hack/controlplane;
# folders of former pins may be deleted at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

programs=(queue controller autoscaler activator webhook)
flags=(-trimpath -buildvcs=false -ldflags '-s -w')
export CGO_ENABLED=0

key=$({ cat go.sum && go version && echo "${flags[@]}" "${programs[@]}"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sigma-tools
folder=$cache/knative-$key

if [[ ! -d $folder ]]; then
	mkdir -p "$cache"
	exec {lock}>"$cache/knative.lock"
	if command -v flock >/dev/null; then flock "$lock"; fi
fi
if [[ ! -d $folder ]]; then
	building=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$building"' EXIT
	for name in "${programs[@]}"; do
		echo "knative: building $name" >&2
		go build "${flags[@]}" -o "$building/$name" "knative.dev/serving/cmd/$name"
	done
	cp -rL "$(go list -m -f '{{.Dir}}' knative.dev/serving)/config/core" "$building/config"
	chmod -R u+w "$building/config"
	chmod 755 "$building"
	mv "$building" "$folder" # atomic: nobody sees half of it
	trap - EXIT
fi
echo "$folder"
