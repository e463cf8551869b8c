package bound

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

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

// permitted reports whether a cover permits a way to fill a machine, from the meaning
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

// Apps that no solution can distinguish are one class.
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

// Nodes that differ a little are merged into few kinds; a kind holds whatever any of
// its machines can.
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
