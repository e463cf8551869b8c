package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// Predictive sizes a workload for what the next minutes are expected to ask of it, with
// the least slack that keeps its SLO.
//
// What it is asked is requests per second times what one costs in cpu, both as measured
// (cpu alone, where no rate is): now, along its trend, and as usual at this time of the day,
// whichever is most. A pod with l cores of work gets l + β·√l (the square-root rule of
// staffing: what queues is the noise around the mean). β grows when the promised percentile
// is exceeded though there was no more to do than planned for, and shrinks while it is
// far below.
//
// It would rather have few large pods: they share peaks. It grows and shrinks them in
// small steps, and their number where that is not enough or too slow. Memory is the
// largest peak of a day with a margin.
type Predictive struct {
	target mpa.Target
	cost   float64 // core-seconds of a request; 0 = not known
	slack  float64 // β, in √cores
	turned time.Time
	// fewest pods that kept the SLO, until a time, and how many times in a row more
	// slack was of no use.
	fewest int32
	until  time.Time
	vain   int
	jumped time.Time // when demand last began to jump
	// The last minutes: cores asked for, the most that was to come; and what these need
	// of the cores that there are.
	demand, work, filled []timed[float64]
	// usual is the demand in cores by slot of the day: a mean that forgets, and its
	// mean deviation. A slot that was never seen is NaN.
	usual, scatter []float64
	slot           int // that seen is of; −1 = none
	seen           []float64

	memory   []mpa.ContainerMemory
	least    [][]timed[int64] // memory of the leanest pod in the last hour, by container
	begun    time.Time
	requests []mpa.Resources // at the last observation
	replicas int32
	resized  []time.Time // in the last hour
	changed  time.Time   // of the last change of either
}

const (
	predictSlot    = 5 * time.Minute
	predictSlots   = int(day / predictSlot)
	predictHorizon = 10 * time.Minute // of what is usual
	predictForget  = .5               // weight of the newest day
	predictTrend   = 4 * time.Minute  // that the trend is taken from,
	predictAhead   = 90 * time.Second // and how far it is followed
	predictJump    = 30 * time.Second // in which a step shows
	predictSteep   = 1.15             // by this factor
	predictQuiet   = 15 * time.Minute // between two steps

	slackFirst, slackLeast, slackMost = .5, .05, 3
	slackUp, slackDown                = 1.15, .95
	slackSlow                         = 6 * time.Minute // between two steps down
	slackQuick                        = 2 * time.Minute // between two steps up
	slackCalm                         = .8              // of the SLO, below which there is too much
	slackVain                         = 2               // steps up without use before there are more pods
	slackUsed                         = .8              // of the cores needed, for that to say something

	fewestHold  = 3 * time.Hour    // for how long a number of pods that was too small is not tried again
	sizeHold    = 10 * time.Minute // whose largest need is kept when shrinking
	sizeSpare   = 1.03             // over the need, when a size changes
	sizeLess    = .88              // of what there is, below which it shrinks
	sizeStep    = 1.5              // most that pods grow at once
	sizeResizes = 5                // in an hour, to keep one for memory
	sizeCalm    = 20 * time.Minute // without a change, before pods become fewer and larger

	memoryMargin = 1.2 // of the peak
	memorySway   = .7  // of what memory moves by, over the peak
	memoryTight  = .5  // of either: with less, memory grows
)

// NewPredictive is an agent that has seen nothing.
func NewPredictive(t mpa.Target) *Predictive {
	p := &Predictive{target: t, slack: slackFirst, slot: -1, usual: make([]float64, predictSlots), scatter: make([]float64, predictSlots)}
	for i := range p.usual {
		p.usual[i] = math.NaN()
	}
	for _, c := range t.Containers {
		p.memory = append(p.memory, mpa.ContainerMemory{Name: c.Name})
		p.least = append(p.least, nil)
	}
	return p
}

// Recommend implements [mpa.Agent].
func (p *Predictive) Recommend(o *mpa.Observation) mpa.Recommendation {
	requests := o.Requests(&p.target)
	if requests == nil {
		return noOpinion("predictive", "no pod to tell the present requests from")
	}
	p.follow(o, requests)
	memory := p.sizeMemory(o, requests)
	r := mpa.Recommendation{Source: "predictive"}
	size := cpuOf(requests)
	demand, ok := p.demanded(o)
	if !ok || size == 0 || o.Replicas == 0 {
		r.Reason = "cpu usage is missing or stale"
		r.Containers = p.merge(o, requests, 1, memory)
		return r
	}
	p.steer(o, demand, size)
	expected, why := p.expected(o.Time, demand)
	p.work = append(since(p.work, o.Time.Add(-sizeHold)), timed[float64]{o.Time, expected})
	r.Reason = fmt.Sprintf("%.3g cores %s, with a slack of %.2g", expected, why, p.slack)
	n, factor := p.shape(o, expected, size)
	if n != o.Replicas {
		r.Replicas = n
	}
	r.Containers = p.merge(o, requests, factor, memory)
	return r
}

// cpuOf is the sum of cpu requests in cores.
func cpuOf(requests []mpa.Resources) float64 {
	sum := int64(0)
	for _, r := range requests {
		sum += r.CPU
	}
	return float64(sum) / 1000
}

// follow notes what changed.
func (p *Predictive) follow(o *mpa.Observation, requests []mpa.Resources) {
	if p.begun.IsZero() {
		p.begun, p.changed = o.Time, o.Time
	} else if !slices.Equal(requests, p.requests) {
		p.resized, p.changed = append(p.resized, o.Time), o.Time
	}
	if o.Replicas != p.replicas {
		p.changed = o.Time
	}
	p.requests, p.replicas = requests, o.Replicas
	p.resized = guard.LastHour(p.resized, o.Time)
}

// demanded is what the workload is asked now, in cores.
func (p *Predictive) demanded(o *mpa.Observation) (cores float64, ok bool) {
	cores, _, ok = workloadCPU(o, predictMaxAge)
	if !ok {
		return 0, false
	}
	if !o.Rate.Known(o.Time, predictMaxAge) {
		return cores, true
	}
	// A request costs what it does only when all are answered: work for clients that no
	// longer wait is not asked for.
	if o.Throughput.Known(o.Time, predictMaxAge) && o.Throughput.Value > 0 && o.Throughput.Value >= .95*o.Rate.Value {
		now := cores / o.Throughput.Value
		if p.cost == 0 {
			p.cost = now
		}
		p.cost += .05 * (now - p.cost)
	}
	if p.cost > 0 {
		cores = o.Rate.Value * p.cost
	}
	return cores, true
}

const predictMaxAge = 2 * time.Minute

// expected is the most of what is asked now, what the trend leads to and what is usual.
func (p *Predictive) expected(now time.Time, demand float64) (cores float64, why string) {
	p.demand = append(since(p.demand, now.Add(-predictTrend)), timed[float64]{now, demand})
	p.learn(now, demand)
	cores, why = demand, "asked for"
	// A step climbs through the window of the rate: what came in half of it comes again.
	// Where that happens again and again it is no step.
	for _, d := range p.demand {
		if now.Sub(d.time) <= predictJump && demand > predictSteep*d.value {
			if since := now.Sub(p.jumped); since > predictQuiet {
				p.jumped = now
			} else if since > 2*predictJump {
				break
			}
			cores, why = 2*demand-d.value, "and rising fast"
			break
		}
	}
	if rise := trend(p.demand) * predictAhead.Seconds(); demand+rise > cores {
		cores, why = demand+rise, "along the trend"
	}
	if usual := p.ahead(now); usual > cores {
		cores, why = usual, fmt.Sprintf("usual within %v", predictHorizon)
	}
	return cores, why
}

// trend is the slope per second by least squares, where it explains more than twice
// what is left over; else 0.
func trend(list []timed[float64]) float64 {
	n := float64(len(list))
	if n < 3 || list[len(list)-1].time.Sub(list[0].time) < predictTrend/2 {
		return 0
	}
	var t, v float64
	for _, e := range list {
		t += e.time.Sub(list[0].time).Seconds() / n
		v += e.value / n
	}
	var tv, tt, vv float64
	for _, e := range list {
		d := e.time.Sub(list[0].time).Seconds() - t
		tv += d * (e.value - v)
		tt += d * d
		vv += (e.value - v) * (e.value - v)
	}
	if explained := tv * tv / tt; explained < 2*(vv-explained) {
		return 0
	}
	return tv / tt
}

// need is the cores that some work needs on n pods.
func (p *Predictive) need(work float64, n int32) float64 {
	return work + p.slack*math.Sqrt(work*float64(n))
}

// steer moves the slack.
func (p *Predictive) steer(o *mpa.Observation, demand, size float64) {
	ready := int32(0)
	for _, pod := range o.Live() {
		if pod.Ready {
			ready++
		}
	}
	ready = max(1, ready)
	p.filled = append(since(p.filled, o.Time.Add(-slackQuick)), timed[float64]{o.Time, p.need(demand, ready) / (size * float64(ready))})
	slo := p.target.SLO
	if slo.Latency == 0 || !o.Latency.Known(o.Time, predictMaxAge) {
		return
	}
	least, most := math.Inf(1), 0.0
	for _, f := range p.filled {
		least, most = min(least, f.value), max(most, f.value)
	}
	switch since := o.Time.Sub(p.turned); {
	case o.Latency.Value > slo.Latency:
		// With more to do than planned for, it is not the slack that was wrong.
		if since >= slackQuick && most < 1.05 {
			p.slack, p.turned = min(slackMost, p.slack*slackUp), o.Time
			if p.vain++; p.vain > slackVain && ready == o.Replicas {
				// Something else runs short: threads, connections, a disk.
				p.fewest, p.until, p.vain = o.Replicas+1, o.Time.Add(fewestHold), 0
			}
		}
	case o.Latency.Value < slackCalm*slo.Latency && since >= slackSlow && least > slackUsed:
		p.slack, p.turned = max(slackLeast, p.slack*slackDown), o.Time
	}
	if o.Latency.Value <= slo.Latency {
		p.vain = 0
	}
}

// shape is the number of pods, and the factor of their cpu, that some work asks for.
func (p *Predictive) shape(o *mpa.Observation, work, size float64) (replicas int32, factor float64) {
	n := o.Replicas
	have := size * float64(n)
	stuck := len(p.resized) >= sizeResizes || slices.ContainsFunc(o.Live(), func(pod mpa.Pod) bool { return pod.Resize == mpa.Deferred || pod.Resize == mpa.Infeasible })
	most := 0.0
	for _, v := range p.work {
		most = max(most, v.value)
	}
	high := p.need(most, n) * sizeSpare
	fits := p.pods(most*sizeSpare, size)
	fewest := p.atLeast(o.Time)
	mayShrink := len(p.resized) < sizeResizes/2
	switch {
	case n < fewest:
		return fewest, 1
	case p.need(work, n) > have:
		f := max(p.need(work, n)*sizeSpare/have, 1.11)
		if !stuck && f <= sizeStep && p.may(size*f) {
			return n, f
		}
		return max(n, p.pods(work*sizeSpare, size)), 1
	case o.Time.Sub(p.begun) < sizeHold:
		return n, 1
	case max(fits, fewest) < n:
		return max(fits, fewest), 1
	case high < sizeLess*have && mayShrink && p.may(high/float64(n)):
		return n, high / have
	case n > fewest && o.Time.Sub(p.changed) >= sizeCalm && !stuck && mayShrink:
		// One pod less, of which the others take the work.
		f := max(p.need(most, n-1)*sizeSpare/(size*float64(n-1)), 1.11)
		if f <= sizeStep && p.may(size*f) {
			return n, f
		}
	}
	return n, 1
}

// atLeast is the fewest pods that there should be.
func (p *Predictive) atLeast(now time.Time) int32 {
	if now.After(p.until) {
		return p.target.Replicas.Min
	}
	return p.target.Replicas.Clamp(p.fewest)
}

// pods is how many of a size in cores some work needs.
func (p *Predictive) pods(work, size float64) int32 {
	n := p.target.Replicas.Min
	for n < p.target.Replicas.Max && p.need(work, n) > size*float64(n) {
		n++
	}
	return n
}

// may reports whether pods of some cores are within bounds.
func (p *Predictive) may(cores float64) bool {
	var low, high int64
	free := false
	for _, c := range p.target.Containers {
		low += c.Min.CPU
		high += c.Max.CPU
		free = free || c.Max.CPU == 0
		if !c.CPU {
			return false
		}
	}
	return cores*1000 >= float64(low) && (free || cores*1000 <= float64(high))
}

// sizeMemory is what each container should have, in bytes: nil where that is what it has.
func (p *Predictive) sizeMemory(o *mpa.Observation, requests []mpa.Resources) []int64 {
	var out []int64
	set := func(i int, v int64) {
		if out == nil {
			out = make([]int64, len(requests))
			for j, r := range requests {
				out[j] = r.Memory
			}
		}
		out[i] = v
	}
	for i := range p.memory {
		p.memory[i].Peaks.Add(o.Time, p.used(o, i), day)
		peak := p.memory[i].Peaks.Max()
		margin := max(memoryMargin*float64(peak)-float64(peak), memorySway*p.sway(i, peak))
		now, want := requests[i].Memory, peak+int64(margin)
		switch {
		case peak > 0 && float64(peak)+memoryTight*margin > float64(now):
			set(i, want)
		case peak > 0 && o.Time.Sub(p.begun) >= time.Hour && want < mpa.Scale(now, .8):
			set(i, want)
		}
	}
	return out
}

// sway is how far the memory of container i moves in an hour, in bytes.
func (p *Predictive) sway(i int, peak int64) float64 {
	low := peak
	for _, l := range p.least[i] {
		low = min(low, l.value)
	}
	return float64(peak - low)
}

// used is the most memory of container i in any pod now; one that ran out of it used all
// it had.
func (p *Predictive) used(o *mpa.Observation, i int) int64 {
	most, least := int64(0), int64(math.MaxInt64)
	for _, pod := range o.Live() {
		for _, c := range pod.Containers {
			if c.Name != p.target.Containers[i].Name {
				continue
			}
			if c.Usage.Known(o.Time, predictMaxAge) {
				most, least = max(most, c.Usage.Memory), min(least, c.Usage.Memory)
			}
			// Of a kill from before it began, the requests may be what came of that.
			if c.Killed.After(p.memory[i].CeilingTime) && c.Killed.After(p.begun.Add(-predictMaxAge)) {
				p.memory[i].CeilingTime = c.Killed
				most = max(most, c.Request.Memory)
			}
		}
	}
	p.least[i] = since(p.least[i], o.Time.Add(-time.Hour))
	if least != math.MaxInt64 {
		p.least[i] = append(p.least[i], timed[int64]{o.Time, least})
	}
	return most
}

// merge is the requests with cpu times a factor and with some memory; nil when nothing
// changes.
func (p *Predictive) merge(o *mpa.Observation, requests []mpa.Resources, factor float64, memory []int64) []mpa.Resources {
	if factor == 1 && memory == nil {
		return nil
	}
	shrinks := true
	out := slices.Clone(requests)
	for i := range out {
		if factor != 1 {
			out[i].CPU = max(1, mpa.Scale(out[i].CPU, factor))
		}
		if factor > 1 && memory == nil {
			// Larger pods have more requests inside.
			peak := p.memory[i].Peaks.Max()
			out[i].Memory = max(out[i].Memory, peak+int64((factor-1+memoryTight*memorySway)*p.sway(i, peak)))
		}
		if memory != nil {
			shrinks = shrinks && memory[i] <= out[i].Memory
			out[i].Memory = memory[i]
		}
	}
	// Less memory alone can wait.
	if factor == 1 && shrinks && o.Time.Sub(p.changed) < time.Hour/2 {
		return nil
	}
	return out
}

func slotOf(t time.Time) int {
	return int(t.Sub(t.Truncate(day)) / predictSlot)
}

// learn closes a slot when the next begins.
func (p *Predictive) learn(now time.Time, cores float64) {
	slot := slotOf(now)
	if slot != p.slot && len(p.seen) > 0 {
		high := slices.Max(p.seen)
		if math.IsNaN(p.usual[p.slot]) {
			p.usual[p.slot] = high
		} else {
			p.scatter[p.slot] += predictForget * (math.Abs(high-p.usual[p.slot]) - p.scatter[p.slot])
			p.usual[p.slot] += predictForget * (high - p.usual[p.slot])
		}
		p.seen = p.seen[:0]
	}
	p.slot = slot
	p.seen = append(p.seen, cores)
}

// ahead is the most that the slots up to the horizon usually need; 0 = not known.
func (p *Predictive) ahead(now time.Time) float64 {
	most := 0.0
	for d := time.Duration(0); d <= predictHorizon; d += predictSlot {
		i := slotOf(now.Add(d))
		if !math.IsNaN(p.usual[i]) {
			most = max(most, p.usual[i]+p.scatter[i])
		}
	}
	return most
}

// Shift implements [mpa.Shifter]. What is usual stays with its time of day.
func (p *Predictive) Shift(d time.Duration) {
	for _, t := range []*time.Time{&p.turned, &p.until, &p.jumped, &p.begun, &p.changed} {
		*t = guard.Moved(*t, d)
	}
	shiftAll(p.demand, d)
	shiftAll(p.work, d)
	shiftAll(p.filled, d)
	for i := range p.resized {
		p.resized[i] = guard.Moved(p.resized[i], d)
	}
	for i := range p.memory {
		shiftAll(p.least[i], d)
		for j := range p.memory[i].Peaks {
			p.memory[i].Peaks[j].Time = guard.Moved(p.memory[i].Peaks[j].Time, d)
		}
	}
	p.seen, p.slot = nil, -1
}

type predictiveJSON struct {
	Cost     float64               `json:"cost,omitempty"`
	Slack    float64               `json:"slack"`
	Turned   time.Time             `json:"turned,omitzero"`
	Fewest   int32                 `json:"fewest,omitempty"`
	Until    time.Time             `json:"until,omitzero"`
	Vain     int                   `json:"vain,omitempty"`
	Jumped   time.Time             `json:"jumped,omitzero"`
	Demand   []timed[float64]      `json:"demand,omitempty"`
	Work     []timed[float64]      `json:"work,omitempty"`
	Filled   []timed[float64]      `json:"filled,omitempty"`
	Slots    map[int]slotJSON      `json:"slots,omitempty"` // of the day, those that were seen
	Slot     int                   `json:"slot"`
	Seen     []float64             `json:"seen,omitempty"`
	Memory   []mpa.ContainerMemory `json:"memory"`
	Least    [][]timed[int64]      `json:"least"`
	Begun    time.Time             `json:"begun,omitzero"`
	Requests []mpa.Resources       `json:"requests,omitempty"`
	Replicas int32                 `json:"replicas"`
	Resized  []time.Time           `json:"resized,omitempty"`
	Changed  time.Time             `json:"changed,omitzero"`
}

type slotJSON struct {
	Usual   float64 `json:"usual"`
	Scatter float64 `json:"scatter"`
}

// MarshalJSON implements [mpa.Stateful].
func (p *Predictive) MarshalJSON() ([]byte, error) {
	j := predictiveJSON{
		p.cost, p.slack, p.turned, p.fewest, p.until, p.vain, p.jumped, p.demand, p.work, p.filled,
		map[int]slotJSON{},
		p.slot, p.seen, p.memory, p.least, p.begun, p.requests, p.replicas, p.resized, p.changed,
	}
	for i, v := range p.usual {
		if !math.IsNaN(v) {
			j.Slots[i] = slotJSON{v, p.scatter[i]}
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [mpa.Stateful].
func (p *Predictive) UnmarshalJSON(data []byte) error {
	var j predictiveJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	n := len(p.memory)
	switch {
	case j.Slot < -1 || j.Slot >= predictSlots:
		return fmt.Errorf("predictive: slot %d of %d", j.Slot, predictSlots)
	case j.Slack < slackLeast || j.Slack > slackMost:
		return fmt.Errorf("predictive: slack %v is not within %v and %v", j.Slack, slackLeast, slackMost)
	case len(j.Memory) != n || len(j.Least) != n:
		return fmt.Errorf("predictive: memory of %d and %d containers, want %d", len(j.Memory), len(j.Least), n)
	}
	for i, s := range j.Slots {
		if i < 0 || i >= predictSlots {
			return fmt.Errorf("predictive: slot %d of %d", i, predictSlots)
		}
		p.usual[i], p.scatter[i] = s.Usual, s.Scatter
	}
	p.cost, p.slack, p.turned, p.fewest, p.until, p.vain, p.jumped = j.Cost, j.Slack, j.Turned, j.Fewest, j.Until, j.Vain, j.Jumped
	p.demand, p.work, p.filled, p.slot, p.seen = j.Demand, j.Work, j.Filled, j.Slot, j.Seen
	p.memory, p.least, p.begun, p.requests, p.replicas, p.resized, p.changed = j.Memory, j.Least, j.Begun, j.Requests, j.Replicas, j.Resized, j.Changed
	return nil
}
