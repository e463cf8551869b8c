// Package export writes placement policies as the configuration of schedulers other than Sigma's,
// and refuses what they cannot express.
package export

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// The targets.
const (
	KubeScheduler = "kube-scheduler" // a KubeSchedulerConfiguration
	EKS           = "eks"            // kubeSchedulerConfig of the cluster's API
	AKS           = "aks"            // the object SchedulerConfiguration
)

// Targets lists the targets.
func Targets() []string { return []string{KubeScheduler, EKS, AKS} }

// MaxPoints bounds a shape.
const MaxPoints = 10

// strategies are kube-scheduler's names.
var strategies = map[string]string{
	"mostallocated": "MostAllocated", "leastallocated": "LeastAllocated", "requestedtocapacityratio": "RequestedToCapacityRatio",
}

// ratio is the rule that has a shape.
const ratio = "requestedtocapacityratio"

// Rules lists the rules that a target can run.
func Rules(target string) []string {
	if target == EKS {
		return []string{"mostallocated", "leastallocated"}
	}
	return []string{"mostallocated", "leastallocated", ratio}
}

// Policy is the rule of a policy that a target can run. The error names the field that it cannot.
func Policy(o *policy.Object, target string) (rule.Choice, error) {
	refuse := func(format string, args ...any) (rule.Choice, error) {
		return rule.Choice{}, fmt.Errorf(target+" cannot express "+format, args...)
	}
	s := &o.Spec
	switch {
	case s.Model != policy.RuleModel && len(s.Features) > 0:
		return refuse("spec.model %s with its features %s: it has one strategy of NodeResourcesFit", s.Model, strings.Join(s.Features, ", "))
	case s.Model != policy.RuleModel:
		return refuse("spec.model %s: it has one strategy of NodeResourcesFit", s.Model)
	case s.Rule.OnePerNode != nil:
		return refuse("spec.rule.onePerNode: it has one strategy for all pods")
	case s.Repair != nil:
		return refuse("spec.repair: it moves no pods")
	case s.Soft != nil:
		return refuse("spec.soft: preferences have weights there, beside the strategy")
	case s.MaxShareOfApp != nil:
		return refuse("spec.maxShareOfApp: it knows no share of an app")
	}
	return s.Rule.Choice, Check(s.Rule.Choice, target)
}

// Check reports the part of a rule that a target cannot express.
func Check(c rule.Choice, target string) error {
	if !slices.Contains(Rules(target), c.Name) {
		return fmt.Errorf("%s cannot express spec.rule.name %s: it has %s", target, c.Name, strings.Join(Rules(target), ", "))
	}
	if len(c.Shape) > MaxPoints {
		return fmt.Errorf("%s cannot express spec.rule.shape with %d points: at most %d", target, len(c.Shape), MaxPoints)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		if !IsResource(name) {
			return fmt.Errorf("%s cannot express spec.rule.resources.%s: want cpu, memory, ephemeral-storage or a name with a domain, such as nvidia.com/gpu", target, name)
		}
	}
	return nil
}

// IsResource reports whether a dimension's name is a resource of Kubernetes.
func IsResource(name string) bool {
	return slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.Contains(name, "/")
}

type weight struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

func weights(c rule.Choice) (list []weight) {
	resources := c.Resources
	if resources == nil {
		resources = map[string]int64{"cpu": 1, "memory": 1}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		list = append(list, weight{name, resources[name]})
	}
	return list
}

// Text is the configuration that makes a target place by a rule, which [Check] accepts. For AKS name is
// that of the profile.
func Text(c rule.Choice, target, name string) (string, error) {
	switch target {
	case EKS:
		type strategy struct {
			Type      string   `json:"type"`
			Resources []weight `json:"resources"`
		}
		text, err := json.MarshalIndent(map[string]any{"nodeResourcesFit": map[string]any{"scoringStrategy": strategy{strategies[c.Name], weights(c)}}}, "", "  ")
		return string(text) + "\n", err
	case AKS:
		var text strings.Builder
		text.WriteString("apiVersion: aks.azure.com/v1alpha1\nkind: SchedulerConfiguration\nmetadata: {name: upstream}\nspec:\n  rawConfig: |\n")
		for line := range strings.Lines(profile(c, name, false)) {
			text.WriteString("    " + line)
		}
		return text.String(), nil
	}
	return profile(c, "default-scheduler", true), nil
}

// profile is a KubeSchedulerConfiguration with one profile. No other score counts, as in a replay.
func profile(c rule.Choice, name string, everyNode bool) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	if everyNode {
		b.WriteString("percentageOfNodesToScore: 100\n")
	}
	fmt.Fprintf(&b, "profiles:\n- schedulerName: %s\n", name)
	b.WriteString("  plugins:\n    score:\n      disabled:\n      - name: \"*\"\n      enabled:\n      - {name: NodeResourcesFit, weight: 1}\n")
	fmt.Fprintf(&b, "  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: NodeResourcesFitArgs\n      scoringStrategy:\n        type: %s\n        resources:\n", strategies[c.Name])
	for _, w := range weights(c) {
		fmt.Fprintf(&b, "        - {name: %s, weight: %d}\n", w.Name, w.Weight)
	}
	shape := c.Shape
	if c.Name == ratio && shape == nil {
		shape = [][]int64{{0, 0}, {100, 10}}
	}
	if shape != nil {
		b.WriteString("        requestedToCapacityRatio:\n          shape:\n")
		for _, p := range shape {
			fmt.Fprintf(&b, "          - {utilization: %d, score: %d}\n", p[0], p[1])
		}
	}
	return b.String()
}
