package phases

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	// known is the share of the window's steps that must have a sample.
	known = .9
	// runs of each agent, with the same requests for both.
	runs = 3
	// warmup before the window, at its first rate: it does not count, and is as long as in training.
	warmup = 30 * time.Minute
	// sliceRate: above it, in requests per second, a slice of the workload is simulated: a
	// whole part of the rate on as large a part of the pods.
	sliceRate = 100.
	// mostRequests of a run bound the time of a verdict to some seconds.
	mostRequests = 2e6
	// unloaded is the quantile of latency that is taken for that of a single request.
	unloaded = .25
	// leastWorkers of a pod: their real number is unknown.
	leastWorkers = 16
)

// Judge simulates both agents on the load of a window that ends now. The same window gives
// the same verdict.
func (w Window) Judge(now time.Time, window time.Duration, t mpa.Target, g mpa.Guards, m Makers) mpa.Verdict {
	v := mpa.Verdict{Time: now}
	cfg, err := w.config(now, window, &t, g)
	if err != nil {
		v.Missing = err.Error()
		return v
	}
	for seed := range uint64(runs) {
		cfg.Seed = seed
		cfg.Agent = m.Rules(cfg.App.Target)
		rules, err := sim.Run(context.Background(), cfg)
		if err == nil {
			cfg.Agent = &agents.Fallback{First: m.Candidate(cfg.App.Target), Second: m.Rules(cfg.App.Target), After: m.After}
			var candidate sim.Result
			if candidate, err = sim.Run(context.Background(), cfg); err == nil {
				add(&v, cfg.App.Target.SLO, &rules, &candidate)
			}
		}
		if err != nil {
			return mpa.Verdict{Time: now, Missing: fmt.Sprintf("the simulation failed: %v", err)}
		}
	}
	return v
}

// add adds a run to a verdict.
func add(v *mpa.Verdict, slo mpa.SLO, rules, candidate *sim.Result) {
	n := float64(v.Runs)
	v.Rules = (n*v.Rules + rules.Objective(slo, rules)) / (n + 1)
	v.Candidate = (n*v.Candidate + candidate.Objective(slo, rules)) / (n + 1)
	if !rules.Kept(slo) {
		v.RulesBroken++
	}
	if !candidate.Kept(slo) {
		v.CandidateBroken++
	}
	v.Runs++
}

// config returns the simulation of the workload as the window shows it.
func (w Window) config(now time.Time, window time.Duration, t *mpa.Target, g mpa.Guards) (sim.Config, error) {
	step := space(window)
	load := loadsim.Load{Step: step.Seconds(), PerSec: make([]float64, int(window/step))}
	for i := range load.PerSec {
		load.PerSec[i] = -1
	}
	for i := range w {
		if at := len(load.PerSec) - 1 - int(now.Sub(w[i].Time)/step); at >= 0 && at < len(load.PerSec) {
			load.PerSec[at] = w[i].Rate
		}
	}
	// A rate holds until the next, for a while.
	seen, holds, age := 0, int(min(maxAge, window/10)/step), len(load.PerSec)
	sum, last := 0.0, 0.0
	if len(w) > 0 {
		last = w[0].Rate
	}
	for i, r := range load.PerSec {
		if age++; r >= 0 {
			last, age = r, 0
		}
		if age <= holds {
			seen++
		}
		load.PerSec[i] = last
		sum += load.PerSec[i]
	}
	if share := float64(seen) / float64(len(load.PerSec)); share < known {
		return sim.Config{}, fmt.Errorf("the rate is known for %.0f %% of the window, want %.0f %%", 100*share, 100*known)
	}
	app, err := w.app(t)
	if err != nil {
		return sim.Config{}, err
	}
	least := w[0].Replicas
	for i := range w {
		least = min(least, w[i].Replicas)
	}
	if parts := math.Floor(min(sum/float64(len(load.PerSec))/sliceRate, float64(least)/2)); parts > 1 {
		sum /= parts
		for i := range load.PerSec {
			load.PerSec[i] /= parts
		}
		part := func(n int32) int32 { return int32(math.Ceil(float64(n) / parts)) }
		app.Replicas = part(app.Replicas)
		app.Target.Replicas = mpa.Range{Min: part(t.Replicas.Min), Max: part(t.Replicas.Max)}
	}
	if sum*load.Step > mostRequests {
		return sim.Config{}, fmt.Errorf("%.3g requests are too many to simulate, of so few pods", sum*load.Step)
	}
	load.PerSec = append(slices.Repeat(load.PerSec[:1], int(warmup/step)), load.PerSec...)
	site := sim.DefaultSite()
	for i := range site.Nodes {
		site.Nodes[i] = mpa.Resources{CPU: 1e9, Memory: 1 << 50} // the use of nodes is unknown
	}
	return sim.Config{
		App: app, Load: load, Seconds: (warmup + window).Seconds(), Warmup: warmup.Seconds(), Guards: g, Site: site,
	}, nil
}

// app returns the application that the samples show: a cpu demand and a wait.
func (w Window) app(t *mpa.Target) (sim.App, error) {
	var cores, rate, peak float64 // the peak of a pod
	var latencies []float64
	app := sim.App{Name: "window", Replicas: t.Replicas.Clamp(w[0].Replicas), Request: w[0].Request, Target: *t}
	for i := range w {
		if s := &w[i]; s.Cores > 0 && s.Rate > 0 {
			cores, rate = cores+s.Cores, rate+s.Rate
			latencies = append(latencies, s.Latency)
		}
		peak = max(peak, w[i].Rate/float64(max(1, w[i].Replicas)))
		app.Memory.Base = max(app.Memory.Base, float64(w[i].Memory))
	}
	switch {
	case t.SLO.Latency == 0:
		return app, fmt.Errorf("no latency is promised")
	case rate == 0:
		return app, fmt.Errorf("cpu per request is not known: it is measured while the promise is kept")
	}
	slices.Sort(latencies)
	cost, single := cores/rate, latencies[int(unloaded*float64(len(latencies)))]
	stretched := cost * max(1, 1000/float64(max(1, w[0].Request.CPU)))
	g := loadsim.Segment{Name: "window", CPU: loadsim.Dist{Mean: cost, CV: variation(single/stretched, t.SLO.Percentile)}}
	if g.CPU.CV == 1 || g.CPU.CV == 0 {
		g.Wait.Mean = max(0, single-stretched*tail(g.CPU.CV, t.SLO.Percentile))
	}
	// Requests that wait for a worker wait in turn, as in the generated applications.
	workers := int(math.Ceil(max(leastWorkers, 2*peak*single)))
	app.Service = loadsim.Service{Segments: []loadsim.Segment{g}, Workers: workers, Queue: 100, Timeout: 5 * t.SLO.Latency, Retries: 1}
	app.Target.Off = false
	all := mpa.ContainerSpec{Name: "window", CPU: true, Memory: true}
	for _, c := range t.Containers {
		all.Min, all.Max = all.Min.Add(c.Min), all.Max.Add(c.Max)
		all.CPU, all.Memory = all.CPU && c.CPU, all.Memory && c.Memory
	}
	for _, c := range t.Containers { // one container without a limit means no limit of all
		if c.Max.CPU == 0 {
			all.Max.CPU = 0
		}
		if c.Max.Memory == 0 {
			all.Max.Memory = 0
		}
	}
	app.Target.Containers = []mpa.ContainerSpec{all}
	app.Parallelism = max(8, float64(app.Request.CPU)/1000, float64(all.Max.CPU)/1000)
	return app, nil
}

// tail returns a percentile of a demand ÷ its mean: constant, exponential or lognormal by
// its coefficient of variation.
func tail(cv, percentile float64) float64 {
	switch cv {
	case 0:
		return 1
	case 1:
		return math.Log(100 / (100 - percentile))
	}
	s2 := math.Log(1 + cv*cv)
	return math.Exp(math.Sqrt(2*s2)*math.Erfinv(2*percentile/100-1) - s2/2)
}

// variation returns the coefficient of variation, 0 to 1, with which a percentile of a demand
// has some ratio to its mean, or the nearest.
func variation(ratio, percentile float64) float64 {
	if ratio >= tail(1, percentile) {
		return 1
	}
	low, high := 0., 1.
	for range 20 {
		if mid := (low + high) / 2; tail(mid, percentile) < ratio {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
