// Package phase is a table of phases in order, each with the least time in it. The caller
// defines the object in phases and the reasons to move it forward or back: a new agent of the
// autoscaler, a placement policy on its way to a cluster.
package phase

import (
	"slices"
	"time"
)

// A Row is a phase and the least time in it before the next.
type Row[P comparable] struct {
	Phase P
	Dwell time.Duration
}

// A Table has phases in order, without duplicates.
type Table[P comparable] []Row[P]

// Index is the place of a phase; -1 = not in the table.
func (t Table[P]) Index(at P) int {
	return slices.IndexFunc(t, func(r Row[P]) bool { return r.Phase == at })
}

// Forward is the phase after one that has lasted for some time. ok is false before the end of
// the dwell time, and for the last phase and an unknown one.
func (t Table[P]) Forward(at P, lasted time.Duration) (next P, ok bool) {
	i := t.Index(at)
	if i < 0 || i == len(t)-1 || lasted < t[i].Dwell {
		return next, false
	}
	return t[i+1].Phase, true
}

// Back is the phase before one, at any time. ok is false for the first phase and an unknown one.
func (t Table[P]) Back(at P) (before P, ok bool) {
	i := t.Index(at)
	if i < 1 {
		return before, false
	}
	return t[i-1].Phase, true
}
