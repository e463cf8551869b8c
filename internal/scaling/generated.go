package scaling

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// Generated selects the generated scenarios on which agents are compared.
type Generated struct {
	Side   string // train or test
	Seed   uint64 // of the first
	Count  int
	Traces string // folder of the side's traces, "" = synthetic loads only
	// Hostile scenarios are those of [sim.Generator.Hostile].
	Hostile bool
	Agents  []Agent
	// Workers is the number of simulations at the same time; Done is called after each.
	Workers int
	Done    func()
}

// A Comparison of agents on generated scenarios. Costs are in core-hours.
type Comparison struct {
	Side      string    `json:"side"`
	Seed      uint64    `json:"seed"`
	Count     int       `json:"count"`
	Traces    bool      `json:"traces"`
	Hostile   bool      `json:"hostile"`
	Reference string    `json:"reference"` // divisor of the costs
	Agents    []Figures `json:"agents"`
}

// Figures of an agent over all scenarios.
type Figures struct {
	Agent  string `json:"agent"`
	Digest string `json:"policy,omitempty"`
	// Ratio is the mean of cost ÷ the reference's, Half half of its 95 % interval, Worst the
	// largest; Sum is the ratio of all costs.
	Ratio float64 `json:"mean_ratio"`
	Half  float64 `json:"half"`
	Worst float64 `json:"worst_ratio"`
	Sum   float64 `json:"ratio_of_sums"`
	// Kept is the number of runs that kept the SLO; Kills and Evictions of all; More, the
	// runs with more of both than the reference's.
	Kept      int   `json:"kept"`
	Kills     int   `json:"oom_kills"`
	Evictions int   `json:"evictions"`
	More      int   `json:"runs_with_more_kills"`
	Runs      []Run `json:"runs"`
}

// A Run is one agent in one scenario.
type Run struct {
	Seed  uint64  `json:"seed"`
	Load  string  `json:"load"`
	Ratio float64 `json:"ratio"`
	Cost  float64 `json:"cost"`
	Kept  bool    `json:"kept"`
	// Used is the share of the forgiven requests that were late or lost.
	Used   float64    `json:"used"`
	Result sim.Result `json:"result"`
}

// Compare simulates each agent on each scenario. The first agent is the reference. It
// refuses a policy that was trained on one of the scenarios.
func (g *Generated) Compare(ctx context.Context) (*Comparison, error) {
	scenarios, err := g.Scenarios()
	if err != nil {
		return nil, err
	}
	results := make([][]sim.Result, len(g.Agents))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(1, g.Workers))
	for k := range g.Agents {
		results[k] = make([]sim.Result, g.Count)
		for i := range scenarios {
			group.Go(func() (err error) {
				results[k][i], err = g.Agents[k].Run(inner, scenarios[i].Config(g.Seed+uint64(i)))
				if err == nil && g.Done != nil {
					g.Done()
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c := &Comparison{Side: g.Side, Seed: g.Seed, Count: g.Count, Traces: g.Traces != "", Hostile: g.Hostile, Reference: g.Agents[0].Name}
	for k, a := range g.Agents {
		f := figures(scenarios, g.Seed, results[k], results[0])
		if f.Agent = a.Name; a.Policy != nil {
			f.Digest = a.Policy.Digest
		}
		c.Agents = append(c.Agents, f)
	}
	return c, nil
}

// Scenarios generates the scenarios. It refuses one that an agent's policy was trained on.
func (g *Generated) Scenarios() ([]sim.Scenario, error) {
	generator, err := sim.NewGenerator(g.Side, g.Traces)
	if err != nil {
		return nil, err
	}
	generate := generator.Generate
	if g.Hostile {
		generate = generator.Hostile
	}
	scenarios := make([]sim.Scenario, g.Count)
	for i := range scenarios {
		seed := g.Seed + uint64(i)
		if scenarios[i], err = generate(seed); err != nil {
			return nil, err
		}
		for _, a := range g.Agents {
			if a.Policy != nil && a.Policy.Provenance.Seen(seed) {
				return nil, fmt.Errorf("policy %s was trained on scenario %d, which would judge it", a.Name, seed)
			}
		}
	}
	return scenarios, nil
}

func figures(scenarios []sim.Scenario, seed uint64, results, reference []sim.Result) Figures {
	var f Figures
	var cost, other, squares float64
	for i := range scenarios {
		s, r, ref := &scenarios[i], &results[i], &reference[i]
		run := Run{
			Seed: seed + uint64(i), Load: s.Name, Ratio: r.Cost() / ref.Cost(), Cost: r.Cost(),
			Kept: r.Kept(s.App.Target.SLO), Used: r.Used(s.App.Target.SLO), Result: *r,
		}
		f.Runs = append(f.Runs, run)
		cost, other = cost+run.Cost, other+ref.Cost()
		f.Ratio += run.Ratio / float64(len(scenarios))
		squares += run.Ratio * run.Ratio / float64(len(scenarios))
		f.Worst = max(f.Worst, run.Ratio)
		if run.Kept {
			f.Kept++
		}
		f.Kills, f.Evictions = f.Kills+r.Kills, f.Evictions+r.Evictions
		if r.Kills+r.Evictions > ref.Kills+ref.Evictions {
			f.More++
		}
	}
	f.Sum = cost / other
	if n := float64(len(scenarios)); n > 1 {
		f.Half = 1.96 * math.Sqrt(max(0, squares-f.Ratio*f.Ratio)/(n-1))
	}
	return f
}

// json writes the comparison as one object.
func (c *Comparison) json(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}

// Write writes the comparison in a format, "table" with a line an agent, or "json". It
// writes nothing of no comparison.
func (c *Comparison) Write(w io.Writer, format string) error {
	switch {
	case c == nil:
		return nil
	case format == "json":
		return c.json(w)
	}
	kind := "generated"
	if c.Hostile {
		kind = "hostile"
	}
	fmt.Fprintf(w, "%d %s scenarios of the %s side, from seed %d; cost is ÷ that of %s\n", c.Count, kind, c.Side, c.Seed, c.Reference)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "agent\tcost\t±\tof sums\tworst\tkept\tkills\tevictions\tmore kills in")
	for _, f := range c.Agents {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.2f\t%d\t%d\t%d\t%d\n", f.Agent, f.Ratio, f.Half, f.Sum, f.Worst, f.Kept, f.Kills, f.Evictions, f.More)
	}
	return t.Flush()
}
