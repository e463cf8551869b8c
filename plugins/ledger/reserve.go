package ledger

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Reserved holds the reservations of an event.
type Reserved struct {
	Pods int32 `json:"pods"` // for which room is reserved from now on, or no longer
	// Until is the deadline, in seconds since 1970, and By the object that made the reservation; of
	// reserve.
	Until float64 `json:"until,omitempty"`
	By    string  `json:"by,omitempty"`
	// Reason is the reason for the end; of release.
	Reason string `json:"reason,omitempty"`
}

// The reasons for which reservations end. The removal of a node ends them without an event.
const (
	ReleaseTaken     = "taken"     // the pods run there
	ReleaseElsewhere = "elsewhere" // the workload has all its pods
	ReleaseNoRoom    = "no-room"   // the demand of the pods there grew, or the node shrank
	ReleaseCordoned  = "cordoned"
	ReleaseDeadline  = "deadline"
	ReleaseWithdrawn = "withdrawn" // the object that made it was deleted, changed or not enabled
	ReleaseRefused   = "refused"   // a rule, a taint or anti-affinity keeps the pods off
	ReleaseReplanned = "replanned" // the pods are replanned on other nodes
)

// A Reservation keeps room on a node for expected pods. For all others it counts as if pods
// of its app ran there; a pod of the app's group may take it.
type Reservation struct {
	App   *AppEntry
	Pods  int32
	Until float64
	By    string
}

// Reservations returns those on the node, by the names of their apps. They must not be changed.
func (n *Node) Reservations() []Reservation { return n.reserved }

// ReservedFor returns the reservation of an app, with no pods if there is none.
func (n *Node) ReservedFor(a *AppEntry) Reservation {
	if i, ok := n.reservation(a.name); ok {
		return n.reserved[i]
	}
	return Reservation{App: a}
}

// HasReservationFor reports whether a pod of a group may take a reservation on the node.
func (n *Node) HasReservationFor(g *Group) bool {
	return slices.ContainsFunc(n.reserved, func(r Reservation) bool { return r.App.group == g })
}

func (n *Node) reservation(app string) (at int, ok bool) {
	return slices.BinarySearchFunc(n.reserved, app, func(r Reservation, name string) int { return strings.Compare(r.App.name, name) })
}

// Reserved returns the number of pods of the app that room is reserved for.
func (a *AppEntry) Reserved() int { return a.reserved }

// HasReservations reports whether there are reservations.
func (l *cluster) HasReservations() bool { return len(l.held) > 0 }

// ReservedNodes returns the nodes with reservations, in no order.
func (l *cluster) ReservedNodes() iter.Seq[*Node] { return maps.Keys(l.held) }

// ReservedMachine returns the first machine by name, of those that take a pod of an app, that has room
// reserved for it; -1 if there is none.
func (l *columns) ReservedMachine(app int32, passed []int32) int32 {
	best := int32(-1)
	if len(l.held) == 0 {
		return best
	}
	l.Columns()
	for _, m := range passed {
		if l.own(app, m) && (best < 0 || l.NodeName(m) < l.NodeName(best)) {
			best = m
		}
	}
	return best
}

// own reports whether room is reserved on a machine for a pod of an app.
func (l *columns) own(app, m int32) bool {
	n := l.byIndex[m]
	return len(n.reserved) > 0 && n.HasReservationFor(l.appAt[app].group)
}

// allows reports whether the ledger's own model allows a pod of an app on a machine: it takes the
// place of its reservation, or is one more.
func (l *columns) allows(app, m int32) bool { return l.state.Fits(app, m) || l.own(app, m) }

// reserve keeps room for more pods. The last deadline of an app on a node counts.
func (l *Ledger) reserve(e *Event) error {
	n, at, err := l.placeOf(e)
	if err != nil {
		return err
	}
	if at == len(n.reserved) || n.reserved[at].App.name != e.App {
		n.reserved = slices.Insert(n.reserved, at, Reservation{App: l.apps[e.App]})
	}
	n.reserved[at].Until, n.reserved[at].By = e.Reserved.Until, e.Reserved.By
	l.keep(n, at, e.Reserved.Pods)
	return nil
}

// release ends reservations.
func (l *Ledger) release(e *Event) error {
	n, at, err := l.placeOf(e)
	if err != nil {
		return err
	}
	if _, ok := n.reservation(e.App); !ok || n.reserved[at].Pods < e.Reserved.Pods {
		return fmt.Errorf("app %q on node %q: fewer than %d pods are reserved", e.App, e.Node, e.Reserved.Pods)
	}
	l.keep(n, at, -e.Reserved.Pods)
	return nil
}

// placeOf returns the node of an event, and the position of its app among the reservations.
func (l *cluster) placeOf(e *Event) (n *Node, at int, err error) {
	n = l.machines[e.Node]
	switch {
	case n == nil:
		return nil, 0, fmt.Errorf("node %q is unknown", e.Node)
	case l.apps[e.App] == nil:
		return nil, 0, fmt.Errorf("app %q is unknown", e.App)
	case e.Reserved == nil:
		return nil, 0, errors.New("reserved is missing")
	case e.Reserved.Pods < 1 || e.Reserved.Pods > maxReserved:
		return nil, 0, fmt.Errorf("reserved.pods %d: want 1 to %d", e.Reserved.Pods, maxReserved)
	}
	at, _ = n.reservation(e.App)
	return n, at, nil
}

// maxReserved bounds the pods of an event: each is booked.
const maxReserved = 10_000

// keep changes the number of pods of a reservation. The columns have them as items.
func (l *Ledger) keep(n *Node, at int, by int32) {
	r := &n.reserved[at]
	r.Pods += by
	r.App.reserved += int(by)
	l.stale = true
	n.changes++
	if r.Pods == 0 {
		n.reserved = slices.Delete(n.reserved, at, at+1)
	}
	if l.held[n] = true; len(n.reserved) == 0 {
		delete(l.held, n)
	}
}
