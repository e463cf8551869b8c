package sim

import "math"

// period of the CFS bandwidth controller, in seconds.
const period = .1

// look is how often the kernel looks whether a quota is spent: at its timer's ticks, 250
// a second. What is spent until then is taken from the next period.
const look = .004

// A pod serves jobs by processor sharing: of n jobs each gets the same share of the
// processor, and none more than one core. With a quantum they take turns instead: as
// many as there are cores compute, each for a quantum at most, and the others wait in
// line. A quota of c cores is spent as the CFS
// bandwidth controller does: c · 100 ms in each period of 100 ms, then nothing until
// the next. Jobs beyond the workers wait first come, first served.
type pod struct {
	// Settings; change them between advance and update.
	cores   float64 // in parallel at most
	quota   float64 // cores on average; 0 = no quota
	workers int     // jobs at the same time; 0 = any number
	phase   float64 // when a period begins
	quantum float64 // seconds of a turn; 0 = infinitely short ones

	now      float64 // up to which the pod is advanced
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

// advance serves up to a time. No job finishes and no quota runs out on the way: the
// caller stops at next.
func (p *pod) advance(t float64) {
	if d := t - p.now; d > 0 {
		p.service += p.rate * d
		if spent := p.rate * float64(len(p.work)) * d; spent > 0 {
			p.busy += spent
			p.budget -= spent
		}
		p.now = t
	}
	switch {
	case p.quota == 0:
	case t >= p.periodEnd:
		p.refill(t)
	case t >= p.look && p.budget <= tiny:
		p.throttled = true
	}
}

// refill begins the period that a time falls into. A debt is paid off, and what was
// left is lost.
func (p *pod) refill(t float64) {
	n := math.Floor((t-p.phase)/period + 1e-9)
	begin := p.phase + n*period
	full := p.quota * period
	since := max(0, p.rate*float64(len(p.work))*(t-begin))
	if p.periodEnd > 0 {
		full = min(full, p.budget+since+math.Round((begin-p.periodEnd)/period+1)*full)
	}
	p.budget = full - since
	p.periodEnd = begin + period
	p.throttled = p.budget <= tiny
}

// tiny core-seconds are nothing: a nanosecond, far above the rounding of long runs.
const tiny = 1e-9

// update computes the rate after a change.
func (p *pod) update() {
	n := float64(len(p.work))
	switch {
	case n == 0 || p.throttled:
		p.rate = 0
	default:
		p.rate = min(1, p.cores/n)
	}
}

// next is the time of the pod's next event: a job that finishes, a quota that is
// seen to be spent or begins anew.
func (p *pod) next() float64 {
	if len(p.work) == 0 {
		return math.Inf(1)
	}
	if p.rate == 0 {
		return p.periodEnd
	}
	t := p.now + max(0, p.work[0].at-p.service)/p.rate
	if p.quota > 0 {
		spending := p.rate * float64(len(p.work))
		p.look = math.Inf(1)
		if out := p.now + max(0, p.budget)/spending; out < p.periodEnd {
			p.look = p.phase + (math.Ceil((out-p.phase)/look-.5-1e-9)+.5)*look
			t = min(t, p.look)
		}
		if spending > p.quota {
			t = min(t, p.periodEnd)
		}
	}
	return t
}

// slots is how many jobs can have a turn at the same time.
func (p *pod) slots() int { return max(1, int(p.cores)) }

// full reports whether a job would have to wait.
func (p *pod) full() bool { return p.workers > 0 && p.inside >= p.workers }

// waiting is the number of jobs in the queue.
func (p *pod) waiting() int { return p.queue.len() }

// A fifo is a queue of jobs.
type fifo struct {
	list []int32 // from head on
	head int
}

func (f *fifo) len() int { return len(f.list) - f.head }

func (f *fifo) push(job int32) { f.list = append(f.list, job) }

func (f *fifo) pop() int32 {
	job := f.list[f.head]
	if f.head++; f.head > 64 && 2*f.head > len(f.list) {
		f.list = f.list[:copy(f.list, f.list[f.head:])]
		f.head = 0
	}
	return job
}

// An event of a job: at a time, or at an attained service.
type event struct {
	at     float64
	job    int32
	serial uint32 // of the job, to tell it from a later one in the same place
}

// eventHeap has the earliest event on top.
type eventHeap []event

func (h *eventHeap) push(e event) {
	s := append(*h, e)
	*h = s
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s[up].at <= e.at {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
}

func (h *eventHeap) pop() event {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].at < s[down].at {
			down++
		}
		if last.at <= s[down].at {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return top
}
