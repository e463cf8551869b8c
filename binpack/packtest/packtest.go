// Package packtest makes test data of several packages: packing instances, a small
// state, the numbers of shipped policies, and the CPU time used.
package packtest

import (
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Large resembles the standard instance large: 400 apps with limits and
// exclusions on machines of 96c/512Gi.
func Large() (*binpack.Instance, []int64) {
	rng := rand.New(rand.NewPCG(3, 4))
	inst := Instance([]binpack.MachineLine{Line(-1, 1, 96, 512)})
	items := []int64{}
	for i := range 400 {
		s := rng.Float64()
		d := []int64{4, 8}
		switch {
		case s < .06:
			d = []int64{1, 2}
		case s < .14:
			d = []int64{2, 4}
		case s < .41:
			d = []int64{8, 16}
		case s < .45:
			d = []int64{16, 32}
		}
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(i), Demand: d})
		g := binpack.Group{Limit: 1}
		if rng.Float64() > .7 {
			g.Limit = []int32{2, 2, 3, 4, 8}[rng.IntN(5)]
		}
		inst.Groups = append(inst.Groups, g)
		items = append(items, max(1, int64(200*math.Pow(float64(i+1), -.8))))
	}
	for range 800 {
		a, b := int32(rng.IntN(400)), int32(rng.IntN(400))
		if a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b}, binpack.Rule{A: b, B: a})
		}
	}
	return inst, items
}

// Instance has the given machine lines and one app per demand.
func Instance(lines []binpack.MachineLine, demands ...[]int64) *binpack.Instance {
	inst := &binpack.Instance{Fleet: binpack.Open, Machines: lines}
	for range lines[0].Capacity {
		inst.Dimensions = append(inst.Dimensions, binpack.Dimension{One: 1})
	}
	for i, d := range demands {
		inst.Groups = append(inst.Groups, binpack.Group{})
		inst.Apps = append(inst.Apps, binpack.App{Group: int32(i), Demand: d})
	}
	return inst
}

// Line is a line of machines.csv: machines of equal capacity and cost.
func Line(count int, cost float64, capacity ...int64) binpack.MachineLine {
	return binpack.MachineLine{Count: count, Cost: cost, Capacity: capacity}
}

// Small is a state that has two kinds of machines with something on them, limits, rules
// and dimensions, one of them empty on a kind.
func Small(know binpack.Knowledge) *binpack.State {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}, {Name: "disk", One: 1}},
		Types:      []string{"x"},
		Fleet:      binpack.Open,
		Machines: []binpack.MachineLine{
			{Name: "big", Count: 2, Cost: 3, Capacity: []int64{16, 32, 0}},
			{Name: "small", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8, 16, 10}},
		},
		Groups: []binpack.Group{{Name: "a", Limit: 1}, {Name: "b", Limit: 4}, {Name: "c"}},
		Apps: []binpack.App{
			{Name: "a", Group: 0, Demand: []int64{3, 2, 0}},
			{Name: "b", Group: 1, Demand: []int64{2, 8, 1}},
			{Name: "c", Group: 2, Demand: []int64{0, 0, 0}},
		},
		Rules: []binpack.Rule{{A: 0, B: 1, Max: 1}, {A: 1, B: 2}},
	}
	s := binpack.NewState(inst)
	if know.Clock() {
		s.Known.Elapsed = .4
	}
	if know.Forecast() {
		s.Known.Expected, s.Known.Lifetime = []float64{12, -1, 1e9}, []float64{-1, -1, 10}
	}
	if know == binpack.K2 {
		s.Known.Total = []int64{12, 3, 1 << 30}
	}
	return s
}
