package bound

import (
	"context"
	"math/big"
	"math/bits"

	"github.com/sigma-scheduler/sigma/binpack"
)

// moments is the number of moments, in addition to the peaks, with tariffs of their own.
const moments = 12

// A tariff is prices of items by which no way to fill a machine is worth more
// than the machine costs: a dual solution of the linear program, whatever the
// number of items. The worth of all present items is a bound.
type tariff struct {
	price []int64 // per app; worth of these units are worth cost
	worth int64
	cost  float64
	count bool  // machines are bounded, not their cost
	total int64 // worth of the present items
}

// addTariffs makes a tariff for each moment and objective and reports whether
// a linear program was stopped short of its optimum.
func (f *follower) addTariffs(ctx context.Context, moments [][]int64, work int64) (stopped bool) {
	dims := make([]int, len(f.inst.Dimensions))
	for d := range dims {
		dims[d] = d
	}
	objectives := []func(*binpack.MachineLine) float64{countOf, costOf}
	if f.uniform {
		objectives = objectives[:1]
	}
	part := work / int64(len(moments)*len(objectives)+1)
	for _, items := range moments {
		for i, objective := range objectives {
			if ctx.Err() != nil {
				return true
			}
			opt := coverOptions{dims: dims, rules: true, objective: objective, most: f.most}
			g, out := generate(ctx, f.inst, items, opt, i == 0 || f.exact, 0, part)
			if g == nil {
				continue
			}
			stopped = stopped || out.stopped
			if t, ok := g.tariff(); ok {
				t.count = i == 0
				f.tariffs = append(f.tariffs, t)
			}
		}
	}
	return stopped
}

// tariff returns the best prices by app; not ok when they are worth nothing.
func (g *generator) tariff() (tariff, bool) {
	if g.best.Sign() == 0 {
		return tariff{}, false
	}
	t := tariff{price: make([]int64, len(g.cover.class))}
	for a, class := range g.cover.class {
		if class >= 0 {
			t.price[a] = g.price[class]
		}
	}
	ratio := func(cost float64, worth int64) *big.Rat {
		r := new(big.Rat).SetFloat64(cost)
		return r.Quo(r, new(big.Rat).SetInt64(worth))
	}
	for k, worth := range g.worth {
		cost := g.cover.kinds[k].cost
		if worth > 0 && (t.worth == 0 || ratio(cost, worth).Cmp(ratio(t.cost, t.worth)) < 0) {
			t.worth, t.cost = worth, cost
		}
	}
	return t, true
}

// tariff returns the present bound of all tariffs.
func (f *follower) tariff() Bound {
	var b Bound
	for i := range f.tariffs {
		t := &f.tariffs[i]
		if t.count {
			b.Machines = max(b.Machines, int((t.total+t.worth-1)/t.worth))
		} else {
			b.Cost = max(b.Cost, t.costs(f.exact))
		}
	}
	if f.uniform && b.Machines > 0 {
		b.Cost = float64(b.Machines) * f.inst.Machines[0].Cost
	}
	return b
}

// costs is total · cost ÷ worth, rounded up when all costs are integers.
func (t *tariff) costs(integral bool) float64 {
	if integral {
		if hi, lo := bits.Mul64(uint64(t.total), uint64(t.cost)); hi < uint64(t.worth) {
			q, r := bits.Div64(hi, lo, uint64(t.worth))
			if r > 0 {
				q++
			}
			return float64(q)
		}
	}
	// A hair less than rounding can take away.
	return float64(t.total) / float64(t.worth) * t.cost * (1 - 1e-12)
}
