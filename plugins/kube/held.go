package kube

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// held is the capacity of a node that is reserved for other workloads.
type held struct {
	by     string           // the object that made the first of the reservations
	amount map[string]int64 // their demand
	free   map[string]int64 // next to them and the pods on the node
	closed bool             // a rule or anti-affinity keeps the pod off them
}

// A hold is the total of the reservations on a node, for whichever workload. It does not change.
type hold struct {
	held
	node    *ledger.Node
	groups  []*ledger.Group // that may take them
	changes uint64          // of the node so far
}

// holds returns those of all nodes with reservations. The ledger stores them as an object. A list
// is not changed, so that checks can share it: a change of a node makes a new list.
func (t *reservations) holds() map[string]*hold {
	list, _ := t.ledger.ReservationObjects.(map[string]*hold)
	nodes, shared := 0, true
	change := func() {
		if shared {
			list, shared = maps.Clone(list), false
		}
		if list == nil {
			list = map[string]*hold{}
		}
	}
	for n := range t.ledger.ReservedNodes() {
		nodes++
		if known := list[n.Name()]; known == nil || known.node != n || known.changes != n.Changes() {
			change()
			list[n.Name()] = t.holdOn(n)
		}
	}
	if len(list) > nodes {
		change()
		maps.DeleteFunc(list, func(name string, _ *hold) bool { return !t.HasReservation(name) })
	}
	t.ledger.ReservationObjects = list
	return list
}

func (t *reservations) holdOn(n *ledger.Node) *hold {
	h := &hold{held: held{by: n.Reservations()[0].By, amount: map[string]int64{}, free: t.room(n)}, node: n, changes: n.Changes()}
	for _, r := range n.Reservations() {
		h.groups = append(h.groups, r.App.Group())
		for dim, need := range r.App.Spec().Demand {
			h.amount[dim] += need * int64(r.Pods)
			h.free[dim] -= need * int64(r.Pods)
		}
	}
	return h
}

// closedTo returns the nodes with reservations that a rule or anti-affinity closes to a pod of an
// app because of the pods that they are reserved for.
func (t *reservations) closedTo(a *ledger.AppEntry) map[string]bool {
	if len(constraintsOf(a.Group()).pairs) == 0 {
		return nil
	}
	closed := map[string]bool{}
	for n := range t.ledger.ReservedNodes() {
		if t.keptOff(a, n) {
			closed[n.Name()] = true
		}
	}
	return closed
}

// heldOn returns the capacity of a node that is held for others than the pod of a check. A pod with
// a reservation there takes its own, and on the node that it nominated preemption made room for it.
func (k *Check) heldOn(nodeName string) (h held, ok bool) {
	if h, ok := k.changed[nodeName]; ok {
		return h, true
	}
	of := k.holds[nodeName]
	if of == nil || nodeName == k.nominated || slices.Contains(of.groups, k.group) {
		return held{}, false
	}
	h = of.held
	h.closed = k.closed[nodeName]
	return h, true
}

// keptOff reports whether the pods on a node allow a pod of an app, but not the pods that room is
// reserved for there.
func (t *reservations) keptOff(a *ledger.AppEntry, n *ledger.Node) bool {
	own := constraintsOf(a.Group())
	for i := range own.pairs {
		p := &own.pairs[i]
		if p.in != node { // a pod that is expected in the zone need not run on this node
			continue
		}
		other, coming := p.other(own), int32(0)
		for _, r := range n.Reservations() {
			if r.App.Group().Name() == other.name {
				coming += r.Pods
			}
		}
		stand := t.countOn(other, n)
		switch {
		case coming == 0:
		case p.a == own && stand <= p.max && stand+coming > p.max,
			p.b == own && stand == 0 && t.countOn(own, n)+1 > p.max:
			return true
		}
	}
	return false
}

// with returns the hold after a pod of a demand was placed on the node, or with count -1 removed.
func (h held) with(demand map[string]int64, count int32) held {
	h.free = maps.Clone(h.free) // a copy of the check may share it
	for dim, need := range demand {
		h.free[dim] -= need * int64(count)
	}
	return h
}

// refuses returns why a pod of a demand does not fit next to the reservations, where it would
// without them; "" when it fits.
func (h held) refuses(demand map[string]int64) string {
	full := ""
	for dim, need := range demand {
		if need > 0 && need > h.free[dim] && (full == "" || dim < full) && h.amount[dim] > 0 && need <= h.free[dim]+h.amount[dim] {
			full = dim
		}
	}
	switch {
	case full != "":
		return fmt.Sprintf("%s: %s is reserved for other pods", h.by, full)
	case h.closed:
		return h.by + ": room is reserved for pods that exclude this one"
	}
	return ""
}

// HasReservation reports whether there is a reservation on a node.
func (t *reservations) HasReservation(nodeName string) bool {
	n := t.ledger.Node(nodeName)
	return n != nil && len(n.Reservations()) > 0
}

// demandOf returns the demand of a pod that a check is changed by.
func (t *reservations) demandOf(p *v1.Pod) map[string]int64 {
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Object == any(p) {
		return known.App().Spec().Demand
	}
	return t.demand(p)
}
