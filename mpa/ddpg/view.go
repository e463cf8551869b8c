package ddpg

import (
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// StateSize and ActionSize are the numbers that a network reads and writes.
const (
	StateSize  = 10
	ActionSize = 3
)

// Step is the time between two actions: half of the window that usage is averaged over.
const Step = 30 * time.Second

const (
	maxAge  = 2 * time.Minute
	reach   = 4 // factor of the first size that an action reaches, up and down
	fewest  = 2 // replicas that an action reaches
	most    = 20
	mostLog = 3 // bound of logarithms in a state
)

// start is the first size and number of the pods. All sizes are relative to it.
type start struct {
	Replicas int32           `json:"replicas"`
	Requests []mpa.Resources `json:"requests"`
}

func total(list []mpa.Resources) (r mpa.Resources) {
	for _, v := range list {
		r = r.Add(v)
	}
	return r
}

// A view holds an observation relative to the start.
type view struct {
	cpu, memory, replicas   float64 // ÷ those at the start
	cpuUsed, memoryUsed     float64 // shares of the requests
	rate, answered, latency float64 // per second; share of the rate; ÷ the promised one, 0 = unknown
	measured                float64 // share of the pods
}

// look returns the view of an observation, with the present requests of a pod.
func (s *start) look(o *mpa.Observation, t *mpa.Target, requests []mpa.Resources) view {
	now, first := total(requests), total(s.Requests)
	v := view{
		cpu: ratio(now.CPU, first.CPU), memory: ratio(now.Memory, first.Memory),
		replicas: float64(max(1, o.Replicas)) / float64(max(1, s.Replicas)), answered: 1,
	}
	var used, asked mpa.Resources
	pods := o.Live()
	for i := range pods {
		known := len(pods[i].Containers) > 0
		for _, c := range pods[i].Containers {
			known = known && c.Usage.Known(o.Time, maxAge)
		}
		if !known {
			continue
		}
		v.measured += 1 / float64(len(pods))
		for _, c := range pods[i].Containers {
			used, asked = used.Add(c.Usage.Resources), asked.Add(c.Request)
		}
	}
	v.cpuUsed, v.memoryUsed = min(1, ratio(used.CPU, asked.CPU)), min(1, ratio(used.Memory, asked.Memory))
	if o.Rate.Known(o.Time, maxAge) && o.Rate.Value > 0 && o.Rate.Value <= math.MaxFloat64 {
		v.rate, v.answered = o.Rate.Value, 0
		if o.Throughput.Known(o.Time, maxAge) && o.Throughput.Value > 0 {
			v.answered = min(1, o.Throughput.Value/v.rate)
		}
	}
	if o.Latency.Known(o.Time, maxAge) && o.Latency.Value > 0 && t.SLO.Latency > 0 {
		v.latency = o.Latency.Value / t.SLO.Latency
	}
	return v
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// kept is SP, the share of the promise that is kept: 1 where latency is as promised.
func (v *view) kept() float64 {
	if v.latency == 0 {
		return 1
	}
	return min(1, 1/v.latency)
}

// state returns AWARE's ten numbers: sizes and replicas, utilisation, the promise by
// throughput and by latency, and the change of the load. before is the rate a step ago.
func (v *view) state(before float64, out []float32) {
	log := func(x float64) float64 { return max(-mostLog, min(mostLog, math.Log(max(1e-9, x)))) }
	change, latency := 0.0, 0.0
	if before > 0 && v.rate > 0 {
		change = log(v.rate / before)
	}
	if v.latency > 0 {
		latency = log(v.latency)
	}
	for i, x := range [StateSize]float64{
		log(v.cpu), log(v.memory), log(v.replicas), v.cpuUsed, v.memoryUsed, v.answered, v.kept(), change, latency, v.measured,
	} {
		out[i] = float32(x)
	}
}

// A Reward computes the value of a step.
type Reward int

const (
	// Paper is AWARE's reward: .3·RU + .7·SP, with RU the mean utilisation of cpu and memory
	// and SP = min(1, promised latency ÷ latency). It uses answered and measured requests
	// alone, and skips a step without measurement.
	Paper Reward = iota
	// Promise is −cost ÷ cost at the start − ln(1 + max(0, used − .7)). Used is the share
	// of the requests that were not answered in time ÷ the share that the promise
	// forgives. It has no cap, and a step without measurement is the worst there is.
	Promise
)

const (
	paperAlpha = .3
	freeUse    = .7 // of the forgiven share, free of cost
	// leastLost is the share of the rate from which on requests count as unanswered: less is the noise of
	// requests under way at the begin and the end of a window.
	leastLost  = .02
	gibPerCore = 8 // as in the costs of mpa/sim
)

// of returns the reward of a step; ok is false if the paper has no figure.
func (r Reward) of(v *view, t *mpa.Target, s *start) (reward float64, ok bool) {
	if r == Paper {
		return paperAlpha*(v.cpuUsed+v.memoryUsed)/2 + (1-paperAlpha)*v.kept(), v.measured > 0
	}
	first := total(s.Requests)
	cores, gib := float64(first.CPU)/1000, float64(first.Memory)/(1<<30)/gibPerCore
	cost := v.replicas * (v.cpu*cores + v.memory*gib) / (cores + gib)
	return -cost - math.Log1p(max(0, v.used(t)-freeUse)), true
}

// used estimates the share of the forgiven requests of a window that were late or lost.
// Only one percentile of latency is measured; the tail through it is taken as exponential.
func (v *view) used(t *mpa.Target) float64 {
	forgiven := 1 - t.SLO.Percentile/100
	if v.measured == 0 {
		return 1 / forgiven
	}
	lost := 1 - v.answered
	if lost < leastLost {
		lost = 0
	}
	late := 0.0
	if v.latency > 0 {
		late = math.Pow(forgiven, min(4, 1/v.latency))
	}
	return (lost + (1-lost)*late) / forgiven
}

// size returns the recommendation of an action: cpu and memory as powers of 4 of the first
// size, and 2 to 20 replicas.
func (s *start) size(action []float32, t *mpa.Target) mpa.Recommendation {
	r := mpa.Recommendation{Replicas: t.Replicas.Clamp(int32(math.Round(fewest + (float64(action[2])+1)/2*(most-fewest))))}
	for _, first := range s.Requests {
		r.Containers = append(r.Containers, mpa.Resources{
			CPU:    max(1, mpa.Scale(first.CPU, math.Pow(reach, float64(action[0])))),
			Memory: max(1, mpa.Scale(first.Memory, math.Pow(reach, float64(action[1])))),
		})
	}
	return r
}

// action is the action nearest to a recommendation that names replicas and sizes.
func (s *start) action(r *mpa.Recommendation, out []float32) {
	now, first := total(r.Containers), total(s.Requests)
	unit := func(x float64) float32 { return float32(max(-1, min(1, x))) }
	out[0] = unit(math.Log(max(1e-9, ratio(now.CPU, first.CPU))) / math.Log(reach))
	out[1] = unit(math.Log(max(1e-9, ratio(now.Memory, first.Memory))) / math.Log(reach))
	out[2] = unit(2*float64(r.Replicas-fewest)/(most-fewest) - 1)
}
