package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/swarm"
)

// A Problem judges thresholds. One goroutine at a time uses it.
type Problem struct {
	Sizes *flow.Sizes
	Load  float64
	rate  float64

	flows          []sim.Flow
	estimates      []float64 // nil = no hints
	ideal          []float64 // 1 ÷ the time of each flow alone
	fct            []float64
	link           *sim.Link
	fair, slowdown float64
}

// rate in bits per second; J does not depend on it.
const rate = 10e9

// NewProblem draws n arrivals of a seed at a load. With hints, sizes are estimated.
func NewProblem(s *flow.Sizes, load float64, n int, seed uint64, hints *sim.Hints) *Problem {
	traffic := sim.Traffic{Sizes: s, Load: load, Rate: rate}
	p := &Problem{Sizes: s, Load: load, rate: rate, flows: traffic.Generate(n, seed), fct: make([]float64, n), ideal: make([]float64, n), link: sim.NewLink(rate)}
	for i := range p.flows {
		p.ideal[i] = rate / 8 / p.flows[i].Size
	}
	p.link.Bands(p.flows, nil, p.fct)
	p.fair, p.slowdown = p.sums()
	if hints != nil {
		p.estimates = hints.Estimates(p.flows, seed)
	}
	return p
}

func (p *Problem) sums() (fct, slowdown float64) {
	for i, t := range p.fct {
		fct += t
		slowdown += t * p.ideal[i]
	}
	return fct, slowdown
}

// Shares returns mean time and mean slowdown as shares of those of fair sharing.
func (p *Problem) Shares(t flow.Thresholds) (fct, slowdown float64) {
	if p.estimates != nil {
		sim.Hint(p.flows, p.estimates, t)
	}
	p.link.Bands(p.flows, t, p.fct)
	fct, slowdown = p.sums()
	return fct / p.fair, slowdown / p.slowdown
}

// Value is J.
func (p *Problem) Value(t flow.Thresholds) float64 {
	fct, slowdown := p.Shares(t)
	return fct + slowdown
}

// EqualLoads are the thresholds that give every band the same share of the bytes.
func EqualLoads(s *flow.Sizes, bands int) flow.Thresholds {
	x := make([]float64, bands-1)
	mean := s.Mean()
	for i := range x {
		low, high := 0., s.Largest()
		for range 60 {
			middle := (low + high) / 2
			if first, _ := s.Capped(middle); first < mean*float64(i+1)/float64(bands) {
				low = middle
			} else {
				high = middle
			}
		}
		x[i] = math.Log(max(1, high))
	}
	return thresholds(x)
}

// Methods of a search, by their name.
const (
	CMAES  = "cmaes"
	Swarm  = "swarm"
	Random = "random"
)

// Methods are their names.
func Methods() []string { return []string{CMAES, Swarm, Random} }

// A Search holds the settings of a search for thresholds.
type Search struct {
	Bands  int
	Method string // one of Methods; "" = cmaes
	Budget int    // evaluations, those of the starting points included
	Seed   uint64
	Start  []flow.Thresholds // to begin with, in addition to the closed form and equal loads
}

// DefaultBudget is the number of evaluations of one decision, and DefaultBands the default number of bands.
const (
	DefaultBudget = 150
	DefaultBands  = 4
)

// Arrivals is how many a problem needs at a load: 20,000 up to .7, then more, as busy periods
// get longer with 1 ÷ (1 − load), and 40,000 at most. At .9 thresholds from 1,000 sizes of web search were .36 %
// above hindsight with 40,000 and [DefaultBudget], and .59 % with 20,000 and 100 evaluations (seeds 500000 to 500005).
func Arrivals(load float64) int {
	return int(20_000 * min(2, max(1, .3/(1-min(load, .99)))))
}

const generation = 10

// Search returns the best thresholds found, rounded to three digits, and its value.
func (p *Problem) Search(ctx context.Context, s Search) (flow.Thresholds, float64, error) {
	if s.Bands < 2 || s.Bands > flow.MostBands {
		return nil, 0, fmt.Errorf("%d bands: want 2 to %d", s.Bands, flow.MostBands)
	}
	box := swarm.Cube(s.Bands-1, math.Log(max(1, p.Sizes.Quantile(.01))), math.Log(max(8, p.Sizes.Largest())))
	search := swarm.Search{Box: box, Seed: s.Seed, Size: generation, Reach: .15}
	begin := append([]flow.Thresholds{p.cascade(s.Bands), EqualLoads(p.Sizes, s.Bands)}, s.Start...)
	for _, t := range begin {
		if len(t) == s.Bands-1 && len(search.Start) < generation {
			search.Start = append(search.Start, encode(t, box))
		}
	}
	// The search continues from the better of its starting points.
	best, at := math.Inf(1), 0
	for i, x := range search.Start {
		if v := p.Value(thresholds(x)); v < best {
			best, at = v, i
		}
	}
	search.Start[0], search.Start[at] = search.Start[at], search.Start[0]
	var optimizer swarm.Optimizer
	var err error
	switch s.Method {
	case CMAES, "":
		optimizer, err = swarm.NewCMAES(search)
	case Swarm:
		optimizer, err = swarm.NewPSO(search, swarm.DefaultPSO())
	case Random:
		search.Reach = 0
		optimizer, err = swarm.NewRandomSearch(search)
	default:
		err = fmt.Errorf("unknown method %q; there are %v", s.Method, Methods())
	}
	if err != nil {
		return nil, 0, err
	}
	found, err := swarm.Minimize(ctx, optimizer, swarm.Parallel(1, swarm.Func(func(x []float64) float64 {
		return p.Value(thresholds(x))
	})), swarm.Options{Budget: max(1, s.Budget-len(search.Start))})
	if err != nil {
		return nil, 0, err
	}
	return thresholds(found.Position), found.Value, nil
}

// encode returns the logs of thresholds, moved into the box.
func encode(t flow.Thresholds, box swarm.Box) []float64 {
	x := make([]float64, len(t))
	for d, v := range t {
		x[d] = min(max(math.Log(float64(v)), box.Lo[d]), box.Hi[d])
	}
	return x
}

// thresholds makes ascending thresholds of logs of bytes, rounded to three digits.
func thresholds(x []float64) flow.Thresholds {
	t := make(flow.Thresholds, len(x))
	for i, v := range x {
		t[i] = round(math.Exp(v))
	}
	slices.Sort(t)
	for i := 1; i < len(t); i++ {
		if t[i] <= t[i-1] {
			t[i] = t[i-1] + max(1, t[i-1]/100)
		}
	}
	return t
}

func round(v float64) int64 {
	v = min(v, .9*flow.LargestThreshold)
	unit := math.Pow(10, math.Floor(math.Log10(max(1, v)))-2)
	return max(1, int64(math.Round(v/unit)*unit))
}

// cascade is the best by the closed form.
func (p *Problem) cascade(bands int) flow.Thresholds {
	fair, slow := sim.Cascade(p.Sizes, p.Load, p.rate, nil)
	x := make([]float64, 0, bands-1)
	for _, v := range EqualLoads(p.Sizes, bands) {
		x = append(x, math.Log(float64(v)))
	}
	value := func(x []float64) float64 {
		fct, slowdown := sim.Cascade(p.Sizes, p.Load, p.rate, thresholds(x))
		return fct/fair + slowdown/slow
	}
	// Coordinate by coordinate, in steps that get smaller.
	best := value(x)
	for step := 1.; step > .05; step /= 2 {
		for d := range x {
			for _, by := range []float64{-step, step} {
				for {
					x[d] += by
					if v := value(x); v < best {
						best = v
						continue
					}
					x[d] -= by
					break
				}
			}
		}
	}
	return thresholds(x)
}
