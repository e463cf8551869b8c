package podspec

import (
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
)

// HasRoom reports whether a pod may find room on one of the nodes, beside the pods that
// stand there: by what it needs, its selector, cordons and taints. Upstream's filters know
// more (anti-affinity, volumes, ports), so true is no promise. The pod itself, if it is
// among the pods, takes nothing. What a resource driver has served it does not count on
// nodes without any of that in their allocatable, where drivers serve it.
func HasRoom(pod *v1.Pod, nodes []v1.Node, pods []v1.Pod) bool {
	used := map[string]map[string]int64{} // by node and dimension
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || p.UID == pod.UID || Ended(p) {
			continue
		}
		on := used[p.Spec.NodeName]
		if on == nil {
			on = map[string]int64{}
			used[p.Spec.NodeName] = on
		}
		for dimension, n := range Demand(p) {
			on[dimension] = min(on[dimension]+n, binpack.MaxValue)
		}
	}
	demand, selector := Demand(pod), NewSelector(pod)
	served := map[string]bool{}
	if claim := pod.Status.ExtendedResourceClaimStatus; claim != nil {
		for _, m := range claim.RequestMappings {
			served[m.ResourceName] = true
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if !n.Spec.Unschedulable && selector.Admits(n) && fits(demand, Amounts(n.Status.Allocatable), used[n.Name], served) {
			return true
		}
	}
	return false
}

func fits(demand, capacity, used map[string]int64, served map[string]bool) bool {
	for dimension, n := range demand {
		if capacity[dimension] == 0 && served[dimension] {
			continue
		}
		if capacity[dimension]-used[dimension] < n {
			return false
		}
	}
	return true
}
