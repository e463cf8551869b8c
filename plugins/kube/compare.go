package kube

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Difference is a node or a pod on which the ledger and the cluster disagree.
type Difference struct{ Node, Pod, Ours, Theirs string }

// A Snapshot is a cluster as informers report it.
type Snapshot struct {
	nodes map[string]*v1.Node
	pods  map[string]*v1.Pod   // by UID
	on    map[string][]*v1.Pod // by node; those that have not ended
}

// NewSnapshot indexes nodes and pods.
func NewSnapshot(nodes []*v1.Node, pods []*v1.Pod) *Snapshot {
	c := &Snapshot{nodes: make(map[string]*v1.Node, len(nodes)), pods: make(map[string]*v1.Pod, len(pods)), on: map[string][]*v1.Pod{}}
	for _, n := range nodes {
		c.nodes[n.Name] = n
	}
	for _, p := range pods {
		c.pods[string(p.UID)] = p
		if p.Spec.NodeName != "" && !podspec.Ended(p) {
			c.on[p.Spec.NodeName] = append(c.on[p.Spec.NodeName], p)
		}
	}
	return c
}

// Compare lists where the ledger differs from a cluster, in order of nodes and pods: nodes
// and their capacity, the node and the app of each pod, and free capacity. A pod that the
// ledger has on a node and the cluster on no node is assumed there, which is no difference.
// Compare emits nothing.
func (t *Translator) Compare(with *Snapshot) []Difference {
	var list []Difference
	for name, object := range with.nodes {
		if n := t.ledger.Node(name); n != nil {
			list = t.compareNode(n, object, with, list)
		} else {
			list = append(list, Difference{Node: name, Ours: "unknown", Theirs: "a node"})
		}
	}
	for n := range t.ledger.Nodes() {
		if with.nodes[n.Name()] == nil {
			list = append(list, Difference{Node: n.Name(), Ours: "a node", Theirs: "gone"})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Ours, b.Ours))
	})
	return list
}

func (t *Translator) compareNode(n *ledger.Node, object *v1.Node, with *Snapshot, list []Difference) []Difference {
	before := len(list)
	m, pods := n.Machine(), with.on[n.Name()]
	if _, fixed := split(pods); !hasCapacity(object, fixed, m.Capacity) {
		list = append(list, Difference{n.Name(), "", "offers " + podspec.Size(m.Capacity), "offers " + podspec.Size(capacity(object, fixed))})
	}
	if m.Cordoned != object.Spec.Unschedulable {
		list = append(list, Difference{n.Name(), "", fmt.Sprint("cordoned ", m.Cordoned), fmt.Sprint("cordoned ", object.Spec.Unschedulable)})
	}
	for _, p := range pods {
		if !podspec.Moves(p) {
			continue
		}
		switch known := t.ledger.Pod(string(p.UID)); {
		case known == nil || known.Node() == nil:
			list = append(list, Difference{n.Name(), name(p), "not here", "here"})
		case known.Node() != n:
			list = append(list, Difference{n.Name(), name(p), "on " + known.Node().Name(), "here"})
		case known.Object != any(p):
			if ours, theirs := known.App().Name(), t.item(p).app; ours != theirs {
				list = append(list, Difference{n.Name(), name(p), ours, theirs})
			}
		}
	}
	for _, known := range n.Pods() {
		p := with.pods[known.UID()]
		switch {
		case p == nil:
			list = append(list, Difference{n.Name(), "uid " + known.UID(), "here", "gone"})
		case podspec.Ended(p):
			list = append(list, Difference{n.Name(), name(p), "here", "ended"})
		}
	}
	if ours, theirs := t.ledger.Free(n); len(list) == before && ours != theirs {
		list = append(list, Difference{n.Name(), "", "free " + ours, "free " + theirs})
	}
	return list
}
