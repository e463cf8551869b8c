package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// installedName is the policy that the manifests' scheduler follows.
const installedName = "general"

// How says how to use what was chosen.
func (out *Result) How() string {
	switch {
	case out.target.runsFiles() && out.Object != nil:
		text := fmt.Sprintf("To use it: kubectl apply -f %s. It is in shadow: it decides nothing before its spec.mode is canary or live.\n", out.Chosen)
		if name := out.Object.Metadata.Name; name != installedName {
			text += fmt.Sprintf("The manifests' scheduler follows the policy %s: write the file to %s.yaml, or give the scheduler the policyName %s.\n", installedName, installedName, name)
		}
		return text
	case out.target.runsFiles():
		return fmt.Sprintf("To use it, apply this file:\n"+
			"  apiVersion: sigma-scheduler.io/v1alpha1\n  kind: PlacementPolicy\n  metadata: {name: %s}\n"+
			"  spec: {featureVersion: 1, model: rule, knowledge: K0, features: [], weights: [], rule: {name: %s}, mode: shadow}\n", installedName, out.Chosen)
	case out.target == KubeScheduler:
		return "To use it, in the configuration of kube-scheduler:\n" + profile(out.choice())
	case out.Chosen == "leastallocated":
		return "It is the scheduler's default: leave the cluster's setting as it is.\n"
	}
	return "To use it, set the scoring strategy of the cluster's scheduler to MostAllocated.\n"
}

// choice is the chosen rule.
func (out *Result) choice() rule.Choice {
	if out.Object != nil {
		return out.Object.Spec.Rule.Choice
	}
	return rule.Choice{Name: out.Chosen}
}

// strategies are kube-scheduler's names.
var strategies = map[string]string{
	"mostallocated": "MostAllocated", "leastallocated": "LeastAllocated", "requestedtocapacityratio": "RequestedToCapacityRatio",
}

// profile is the part of a KubeSchedulerConfiguration that a rule needs.
func profile(c rule.Choice) string {
	resources := c.Resources
	if resources == nil {
		resources = map[string]int64{"cpu": 1, "memory": 1}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  profiles:\n  - pluginConfig:\n    - name: NodeResourcesFit\n      args:\n        scoringStrategy:\n          type: %s\n          resources:\n", strategies[c.Name])
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		fmt.Fprintf(&b, "          - {name: %s, weight: %d}\n", name, resources[name])
	}
	shape := c.Shape
	if c.Name == "requestedtocapacityratio" && shape == nil {
		shape = [][]int64{{0, 0}, {100, 10}}
	}
	if shape != nil {
		b.WriteString("          requestedToCapacityRatio:\n            shape:\n")
		for _, p := range shape {
			fmt.Fprintf(&b, "            - {utilization: %d, score: %d}\n", p[0], p[1])
		}
	}
	return b.String()
}
