package kube

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// Served lists the extended resources that drivers serve: the name in a device
// class, and the name that is derived from the class.
func Served(classes []*resourcev1.DeviceClass) []string {
	names := make([]string, 0, 2*len(classes))
	for _, c := range classes {
		names = append(names, resourcev1.ResourceDeviceClassPrefix+c.Name)
		if name := c.Spec.ExtendedResourceName; name != nil {
			names = append(names, *name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// served counts for each served resource the nodes that have it in their
// allocatable. The ledger stores it as an object.
type served map[string]int

// leavesOut reports whether no policy sees a dimension of a pod. kube-scheduler
// consults the driver where a node has none of a served resource in its allocatable.
// Where no node has any, the dimension would forbid every node, and filters alone decide.
func (s served) leavesOut(dimension string) bool {
	nodes, ok := s[dimension]
	return ok && nodes == 0
}

func (s served) has(names []string) bool {
	for _, name := range names {
		if _, ok := s[name]; !ok {
			return false
		}
	}
	return len(names) == len(s)
}

func (t *view) served() served {
	s, _ := t.ledger.ServedObjects.(served)
	return s
}

// Served returns the served resources that were set last, sorted.
func (t *view) Served() []string { return slices.Sorted(maps.Keys(t.served())) }

// SetServed replaces the served resources. The list has no name twice.
func (t *Translator) SetServed(names []string) {
	before := t.served()
	if before.has(names) {
		return
	}
	after := served{}
	for _, name := range names {
		after[name] = 0
		for n := range t.ledger.Nodes() {
			if offers(n.Object, name) {
				after[name]++
			}
		}
	}
	t.ledger.ServedObjects = after
	t.translateAgain(func(dim string) bool { return before.leavesOut(dim) != after.leavesOut(dim) })
}

// offers reports whether a node has a resource in its allocatable.
func offers(node any, name string) bool {
	n, ok := node.(*v1.Node)
	if !ok {
		return false
	}
	q, ok := n.Status.Allocatable[v1.ResourceName(name)]
	return ok && q.Sign() > 0
}

// countServed counts a node that was added, changed or removed; the other of the two is nil.
func (t *Translator) countServed(before, after any) {
	s := t.served()
	var turned []string
	for name, nodes := range s {
		had, has := offers(before, name), offers(after, name)
		switch {
		case had && !has:
			s[name]--
		case has && !had:
			s[name]++
		}
		if s.leavesOut(name) != (nodes == 0) {
			turned = append(turned, name)
		}
	}
	if len(turned) > 0 {
		t.translateAgain(func(dim string) bool { return slices.Contains(turned, dim) })
	}
}

// demand returns the pod's requests in the policy's dimensions.
func (t *view) demand(p *v1.Pod) map[string]int64 {
	demand := podspec.Demand(p)
	if s := t.served(); len(s) > 0 {
		maps.DeleteFunc(demand, func(dim string, _ int64) bool { return s.leavesOut(dim) })
	}
	return demand
}

// IgnoredResources lists the resources that a pod requests and no policy sees.
func (t *view) IgnoredResources(p *v1.Pod) []string {
	seen := t.demand(p)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(podspec.Demand(p))), func(dim string) bool {
		_, ok := seen[dim]
		return ok
	})
}

// translateAgain emits the apps of the pods that request a dimension that is left out
// from now on, or no longer. A waiting pod gets its app when it is translated next.
func (t *Translator) translateAgain(turned func(dimension string) bool) {
	var list []*ledger.Pod
	for p := range t.ledger.Pods() {
		if object, ok := p.Object.(*v1.Pod); ok && needs(object, turned) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *ledger.Pod) int { return cmp.Compare(a.UID(), b.UID()) })
	for _, p := range list {
		object := p.Object.(*v1.Pod)
		p.Object = outdated{object}
		if n := p.Node(); n != nil {
			t.setPod(object, n)
			p.Object = object // also where the ledger refused the app
		}
	}
}

// An outdated object is that of a pod whose app is out of date.
type outdated struct{ *v1.Pod }

// objectOf is the pod of an entry.
func objectOf(p *ledger.Pod) *v1.Pod {
	if o, ok := p.Object.(outdated); ok {
		return o.Pod
	}
	return p.Object.(*v1.Pod)
}

func needs(p *v1.Pod, dimension func(string) bool) bool {
	for dim := range podspec.Demand(p) {
		if dimension(dim) {
			return true
		}
	}
	return false
}
