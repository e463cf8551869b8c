// Mpa-records compares autoscalers on the scenarios of mpa/sim and writes
// docs/mpa-records.md: a section for each side of the split into what agents were tuned
// on and what they are judged by.
//
//	go run ./hack/mpa-records            both sides
//	go run ./hack/mpa-records test       one; the other stays as it is
//	go run ./hack/mpa-records --agents hpa+vpa,oracle --print train
//
// Traces are read from $SIGMA_DATA/workloads; without it the scenarios that need them are
// left out by --print, and an error else. Every run is kept in out/mpa-records as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	page    = "docs/mpa-records.md"
	out     = "out/mpa-records"
	seeds   = 5
	pair    = "hpa+vpa" // what the gap is measured from
	limit   = "oracle"  // and to
	pageTop = `# Records of autoscalers

Made by ` + "`make mpa-records`" + `: every agent on simulated applications and loads, each with the same five seeds. What
agents could be tuned on (*train*) shares no application, trace, family of loads or segment profile with what they
are judged by (*test*); the split is ` + "`mpa/sim/scenarios.go`" + `. Traces: [the load](mpa-simulate.md#the-load).

± is half of the 95 % interval over seeds. Hours are those that count, after the warm-up. **Cost** is core-hours +
GiB-hours ÷ 8, in core-hours. The SLO is **kept** in a run when no more requests were late or lost than its percentile
forgives (1 % or 5 %).

**The oracle** is the limit: at each decision it knows the rates to come, what a request costs and the workload's state, sets
replicas, cpu and memory at once, and is bound by no guard, window or lag. It does not know the single requests. It
follows the cheapest of its plans (largest size, slack, room for memory) that keeps the SLO with two other seeds: a limit of
the cost at which the SLO can be kept, not of latency. ` + "`static-p99`, `hpa-rps`" + ` know what a
request costs, and ` + "`static-p99`" + ` also the load, as somebody who provisions for a peak would.

**The gap** is what could be saved: from the cost of ` + "`hpa+vpa`" + ` to that of the oracle, over all runs (scenario and
seed) in which ` + "`hpa+vpa`" + ` kept the SLO. An agent closes the share of it that it saves. Where it broke the
SLO it saved nothing: its cost there counts as that of ` + "`hpa+vpa`" + `, or as its own where that is more.
`
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mpa-records:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("mpa-records", flag.ContinueOnError)
	only := flags.String("agents", strings.Join(sim.Agents(), ","), "who decides")
	show := flags.Bool("print", false, "print the section and leave the page as it is")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	agents := strings.Split(*only, ",")
	for _, a := range agents {
		if !slices.Contains(sim.Agents(), a) {
			return fmt.Errorf("unknown agent %q: there are %s", a, strings.Join(sim.Agents(), ", "))
		}
	}
	if !*show && !slices.Equal(agents, sim.Agents()) {
		return fmt.Errorf("the page is of all agents: --agents goes with --print")
	}
	sides := flags.Args()
	if len(sides) == 0 {
		sides = sim.Sides()
	}
	for _, side := range sides {
		t, err := measure(ctx, side, agents, *workers, !*show)
		if err != nil {
			return fmt.Errorf("%s: %w", side, err)
		}
		if *show {
			fmt.Fprintln(stdout, t.markdown())
			continue
		}
		if err := save(side, t.markdown()); err != nil {
			return err
		}
	}
	return nil
}

// A table is what one side of the split came to.
type table struct {
	side      string
	agents    []string
	scenarios []sim.Scenario
	skipped   []string
	plans     []sim.Plan
	runs      [][][]sim.Result // [agent][scenario][seed]
	cpu       float64          // seconds
}

func measure(ctx context.Context, side string, agents []string, workers int, whole bool) (*table, error) {
	folder := os.Getenv("SIGMA_DATA")
	if folder != "" {
		folder = filepath.Join(folder, "workloads")
	}
	t := &table{side: side, agents: agents}
	var err error
	if t.scenarios, t.skipped, err = sim.Scenarios(side, folder); err != nil {
		return nil, err
	}
	if whole && len(t.skipped) > 0 {
		return nil, fmt.Errorf("the page is of all scenarios: without SIGMA_DATA there are no traces for %s; --print goes without", strings.Join(t.skipped, ", "))
	}
	begin := cpuSeconds()
	t.plans = make([]sim.Plan, len(t.scenarios))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range t.scenarios {
		if !slices.Contains(agents, limit) {
			break
		}
		group.Go(func() (err error) {
			t.plans[i], err = sim.BestPlan(inner, t.scenarios[i].Config(1))
			return err
		})
	}
	for a, agent := range agents {
		t.runs = append(t.runs, make([][]sim.Result, len(t.scenarios)))
		for i := range t.scenarios {
			t.runs[a][i] = make([]sim.Result, seeds)
			if agent == limit {
				continue
			}
			for k := range seeds {
				group.Go(func() error { return t.one(inner, a, i, k) })
			}
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if a := slices.Index(agents, limit); a >= 0 {
		group, inner = errgroup.WithContext(ctx)
		group.SetLimit(workers)
		for i := range t.scenarios {
			for k := range seeds {
				group.Go(func() error { return t.one(inner, a, i, k) })
			}
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	t.cpu = cpuSeconds() - begin
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, t.keep()
}

// one simulates an agent in a scenario with a seed.
func (t *table) one(ctx context.Context, a, i, k int) error {
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
func (t *table) check() error {
	g := mpa.DefaultGuards()
	for a, agent := range t.agents {
		if agent == limit {
			continue
		}
		for i, s := range t.scenarios {
			for k, r := range t.runs[a][i] {
				if r.MostReplicaChanges > g.ReplicaChanges || r.MostRequestChanges > g.RequestChanges {
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

func (t *table) keep() error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(out, t.side+".jsonl"))
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

// cpuSeconds that this program has spent.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no way to fail
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// save replaces a section of the page, aside and then renamed.
func save(side, text string) error {
	old, err := os.ReadFile(page)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	parts := map[string]string{}
	for _, part := range strings.Split(string(old), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		parts[title] = strings.TrimRight(body, "\n") + "\n"
	}
	parts[side] = text
	var b strings.Builder
	b.WriteString(pageTop)
	for _, s := range sim.Sides() {
		if body, ok := parts[s]; ok {
			fmt.Fprintf(&b, "\n## %s\n%s", s, body)
		}
	}
	aside := page + ".tmp"
	if err := os.WriteFile(aside, []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, page)
}
