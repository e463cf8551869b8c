#!/usr/bin/env bash
# What sigma plan --manifests makes of manifests of others: writes docs/results/manifests.md.
# MANIFESTS='NAME=FOLDER …' names folders; without it they are those of the Go modules below, from the module proxy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A module, and its folders with manifests: "." is all of it.
modules='
github.com/argoproj/argo-cd/v2@v2.14.21 manifests examples
github.com/fluxcd/flux2/v2@v2.9.5 manifests
github.com/kedacore/keda/v2@v2.21.0 config
github.com/kubeflow/training-operator@v1.8.1 manifests examples
github.com/prometheus-operator/prometheus-operator@v0.85.0 example
knative.dev/serving@v0.48.0 config
k8s.io/api@v0.36.4 testdata/HEAD
k8s.io/pod-security-admission@v0.36.4 test/testdata
sigs.k8s.io/cluster-api@v1.14.2 config bootstrap/kubeadm/config controlplane/kubeadm/config
sigs.k8s.io/kueue@v0.17.0 config
sigs.k8s.io/scheduler-plugins@v0.35.4-devel manifests
'
read -ra folders <<<"${MANIFESTS:-}"
if ((${#folders[@]} == 0)); then
	while read -r module parts; do
		[[ -n $module ]] || continue
		found=$(cd /tmp && GOFLAGS=-mod=mod go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
		for part in $parts; do
			if [[ -e $found/$part ]]; then folders+=("$module/$part=$found/$part"); fi
		done
	done <<<"$modules"
fi
make lab >&2
bin/sigma-lab records manifests "${folders[@]}"
