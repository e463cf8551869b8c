package scaling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
	"github.com/sigma-scheduler/sigma/swarm"
)

// Training configures a search for the numbers of a policy. It uses the train side
// only.
type Training struct {
	Method string `json:"method"` // one of [Methods]
	Seed   uint64 `json:"seed"`   // of the search
	// Scenarios are generated from the seed First on. Those with a family or a profile that
	// is held out are for validation, the others are searched on.
	First       uint64 `json:"first"`
	Scenarios   int    `json:"scenarios"`
	Evaluations int    `json:"evaluations"`
	Particles   int    `json:"particles"`
	Workers     int    `json:"-"`
	Traces      string `json:"traces"` // folder, "" = synthetic loads only
	Checkpoint  string `json:"-"`      // folder, "" = no checkpoint
	// Journals is a folder with journals of one's own workloads, or the newest file of one, "" =
	// no journals: their pieces are searched on in addition to the generated scenarios, and the
	// last ones of each are for judging.
	Journals string `json:"journals,omitempty"`
	// Serving is the file of the policy that serves, "" = the shipped one. The search begins
	// with it, and its result must be better than it on the journaled workloads.
	Serving string `json:"serving,omitempty"`
	// From is that policy, where there is no file.
	From *learned.Policy `json:"-"`
	// Progress is called after each generation.
	Progress func(swarm.Stats) `json:"-"`
}

// Methods returns the names of optimisers: the swarm, and its controls at equal budget.
func Methods() []string { return []string{"swarm", "cmaes", "random"} }

// The scenarios held out of the search inside the train side: they choose among the best
// of the generations.
var (
	heldFamilies = []string{"diurnal", "doubling", "azure-llm-code"}
	heldProfile  = "io-medium"
)

const searchReach = .3 // of the box, from the numbers that serve

// A split is scenarios with the results of hpa+vpa on them.
type split struct {
	scenarios []sim.Scenario
	seeds     []uint64
	pair      []sim.Result
}

func (s *split) add(scenario sim.Scenario, seed uint64) {
	s.scenarios, s.seeds = append(s.scenarios, scenario), append(s.seeds, seed)
}

func (s *split) join(other *split) {
	s.scenarios, s.seeds, s.pair = append(s.scenarios, other.scenarios...), append(s.seeds, other.seeds...), append(s.pair, other.pair...)
}

func (s *split) run(ctx context.Context, a Agent, workers int) ([]sim.Result, error) {
	results := make([]sim.Result, len(s.scenarios))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(1, workers))
	for i := range s.scenarios {
		group.Go(func() (err error) {
			results[i], err = a.Run(inner, s.scenarios[i].Config(s.seeds[i]))
			return err
		})
	}
	return results, group.Wait()
}

// judge returns the mean price of some numbers, and their figures.
func (s *split) judge(ctx context.Context, v learned.Values, workers int) (float64, Figures, error) {
	results, err := s.run(ctx, Agent{Name: "learned", Policy: &learned.Policy{Values: v}}, workers)
	if err != nil {
		return 0, Figures{}, err
	}
	sum := 0.0
	for i := range results {
		sum += results[i].Objective(s.scenarios[i].App.Target.SLO, &s.pair[i])
	}
	return sum / float64(len(results)), figures(s.scenarios, 0, results, s.pair), nil
}

// A Trained policy with its figures on the validation split.
type Trained struct {
	Policy *learned.Policy
	// Start are the figures of the numbers that serve, Found those of the policy, and Pair
	// those of hpa+vpa.
	Start, Found, Pair Figures
	Searched           int  // scenarios
	Own                *Own // nil = without journals
}

// Run searches. After an interrupt it returns the best so far with the context's error, or
// nil before there is one.
func (t *Training) Run(ctx context.Context) (*Trained, error) {
	search, validation, err := t.splits(ctx)
	if err != nil {
		return nil, err
	}
	serving, err := t.serving()
	if err != nil {
		return nil, err
	}
	var own *journaled
	if t.Journals != "" {
		if own, err = t.journals(ctx); err != nil {
			return nil, err
		}
		search.join(&own.search)
		validation.join(&own.later)
	}
	start := positionOf(serving)
	opt, err := t.optimizer(start)
	if err != nil {
		return nil, err
	}
	var options swarm.Options
	options.Budget = t.Evaluations
	if t.Checkpoint != "" {
		if err := os.MkdirAll(t.Checkpoint, 0o755); err != nil {
			return nil, err
		}
		options.Checkpoint, err = swarm.OpenCheckpoint(filepath.Join(t.Checkpoint, "train.checkpoint"), struct {
			*Training
			Numbers, Held any
		}{t, learned.Numbers, []any{heldFamilies, heldProfile, sim.ObjectiveSettings()}})
		if err != nil {
			return nil, err
		}
		defer func() { _ = options.Checkpoint.Close() }() // each record is synced when it is made
	}
	bests := [][]float64{start}
	options.Progress = func(s swarm.Stats) {
		if s.BestPosition != nil && !slices.Equal(bests[len(bests)-1], s.BestPosition) {
			bests = append(bests, slices.Clone(s.BestPosition))
		}
		if t.Progress != nil {
			t.Progress(s)
		}
	}
	evaluate := swarm.Parallel(t.Workers, func(ctx context.Context, task swarm.Task) (float64, []float64, error) {
		value, _, err := search.judge(ctx, valuesOf(task.X), 1)
		return value, nil, err
	})
	found, stopped := swarm.Minimize(ctx, opt, evaluate, options)
	if stopped != nil && (!errors.Is(stopped, ctx.Err()) || found.Position == nil) {
		return nil, stopped
	}
	ctx = context.WithoutCancel(ctx)
	out, stopped := t.choose(ctx, validation, bests, found, len(search.scenarios), stopped)
	if out == nil || own == nil {
		return out, stopped
	}
	out.Policy.Provenance.Journaled = len(own.search.scenarios)
	if err := out.compareOwn(ctx, own, serving, t.Workers); err != nil {
		return nil, err
	}
	return out, stopped
}

// choose takes the best of the generations by the validation split: if possible, one that
// keeps no fewer promises than hpa+vpa.
func (t *Training) choose(ctx context.Context, validation *split, bests [][]float64, found swarm.Result, searched int, stopped error) (*Trained, error) {
	out := &Trained{Searched: searched, Pair: figures(validation.scenarios, 0, validation.pair, validation.pair)}
	best := math.Inf(1)
	for i, x := range bests {
		value, f, err := validation.judge(ctx, valuesOf(x), t.Workers)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			out.Start = f
		}
		if f.Kept < out.Pair.Kept {
			value += 1e6 * float64(out.Pair.Kept-f.Kept)
		}
		if value < best {
			best, out.Found = value, f
			out.Policy = &learned.Policy{Values: valuesOf(x), Provenance: learned.Provenance{
				Method: t.Method, Evaluations: found.Evaluations, Seed: t.Seed,
				FirstScenario: t.First, Scenarios: t.Scenarios, Traces: t.Traces != "",
				Objective: found.Value, Cost: f.Ratio, Kept: f.Kept, PairKept: out.Pair.Kept,
			}}
		}
	}
	return out, stopped
}

// DefaultParticles is the number of particles.
const DefaultParticles = 12

// Check reports the first setting that is wrong.
func (t *Training) Check() error {
	switch {
	case t.Scenarios < 1 || t.Evaluations < 1 || t.Particles < 1 || t.Workers < 1:
		return fmt.Errorf("scenarios %d, evaluations %d, particles %d, workers %d: want at least 1", t.Scenarios, t.Evaluations, t.Particles, t.Workers)
	case t.First >= sim.FirstTestSeed || t.First+uint64(t.Scenarios) > sim.FirstTestSeed:
		return fmt.Errorf("scenarios %d … %d: seeds from %d up are for tests", t.First, t.First+uint64(t.Scenarios)-1, sim.FirstTestSeed)
	}
	return nil
}

// splits generates the scenarios and runs hpa+vpa on them.
func (t *Training) splits(ctx context.Context) (search, validation *split, err error) {
	generator, err := sim.NewGenerator("train", t.Traces)
	if err != nil {
		return nil, nil, err
	}
	search, validation = &split{}, &split{}
	for i := range t.Scenarios {
		seed := t.First + uint64(i)
		s, err := generator.Generate(seed)
		if err != nil {
			return nil, nil, err
		}
		held := slices.Contains(heldFamilies, s.Name)
		for _, g := range s.App.Segments {
			held = held || g.Name == heldProfile
		}
		if held {
			validation.add(s, seed)
		} else {
			search.add(s, seed)
		}
	}
	if len(search.scenarios) == 0 || len(validation.scenarios) == 0 {
		return nil, nil, fmt.Errorf("%d scenarios: %d to search on, %d to validate: want more", t.Scenarios, len(search.scenarios), len(validation.scenarios))
	}
	for _, s := range []*split{search, validation} {
		if s.pair, err = s.run(ctx, Agent{Name: "hpa+vpa"}, t.Workers); err != nil {
			return nil, nil, err
		}
	}
	return search, validation, nil
}

// journals returns the journaled workloads, with the results of hpa+vpa on them.
func (t *Training) journals(ctx context.Context) (*journaled, error) {
	j, err := readJournals(t.Journals)
	if err != nil {
		return nil, err
	}
	for _, s := range []*split{&j.search, &j.later} {
		if s.pair, err = s.run(ctx, Agent{Name: "hpa+vpa"}, t.Workers); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// serving returns the numbers that serve.
func (t *Training) serving() (learned.Values, error) {
	switch {
	case t.From != nil:
		return t.From.Values, nil
	case t.Serving == "":
		return learned.General().Values, nil
	}
	data, err := os.ReadFile(t.Serving)
	if err != nil {
		return learned.Values{}, err
	}
	p, err := learned.Parse(t.Serving, data)
	if err != nil {
		return learned.Values{}, err
	}
	return p.Values, nil
}

// positionOf returns numbers as a position, those that are not searched left out.
func positionOf(v learned.Values) []float64 {
	var x []float64
	for i, n := range learned.Numbers {
		if !n.Fixed {
			x = append(x, v[i])
		}
	}
	return x
}

// valuesOf returns the numbers of a position.
func valuesOf(x []float64) learned.Values {
	v, i := learned.Defaults(), 0
	for k, n := range learned.Numbers {
		if !n.Fixed {
			v[k] = x[i]
			i++
		}
	}
	return v
}

func (t *Training) optimizer(start []float64) (swarm.Optimizer, error) {
	search := swarm.Search{Seed: t.Seed, Size: t.Particles, Reach: searchReach}
	for _, n := range learned.Numbers {
		if !n.Fixed {
			search.Box.Lo, search.Box.Hi = append(search.Box.Lo, n.Min), append(search.Box.Hi, n.Max)
		}
	}
	search.Start = [][]float64{start}
	switch t.Method {
	case "swarm":
		return swarm.NewPSO(search, swarm.DefaultPSO())
	case "cmaes":
		return swarm.NewCMAES(search)
	case "random":
		return swarm.NewRandomSearch(search)
	}
	return nil, fmt.Errorf("unknown method %q: there are %v", t.Method, Methods())
}

// Write writes the policy to a file, and prints the result of the search.
func (t *Trained) Write(w io.Writer, path string) error {
	if t.Own != nil {
		t.Own.print(w)
		if !t.Own.better {
			return ErrNotBetter
		}
	}
	t.Policy.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	data, err := t.Policy.Marshal()
	if err != nil {
		return err
	}
	if err := durable.WriteBytes(path, data); err != nil {
		return err
	}
	fmt.Fprintf(w, "searched on %d scenarios, objective %.4g; on the %d of the train side that were held out:\n",
		t.Searched, t.Policy.Provenance.Objective, len(t.Pair.Runs))
	for _, row := range []struct {
		name string
		Figures
	}{{"hpa+vpa", t.Pair}, {"start", t.Start}, {"found", t.Found}} {
		row.line(w, row.name)
	}
	_, err = fmt.Fprintf(w, "%s is written, after %d evaluations\n", path, t.Policy.Provenance.Evaluations)
	return err
}
