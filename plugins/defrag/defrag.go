// Package defrag finds a short chain of moves that opens a node for a pod that fits on none. It reads a
// ledger and the pods in it, and changes nothing. The same ledger and request give the same chain.
//
// It moves nothing that is uncertain: pods with constraints that the ledger lacks, workloads of plans and
// other chains, and nodes that are not ready.
package defrag

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Request is for room for a pod that waits.
type Request struct {
	Pod   *v1.Pod
	App   string   // the pod's, in the ledger
	Nodes []string // that the pod may use: those that lack room or that a rule closes
	Chain int      // most moves of others
	// MinReplicas is the least number of pods that a workload has to have for one to move.
	MinReplicas int
	// MaxGrace is the longest grace period of a pod that moves; 0 = [podspec.MaxGrace].
	MaxGrace time.Duration
	// Stays reports whether a pod must not be evicted now, beyond its own constraints: because of a
	// disruption budget, or constraints of other pods. nil = every pod may be.
	Stays func(*v1.Pod) bool
	// Claimed reports whether others have a claim on a workload's pods, by group.
	Claimed func(group string) bool

	may map[string]bool // Nodes
}

// A Move takes a pod from its node to another.
type Move struct {
	Pod *v1.Pod
	To  string
}

// budgets are the lengths of chains that are tried, one after the other.
var budgets = []int{1, 2, 4, 8, 16, 32}

// Find returns moves in the order in which they can be carried out, and the node that they open
// to the pod; node is empty where there is no such chain. Of a workload one pod moves. The
// node of the pod takes no other. No pod of higher priority moves.
func Find(l *ledger.Ledger, r Request) (list []Move, node string) {
	app := l.App(r.App)
	if app == nil || r.Chain < 1 || len(r.Nodes) == 0 || podspec.Unknown(r.Pod) != "" || r.engaged(app.Group()) {
		return nil, ""
	}
	if least := app.Spec().SpreadMin; least > 1 {
		return nil, "" // where it may go depends on where the others of it go
	}
	// Finding out which pods may move takes most of the time: a few nodes are tried first, then all.
	for _, lines := range [][]int32{near(l, &r, app), nil} {
		if list, node = r.findOn(l, app, lines); node != "" || lines == nil {
			break
		}
	}
	return list, node
}

// nearTries is how often a chain of one length is looked for on a few nodes.
const nearTries = 3

// findOn is Find on the nodes of some lines; nil = on all.
func (r *Request) findOn(l *ledger.Ledger, app *ledger.AppEntry, lines []int32) (list []Move, node string) {
	m := newModel(l, r, app, lines)
	if m == nil || !m.roomInAll(l) {
		return nil, ""
	}
	tries := 1
	if lines != nil {
		tries = nearTries
	}
	next := seed(l, app)
	for _, budget := range budgets {
		budget = min(budget, r.Chain)
		for range tries {
			if list, node = m.search(budget, next); node != "" {
				return list, node
			}
			next++
		}
		if budget == r.Chain {
			break
		}
	}
	return nil, ""
}

// nearest is how many nodes of each of three kinds a search looks at first.
const nearest = 24

// near are the lines, in ascending order, of the nodes that a search tries first: eligible nodes with the smallest
// shortfall for the pod, nodes with the most of its scarcest dimension, and a sample of all. nil = there are few
// more.
func near(l *ledger.Ledger, r *Request, app *ledger.AppEntry) []int32 {
	state := l.Columns()
	inst := state.Instance()
	if len(inst.Machines) < 5*nearest {
		return nil
	}
	need := inst.Apps[l.AppIndex(app.Name())].Demand
	scarce := scarcest(state, need)
	type at struct {
		line int32
		key  float64 // the least is first
	}
	var comes, takes []at
	may := r.nodes()
	for line := range inst.Machines {
		name := inst.Machines[line].Name
		if isClosed(state, l, l.Node(name)) {
			continue
		}
		m := l.MachineIndex(name)
		takes = append(takes, at{int32(line), -float64(state.Free(scarce)[m])})
		if may[name] {
			lacks := 0.
			for d := range need {
				lacks = max(lacks, float64(need[d]-state.Free(d)[m])/float64(max(1, need[d])))
			}
			comes = append(comes, at{int32(line), lacks})
		}
	}
	var lines []int32
	step := max(1, len(takes)/nearest)
	for k := 0; k < len(takes); k += step { // others, since pods of other sizes may fit there
		lines = append(lines, takes[k].line)
	}
	for _, list := range [][]at{comes, takes} {
		slices.SortFunc(list, func(a, b at) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.line, b.line)) })
		for _, a := range list[:min(nearest, len(list))] {
			lines = append(lines, a.line)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// scarcest is the dimension in which a need is the largest part of the free amount of all machines.
func scarcest(state *binpack.State, need []int64) (dimension int) {
	most := -1.
	for d := range need {
		free := 0.
		for _, f := range state.Free(d) {
			free += float64(max(0, f))
		}
		if part := float64(need[d]) / max(1, free); part > most {
			dimension, most = d, part
		}
	}
	return dimension
}

func (r *Request) nodes() map[string]bool {
	if r.may == nil {
		r.may = make(map[string]bool, len(r.Nodes))
		for _, name := range r.Nodes {
			r.may[name] = true
		}
	}
	return r.may
}

func (r *Request) engaged(g *ledger.Group) bool { return r.Claimed != nil && r.Claimed(g.Name()) }

// seed depends on the running and the waiting pods.
func seed(l *ledger.Ledger, a *ledger.AppEntry) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.Name()))
	return h.Sum64() + uint64(l.NodeCount())<<32 + uint64(a.Group().Pods())
}

// model is the packing problem in which the search moves items.
type model struct {
	inst  *binpack.Instance
	items []defrag.Item
	pods  []*ledger.Pod // by item; nil = room that is reserved, or the pod that waits
	apps  map[*ledger.AppEntry]kind
}

// A kind is the search's information about an app.
type kind struct {
	index int32
	stays bool // all its pods
}

// newModel is the ledger's problem with some changes, on some of its machines, by line in ascending order; nil =
// on all. The fleet is fixed. Each type of machine is two: those that the pod may use, and the others. The pod
// has an app of its own, the last. Machines in which nothing may change have no room. Spread is left out, and
// the pods bound to it stay. If not all pods are in the model, pods bound by a rule by zone stay, and the model
// is nil if such a rule binds the pod itself.
func newModel(l *ledger.Ledger, r *Request, app *ledger.AppEntry, lines []int32) *model {
	state := l.Columns()
	inst := *state.Instance()
	inst.Fleet = binpack.Fixed
	types := make([]string, 0, 2*len(inst.Types))
	for _, name := range inst.Types {
		types = append(types, name, name+"\x00may")
	}
	inst.Types = types
	may := r.nodes()
	m := &model{inst: &inst, apps: map[*ledger.AppEntry]kind{}}
	whole := lines == nil
	if whole {
		inst.Machines = slices.Clone(inst.Machines)
	} else {
		inst.Machines = make([]binpack.MachineLine, len(lines))
		for i, line := range lines {
			inst.Machines[i] = state.Instance().Machines[line]
		}
	}
	closed := make([]bool, len(inst.Machines))
	nothing := make([]int64, len(inst.Dimensions))
	for line := range inst.Machines {
		at := &inst.Machines[line]
		at.Type *= 2
		if may[at.Name] {
			at.Type++
		}
		if n := l.Node(at.Name); isClosed(state, l, n) {
			closed[line], at.Capacity = true, nothing
			whole = whole && len(n.Pods()) == 0
		}
	}
	byZone := func(g int32) bool { return !whole && state.ByZone(g) }
	if byZone(inst.Apps[l.AppIndex(app.Name())].Group) {
		return nil
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
			m.addPods(l, r, app, int32(line), byZone)
		}
	}
	m.add(defrag.Item{App: int32(len(inst.Apps) - 1), Line: -1, Index: -1}, nil)
	return m
}

func (m *model) add(i defrag.Item, p *ledger.Pod) {
	m.items, m.pods = append(m.items, i), append(m.pods, p)
}

// addPods adds the pods on a node, and its reservations. Groups named by byZone stay.
func (m *model) addPods(l *ledger.Ledger, r *Request, app *ledger.AppEntry, line int32, byZone func(group int32) bool) {
	n := l.Node(m.inst.Machines[line].Name)
	pods := slices.SortedFunc(slices.Values(n.Pods()), func(a, b *ledger.Pod) int { return strings.Compare(a.UID(), b.UID()) })
	for _, p := range pods {
		k, ok := m.apps[p.App()]
		if !ok {
			k.index = l.AppIndex(p.App().Name())
			k.stays = byZone(m.inst.Apps[k.index].Group) || r.stays(p.App(), app)
			m.apps[p.App()] = k
		}
		m.add(defrag.Item{App: k.index, Line: line, Fixed: k.stays || !r.mayMove(p)}, p)
	}
	for _, held := range n.Reservations() {
		for range held.Pods {
			m.add(defrag.Item{App: l.AppIndex(held.App.Name()), Line: line, Fixed: true}, nil)
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
	if object.Spec.SchedulerName != r.Pod.Spec.SchedulerName { // another one places its replacement
		return false
	}
	return corev1.PodPriority(object) <= corev1.PodPriority(r.Pod) && podspec.Movable(object, r.MaxGrace, nil) == "" && (r.Stays == nil || !r.Stays(object))
}

// isClosed reports whether nothing may change on a node.
func isClosed(state *binpack.State, l *ledger.Ledger, n *ledger.Node) bool {
	return overfull(state, l.MachineIndex(n.Name())) || !ready(n)
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
	return ok && podspec.Unwell(object) == nil
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
	planner, err := defrag.New(m.inst, m.items, defrag.Options{Seed: seed, Budget: float64(most), Chain: most, AppShare: 1e-12})
	if err != nil || len(planner.MakeRoom(context.Background())) > 0 {
		return nil, ""
	}
	groups, leaves, comes := map[*ledger.Group]bool{}, map[string]bool{}, map[string]int{}
	for _, move := range planner.Moves() {
		to := m.inst.Machines[move.To.Line].Name
		if move.From == defrag.Nowhere {
			node = to
			continue
		}
		comes[to]++
		p := m.pods[move.Item]
		leaves[p.Node().Name()] = true
		if groups[p.App().Group()] || node != "" {
			return nil, ""
		}
		groups[p.App().Group()] = true
		list = append(list, Move{Pod: p.Object.(*v1.Pod), To: to})
	}
	if len(list) == 0 || len(list) > most || comes[node] > 0 {
		return nil, ""
	}
	for to, n := range comes {
		if n > 1 && leaves[to] { // all room is reserved from the start: one would keep the other off
			return nil, ""
		}
	}
	return list, node
}
