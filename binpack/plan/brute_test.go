package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// dearest marks instances that no packing satisfies.
var dearest = math.Inf(1)

// everyPacking looks for the least cost of a complete packing, by trying everything.
type everyPacking struct {
	inst     *binpack.Instance
	kindOf   []int // machine line of each machine in use
	on       [][]int32
	lineUsed []int
	best     float64
}

func leastCost(inst *binpack.Instance, items []int64) float64 {
	b := &everyPacking{inst: inst, lineUsed: make([]int, len(inst.Machines)), best: dearest}
	var list []int32
	for a, n := range items {
		for range n {
			list = append(list, int32(a))
		}
	}
	b.place(list, 0, 0)
	return b.best
}

// place puts the first item everywhere; from is the first machine of items of
// the same app, which are equal.
func (b *everyPacking) place(list []int32, from int, cost float64) {
	if cost >= b.best {
		return
	}
	if len(list) == 0 {
		if b.spreadHolds() {
			b.best = cost
		}
		return
	}
	a := list[0]
	next := func(m int) int {
		if len(list) > 1 && list[1] == a {
			return m
		}
		return 0
	}
	for m := from; m < len(b.on); m++ {
		b.on[m] = append(b.on[m], a)
		if b.holds(m) {
			b.place(list[1:], next(m), cost)
		}
		b.on[m] = b.on[m][:len(b.on[m])-1]
	}
	for line, ml := range b.inst.Machines {
		if ml.Count != binpack.Unlimited && b.lineUsed[line] == ml.Count {
			continue
		}
		m := len(b.on)
		b.lineUsed[line]++
		b.kindOf, b.on = append(b.kindOf, line), append(b.on, []int32{a})
		if b.holds(m) {
			b.place(list[1:], next(m), cost+ml.Cost)
		}
		b.kindOf, b.on = b.kindOf[:m], b.on[:m]
		b.lineUsed[line]--
	}
}

// holds reports whether a machine breaks nothing but perhaps spread.
func (b *everyPacking) holds(m int) bool {
	line := b.inst.Machines[b.kindOf[m]]
	groups := map[int32]int32{}
	for d, room := range line.Capacity {
		var needs []int64
		for _, a := range b.on[m] {
			room -= b.inst.Apps[a].Demand[d]
			needs = append(needs, b.inst.Apps[a].Demand[d])
		}
		if room < 0 {
			return false
		}
		if dim := b.inst.Dimensions[d]; dim.Device {
			free := make([]int64, line.Capacity[d]/dim.One)
			for i := range free {
				free[i] = dim.One
			}
			if !devicesHold(free, needs, dim.One) {
				return false
			}
		}
	}
	for _, a := range b.on[m] {
		app := b.inst.Apps[a]
		groups[app.Group]++
		if limit := b.inst.Groups[app.Group].Limit; limit > 0 && groups[app.Group] > limit {
			return false
		}
		ok := app.Types == nil
		for _, typ := range app.Types {
			ok = ok || typ == line.Type
		}
		if !ok {
			return false
		}
	}
	for _, r := range b.inst.Rules {
		if groups[r.A] > 0 && groups[r.B] > r.Max {
			return false
		}
	}
	return true
}

// devicesHold tries every device for every need.
func devicesHold(free, needs []int64, one int64) bool {
	if len(needs) == 0 {
		return true
	}
	need, rest := needs[0], needs[1:]
	switch {
	case need == 0:
		return devicesHold(free, rest, one)
	case need > one:
		rest = append(slices.Repeat([]int64{one}, int(need/one)), rest...)
		return devicesHold(free, rest, one)
	}
	for i := range free {
		if free[i] >= need {
			free[i] -= need
			holds := devicesHold(free, rest, one)
			free[i] += need
			if holds {
				return true
			}
		}
	}
	return false
}

// spreadHolds: a group may stand twice on a machine only when it stands on as
// many machines as its spread asks for.
func (b *everyPacking) spreadHolds() bool {
	for g, group := range b.inst.Groups {
		machines, double := int32(0), false
		for _, on := range b.on {
			n := 0
			for _, a := range on {
				if b.inst.Apps[a].Group == int32(g) {
					n++
				}
			}
			if n > 0 {
				machines++
			}
			double = double || n > 1
		}
		if double && machines < group.SpreadMin {
			return false
		}
	}
	return true
}

func TestPlanAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	packed, optimal, proven := 0, 0, 0
	for i := range 400 {
		inst, items := randomInstance(rng, binpack.Fleet(i%2), i%4 < 2)
		left := int64(7)
		for a := range items {
			items[a] = min(items[a], left)
			left -= items[a]
		}
		want := leastCost(inst, items)
		p := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: 300})
		checkPacking(t, inst, items, nil, p)
		if want == dearest {
			require.False(t, p.Complete())
			continue
		}
		packed++
		if p.Complete() && p.Cost == want {
			optimal++
		} else {
			t.Logf("instance %d: cost %v, left out %v, optimum %v", i, p.Cost, p.LeftOut, want)
		}
		if p.Complete() {
			require.GreaterOrEqual(t, p.Cost, want)
		}
		if p.Proven {
			proven++
			require.InDelta(t, want, p.Cost, 1e-9)
		}
	}
	require.Greater(t, packed, 200)
	require.Equal(t, packed, optimal)
	require.Greater(t, proven, 50)
}
