#!/usr/bin/env bash
# Builds the Prometheus server pinned in go.mod, once, and prints the folder that
# holds it: 110 CPU-seconds cold, 51 MB.
#
# It is upstream's own program without its web pages, which the module does not
# hold, and with files and HTTP as its only service discovery: the others are two
# thirds of the code to compile. The folder's name is made of everything the
# program depends on, as in lab/controlplane; folders of former pins may be
# deleted at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

package=github.com/prometheus/prometheus/cmd/prometheus
version=$(awk '$1 == "github.com/prometheus/prometheus" {print $2}' go.mod)
IFS=. read -r _ minor patch <<<"$version"
flags=(-trimpath -buildvcs=false -tags remove_all_sd -ldflags
	"-s -w -X github.com/prometheus/common/version.Version=${minor:0:1}.$((10#${minor:1})).$patch")
export CGO_ENABLED=0

key=$({ cat go.sum fill/main.go && go version && echo "${flags[@]}" "$package"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sigma-tools
folder=$cache/prometheus-$key

if [[ ! -d $folder ]]; then
	mkdir -p "$cache"
	exec {lock}>"$cache/prometheus.lock"
	if command -v flock >/dev/null; then flock "$lock"; fi
fi
if [[ ! -d $folder ]]; then
	building=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$building"' EXIT
	echo 'prometheus: building' >&2
	go build "${flags[@]}" -o "$building/prometheus" "$package"
	go build "${flags[@]}" -o "$building/fill" ./fill # writes the data of former weeks
	chmod 755 "$building"
	mv "$building" "$folder" # atomic: nobody sees half of it
	trap - EXIT
fi
echo "$folder"
