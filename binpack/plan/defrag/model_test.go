package defrag

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A witness follows a model with the slow checker.
type witness struct {
	*Model
	checker *binpack.Checker
	where   map[int32]Item // by slot
}

func newWitness(inst *binpack.Instance, seed uint64) *witness {
	return &witness{NewModel(inst, seed), binpack.NewChecker(inst), map[int32]Item{}}
}

func (w *witness) come(t *testing.T, it Item) {
	t.Helper()
	slot, err := w.Add(it.App, it.Line, it.Index, it.Devices)
	require.NoError(t, err)
	require.NotContains(t, w.where, slot)
	require.NoError(t, w.checker.Place(it.App, it.Line, it.Index, it.Devices))
	w.where[slot] = it
}

func (w *witness) leave(t *testing.T, slot int32) {
	t.Helper()
	it := w.where[slot]
	w.Remove(slot)
	require.NoError(t, w.checker.Remove(it.App, it.Line, it.Index, it.Devices))
	delete(w.where, slot)
}

// carry carries out moves one by one.
func (w *witness) carry(t *testing.T, app int32, moves []Move) {
	t.Helper()
	for _, m := range moves {
		it, stands := w.where[int32(m.Item)]
		if !stands {
			require.Equal(t, Nowhere, m.From)
			it = Item{App: app}
		} else {
			require.Equal(t, Position{it.Line, it.Index}, m.From)
			require.NotEqual(t, m.From, m.To)
			require.NoError(t, w.checker.Remove(it.App, it.Line, it.Index, it.Devices))
		}
		require.NoError(t, w.checker.Place(it.App, m.To.Line, m.To.Index, m.Devices))
		it.Line, it.Index, it.Devices = m.To.Line, m.To.Index, slices.Clone(m.Devices)
		w.where[int32(m.Item)] = it
	}
	require.Equal(t, w.checker.Machines(), w.state.Active())
	require.Equal(t, int64(w.checker.Items()), w.state.AliveTotal())
}

// live lets items of a riddle come and go on a witness, with searches between, and returns the
// moves that were found.
func live(t *testing.T, r riddle, seed uint64) (list []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	w := newWitness(r.inst, seed)
	for _, it := range r.items {
		if it.Line >= 0 {
			it.Price, it.Fixed = 0, false
			w.come(t, it)
		}
	}
	note := func(moves []Move) {
		for _, m := range moves {
			list = append(list, fmt.Sprint(m.Item, m.From, m.To, m.Devices))
		}
	}
	for range 30 {
		switch k := rng.IntN(5); {
		case k == 0 && len(w.where) > 0:
			slots := []int32{}
			for slot := range w.where {
				slots = append(slots, slot)
			}
			slices.Sort(slots)
			w.leave(t, slots[rng.IntN(len(slots))])
		case k == 1:
			most := rng.IntN(6)
			before := w.picture()
			moves, active := w.Drain(t.Context(), most), w.checker.Machines()
			require.LessOrEqual(t, len(moves), most)
			w.carry(t, -1, moves)
			if len(moves) > 0 {
				require.Less(t, w.checker.Machines(), active)
			} else {
				require.Equal(t, before, w.picture())
			}
			note(moves)
		default:
			app, most := int32(rng.IntN(len(r.inst.Apps))), rng.IntN(9)
			if fits := w.inUse(app); len(fits) > 0 {
				m := fits[rng.IntN(len(fits))]
				it := Item{App: app}
				it.Line, it.Index = w.state.Position(m)
				scratch := binpack.NewState(r.inst) // the first devices that are free
				for _, other := range w.where {
					if other.Line == it.Line && other.Index == it.Index {
						require.NoError(t, scratch.PlaceAs(other.App, scratch.MachineAt(it.Line, it.Index), other.Devices))
					}
				}
				it.Devices = slices.Clone(scratch.Place(binpack.Item{App: app}, scratch.MachineAt(it.Line, it.Index), nil))
				w.come(t, it)
				continue
			}
			before := w.picture()
			moves, ok := w.MakeRoom(app, most)
			require.Equal(t, ok, len(moves) > 0)
			require.LessOrEqual(t, len(moves), most+1)
			if !ok {
				require.Equal(t, before, w.picture())
			}
			w.carry(t, app, moves)
			note(moves)
		}
	}
	return list
}

// picture is what later searches depend on.
func (w *witness) picture() string {
	next := len(w.items)
	if n := len(w.spare); n > 0 {
		next = int(w.spare[n-1])
	}
	text := fmt.Sprint(next, w.on, w.load, w.moved, w.usable, w.spent, w.state.Active())
	for i, at := range w.at {
		if at >= 0 {
			text += fmt.Sprint(" ", i, at, w.origin[i], w.pen[i], w.devices[i])
		}
	}
	return text
}

// inUse lists the machines in use, or of a fixed fleet, that take an item.
func (w *witness) inUse(app int32) []int32 {
	return slices.DeleteFunc(w.state.Feasible(app, nil), func(m int32) bool { return !w.takes(m) })
}

// TestModelKeepsConstraints checks every state of random lives with the slow checker.
func TestModelKeepsConstraints(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		list := live(t, newRiddle(seed), seed)
		require.Equal(t, list, live(t, newRiddle(seed), seed), "seed %d: not the same twice", seed)
		found += len(list)
	}
	require.Positive(t, found)
}

// TestMakeRoomOutOfSmallHoles: where every hole is 3 wide, an item of 8 gets in when a 4 and a 1
// leave a machine, the 4 takes the place of a 1, and both 1s fill
// holes: three moves of others.
func TestMakeRoomOutOfSmallHoles(t *testing.T) {
	inst := &binpack.Instance{
		Types: []string{""}, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}},
		Machines: []binpack.MachineLine{{Name: "m", Count: 200, Cost: 1, Capacity: []int64{12}}},
	}
	for _, size := range []int64{8, 4, 1} {
		name := fmt.Sprint("of", size)
		inst.Groups = append(inst.Groups, binpack.Group{Name: name})
		inst.Apps = append(inst.Apps, binpack.App{Name: name, Group: int32(len(inst.Apps)), Demand: []int64{size}, Expected: -1, Lifetime: -1})
	}
	inst.Groups, inst.Apps = append(inst.Groups, binpack.Group{Name: "new"}),
		append(inst.Apps, binpack.App{Name: "new", Group: 3, Demand: []int64{8}, Expected: -1, Lifetime: -1})
	found := 0
	for seed := range uint64(50) {
		w := newWitness(inst, seed)
		for m := range int32(200) {
			apps := []int32{0, 2} // 8 and 1
			if m%40 == 7 {
				apps = []int32{1, 1, 2} // 4, 4 and 1
			}
			for _, app := range apps {
				w.come(t, Item{App: app, Line: 0, Index: m})
			}
		}
		if moves, ok := w.MakeRoom(3, 3); ok {
			w.carry(t, 3, moves)
			found++
		}
	}
	require.GreaterOrEqual(t, found, 45)
}
