package generate

import (
	"cmp"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Days builds days of roll-outs, scaling and jobs from the workloads of a trace, as the kind kubernetes
// draws them: an app with items at the end of the trace is a Deployment, and one that has none there a
// cron job. Items at the end are the most that a Deployment scales to, so that a day needs hardly more
// than the machines of the trace hold. The result shares the instance of the trace.
func Days(t *trace.Trace, seed uint64, days int) *trace.Trace {
	alive := make([]int, len(t.Instance.Apps))
	for _, q := range t.Requests[:t.Initial] {
		alive[q.App] += int(q.Count)
	}
	for _, e := range t.Events {
		app := t.Requests[e.Request].App
		if e.Kind == trace.Create {
			alive[app] += int(e.Count)
		} else {
			alive[app] -= int(e.Count)
		}
	}
	end := float64(days) * day
	rng, life := Stream(seed, StreamApps), Stream(seed, streamLifetimes)
	var arrivals []arrival
	for app, n := range alive {
		w := workload{replicas: n}
		switch {
		case n == 0:
			w = drawJob(rng)
		case rng.Float64() < scaling:
			w.amplitude = min(drawAmplitude(rng), float64(n-1))
			w.replicas = int(float64(n) / (1 + w.amplitude))
		}
		for _, pod := range w.life(life, end) {
			pod.app = int32(app)
			arrivals = append(arrivals, pod)
		}
	}
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.time, b.time) })
	out := &trace.Trace{Name: t.Name, Instance: t.Instance, MeasureFrom: math.NaN()}
	addArrivals(out, arrivals, end)
	return out
}
