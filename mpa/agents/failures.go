package agents

import (
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A learner answers failures with a lower limit. Where that does not help they have another
// cause, such as an outage of a service that the pod calls: then the limit goes back to what it
// was, and no window teaches anything until one does not fail, or until it is time to look again.

const (
	// blamedFor is the share of the limit that failed at which failures that go on are not its, or
	// half the share that was answered: of a pod that holds no more than those, that many fail.
	blamedFor = 1. / 8
	// blamedHalf is the share of the failures that a lower limit has to end.
	blamedHalf = .5
	// blamedMore is the factor of failures by another cause from which on they are looked at again.
	blamedMore = 2
	// blamedFew requests of all pods tell nothing of a share.
	blamedFew = 5
	// blamedAgain is after how long failures by another cause are looked at again; each time takes
	// twice as long as the one before, up to blamedLongest, and goes down to the smallest limit.
	blamedAgain   = time.Hour
	blamedLongest = 8 * time.Hour
)

// A blame is the first window of failures that have not become half as many since.
type blame struct {
	Time   time.Time `json:"time"`
	Limit  float64   `json:"limit"`  // 0 = nothing fails
	Lost   float64   `json:"lost"`   // share of the requests
	Failed float64   `json:"failed"` // requests of all pods, since then
}

// An otherCause is that of failures that a lower limit did not end.
type otherCause struct {
	Since time.Time `json:"since"`
	Lost  float64   `json:"lost"`  // share of the requests; 0 = there is none
	Limit int32     `json:"limit"` // that was held to blame
	Looks int       `json:"looks"` // how often that was looked at
}

func (c *otherCause) until() time.Time {
	return c.Since.Add(min(blamedLongest, blamedAgain<<min(c.Looks-1, 8)))
}

// teaches says whether the learner is to be told of a window.
func (a *Capacity) teaches(o *mpa.Observation, w *capacity.Window) bool {
	if !w.Limit.Known || w.Limit.Number == 0 || !w.Answered.Known {
		return true
	}
	n, lost, looks := w.Limit.Number, w.Lost(), 0
	if c := &a.other; c.Lost > 0 {
		if w.Failing() && lost <= blamedMore*c.Lost && w.Time.Before(c.until()) && !killedSince(o, w.Time) {
			return false
		}
		if w.Failing() {
			looks = c.Looks
		}
		*c = otherCause{Looks: looks}
	}
	b := &a.blamed
	if lost < blamedHalf*b.Lost {
		*b = blame{}
	}
	if b.Limit == 0 {
		if !w.Failing() {
			a.other.Looks = 0
			return true
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
		return k == 0 || !w.Failing() || !a.windows[k-1].Failing() || a.windows[k-1].Limit != w.Limit // else it is known
	}
	a.other = otherCause{w.Time, max(lost, b.Lost), int32(b.Limit), a.other.Looks + 1}
	begun := b.Time
	a.excuse(func(w *capacity.Window) bool { return !w.Time.Before(begun) })
	return false
}

// excuse makes the learner forget windows.
func (a *Capacity) excuse(which func(*capacity.Window) bool) {
	a.blamed = blame{}
	a.learn(slices.DeleteFunc(a.windows, func(w capacity.Window) bool { return which(&w) }))
}

// killedSince says whether a container ran out of memory in a window that ended then, in the one
// before, or later.
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
