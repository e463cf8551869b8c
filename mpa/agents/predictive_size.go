package agents

import (
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// need returns the cores that some work needs on n pods.
func (p *Predictive) need(work float64, n int32) float64 {
	return work + p.slack*math.Sqrt(work*float64(n))
}

// steer adapts the slack to the latency.
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
		// If the demand was higher than planned, the slack was not too small.
		if since >= slackQuick && most < 1.05 {
			p.slack, p.turned = min(slackMost, p.slack*slackUp), o.Time
			if p.vain++; p.vain > slackVain && ready == o.Replicas {
				// Something other than cpu is short: threads, connections, a disk.
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

// shape returns the number of pods for some work, and the factor for their cpu.
func (p *Predictive) shape(o *mpa.Observation, work, size float64) (replicas int32, factor float64) {
	n := o.Replicas
	have := size * float64(n)
	// At the most replicas only larger pods help.
	stuck := n < p.target.Replicas.Max && len(p.resized) >= sizeResizes || slices.ContainsFunc(o.Live(), func(pod mpa.Pod) bool { return pod.Resize == mpa.Deferred || pod.Resize == mpa.Infeasible })
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
		if !stuck && f <= sizeStep && p.target.MayHave(size*f) {
			return n, f
		}
		return max(n, p.pods(work*sizeSpare, size)), 1
	case o.Time.Sub(p.begun) < sizeHold:
		return n, 1
	case max(fits, fewest) < n:
		return max(fits, fewest), 1
	case high < sizeLess*have && mayShrink && p.target.MayHave(high/float64(n)):
		return n, high / have
	case n > fewest && o.Time.Sub(p.changed) >= sizeCalm && !stuck && mayShrink:
		// One pod less, whose work the others take.
		f := max(p.need(most, n-1)*sizeSpare/(size*float64(n-1)), 1.11)
		if f <= sizeStep && p.target.MayHave(size*f) {
			return n, f
		}
	}
	return n, 1
}

// atLeast returns the smallest number of pods to use now.
func (p *Predictive) atLeast(now time.Time) int32 {
	if now.After(p.until) {
		return p.target.Replicas.Min
	}
	return p.target.Replicas.Clamp(p.fewest)
}

// pods returns how many pods of a size in cores some work needs.
func (p *Predictive) pods(work, size float64) int32 {
	n := p.target.Replicas.Min
	for n < p.target.Replicas.Max && p.need(work, n) > size*float64(n) {
		n++
	}
	return n
}

// sizeMemory returns the memory that each container should have, in bytes; nil = no change.
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

// sway returns how far the memory of container i moved in an hour, in bytes.
func (p *Predictive) sway(i int, peak int64) float64 {
	low := peak
	for _, l := range p.least[i] {
		low = min(low, l.value)
	}
	return float64(peak - low)
}

// used returns the most memory of container i in any pod now. A container that ran out of
// memory used all that it had.
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
			// After a kill from before this agent began, the requests may already be larger.
			if c.Killed.After(p.memory[i].CeilingTime) && c.Killed.After(p.begun.Add(-predictMaxAge)) {
				p.memory[i].CeilingTime = c.Killed
				most = max(most, mpa.Scale(c.Request.Memory, memoryKill))
			}
		}
	}
	p.least[i] = since(p.least[i], o.Time.Add(-time.Hour))
	if least != math.MaxInt64 {
		p.least[i] = append(p.least[i], timed[int64]{o.Time, least})
	}
	return most
}

// merge returns the requests with cpu times a factor and with some memory; nil = no
// change.
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
			// Larger pods serve more requests at once.
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
