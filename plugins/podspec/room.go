package podspec

import (
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Room is the free capacity of nodes next to the pods that run there. It reads all pods once, for
// any number of queries.
type Room struct {
	nodes    []v1.Node
	capacity []map[string]int64          // by node and dimension
	used     map[string]map[string]int64 // by the node's name and dimension
}

// NewRoom returns the room on nodes with these pods.
func NewRoom(nodes []v1.Node, pods []v1.Pod) *Room {
	r := &Room{nodes: nodes, used: map[string]map[string]int64{}}
	for i := range nodes {
		r.capacity = append(r.capacity, Amounts(nodes[i].Status.Allocatable))
	}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || Ended(p) {
			continue
		}
		on := r.used[p.Spec.NodeName]
		if on == nil {
			on = map[string]int64{}
			r.used[p.Spec.NodeName] = on
		}
		for dimension, n := range Demand(p) {
			on[dimension] = min(on[dimension]+n, binpack.MaxValue)
		}
	}
	return r
}

// Has reports whether a pod may find room on one of the nodes: by its demand, its selector, cordons
// and taints. Upstream has more filters (anti-affinity, volumes, ports), so true is no promise. It
// replaces a running pod, whose resources are free then; elsewhere excludes that one's node. Resources
// that a driver has served it do not count on nodes without any of them in their allocatable,
// where drivers serve them.
func (r *Room) Has(pod, replaced *v1.Pod, elsewhere bool) bool {
	demand, selector, own := Demand(pod), NewSelector(pod), Demand(replaced)
	served := map[string]bool{}
	if claim := pod.Status.ExtendedResourceClaimStatus; claim != nil {
		for _, m := range claim.RequestMappings {
			served[m.ResourceName] = true
		}
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		var back map[string]int64
		if n.Name == replaced.Spec.NodeName {
			if elsewhere {
				continue
			}
			back = own
		}
		if !n.Spec.Unschedulable && selector.Admits(n) && fits(demand, r.capacity[i], r.used[n.Name], back, served) {
			return true
		}
	}
	return false
}

// fits reports whether a demand fits next to the used amounts, of which back is returned.
func fits(demand, capacity, used, back map[string]int64, served map[string]bool) bool {
	for dimension, n := range demand {
		if capacity[dimension] == 0 && served[dimension] {
			continue
		}
		if capacity[dimension]-used[dimension]+back[dimension] < n {
			return false
		}
	}
	return true
}
