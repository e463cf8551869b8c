package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	packing "github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// replanSteps bounds the search for other places: a review must not delay the next pods.
const replanSteps = 200

// retryAfter is the wait before pods without a place are planned again, in seconds, unless their
// number changes.
const retryAfter = 10

// A failure is the last attempt that left out pods.
type failure struct {
	pods int32
	at   float64
}

// A loss holds the lost places of a workload whose pods are still expected.
type loss struct {
	w    *planned
	at   map[string]int32 // pods by node
	pods int32            // that are to be replanned: some may run elsewhere
	kept map[string]int32 // pods by node that room is reserved for, where these are replanned too
}

// unready reports whether a node's condition keeps pods off.
func unready(n *ledger.Node) bool {
	object, ok := n.Object.(*v1.Node)
	return ok && podspec.Unwell(object) != nil
}

// losses lists the lost places: on nodes that were there and have been removed, cordoned or become
// unready, and on existing nodes that have no room or refuse the pods.
func (t *reservations) losses(book *planBook, now float64) (list []loss, pods int32) {
	for _, p := range book.plans {
		if !p.inForce(now) {
			continue
		}
		for _, w := range p.workloads {
			l := loss{w: w, at: map[string]int32{}}
			a, g, left, lost := t.ledger.App(w.app), t.ledger.Group(w.group), w.pods, int32(0)
			if g != nil {
				left -= int32(g.Pods())
			}
			if a != nil {
				left -= int32(a.Reserved())
			}
			for name, open := range w.nodes {
				n := t.ledger.Node(name)
				closed := n == nil || n.Machine().Cordoned || unready(n)
				if !closed {
					p.seen[name] = true
				}
				if left <= 0 || closed && !p.seen[name] {
					continue
				}
				if n != nil && g != nil {
					open -= g.CountOn(n)
				}
				if n != nil && a != nil {
					open -= n.ReservedFor(a).Pods
				}
				if open > 0 {
					l.at[name] = open
					lost += open
				}
			}
			if l.pods = min(lost, left); l.pods > 0 {
				list = append(list, l)
				pods += l.pods
			}
		}
	}
	return list, pods
}

// replan plans the pods that have lost their places again, around all running and reserved pods.
// When some find no place, it tries to replan some reservations of the same plans too. Pods that
// find no place then are retried later.
func (t *reservations) replan(book *planBook, now float64) {
	lost, pods := t.losses(book, now)
	if pods == 0 || pods == book.failed.pods && now >= book.failed.at && now < book.failed.at+retryAfter {
		return
	}
	lost = slices.DeleteFunc(lost, func(l loss) bool { return t.ledger.App(l.w.app) == nil && t.ensurePlanned(l.w) == nil })
	found, left := t.pack(lost)
	if left > 0 {
		loose := t.loosen(lost)
		if others, fewer := t.pack(loose); fewer < left {
			lost, found, left = loose, others, fewer
		}
	}
	book.failed = failure{int32(left), now}
	moved := map[string]string{}
	for i := range lost {
		if lost[i].move(found[i]) {
			moved[lost[i].w.plan.source()] = ledger.ReleaseReplanned
		}
	}
	if len(moved) > 0 {
		t.settleAll(book, now, moved)
	}
}

// loosen adds reservations of the same plans on the few nodes with the most room to the losses:
// there they may be in the way.
func (t *reservations) loosen(lost []loss) []loss {
	const most = 16 // nodes
	lost = slices.Clone(lost)
	at := map[*planned]int{}
	plans := map[*Plan]bool{}
	for i, l := range lost {
		lost[i].kept, at[l.w], plans[l.w.plan] = map[string]int32{}, i, true
	}
	var nodes []*ledger.Node
	free := map[*ledger.Node]float64{}
	for n := range t.ledger.ReservedNodes() {
		if slices.ContainsFunc(t.plans().on[n.Name()], func(w *planned) bool { return plans[w.plan] && !unready(n) }) {
			nodes, free[n] = append(nodes, n), t.share(n)
		}
	}
	slices.SortFunc(nodes, func(a, b *ledger.Node) int {
		return cmp.Or(cmp.Compare(free[b], free[a]), cmp.Compare(a.Name(), b.Name()))
	})
	for _, n := range nodes[:min(most, len(nodes))] {
		for _, w := range t.plans().on[n.Name()] {
			a := t.ledger.App(w.app)
			if a == nil || !plans[w.plan] || n.ReservedFor(a).Pods == 0 {
				continue
			}
			if _, ok := at[w]; !ok {
				at[w] = len(lost)
				lost = append(lost, loss{w: w, kept: map[string]int32{}})
			}
			lost[at[w]].kept[n.Name()] = n.ReservedFor(a).Pods
		}
	}
	return lost
}

// share returns the least share of a node's cpu and memory that is neither used nor reserved.
func (t *reservations) share(n *ledger.Node) float64 {
	room, capacity, least := t.room(n), n.Machine().Capacity, 1.
	for _, r := range n.Reservations() {
		for dim, need := range r.App.Spec().Demand {
			room[dim] -= need * int64(r.Pods)
		}
	}
	for _, dim := range []string{"cpu", "memory"} {
		if capacity[dim] > 0 {
			least = min(least, float64(room[dim])/float64(capacity[dim]))
		}
	}
	return least
}

// pack finds places for the losses: for each the pods by node, and the number of pods
// without one.
func (t *reservations) pack(lost []loss) (found []map[string]int32, left int64) {
	columns := t.ledger.Columns()
	inst := *columns.Instance()
	inst.Apps, inst.Machines = slices.Clone(inst.Apps), nil
	items, of := make([]int64, len(inst.Apps)), map[int32]int{}
	for i, l := range lost {
		app := t.ledger.AppIndex(l.w.app)
		of[app] = i
		items[app] = int64(l.pods)
		for _, pods := range l.kept {
			items[app] += int64(pods)
		}
		if g := t.ledger.Group(l.w.group); g.Latest() != nil { // a plan does not list the nodes that its pods may use
			inst.Apps[app].Types = inst.Apps[t.ledger.AppIndex(g.Latest().Name())].Types
		}
	}
	var standing []packing.Machine
	for _, line := range columns.Instance().Machines {
		n := t.ledger.Node(line.Name)
		if unready(n) {
			continue
		}
		m := packing.Machine{Line: int32(len(inst.Machines)), Items: t.entries(n, &inst, lost, of)}
		if len(m.Items) > 0 {
			standing = append(standing, m)
		}
		line.Capacity = atLeast(line.Capacity, m.Items, &inst)
		inst.Machines = append(inst.Machines, line)
	}
	packed := packing.Pack(context.Background(), &inst, items, packing.Options{Seed: 1, Steps: replanSteps, Standing: standing})
	found = make([]map[string]int32, len(lost))
	for i := range found {
		found[i] = map[string]int32{}
	}
	for _, m := range packed.Machines {
		for _, e := range m.Items {
			found[of[e.App]][inst.Machines[m.Line].Name] += e.Count
		}
	}
	for _, n := range packed.LeftOut {
		left += n
	}
	return found, left
}

// entries returns the pods on a node and those that room is reserved for, without those that are
// to be replanned.
func (t *reservations) entries(n *ledger.Node, inst *binpack.Instance, lost []loss, of map[int32]int) []binpack.Entry {
	counts := map[int32]int32{} // by app
	for _, p := range n.Pods() {
		counts[t.ledger.AppIndex(p.App().Name())]++
	}
	for _, r := range n.Reservations() {
		app := t.ledger.AppIndex(r.App.Name())
		counts[app] += r.Pods
		if i, ok := of[app]; ok {
			counts[app] -= lost[i].kept[n.Name()]
		}
	}
	var items []binpack.Entry
	for app, count := range counts {
		if count > 0 {
			items = append(items, binpack.Entry{App: app, Group: inst.Apps[app].Group, Count: count})
		}
	}
	slices.SortFunc(items, func(a, b binpack.Entry) int { return cmp.Compare(a.App, b.App) })
	return items
}

// atLeast returns a capacity, raised to the demand of items: a node may have shrunk below that,
// and while a chain moves pods, both the arriving and the leaving ones count.
func atLeast(capacity []int64, items []binpack.Entry, inst *binpack.Instance) []int64 {
	used := make([]int64, len(capacity))
	for _, e := range items {
		for d, need := range inst.Apps[e.App].Demand {
			used[d] += need * int64(e.Count)
		}
	}
	for d := range used {
		used[d] = max(used[d], capacity[d])
	}
	return used
}

// move assigns the places that were found to the pods of a loss, and reports whether there were
// any. Pods without one keep the place that they lost: it may be restored.
func (l *loss) move(found map[string]int32) bool {
	w, without := l.w, int32(0)
	for _, from := range []map[string]int32{l.at, l.kept} {
		for name, pods := range from {
			w.nodes[name] -= pods
			without += pods
		}
	}
	for name, pods := range found {
		w.nodes[name] += pods
		without -= pods
		if more := pods - l.kept[name]; more > 0 {
			w.again[name] += more
		}
	}
	for _, back := range []map[string]int32{l.at, l.kept} {
		for _, name := range slices.Sorted(maps.Keys(back)) {
			pods := min(back[name], without)
			w.nodes[name] += pods
			without -= pods
		}
	}
	for name, pods := range w.nodes {
		if w.again[name] = min(w.again[name], pods); w.again[name] == 0 {
			delete(w.again, name)
		}
		if pods == 0 {
			delete(w.nodes, name)
		}
	}
	return len(found) > 0
}
