package bound

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// zoned is a fleet with a machine of some capacity in each zone, and one group.
func zoned(zone binpack.ZoneLimits, zones ...string) *binpack.Instance {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Groups: []binpack.Group{{Name: "g", Zone: zone}},
		Apps: []binpack.App{{Name: "a", Demand: []int64{1}}}, Fleet: binpack.Fixed,
	}
	for _, name := range zones {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: name, Zone: name, Count: 1, Capacity: []int64{8}, Cost: 1})
	}
	return inst
}

// Five items with skew 2 stand in three zones as 3, 1 and 1. Then one moves, and they stand as 3, 2
// and 0. No order of placements reaches that, so it is below the bound without moves.
func TestMovesLeaveAZone(t *testing.T) {
	inst := zoned(binpack.ZoneLimits{Skew: 2}, "x", "y", "z")
	s := binpack.NewState(inst)
	for _, m := range []int32{0, 1, 2, 0, 0} {
		require.True(t, s.Fits(0, m))
		s.Place(binpack.Item{}, m, nil)
	}
	s.Remove(0, 2, nil)
	require.True(t, s.Fits(0, 1))
	s.Place(binpack.Item{}, 1, nil)
	require.Zero(t, s.Items(2))
	items := []int64{5}
	require.Equal(t, 3, Best(t.Context(), inst, items, Options{}).Machines)
	require.Equal(t, 2, Best(t.Context(), inst, items, Options{Moves: true}).Machines)
	inst.Groups[0].Zone.Skew = 1
	require.Equal(t, 3, Best(t.Context(), inst, items, Options{Moves: true}).Machines, "with skew 1 the last item of a zone stays there")
}

// A mover tries every order of placements and moves, with some items away at a time.
type mover struct {
	inst  *binpack.Instance
	state *binpack.State
	seen  map[string]bool
	on    [][]int64 // by machine and app
	left  []int64   // that have not come, or are away
	away  int       // items that have come before
	most  int
	best  float64 // the least cost of all items
	least int     // and machines
}

func (b *mover) try() {
	key := []byte{byte(b.away)}
	complete, cost, machines := true, 0., 0
	for _, n := range b.left {
		complete = complete && n == 0
	}
	for m, apps := range b.on {
		for _, n := range apps {
			key = append(key, byte(n))
		}
		if b.state.Items(int32(m)) > 0 {
			line, _ := b.state.Position(int32(m))
			cost, machines = cost+b.inst.Machines[line].Cost, machines+1
		}
	}
	if b.seen[string(key)] {
		return
	}
	b.seen[string(key)] = true
	if complete {
		b.best, b.least = math.Min(b.best, cost), min(b.least, machines)
	}
	for a := range b.left {
		for m := range b.on {
			if b.left[a] > 0 && b.state.Fits(int32(a), int32(m)) {
				for came := range 2 { // an item that was away, or a new one
					if came == 0 && b.away == 0 || came == 1 && b.left[a] <= int64(b.away) {
						continue
					}
					b.put(a, m, 1, came-1)
					b.try()
					b.put(a, m, -1, 1-came)
				}
			}
			if b.away < b.most && b.on[m][a] > 0 {
				b.put(a, m, -1, 1)
				b.try()
				b.put(a, m, 1, -1)
			}
		}
	}
}

// put places an item, or removes it with sign -1.
func (b *mover) put(a, m, sign, away int) {
	if sign > 0 {
		b.state.Book(int32(a), int32(m))
	} else {
		b.state.Remove(int32(a), int32(m), nil)
	}
	b.on[m][a] += int64(sign)
	b.left[a] -= int64(sign)
	b.away += away
}

func draw[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// In small fleets no order of placements and moves, one or two items at a time, needs less than the
// bound says.
func TestMovesAgainstBruteForce(t *testing.T) {
	solved, raised, below := 0, 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 19))
		inst := zoned(binpack.ZoneLimits{}, draw(rng, []string{"x", "y"}, []string{"x", "y", "z"}, []string{"x", "y", "z"}, []string{"x", "y", "z", "z"})...)
		inst.Types = []string{"t", "u"}
		for i := range inst.Machines {
			m := &inst.Machines[i]
			m.Name, m.Type, m.Capacity, m.Cost = string('m'+rune(i)), draw[int32](rng, 0, 0, 0, 1), []int64{draw[int64](rng, 3, 5, 6)}, draw(rng, 1., 1, 1.5)
		}
		inst.Groups[0] = binpack.Group{Name: "g", SpreadMin: draw[int32](rng, 0, 0, 2, 3), Zone: binpack.ZoneLimits{
			Limit: draw[int32](rng, 0, 0, 0, 3), SpreadMin: draw[int32](rng, 0, 0, 2, 3), Skew: draw[int32](rng, 0, 1, 2, 2, 3),
		}}
		items := []int64{int64(3 + rng.IntN(4))}
		if rng.IntN(3) == 0 { // a second app, of the group or of its own
			inst.Groups = append(inst.Groups, binpack.Group{Name: "h", Zone: binpack.ZoneLimits{Skew: draw[int32](rng, 0, 2)}})
			inst.Apps = append(inst.Apps, binpack.App{Name: "b", Group: rng.Int32N(2), Demand: []int64{draw[int64](rng, 1, 2)}, Types: draw(rng, nil, []int32{0})})
			inst.ZoneRules = draw(rng, nil, []binpack.Rule{{A: 0, B: 1, Max: rng.Int32N(2)}})
			items = []int64{int64(2 + rng.IntN(3)), int64(1 + rng.IntN(2))}
		}
		b := &mover{inst: inst, state: binpack.NewState(inst), seen: map[string]bool{}, left: append([]int64(nil), items...), most: 1 + int(seed%2), best: math.Inf(1), least: math.MaxInt}
		for range inst.Machines {
			b.on = append(b.on, make([]int64, len(items)))
		}
		b.try()
		if math.IsInf(b.best, 1) {
			continue
		}
		solved++
		for _, work := range []int64{0, 1_000_000} {
			found := Best(t.Context(), inst, items, Options{Work: work, Moves: true})
			require.LessOrEqual(t, found.Cost, b.best+1e-9, "seed %d", seed)
			require.LessOrEqual(t, found.Machines, b.least, "seed %d", seed)
			require.False(t, found.Short, "seed %d", seed)
		}
		if Best(t.Context(), inst, items, Options{Moves: true}).Cost > Volume(inst, items).Cost {
			raised++
		}
		if Best(t.Context(), inst, items, Options{}).Machines > b.least {
			below++
		}
	}
	t.Logf("%d of 400 can be placed; the bound is above the volume's of %d; moves need less than the bound without moves in %d", solved, raised, below)
	require.Greater(t, solved, 200)
	require.Greater(t, raised, 50)
	require.Positive(t, below)
}
