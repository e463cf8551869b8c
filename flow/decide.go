package flow

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Tuner proposes thresholds and judges them on arrivals that it draws from sizes.
type Tuner interface {
	// Propose returns thresholds for so many bands; it begins with the present ones, if any.
	Propose(s *Sizes, load float64, bands int, present Thresholds, seed uint64) (Thresholds, error)
	// Values returns J of each, lower is better, all on the same arrivals, which Propose with the same seed did
	// not see.
	Values(s *Sizes, load float64, seed uint64, sets ...Thresholds) []float64
}

// The guards of a decision.
const (
	LeastFlows = 250             // in the window
	LeastGain  = .01             // by which J must fall
	MostStep   = 4               // factor by which a threshold moves, unless the sizes changed
	LeastLast  = .01             // share of the bytes that are sent in the last band
	MostLoad   = .95             // load that thresholds are tuned for
	LeastWait  = 5 * time.Second // between decisions that were not held
)

// A Decider decides on thresholds. The zero value has no thresholds; set Bands and Tuner.
type Decider struct {
	Bands   int
	Tuner   Tuner
	Present Thresholds // active, nil = none
	Least   int64      // bytes of the first threshold; 0 = 1

	last    time.Time // of the last decision that was not held
	changes int       // of the window then
	count   uint64
}

// A Decision is new thresholds, or a hold with the active ones. Reason is for people. Present and Proposed are
// J if they were judged.
type Decision struct {
	Thresholds        Thresholds
	Hold              bool
	Reason            string
	Present, Proposed float64
}

func (d *Decider) hold(format string, args ...any) Decision {
	return Decision{Thresholds: d.Present, Hold: true, Reason: fmt.Sprintf(format, args...)}
}

// Decide proposes thresholds for the sizes of a window and a load, as a share of the link, and passes them through
// the guards. The load comes from the link's byte counter: that of a few hundred sizes is too uncertain.
func (d *Decider) Decide(now time.Time, w *Window, load float64) (Decision, error) {
	seen := w.Sizes()
	changed := d.Present != nil && w.Changes() != d.changes
	switch {
	case len(seen) < LeastFlows:
		return d.hold("%d flows seen, want %d", len(seen), LeastFlows), nil
	case !(load > 0) || math.IsInf(load, 0):
		return d.hold("load is %v", load), nil
	case d.Present != nil && !changed && now.Sub(d.last) < LeastWait:
		return d.hold("the last change was %s ago, want %s", now.Sub(d.last), LeastWait), nil
	}
	load = min(load, MostLoad)
	sizes, err := SampleSizes("window", seen)
	if err != nil {
		return Decision{}, err
	}
	d.count++
	proposed, err := d.Tuner.Propose(sizes, load, d.Bands, d.Present, d.count)
	if err != nil {
		return Decision{}, err
	}
	if !changed {
		proposed = limited(proposed, d.Present)
	}
	proposed = proposed.raised(d.Least)
	if err := proposed.Validate(); err != nil {
		return d.hold("proposed %s: %v", proposed, err), nil
	}
	if proposed.Equal(d.Present) {
		return d.hold("%s is still the best found", proposed), nil
	}
	first, _ := sizes.Capped(float64(proposed[len(proposed)-1]))
	if last := 1 - first/sizes.Mean(); last < LeastLast {
		return d.hold("proposed %s: the last band would have %.2g of the bytes, want %v", proposed, last, LeastLast), nil
	}
	values := d.Tuner.Values(sizes, load, d.count, d.Present, proposed)
	if !(values[1] <= values[0]*(1-LeastGain)) {
		h := d.hold("proposed %s: %.4f on held-back arrivals, %.4f now: want %v less", proposed, values[1], values[0], LeastGain)
		h.Present, h.Proposed = values[0], values[1]
		return h, nil
	}
	reason := fmt.Sprintf("%.4f on held-back arrivals, %.4f before", values[1], values[0])
	if changed {
		reason += "; the sizes have changed"
	}
	d.Present, d.last, d.changes = proposed, now, w.Changes()
	return Decision{Thresholds: proposed, Reason: reason, Present: values[0], Proposed: values[1]}, nil
}

// raised has no threshold below the least.
func (t Thresholds) raised(least int64) Thresholds {
	if len(t) == 0 || t[0] >= least {
		return t
	}
	t = slices.Clone(t)
	for i, v := range t {
		t[i] = max(v, least+int64(i))
	}
	return t
}

// limited moves each threshold by at most MostStep.
func limited(proposed, present Thresholds) Thresholds {
	if len(proposed) != len(present) {
		return proposed
	}
	t := make(Thresholds, len(proposed))
	for i, v := range proposed {
		t[i] = min(max(v, (present[i]+MostStep-1)/MostStep), present[i]*MostStep)
		if i > 0 && t[i] <= t[i-1] {
			t[i] = t[i-1] + 1
		}
	}
	return t
}
