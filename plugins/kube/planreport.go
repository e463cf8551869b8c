package kube

import (
	"maps"
	"slices"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A PlanReport is the progress of a plan, in pods.
type PlanReport struct {
	Pods, Placed, Reserved, Elsewhere int32
	// Of the pods that are still expected: those with a place that has room now; and those on nodes
	// that do not exist, that are cordoned, without room, or closed to them by a rule, a taint or
	// anti-affinity.
	HasRoom, NoNode, Cordoned, NoRoom, Refused int32
	// ReplannedOn are the pods that were replanned, by the node that they are planned on now.
	ReplannedOn map[string]int32
}

// Replanned returns the number of pods that were replanned.
func (r *PlanReport) Replanned() int32 {
	sum := int32(0)
	for _, pods := range r.ReplannedOn {
		sum += pods
	}
	return sum
}

// Report returns the progress of a plan.
func (t *reservations) Report(p *Plan) PlanReport {
	r := PlanReport{Pods: p.pods}
	rooms := map[*ledger.Node]map[string]int64{}
	for _, w := range p.workloads {
		t.reportOn(&r, w, rooms)
	}
	return r
}

// reportOn adds a workload to a report. rooms are those of the nodes so far, minus the room that
// the plan's earlier workloads reserve or fit there.
func (t *reservations) reportOn(r *PlanReport, w *planned, rooms map[*ledger.Node]map[string]int64) {
	landed, left := int32(0), w.pods // still expected
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
			if r.ReplannedOn == nil {
				r.ReplannedOn = map[string]int32{}
			}
			r.ReplannedOn[name] += w.again[name]
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
	r.Placed += landed
	if g != nil {
		r.Elsewhere += int32(g.Pods()) - landed
	}
}

// fitting returns how many of a workload's pods fit on a node, next to the reservations of
// others. It subtracts them from the room.
func (t *reservations) fitting(n *ledger.Node, w *planned, want int32, rooms map[*ledger.Node]map[string]int64) int32 {
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
