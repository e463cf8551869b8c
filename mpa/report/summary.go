package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa"
)

// clairvoyant agents are given the load in advance and do not compete with the others.
var clairvoyant = []string{Limit, "static-p99"}

// best returns the cheapest agent that is not clairvoyant and keeps the promise; nil = no agent
// does.
func (c *Comparison) best() *Agent {
	return c.cheapest(func(name string) bool { return !slices.Contains(clairvoyant, name) })
}

// cheapest returns the cheapest agent of some names that keeps the promise; nil = no agent
// does.
// hpa+vpa stays unless another is cheaper by half a per cent.
func (c *Comparison) cheapest(of func(name string) bool) *Agent {
	const margin = .995
	best := c.agent(Baseline)
	if best != nil && !c.kept(best) {
		best = nil
	}
	for i := range c.Agents {
		a := &c.Agents[i]
		if of(a.Name) && c.kept(a) && (best == nil || a.cost() < margin*best.cost()) {
			best = a
		}
	}
	return best
}

// closest returns the agent that breaks the promise least, clairvoyant ones excepted.
func (c *Comparison) closest() *Agent {
	var closest *Agent
	for i := range c.Agents {
		a := &c.Agents[i]
		if !slices.Contains(clairvoyant, a.Name) && (closest == nil || a.violating() < closest.violating()) {
			closest = a
		}
	}
	return closest
}

// Summary returns one sentence: the cost of the cheapest agent that keeps the promise next to that
// of hpa+vpa, the share of requests that each violates, and how much of the gap to the oracle it
// closes. An agent that breaks the promise has no saving; if all do, it names the closest.
func (c *Comparison) Summary() string {
	base, limit, best := c.agent(Baseline), c.agent(Limit), c.best()
	unit := " (core-hours + GiB-hours ÷ 8)"
	claim := func(a *Agent) string {
		s := fmt.Sprintf("%s costs %s%s with %s of requests late or lost", a.Name, hours(a.cost()), unit, percent(a.violating()))
		unit = ""
		if n := c.broken(a); n > 0 && n < len(a.Runs) {
			s += fmt.Sprintf(", over the promise in %d of %d seeds", n, len(a.Runs))
		}
		return s
	}
	switch {
	case c.Agents[0].Runs[0].Requests == 0:
		return "No requests came."
	case best == nil && limit != nil && len(c.Agents) == 1 && c.kept(limit):
		return claim(limit) + "."
	case best == nil:
		return c.noAgent(limit)
	case base == nil:
		return claim(best) + c.oracle(limit) + "."
	case !c.kept(base):
		return fmt.Sprintf("%s, which keeps the promise; hpa+vpa costs %s and breaks it with %s, where %s is allowed%s.",
			claim(best), hours(base.cost()), percent(base.violating()), percent(c.allowed()), c.oracle(limit))
	case best != base:
		s := claim(base) + "; " + claim(best) + ", " + change(best.cost()/base.cost()-1)
		if best.GapClosed != nil && *best.GapClosed > 0 {
			return s + fmt.Sprintf(": %.0f %% of the way to the oracle’s %s.", 100**best.GapClosed, hours(limit.cost()))
		}
		return s + c.oracle(limit) + "."
	}
	s := claim(base)
	if len(c.Agents) > 2 || limit == nil && len(c.Agents) > 1 {
		s += ", and no other agent keeps the promise for less"
	}
	return s + c.oracle(limit) + "."
}

// noAgent is the sentence if no agent keeps the promise.
func (c *Comparison) noAgent(limit *Agent) string {
	s := "No agent"
	if limit != nil && c.kept(limit) {
		s += " but the oracle"
	}
	s += fmt.Sprintf(" answers %g %% of the requests within %g ms", c.App.Percentile, 1000*c.App.Latency)
	if closest := c.closest(); closest != nil {
		s += fmt.Sprintf("; %s comes closest with %s late or lost, where %s is allowed", closest.Name, percent(closest.violating()), percent(c.allowed()))
	}
	return s + c.oracle(limit) + "."
}

// broken counts the runs of an agent that break the promise, each by itself.
func (c *Comparison) broken(a *Agent) int {
	n := 0
	for i := range a.Runs {
		if !a.Runs[i].Kept(c.slo()) {
			n++
		}
	}
	return n
}

func (c *Comparison) slo() mpa.SLO {
	return mpa.SLO{Percentile: c.App.Percentile, Latency: c.App.Latency}
}

func (c *Comparison) oracle(limit *Agent) string {
	if limit == nil {
		return ""
	}
	s := fmt.Sprintf("; the oracle costs %s with %s", hours(limit.cost()), percent(limit.violating()))
	if !c.kept(limit) {
		s += ", over the promise"
	}
	return s
}

// percent formats a share of requests in two digits; a small share is not shown as 0.
func percent(v float64) string {
	switch {
	case math.IsNaN(v):
		return "– %"
	case v > 0 && v < .001:
		return "less than 0.001 %"
	case v >= 10:
		return fmt.Sprintf("%.0f %%", v)
	}
	return fmt.Sprintf("%.2g %%", v)
}

func change(share float64) string {
	if share < 0 {
		return fmt.Sprintf("%.0f %% less", -100*share)
	}
	return fmt.Sprintf("%.0f %% more", 100*share)
}

// hours in three digits.
func hours(v float64) string { return sheet.Figure(v, max(0, 2-int(math.Log10(max(1, v)))), false) }
