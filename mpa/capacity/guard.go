package capacity

import (
	"cmp"
	"fmt"
	"math"
)

const (
	// memoryShare is the share of the memory limit that a guard lets a pod use.
	memoryShare = .85
	// mostShare is the largest share that a guard may be set to.
	mostShare = .95
	// afterKill is the share of a limit at which a pod failed that may be tried again.
	afterKill = .7
)

// A Guard bounds the limits to try by the measured memory. The memory of a pod is at most
// proportional to the number inside, as the rest of its memory is not negative: n requests
// inside that took a share m of the memory limit allow n · .85 ÷ m. The largest memory per
// request counts, of the windows since the last drift with about as many inside as the last
// one's limit or as the largest number so far. After failures at n nothing above .7 n is
// tried until drift.
type Guard struct {
	Share  float64 // of the memory limit that may be taken; 0 = .85
	seen   []perRequest
	last   float64 // limit
	failed float64 // the smallest limit at which the pod failed; 0 = no failure
	memory float64 // the limit, in bytes
}

// perRequest is the largest share of the memory a request inside, at a limit, of the windows
// with about the most inside.
type perRequest struct{ limit, inside, share float64 }

// near is the share of the present limit, or of the most that were inside where that is less,
// from which on a window counts: with fewer inside, the rest of the pod's memory counts as
// theirs.
const near = .85

// Tell adds a window.
func (g *Guard) Tell(w Window) {
	if w.Check() != nil || !w.Limit.Known || w.Limit.Number == 0 {
		return
	}
	n := w.Limit.Number
	g.last = n
	if w.Failing() && (g.failed == 0 || n < g.failed) {
		g.failed = n
	}
	share := w.share()
	if !share.Known || !w.Inside.Known {
		return
	}
	// A mean below one inside is counted as one.
	each := share.Number / max(1, w.Inside.Number)
	g.memory = w.MemoryLimit.Number
	for i := range g.seen {
		if g.seen[i].limit == n {
			g.seen[i].add(w.Inside.Number, each)
			return
		}
	}
	g.seen = append(g.seen, perRequest{n, w.Inside.Number, each})
}

func (p *perRequest) add(inside, each float64) {
	switch {
	case inside < near*p.inside: // it shows less
	case p.inside < near*inside:
		p.inside, p.share = inside, each
	default:
		p.inside, p.share = max(p.inside, inside), max(p.share, each)
	}
}

// Most returns the largest limit that may be tried, at least 1; +Inf = unknown.
func (g *Guard) Most() float64 {
	most := math.Inf(1)
	if each := g.largest(); each > 0 {
		allowed := g.Share
		allowed = cmp.Or(allowed, memoryShare)
		most = allowed / each
	}
	if g.failed > 0 {
		most = min(most, afterKill*g.failed)
	}
	return max(1, math.Floor(most))
}

// largest returns the largest share of the memory limit per request inside near the
// present limit.
func (g *Guard) largest() float64 {
	each, most := 0.0, 0.0
	for _, s := range g.seen {
		most = max(most, s.inside)
	}
	for _, s := range g.seen {
		if s.inside >= near*min(g.last, most) {
			each = max(each, s.share)
		}
	}
	return each
}

// Drift forgets the windows and the failures: the workload has changed.
func (g *Guard) Drift() { *g = Guard{Share: g.Share} }

// Reason names the bound of the limit, or is empty.
func (g *Guard) Reason() string {
	most := g.Most()
	switch {
	case math.IsInf(most, 1):
		return ""
	case g.failed > 0 && most <= math.Floor(afterKill*g.failed):
		return fmt.Sprintf("at most %.0f: the pod failed at %.0f", most, g.failed)
	}
	return fmt.Sprintf("at most %.0f: a request takes up to %.3g %% of the memory limit", most, 100*g.largest())
}

// guarded is a learner behind a guard.
type guarded struct {
	learner  Learner
	settings Settings
	guard    Guard
	told     bool
}

// A drifter is a learner that reports whether the workload has changed.
type drifter interface{ drifted() bool }

func (g *guarded) Next() int { return g.bound(g.learner.Next()) }

// bound returns the largest limit of the settings up to n that the guard lets pass.
func (g *guarded) bound(n int) int {
	if n > g.settings.Max || n < g.settings.Min {
		n = g.settings.down(float64(n)) // the learner has seen windows at other limits
	}
	most := g.guard.Most()
	if !g.told {
		most = float64(g.settings.Initial) // the memory is still unknown
	}
	if float64(n) <= most {
		return n
	}
	return min(n, g.settings.down(most))
}

func (g *guarded) Tell(w Window) {
	if !usable(&w) {
		return
	}
	g.told = true
	g.guard.Tell(w)
	g.learner.Tell(w)
	if d, ok := g.learner.(drifter); ok && d.drifted() {
		g.guard.Drift()
		g.guard.Tell(w)
	}
}

func (g *guarded) Estimate() (Capacity, bool) {
	c, ok := g.learner.Estimate()
	if !ok {
		return c, false
	}
	if n := g.bound(c.Limit); n != c.Limit {
		c.Reason += "; " + g.guard.Reason()
		if m := c.Network(); m.Demand > 0 && m.Cores > 0 && c.Rate.Value > 0 {
			ratio := m.Throughput(n) / m.Throughput(c.Limit)
			c.Rate = Interval{c.Rate.Value * ratio, c.Rate.Low * ratio, c.Rate.High * ratio}
		}
		c.Limit = n
		c.Inside = around(min(c.Inside.Value, float64(n)), 0)
	}
	if each := g.guard.largest() * g.guard.memory; each > 0 {
		c.MemoryPerRequest = Interval{each, 0, each}
	}
	return c, true
}

// Most returns the largest limit that the guard of a learner lets it try; +Inf = no bound.
func Most(l Learner) float64 {
	if g, ok := l.(*guarded); ok {
		return g.guard.Most()
	}
	return math.Inf(1)
}
