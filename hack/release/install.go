package main

import (
	"os"
	"path/filepath"

	kustomize "sigs.k8s.io/kustomize/api/types"
)

// installs are the files that `kubectl apply -f` takes, and the kustomizations that they are.
var installs = []struct {
	file, folder, about string
	components          []string
}{
	{"crds.yaml", "manifests/base/crds", "The kinds of objects. Apply it before install.yaml; deleting it deletes all policies and rules.", nil},
	{"install.yaml", "manifests/overlays/second-scheduler", "Sigma as a second scheduler, for pods with schedulerName: sigma. crds.yaml comes first.", nil},
	{
		"install-pilot.yaml", "manifests/overlays/second-scheduler",
		"The second scheduler with sigma-pilot, in place of install.yaml or over it: one replica, and its decision log on a claim. crds.yaml comes first.",
		[]string{"manifests/components/pilot"},
	},
	{"install-extender.yaml", "manifests/overlays/extender", "Upstream's kube-scheduler with Sigma's extender, in place of install.yaml. crds.yaml comes first.", nil},
	{"crds-mpa.yaml", "manifests/mpa/crds", "The autoscaler's kinds of objects. Deleting it deletes all objects of these kinds.", nil},
	{"install-mpa.yaml", "manifests/mpa", "The autoscaler. crds-mpa.yaml comes first.", nil},
	{"install-mpa-apart.yaml", "manifests/mpa/apart", "The autoscaler's parts apart, in place of install-mpa.yaml. crds-mpa.yaml comes first.", nil},
	{"install-loop.yaml", "manifests/overlays/loop", "Three CronJobs that record the cluster, learn of it and prove what that saves: docs/loop.md.", nil},
	{"install-flows.yaml", "manifests/flows", "The agent that watches flows on every Linux node. It changes nothing.", nil},
	{"crds-flows.yaml", "manifests/flows/crds", "The kinds of objects about flows. Deleting it deletes all FlowPolicies.", nil},
	{"install-flow-policy.yaml", "manifests/overlays/flow-policy", "The agents that order flows as FlowPolicies say, and central, in place of install-flows.yaml. crds-flows.yaml comes first.", nil},
}

// writeInstall renders the manifests with a release's images into dir.
func writeInstall(root, dir, registry, version string) error {
	images := []kustomize.Image{{Name: "kube-scheduler", NewName: imageName(registry, "kube-scheduler")}} // upstream's version
	for _, p := range programs {
		images = append(images, kustomize.Image{Name: p, NewName: imageName(registry, p), NewTag: version})
	}
	for _, i := range installs {
		m, err := build(root, []string{i.folder}, i.components, images...)
		if err != nil {
			return err
		}
		content, err := m.AsYaml()
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, i.file), append([]byte("# "+i.about+"\n"), content...)); err != nil {
			return err
		}
	}
	policy, err := os.ReadFile(filepath.Join(root, "manifests/policy.yaml"))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "policy.yaml"), policy)
}
