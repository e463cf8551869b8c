package sigma

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// nodes are the snapshot's nodes as last passed to the engine. The snapshot's list
// keeps its order until nodes are added or removed.
type nodes struct {
	infos       []*framework.NodeInfo
	names       []string
	generations []int64
	places      map[*framework.NodeInfo]int32 // in the list
	named       map[string]int32              // the same by name; nil until it is needed
	changed     []int32

	// Of this cycle, by place: whether the node passed the filters, and its given info.
	passed []bool
	given  []*framework.NodeInfo

	mu      sync.Mutex
	revisit map[string]bool // nodes to visit although they did not change
}

// never is a generation that no node has.
const never = -1

// visit passes the nodes of a list that changed since the last visit to set.
func (n *nodes) visit(list []fwk.NodeInfo, all bool, set func(engine.Node), gone func(string)) {
	n.markRevisited()
	if all || !n.compare(list) {
		n.replace(list, all, gone)
		n.compare(list)
	}
	for _, i := range n.changed {
		n.generations[i] = n.infos[i].Generation
		set(nodeOf(n.infos[i]))
	}
}

// compare finds the nodes of a list that changed, and reports whether it is of the
// same nodes in the same order as the last one.
func (n *nodes) compare(list []fwk.NodeInfo) bool {
	n.changed = n.changed[:0]
	if len(list) != len(n.infos) {
		return false
	}
	for i, node := range list {
		info := concrete(node) // a call of the interface for each node takes longer
		if info != n.infos[i] {
			return false
		}
		if info.Generation != n.generations[i] {
			n.changed = append(n.changed, int32(i))
		}
	}
	return true
}

// replace stores another list of nodes and reports the removed ones.
func (n *nodes) replace(list []fwk.NodeInfo, all bool, gone func(string)) {
	before := make(map[string]int64, len(n.names))
	for i, name := range n.names {
		before[name] = n.generations[i]
	}
	n.infos, n.names, n.generations = make([]*framework.NodeInfo, len(list)), make([]string, len(list)), make([]int64, len(list))
	n.places, n.named = make(map[*framework.NodeInfo]int32, len(list)), nil
	n.passed, n.given = make([]bool, len(list)), make([]*framework.NodeInfo, len(list))
	for i, node := range list {
		info, name := node.(*framework.NodeInfo), node.Node().Name // a snapshot has no others
		n.infos[i], n.names[i], n.generations[i] = info, name, never
		if generation, ok := before[name]; ok && !all {
			n.generations[i] = generation
		}
		delete(before, name)
		n.places[info] = int32(i)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		gone(name)
	}
}

// again makes the next visit include a node to which a binding failed. The binding
// may have been made although its response was lost, and then the node does not change.
func (n *nodes) again(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.revisit == nil {
		n.revisit = map[string]bool{}
	}
	n.revisit[name] = true
}

// markRevisited marks the nodes to be visited again as changed.
func (n *nodes) markRevisited() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.revisit) == 0 {
		return
	}
	for i, name := range n.names {
		if n.revisit[name] {
			n.generations[i] = never
		}
	}
	clear(n.revisit)
}

// markPassed marks the nodes that passed the filters in the list of all. Most follow their neighbour in the list.
func (n *nodes) markPassed(nodes []fwk.NodeInfo) {
	clear(n.passed)
	i := int32(-1)
	for _, node := range nodes {
		info := concrete(node)
		if i++; int(i) >= len(n.infos) || n.infos[i] != info {
			known, ok := n.places[info]
			if !ok { // an extender with whole nodes returns copies
				known, ok = n.place(node.Node().Name)
			}
			if !ok {
				continue
			}
			i = known
		}
		if n.passed[i] = true; n.given[i] != info { // the collector follows each write of a pointer
			n.given[i] = info
		}
	}
}

// place returns the place of a node in the list.
func (n *nodes) place(name string) (int32, bool) {
	if n.named == nil {
		n.named = make(map[string]int32, len(n.names))
		for i, known := range n.names {
			n.named[known] = int32(i)
		}
	}
	i, ok := n.named[name]
	return i, ok
}

// concrete returns a node without its interface.
func concrete(info fwk.NodeInfo) *framework.NodeInfo {
	n, _ := info.(*framework.NodeInfo)
	return n
}

func nodeOf(info *framework.NodeInfo) engine.Node {
	n := engine.Node{Object: info.Node(), Pods: make([]*v1.Pod, len(info.Pods))}
	for i, pod := range info.Pods {
		n.Pods[i] = pod.GetPod()
	}
	return n
}
