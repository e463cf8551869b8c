package learned

import (
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

const (
	budgetForget = .9985 // a step: 2.8 h of 15 s
	vainSteps    = 3     // steps up that did not help, before something other than cpu is short
	afterPeak    = .8    // of the largest demand of 10 min
	shortHold    = time.Hour
	calmSteps    = 2 // steps down more where latency is nothing, fewer the nearer it is to calm
	filledSpan   = 2 * time.Minute
	mostPods     = 1.6 // × work ÷ size + 1
	leastChange  = 1.11
)

// used returns the share of the error budget that is spent.
func (a *Agent) used() float64 {
	if a.s.Asked == 0 {
		return 0
	}
	return a.s.Late / a.s.Asked
}

// slack returns β with what the error budget adds.
func (a *Agent) slack() float64 {
	return a.s.Beta * (1 + a.v[budgetGain]*min(2, max(0, a.used()-a.v[budgetFrom])))
}

// need returns the cores that some work needs on n pods. A pod with w cores of work gets
// w + β·√(w·u) + κ'·u: queues come from the noise around the mean (the square-root rule of
// staffing), and one request of the promised percentile alone needs u.
func (a *Agent) need(work float64, n int32, unit float64) float64 {
	b := a.slack()
	return work + b*math.Sqrt(work*unit*float64(n)) + min(1, a.v[kappa]*math.Sqrt(b/a.v[betaFirst]))*unit*float64(n)
}

// pods returns how many pods of a size some work needs. More pods do not help those that
// are smaller than one request needs, so that part is left to their size.
func (a *Agent) pods(work, size, unit float64) int32 {
	b := min(a.slack(), 2*a.v[betaFirst])
	n, most := a.target.Replicas.Min, min(a.target.Replicas.Max, mpa.Range{Min: 1, Max: math.MaxInt32}.Clamp(int32(min(1e6, mostPods*work/size+1))))
	for ; n < most; n++ {
		each := work / float64(n)
		if each+b*math.Sqrt(each*min(unit, size)) <= size {
			break
		}
	}
	return n
}

// steer adapts the slack to the latency and to the error budget.
func (a *Agent) steer(o *mpa.Observation, w *workload) {
	s, now := &a.s, o.Time
	have := w.size * w.ready
	filled := a.need(w.demand, int32(w.ready), w.unit) / have
	s.Filled.add(now, filled, filledSpan)
	s.Empty.add(now, -filled, filledSpan)
	if w.latency == 0 || w.rate == 0 {
		return
	}
	// Of the latencies one percentile is known; the tail through it is taken as exponential.
	forgiven := 1 - a.target.SLO.Percentile/100
	late := math.Pow(forgiven, min(4, 1/w.latency)-1)
	if w.lost > 1-answered {
		late += w.lost / forgiven
	}
	s.Late = budgetForget*s.Late + min(late, 1/forgiven)*w.rate
	s.Asked = budgetForget*s.Asked + w.rate
	switch {
	case w.latency > 1:
		// Where demand was higher than planned, the slack was not too small.
		if now.Sub(s.Up) < a.span(upSeconds) || s.Filled.most() > 1.05 {
			return
		}
		if s.Vain == 0 {
			s.Before = s.Beta
		}
		s.Beta, s.Up = min(a.v[betaMost], s.Beta*a.v[betaUp]), now
		// After a peak its backlog is late, at a rate that explains nothing.
		if s.Vain++; s.Vain > vainSteps && w.cores < a.v[shortBusy]*have && int32(w.ready) == o.Replicas && w.demand > afterPeak*s.Ten.most() {
			s.Short, s.ShortUntil, s.Vain = w.rate/w.ready*a.v[shortShare], now.Add(shortHold), 0
			s.Beta = s.Before // more of it did not help
		}
	default:
		s.Vain = 0
		calm := a.v[calmShare] + .1*max(0, 1-a.used())
		if w.latency < min(.98, calm) && now.Sub(s.Down) >= a.span(downSeconds) && now.Sub(s.Up) >= a.span(downSeconds) && -s.Empty.most() > .7 {
			steps := 1 + calmSteps*(1-w.latency/min(.98, calm))
			s.Beta, s.Down = max(a.v[betaLeast], s.Beta*math.Pow(a.v[betaDown], steps)), now
		}
	}
}

// shape returns the number of pods, the factor for their cpu, and why.
func (a *Agent) shape(o *mpa.Observation, w *workload, work float64) (replicas int32, factor float64, why string) {
	s, n := &a.s, o.Replicas
	have := w.size * float64(n)
	stuck := len(s.CPU) >= cpuGrow || waiting(o) || !s.Wants.IsZero() && o.Time.Sub(s.Wants) > patience
	high := max(work, s.Held.most())
	fewest := a.fewest(o.Time, high)
	fits := max(fewest, a.pods(high*a.v[spare], w.size, w.unit))
	mayShrink := len(s.CPU) < cpuShrink && !waiting(o)
	if n < fewest {
		return fewest, 1, "more pods: something other than cpu runs short"
	}
	if need := a.need(work, n, w.unit); need > have {
		f := max(need*a.v[spare]/have, leastChange)
		more := max(n, a.pods(work*a.v[spare], w.size, w.unit))
		if s.Wants.IsZero() {
			s.Wants = o.Time
		}
		switch {
		case !stuck && f <= a.v[growMost] && a.target.MayHave(w.size*f):
			return n, f, "larger pods"
		case more > n:
			return more, 1, "more pods"
		case len(s.CPU) < cpuGrow && a.target.MayHave(w.size*min(f, a.v[growMost])):
			return n, min(f, a.v[growMost]), "larger pods: one request alone needs them"
		}
		return n, 1, "no larger pods are allowed"
	}
	s.Wants = time.Time{}
	target := a.need(high, n, w.unit) * a.v[spare]
	switch {
	case o.Time.Sub(s.Begun) < a.span(holdSeconds):
		return n, 1, "still learning"
	case fits < n && float64(fits) <= a.v[fewerShare]*float64(n) && len(s.Scaled) < scaleShrink:
		return fits, 1, "fewer pods"
	case target < a.v[lessShare]*have && mayShrink && a.target.MayHave(target/float64(n)):
		return n, target / have, "smaller pods"
	case n > fewest && o.Time.Sub(s.Changed) >= a.span(fewerSeconds) && !stuck:
		// One pod less, whose work the others take.
		f := max(a.need(high, n-1, w.unit)*a.v[spare]/(w.size*float64(n-1)), leastChange)
		if f <= a.v[growMost] && a.target.MayHave(w.size*f) && a.need(high, n-1, w.unit) < have {
			return n, f, "larger pods, to be fewer"
		}
	}
	return n, 1, "enough"
}

// fewest returns the least number of pods for some work.
func (a *Agent) fewest(now time.Time, work float64) int32 {
	bounds := a.target.Replicas
	if a.s.Short == 0 || a.s.Cost == 0 || now.After(a.s.ShortUntil) {
		return bounds.Min
	}
	return bounds.Clamp(int32(min(1e6, math.Ceil(work/a.s.Cost/a.s.Short))))
}

// waiting reports whether a resize waits for room on its node.
func waiting(o *mpa.Observation) bool {
	for i := range o.Pods {
		if p := &o.Pods[i]; !p.Deleting && (p.Resize == mpa.Deferred || p.Resize == mpa.Infeasible) {
			return true
		}
	}
	return false
}
