#!/usr/bin/env bash
# Builds tools that are pinned in go.mod, each once, and prints the folder that holds them:
#
#   build.sh ko crane cyclonedx-gomod kustomize helm
#
# Cold, ko takes 100 CPU-seconds, Helm 90, the others 30 together. The folder's name is made of
# everything the tools depend on, as in lab/controlplane; folders of former pins may be deleted at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

declare -A packages=(
	[ko]=github.com/google/ko
	[crane]=github.com/google/go-containerregistry/cmd/crane
	[cyclonedx-gomod]=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	[kustomize]=sigs.k8s.io/kustomize/kustomize/v5
	[helm]=helm.sh/helm/v3/cmd/helm
)
flags=(-trimpath -buildvcs=false -ldflags '-s -w')
export CGO_ENABLED=0 GOFLAGS='' GOWORK=off

key=$({ cat go.mod go.sum build.sh && go version && echo "${flags[@]}"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sigma-tools
folder=$cache/release-$key
mkdir -p "$folder"
for tool; do
	if [[ ! -x $folder/$tool ]]; then
		echo "release: building $tool" >&2
		building=$(mktemp "$cache/building-XXXXXX")
		trap 'rm -f "$building"' EXIT
		go build "${flags[@]}" -o "$building" "${packages[$tool]}"
		chmod 755 "$building"
		mv "$building" "$folder/$tool" # atomic: a second run meanwhile sees all of it or nothing
		trap - EXIT
	fi
done
echo "$folder"
