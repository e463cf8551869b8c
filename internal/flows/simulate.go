package flows

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/report"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

// A Simulation compares policies on the same arrivals.
type Simulation struct {
	Sizes    *flow.Sizes
	Digest   string // of the file of sizes
	Load     float64
	Overload bool    // a load of 1 and more is meant
	Rate     float64 // bits per second
	Hosts    int     // 0 = one link
	Exact    bool
	// Connections carry the flows of a link, and a silence of Gap ends the count of bytes sent by one; 0 = one
	// for each flow.
	Connections int
	Gap         time.Duration
	Flows       int // of each seed
	Seed        uint64
	Seeds       int
	Policies    []Policy
	Workers     int
	Done        func() // after each simulation; may be nil
}

// WarmUp is the share of the flows, at the beginning, that does not count.
const WarmUp = .1

// Bounds of a simulation.
const (
	MostFlows = 50_000_000
	MostHosts = 10_000
)

// Check returns the error of a flag.
func (s *Simulation) Check() error {
	switch {
	case !(s.Load >= .001) || math.IsInf(s.Load, 0):
		return fmt.Errorf("--load %v: want a number from .001 on", s.Load)
	case s.Load >= 1 && !s.Overload:
		return fmt.Errorf("--load %v: want less than 1, or --overload: from 1 on times grow without end", s.Load)
	case s.Load > 10:
		return fmt.Errorf("--load %v: want at most 10", s.Load)
	case !(s.Rate >= 1e3 && s.Rate <= 1e15):
		return fmt.Errorf("--rate %v: want 1k to 1000T bits per second", s.Rate)
	case s.Hosts == 1 || s.Hosts < 0 || s.Hosts > MostHosts:
		return fmt.Errorf("--hosts %d: want 2 to %d, or 0 for one link", s.Hosts, MostHosts)
	case s.Exact && s.Hosts == 0:
		return fmt.Errorf("--exact: needs --hosts; one link is always exact")
	case s.Connections < 0 || s.Connections > math.MaxUint16 || s.Connections > 0 && s.Hosts > 0:
		return fmt.Errorf("--connections %d: want 0 to %d, and no --hosts", s.Connections, math.MaxUint16)
	case s.Gap < 0 || s.Gap > time.Hour:
		return fmt.Errorf("--gap %v: want 0 to 1h", s.Gap)
	case s.Flows < 100 || s.Flows > MostFlows:
		return fmt.Errorf("--flows %d: want 100 to %d", s.Flows, MostFlows)
	case s.Seeds < 1 || s.Seeds > 1000 || s.Workers < 1:
		return fmt.Errorf("--seeds %d --workers %d: want at least 1, and at most 1000 seeds", s.Seeds, s.Workers)
	}
	if s.Exact {
		for _, p := range s.Policies {
			if !slices.Contains([]string{fair, bands, tuned, hinted}, p.Kind) {
				return fmt.Errorf("--exact does not simulate %s: it has %s, %s, %s, %s", p.Name, fair, bands, tuned, hinted)
			}
		}
	}
	return nil
}

// tuningSeed sets the arrivals that thresholds are found on apart from those of the comparison.
const tuningSeed = 0x7475_6e65_0000_0000

// tuningFlows and tuningBudget are the cost of thresholds of a comparison: less noise than a
// decision in a cluster can afford.
const (
	tuningFlows  = 50_000
	tuningBudget = 120
)

// Total is how often Done is called.
func (s *Simulation) Total() int {
	n := 0
	for _, p := range s.Policies {
		if p.Kind == tuned || p.Kind == hinted {
			n++
		}
	}
	return n + s.Seeds*len(s.Policies)
}

// Run compares. Its bytes do not depend on the number of workers.
func (s *Simulation) Run(ctx context.Context) (*report.Comparison, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	policies := slices.Clone(s.Policies)
	own := -1 // the place of the oracle
	for i := range policies {
		if policies[i].Kind == srpt {
			own = i
		}
	}
	if own < 0 && !s.Exact {
		own = len(policies)
		policies = append(policies, Policy{Name: srpt, Kind: srpt})
	}
	done := func() {
		if s.Done != nil {
			s.Done()
		}
	}
	errs := make([]error, len(policies))
	parallel(s.Workers, len(policies), func(i int) {
		p := &policies[i]
		if p.Kind != tuned && p.Kind != hinted || ctx.Err() != nil {
			return
		}
		var hints *sim.Hints
		if p.Kind == hinted {
			// Thresholds are found without wrong estimates: no estimate is another flow's.
			hints = &sim.Hints{Error: p.Hints.Error}
		}
		problem := tune.NewProblem(s.Sizes, s.Load, tuningFlows, s.Seed+tuningSeed, hints)
		p.Thresholds, _, errs[i] = problem.Search(ctx, tune.Search{Bands: p.Bands, Budget: tuningBudget, Seed: s.Seed})
		done()
	})
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", policies[i].Name, err)
		}
	}
	c := &report.Comparison{Setting: report.Setting{
		Sizes: s.Sizes.Name, Digest: s.Digest, Mean: s.Sizes.Mean(), Load: s.Load, Rate: s.Rate, Hosts: s.Hosts, Exact: s.Exact,
		Flows: s.Flows, WarmUp: int(WarmUp * float64(s.Flows)),
	}}
	if s.Connections > 0 {
		c.Setting.Connections, c.Setting.Gap = s.Connections, s.Gap.Seconds()
	}
	traffic := sim.Traffic{Sizes: s.Sizes, Load: s.Load, Rate: s.Rate, Hosts: s.Hosts, Connections: uint16(s.Connections)}
	results := make([][][4]sim.Class, len(policies))
	for i := range results {
		results[i] = make([][4]sim.Class, s.Seeds)
	}
	for k := range s.Seeds {
		c.Seeds = append(c.Seeds, s.Seed+uint64(k))
	}
	// A seed at a time bounds the memory; the policies of one seed run in parallel.
	for k, seed := range c.Seeds {
		flows := traffic.Generate(s.Flows, seed)
		c.Realised = append(c.Realised, report.Number(sim.RealisedLoad(flows, s.Rate, s.Hosts)))
		if s.Hosts > 0 {
			c.Busiest = append(c.Busiest, report.Number(sim.BusiestPort(flows, s.Rate, s.Hosts)))
		}
		parallel(s.Workers, len(policies), func(i int) {
			if ctx.Err() != nil {
				return
			}
			fct := s.simulate(&policies[i], flows, seed)
			results[i][k] = sim.Summarise(flows, fct, c.Setting.WarmUp, s.Rate)
			if i < len(s.Policies) {
				done()
			}
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	oracle := math.NaN()
	if own >= 0 {
		oracle = report.NewPolicy(srpt, nil, c.Seeds, results[own], oracle).Mean[0].Mean.Mean
	}
	for i := range s.Policies {
		c.Policies = append(c.Policies, report.NewPolicy(policies[i].Name, policies[i].Thresholds, c.Seeds, results[i], oracle))
	}
	return c, nil
}

// simulate returns the times of the flows under a policy.
func (s *Simulation) simulate(p *Policy, flows []sim.Flow, seed uint64) []float64 {
	fct := make([]float64, len(flows))
	if p.Kind == hinted {
		flows = slices.Clone(flows)
		sim.Hint(flows, p.Hints.Estimates(flows, seed), p.Thresholds)
	}
	fabric := sim.Fabric{Hosts: s.Hosts, Rate: s.Rate}
	switch {
	case s.Exact:
		fabric.Exact(flows, p.Thresholds, fct)
	case s.Hosts > 0:
		fabric.Decomposed(flows, p.discipline(), s.Workers, fct)
	default:
		link := sim.NewLink(s.Rate)
		link.Gap = s.Gap.Seconds()
		p.discipline()(link, flows, fct)
	}
	return fct
}

// discipline runs the policy on one link.
func (p *Policy) discipline() sim.Discipline {
	switch p.Kind {
	case las:
		return (*sim.Link).LAS
	case srpt:
		return (*sim.Link).SRPT
	case fifo:
		return func(l *sim.Link, f []sim.Flow, fct []float64) { l.Common(f, sim.Queue{Buffer: p.Buffer}, fct) }
	}
	return func(l *sim.Link, f []sim.Flow, fct []float64) { l.Bands(f, p.Thresholds, fct) }
}

// parallel calls f for 0 to n − 1, several at a time.
func parallel(workers, n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
}
