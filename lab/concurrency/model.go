package main

import (
	"context"
	"runtime"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// Inputs of the simulator that are measured, in a run of their own before those that it is
// compared with.
type inputs struct {
	Demand     float64 `json:"demand"`     // core-seconds of a request to a busy function
	Wake       float64 `json:"wake"`       // core-seconds that a request to an idle one takes more
	Contention float64 `json:"contention"` // κ, of threads that share a lock
	Floor      float64 `json:"floor"`      // seconds between gate and function of a request without work
	Rest       float64 `json:"rest"`       // bytes of the function with such a request inside
}

// calibrate measures the inputs: requests without work, without a quota, and the demand at two
// limits.
func calibrate(ctx context.Context, gate string, p *profile) (in inputs, err error) {
	d, err := startPod(ctx, gate, p, 1)
	if err != nil {
		return in, err
	}
	defer func() { err = d.stop(err) }()
	if err := d.group.SetQuota(0); err != nil {
		return in, err
	}
	few := startLoad(d, 2, emptyPath)
	w, err := d.window(ctx, time.Second)
	few.stop()
	if err != nil {
		return in, err
	}
	in.Floor = max(0, (w.Inside.Number*w.Length.Number-w.CPU.Number)/w.Answered.Number)
	in.Rest = w.Memory.Number
	if err := d.group.SetQuota(cores); err != nil {
		return in, err
	}
	if err := d.warm(ctx, p.busy, p.busy); err != nil {
		return in, err
	}
	busy, err := d.measure(ctx, p.busy)
	if err != nil {
		return in, err
	}
	alone, err := d.measure(ctx, 1)
	if err != nil {
		return in, err
	}
	in.Demand = busy.demand()
	if p.threads {
		in.Demand = alone.demand()
		in.Contention = max(0, (busy.demand()/alone.demand()-1)/float64(p.busy-1))
	}
	in.Wake = max(0, alone.demand()-in.Demand)
	return in, nil
}

const (
	simulated = 120 // seconds
	warmup    = 20  // of them, that do not count
	// turnSeconds is how long a request of a Go program computes while others wait.
	turnSeconds = .015
)

// simulate returns the simulated throughput of a limit, and how often it kills the pod.
func simulate(ctx context.Context, p *profile, in inputs, limit int) (rate float64, kills int, err error) {
	workers := limit
	if p.pool > 0 {
		workers = min(limit, p.pool) // requests without a connection wait, as before the pod
	}
	cfg := sim.Config{
		App: sim.App{
			Name: p.name,
			Service: loadsim.Service{
				Segments: []loadsim.Segment{{
					CPU: loadsim.Dist{Mean: in.Demand}, Wait: loadsim.Dist{Mean: p.wait.Seconds() + in.Floor}, Memory: float64(p.bytes),
				}},
				Workers: workers, Front: 10 * clients, Clients: clients,
				Parallelism: float64(max(1, runtime.NumCPU())), Quantum: turnSeconds, Wake: in.Wake, Contention: in.Contention,
			},
			Memory:   sim.Memory{Base: in.Rest, Collector: p.goMemLimit != ""},
			Replicas: 1, Request: mpa.Resources{CPU: 1000 * cores, Memory: memoryBytes},
			Target: mpa.Target{
				SLO: mpa.SLO{Percentile: 95, Latency: 60}, Replicas: mpa.Range{Min: 1, Max: 1},
				Containers: []mpa.ContainerSpec{{Name: p.name}},
			},
		},
		Load: loadsim.Load{Step: simulated, PerSec: []float64{0}}, Seconds: simulated, Warmup: warmup, Seed: 1,
		Guards: mpa.DefaultGuards(), Site: sim.DefaultSite(), Gates: true,
	}
	r, err := sim.RunAgent(ctx, cfg, "static")
	if err != nil {
		return 0, 0, err
	}
	return float64(r.Requests-r.Lost) / (simulated - warmup), r.Kills, nil // a client sends its next request when its last one has ended
}
