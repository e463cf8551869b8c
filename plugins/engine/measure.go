package engine

import (
	"time"

	"github.com/sigma-scheduler/sigma/binpack/measure"
)

// measureEvery is the interval at which gauges are brought up to date.
const measureEvery = 5 * time.Second

// measured is the time when the gauges were set, and their resources.
type measured struct {
	every     time.Duration
	at        time.Time
	resources map[string]bool // whose allocation rate is shown
}

// Measure brings the gauges up to date while no pods arrive.
func (e *Engine) Measure() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.measure()
}

// measure brings the gauges up to date and writes the decision log, if that is due.
func (e *Engine) measure() {
	now := e.opt.Now()
	if now.Sub(e.measured.at) < e.measured.every {
		return
	}
	e.measured.at = now
	state := e.state.ledger.Columns()
	before := e.measured.resources
	e.measured.resources = map[string]bool{}
	for d, rate := range measure.AllocationRate(state) {
		name := state.Instance().Dimensions[d].Name
		e.metrics.allocation.WithLabelValues(name).Set(rate)
		e.measured.resources[name] = true
	}
	for name := range before {
		if !e.measured.resources[name] { // no app requests it any more
			e.metrics.allocation.forget(name)
		}
	}
	e.metrics.fragment.Set(measure.Fragment(state, state.Alive()))
	e.metrics.active.Set(float64(state.Active()))
	e.metrics.nodes.Set(float64(state.Size()))
	e.metrics.waiting.Set(float64(e.state.ledger.Waiting()))
	e.metrics.apps.Set(float64(e.state.ledger.AppCount()))
	e.state.log.flush()
}
