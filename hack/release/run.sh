#!/usr/bin/env bash
# Builds what users install. Programs and images are ko's and Go's work, the rest is kustomize, tar and
# the chart in manifests/chart; docs/releasing.md lists the files.
#
#   hack/release/run.sh images     OUT   an OCI layout of each program's image, a tarball for each architecture
#   hack/release/run.sh push       FROM  push those to REGISTRY/PROGRAM:VERSION
#   hack/release/run.sh chart      OUT   manifests/chart with its version
#   hack/release/run.sh install    OUT   the manifests as files for `kubectl apply -f`
#   hack/release/run.sh release    OUT   the folder of a release; its images in IMAGES, too
#
# Variables: VERSION, REVISION, REGISTRY, URL, PROGRAMS, ARCHS, PLATFORMS, IMAGES.
set -euo pipefail
export LC_ALL=C

if ((BASH_VERSINFO[0] < 4)) || ! tar --version 2>/dev/null | grep -q GNU || ! sed --version >/dev/null 2>&1; then
	echo 'release: needs bash 4, and the GNU coreutils, sed and tar' >&2
	exit 1
fi
command=${1:?} out=$(realpath -m "${2:?}")
images=$(realpath -m "${IMAGES:-out/images}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
asked=${VERSION:-}
export VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
revision=${REVISION-$(git rev-parse HEAD 2>/dev/null || true)}
registry=${REGISTRY:-} url=${URL:-}
all=(sigma sigma-scheduler sigma-extender sigma-mpa sigma-pilot sigma-gate sigma-flow)
IFS=', ' read -ra programs <<<"${PROGRAMS:-${all[*]}}"
read -ra archs <<<"${ARCHS:-amd64 arm64}"
read -ra platforms <<<"${PLATFORMS:-linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64}"

# What is built does not depend on the settings of who builds it.
export CGO_ENABLED=0 GOFLAGS='' GOWORK=off GOAMD64=v1 GOARM64=v8.0
KUBERNETES=$(awk '$1 == "k8s.io/kubernetes" && $2 == "=>" {print $4}' go.mod)
export KUBERNETES
version=${VERSION#v}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || version=0.0.0-g${version//[^0-9A-Za-z-]/-} # of Helm and krew: semantic; a number may not begin with 0

scratch=$(mktemp -d)
layout=out/ko-$$ # ko takes the path for the name of an image: no capital letter may be in it
trap 'rm -rf "$scratch" "$layout"' EXIT

die() {
	echo "release: $*" >&2
	exit 1
}

# check rejects names that no registry takes, before anything is built.
check() {
	[[ $VERSION =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$ ]] || die "VERSION \"$VERSION\": want a tag of images, as v0.9.0"
	[[ -z $registry || ${registry%/} =~ ^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*$ ]] ||
		die "REGISTRY \"$registry\": want a host and a folder, as in registry.example.com/sigma"
	[[ -z $url || $url == https://* ]] || die "URL \"$url\": want https://…"
	local p
	for p in "${programs[@]}"; do [[ -d cmd/$p ]] || die "no program \"$p\" in $PWD/cmd"; done
}

# replaceable rejects a folder that holds files, but none of the name that a former run leaves there.
replaceable() {
	[[ -e $1/$2 || -z $(ls -A "$1" 2>/dev/null) ]] || die "$1 has other files than $3; choose another folder"
}

# archive FILE FOLDER NAME…: the bytes depend on nothing but the files' names and contents.
archive() {
	local pack=(cat)
	if [[ $1 == *gz ]]; then pack=(gzip -n); fi
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w,go+rX -chf - -C "$2" --exclude='*.go' "${@:3}" | "${pack[@]}" >"$1"
}

images() {
	local dir=$1 p arch digest tools
	tools=$(hack/release/build.sh ko crane)
	mkdir -p "$dir" out
	for p in "${all[@]}"; do rm -rf "${dir:?}/$p" "$dir/$p"-linux-*.tar; done # a push takes none of a former build
	echo "$VERSION" >"$dir/VERSION"
	export KOCACHE=$scratch/ko KO_DOCKER_REPO=index.docker.io/library
	digest=$(go -C hack/release run . "$KOCACHE/img" "${archs[@]}")
	export KO_DEFAULTBASEIMAGE=localhost/base@$digest # in KOCACHE
	for p in "${programs[@]}"; do
		local ko=("$tools/ko" build "./cmd/$p" --push=false --base-import-paths --sbom=none --tags "$VERSION")
		ko+=(--image-label "org.opencontainers.image.title=$p,org.opencontainers.image.version=$VERSION${revision:+,org.opencontainers.image.revision=$revision}")
		for arch in "${archs[@]}"; do
			"${ko[@]}" --platform "linux/$arch" --tarball "$dir/$p-linux-$arch.tar" >/dev/null 2>"$scratch/log" || die "$(cat "$scratch/log")"
		done
		"${ko[@]}" --platform "$(printf ',linux/%s' "${archs[@]}" | cut -c2-)" --oci-layout-path "$layout" >"$scratch/ref" 2>"$scratch/log" || die "$(cat "$scratch/log")"
		mv "$layout" "$dir/$p"
		echo "$p:$VERSION sha256:$(sed 's/.*@sha256://' "$scratch/ref")"
	done
}

push() {
	local at p tools built
	[[ $registry ]] || die 'REGISTRY is not set'
	compgen -G "$1/*/oci-layout" >/dev/null || die "$1 has no images: run \`make images\` first"
	built=$(<"$1/VERSION")
	[[ -z $asked || $asked == "$built" ]] || die "VERSION is $asked; the images in $1 have version $built"
	tools=$(hack/release/build.sh crane)
	for at in "$1"/*/oci-layout; do
		p=$(basename "$(dirname "$at")")
		"$tools/crane" push "$1/$p" "${registry%/}/$p:$built"
	done
}

chart() {
	replaceable "$1" Chart.yaml 'a chart'
	cp -R manifests/chart "$scratch/new"
	sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: \"$VERSION\"/" "$scratch/new/Chart.yaml"
	rm -rf "$1"
	mkdir -p "$(dirname "$1")"
	mv "$scratch/new" "$1"
}

# kustomizations are the files for `kubectl apply -f`: the folder of each, a component, its first line.
kustomizations() {
	cat <<-'END'
		crds.yaml|base/crds||The kinds of objects. Apply it before install.yaml; deleting it deletes all policies and rules.
		install.yaml|overlays/second-scheduler||Sigma as a second scheduler, for pods with schedulerName: sigma. crds.yaml comes first.
		install-pilot.yaml|overlays/second-scheduler|components/pilot|The second scheduler with sigma-pilot, in place of install.yaml or over it: one replica, and its decision log on a claim. crds.yaml comes first.
		install-extender.yaml|overlays/extender||Upstream's kube-scheduler with Sigma's extender, in place of install.yaml. crds.yaml comes first.
		crds-mpa.yaml|mpa/crds||The autoscaler's kinds of objects. Deleting it deletes all objects of these kinds.
		install-mpa.yaml|mpa||The autoscaler. crds-mpa.yaml comes first.
		install-mpa-apart.yaml|mpa/apart||The autoscaler's parts apart, in place of install-mpa.yaml. crds-mpa.yaml comes first.
		install-flows.yaml|flows||The agent that watches flows on every Linux node. It changes nothing.
		crds-flows.yaml|flows/crds||The kinds of objects about flows. Deleting it deletes all FlowPolicies.
		install-flow-policy.yaml|overlays/flow-policy||The agents that order flows as FlowPolicies say, and central, in place of install-flows.yaml. crds-flows.yaml comes first.
	END
}

install() {
	local p file folder component about tools here=$scratch/kustomize
	tools=$(hack/release/build.sh kustomize)
	mkdir -p "$1" "$here"
	local to=${registry:+${registry%/}/} root
	root=$(realpath --relative-to="$(realpath "$here")" manifests) # kustomize takes no other
	kustomizations | while IFS='|' read -r file folder component about; do
		{
			printf 'resources: [%s]\n' "$root/$folder"
			if [[ $component ]]; then printf 'components: [%s]\n' "$root/$component"; fi
			printf 'images:\n- {name: kube-scheduler, newName: %skube-scheduler}\n' "$to" # of upstream's version
			for p in "${all[@]}"; do
				printf -- '- {name: %s, newName: "%s", newTag: "%s"}\n' "$p" "$to$p" "$VERSION"
			done
		} >"$here/kustomization.yaml"
		{
			echo "# $about"
			"$tools/kustomize" build "$here"
		} >"$1/$file"
	done
	cp manifests/policy.yaml "$1"
}

# programs puts the command line for every platform into a folder, as it is and as an archive for
# krew, with krew's manifest.
programs() {
	local p goos exe tools
	if [[ $url ]]; then
		cat >"$1/krew.yaml" <<-END
			apiVersion: krew.googlecontainertools.github.com/v1alpha2
			kind: Plugin
			metadata: {name: sigma}
			spec:
			  version: v$version
			  homepage: $url
			  shortDescription: Simulate, train and explain pod placement
			  description: |
			    Simulates how a cluster's pods would be placed by other policies, trains policies on
			    what the cluster did, and explains the decisions of Sigma's scheduler.
			  platforms:
		END
	fi
	for p in "${platforms[@]}"; do
		goos=${p%-*} exe=''
		if [[ $goos == windows ]]; then exe=.exe; fi
		mkdir "$scratch/$p"
		GOOS=$goos GOARCH=${p#*-} go build -trimpath -buildvcs=false -tags grpcnotrace \
			-ldflags "-s -w -buildid= -X main.version=$VERSION" -o "$scratch/$p/kubectl-sigma$exe" ./cmd/sigma
		archive "$1/kubectl-sigma-$p.tar.gz" "$scratch/$p" "kubectl-sigma$exe"
		mv "$scratch/$p/kubectl-sigma$exe" "$1/sigma-$p$exe"
		if [[ $url ]]; then
			cat >>"$1/krew.yaml" <<-END
				  - selector: {matchLabels: {os: $goos, arch: ${p#*-}}}
				    uri: ${url%/}/kubectl-sigma-$p.tar.gz
				    sha256: $(sha256sum "$1/kubectl-sigma-$p.tar.gz" | cut -d' ' -f1)
				    bin: kubectl-sigma$exe
			END
		fi
	done
}

# boms writes the modules of every program and platform, as CycloneDX, by the build info in the programs.
boms() {
	local tools p arch program
	tools=$(hack/release/build.sh crane cyclonedx-gomod)
	mkdir "$scratch/sbom"
	for p in "${programs[@]}"; do
		for arch in "${archs[@]}"; do
			"$tools/crane" export - - <"$images/$p-linux-$arch.tar" | tar -xOPf - --wildcards "*ko-app/$p" >"$scratch/$p"
			bom "$scratch/$p" "image-$p-linux-$arch"
		done
	done
	for program in "$1"/sigma-*-*64{,.exe}; do
		if [[ -f $program ]]; then bom "$program" "$(basename "$program")"; fi
	done
	archive "$1/sbom.tgz" "$scratch" sbom
}

bom() {
	chmod +x "$1"
	"$tools/cyclonedx-gomod" bin -json -noserial -notimestamp -std -version "$VERSION" -output "$scratch/sbom/$2.cdx.json" "$1" 2>"$scratch/log" ||
		die "$(cat "$scratch/log")"
}

# notes tells how to install the release, its images, and the changes since the last tag, or all if
# there is none. A tree without git has no changes to list.
notes() {
	cat <<-END
		# Sigma $VERSION

		In this folder:

		    sha256sum -c SHA256SUMS
		    kubectl apply -f crds.yaml
		    kubectl wait --for=condition=Established --timeout=1m -f crds.yaml
		    kubectl apply -f install.yaml -f policy.yaml
		    kubectl wait --for=condition=Active --timeout=5m placementpolicy/general

		The policy \`general\` is then in shadow: it decides nothing. Or by Helm:

		    helm install sigma sigma-$version.tgz --namespace sigma-system --create-namespace

		## Images

	END
	sed 's/^/- /' "$scratch/digests"
	local since=''
	[[ -e .git ]] || return 0
	since=$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null) || true # there may be no tag
	printf '\n## Changes%s\n' "${since:+ since $since}"
	# By the package that a commit's subject begins with.
	git log --no-merges --format=%s "${since:+$since..}HEAD" | awk -F '[^a-z0-9_.-]' '
		{print (/^[a-z0-9_.-]+[a-z0-9_\/., -]*: / ? $1 : "other") "\t" $0}' | sort -s -t $'\t' -k 1,1 | awk -F '\t' '
		$1 != area {area = $1; printf "\n### %s\n\n", area}
		{sub(/^[^\t]*\t/, ""); print "- " $0}'
}

release() {
	local tmp at
	check
	replaceable "$out" SHA256SUMS 'a release'
	mkdir -p "$(dirname "$out")"
	tmp=$(mktemp -d "$(dirname "$out")/.release-XXXXXX")
	trap 'rm -rf "$scratch" "$layout" "'"$tmp"'"' EXIT
	chmod 755 "$tmp"
	images "$images" >"$scratch/digests"
	for at in "$images"/*/oci-layout; do
		at=$(dirname "$at")
		archive "$tmp/image-$(basename "$at").oci.tar" "$at" blobs index.json oci-layout
	done
	for at in "$images"/*.tar; do cp "$at" "$tmp/image-$(basename "$at")"; done
	programs "$tmp"
	install "$tmp"
	chart "$scratch/chart/sigma"
	archive "$tmp/sigma-$version.tgz" "$scratch/chart" sigma
	archive "$tmp/manifests.tgz" . --exclude=manifests/chart manifests
	boms "$tmp"
	notes >"$tmp/NOTES.md"
	(cd "$tmp" && sha256sum -- * >"$scratch/sums")
	mv "$scratch/sums" "$tmp/SHA256SUMS"
	rm -rf "$out"
	mv "$tmp" "$out"
	[[ $registry ]] || echo 'REGISTRY is not set: the manifests name images without a registry, which nodes must have already'
	[[ $url ]] || echo 'URL is not set: no manifest for krew, which needs the place of the archives'
	echo "$out"
}

case $command in
images) check && images "$out" ;;
push) check && push "$out" ;;
chart)
	check
	chart "$out"
	echo "$out"
	;;
install) check && install "$out" ;;
release) release ;;
*) die "no command \"$command\"" ;;
esac
