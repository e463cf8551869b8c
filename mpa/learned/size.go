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
	calmSteps    = 2 // further steps down at a latency of 0, fewer the nearer it is to calm
	filledSpan   = 2 * time.Minute
	mostPods     = 1.6 // × work ÷ size + 1
	leastChange  = 1.11
	tells        = 1.15             // × work that was not asked for yet ÷ size + 1: pods at most
	surely       = .85              // of the largest demand of an hour, which has noise in it
	fewerNeed    = 1.1              // × the work for which fewer pods must be enough, where something other than cpu runs short
	calmScalings = 2                // changes of replicas in an hour, with which pods are made larger to be fewer
	floodMost    = 3                // × the need, while most requests are given up and pods are busy with them
	swungSpan    = 10 * time.Minute // between a shrink and a growth that takes it back
	swungMove    = 1.15             // of the demand, by which a swing is not the load's
	swungHold    = 45 * time.Minute // after two of them in an hour
)

// used returns the share of the error budget that is spent.
func (a *Agent) used() float64 {
	if a.s.Asked == 0 {
		return 0
	}
	return a.s.Late / a.s.Asked
}

// slack returns β with the addition for the error budget.
func (a *Agent) slack() float64 {
	b := a.s.Beta
	if a.unsure(a.now) {
		b = max(b, a.v[betaFirst])
	}
	return b * (1 + a.v[budgetGain]*min(2, max(0, a.used()-a.v[budgetFrom])))
}

// need returns the cores that some work needs on n pods. A pod with w cores of work gets
// w + β·√(w·u) + κ'·u: the noise around the mean causes queues (the square-root rule of
// staffing), and one request of the promised percentile alone needs u.
func (a *Agent) need(work float64, n int32, unit float64) float64 {
	b := a.slack()
	return work + b*math.Sqrt(work*unit*float64(n)) + min(1, a.v[kappa]*math.Sqrt(b/a.v[betaFirst]))*unit*float64(n)
}

// pods returns how many pods of a size some work needs. More pods do not help those that
// are smaller than one request needs, so that part is left to their size.
func (a *Agent) pods(work, size, unit float64) int32 {
	b := min(a.slack(), 2*a.v[betaFirst])
	n, most := a.target.Replicas.Min, a.most(work, size)
	for ; n < most; n++ {
		each := work / float64(n)
		if each+b*math.Sqrt(each*min(unit, size)) <= size {
			break
		}
	}
	return n
}

// most returns the largest number of pods of a size for some work. Work beyond the demand of
// the last hour counts without the room for noise.
func (a *Agent) most(work, size float64) int32 {
	work = max(tells*work/mostPods, min(work, a.s.Hour.most()))
	return min(a.target.Replicas.Max, mpa.Range{Min: 1, Max: math.MaxInt32}.Clamp(int32(min(1e6, mostPods*work/size+1))))
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
	// Only one percentile of the latencies is measured; the tail through it is taken as
	// exponential.
	forgiven := 1 - a.target.SLO.Percentile/100
	late := math.Pow(forgiven, min(4, 1/w.latency)-1)
	if w.lost > 1-answered {
		late += w.lost / forgiven
	}
	s.Late = budgetForget*s.Late + min(late, 1/forgiven)*w.rate
	s.Asked = budgetForget*s.Asked + w.rate
	switch {
	case w.latency > 1:
		// If demand was higher than planned, the slack was not too small.
		if now.Sub(s.Up)-time.Duration(w.age*float64(time.Second)) < a.span(upSeconds) || s.Filled.most() > 1.05 {
			return
		}
		if s.Vain == 0 {
			s.Before = s.Beta
		}
		s.Beta, s.Up = min(a.v[betaMost], s.Beta*a.v[betaUp]), now
		// After a peak its backlog is late, whatever the rate.
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

// shape returns the number of pods, the factor for their cpu, and the reason.
func (a *Agent) shape(o *mpa.Observation, w *workload, work float64) (replicas int32, factor float64, why string) {
	s, n := &a.s, o.Replicas
	have := w.size * float64(n)
	stuck := len(s.CPU) >= cpuGrow || waiting(o) || !s.Wants.IsZero() && o.Time.Sub(s.Wants) > patience
	high := max(work, s.Held.most())
	needed := a.fewest(o.Time, high)
	fewest := min(needed, max(n, a.target.Replicas.Min, int32(min(1e6, math.Ceil(mostPods*surely*s.Hour.most()/w.size+1)))))
	stay := min(n, a.fewest(o.Time, fewerNeed*high))
	flood := a.flood(o.Time, w)
	fits := max(stay, a.pods(high*a.v[spare], w.size, w.unit))
	mayShrink := len(s.CPU) < cpuShrink && !waiting(o)
	calm := w.lost <= 1-answered && !a.swung(o.Time)
	if n < fewest {
		return fewest, 1, "more pods: something other than cpu runs short"
	}
	if needed > n && len(s.CPU) < cpuGrow && !waiting(o) && !a.swung(o.Time) {
		// Pods of this size are as many as they may be.
		least := a.need(work, n, w.unit) / have
		if f := max(.5, least); f < .9 && a.target.MayHave(w.size*f) {
			s.Shrunk = sample{o.Time, w.demand}
			return n, f, "smaller pods, to be more: something other than cpu runs short"
		}
	}
	if need := a.need(work, n, w.unit) * flood; need > have {
		f := max(need*a.v[spare]/have, leastChange)
		if !s.Shrunk.Time.IsZero() && o.Time.Sub(s.Shrunk.Time) < swungSpan && w.demand <= swungMove*s.Shrunk.Value {
			s.Swung, s.Shrunk = append(s.Swung, o.Time), sample{}
		}
		more := max(n, a.pods(work*a.v[spare], w.size, w.unit))
		if s.Wants.IsZero() {
			s.Wants = o.Time
		}
		switch {
		case !stuck && f <= a.v[growMost] && a.target.MayHave(w.size*f):
			return n, f, "larger pods"
		case more > n:
			return more, 1, "more pods"
		case !waiting(o) && a.target.MayHave(w.size*min(f, a.v[growMost])):
			return n, min(f, a.v[growMost]), "larger pods: one request alone needs them"
		}
		return n, 1, "no larger pods are allowed"
	}
	s.Wants = time.Time{}
	target := a.need(high, n, w.unit) * a.v[spare]
	switch {
	case o.Time.Sub(s.Begun) < a.span(holdSeconds):
		return n, 1, "still learning"
	case !calm:
		return n, 1, "enough"
	case fits < n && float64(fits) <= a.v[fewerShare]*float64(n) && len(s.Scaled) < scaleShrink:
		s.Shrunk = sample{o.Time, w.demand}
		return fits, 1, "fewer pods"
	case target < a.v[lessShare]*have && mayShrink && a.target.MayHave(target/float64(n)):
		s.Shrunk = sample{o.Time, w.demand}
		return n, target / have, "smaller pods"
	case n > stay && len(s.Scaled) < calmScalings && o.Time.Sub(s.Changed) >= a.span(fewerSeconds) && !stuck:
		// One pod less, whose work the others take.
		f := max(a.need(high, n-1, w.unit)*a.v[spare]/(w.size*float64(n-1)), leastChange)
		if f <= a.v[growMost] && a.target.MayHave(w.size*f) && a.need(high, n-1, w.unit) < have {
			return n, f, "larger pods, to be fewer"
		}
	}
	return n, 1, "enough"
}

// flood returns the factor for the need while most requests are not answered and the pods are
// busy: it covers requests that were given up and are retried. It rises by 1 in a minute.
func (a *Agent) flood(now time.Time, w *workload) float64 {
	s := &a.s
	if w.lost <= .5 {
		s.Lost = time.Time{}
		return 1
	}
	if s.Lost.IsZero() {
		s.Lost = now
	}
	if w.cores <= busyFull*w.size*w.ready {
		return 1
	}
	return min(floodMost, 1+now.Sub(s.Lost).Minutes())
}

// swung reports whether a shrink had to be undone shortly before, at the same demand.
func (a *Agent) swung(now time.Time) bool {
	n := len(a.s.Swung)
	if n == 0 {
		return false
	}
	hold := swungSpan
	if n > 1 {
		hold = swungHold
	}
	return now.Sub(a.s.Swung[n-1]) < hold
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
