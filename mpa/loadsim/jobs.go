package loadsim

import "slices"

// A job is one try of a request.
type job struct {
	begun  float64 // first try of the request
	queued float64 // when it began to wait for a worker
	left   float64 // core-seconds of this phase after this turn
	slot   int32
	phase  int16
	tries  int16
	serial uint32 // of this use of the slot in Engine.jobs
	script int32  // index of the request in Engine.script; closed = of a client in closed loop
	state  jobState
	gone   bool // the client has given up
}

type jobState uint8

const (
	unused jobState = iota
	delayed
	queued
	serving
	resting  // a client that pauses before its next try
	thinking // a client in closed loop before its next request
)

// closed marks the requests of clients in closed loop.
const closed = -1

// try sends a request to a pod, for the first time or again.
func (e *Engine) try(begun float64, tries int16, script int32) {
	e.count.Tries++
	slot := e.route()
	queue, most := &e.front, e.service.Front
	if most == 0 {
		if slot < 0 {
			e.refuse(begun, tries, script)
			return
		}
		queue, most = &e.pods[slot].queue, e.service.Queue
	}
	waits := slot < 0 || e.pods[slot].full()
	if waits && most >= 0 && queue.len() >= most {
		e.refuse(begun, tries, script)
		return
	}
	i := e.alloc()
	j := &e.jobs[i]
	*j = job{begun: begun, queued: e.now, slot: slot, tries: tries, serial: j.serial + 1, script: script, state: queued}
	if e.service.Timeout > 0 {
		e.timeouts = append(e.timeouts, event{e.now + e.service.Timeout, i, j.serial})
	}
	if waits {
		queue.push(i)
		e.crowd(0, 1)
		return
	}
	e.admit(i)
}

func (e *Engine) alloc() int32 {
	if n := len(e.free); n > 0 {
		i := e.free[n-1]
		e.free = e.free[:n-1]
		return i
	}
	e.jobs = append(e.jobs, job{})
	return int32(len(e.jobs) - 1)
}

func (e *Engine) release(i int32) {
	e.jobs[i].state = unused
	e.free = append(e.free, i)
}

// route picks a ready pod: the better of two at random, by requests under way. With a queue
// before all pods it picks one with room where there is one, the least loaded where neither
// of the two has any.
func (e *Engine) route() int32 {
	slot := e.draw()
	if e.service.Front == 0 || slot < 0 || !e.pods[slot].full() {
		return slot
	}
	best := int32(-1)
	for _, s := range e.ready {
		if !e.pods[s].full() && (best < 0 || e.load(s) < e.load(best)) {
			best = s
		}
	}
	return best
}

func (e *Engine) draw() int32 {
	n := len(e.ready)
	switch {
	case n == 0:
		return -1
	case n == 1:
		return e.ready[0]
	case e.service.Balance == "random":
		return e.ready[e.rng.IntN(n)]
	}
	a, b := e.ready[e.rng.IntN(n)], e.ready[e.rng.IntN(n)]
	if e.load(b) < e.load(a) {
		return b
	}
	return a
}

func (e *Engine) load(slot int32) int { p := e.pods[slot]; return p.inside + p.Waiting() }

// admit gives a job a worker in its pod and begins its first phase.
func (e *Engine) admit(i int32) {
	e.pods[e.jobs[i].slot].inside++
	e.crowd(1, 0)
	e.begin(i)
}

// begin starts a phase of a job: it waits, then it computes.
func (e *Engine) begin(i int32) {
	j := &e.jobs[i]
	wait := e.wait(j)
	if slower := e.pods[j.slot].Slower; slower > 0 {
		wait *= slower
	}
	if wait > 0 {
		j.state = delayed
		e.delays.push(event{e.now + wait, i, j.serial})
		return
	}
	e.compute(i)
}

func (e *Engine) compute(i int32) {
	j := &e.jobs[i]
	j.state = serving
	p := e.pods[j.slot]
	p.Advance(e.now)
	demand := e.cpu(j)
	if p.Factor > 0 {
		demand *= p.Factor
	}
	if κ := e.service.Contention; κ > 0 {
		demand *= 1 + κ*float64(p.inside-1)
	}
	if len(p.work) == 0 {
		demand += e.service.Wake
	}
	e.start(i, demand)
	e.Update(j.slot)
}

// wait returns how long a job waits in its phase.
func (e *Engine) wait(j *job) float64 {
	if e.script != nil {
		return e.script[j.script].Wait[j.phase]
	}
	return e.service.phases[j.phase].wait.draw(e.rng)
}

// start puts a job into service, or in line for its turn.
func (e *Engine) start(i int32, demand float64) {
	p := e.pods[e.jobs[i].slot]
	if p.Quantum > 0 && (len(p.work) >= p.slots() || p.runnable.len() > 0) {
		e.jobs[i].left = demand
		p.runnable.push(i)
		return
	}
	e.turn(p, i, demand)
}

// turn puts a job into service for a quantum at most.
func (e *Engine) turn(p *Pod, i int32, demand float64) {
	turn := demand
	if p.Quantum > 0 && p.Quantum < demand {
		turn = p.Quantum
	}
	e.jobs[i].left = demand - turn
	p.work.push(event{at: p.service + turn, job: i})
}

// cpu returns the core-seconds of a job in its phase.
func (e *Engine) cpu(j *job) float64 {
	if e.script != nil {
		return e.script[j.script].CPU[j.phase]
	}
	return e.service.phases[j.phase].cpu.draw(e.rng)
}

// step handles a pod's event: a job ends its phase, or a quota is spent or refilled.
func (e *Engine) step(slot int) {
	p := e.pods[slot]
	p.Advance(e.now)
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
	e.Update(int32(slot))
}

// done ends a phase of a job.
func (e *Engine) done(i int32, p *Pod) {
	j := &e.jobs[i]
	if j.phase++; int(j.phase) < len(e.service.phases) {
		e.begin(i)
		return
	}
	slot := j.slot
	p.inside--
	p.served++
	e.crowd(-1, 0)
	if !j.gone {
		e.count.Served++
		latency := e.now - j.begun
		if e.script != nil {
			e.took[j.script] = latency
		}
		if e.service.Late > 0 && latency > e.service.Late {
			e.count.Late++
		}
		e.All.Add(latency)
		if e.Window != nil {
			e.Window.Add(latency)
			e.Answered(latency)
		}
		if j.script == closed {
			e.think(0)
		}
	}
	e.release(i)
	e.pull(slot)
}

// pull admits the next jobs, of the pod's queue or of the one before all pods, whose clients
// still wait.
func (e *Engine) pull(slot int32) {
	p := e.pods[slot]
	queue := &p.queue
	if e.service.Front > 0 {
		if queue = &e.front; queue.len() == 0 || !slices.Contains(e.ready, slot) {
			return
		}
	}
	for queue.len() > 0 && !p.full() {
		i := queue.pop()
		j := &e.jobs[i]
		e.unqueue(j)
		if j.gone {
			e.release(i)
			continue
		}
		e.count.Waited += e.now - j.queued
		j.slot = slot
		e.admit(i)
	}
}

// unqueue counts one less that waits, unless its client has given up.
func (e *Engine) unqueue(j *job) {
	if !j.gone {
		e.crowd(0, -1)
	}
}

// think begins the pause of a client in closed loop, and adds a pause.
func (e *Engine) think(pause float64) {
	i := e.alloc()
	j := &e.jobs[i]
	*j = job{slot: -1, serial: j.serial + 1, script: closed, state: thinking, gone: true}
	e.delays.push(event{e.now + pause + e.service.think.draw(e.rng), i, j.serial})
}

// wake ends the wait of a job, or the pause of a client.
func (e *Engine) wake() {
	d := e.delays.pop()
	j := &e.jobs[d.job]
	switch {
	case j.serial != d.serial:
	case j.state == thinking:
		e.release(d.job)
		e.count.Arrived++
		e.try(e.now, 0, closed)
	case j.state == resting:
		begun, tries, script := j.begun, j.tries, j.script
		e.release(d.job)
		e.try(begun, tries, script)
	case j.state == delayed:
		e.compute(d.job)
	}
}

// expire makes a client give up.
func (e *Engine) expire() {
	j := &e.jobs[e.timeouts[e.timeHead].job]
	if j.state == queued {
		e.unqueue(j)
	}
	j.gone = true
	e.again(j.begun, j.tries, j.script)
}

func (e *Engine) refuse(begun float64, tries int16, script int32) {
	e.count.Refused++
	e.again(begun, tries, script)
}

// again retries a request after a pause, or counts it as failed.
func (e *Engine) again(begun float64, tries int16, script int32) {
	if int(tries) >= e.service.Retries {
		e.count.Failed++
		if e.Failed != nil {
			e.Failed()
		}
		if script == closed {
			e.think(retryPause * (.5 + e.rng.Float64()))
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
