package generate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Values of the parameter usage.
const (
	_ = iota // none
	_        // 1
	usageHot
)

const (
	usageStep  = 300.  // seconds between samples of cpu
	memoryStep = 3600. // and of memory
	usageAbove = .1    // share of the apps whose p99 of cpu is above their request
	usageMonth = 28    // days of the stated growth

	usageLow, usageHigh = 1.5, 6. // bounds of p99 ÷ mean of cpu
	memoryMost          = .97     // of the request
)

var memoryMean = [2]float64{.4, .8} // the range of mean use ÷ request of memory

// A load is the use of an app: its level, the course that all its items share, and the size of
// their own noise.
type load struct {
	level  float64   // mean use ÷ request
	ratio  float64   // p99 ÷ mean of one item
	limit  float64   // of cpu ÷ request
	shared []float32 // by step; the product with exp(by · noise) has mean 1
	by     float64
}

// addUsage draws the usage of the pods: by app a level, a day, weekends and a growth,
// and for each pod a noise with bursts. Time 0 is a Thursday, as of Unix.
func addUsage(rng *rand.Rand, t *trace.Trace, work []workload, end float64, kind float64) {
	if kind == 0 {
		return
	}
	sample := make([]float64, int(math.Ceil(end/usageStep)))
	for n, i := newNoise(rng), 0; i < len(sample); i++ {
		sample[i] = n.next(rng)
	}
	loads, memory, jobs := make([]load, len(work)), make([]load, len(work)), []any{}
	for a := range work {
		loads[a].draw(rng, kind == usageHot)
		loads[a].shape(rng, sample)
		memory[a].level = memoryMean[0] + (memoryMean[1]-memoryMean[0])*rng.Float64()
		memory[a].fill(rng, int(math.Ceil(end/memoryStep)))
		if work[a].period > 0 {
			jobs = append(jobs, t.Instance.Apps[a].Name)
		}
	}
	t.Source["jobs"] = jobs
	lives := lifetimes(t, end)
	u := &trace.Usage{}
	for i, q := range t.Requests {
		app := &t.Instance.Apps[q.App]
		own, noise := Lognormal(rng, .1), newNoise(rng)
		cpu := trace.Series{App: q.App, Dimension: 0, Item: q.Name, Step: usageStep}
		from, until := stepsOf(&cpu, lives[i], len(loads[q.App].shared))
		request := float64(app.Demand[0]) / float64(t.Instance.Dimensions[0].One)
		for k := from; k < until; k++ {
			v := request * loads[q.App].level * own * float64(loads[q.App].shared[k]) * math.Exp(loads[q.App].by*noise.next(rng))
			v = min(v, request*loads[q.App].limit)
			cpu.Values = append(cpu.Values, float32(v))
		}
		held := trace.Series{App: q.App, Dimension: 1, Item: q.Name, Step: memoryStep}
		from, until = stepsOf(&held, lives[i], len(memory[q.App].shared))
		own = 1 + .04*rng.NormFloat64()
		for k := from; k < until; k++ {
			v := min(memoryMost, memory[q.App].level*own*float64(memory[q.App].shared[k])) * float64(app.Demand[1])
			held.Values = append(held.Values, float32(v))
		}
		u.Series = append(u.Series, cpu, held)
	}
	settle(t.Instance, u, loads, kind == usageHot)
	t.SetUsage(u)
}

// settle rounds the values, and keeps the apps in the stated ranges.
func settle(inst *binpack.Instance, u *trace.Usage, loads []load, hot bool) {
	series := make([][2][]*trace.Series, len(inst.Apps))
	for i := range u.Series {
		s := &u.Series[i]
		series[s.App][s.Dimension] = append(series[s.App][s.Dimension], s)
	}
	for a := range inst.Apps {
		cpu, memory := float64(inst.Apps[a].Demand[0]), float64(inst.Apps[a].Demand[1])/(1<<20)
		used := stated{units: 1000, round: math.Round, request: cpu, limit: loads[a].limit * cpu, mean: meanUse(hot), ratio: [2]float64{usageLow, usageHigh}, above: loads[a].limit > 1}
		used.settle(series[a][0])
		held := stated{units: 1. / (1 << 20), round: math.Ceil, request: memory, limit: memoryMost * memory, mean: memoryMean}
		held.settle(series[a][1])
	}
}

// meanUse is the range of mean use ÷ request of cpu.
func meanUse(hot bool) [2]float64 {
	if hot {
		return [2]float64{.54, .63}
	}
	return [2]float64{.15, .45}
}

// draw draws the level of an app, and the p99 of its pods beside it: a tenth of the apps
// are above their request at p99, and have a limit above it; the others never are.
func (l *load) draw(rng *rand.Rand, hot bool) {
	mean := meanUse(hot)
	least, most := mean[0], mean[1]
	l.level = least + (most-least)*rng.Float64()
	low, high := usageLow, max(usageLow, min(usageHigh, .95/l.level))
	above := rng.Float64() < usageAbove
	if above {
		l.level = (least+most)/2 + (most-least)/2*rng.Float64()
		low, high = max(usageLow, 1.1/l.level), usageHigh
	}
	l.ratio = low * math.Pow(high/low, rng.Float64())
	if l.limit = 1; above {
		l.limit = 1.25 * l.ratio * l.level
	}
}

// A podNoise is the logarithm of a pod's noise: a slow part, bursts of some quarters of an
// hour, and the rest. Each pod draws its own, so no day has the noise of another.
type podNoise struct{ slow, burst float64 }

func newNoise(rng *rand.Rand) *podNoise {
	return &podNoise{slow: .1 / math.Sqrt(1-.95*.95) * rng.NormFloat64()}
}

// next is the noise of the next step.
func (n *podNoise) next(rng *rand.Rand) float64 {
	n.slow = .95*n.slow + .1*rng.NormFloat64()
	if n.burst *= .7; rng.Float64() < 1./150 {
		n.burst += .5 + rng.Float64()
	}
	return n.slow + n.burst + .2*rng.NormFloat64()
}

// shape draws the course of an app, and stretches it together with a sample of the noise
// until p99 ÷ mean of a pod is the ratio.
func (l *load) shape(rng *rand.Rand, noise []float64) {
	steps := len(noise)
	peak, weekend := 24*rng.Float64(), .3+.5*rng.Float64()
	if rng.Float64() < .7 {
		peak = 11 + 5*rng.Float64()
	}
	growth := -.1 + .3*rng.Float64()
	course := func(k int, by float64) float64 {
		at := float64(k) * usageStep
		g := .6 * math.Cos(2*math.Pi*(at/3600-peak)/24)
		if d := int(at/day) % 7; d == 2 || d == 3 {
			g -= weekend
		}
		return math.Exp(by*g) * (1 + growth*at/day/usageMonth)
	}
	const coarse = 7 // steps; no divisor of a day
	values := make([]float64, 0, steps/coarse+1)
	low, high, mean := 0., 5., 1.
	for range 14 {
		by, sum := (low+high)/2, 0.
		values = values[:0]
		for k := 0; k < steps; k += coarse {
			v := course(k, by) * math.Exp(by*noise[k])
			values, sum = append(values, v), sum+v
		}
		slices.Sort(values)
		mean = sum / float64(len(values))
		if values[int(.99*float64(len(values)-1))] < l.ratio*mean {
			low = by
		} else {
			high = by
		}
	}
	for k := range steps {
		l.shared = append(l.shared, float32(course(k, high)/mean))
	}
	l.by = high
}

// fill is the course of memory: it grows slowly and falls back at times.
func (l *load) fill(rng *rand.Rand, steps int) {
	v, growth := 1., .0001*rng.Float64()
	for range steps {
		v += growth + .004*rng.NormFloat64() - .02*(v-1)
		l.shared = append(l.shared, float32(v))
	}
}

// A span is the life of a request's items.
type span struct{ from, until float64 }

func lifetimes(t *trace.Trace, end float64) []span {
	lives := make([]span, len(t.Requests))
	for i := range lives {
		lives[i].until = end
	}
	for _, e := range t.Events {
		if e.Kind == trace.Create {
			lives[e.Request].from = e.Time
		} else {
			lives[e.Request].until = min(end, e.Time)
		}
	}
	return lives
}

// stepsOf are the steps of the clock in which an item lives, at least one.
func stepsOf(s *trace.Series, life span, steps int) (from, until int) {
	from = min(steps-1, int(life.from/s.Step))
	s.Start = float64(from) * s.Step
	return from, max(from+1, min(steps, int(math.Ceil(life.until/s.Step))))
}
