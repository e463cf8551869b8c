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
// was, and no window teaches anything until one does not fail.

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
)

// A blame is the first window of failures that have not become half as many since.
type blame struct {
	Time  time.Time `json:"time"`
	Limit float64   `json:"limit"` // 0 = nothing fails
	Lost  float64   `json:"lost"`  // share of the requests
}

// teaches says whether the learner is to be told of a window.
func (a *Capacity) teaches(o *mpa.Observation, w *capacity.Window) bool {
	if !w.Limit.Known || w.Limit.Number == 0 {
		return true
	}
	n, lost := w.Limit.Number, w.Lost()
	if a.other > 0 {
		if w.Failing() && lost <= blamedMore*a.other && !killedSince(o, w.Time) {
			return false
		}
		a.other = 0
	}
	if lost < blamedHalf*a.blamed.Lost {
		a.blamed = blame{}
	}
	if a.blamed.Limit == 0 && w.Failing() {
		a.blamed = blame{w.Time, n, lost}
	}
	b := a.blamed
	lowest := max(math.Ceil(b.Limit*min(blamedFor, (1-b.Lost)/2)), float64(a.settings.Min))
	if b.Limit == 0 || n > lowest || w.Failed.Number*float64(a.pods) < blamedFew || killedSince(o, b.Time) {
		return true
	}
	a.other = max(lost, b.Lost)
	a.excuse(func(w *capacity.Window) bool { return !w.Time.Before(b.Time) })
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
			if c.Killed.After(end.Add(-2 * capacityWindow)) {
				return true
			}
		}
	}
	return false
}
