package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	seeds = 5
	pair  = "hpa+vpa" // what the gap is measured from
	limit = "oracle"  // and to
)

// A Config says what is simulated and where results go.
type Config struct {
	Docs    string // folder of documents
	Out     string // folder of the files with every run
	Data    string // folder of public data sets, SIGMA_DATA; empty = none
	Agents  []string
	Workers int            // simulations at the same time
	Seconds func() float64 // CPU seconds that this process has spent
	Print   io.Writer      // where the page goes instead of Docs; nil = Docs
}

// Page is a side's page below the folder of documents.
func Page(side string) string { return "results/autoscaler-" + side + ".md" }

// Command makes the page of a side.
func Command(side string) string { return "make mpa-records SIDE=" + side }

// Run measures one side and replaces its page, or prints it. A page in the documents
// is of all agents and all scenarios; where the run fails or is interrupted, the old
// one stays.
func Run(ctx context.Context, side string, cfg Config) error {
	for _, a := range cfg.Agents {
		if !slices.Contains(sim.Agents(), a) {
			return fmt.Errorf("unknown agent %q: want one of %s", a, strings.Join(sim.Agents(), ", "))
		}
	}
	if cfg.Print == nil && !slices.Equal(cfg.Agents, sim.Agents()) {
		return fmt.Errorf("the page shows all agents: use --agents together with --print")
	}
	t, err := measure(ctx, side, &cfg)
	if err != nil {
		return fmt.Errorf("side %s: %w", side, err)
	}
	if cfg.Print != nil {
		_, err := io.WriteString(cfg.Print, t.page().String())
		return err
	}
	return t.page().Save(filepath.Join(cfg.Docs, Page(side)))
}

// A comparison is all runs of one side of the split.
type comparison struct {
	side      string
	agents    []string
	scenarios []sim.Scenario
	skipped   []string
	plans     []sim.Plan
	runs      [][][]sim.Result // [agent][scenario][seed]
	seconds   float64          // of CPU
	file      string           // with every run
}

func measure(ctx context.Context, side string, cfg *Config) (*comparison, error) {
	folder := cfg.Data
	if folder != "" {
		folder = filepath.Join(folder, "workloads")
	}
	t := &comparison{side: side, agents: cfg.Agents, file: filepath.Join(cfg.Out, side+".jsonl")}
	var err error
	if t.scenarios, t.skipped, err = sim.Scenarios(side, folder); err != nil {
		return nil, err
	}
	if cfg.Print == nil && len(t.skipped) > 0 {
		return nil, fmt.Errorf("the page shows all scenarios: without SIGMA_DATA there are no traces for %s; --print leaves them out", strings.Join(t.skipped, ", "))
	}
	begin := cfg.Seconds()
	if err := t.simulate(ctx, cfg.Workers); err != nil {
		return nil, err
	}
	t.seconds = cfg.Seconds() - begin
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, t.keep()
}

// simulate runs every agent in every scenario with every seed. The limit comes last: it
// follows plans, which are searched for together with the runs of the others.
func (t *comparison) simulate(ctx context.Context, workers int) error {
	t.plans = make([]sim.Plan, len(t.scenarios))
	for range t.agents {
		all := make([][]sim.Result, len(t.scenarios))
		for i := range all {
			all[i] = make([]sim.Result, seeds)
		}
		t.runs = append(t.runs, all)
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	if slices.Contains(t.agents, limit) {
		for i := range t.scenarios {
			group.Go(func() (err error) {
				t.plans[i], err = sim.BestPlan(inner, t.scenarios[i].Config(1))
				return err
			})
		}
	}
	for a, agent := range t.agents {
		if agent != limit {
			t.start(inner, group, a)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	group, inner = errgroup.WithContext(ctx)
	group.SetLimit(workers)
	if a := slices.Index(t.agents, limit); a >= 0 {
		t.start(inner, group, a)
	}
	return group.Wait()
}

// start starts all runs of an agent.
func (t *comparison) start(ctx context.Context, group *errgroup.Group, a int) {
	for i := range t.scenarios {
		for k := range seeds {
			group.Go(func() error { return t.one(ctx, a, i, k) })
		}
	}
}

// one simulates an agent in a scenario with a seed.
func (t *comparison) one(ctx context.Context, a, i, k int) error {
	cfg := t.scenarios[i].Config(uint64(k + 1))
	var r sim.Result
	var err error
	if t.agents[a] == limit {
		cfg.Plan = &t.plans[i]
		r, err = sim.Run(ctx, cfg)
	} else {
		r, err = sim.RunAgent(ctx, cfg, t.agents[a])
	}
	t.runs[a][i][k] = r
	return err
}

// check asserts what must hold in every run: nothing oscillates.
func (t *comparison) check() error {
	g := mpa.DefaultGuards()
	for a, agent := range t.agents {
		if agent == limit {
			continue
		}
		for i, s := range t.scenarios {
			for k, r := range t.runs[a][i] {
				if r.MostReplicaChanges > g.ReplicaChanges || r.MostRequestChanges > g.RequestChanges+g.CPUChanges || r.MostCPUChanges > g.CPUChanges {
					return fmt.Errorf("%s on %s/%s, seed %d: %d replica and %d request changes in an hour", agent, s.App.Name, s.Name, k+1, r.MostReplicaChanges, r.MostRequestChanges)
				}
			}
		}
	}
	return nil
}

// A line of the file of runs.
type line struct {
	Side, Agent, App, Load string
	Seed                   int
	sim.Result
}

func (t *comparison) keep() error {
	if err := os.MkdirAll(filepath.Dir(t.file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(t.file)
	if err != nil {
		return err
	}
	w := json.NewEncoder(f)
	for a, agent := range t.agents {
		for i, s := range t.scenarios {
			for k, r := range t.runs[a][i] {
				if err := w.Encode(line{t.side, agent, s.App.Name, s.Name, k + 1, r}); err != nil {
					return fmt.Errorf("%s on %s/%s: %w", agent, s.App.Name, s.Name, err)
				}
			}
		}
	}
	return f.Close()
}
