package kube

import (
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A PlanReport says how far a plan is, in pods.
type PlanReport struct {
	Pods, Landed, Reserved, Elsewhere int32
	// Of those that are still to come: with a place that there is room for now; on nodes that
	// are not there, that are cordoned, without room, and that a rule, a taint or anti-affinity
	// keeps them off.
	HasRoom, NoNode, Cordoned, NoRoom, Refused int32
	// Again are the pods that were planned again, by the node that they are planned on now.
	Again map[string]int32
}

// Replanned is the number of pods that were planned again.
func (r *PlanReport) Replanned() int32 {
	sum := int32(0)
	for _, pods := range r.Again {
		sum += pods
	}
	return sum
}

// Report says how far a plan is.
func (t *Translator) Report(p *Plan) PlanReport {
	r := PlanReport{Pods: p.pods}
	rooms := map[*ledger.Node]map[string]int64{}
	for _, w := range p.workloads {
		t.reportOn(&r, w, rooms)
	}
	return r
}

// reportOn adds a workload to a report. rooms are those of the nodes so far, less what the
// plan reserves or has room for there.
func (t *Translator) reportOn(r *PlanReport, w *planned, rooms map[*ledger.Node]map[string]int64) {
	landed, left := int32(0), w.pods // to come
	a, g := t.ledger.App(w.app), t.ledger.Group(w.group)
	if g != nil {
		left = max(0, left-int32(g.Pods()))
	}
	type gap struct {
		pods int32
		into *int32
	}
	var gaps []gap
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		open, n := w.nodes[name], t.ledger.Node(name)
		if w.again[name] > 0 {
			if r.Again == nil {
				r.Again = map[string]int32{}
			}
			r.Again[name] += w.again[name]
		}
		if n == nil {
			gaps = append(gaps, gap{open, &r.NoNode})
			continue
		}
		if g != nil {
			here := min(g.CountOn(n), open)
			landed, open = landed+here, open-here
		}
		want, reason := t.wanted(n, w)
		fits := t.fitting(n, w, min(want, left), rooms)
		if a != nil {
			r.Reserved += n.ReservedFor(a).Pods
		}
		r.HasRoom += fits
		left -= fits
		into := &r.NoRoom
		switch reason {
		case ledger.ReleaseCordoned:
			into = &r.Cordoned
		case ledger.ReleaseRefused:
			into = &r.Refused
		}
		gaps = append(gaps, gap{open - fits, into})
	}
	for _, gap := range gaps {
		k := min(gap.pods, left)
		*gap.into += k
		left -= k
	}
	r.Landed += landed
	if g != nil {
		r.Elsewhere += int32(g.Pods()) - landed
	}
}

// fitting is how many of a workload's pods there is room for on a node, beside what others
// have reserved. It takes them off the room.
func (t *Translator) fitting(n *ledger.Node, w *planned, want int32, rooms map[*ledger.Node]map[string]int64) int32 {
	if rooms[n] == nil {
		rooms[n] = t.room(n)
		for _, other := range n.Reservations() {
			for dim, need := range other.App.Spec().Demand {
				if other.By != w.plan.source() {
					rooms[n][dim] -= need * int64(other.Pods)
				}
			}
		}
	}
	for dim, need := range w.demand {
		if need > 0 {
			want = min(want, int32(min(max(0, rooms[n][dim])/need, int64(want))))
		}
	}
	for dim, need := range w.demand {
		rooms[n][dim] -= need * int64(want)
	}
	return want
}
