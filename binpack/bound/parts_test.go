package bound

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

func TestLimit(t *testing.T) {
	tests := []struct {
		name   string
		lines  []binpack.MachineLine
		change func(in *binpack.Instance)
		items  []int64
		want   Bound
	}{
		// Apps of 1, 2 and 3; machines of 10 hold 10, 5 and 3.
		{"sizes", []binpack.MachineLine{packtest.Line(-1, 1, 10)}, func(*binpack.Instance) {}, []int64{9, 9, 9}, Bound{Machines: 3, Cost: 3}},
		// ceil(9/2), group 0 being apps 0 and 2.
		{"a group of two apps", []binpack.MachineLine{packtest.Line(-1, 1, 10)}, func(in *binpack.Instance) {
			in.Groups[0].Limit = 2
			in.Apps[2].Group = 0
		}, []int64{4, 9, 5}, Bound{Machines: 5, Cost: 5}},
		// Ten of app 0 at 2 a machine: three at 1, then two at 4. In fractions of machines alike.
		{
			"the cheapest first",
			[]binpack.MachineLine{packtest.Line(-1, 4, 10), packtest.Line(3, 1, 2)},
			func(in *binpack.Instance) { in.Groups[0].Limit = 2 },
			[]int64{10, 0, 0},
			Bound{Machines: 5, Cost: 11},
		},
		// The cheap machines hold one item of app 2 each: 3 + ceil(2/3 of 4).
		{
			"what small machines hold",
			[]binpack.MachineLine{packtest.Line(-1, 4, 10), packtest.Line(3, 1, 3)},
			func(*binpack.Instance) {},
			[]int64{0, 0, 5},
			Bound{Machines: 2, Cost: 6},
		},
		{"types", []binpack.MachineLine{packtest.Line(-1, 4, 10), {Type: 1, Count: -1, Cost: 1, Capacity: []int64{10}}}, func(in *binpack.Instance) {
			in.Groups[0].Limit = 1
			in.Apps[0].Types = []int32{0}
		}, []int64{3, 0, 0}, Bound{Machines: 3, Cost: 12}},
		{"too few of a type", []binpack.MachineLine{packtest.Line(2, 1, 10), {Type: 1, Count: -1, Cost: 1, Capacity: []int64{10}}}, func(in *binpack.Instance) {
			in.Groups[0].Limit = 1
			in.Apps[0].Types = []int32{0}
		}, []int64{3, 0, 0}, Bound{Short: true}},
		{"spread", []binpack.MachineLine{packtest.Line(-1, 2.5, 10)}, func(in *binpack.Instance) { in.Groups[1].SpreadMin = 4 }, []int64{0, 5, 0}, Bound{Machines: 4, Cost: 10}},
		{"fewer items than spread", []binpack.MachineLine{packtest.Line(-1, 1, 10)}, func(in *binpack.Instance) { in.Groups[1].SpreadMin = 4 }, []int64{0, 3, 0}, Bound{Machines: 3, Cost: 3}},
		{"no machine is large enough", []binpack.MachineLine{packtest.Line(-1, 1, 2)}, func(*binpack.Instance) {}, []int64{0, 0, 3}, Bound{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inst := packtest.Instance(tt.lines, []int64{1}, []int64{2}, []int64{3})
			tt.change(inst)
			tt.want.Method = MethodLimit
			assert.Equal(t, tt.want, Limit(inst, tt.items))
		})
	}
}

func TestClique(t *testing.T) {
	// Limits 1 on machines of 10: 4, 3 and 2 machines, of which 0 and 1 exclude each other.
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(-1, 2, 10)}, []int64{1}, []int64{1}, []int64{6}, []int64{6})
	for g := range inst.Groups {
		inst.Groups[g].Limit = 1
	}
	inst.Rules = []binpack.Rule{{A: 0, B: 1}, {A: 1, B: 2, Max: 1}}
	items := []int64{4, 3, 2, 0}
	clique := func(items ...int64) Bound { return Best(t.Context(), inst, items, Options{}).Each[2] }
	assert.Equal(t, Bound{Machines: 7, Cost: 14, Method: MethodClique}, clique(items...))
	// Two items of 6 do not fit on one machine: apps 2 and 3 need 2 + 6.
	assert.Equal(t, Bound{Machines: 8, Cost: 16, Method: MethodClique}, clique(4, 3, 2, 6))
	// An app of which there is none excludes nothing, and fits beside nothing.
	inst.Apps = append(inst.Apps, binpack.App{Group: 2, Demand: []int64{1}})
	assert.Equal(t, 8, clique(0, 0, 2, 6, 0).Machines)
	assert.Equal(t, 6, clique(0, 0, 2, 6, 1).Machines)
	inst.Apps = inst.Apps[:4]
	assert.Equal(t, Bound{Machines: 4, Cost: 8, Method: MethodClique}, clique(4, 0, 2, 0))
}

// The branch and bound finds the heaviest clique of small graphs, a greedy one
// is a clique.
func TestHeaviestClique(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 400 {
		n := 1 + rng.IntN(12)
		edge := make([][]bool, n)
		graph, weight := make([][]int32, n), make([]float64, n)
		for i := range n {
			edge[i] = make([]bool, n)
			weight[i] = float64(rng.IntN(8))
		}
		density := rng.Float64()
		for i := range n {
			for j := range i {
				if rng.Float64() < density {
					edge[i][j], edge[j][i] = true, true
				}
			}
		}
		for i := range n {
			for j := range n {
				if edge[i][j] {
					graph[i] = append(graph[i], int32(j))
				}
			}
		}
		best := 0.0
		for set := range 1 << n {
			sum, ok := 0.0, true
			for i := range n {
				for j := range i {
					ok = ok && (set>>i&1 == 0 || set>>j&1 == 0 || edge[i][j])
				}
				sum += float64(set>>i&1) * weight[i]
			}
			if ok {
				best = max(best, sum)
			}
		}
		sum := 0.0
		found := heaviest(graph, weight)
		for i, v := range found {
			sum += weight[v]
			for _, u := range found[:i] {
				require.True(t, edge[u][v])
			}
		}
		require.InDelta(t, best, sum, 0)
	}
}

// The simplex method agrees with gonum's, and its prices are those of a dual
// solution of the same value.
func TestSimplex(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		rows, extra := 1+rng.IntN(12), 1+rng.IntN(40)
		var basis []column
		rhs := make([]float64, rows)
		for r := range rows {
			rhs[r] = 1 + 9*rng.Float64() // gonum's cycles where ratios tie
			basis = append(basis, column{rows: []int32{int32(r)}, value: []float64{1}, cost: 1 + rng.Float64()})
		}
		p := newProgram(slices.Clone(rhs), slices.Clone(basis))
		a := mat.NewDense(rows, rows+extra, nil)
		var cost []float64
		for j := range rows + extra {
			c := column{cost: 1}
			if j < rows {
				c = basis[j]
			} else {
				one := rng.IntN(rows)
				for r := range rows {
					if r == one || rng.IntN(3) == 0 {
						c.rows, c.value = append(c.rows, int32(r)), append(c.value, 1+3*rng.Float64())
					}
				}
				p.add(c)
				work := int64(1e6)
				require.True(t, p.solve(&work)) // from the last basis, column by column
			}
			for k, r := range c.rows {
				a.Set(int(r), j, c.value[k])
			}
			cost = append(cost, c.cost)
		}
		initial := make([]int, rows)
		for i := range initial {
			initial[i] = i
		}
		want, _, err := lp.Simplex(cost, a, rhs, 0, initial)
		require.NoError(t, err)
		require.InDelta(t, want, p.value(), 1e-7)
		dual := 0.0
		for r := range rows {
			dual += p.y[r] * rhs[r]
		}
		require.InDelta(t, want, dual, 1e-7)
		for j := range p.columns {
			require.GreaterOrEqual(t, p.columns[j].cost-p.columns[j].dot(p.y), -1e-7)
		}
		require.True(t, p.refactor())
		require.InDelta(t, want, p.value(), 1e-7)
	}
}

// No way to fill a machine is worth more than a filler says, and the ways that it
// finds are permitted: compared with all ways there are.
func TestFill(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 6))
	exactly := 0
	for range 600 {
		inst, items := tiny(rng)
		dims := make([]int, len(inst.Dimensions))
		for d := range dims {
			dims[d] = d
		}
		c := newCover(inst, items, coverOptions{dims: dims, rules: true, objective: func(*binpack.MachineLine) float64 { return 1 }})
		if c == nil {
			continue
		}
		price := make([]int64, len(c.classes))
		for i := range price {
			price[i] = max(0, rng.Int64N([]int64{1000, 8}[rng.IntN(2)])-1)
		}
		for k := range c.kinds {
			most := int64(0)
			allWays(c, k, func(count []int64) {
				sum := int64(0)
				for i, n := range count {
					sum += n * price[i]
				}
				most = max(most, sum)
			})
			f := newFiller(c, k)
			for _, nodes := range []int64{0, 3, 1 << 20} {
				work := int64(1 << 30)
				worth, exact := f.solve(price, nodes, &work)
				require.GreaterOrEqual(t, worth, most)
				if exact {
					exactly++
					require.Equal(t, most, worth)
				}
				for _, w := range slices.Concat(f.found, f.packing(&work)) {
					count := make([]int64, len(c.classes))
					for i, class := range w.class {
						count[class] = w.count[i]
					}
					require.True(t, permitted(c, k, count), "%+v %v", c, count)
				}
			}
			require.GreaterOrEqual(t, exactly, 1)
		}
	}
	require.Greater(t, exactly, 1500)
}

// The largest amounts that there are: a product of 2⁵⁰ and the steps of a table
// has 64 bits.
func TestFillLargestAmounts(t *testing.T) {
	const half = binpack.MaxValue / 2
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, binpack.MaxValue, binpack.MaxValue)},
		[]int64{binpack.MaxValue, 1}, []int64{1, binpack.MaxValue}, []int64{half, half - 1})
	b := Best(t.Context(), inst, []int64{2, 2, 4}, Options{Work: 1e7})
	require.Equal(t, 6, b.Machines) // 2 + 2 alone, 4 by pairs
	require.Len(t, b.Each, 6)
}

// A machine with room for a million items of each class: what is tried is counted
// as work and bounded, and the bound holds.
func TestFillVeryManyItems(t *testing.T) {
	const million = 1_000_000
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(binpack.Unlimited, 1, million, million)},
		[]int64{1, 1}, []int64{0, 0}, []int64{1, 2}, []int64{3, 2})
	items := []int64{2 * million, 3 * million, 2 * million, 2 * million}
	c := newCover(inst, items, coverOptions{dims: []int{0, 1}, rules: true, objective: countOf})
	f := newFiller(c, 0)
	work := int64(0)
	worth, _ := f.solve([]int64{5, 1, 5, 5}, fewestNodes, &work)
	require.GreaterOrEqual(t, worth, int64(5*million+3*million)) // the first class and all of the second
	require.LessOrEqual(t, f.numbers, int64(mostNumbers*fewestNodes+len(items)))
	require.Less(t, work, -numberWork*f.numbers+1)
}

// allWays calls f with every way to fill a machine of a kind.
func allWays(c *cover, kind int, f func(count []int64)) {
	count := make([]int64, len(c.classes))
	var try func(i int)
	try = func(i int) {
		if i == len(count) {
			if permitted(c, kind, count) {
				f(count)
			}
			return
		}
		for count[i] = 0; count[i] <= c.classes[i].most; count[i]++ {
			try(i + 1)
		}
		count[i] = 0
	}
	try(0)
}

// permitted is what a cover says of a way to fill a machine, from the meaning
// of its fields.
func permitted(c *cover, kind int, count []int64) bool {
	used, held := make([]int64, len(c.kinds[kind].capacity)), make([]int64, len(c.groups))
	for i, n := range count {
		class := &c.classes[i]
		if n == 0 {
			continue
		}
		if !class.on[kind] || n > class.most {
			return false
		}
		held[class.group] += n
		for d, need := range class.demand {
			if used[d] += n * need; used[d] > c.kinds[kind].capacity[d] {
				return false
			}
		}
	}
	for g, n := range held {
		group := &c.groups[g]
		if n == 0 {
			continue
		}
		if group.limit > 0 && n > group.limit {
			return false
		}
		for _, o := range group.excludes {
			if held[o] > 0 {
				return false
			}
		}
		for _, r := range group.rules {
			if held[r.a] > 0 && held[r.b] > r.max {
				return false
			}
		}
	}
	return true
}

// Apps that no solution tells apart are one class.
func TestClasses(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(-1, 1, 10, 10)}, []int64{1, 2}, []int64{1, 2}, []int64{1, 2}, []int64{1, 2}, []int64{1, 3}, []int64{11, 1})
	classes := func(rules, merge bool, dims ...int) string {
		c := newCover(inst, []int64{7, 7, 8, 1, 2, 1}, coverOptions{dims: dims, rules: rules, merge: merge, objective: func(*binpack.MachineLine) float64 { return 1 }})
		text := ""
		for _, class := range c.classes {
			text += fmt.Sprint(class.items, "/", class.most, " ")
		}
		return text
	}
	// Machines hold 5 of the first four, 3 of the fifth and none of the last.
	assert.Equal(t, "23/16 2/2 ", classes(true, false, 0, 1))
	assert.Equal(t, "25/25 ", classes(true, false, 0))
	for g := range 4 {
		inst.Groups[g].Limit = 2
	}
	assert.Equal(t, "14/4 8/2 1/1 2/2 ", classes(true, false, 0, 1))
	assert.Equal(t, "23/7 2/2 ", classes(true, true, 0, 1))
	inst.Rules = []binpack.Rule{{A: 0, B: 4}}
	assert.Equal(t, "7/2 7/2 8/2 1/1 2/2 ", classes(true, false, 0, 1))
	assert.Equal(t, "14/4 8/2 1/1 2/2 ", classes(false, false, 0, 1))
	inst.Rules = append(inst.Rules, binpack.Rule{A: 1, B: 4})
	assert.Equal(t, "14/4 8/2 1/1 2/2 ", classes(true, false, 0, 1))
	inst.Rules[1].Max = 1
	assert.Equal(t, "7/2 7/2 8/2 1/1 2/2 ", classes(true, false, 0, 1))
}

// Nodes of which no two are quite alike are few kinds, of which each holds what
// any of its machines holds.
func TestCoarsen(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(1, 2, 96, 512)}, []int64{4, 8}, []int64{8, 100})
	for i := range 60 {
		small := packtest.Line(1, 1, 32-rng.Int64N(2), 128-rng.Int64N(5))
		large := packtest.Line(1, 2.5, 96-rng.Int64N(2), 512-rng.Int64N(9))
		small.Type, large.Type = 1, int32(i%3/2*2)
		inst.Machines = append(inst.Machines, small, large)
	}
	inst.Apps[1].Types = []int32{2}
	c := newCover(inst, []int64{50, 9}, coverOptions{dims: []int{0, 1}, rules: true, objective: costOf})
	require.Len(t, c.kinds, maxCoverKinds)
	machines := int64(0)
	for k := range c.kinds {
		machines += c.kinds[k].count
	}
	require.Equal(t, int64(len(inst.Machines)), machines)
	for i := range inst.Machines {
		m := &inst.Machines[i]
		require.True(t, slices.ContainsFunc(c.kinds, func(k coverKind) bool {
			return slices.Contains(k.types, m.Type) && k.cost <= m.Cost && k.capacity[0] >= m.Capacity[0] && k.capacity[1] >= m.Capacity[1]
		}))
	}
	for k := range c.kinds { // small and large ones are kept apart
		require.Equal(t, c.kinds[k].cost == 1, c.kinds[k].capacity[0] <= 32)
	}
	b := Best(t.Context(), inst, []int64{50, 9}, Options{Work: 1e8})
	require.Equal(t, MethodColumns, b.Each[len(b.Each)-1].Method)
	require.GreaterOrEqual(t, b.Each[len(b.Each)-1].Cost, b.Each[0].Cost-1)
}

// Farley's bound by hand, with unlimited and limited machines.
func TestDualBound(t *testing.T) {
	c := &cover{kinds: []coverKind{{cost: 1, count: -1}, {cost: 3, count: 2}}, classes: []coverClass{{items: 10}, {items: 4}}}
	value := func(price, worth []int64) string {
		v, _, ok := c.bound(price, worth)
		if !ok {
			return "short"
		}
		return v.RatString()
	}
	// 10·2 + 4·1 = 24. A machine of the first kind is worth 6 at most: t = 1/6.
	assert.Equal(t, "4", value([]int64{2, 1}, []int64{6, 10}))
	// The second kind at t = 1/6 is worth 30/6 = 5 for 3: two excesses of 2.
	assert.Equal(t, "12/5", value([]int64{2, 1}, []int64{6, 30})) // t = 1/10 without excess
	// A single one: t = 1/6 with an excess of 2, 24/6 − 2, or t = 1/10.
	c.kinds[1].count = 0
	assert.Equal(t, "4", value([]int64{2, 1}, []int64{6, 30}))
	c.kinds[0].count, c.kinds[1].count = 3, 0
	assert.Equal(t, "short", value([]int64{2, 1}, []int64{6, 30}))
	c.kinds[0].count = 4
	assert.Equal(t, "4", value([]int64{2, 1}, []int64{6, 30}))
	assert.Equal(t, "0", value([]int64{0, 0}, []int64{0, 0}))
	assert.Equal(t, "4", ceil(big.NewRat(7, 2)).String())
	assert.Equal(t, "4", ceil(big.NewRat(8, 2)).String())
	assert.Less(t, new(big.Rat).SetFloat64(below(big.NewRat(1, 3))).Cmp(big.NewRat(1, 3)), 1)
	assert.InDelta(t, 1./3, below(big.NewRat(1, 3)), 1e-15)
}

// Over time volume and limit are those of each moment, computed anew, and the
// strongest is never below either.
func TestOverTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	beyond := 0
	for range 60 {
		inst, _ := tiny(rng)
		for g := range inst.Groups {
			inst.Groups[g].SpreadMin = 0
		}
		items := make([]int64, len(inst.Apps))
		var changes []Change
		volume, limit := Bound{Method: MethodVolume}, Bound{Method: MethodLimit}
		least := Bound{}
		for now := range 80 {
			a := rng.IntN(len(items))
			n := rng.Int64N(items[a]+4) - items[a]
			items[a] += n
			changes = append(changes, Change{float64(now), int32(a), int32(n)})
			span := 0.
			if now < 79 && now >= 10 {
				span = 1
			}
			v, l := Volume(inst, items), Limit(inst, items)
			volume.pass(v, span)
			limit.pass(l, span)
			least.pass(Bound{Machines: max(v.Machines, l.Machines), Cost: max(v.Cost, l.Cost)}, span)
		}
		got := BestOverTime(t.Context(), inst, changes, 10, Options{})
		short := volume.Short || limit.Short
		got.Each[0].Short, got.Each[1].Short, volume.Short, limit.Short = false, false, false, false
		require.Equal(t, volume, got.Each[0])
		if !short {
			require.Equal(t, limit, got.Each[1])
			require.True(t, got.covers(least))
			if !least.covers(got.Bound) {
				beyond++
			}
		}
	}
	require.Positive(t, beyond, "no clique was ever worth anything")
}

// Spread does not count where items leave, and what does not fit is said.
func TestOverTimeOfAGroup(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(6, 1, 10)}, []int64{1})
	inst.Groups[0].SpreadMin = 4
	changes := []Change{{0, 0, 5}, {1, 0, -1}, {2, 0, 0}}
	b := BestOverTime(t.Context(), inst, changes, math.NaN(), Options{})
	assert.Equal(t, []int{1, 1, 1}, []int{b.Each[0].Machines, b.Each[1].Machines, b.Each[2].Machines})
	assert.InDelta(t, 2, b.MachineSeconds, 0)
	inst.Groups[0].Limit = 1
	b = BestOverTime(t.Context(), inst, changes, math.NaN(), Options{})
	assert.InDelta(t, 5+4, b.MachineSeconds, 0)
	assert.False(t, b.Short)
	changes[0].Count = 7
	assert.True(t, BestOverTime(t.Context(), inst, changes, math.NaN(), Options{}).Short)
}

// Tariffs bound every moment: here the peak as the linear program of the peak
// does, and others far beyond volume and cliques, since what is limited does not
// fit on the machines that are cheap for the rest.
func TestTariffs(t *testing.T) {
	inst := packtest.Instance([]binpack.MachineLine{packtest.Line(-1, 1, 4), packtest.Line(-1, 3, 16)}, []int64{1}, []int64{4})
	inst.Groups[0].Limit = 1
	var changes []Change
	for i := range 40 {
		changes = append(changes, Change{float64(i), int32(i % 2), 1})
	}
	for i := range 40 {
		changes = append(changes, Change{float64(40 + i), int32(i % 2), -1})
	}
	over := BestOverTime(t.Context(), inst, changes, math.NaN(), Options{Work: 1e8})
	items := make([]int64, 2)
	want := Bound{}
	for i, c := range changes {
		items[c.App] += int64(c.Count)
		b := Best(t.Context(), inst, items, Options{Work: 1e8})
		span := 1.
		if i == len(changes)-1 {
			span = 0
		}
		want.pass(b.Bound, span)
	}
	require.Equal(t, want.Machines, over.Machines)
	require.InDelta(t, want.Cost, over.Cost, 0)
	require.LessOrEqual(t, over.CostSeconds, want.CostSeconds)
	require.Greater(t, over.CostSeconds, .97*want.CostSeconds)
	cheap := BestOverTime(t.Context(), inst, changes, math.NaN(), Options{})
	require.Greater(t, over.CostSeconds, 1.1*cheap.CostSeconds)
	require.Equal(t, MethodColumns, over.Each[3].Method)
}

// Costs of tariffs are exact where they can be.
func TestTariffCosts(t *testing.T) {
	tariff := tariff{worth: 7, cost: 3, total: 14}
	assert.InDelta(t, 6, tariff.costs(true), 0)
	tariff.total = 15
	assert.InDelta(t, 7, tariff.costs(true), 0) // 45/7
	assert.InDelta(t, 45./7, tariff.costs(false), 1e-11)
	assert.Less(t, tariff.costs(false), 45./7)
	tariff.total, tariff.cost = 1<<60, 1<<40
	assert.InEpsilon(t, float64(1<<60)/7*(1<<40), tariff.costs(true), 1e-11)
}

// Methods that stand together for a bound are named together.
func TestName(t *testing.T) {
	b := Bounds{Bound: Bound{Machines: 1, Method: "a"}, Each: []Bound{{Machines: 1, Method: "a"}}}
	b.add(Bound{Machines: 1, Method: "b"})
	assert.Equal(t, "a", b.Method, "the cheapest of equals")
	b.add(Bound{Machines: 2, Method: "c"})
	assert.Equal(t, "c", b.Method)
	b.add(Bound{Cost: 2, Method: "d"})
	assert.Equal(t, "c+d", b.Method)
	assert.Equal(t, Bound{Machines: 2, Cost: 2, Method: "c+d"}, b.Bound)
}
