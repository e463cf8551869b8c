package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// clairvoyant agents know the load in advance and do not compete with the others.
var clairvoyant = []string{Limit, "static-p99"}

// best returns the cheapest agent that is not clairvoyant and keeps the promise; without
// one, the cheapest that breaks it no more often than hpa+vpa; nil = neither. hpa+vpa itself
// stays unless another is cheaper by half a per cent, or keeps a promise that it breaks.
func (c *Comparison) best() *Agent {
	const margin = .995
	cheapest := func(best *Agent, good func(*Agent) bool) *Agent {
		if best != nil && !good(best) {
			best = nil
		}
		for i := range c.Agents {
			a := &c.Agents[i]
			if !slices.Contains(clairvoyant, a.Name) && good(a) && (best == nil || a.cost() < margin*best.cost()) {
				best = a
			}
		}
		return best
	}
	base := c.agent(Baseline)
	if best := cheapest(base, c.kept); best != nil {
		return best
	}
	return cheapest(base, c.acceptable)
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

// Summary returns one sentence: the cost of the best agent beside that of hpa+vpa, the share
// of requests that each violates, the share allowed if it is smaller, and how much of the
// gap to the oracle the best agent closes.
func (c *Comparison) Summary() string {
	base, limit, best := c.agent(Baseline), c.agent(Limit), c.best()
	said, unit := false, " (core-hours + GiB-hours ÷ 8)"
	claim := func(a *Agent) string {
		s := fmt.Sprintf("%s costs %s%s with %s of requests late or lost", a.Name, hours(a.cost()), unit, percent(a.violating()))
		unit = ""
		if !said && !c.kept(a) {
			said = true
			s += fmt.Sprintf(", where %s is allowed", percent(100-c.App.Percentile))
		}
		return s
	}
	switch {
	case c.Agents[0].Runs[0].Requests == 0:
		return "No requests came."
	case base != nil && best != nil && best != base:
		s := claim(base) + "; " + claim(best) + ", " + change(best.cost()/base.cost()-1)
		if best.GapClosed != nil && *best.GapClosed > 0 {
			return s + fmt.Sprintf(": %.0f %% of the way to the oracle’s %s.", 100**best.GapClosed, hours(limit.cost()))
		}
		return s + c.oracle(limit) + "."
	case base != nil:
		s := claim(base)
		if len(c.Agents) > 2 || limit == nil && len(c.Agents) > 1 {
			s += ", and no other agent does as well for less"
		}
		return s + c.oracle(limit) + "."
	case best != nil:
		return claim(best) + c.oracle(limit) + "."
	case limit != nil && len(c.Agents) == 1:
		return claim(limit) + "."
	}
	s := "No agent"
	if limit != nil && c.kept(limit) {
		s += " but the oracle"
	}
	s += fmt.Sprintf(" answers %g %% of the requests within %g ms", c.App.Percentile, 1000*c.App.Latency)
	said = true
	if closest := c.closest(); closest != nil {
		s += "; " + claim(closest)
	}
	return s + c.oracle(limit) + "."
}

func (c *Comparison) oracle(limit *Agent) string {
	if limit == nil {
		return ""
	}
	return fmt.Sprintf("; the oracle costs %s with %s", hours(limit.cost()), percent(limit.violating()))
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
