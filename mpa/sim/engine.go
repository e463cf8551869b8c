package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// engine moves requests through pods. It knows nothing of metrics or autoscaling.
type engine struct {
	app *App // compiled
	rng *rand.Rand
	now float64

	rate    func(t float64) (perSecond, until float64) // of arrivals, constant until a time
	perSec  float64
	until   float64
	arrival float64

	jobs  []job
	free  []int32
	pods  []*pod    // by slot; nil = none
	next  []float64 // [slot] time of the next event; as many as a power of 2
	tree  []int32   // [1] is the slot with the earliest event; see schedule
	ready []int32   // slots that take requests

	// script, when set, is what comes instead of arrivals at a rate, the next of it, and
	// what each took.
	script   []Request
	scripted int32
	took     []float64

	delays   eventHeap
	timeouts []event // in order of time: all have the same length
	timeHead int

	// answered and failed are told of the end of requests, when set.
	answered func(latency float64)
	failed   func()

	count  counters
	window *latencies // since the last scrape
	all    latencies
}

// A job is one try of a request.
type job struct {
	begun  float64 // first try of the request
	queued float64 // since when it waits for a worker
	left   float64 // core-seconds of this phase after the present turn
	slot   int32
	phase  int16
	tries  int16
	serial uint32 // of this use of the slot in engine.jobs
	script int32  // index of the request in engine.script
	state  jobState
	gone   bool // the client no longer waits
}

type jobState uint8

const (
	unused jobState = iota
	delayed
	queued
	serving
	resting // a client that pauses before its next try
)

// counters of requests. Arrived = Served + Failed + those under way.
type counters struct {
	Arrived int64 // new requests, tries not counted
	Served  int64 // answered in time
	Late    int64 // of those, above the SLO's latency
	Failed  int64 // given up: by their client, refused, or lost with a pod
	Tries   int64
	Refused int64   // tries that found no pod or a full queue
	Lost    int64   // tries that were in a pod that died
	Waited  float64 // seconds in queues, of all tries that left one for service
}

func newEngine(app *App, seed uint64, rate func(t float64) (perSecond, until float64)) *engine {
	e := &engine{app: app, rng: rand.New(rand.NewPCG(seed, 0)), rate: rate}
	e.newRate(0)
	return e
}

// open adds a pod that takes requests from now on and gives its slot.
func (e *engine) open(p *pod) int32 {
	slot := int32(slices.Index(e.pods, nil))
	if slot < 0 {
		slot = int32(len(e.pods))
		e.grow()
	}
	e.pods[slot] = p
	if e.script == nil && p.quota > 0 && p.periodEnd == 0 {
		// The kernel begins the periods of each group at another time.
		p.phase = period * e.rng.Float64()
	}
	p.advance(e.now)
	e.ready = append(e.ready, slot)
	e.changed(slot)
	return slot
}

// close lets a pod take no more requests.
func (e *engine) close(slot int32) {
	if i := slices.Index(e.ready, slot); i >= 0 {
		e.ready = slices.Delete(e.ready, i, i+1)
	}
}

// forget frees the slot of a pod that is closed and empty.
func (e *engine) forget(slot int32) {
	e.pods[slot] = nil
	e.schedule(int(slot), math.Inf(1))
}

// run handles all events before a time and stops there.
func (e *engine) run(to float64) {
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

// newRate draws the next arrival at the rate that begins now: arrivals of a Poisson
// process have no memory.
func (e *engine) newRate(t float64) {
	e.perSec, e.until = e.rate(t)
	e.arrival = math.Inf(1)
	if e.perSec > 0 {
		e.arrival = t + e.rng.ExpFloat64()/e.perSec
	}
}

// try sends a request to a pod, for the first time or again.
func (e *engine) try(begun float64, tries int16, script int32) {
	e.count.Tries++
	slot := e.route()
	if slot < 0 {
		e.refuse(begun, tries, script)
		return
	}
	p := e.pods[slot]
	if p.full() && e.app.Queue >= 0 && p.waiting() >= e.app.Queue {
		e.refuse(begun, tries, script)
		return
	}
	i := e.alloc()
	j := &e.jobs[i]
	*j = job{begun: begun, queued: e.now, slot: slot, tries: tries, serial: j.serial + 1, script: script, state: queued}
	if e.app.Timeout > 0 {
		e.timeouts = append(e.timeouts, event{e.now + e.app.Timeout, i, j.serial})
	}
	if p.full() {
		p.queue.push(i)
		return
	}
	e.admit(i)
}

// follow lets the next request of the script come.
func (e *engine) follow() {
	i := e.scripted
	e.scripted++
	e.arrival = math.Inf(1)
	if int(e.scripted) < len(e.script) {
		e.arrival = e.script[e.scripted].At
	}
	e.try(e.script[i].At, 0, i)
}

func (e *engine) alloc() int32 {
	if n := len(e.free); n > 0 {
		i := e.free[n-1]
		e.free = e.free[:n-1]
		return i
	}
	e.jobs = append(e.jobs, job{})
	return int32(len(e.jobs) - 1)
}

func (e *engine) release(i int32) {
	e.jobs[i].state = unused
	e.free = append(e.free, i)
}

// route picks a ready pod: the better of two at random, by requests under way.
func (e *engine) route() int32 {
	n := len(e.ready)
	switch {
	case n == 0:
		return -1
	case n == 1:
		return e.ready[0]
	case e.app.Balance == "random":
		return e.ready[e.rng.IntN(n)]
	}
	a, b := e.ready[e.rng.IntN(n)], e.ready[e.rng.IntN(n)]
	if e.load(b) < e.load(a) {
		return b
	}
	return a
}

func (e *engine) load(slot int32) int { p := e.pods[slot]; return p.inside + p.waiting() }

// admit lets a job into its pod: its first phase begins.
func (e *engine) admit(i int32) {
	e.pods[e.jobs[i].slot].inside++
	e.begin(i)
}

// begin starts a phase of a job: what it waits for, then what it computes.
func (e *engine) begin(i int32) {
	j := &e.jobs[i]
	if wait := e.wait(j); wait > 0 {
		j.state = delayed
		e.delays.push(event{e.now + wait, i, j.serial})
		return
	}
	e.compute(i)
}

func (e *engine) compute(i int32) {
	j := &e.jobs[i]
	j.state = serving
	p := e.pods[j.slot]
	p.advance(e.now)
	demand := e.cpu(j)
	if len(p.work) == 0 {
		demand += e.app.Wake
	}
	e.start(i, demand)
	e.changed(j.slot)
}

// wait is what a job waits for in its phase.
func (e *engine) wait(j *job) float64 {
	if e.script != nil {
		return e.script[j.script].Wait[j.phase]
	}
	return e.app.phases[j.phase].wait.draw(e.rng)
}

// start puts a job into service, or behind those that compute.
func (e *engine) start(i int32, demand float64) {
	p := e.pods[e.jobs[i].slot]
	if p.quantum > 0 && (len(p.work) >= p.slots() || p.runnable.len() > 0) {
		e.jobs[i].left = demand
		p.runnable.push(i)
		return
	}
	e.turn(p, i, demand)
}

// turn lets a job compute, at most for a quantum.
func (e *engine) turn(p *pod, i int32, demand float64) {
	turn := demand
	if p.quantum > 0 && p.quantum < demand {
		turn = p.quantum
	}
	e.jobs[i].left = demand - turn
	p.work.push(event{at: p.service + turn, job: i})
}

// cpu is what a job computes in its phase.
func (e *engine) cpu(j *job) float64 {
	if e.script != nil {
		return e.script[j.script].CPU[j.phase]
	}
	return e.app.phases[j.phase].cpu.draw(e.rng)
}

// changed finds the next event of a pod after a change of it.
func (e *engine) changed(slot int32) {
	p := e.pods[slot]
	p.update()
	e.schedule(int(slot), p.next())
}

// schedule sets a pod's next event and finds the earliest of all anew, up a tree of
// matches between slots.
func (e *engine) schedule(slot int, t float64) {
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

// grow makes room for as many slots again.
func (e *engine) grow() {
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

// step is a pod's event: its first job is done with a phase, or its quota is spent or
// begins anew.
func (e *engine) step(slot int) {
	p := e.pods[slot]
	p.advance(e.now)
	for len(p.work) > 0 && p.work[0].at <= p.service+tiny {
		i := p.work.pop().job
		j := &e.jobs[i]
		if j.left > 0 {
			p.runnable.push(i)
		} else {
			e.done(i, p)
		}
		for p.runnable.len() > 0 && len(p.work) < p.slots() {
			i := p.runnable.pop()
			e.turn(p, i, e.jobs[i].left)
		}
	}
	e.changed(int32(slot))
}

// done ends a phase of a job.
func (e *engine) done(i int32, p *pod) {
	j := &e.jobs[i]
	if j.phase++; int(j.phase) < len(e.app.phases) {
		e.begin(i)
		return
	}
	p.inside--
	p.served++
	if !j.gone {
		e.count.Served++
		latency := e.now - j.begun
		if e.script != nil {
			e.took[j.script] = latency
		}
		if e.app.Target.SLO.Latency > 0 && latency > e.app.Target.SLO.Latency {
			e.count.Late++
		}
		e.all.add(latency)
		if e.window != nil {
			e.window.add(latency)
			e.answered(latency)
		}
	}
	e.release(i)
	e.pull(p)
}

// pull takes the next waiting job in whose client still waits.
func (e *engine) pull(p *pod) {
	for p.waiting() > 0 && !p.full() {
		i := p.queue.pop()
		if e.jobs[i].gone {
			e.release(i)
			continue
		}
		e.count.Waited += e.now - e.jobs[i].queued
		e.admit(i)
	}
}

// wake ends a wait.
func (e *engine) wake() {
	d := e.delays.pop()
	j := &e.jobs[d.job]
	switch {
	case j.serial != d.serial:
	case j.state == resting:
		begun, tries, script := j.begun, j.tries, j.script
		e.release(d.job)
		e.try(begun, tries, script)
	case j.state == delayed:
		e.compute(d.job)
	}
}

// timeout is when the next client gives up. Those that have their answer are let go.
func (e *engine) timeout() float64 {
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

// expire lets a client give up.
func (e *engine) expire() {
	j := &e.jobs[e.timeouts[e.timeHead].job]
	j.gone = true
	e.again(j.begun, j.tries, j.script)
}

func (e *engine) refuse(begun float64, tries int16, script int32) {
	e.count.Refused++
	e.again(begun, tries, script)
}

// again tries a request once more after a pause, or lets it fail.
func (e *engine) again(begun float64, tries int16, script int32) {
	if int(tries) >= e.app.Retries {
		e.count.Failed++
		if e.failed != nil {
			e.failed()
		}
		return
	}
	pause := retryPause * float64(int(1)<<tries) * (.5 + e.rng.Float64())
	i := e.alloc()
	j := &e.jobs[i]
	*j = job{begun: begun, slot: -1, tries: tries + 1, serial: j.serial + 1, script: script, state: resting, gone: true}
	e.delays.push(event{e.now + pause, i, j.serial})
}

// retryPause is the mean pause before the first retry in seconds; it doubles.
const retryPause = .1

// kill ends a pod at once: its jobs are lost.
func (e *engine) kill(slot int32) {
	p := e.pods[slot]
	lose := func(i int32) {
		j := &e.jobs[i]
		if !j.gone {
			e.count.Lost++
			e.again(j.begun, j.tries, j.script)
		}
		e.release(i)
	}
	for _, f := range p.work {
		lose(f.job)
	}
	for p.waiting() > 0 {
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
	e.changed(slot)
}

// A Request that is given: when it comes, and what it waits and computes in each
// segment, all in seconds.
type Request struct {
	At        float64
	Wait, CPU []float64
}

// Serve sends given requests to one pod of an application, in order of time, and gives
// the latency of each; NaN = never answered. The quota's periods begin at phase.
func Serve(app App, requests []Request, phase float64) ([]float64, error) {
	if err := app.compile(); err != nil {
		return nil, err
	}
	for i, r := range requests {
		if len(r.Wait) != len(app.Segments) || len(r.CPU) != len(app.Segments) || i > 0 && r.At < requests[i-1].At {
			return nil, fmt.Errorf("requests[%d]: want one wait and cpu for each of %d segments, in order of time", i, len(app.Segments))
		}
	}
	if len(requests) == 0 {
		return nil, nil
	}
	e := newEngine(&app, 0, func(float64) (float64, float64) { return 0, math.Inf(1) })
	e.script, e.took = requests, make([]float64, len(requests))
	for i := range e.took {
		e.took[i] = math.NaN()
	}
	e.arrival = requests[0].At
	p := &pod{cores: app.parallelism(), workers: app.Workers, quota: float64(app.Request.CPU) / 1000 * app.limitRatio(), quantum: app.Quantum, phase: phase}
	e.open(p)
	e.run(requests[len(requests)-1].At + 1e5)
	return e.took, nil
}
