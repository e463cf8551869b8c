package capacity

import "fmt"

// golden is golden section search (Kiefer, 1953) over the places in the list of limits.
// The throughput has one peak, or rises to a flat top, where the smaller limit wins. A
// limit that failed counts as having no throughput. At the end it stays.
type golden struct {
	list      []int
	low, high int // the remaining range, both included
	rates     map[int]float64
	best      int // place
	noise     float64
}

const (
	goldenShare = .381966 // 1 − 1 ÷ golden ratio
	flat        = .02     // within this two throughputs count as equal
)

func newGolden(s Settings) Learner {
	list := s.list()
	return &golden{list: list, high: len(list) - 1, rates: map[int]float64{}, best: -1, noise: s.noise()}
}

// inner returns the two places between the ends.
func (g *golden) inner() (a, b int) {
	a = g.low + int(float64(g.high-g.low)*goldenShare+.5)
	b = max(a+1, g.high-(a-g.low))
	return a, min(b, g.high)
}

func (g *golden) Next() int {
	if g.high > g.low {
		a, b := g.inner()
		for _, p := range []int{a, b} {
			if _, ok := g.rates[p]; !ok {
				return g.list[p]
			}
		}
	}
	if g.best >= 0 {
		return g.list[g.best]
	}
	return g.list[g.low]
}

func (g *golden) Tell(w Window) {
	// The guard may have held the limit: the proposed one is then assumed to be no better.
	asked := -1
	for i, n := range g.list {
		if n == g.Next() {
			asked = i
		}
	}
	place := 0
	for i, n := range g.list {
		if float64(n) <= w.Limit.Number {
			place = i
		}
	}
	rate := w.rate().Number
	if w.Failing() {
		rate = 0
	}
	g.rates[place] = rate
	if asked > place {
		g.rates[asked] = rate
	}
	if g.best < 0 || rate > g.rates[g.best]*(1+flat) || place < g.best && rate > g.rates[g.best]*(1-flat) {
		g.best = place
	}
	for g.high > g.low {
		a, b := g.inner()
		ra, oka := g.rates[a]
		rb, okb := g.rates[b]
		if !oka || !okb {
			return
		}
		if rb > ra*(1+flat) {
			g.low = a + 1
		} else {
			g.high = max(g.low, b-1)
		}
	}
}

func (g *golden) Estimate() (Capacity, bool) {
	if g.best < 0 {
		return Capacity{}, false
	}
	f := fit{noise: g.noise}
	return f.capacity(g.list[g.best], g.rates[g.best], 1, fmt.Sprintf("the best of %d limits by golden section", len(g.rates))), true
}
