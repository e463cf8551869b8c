package phases

import (
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// With returns the window with an observation, without those from its length before it.
func (w Window) With(o *mpa.Observation, t *mpa.Target, window time.Duration) Window {
	return w.with(o, t, window)
}

// Config returns the simulation of the workload by a window that ends now. It fails if the
// window lacks the rate or the cpu of a request.
func (w Window) Config(now time.Time, window time.Duration, t *mpa.Target) (sim.Config, error) {
	return w.config(now, window, t, mpa.DefaultGuards())
}
