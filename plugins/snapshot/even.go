package snapshot

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// even returns a function that gives a pod's hard spreads by zone the policies of the trace where those mean the same: where each
// zone that counts, by the policies that the pod has, has a node that it may use.
func (p *Picture) even() func(*v1.Pod) *v1.Pod {
	nodes, same := p.Nodes, map[string]bool{}
	if p.AllNodes != nil {
		nodes = p.AllNodes
	}
	return func(pod *v1.Pod) *v1.Pod {
		if len(pod.Spec.TopologySpreadConstraints) == 0 {
			return pod
		}
		as, honor := *pod, v1.NodeInclusionPolicyHonor
		as.Spec.TopologySpreadConstraints = slices.Clone(pod.Spec.TopologySpreadConstraints)
		for i := range as.Spec.TopologySpreadConstraints {
			c := &as.Spec.TopologySpreadConstraints[i]
			if c.TopologyKey != v1.LabelTopologyZone || c.WhenUnsatisfiable == v1.ScheduleAnyway {
				continue
			}
			selector := podspec.NewSelector(pod)
			every := c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy != honor
			key := fmt.Sprint(selector.ID, every, ofWindows(pod))
			if _, known := same[key]; !known {
				same[key] = zonesAgree(nodes, pod, selector, every)
			}
			if same[key] {
				c.NodeTaintsPolicy, c.NodeAffinityPolicy = &honor, nil
			}
		}
		return &as
	}
}

// zonesAgree reports whether each zone has a node that a pod may use; those of the nodes that it does not select count if every
// is set. Nodes without a zone take no pod with a spread.
func zonesAgree(nodes []*v1.Node, pod *v1.Pod, selector *podspec.Selector, every bool) bool {
	counts, usable := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		zone := n.Labels[v1.LabelTopologyZone]
		part, _ := selector.Missing(n)
		if every || part == "" {
			counts[zone] = true
		}
		spot := kube.CapacityType(n) == kube.Spot && podspec.Untolerated(n, nil) == nil // not for all workloads
		if selector.Admits(n) && !n.Spec.Unschedulable && !noMachine(n) && onWindows(n) == ofWindows(pod) && !spot {
			usable[zone] = true
		}
	}
	return len(usable) == len(counts) && !counts[""]
}
