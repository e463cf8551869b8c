package loadsim

import "math"

// period of the CFS bandwidth controller, in seconds.
const period = .1

// look is the interval at which the kernel checks whether a quota is spent: the tick of its timer,
// 250 a second. Overspending until then is deducted from the next period.
const look = .004

// A Pod serves jobs by processor sharing: each of n jobs gets the same share of the cores,
// and at most one core. With a quantum they take turns instead: as many as there are cores
// compute, each for a quantum at most, and the others wait in line. A quota of c cores
// works as in the CFS bandwidth controller: c · 100 ms in each period of 100 ms, then
// nothing until the next. Jobs beyond the workers wait first come, first served.
type Pod struct {
	// Settings; change them between Advance and [Engine.Update].
	Cores   float64 // in parallel at most
	Quota   float64 // cores on average; 0 = no quota
	Workers int     // jobs at the same time; 0 = any number
	Phase   float64 // when a period begins
	Quantum float64 // seconds of a turn; 0 = infinitely short ones
	Factor  float64 // of the cpu that its requests take; 0 = 1
	Slower  float64 // factor of the time that its requests wait for others; 0 = 1

	now      float64 // the time up to which the pod is advanced
	service  float64 // attained by each job in service since the pod began
	rate     float64 // of service per second
	work     eventHeap
	queue    fifo // waiting for a worker
	runnable fifo // waiting for their turn

	budget    float64 // core-seconds left in this period; below 0 a debt
	look      float64 // when the kernel next finds the quota spent, if it does
	throttled bool
	periodEnd float64

	busy   float64 // core-seconds spent since the pod began
	inside int     // jobs admitted and not done, waiting for I/O included
	served int64
}

// Advance serves up to a time. The caller stops at next, so no job finishes and no quota
// runs out before.
func (p *Pod) Advance(t float64) {
	if d := t - p.now; d > 0 {
		p.service += p.rate * d
		if spent := p.rate * float64(len(p.work)) * d; spent > 0 {
			p.busy += spent
			p.budget -= spent
		}
		p.now = t
	}
	switch {
	case p.Quota == 0:
	case t >= p.periodEnd:
		p.refill(t)
	case t >= p.look && p.budget <= tiny:
		p.throttled = true
	}
}

// refill starts the period that contains a time. A debt is paid off; an unused rest is
// lost.
func (p *Pod) refill(t float64) {
	n := math.Floor((t-p.Phase)/period + 1e-9)
	begin := p.Phase + n*period
	full := p.Quota * period
	since := max(0, p.rate*float64(len(p.work))*(t-begin))
	if p.periodEnd > 0 {
		full = min(full, p.budget+since+math.Round((begin-p.periodEnd)/period+1)*full)
	}
	p.budget = full - since
	p.periodEnd = begin + period
	p.throttled = p.budget <= tiny
}

// tiny core-seconds count as 0: a nanosecond, far above the rounding of long runs.
const tiny = 1e-9

// update computes the rate after a change.
func (p *Pod) update() {
	n := float64(len(p.work))
	switch {
	case n == 0 || p.throttled:
		p.rate = 0
	default:
		p.rate = min(1, p.Cores/n)
	}
}

// next returns the time of the pod's next event: a job finishes, or the kernel finds the
// quota spent or refills it.
func (p *Pod) next() float64 {
	if len(p.work) == 0 {
		return math.Inf(1)
	}
	if p.rate == 0 {
		return p.periodEnd
	}
	t := p.now + max(0, p.work[0].at-p.service)/p.rate
	if p.Quota > 0 {
		spending := p.rate * float64(len(p.work))
		p.look = math.Inf(1)
		if out := p.now + max(0, p.budget)/spending; out < p.periodEnd {
			p.look = p.Phase + (math.Ceil((out-p.Phase)/look-.5-1e-9)+.5)*look
			t = min(t, p.look)
		}
		if spending > p.Quota {
			t = min(t, p.periodEnd)
		}
	}
	return t
}

// slots returns how many jobs can have a turn at the same time.
func (p *Pod) slots() int { return max(1, int(p.Cores)) }

// full reports whether a job would have to wait.
func (p *Pod) full() bool { return p.Workers > 0 && p.inside >= p.Workers }

// Waiting returns the number of jobs in the queue.
func (p *Pod) Waiting() int { return p.queue.len() }

// Inside returns the number of jobs admitted and not done.
func (p *Pod) Inside() int { return p.inside }

// Served returns the number of jobs done since the pod began.
func (p *Pod) Served() int64 { return p.served }

// Busy returns the core-seconds spent up to the last event.
func (p *Pod) Busy() float64 { return p.busy }

// BusyAt returns the core-seconds spent up to a time before the next event.
func (p *Pod) BusyAt(t float64) float64 { return p.busy + p.rate*float64(len(p.work))*(t-p.now) }
