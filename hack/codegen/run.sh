#!/usr/bin/env bash
# Generates code from the types below plugins/apis, mpa/api and flow/api: deep copies,
# conversions, defaults, CustomResourceDefinitions. With --check it writes
# nothing and fails where something is out of date.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
generated() { find plugins/apis mpa/api flow/api -name 'zz_generated.*.go'; find manifests/base/crds manifests/mpa/crds manifests/flows/crds -name '*.yaml' ! -name kustomization.yaml; }

# The generators run in a copy of what they read: without the other packages they are
# faster, and a failure leaves the tree as it was.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/plugins" "$copy/mpa" "$copy/flow" "$copy"/manifests/{base,mpa,flows}/crds
cp "$root/go.mod" "$root/go.sum" "$copy"
cp -r "$root/plugins/apis" "$copy/plugins"
cp -r "$root/mpa/api" "$copy/mpa"
cp -r "$root/flow/api" "$copy/flow"
cd "$copy"
find plugins/apis mpa/api flow/api \( -name 'zz_generated.*' -o -name '*_test.go' \) -delete

tool() { go tool -modfile="$here/go.mod" "$@"; }
tool controller-gen object crd:allowDangerousTypes=true paths=./plugins/apis/... output:crd:dir=manifests/base/crds
for kind in placementpolicies placementrules placementplans rebalances policypilots; do
	# metav1.LabelSelector has no limits; without one the API server refuses the
	# rule about its operators as too expensive. Quantities have no limit either.
	sed -E -e 's/^( *)matchExpressions:$/&\n\1  maxItems: 64/' -e 's/^( *)x-kubernetes-int-or-string: true$/&\n\1maxLength: 32/' "manifests/base/crds/sigma-scheduler.io_$kind.yaml" >"manifests/base/crds/$kind.yaml"
	rm "manifests/base/crds/sigma-scheduler.io_$kind.yaml"
done
tool controller-gen object crd:allowDangerousTypes=true paths=./mpa/api/... output:crd:dir=manifests/mpa/crds
for kind in multidimpodautoscalers scalingpolicies; do
	sed -E 's/^( *)x-kubernetes-int-or-string: true$/&\n\1maxLength: 32/' "manifests/mpa/crds/autoscaling.sigma-scheduler.io_$kind.yaml" >"manifests/mpa/crds/$kind.yaml"
	rm "manifests/mpa/crds/autoscaling.sigma-scheduler.io_$kind.yaml"
done
tool controller-gen object crd:allowDangerousTypes=true paths=./flow/api/... output:crd:dir=manifests/flows/crds
for kind in flowpolicies nodeflows; do
	sed -E -e 's/^( *)matchExpressions:$/&\n\1  maxItems: 64/' -e 's/^( *)x-kubernetes-int-or-string: true$/&\n\1maxLength: 32/' "manifests/flows/crds/flow.sigma-scheduler.io_$kind.yaml" >"manifests/flows/crds/$kind.yaml"
	rm "manifests/flows/crds/flow.sigma-scheduler.io_$kind.yaml"
done
(cd "$here" && go run ./sortrules "$copy"/manifests/{base,mpa,flows}/crds/*.yaml)
v1=./plugins/apis/config/v1
tool conversion-gen --output-file zz_generated.conversion.go --go-header-file /dev/null $v1
tool defaulter-gen --output-file zz_generated.defaults.go --go-header-file /dev/null $v1

mapfile -t new < <(generated)
mapfile -t old < <(cd "$root" && generated)
if [[ ${1-} == --check ]]; then
	for file in $(printf '%s\n' "${new[@]}" "${old[@]}" | sort -u); do
		diff -u --label "$file" --label "$file, as generated now" "$root/$file" "$file" || stale=yes
	done
	if [[ -n ${stale-} ]]; then echo 'out of date: run hack/codegen/run.sh' >&2; exit 1; fi
else
	for file in "${new[@]}"; do cp "$file" "$root/$file"; done
	for file in "$root"/manifests/chart/crds/*.yaml; do # copies: not all that read a chart follow links
		cp "$root"/manifests/{base,mpa}/crds/"$(basename "$file")" "$root/manifests/chart/crds/" 2>/dev/null || true
	done
fi
