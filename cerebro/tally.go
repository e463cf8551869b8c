package cerebro

import (
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// tally integrates over virtual time during a replay.
type tally struct {
	last     float64 // time of the last step; NaN before the first
	from     float64 // integrals count from here
	used     []wide  // placed demand per dimension
	steps    int
	span     float64
	alloc    []float64 // integral, or sum over steps when there is no span
	perEvent bool
	sampleAt int
	events   int
	seen     int
	capacity []float64 // of a fixed fleet
	waiting  float64   // integral of the items that wait
	refused  int       // items that found no machine on arrival
}

// wide is a signed 128-bit sum: demands summed over a fleet may pass 2⁶².
type wide struct {
	hi int64
	lo uint64
}

func (w *wide) add(v int64) {
	lo := w.lo + uint64(v)
	carry := int64(0)
	if lo < w.lo {
		carry = 1
	}
	w.lo, w.hi = lo, w.hi+carry+v>>63
}

func (w *wide) float() float64 { return float64(w.hi)*(1<<63)*2 + float64(w.lo) }

func (t *tally) begin(r *Replayer, events []trace.Event) {
	dims := len(r.total)
	t.used = make([]wide, dims)
	t.alloc = make([]float64, dims)
	t.last = math.NaN()
	t.events = len(events)
	t.from = math.Inf(-1)
	if !math.IsNaN(r.trace.MeasureFrom) {
		t.from = r.trace.MeasureFrom
	}
	if len(events) > 0 {
		t.perEvent = events[len(events)-1].Time <= max(t.from, events[0].Time)
	}
	for m := range r.state.Size() {
		for _, e := range r.state.Contents(int32(m)) {
			for d, need := range r.trace.Instance.Apps[e.App].Demand {
				t.used[d].add(need * int64(e.Count))
			}
		}
	}
	if r.trace.Instance.Fleet == binpack.Fixed {
		t.capacity = make([]float64, dims)
		for _, ml := range r.trace.Instance.Machines {
			for d, c := range ml.Capacity {
				t.capacity[d] += float64(c) * float64(ml.Count)
			}
		}
	}
	r.run.out.PeakMachines = r.state.Active()
}

// advance accounts for the time up to an event, before the event.
func (t *tally) advance(r *Replayer, now float64) {
	t.seen++
	t.mark(r, now)
	t.reach(r, now)
	if math.IsNaN(t.last) {
		t.last = now
	}
	if t.perEvent && t.seen > 1 {
		t.step(r)
	}
	if n := r.run.opt.Samples; n > 0 && t.seen < t.events && t.seen*n/t.events > t.sampleAt {
		t.sampleAt = t.seen * n / t.events
		t.sample(r, now)
	}
}

// reach accounts for the time from the last step up to now.
func (t *tally) reach(r *Replayer, now float64) {
	if now > t.last && now > t.from {
		t.integrate(r, now, now-max(t.last, t.from))
	}
	if now > t.last {
		t.last = now
	}
}

// mark notes the sums at the marks before a time.
func (t *tally) mark(r *Replayer, before float64) {
	u := &r.run
	for len(u.out.Marks) < len(u.opt.Marks) && u.opt.Marks[len(u.out.Marks)] < before {
		t.reach(r, u.opt.Marks[len(u.out.Marks)])
		u.out.Marks = append(u.out.Marks, Mark{u.out.CostSeconds, t.waiting, t.refused, u.out.Preferring, u.out.GivenUp})
	}
}

func (t *tally) integrate(r *Replayer, now, dt float64) {
	out := &r.run.out
	out.MachineSeconds += float64(r.state.Active()) * dt
	for k, n := range r.state.Held() {
		out.CostSeconds += float64(n) * r.state.Kinds()[k].Cost * dt
	}
	r.run.mover.unfinished(r, now-dt, now, func(m int32, seconds float64) {
		out.MachineSeconds += seconds
		out.CostSeconds += r.state.Kinds()[r.state.KindOf(m)].Cost * seconds
	})
	t.span += dt
	t.waiting += float64(len(r.waiting)) * dt
	if r.run.opt.Brief {
		return
	}
	for d := range t.alloc {
		t.alloc[d] += t.rate(r, d) * dt
	}
}

func (t *tally) step(r *Replayer) {
	if r.run.opt.Brief {
		return
	}
	t.steps++
	for d := range t.alloc {
		t.alloc[d] += t.rate(r, d)
	}
}

// rate is the allocation rate of a dimension at this moment.
func (t *tally) rate(r *Replayer, d int) float64 {
	capacity := 0.0
	if t.capacity != nil {
		capacity = t.capacity[d]
	} else {
		for k, n := range r.state.Held() {
			capacity += float64(n) * float64(r.state.Kinds()[k].Capacity[d])
		}
	}
	if capacity == 0 {
		return 0
	}
	return t.used[d].float() / capacity
}

func (t *tally) sample(r *Replayer, now float64) {
	s := Sample{Time: now, Machines: r.state.Active(), Allocation: make([]float64, len(t.used))}
	for d := range s.Allocation {
		s.Allocation[d] = t.rate(r, d)
	}
	r.run.out.Series = append(r.run.out.Series, s)
}

// moved accounts for an item that was placed (sign 1) or removed (-1).
func (t *tally) moved(r *Replayer, app int32, sign int64) {
	r.run.out.PeakMachines = max(r.run.out.PeakMachines, r.state.Active())
	if r.run.opt.Brief && r.run.opt.Samples == 0 {
		return
	}
	for d, need := range r.trace.Instance.Apps[app].Demand {
		t.used[d].add(sign * need)
	}
}

func (t *tally) finish(r *Replayer) {
	if t.perEvent && t.seen > 0 {
		t.step(r)
	}
	out := &r.run.out
	for len(out.Marks) < len(r.run.opt.Marks) { // after the last event
		out.Marks = append(out.Marks, Mark{out.CostSeconds, t.waiting, t.refused, out.Preferring, out.GivenUp})
	}
	out.MeanAllocationRate = make([]float64, len(t.alloc))
	for d, sum := range t.alloc {
		switch {
		case t.span > 0:
			out.MeanAllocationRate[d] = sum / t.span
		case t.steps > 0:
			out.MeanAllocationRate[d] = sum / float64(t.steps)
		}
	}
	if r.run.opt.Samples > 0 && t.seen > 0 {
		t.sample(r, t.last)
	}
}
