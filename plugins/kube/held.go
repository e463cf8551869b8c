package kube

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// held is what reservations for other workloads hold on a node.
type held struct {
	by     string           // the object that asked for the first of them
	amount map[string]int64 // that they hold
	free   map[string]int64 // beside them and the pods that stand
	closed bool             // a rule or anti-affinity keeps the pod off them
}

// holdings are the nodes on which a pod of an app may meet reservations for others. A node
// with a reservation for the pod itself is not among them: it takes that.
func (t *Translator) holdings(a *ledger.AppEntry) map[string]held {
	var on map[string]held
	for n := range t.ledger.Held() {
		if n.Reserves(a.Group()) {
			continue
		}
		h := held{by: n.Reservations()[0].By, amount: map[string]int64{}, free: t.room(n), closed: t.keptOff(a, n)}
		for _, r := range n.Reservations() {
			for dim, need := range r.App.Spec().Demand {
				h.amount[dim] += need * int64(r.Pods)
				h.free[dim] -= need * int64(r.Pods)
			}
		}
		if on == nil {
			on = map[string]held{}
		}
		on[n.Name()] = h
	}
	return on
}

// keptOff reports whether a pod of an app may stand on a node, but not beside the pods that
// room is reserved for there.
func (t *Translator) keptOff(a *ledger.AppEntry, n *ledger.Node) bool {
	own := constraintsOf(a.Group())
	for i := range own.pairs {
		p := &own.pairs[i]
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

// with is what is held after a pod of a demand came to the node, or with count -1 left it.
func (h held) with(demand map[string]int64, count int32) held {
	h.free = maps.Clone(h.free) // a copy of the check may share it
	for dim, need := range demand {
		h.free[dim] -= need * int64(count)
	}
	return h
}

// refuses returns why a pod of a demand does not fit beside the reservations, where it would
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

// Holds reports whether there is a reservation on a node.
func (t *Translator) Holds(nodeName string) bool {
	n := t.ledger.Node(nodeName)
	return n != nil && len(n.Reservations()) > 0
}

// demandOf is what a pod that a check is changed by takes.
func (t *Translator) demandOf(p *v1.Pod) map[string]int64 {
	if known := t.ledger.Pod(string(p.UID)); known != nil && known.Object == any(p) {
		return known.App().Spec().Demand
	}
	return t.demand(p)
}
