package agents

import (
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A learner answers failures with a lower limit. If they end, the limit before is tried again
// some minutes later. If a lower limit does not help they have another cause, such as an
// outage of a service that the pod calls: then the limit returns to its former value, and no
// window is learned from until one does not fail, or until the next check is due.

const (
	// blamedFor is the share of the failed limit at which continuing failures are no longer
	// blamed on the limit, or half the share that was answered: a pod that holds only those
	// loses that many.
	blamedFor = 1. / 8
	// blamedHalf is the share of the failures that a lower limit has to end.
	blamedHalf = .5
	// blamedMore is the factor of failures by another cause from which on they are checked
	// again.
	blamedMore = 2
	// blamedFew is the number of failed requests of all pods below which their share is not
	// significant.
	blamedFew = 5
	// blamedAgain is the wait before failures by another cause are checked again, down to the
	// smallest limit; it doubles each time, up to blamedLongest.
	blamedAgain   = time.Hour
	blamedLongest = 8 * time.Hour
	// doubtFirst is the wait before a limit that failed is tried again when a lower one does
	// not fail; each time that it soon fails again multiplies the wait by doubtMore.
	doubtFirst = 4 * time.Minute
	doubtMore  = 3
)

// A blame records the first failing window; it is cleared when the share of failures halves.
type blame struct {
	Time   time.Time `json:"time"`
	Limit  float64   `json:"limit"`  // 0 = no failures
	Lost   float64   `json:"lost"`   // share of the requests
	Failed float64   `json:"failed"` // requests of all pods, since then
}

// An otherCause records failures that a lower limit did not end.
type otherCause struct {
	Since time.Time `json:"since"`
	Lost  float64   `json:"lost"`  // share of the requests; 0 = no other cause
	Limit int32     `json:"limit"` // that was blamed
	Looks int       `json:"looks"` // number of checks
}

func (c *otherCause) until() time.Time {
	return c.Since.Add(min(blamedLongest, blamedAgain<<min(c.Looks-1, 8)))
}

// A doubt is about failures that ended while the limit was lower: it ended them, or they ended by
// themselves. The limit before is tried again; if it soon fails again, the next wait is longer.
type doubt struct {
	Limit float64   `json:"limit"` // that failed; 0 = there is no doubt
	Lost  float64   `json:"lost"`  // share of the requests
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended,omitzero"`
	Calm  float64   `json:"calm,omitempty"`  // the limit of the last window that did not fail
	Tried time.Time `json:"tried,omitzero"`  // again; zero = not yet
	Tries int       `json:"tries,omitempty"` // that failed soon
}

// end begins a doubt, or continues the present one.
func (d *doubt) end(b *blame, now time.Time) {
	if d.Limit == 0 {
		d.Begun = b.Time
	}
	d.Limit, d.Lost, d.Ended, d.Calm, d.Tried = max(d.Limit, b.Limit), max(d.Lost, b.Lost), now, 0, time.Time{}
}

func (d *doubt) wait() time.Duration {
	wait := doubtFirst
	for range min(d.Tries, 8) {
		wait *= doubtMore
	}
	return wait
}

// calm notes a window that does not fail, and tries the limit before again when due.
func (a *Capacity) calm(w *capacity.Window) {
	d := &a.doubt
	d.Calm = w.Limit.Number
	if d.Limit == 0 || !d.Tried.IsZero() || w.Time.Before(d.Ended.Add(d.wait())) {
		return
	}
	d.Tried = w.Time
	a.excuseSince(d.Begun)
}

// again judges failures that begin anew. It reports whether they are of another cause: they began
// at the same lower limit that the last ones ended at.
func (a *Capacity) again(w *capacity.Window, lost float64) bool {
	d := &a.doubt
	switch {
	case d.Limit == 0:
	case d.Tried.IsZero() && w.Limit.Number == d.Calm:
		a.other = otherCause{w.Time, max(lost, d.Lost), int32(d.Limit), a.other.Looks + 1}
		a.excuseSince(d.Begun)
		a.doubt = doubt{}
		return true
	case !d.Tried.IsZero() && w.Time.Before(d.Tried.Add(d.wait())):
		d.Tries++
	case !d.Tried.IsZero():
		a.doubt = doubt{}
	}
	return false
}

// teaches reports whether the learner is to use a window.
func (a *Capacity) teaches(o *mpa.Observation, w *capacity.Window) bool {
	if !w.Limit.Known || w.Limit.Number == 0 || !w.Answered.Known {
		return true
	}
	n, lost, looks := w.Limit.Number, w.Lost(), 0
	if c := &a.other; c.Lost > 0 {
		if lost <= blamedMore*c.Lost && w.Time.Before(c.until()) && !killedSince(o, w.Time) {
			return !w.Failing() // failures may be intermittent
		}
		if w.Failing() {
			looks = c.Looks
		}
		*c = otherCause{Looks: looks}
	}
	b := &a.blamed
	if lost < blamedHalf*b.Lost {
		if n < b.Limit && !killedSince(o, b.Time) {
			a.doubt.end(b, w.Time)
		}
		*b = blame{}
	}
	if b.Limit == 0 {
		if !w.Failing() {
			if a.calm(w); a.doubt.Limit == 0 {
				a.other.Looks = 0
			}
			return true
		}
		if a.again(w, lost) {
			return false
		}
		*b = blame{Time: w.Time, Limit: n, Lost: lost}
	}
	b.Failed += w.Failed.Number * float64(a.pods)
	lowest := float64(a.settings.Min)
	if a.other.Looks == 0 {
		lowest = max(lowest, math.Ceil(b.Limit*min(blamedFor, (1-b.Lost)/2)))
	}
	if n > lowest || b.Failed < blamedFew || killedSince(o, b.Time) {
		k := len(a.windows)
		return k == 0 || !w.Failing() || !a.windows[k-1].Failing() || a.windows[k-1].Limit != w.Limit // else it is a repetition
	}
	begun := b.Time
	if a.doubt.Limit > 0 {
		begun = a.doubt.Begun
	}
	a.other, a.doubt = otherCause{w.Time, max(lost, b.Lost, a.doubt.Lost), int32(max(b.Limit, a.doubt.Limit)), a.other.Looks + 1}, doubt{}
	a.excuseSince(begun)
	return false
}

// excuseSince makes the learner forget all windows since failures began, and makes Limits forget its
// withdrawals of that time.
func (a *Capacity) excuseSince(begun time.Time) {
	a.pardoned = begun
	a.excuse(func(w *capacity.Window) bool { return !w.Time.Before(begun) })
}

// excused reports whether the last window failed by another cause.
func (a *Capacity) excused() bool { return a.other.Lost > 0 && a.last != nil && a.last.Failing() }

// excuse makes the learner forget windows.
func (a *Capacity) excuse(which func(*capacity.Window) bool) {
	a.blamed = blame{}
	a.learn(slices.DeleteFunc(a.windows, func(w capacity.Window) bool { return which(&w) }))
}

// killedSince reports whether a container ran out of memory in a window that ended then, in
// the one before, or later.
func killedSince(o *mpa.Observation, end time.Time) bool {
	for i := range o.Pods {
		for _, c := range o.Pods[i].Containers {
			if c.Killed.After(end.Add(-2*capacityWindow)) && !c.Killed.After(o.Time) {
				return true
			}
		}
	}
	return false
}
