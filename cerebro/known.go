package cerebro

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// withoutForecast is the instance as policies see it: grant adds the expected numbers and
// lifetimes of a level.
func withoutForecast(inst *binpack.Instance) *binpack.Instance {
	seen := *inst
	seen.Apps = slices.Clone(inst.Apps)
	for a := range seen.Apps {
		seen.Apps[a].Expected, seen.Apps[a].Lifetime, seen.Apps[a].Declared = -1, -1, 0
	}
	return &seen
}

// wholeRequests reports whether the items of a request arrive together, as one request: in traces that state it, in the
// article's instances, and in azure, where tenants request machines in batches. All others are of clusters, where a
// scheduler gets one pod at a time.
func wholeRequests(t *trace.Trace) bool {
	generator, _ := t.Source["generator"].(string)
	kind, generated := strings.CutPrefix(generator, "sigma generate ")
	return generated && kind != "kubernetes" || t.Source["origin"] == "azure" || t.Source["requests"] == "whole"
}

// scan computes the values that all orders share: forecast, totals, the period.
func (r *Replayer) scan() {
	t := r.trace
	apps := t.Instance.Apps
	r.total = make([]float64, len(t.Instance.Dimensions))
	r.firstTime, r.lastTime = math.Inf(1), math.Inf(-1)
	for _, e := range t.Events {
		q := t.Requests[e.Request]
		if e.Kind == trace.Delete {
			r.deletes = true
			continue
		}
		for d, need := range apps[q.App].Demand {
			r.total[d] += float64(need) * float64(q.Count)
		}
		r.firstTime, r.lastTime = min(r.firstTime, e.Time), max(r.lastTime, e.Time)
	}
	r.known.Total = r.peaks(t.Events)
	for _, app := range apps {
		r.known.Expected = append(r.known.Expected, app.Expected)
		r.known.Lifetime = append(r.known.Lifetime, app.Lifetime)
		r.declared = append(r.declared, cmp.Or(app.Declared, app.Expected))
	}
}

// peaks is the largest number of items of each app that are alive at a time.
func (r *Replayer) peaks(events []trace.Event) []int64 {
	t := r.trace
	alive := make([]int64, len(t.Instance.Apps))
	for _, q := range t.Requests[:t.Initial] {
		alive[q.App] += int64(q.Count)
	}
	peak := slices.Clone(alive)
	for _, e := range events {
		a := t.Requests[e.Request].App
		if e.Kind == trace.Delete {
			alive[a] -= int64(e.Count)
			continue
		}
		alive[a] += int64(t.Requests[e.Request].Count)
		peak[a] = max(peak[a], alive[a])
	}
	return peak
}

// Totals is the true number of items per app (with deletes: at the app's
// peak in the file's order).
func (r *Replayer) Totals() []int64 { return r.known.Total }

// grant gives a level its facts and hides the others.
func (r *Replayer) grant(k binpack.Knowledge) binpack.Known {
	known := binpack.Known{Elapsed: -1}
	if k.Clock() {
		known.Elapsed = 0
	}
	if k.Forecast() {
		known.Expected, known.Lifetime = r.known.Expected, r.known.Lifetime
	}
	if k == binpack.K2 {
		known.Total = r.known.Total
		if opt := r.run.opt; r.deletes && opt.Order > 0 { // the peaks depend on the order
			known.Total = r.peaks(r.events(opt.Seed, opt.Order, opt.Usage != nil))
		}
	}
	return known
}

// mix is the number of items per app in the whole trace.
func (r *Replayer) mix() []int64 {
	mix := make([]int64, len(r.trace.Instance.Apps))
	for _, q := range r.trace.Requests {
		mix[q.App] += int64(q.Count)
	}
	return mix
}
