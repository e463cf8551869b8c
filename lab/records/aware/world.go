package aware

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	// Streams of random numbers of episodes.
	episodeStream = 0xe915
	rules         = "hpa+vpa"
)

// An application of the train side, and episodes of it: waves of load with new random
// parameters, with the application as it was at first.
type application struct {
	scenario sim.Scenario
	seed     uint64
	factor   float64 // of the cpu of a request, 1 until an update
	hours    float64 // of an episode
	// What the rules did in the episodes so far. One goroutine uses it.
	rules []sim.Result
	// embedding of its first episode, once it is made.
	embedding []float32
}

// applications draws so many whose profiles are kept from the pool, or the others.
// Trainers know the train side only.
func (x *experiments) applications(first uint64, count int, unseen bool) ([]*application, error) {
	generator, err := sim.NewGenerator("train", "")
	if err != nil {
		return nil, err
	}
	var list []*application
	for seed := first; len(list) < count; seed++ {
		s, err := generator.Generate(seed)
		if err != nil {
			return nil, err
		}
		held := slices.ContainsFunc(s.App.Segments, func(g loadsim.Segment) bool { return slices.Contains(heldProfiles, g.Name) })
		if held == unseen {
			list = append(list, &application{scenario: s, seed: seed, factor: 1, hours: x.hours})
		}
	}
	return list, nil
}

// heldProfiles of the train side are in no application that the meta-learner trains on.
var heldProfiles = []string{"io-medium", "cpu-large"}

// episode returns the simulation of an episode, without its agent.
func (a *application) episode(k int) (sim.Config, error) {
	rng := rand.New(rand.NewPCG(a.seed, episodeStream+uint64(k)))
	within := func(low, high float64) string { return fmt.Sprintf("%g", low+(high-low)*rng.Float64()) }
	load, err := loadsim.Synthetic("diurnal", map[string]string{
		"low": within(.1, .5), "high": "1", "period": fmt.Sprintf("%g", .5*math.Pow(8, rng.Float64())), "peak": within(0, 3), "noise": within(.05, .2),
	}, a.hours, rng.Uint64())
	if err != nil {
		return sim.Config{}, err
	}
	cfg := a.scenario.Config(a.seed + uint64(k))
	cfg.Load, cfg.Seconds, cfg.Warmup = load.Scale(a.scenario.Load.Peak()), a.hours*3600, 0
	if a.factor != 1 {
		cfg.App.Segments = slices.Clone(cfg.App.Segments)
		for i := range cfg.App.Segments {
			cfg.App.Segments[i].CPU.Mean *= a.factor
		}
	}
	return cfg, nil
}

// run simulates an agent in an episode.
func (a *application) run(ctx context.Context, k int, agent mpa.Agent) (sim.Result, error) {
	cfg, err := a.episode(k)
	if err != nil {
		return sim.Result{}, err
	}
	cfg.Agent = agent
	return sim.Run(ctx, cfg)
}

// ruled returns what the rules do in an episode.
func (a *application) ruled(ctx context.Context, k int) (*sim.Result, error) {
	for len(a.rules) <= k {
		r, err := a.run(ctx, len(a.rules), agents.NewPair(a.scenario.App.Target))
		if err != nil {
			return nil, err
		}
		a.rules = append(a.rules, r)
	}
	return &a.rules[k], nil
}

// used returns the share of the forgiven requests that were late or lost.
func (a *application) used(r *sim.Result) float64 {
	return float64(r.Violations) / (float64(max(1, r.Requests)) * (1 - a.scenario.App.Target.SLO.Percentile/100))
}

func (a *application) kept(r *sim.Result) bool { return r.Kept(a.scenario.App.Target.SLO) }

// objective of a run: its cost ÷ that of the rules, and a price for what it broke that no
// saving can pay for.
func (a *application) objective(r, rules *sim.Result) float64 {
	return r.Cost()/rules.Cost() + 1.5*math.Log1p(max(0, a.used(r)-max(.5, a.used(rules)))/.5)
}
