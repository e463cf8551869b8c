package binpack_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// bench drives a State, the Checker and the dumb world side by side.
type bench struct {
	t       *testing.T
	inst    *binpack.Instance
	state   *binpack.State
	checker *binpack.Checker
	world   world
	serial  uint64
}

func newBench(t *testing.T, inst *binpack.Instance) *bench {
	t.Helper()
	return &bench{t: t, inst: inst, state: binpack.NewState(inst), checker: binpack.NewChecker(inst), world: world{inst: inst}}
}

// feasible asks State and compares with the definition.
func (b *bench) feasible(app int32) []int32 {
	machines := b.state.Feasible(app, nil)
	require.True(b.t, slices.IsSorted(machines))
	require.Equal(b.t, len(machines) > 0, b.state.Takes(app))
	var got []spot
	for _, m := range machines {
		require.True(b.t, b.state.Fits(app, m))
		line, index := b.state.Position(m)
		got = append(got, spot{line, index})
	}
	require.ElementsMatch(b.t, b.world.feasible(app), got, "candidates of app %d", app)
	return machines
}

// place puts an item of an app on a machine and has the checker agree.
func (b *bench) place(app, m int32, chooser binpack.DeviceChooser) {
	line, index := b.state.Position(m)
	b.serial++
	devices := slices.Clone(b.state.Place(binpack.Item{App: app, Serial: b.serial}, m, chooser))
	require.NoError(b.t, b.checker.Place(app, line, index, devices))
	b.world.items = append(b.world.items, place{app, line, index, devices})
	b.agree()
}

// remove takes the i-th item away.
func (b *bench) remove(i int) {
	p := b.world.items[i]
	b.state.Remove(p.app, b.state.MachineAt(p.line, p.index), p.devices)
	require.NoError(b.t, b.checker.Remove(p.app, p.line, p.index, p.devices))
	b.world.items = slices.Delete(b.world.items, i, i+1)
	b.agree()
}

func (b *bench) agree() {
	require.Equal(b.t, b.checker.Machines(), b.state.Active())
	require.Equal(b.t, b.checker.Items(), int(b.state.AliveTotal()))
	require.Len(b.t, b.world.items, b.checker.Items())
}

// refuses tries an item on some machine that exists: State, checker and
// definition must be of one mind.
func (b *bench) refuses(app, m int32) {
	line, index := b.state.Position(m)
	takes := b.world.takes(app, spot{line, index})
	require.Equal(b.t, takes, b.state.Fits(app, m))
	devices := b.anyDevices(app, spot{line, index})
	err := b.checker.Place(app, line, index, devices)
	require.Equal(b.t, takes, err == nil, "app %d on %d/%d: %v", app, line, index, err)
	require.NoError(b.t, b.checker.Remove(app, line, index, devices))
}

// anyDevices are the freest devices, enough of them in number where there are.
func (b *bench) anyDevices(app int32, at spot) []binpack.Device {
	var devices []binpack.Device
	for d, dim := range b.inst.Dimensions {
		need := b.inst.Apps[app].Demand[d]
		if !dim.Device || need == 0 {
			continue
		}
		free := b.world.free(at, d)
		order := make([]int32, len(free))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortStableFunc(order, func(i, j int32) int { return int(free[j] - free[i]) })
		for _, i := range order[:min(len(order), int(max(1, need/dim.One)))] {
			devices = append(devices, binpack.Device{Dimension: int32(d), Index: i})
		}
	}
	return devices
}

// scattered chooses the last devices that do, to be unlike the default.
type scattered struct{ inst *binpack.Instance }

func (c scattered) ChooseDevices(item binpack.Item, _ int32, d int, free []int64, out []int32) []int32 {
	need, one := c.inst.Apps[item.App].Demand[d], c.inst.Dimensions[d].One
	for i := len(free) - 1; i >= 0 && int64(len(out)) < max(1, need/one); i-- {
		if free[i] >= min(need, one) {
			out = append(out, int32(i))
		}
	}
	return out
}

// step does one random thing.
func (b *bench) step(d dice) {
	app := int32(d.IntN(len(b.inst.Apps)))
	if d.IntN(10) < 3 && len(b.world.items) > 0 {
		b.remove(d.IntN(len(b.world.items)))
		return
	}
	if b.state.Size() > 0 {
		b.refuses(app, int32(d.IntN(b.state.Size())))
	}
	if machines := b.feasible(app); len(machines) > 0 {
		var chooser binpack.DeviceChooser
		if d.IntN(2) == 0 {
			chooser = scattered{b.inst}
		}
		b.place(app, oneOf(d, machines...), chooser)
	}
}

func TestStateAgainstDefinition(t *testing.T) {
	for seed := range uint64(400) {
		d := seeded(seed)
		b := newBench(t, randomInstance(d, true))
		for range 60 {
			b.step(d)
		}
	}
}

// FuzzPlacement turns bytes into an instance and operations on it; after each
// step State, checker and definition agree.
func FuzzPlacement(f *testing.F) {
	for seed := range uint64(8) {
		d, data := seeded(seed), make([]byte, 200)
		for i := range data {
			data[i] = byte(d.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &bytesDice{data[:min(len(data), 400)]}
		b := newBench(t, randomInstance(d, true))
		for d.left() {
			b.step(d)
		}
	})
}

// picture is all that can be seen of the first size machines of a state, but
// for the order of contents and the traces of history.
func picture(s *binpack.State, size int) string {
	inst := s.Instance()
	text := fmt.Sprintln(s.Active(), s.AliveTotal(), s.Held(), s.Alive())
	for m := range int32(size) {
		line, index := s.Position(m)
		text += fmt.Sprint(line, "/", index, " kind ", s.KindOf(m), " items ", s.Items(m), " offered ", s.Offered()[m/64]>>(m%64)&1, " free")
		for d := range inst.Dimensions {
			text += fmt.Sprint(" ", s.Free(d)[m], s.Devices(m, d))
		}
		contents := slices.Clone(s.Contents(m))
		slices.SortFunc(contents, func(a, b binpack.Entry) int { return int(a.App - b.App) })
		text += fmt.Sprint(" holds ", contents, " blocked ", s.BlockedApps(m))
		for a := range inst.Apps {
			text += fmt.Sprint(" ", s.Blocked(int32(a))[m/64]>>(m%64)&1, s.Fits(int32(a), m))
		}
		text += "\n"
	}
	for g := range inst.Groups {
		text += fmt.Sprint(s.Spread(int32(g)), " ")
	}
	return text
}

func TestPlaceThenRemoveIsIdentity(t *testing.T) {
	for seed := range uint64(300) {
		d := seeded(1000 + seed)
		b := newBench(t, randomInstance(d, true))
		for range 20 {
			b.step(d)
		}
		for app := range int32(len(b.inst.Apps)) {
			for _, m := range b.feasible(app) {
				size := b.state.Size()
				before, version := picture(b.state, size), b.state.Version(m)
				b.place(app, m, nil)
				b.remove(len(b.world.items) - 1)
				require.Equal(t, before, picture(b.state, size))
				require.NotEqual(t, version, b.state.Version(m))
			}
		}
	}
}

// TestReset: a used and reset state is like a new one, and versions go on.
func TestReset(t *testing.T) {
	for seed := range uint64(200) {
		d := seeded(2000 + seed)
		inst := randomInstance(d, true)
		used := newBench(t, inst)
		for range 40 {
			used.step(d)
		}
		versions := map[uint32]bool{}
		for m := range int32(used.state.Size()) {
			versions[used.state.Version(m)] = true
		}
		used.state.Reset()
		fresh := newBench(t, inst)
		again := &bench{t: t, inst: inst, state: used.state, checker: binpack.NewChecker(inst), world: world{inst: inst}}
		for m := range int32(again.state.Size()) {
			require.False(t, versions[again.state.Version(m)])
		}
		d1, d2 := seeded(seed), seeded(seed)
		for range 30 {
			require.Equal(t, fresh.state.Size(), again.state.Size())
			require.Equal(t, picture(fresh.state, fresh.state.Size()), picture(again.state, again.state.Size()))
			fresh.step(d1)
			again.step(d2)
		}
		require.Equal(t, fresh.world.items, again.world.items)
	}
}

// visible is what a follower of the journal keeps of a machine.
func (b *bench) visible(m int32) string {
	return fmt.Sprint(b.state.Version(m), b.state.Items(m), b.state.Offered()[m/64]>>(m%64)&1)
}

func TestChangesTellEverything(t *testing.T) {
	for seed := range uint64(100) {
		d := seeded(3000 + seed)
		b := newBench(t, randomInstance(d, true))
		_, seq, all := b.state.Changes(0, nil)
		require.True(t, all)
		for range 40 {
			var known []string
			for m := range int32(b.state.Size()) {
				known = append(known, b.visible(m))
			}
			b.step(d)
			changes, next, all := b.state.Changes(seq, nil)
			require.False(t, all)
			seq = next
			told := map[int32]bool{}
			for _, c := range changes {
				told[c.Machine] = true
			}
			for m := range int32(b.state.Size()) {
				if int(m) >= len(known) || known[m] != b.visible(m) {
					require.True(t, told[m], "machine %d", m)
				}
			}
		}
	}
}

// TestAsFound: what a snapshot finds may break constraints; it is booked, and
// its neighbours are judged with it.
func TestAsFound(t *testing.T) {
	for seed := range uint64(200) {
		d := seeded(4000 + seed)
		b := newBench(t, randomInstance(d, true))
		for range 10 {
			app, line := int32(d.IntN(len(b.inst.Apps))), int32(d.IntN(len(b.inst.Machines)))
			at := spot{line, int32(d.IntN(4))}
			m := b.state.MachineAt(at.line, at.index)
			if m < 0 {
				require.Error(t, b.checker.Initial(app, at.line, at.index, nil))
				continue
			}
			devices := b.anyDevices(app, at)
			before := picture(b.state, b.state.Size())
			if b.state.PlaceAs(app, m, devices) != nil {
				require.Equal(t, before, picture(b.state, b.state.Size()))
				continue
			}
			require.NoError(t, b.checker.Initial(app, at.line, at.index, devices))
			b.world.items = append(b.world.items, place{app, at.line, at.index, devices})
			b.agree()
		}
		for range 30 {
			b.step(d)
		}
	}
}
