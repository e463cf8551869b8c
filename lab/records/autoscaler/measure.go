package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	seeds = 5
	pair  = "hpa+vpa" // what the gap is measured from
	limit = "oracle"  // and to
)

// Agents returns the names of the agents of a page: all that run in the simulator, the limit
// last.
func Agents() []string {
	return append(slices.DeleteFunc(scaling.Names(), func(n string) bool { return n == limit }), limit)
}

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
	list, err := scaling.Agents(cfg.Agents, "")
	if err != nil {
		return err
	}
	if cfg.Print == nil && !slices.Equal(cfg.Agents, Agents()) {
		return fmt.Errorf("the page shows all agents: use --agents together with --print")
	}
	t, err := measure(ctx, side, list, &cfg)
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
	digest    string // of the policy of the agents that have one, "" = none has
	guards    mpa.Guards
	scenarios []sim.Scenario
	skipped   []string
	plans     []sim.Plan
	runs      [][][]sim.Result // [agent][scenario][seed]
	// few is the pair, the limit, and between them the agents that resize often, with fewer
	// resizes allowed; nil = no agent does.
	few     *comparison
	seconds float64 // of CPU
	file    string  // with every run
}

func measure(ctx context.Context, side string, list []scaling.Agent, cfg *Config) (*comparison, error) {
	folder := cfg.Data
	if folder != "" {
		folder = filepath.Join(folder, "workloads")
	}
	t := &comparison{side: side, agents: cfg.Agents, guards: mpa.DefaultGuards(), file: filepath.Join(cfg.Out, side+".jsonl")}
	for _, a := range list {
		if a.Policy != nil {
			t.digest = a.Policy.Digest
		}
	}
	var err error
	if t.scenarios, t.skipped, err = sim.Scenarios(side, folder); err != nil {
		return nil, err
	}
	if cfg.Print == nil && len(t.skipped) > 0 {
		return nil, fmt.Errorf("the page shows all scenarios: without SIGMA_DATA there are no traces for %s; --print leaves them out", strings.Join(t.skipped, ", "))
	}
	begin := cfg.Seconds()
	if err := t.simulate(ctx, list, cfg.Workers); err != nil {
		return nil, err
	}
	if err := t.fewer(ctx, list, cfg.Workers); err != nil {
		return nil, err
	}
	t.seconds = cfg.Seconds() - begin
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, t.keep()
}

// fewer simulates the agents again that resize often, with the budget of resizes that restart
// pods for all: in it are those of cpu alone as well. Of an hour's budget half may shrink, so
// other agents would do the same again.
func (t *comparison) fewer(ctx context.Context, list []scaling.Agent, workers int) error {
	few := &comparison{side: t.side, guards: t.guards, scenarios: t.scenarios}
	few.guards.CPUChanges = 0
	var again []scaling.Agent
	for a, agent := range list {
		often := slices.ContainsFunc(slices.Concat(t.runs[a]...), func(r sim.Result) bool { return r.MostRequestChanges > t.guards.RequestChanges/2 })
		if often && agent.Name != limit {
			again, few.agents = append(again, agent), append(few.agents, agent.Name)
		}
	}
	if again == nil {
		return nil
	}
	if err := few.simulate(ctx, again, workers); err != nil {
		return err
	}
	for _, name := range []string{limit, pair} {
		if a := slices.Index(t.agents, name); a >= 0 && !slices.Contains(few.agents, name) {
			at := 0
			if name == limit {
				at = len(few.agents)
			}
			few.agents, few.runs = slices.Insert(few.agents, at, name), slices.Insert(few.runs, at, t.runs[a])
		}
	}
	t.few = few
	return nil
}

// simulate runs every agent in every scenario with every seed. The limit comes last: it
// follows plans, which are searched for together with the runs of the others.
func (t *comparison) simulate(ctx context.Context, list []scaling.Agent, workers int) error {
	t.plans = make([]sim.Plan, len(t.scenarios))
	for range list {
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
	for a := range list {
		if t.agents[a] != limit {
			t.start(inner, group, &list[a], a)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	group, inner = errgroup.WithContext(ctx)
	group.SetLimit(workers)
	if a := slices.Index(t.agents, limit); a >= 0 {
		t.start(inner, group, &list[a], a)
	}
	return group.Wait()
}

// start starts all runs of an agent.
func (t *comparison) start(ctx context.Context, group *errgroup.Group, agent *scaling.Agent, a int) {
	for i := range t.scenarios {
		for k := range seeds {
			group.Go(func() error { return t.one(ctx, agent, a, i, k) })
		}
	}
}

// one simulates an agent in a scenario with a seed.
func (t *comparison) one(ctx context.Context, agent *scaling.Agent, a, i, k int) error {
	cfg := t.scenarios[i].Config(uint64(k + 1))
	cfg.Guards = t.guards
	var r sim.Result
	var err error
	if t.agents[a] == limit {
		cfg.Plan = &t.plans[i]
		r, err = sim.Run(ctx, cfg)
	} else {
		r, err = agent.Run(ctx, cfg)
	}
	t.runs[a][i][k] = r
	return err
}

// check asserts that nothing oscillates in any run. Growth has no budget: a container without memory gets more.
func (t *comparison) check() error {
	if t.few != nil {
		if err := t.few.check(); err != nil {
			return err
		}
	}
	g := t.guards
	for a, agent := range t.agents {
		if agent == limit {
			continue
		}
		for i, s := range t.scenarios {
			for k, r := range t.runs[a][i] {
				if r.MostReplicaShrinks > (g.ReplicaChanges+1)/2 || r.MostRequestShrinks > (g.RequestChanges+1)/2+(g.CPUChanges+1)/2 {
					return fmt.Errorf("%s on %s/%s, seed %d: %d times fewer replicas and %d times smaller requests in an hour", agent, s.App.Name, s.Name, k+1, r.MostReplicaShrinks, r.MostRequestShrinks)
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
	// CPUChanges that the guards allowed beside the others; 0 = all have one budget.
	CPUChanges int
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
	if err = t.encode(w); err == nil && t.few != nil {
		err = t.few.encode(w)
	}
	return errors.Join(err, f.Close())
}

func (t *comparison) encode(w *json.Encoder) error {
	for a, agent := range t.agents {
		for i, s := range t.scenarios {
			for k, r := range t.runs[a][i] {
				if err := w.Encode(line{t.side, agent, s.App.Name, s.Name, k + 1, t.guards.CPUChanges, r}); err != nil {
					return fmt.Errorf("%s on %s/%s: %w", agent, s.App.Name, s.Name, err)
				}
			}
		}
	}
	return nil
}
