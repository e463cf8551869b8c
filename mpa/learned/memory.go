package learned

import (
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// memory of a container over all pods.
type memory struct {
	Peaks mpa.Peaks `json:"peaks,omitempty"`
	// Low has maxima of the negative of the leanest pod's bytes, of an hour.
	Low maxima `json:"low,omitempty"`
	// Needed is the memory that containers had that ran out of it.
	Needed mpa.Peaks `json:"needed,omitempty"`
	// First is the first request of pods, in bytes.
	First int64 `json:"first,omitempty"`
	// Killed is the last kill that was counted.
	Killed time.Time `json:"killed,omitzero"`
}

const (
	memoryLess = .85              // of the present memory, below which it shrinks
	memoryRest = 30 * time.Minute // between a change of memory and one that shrinks it
	mostGrowth = 3                // of the work of a pod, that its memory prepares for
)

// seeMemory adds the memory of an observation. A container that ran out of memory used more
// than it had.
func (a *Agent) seeMemory(o *mpa.Observation, requests []mpa.Resources) {
	for i := range a.s.Memory {
		m, name := &a.s.Memory[i], a.target.Containers[i].Name
		most, needed, least := int64(0), int64(0), int64(math.MaxInt64)
		for j := range o.Pods {
			p := &o.Pods[j]
			if p.Deleting || p.Phase == mpa.Ended {
				continue
			}
			for k := range p.Containers {
				c := &p.Containers[k]
				if c.Name != name {
					continue
				}
				if c.Usage.Known(o.Time, maxAge) {
					most, least = max(most, c.Usage.Memory), min(least, c.Usage.Memory)
				}
				// Kills from before this agent began do not concern the present size.
				if c.Killed.After(m.Killed) && c.Killed.After(a.s.Begun.Add(-maxAge)) {
					m.Killed = c.Killed
					most, needed = max(most, c.Request.Memory), max(needed, c.Request.Memory)
				}
			}
		}
		if m.First == 0 {
			m.First = requests[i].Memory
		}
		m.Peaks.Add(o.Time, most, day)
		m.Needed.Add(o.Time, needed, day)
		if least != math.MaxInt64 {
			m.Low.add(o.Time, -float64(least), time.Hour)
		}
	}
}

// killed reports whether a container ran out of memory a short while ago.
func (a *Agent) killed(o *mpa.Observation) bool {
	for i := range a.s.Memory {
		if (mpa.Metric{Time: a.s.Memory[i].Killed}).Known(o.Time, maxAge) {
			return true
		}
	}
	return false
}

// growth returns the factor by which the work of a pod grows beyond that of the last hour,
// and remembers the present one.
func (a *Agent) growth(work float64, n int32) float64 {
	s := &a.s
	if len(s.Recent) == 0 {
		return 1
	}
	last := s.Recent[len(s.Recent)-1]
	s.Work.add(last.Time, last.Value/float64(max(1, s.Replicas)), time.Hour)
	if most := s.Work.most(); most > 0 {
		return min(mostGrowth, max(1, work/float64(max(1, n))/most))
	}
	return 1
}

// memoryFor returns the bytes that each container should have where the work of a pod grows
// by a factor; nil = as they are.
func (a *Agent) memoryFor(o *mpa.Observation, requests []mpa.Resources, growth float64) []int64 {
	s := &a.s
	out := make([]int64, len(requests))
	changes, grows := false, false
	for i := range requests {
		m, now := &s.Memory[i], requests[i].Memory
		out[i] = now
		peak, needed := float64(m.Peaks.Max()), float64(m.Needed.Max())*a.v[memoryKill]
		if peak == 0 || !a.target.Containers[i].Memory {
			continue
		}
		if needed > 0 {
			peak = min(peak, needed/a.v[memoryMargin]) // memory in use at a kill swayed no further
		}
		sway := max(0, peak+m.Low.most()) // Low is negative
		margin := max((a.v[memoryMargin]-1)*peak, a.v[memorySway]*sway*math.Pow(growth, a.v[memoryGrowth]))
		want := mpa.Amount(max(peak+margin, needed))
		least := int64(0)
		if o.Time.Sub(s.Begun) < day {
			least = mpa.Scale(m.First, a.v[memoryStart])
		}
		switch {
		case max(peak+a.v[memoryTight]*margin, needed) > float64(now):
			out[i], changes, grows = want, true, true
		case o.Time.Sub(s.Begun) >= a.span(memoryWait) && max(want, least) < mpa.Scale(now, memoryLess):
			out[i], changes = max(want, least), true
		}
	}
	rests := len(s.Other) > 0 && o.Time.Sub(s.Other[len(s.Other)-1]) < memoryRest
	if !changes || !grows && (rests || len(s.Other) >= otherShrink) {
		return nil
	}
	return out
}
