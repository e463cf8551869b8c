// Package makeroom finds a short chain of moves that lets in a pod that fits on no node. It
// reads a ledger and the pods in it, and changes nothing. The same ledger and request give
// the same chain.
//
// What it does not know for sure it leaves alone: pods with constraints that the ledger does
// not have, workloads of plans and other chains, and nodes that are not ready.
package makeroom

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/moves"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Request is for room for a pod that waits.
type Request struct {
	Pod   *v1.Pod
	App   string   // the pod's, in the ledger
	Nodes []string // that the pod may come to: those that lack room or that a rule closes
	Chain int      // most moves of others
	// MinReplicas is the least number of pods that a workload has to have for one to move.
	MinReplicas int
	// Stays reports whether a pod must not be evicted now, beyond what the pod says itself:
	// because of a disruption budget. nil = none must stay.
	Stays func(*v1.Pod) bool
	// Engaged reports whether others have a claim on a workload's pods, by group.
	Engaged func(group string) bool
}

// A Move takes a pod that stands to another node.
type Move struct {
	Pod *v1.Pod
	To  string
}

// budgets are the lengths of chains that are tried, one after the other.
var budgets = []int{1, 2, 4, 8, 16, 32}

// Find returns moves in the order in which they can be carried out, and the node that they open
// to the pod; node is empty where there is no such chain. Of a workload one pod moves, to a
// node of its own. The node of the pod takes no other. No pod of higher priority moves.
func Find(l *ledger.Ledger, r Request) (list []Move, node string) {
	app := l.App(r.App)
	if app == nil || r.Chain < 1 || len(r.Nodes) == 0 || podspec.UnknownConstraint(r.Pod) != "" || r.engaged(app.Group()) {
		return nil, ""
	}
	if least := app.Spec().SpreadMin; least > 1 {
		return nil, "" // where it may go depends on where the others of it go
	}
	m := newModel(l, &r, app)
	if !m.roomInAll(l) {
		return nil, ""
	}
	for i, budget := range budgets {
		budget = min(budget, r.Chain)
		if list, node = m.search(budget, seed(l, app)+uint64(i)); node != "" || budget == r.Chain {
			break
		}
	}
	return list, node
}

func (r *Request) engaged(g *ledger.Group) bool { return r.Engaged != nil && r.Engaged(g.Name()) }

// seed depends on what stands and waits.
func seed(l *ledger.Ledger, a *ledger.AppEntry) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.Name()))
	return h.Sum64() + uint64(l.NodeCount())<<32 + uint64(a.Group().Pods())
}

// model is the packing problem in which the search moves items.
type model struct {
	inst  *binpack.Instance
	items []moves.Item
	pods  []*ledger.Pod // by item; nil = room that is reserved, or the pod that waits
	apps  map[*ledger.AppEntry]kind
}

// A kind is what the search has to know of an app.
type kind struct {
	index int32
	stays bool // all its pods
}

// newModel is the ledger's problem with some changes. The fleet is fixed. Each type of
// machine is two: those that the pod may come to, and the others. The pod is of an app of
// its own, the last. Machines in which nothing may change have no room. Spread is left out,
// and the pods that have to keep it stay.
func newModel(l *ledger.Ledger, r *Request, app *ledger.AppEntry) *model {
	state := l.Columns()
	inst := *state.Instance()
	inst.Fleet = binpack.Fixed
	types := make([]string, 0, 2*len(inst.Types))
	for _, name := range inst.Types {
		types = append(types, name, name+"\x00may")
	}
	inst.Types = types
	may := map[string]bool{}
	for _, name := range r.Nodes {
		may[name] = true
	}
	m := &model{inst: &inst, apps: map[*ledger.AppEntry]kind{}}
	closed := make([]bool, len(inst.Machines))
	inst.Machines = slices.Clone(inst.Machines)
	nothing := make([]int64, len(inst.Dimensions))
	for line := range inst.Machines {
		at := &inst.Machines[line]
		at.Type *= 2
		if may[at.Name] {
			at.Type++
		}
		if n := l.Node(at.Name); overfull(state, l.MachineIndex(at.Name)) || !ready(n) {
			closed[line], at.Capacity = true, nothing
		}
	}
	inst.Groups = slices.Clone(inst.Groups)
	for g := range inst.Groups {
		inst.Groups[g].SpreadMin = 0
	}
	inst.Apps = slices.Clone(inst.Apps)
	for a := range inst.Apps {
		var both []int32
		for _, t := range inst.Apps[a].Types {
			both = append(both, 2*t, 2*t+1)
		}
		if inst.Apps[a].Types != nil {
			inst.Apps[a].Types = slices.Concat([]int32{}, both)
		}
	}
	own := inst.Apps[l.AppIndex(app.Name())]
	allowed := []int32{}
	for t := range int32(len(inst.Types)) {
		if t%2 == 1 && (own.Types == nil || slices.Contains(own.Types, t)) {
			allowed = append(allowed, t)
		}
	}
	own.Types = allowed
	inst.Apps = append(inst.Apps, own)
	for line := range inst.Machines {
		if !closed[line] {
			m.addPods(l, r, app, int32(line))
		}
	}
	m.add(moves.Item{App: int32(len(inst.Apps) - 1), Line: -1, Index: -1}, nil)
	return m
}

func (m *model) add(i moves.Item, p *ledger.Pod) {
	m.items, m.pods = append(m.items, i), append(m.pods, p)
}

// addPods adds what stands on a node, and what is reserved there.
func (m *model) addPods(l *ledger.Ledger, r *Request, app *ledger.AppEntry, line int32) {
	n := l.Node(m.inst.Machines[line].Name)
	pods := slices.SortedFunc(slices.Values(n.Pods()), func(a, b *ledger.Pod) int { return strings.Compare(a.UID(), b.UID()) })
	for _, p := range pods {
		k, ok := m.apps[p.App()]
		if !ok {
			k = kind{l.AppIndex(p.App().Name()), r.stays(p.App(), app)}
			m.apps[p.App()] = k
		}
		m.add(moves.Item{App: k.index, Line: line, Fixed: k.stays || !r.mayMove(p)}, p)
	}
	for _, held := range n.Reservations() {
		for range held.Pods {
			m.add(moves.Item{App: l.AppIndex(held.App.Name()), Line: line, Fixed: true}, nil)
		}
	}
}

// stays reports whether no pod of an app may move, because of its workload, or since a replacement
// might not be as the pod is.
func (r *Request) stays(a, waits *ledger.AppEntry) bool {
	g := a.Group()
	return g == waits.Group() || g.Latest() != a || a.Spec().SpreadMin > 1 || g.Pods() < r.MinReplicas || r.engaged(g)
}

// mayMove reports whether a pod may be evicted for the one that waits.
func (r *Request) mayMove(p *ledger.Pod) bool {
	object, ok := p.Object.(*v1.Pod)
	if !ok || object.Spec.NodeName != p.Node().Name() { // its binding is under way
		return false
	}
	if object.Spec.SchedulerName != r.Pod.Spec.SchedulerName { // another one decides where its replacement goes
		return false
	}
	return corev1.PodPriority(object) <= corev1.PodPriority(r.Pod) && podspec.Movable(object) == "" && (r.Stays == nil || !r.Stays(object))
}

// overfull reports whether the pods on a machine take more than it has.
func overfull(state *binpack.State, machine int32) bool {
	for d := range state.Instance().Dimensions {
		if state.Free(d)[machine] < 0 {
			return true
		}
	}
	return false
}

// ready reports whether a node takes new pods: no taint for its condition keeps them off.
func ready(n *ledger.Node) bool {
	object, ok := n.Object.(*v1.Node)
	return ok && !slices.ContainsFunc(object.Spec.Taints, func(t v1.Taint) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Effect != v1.TaintEffectPreferNoSchedule
	})
}

// roomInAll reports whether the nodes together have the room that the pod needs.
func (m *model) roomInAll(l *ledger.Ledger) bool {
	state, pod := l.Columns(), m.inst.Apps[len(m.inst.Apps)-1]
	for d, need := range pod.Demand {
		for line := range m.inst.Machines {
			if at := &m.inst.Machines[line]; at.Capacity[d] > 0 {
				need -= max(0, state.Free(d)[l.MachineIndex(at.Name)])
			}
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// search looks for a chain with at most so many moves of others.
func (m *model) search(most int, seed uint64) (list []Move, node string) {
	// So small a share is one item of each app.
	planner, err := moves.New(m.inst, m.items, moves.Options{Seed: seed, Budget: float64(most), Chain: most, AppShare: 1e-12})
	if err != nil || len(planner.MakeRoom(context.Background())) > 0 {
		return nil, ""
	}
	groups, nodes := map[*ledger.Group]bool{}, map[string]bool{}
	for _, move := range planner.Moves() {
		to := m.inst.Machines[move.To.Line].Name
		if nodes[to] {
			return nil, ""
		}
		nodes[to] = true
		if move.From == moves.Nowhere {
			node = to
			continue
		}
		p := m.pods[move.Item]
		if groups[p.App().Group()] || node != "" {
			return nil, ""
		}
		groups[p.App().Group()] = true
		list = append(list, Move{Pod: p.Object.(*v1.Pod), To: to})
	}
	if len(list) == 0 || len(list) > most {
		return nil, ""
	}
	return list, node
}
