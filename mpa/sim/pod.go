package sim

import "math"

// period of the CFS bandwidth controller, in seconds.
const period = .1

// A pod serves jobs by processor sharing: of n jobs each gets the same share of the
// processor, and none more than one core. A quota of c cores is spent as the CFS
// bandwidth controller does: c · 100 ms in each period of 100 ms, then nothing until
// the next. Jobs beyond the workers wait first come, first served.
type pod struct {
	// Settings; change them between advance and update.
	cores   float64 // in parallel at most
	quota   float64 // cores on average; 0 = no quota
	workers int     // jobs at the same time; 0 = any number

	now     float64 // up to which the pod is advanced
	service float64 // attained by each job in service since the pod began
	rate    float64 // of service per second
	work    eventHeap
	queue   []int32 // waiting, from head on
	head    int

	budget    float64 // core-seconds left in this period
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
	if p.quota > 0 && t >= p.periodEnd {
		p.periodEnd = (math.Floor(t/period+1e-9) + 1) * period
		p.budget = p.quota * period
	}
}

// tiny core-seconds are nothing: a nanosecond, far above the rounding of long runs.
const tiny = 1e-9

// update computes the rate after a change.
func (p *pod) update() {
	n := float64(len(p.work))
	switch {
	case n == 0:
		p.rate = 0
	case p.quota > 0 && p.budget <= tiny:
		p.rate = 0
	default:
		p.rate = min(1, p.cores/n)
	}
}

// next is the time of the pod's next event: a job that finishes, a quota that is
// spent or begins anew.
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
		if spending > p.quota {
			t = min(t, p.now+p.budget/spending, p.periodEnd)
		}
	}
	return t
}

// start puts a job into service.
func (p *pod) start(job int32, demand float64) {
	p.work.push(event{at: p.service + demand, job: job})
}

// full reports whether a job would have to wait.
func (p *pod) full() bool { return p.workers > 0 && p.inside >= p.workers }

// waiting is the number of jobs in the queue.
func (p *pod) waiting() int { return len(p.queue) - p.head }

func (p *pod) enqueue(job int32) { p.queue = append(p.queue, job) }

func (p *pod) dequeue() int32 {
	job := p.queue[p.head]
	if p.head++; p.head > 64 && 2*p.head > len(p.queue) {
		p.queue = p.queue[:copy(p.queue, p.queue[p.head:])]
		p.head = 0
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
