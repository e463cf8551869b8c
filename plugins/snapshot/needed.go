package snapshot

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// startTime is the time after its start, or after a change of its readiness, for which an empty node stays: pods are expected there.
const startTime = 10 * time.Minute

// newest is the time of the last sign of life of a node, which is about the time of the picture; 0 = none has one.
func newest(nodes []*v1.Node) (at time.Time) {
	for _, n := range nodes {
		for i := range n.Status.Conditions {
			if beat := n.Status.Conditions[i].LastHeartbeatTime.Time; beat.After(at) {
				at = beat
			}
		}
	}
	return at
}

// starting returns the reason of a node that is about to take pods; "" = it is not.
func starting(n *v1.Node, now time.Time) string {
	for _, t := range n.Spec.Taints {
		if t.Key == "node.cloudprovider.kubernetes.io/uninitialized" || t.Key == "karpenter.sh/unregistered" {
			return "not ready yet: " + t.Key
		}
	}
	if n.Labels["karpenter.sh/registered"] == "true" && n.Labels["karpenter.sh/initialized"] != "true" {
		return "not ready yet: karpenter.sh/initialized"
	}
	recent := func(at time.Time) bool { return !at.IsZero() && !now.IsZero() && now.Sub(at) < startTime }
	if recent(n.CreationTimestamp.Time) {
		return "started less than 10 minutes ago"
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady && recent(c.LastTransitionTime.Time) {
			return "its readiness changed less than 10 minutes ago"
		}
	}
	return ""
}

// awaited returns the empty nodes for pods that wait and that the trace lacks, or has without some constraints: each takes the
// first with room for it. A pod with affinity, a spread or volumes may need any of them.
func (r *freeRoom) awaited(pods []*v1.Pod, ignored map[string]any, empty func(*v1.Node) bool) map[string]bool {
	names := map[string]bool{}
	for _, pod := range pods {
		if !unplaced(pod) || pod.Spec.SchedulerName == fargate || len(pod.Spec.SchedulingGates) == 0 && ignored[nameOf(pod)] == nil {
			continue
		}
		selector, demand := podspec.NewSelector(pod), podspec.Demand(pod)
		for _, name := range r.served {
			delete(demand, name)
		}
		choosy := ignored[nameOf(pod)] != nil || pod.Spec.Affinity != nil || len(pod.Spec.TopologySpreadConstraints) > 0 || hasClaim(pod)
		for i, n := range r.nodes {
			if !empty(n) || !selector.Admits(n) || onWindows(n) != ofWindows(pod) || lack(demand, r.free[i]) != "" {
				continue
			}
			names[n.Name] = true
			if choosy {
				continue
			}
			for name, amount := range demand {
				r.free[i][name] -= amount
			}
			break
		}
	}
	return names
}

// Nodes by the pods that they take, most first.
const (
	takesAny = iota
	takesSome
	takesNone // cordoned
	takesNoneUnwell
	takesNever
)

func takes(n *v1.Node) int {
	taint := podspec.Untolerated(n, nil)
	switch {
	case noMachine(n), taint != nil && firstOf(n, controlPlane):
		return takesNever
	case podspec.Unwell(n) != nil:
		return takesNoneUnwell
	case n.Spec.Unschedulable:
		return takesNone
	case taint != nil:
		return takesSome
	}
	return takesAny
}

// last returns the node that a cluster keeps for new pods: the cheapest of those that take most; "" = one of them is left
// anyway.
func (p *Picture) last(nodes []*v1.Node, prices *kube.Prices, left func(*v1.Node) bool) string {
	if len(nodes) == 0 || slices.ContainsFunc(p.Missing, func(m Missing) bool { return m.Kind == "Pod" }) {
		return "" // of no node is known that it is empty
	}
	of := func(n *v1.Node) float64 { cost, _ := prices.Of(n); return cost }
	best := slices.MinFunc(nodes, func(a, b *v1.Node) int { return cmp.Or(cmp.Compare(takes(a), takes(b)), cmp.Compare(of(a), of(b))) })
	if slices.ContainsFunc(nodes, func(n *v1.Node) bool { return takes(n) == takes(best) && left(n) }) {
		return ""
	}
	return best.Name
}

// ending reports whether a pod on a node is being deleted for good: a StatefulSet creates its like after its end, a ReplicaSet
// before. Of other controllers it is not known.
func ending(pod *v1.Pod) bool {
	c := metav1.GetControllerOfNoCopy(pod)
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && (c == nil || c.Kind == "ReplicaSet" || c.Kind == "ReplicationController")
}

func hasClaim(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}
