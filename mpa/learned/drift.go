package learned

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/sigma-scheduler/sigma/internal/learn/drift"
	"github.com/sigma-scheduler/sigma/mpa"
)

// watches look for a new version of the workload: requests of another cpu, and a latency
// that the model does not explain. Each takes a value a minute. After an alarm a watch begins
// from scratch, so that its next one is at least two hours away; after one of the cpu, both.
type watches struct {
	Last    time.Time    `json:"last,omitzero"` // of the last values
	CPU     cpuWatch     `json:"cpu"`
	Latency latencyWatch `json:"latency"`
}

// cpuWatch looks at the log of the cpu per request less its level, times the root of the
// requests: the noise is then the same at all rates.
type cpuWatch struct {
	Count    int                `json:"count,omitempty"` // minutes that the level is from
	Sum      float64            `json:"sum,omitempty"`   // of weighted logs
	Weight   float64            `json:"weight,omitempty"`
	Newest   [3]float64         `json:"newest"` // logs of the last minutes, as many as an alarm needs
	Detector *drift.PageHinkley `json:"detector"`
}

// latencyWatch tests the log of the latency less a linear model in two quantities: the share
// of the cpu that is free, and the size of a pod in requests a second.
type latencyWatch struct {
	Count    int                `json:"count,omitempty"` // minutes that the model is from
	Squares  [6]float64         `json:"squares"`         // XᵀX, upper triangle
	Products [3]float64         `json:"products"`        // Xᵀy
	Model    [3]float64         `json:"model"`
	Detector *drift.PageHinkley `json:"detector"`
}

// Chosen on generated scenarios of the train side.
const (
	watchEvery    = time.Minute
	levelMinutes  = 30
	modelMinutes  = 60
	modelRidge    = .05 // on the slopes: the first hours may show one size only
	mostBusy      = .95
	watchedAnswer = .95 // share of the rate
)

var (
	cpuSettings     = drift.Settings{Delta: drift.DefaultDelta, Lambda: drift.DefaultLambda, Reference: 90}
	latencySettings = drift.Settings{Delta: 2.5, Lambda: 40, Reference: 60}
)

func newWatches() watches {
	detector := func(s drift.Settings) *drift.PageHinkley {
		p, err := drift.NewPageHinkley(s)
		if err != nil {
			panic(err) // constants
		}
		return p
	}
	return watches{CPU: cpuWatch{Detector: detector(cpuSettings)}, Latency: latencyWatch{Detector: detector(latencySettings)}}
}

// watch returns the property of the workload that has changed, in a few words; "" = no
// change. After a change it identifies the workload anew.
func (a *Agent) watch(o *mpa.Observation, w *workload) string {
	s := &a.s
	if w.rate == 0 || s.Cost == 0 || !o.Throughput.Known(o.Time, maxAge) || a.killed(o) {
		return ""
	}
	overloaded := w.latency > 1 && w.cores > busyFull*w.size*w.ready
	done := o.Throughput.Value
	if done < watchedAnswer*w.rate || overloaded || w.cores == 0 || o.Time.Sub(s.Watches.Last) < watchEvery {
		return ""
	}
	s.Watches.Last = o.Time
	cpu, level, cost := s.Watches.CPU.see(w.cores/done, done*watchEvery.Seconds())
	latency := drift.None
	if w.latency > 0 {
		latency = s.Watches.Latency.see(w.latency, 1-min(mostBusy, w.rate*s.Cost/(w.ready*w.size)), w.size/s.Cost)
	}
	if cpu == drift.None && latency == drift.None {
		return ""
	}
	s.Watches.Latency = newWatches().Latency
	if cpu != drift.None {
		s.Watches.CPU = newWatches().CPU
		s.Cost, s.Fresh = cost, freshPrior
		// The usual demand of the day is in cores.
		for slot := range s.Usual {
			s.Usual[slot] *= cost / level
		}
		return fmt.Sprintf("cpu per request is %s: %.3g core-seconds, %.3g before", direction(cpu), cost, level)
	}
	// The slack and the rate at which something else ran short belong to another version.
	s.Beta, s.Vain, s.Short = max(s.Beta, a.v[betaFirst]), 0, 0
	return fmt.Sprintf("latency is %s than load and size explain: %.3g of the promise", direction(latency), w.latency)
}

func direction(c drift.Change) string {
	if c == drift.Up {
		return "higher"
	}
	return "lower"
}

// see takes the cpu of a request, in core-seconds, that is measured over some requests. It
// also returns the level, and the mean of the last minutes.
func (c *cpuWatch) see(cost, requests float64) (found drift.Change, level, newest float64) {
	x := math.Log(cost)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return drift.None, 0, 0
	}
	if c.Count < levelMinutes {
		c.Count++
		c.Sum, c.Weight = c.Sum+requests*x, c.Weight+requests
		return drift.None, 0, 0
	}
	level = c.Sum / c.Weight
	c.Newest = [3]float64{x, c.Newest[0], c.Newest[1]}
	if found, err := c.Detector.Observe((x - level) * math.Sqrt(requests)); err == nil && found != drift.None {
		return found, math.Exp(level), math.Exp((c.Newest[0] + c.Newest[1] + c.Newest[2]) / 3)
	}
	return drift.None, 0, 0
}

// see takes the latency ÷ the promise, with the free share of the cpu and the size in
// requests a second.
func (l *latencyWatch) see(latency, free, size float64) drift.Change {
	x, y := [3]float64{1, math.Log(free), math.Log(size)}, math.Log(latency)
	if sum := x[1] + x[2] + y; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return drift.None
	}
	if l.Count < modelMinutes {
		at := 0
		for i := range x {
			l.Products[i] += x[i] * y
			for j := i; j < len(x); j++ {
				l.Squares[at] += x[i] * x[j]
				at++
			}
		}
		if l.Count++; l.Count == modelMinutes && l.fit() != nil {
			*l = latencyWatch{Detector: l.Detector}
		}
		return drift.None
	}
	for i := range x {
		y -= l.Model[i] * x[i]
	}
	found, err := l.Detector.Observe(y)
	if err != nil {
		return drift.None
	}
	return found
}

// fit solves the normal equations.
func (l *latencyWatch) fit() error {
	q := l.Squares
	squares := mat.NewSymDense(3, []float64{q[0], q[1], q[2], q[1], q[3] + modelRidge, q[4], q[2], q[4], q[5] + modelRidge})
	var c mat.Cholesky
	if !c.Factorize(squares) {
		return errors.New("learned: no model of the latency")
	}
	return c.SolveVecTo(mat.NewVecDense(3, l.Model[:]), mat.NewVecDense(3, l.Products[:]))
}

// check returns an error for watches that were read and are invalid.
func (w *watches) check() error {
	switch {
	case w.CPU.Detector == nil || w.Latency.Detector == nil:
		return errors.New("learned: watches: a detector is null")
	case w.CPU.Count < 0 || w.CPU.Count > levelMinutes || (w.CPU.Count > 0) != (w.CPU.Weight > 0):
		return fmt.Errorf("learned: watches.cpu: %d minutes, weight %v", w.CPU.Count, w.CPU.Weight)
	case w.Latency.Count < 0 || w.Latency.Count > modelMinutes:
		return fmt.Errorf("learned: watches.latency: %d minutes, want 0 to %d", w.Latency.Count, modelMinutes)
	}
	return nil
}
