package loadsim

import (
	"math"
	"math/rand/v2"
	"slices"
)

// An Engine moves requests through pods, independently of metrics and autoscaling.
type Engine struct {
	service *Service // prepared
	rng     *rand.Rand
	now     float64

	rate    Arrivals
	perSec  float64
	until   float64
	arrival float64

	jobs  []job
	free  []int32
	pods  []*Pod    // by slot; nil = no pod
	next  []float64 // [slot] time of the next event; as many as a power of 2
	tree  []int32   // [1] is the slot with the earliest event; see schedule
	ready []int32   // slots that take requests

	// script, if set, replaces the arrivals at a rate; scripted is the next of it, and took
	// has the latencies.
	script   []Request
	scripted int32
	took     []float64

	front fifo // requests before all pods
	// inside and waiting requests, and since when they are counted.
	inside, waiting float64
	counted         float64

	delays   eventHeap
	timeouts []event // in order of time: all have the same length
	timeHead int

	// Answered and Failed are called at the end of requests, when set.
	Answered func(latency float64)
	Failed   func()

	count Counters
	// Window, when set, and All have the latencies of answers since they were set.
	Window *Latencies
	All    Latencies
}

// Counters of requests. Arrived = Served + Failed + those under way.
type Counters struct {
	Arrived int64 // new requests, tries not counted
	Served  int64 // answered before their client gave up
	Late    int64 // of those, with a latency above [Service].Late
	Failed  int64 // given up: by their client, refused, or lost with a pod
	Tries   int64
	Refused int64   // tries that found no pod or a full queue
	Lost    int64   // tries that were in a pod that died
	Waited  float64 // seconds in queues, of all tries that left one for service
	// Sums over time of the requests in pods, and of those in queues whose clients wait.
	InsideSeconds, WaitingSeconds float64
}

// New returns an engine without pods at second 0. The service must be prepared.
func New(service *Service, seed uint64, rate Arrivals) *Engine {
	e := &Engine{service: service, rng: rand.New(rand.NewPCG(seed, 0)), rate: rate}
	e.newRate(0)
	for range service.Clients {
		e.think(0)
	}
	return e
}

// Open adds a pod, which takes requests from now on, and returns its slot.
func (e *Engine) Open(p *Pod) int32 {
	slot := int32(slices.Index(e.pods, nil))
	if slot < 0 {
		slot = int32(len(e.pods))
		e.grow()
	}
	e.pods[slot] = p
	if e.script == nil && p.Quota > 0 && p.periodEnd == 0 {
		// The kernel starts the periods of each group at a different time.
		p.Phase = period * e.rng.Float64()
	}
	p.Advance(e.now)
	e.ready = append(e.ready, slot)
	e.Update(slot)
	e.pull(slot)
	return slot
}

// Limit changes how many requests a pod works on at once, 0 = any number. Those above a
// smaller limit stay until they end.
func (e *Engine) Limit(slot int32, n int) {
	e.pods[slot].Workers = n
	e.pull(slot)
}

// Close stops sending requests to a pod.
func (e *Engine) Close(slot int32) {
	if i := slices.Index(e.ready, slot); i >= 0 {
		e.ready = slices.Delete(e.ready, i, i+1)
	}
}

// Forget frees the slot of a pod that is closed and empty.
func (e *Engine) Forget(slot int32) {
	e.pods[slot] = nil
	e.schedule(int(slot), math.Inf(1))
}

// Run handles all events before a time and stops at it.
func (e *Engine) Run(to float64) {
	for {
		t, kind := e.arrival, eventArrival
		if e.until < t {
			t, kind = e.until, eventRate
		}
		if len(e.next) > 0 {
			if n := e.next[e.tree[1]]; n < t {
				t, kind = n, eventPod
			}
		}
		if len(e.delays) > 0 && e.delays[0].at < t {
			t, kind = e.delays[0].at, eventDelay
		}
		if n := e.timeout(); n < t {
			t, kind = n, eventTimeout
		}
		if t >= to {
			e.now = to
			return
		}
		e.now = t
		switch kind {
		case eventArrival:
			e.count.Arrived++
			if e.script == nil {
				e.try(t, 0, 0)
				e.arrival = t + e.rng.ExpFloat64()/e.perSec
			} else {
				e.follow()
			}
		case eventRate:
			e.newRate(t)
		case eventPod:
			e.step(int(e.tree[1]))
		case eventDelay:
			e.wake()
		case eventTimeout:
			e.expire()
		}
	}
}

const (
	eventArrival = iota
	eventRate
	eventPod
	eventDelay
	eventTimeout
)

// newRate draws the next arrival at the rate that begins now. It may draw again at each
// change of the rate: arrivals of a Poisson process have no memory.
func (e *Engine) newRate(t float64) {
	e.perSec, e.until = e.rate(t)
	e.arrival = math.Inf(1)
	if e.perSec > 0 {
		e.arrival = t + e.rng.ExpFloat64()/e.perSec
	}
}

// follow sends the next request of the script.
func (e *Engine) follow() {
	i := e.scripted
	e.scripted++
	e.arrival = math.Inf(1)
	if int(e.scripted) < len(e.script) {
		e.arrival = e.script[e.scripted].At
	}
	e.try(e.script[i].At, 0, i)
}

// Update finds the next event of a pod after a change of it.
func (e *Engine) Update(slot int32) {
	p := e.pods[slot]
	p.update()
	e.schedule(int(slot), p.next())
}

// schedule sets a pod's next event and updates the earliest of all: a tournament tree over
// slots.
func (e *Engine) schedule(slot int, t float64) {
	next, tree := e.next, e.tree
	next[slot] = t
	for i := (slot + len(next)) / 2; i > 0; i /= 2 {
		a, b := tree[2*i], tree[2*i+1]
		if next[b] < next[a] {
			a = b
		}
		tree[i] = a
	}
}

// grow doubles the slots.
func (e *Engine) grow() {
	n := max(1, 2*len(e.next))
	for len(e.next) < n {
		e.next, e.pods = append(e.next, math.Inf(1)), append(e.pods, nil)
	}
	e.tree = make([]int32, 2*n)
	for i := range n {
		e.tree[n+i] = int32(i)
	}
	for i := range e.next {
		e.schedule(i, e.next[i])
	}
}

// timeout returns when the next client gives up. It drops clients with an answer.
func (e *Engine) timeout() float64 {
	for e.timeHead < len(e.timeouts) {
		t := &e.timeouts[e.timeHead]
		if j := &e.jobs[t.job]; j.serial == t.serial && j.state != unused && !j.gone {
			return t.at
		}
		if e.timeHead++; e.timeHead > 1024 && 2*e.timeHead > len(e.timeouts) {
			e.timeouts = e.timeouts[:copy(e.timeouts, e.timeouts[e.timeHead:])]
			e.timeHead = 0
		}
	}
	return math.Inf(1)
}

// Kill ends a pod at once: its jobs are lost.
func (e *Engine) Kill(slot int32) {
	p := e.pods[slot]
	lose := func(i int32) {
		j := &e.jobs[i]
		if j.state == queued {
			e.unqueue(j)
		}
		if !j.gone {
			e.count.Lost++
			e.again(j.begun, j.tries, j.script)
		}
		e.release(i)
	}
	e.crowd(-float64(p.inside), 0)
	for _, f := range p.work {
		lose(f.job)
	}
	for p.Waiting() > 0 {
		lose(p.queue.pop())
	}
	for p.runnable.len() > 0 {
		lose(p.runnable.pop())
	}
	for i := range e.jobs {
		if e.jobs[i].slot == slot && e.jobs[i].state == delayed {
			lose(int32(i))
		}
	}
	p.work, p.inside = p.work[:0], 0
	e.Update(slot)
}

// Now returns the engine's time in seconds.
func (e *Engine) Now() float64 { return e.now }

// Ready returns the number of pods that take requests.
func (e *Engine) Ready() int { return len(e.ready) }

// Pods returns the number of pods, those that take no more requests included.
func (e *Engine) Pods() int {
	n := 0
	for _, p := range e.pods {
		if p != nil {
			n++
		}
	}
	return n
}

// Counters returns those of all requests so far.
func (e *Engine) Counters() Counters {
	e.crowd(0, 0)
	return e.count
}

// crowd changes how many requests are inside pods and wait, and counts the time up to now.
func (e *Engine) crowd(inside, waiting float64) {
	d := e.now - e.counted
	e.count.InsideSeconds += e.inside * d
	e.count.WaitingSeconds += e.waiting * d
	e.inside, e.waiting, e.counted = e.inside+inside, e.waiting+waiting, e.now
}
