package plan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
)

func some[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// TestPackingsKeepZones: a packing has an order that the slow checker accepts, beside what
// stands, and leaves nothing out that one machine after the other would take.
func TestPackingsKeepZones(t *testing.T) {
	placed, out, stood := 0, 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 11))
		inst, items := randomInstance(rng, some(rng, binpack.Open, binpack.Fixed), false)
		names := some(rng, []string{"a", "b"}, []string{"a", "b", ""}, []string{"a", "b", "c"})
		for k := range 2 * len(names) {
			line := some(rng, inst.Machines...)
			line.Zone = names[k%len(names)]
			inst.Machines = append(inst.Machines, line)
		}
		for g := range inst.Groups {
			inst.Groups[g].Zone = binpack.ZoneLimits{Limit: some[int32](rng, 0, 0, 1, 3), SpreadMin: some[int32](rng, 0, 0, 2), Skew: some[int32](rng, 0, 1, 2)}
		}
		if len(inst.Groups) > 1 {
			inst.ZoneRules = []binpack.Rule{{A: 0, B: 1, Max: int32(rng.IntN(2))}}
		}
		before, standing := binpack.NewState(inst), []Machine(nil)
		for range rng.IntN(6) {
			if spot, ok := placeBest(before, int32(rng.IntN(len(inst.Apps)))); ok {
				one := packed(before, standing, []Spot{spot}, nil)
				standing = one.standingWith(standing)
				stood++
			}
		}
		p := Pack(t.Context(), inst, items, Options{Seed: seed, Steps: 200, Standing: standing})
		s, c := binpack.NewState(inst), binpack.NewChecker(inst)
		stand(s, standing)
		for _, m := range standing {
			for k, app := range appsOf(m) {
				require.NoError(t, c.Initial(app, m.Line, m.Index, devicesAt(m, k)))
			}
		}
		var spots []Spot
		for _, m := range p.Machines {
			require.Equal(t, s.KindOf(s.MachineAt(m.Line, m.Index)), m.Kind)
			for k, app := range appsOf(m) {
				spots = append(spots, Spot{app, m.Line, m.Index, devicesAt(m, k)})
			}
		}
		require.ElementsMatch(t, spots, p.Order)
		left := append([]int64(nil), items...)
		for _, spot := range p.Order {
			require.NoError(t, s.PlaceAs(spot.App, s.MachineAt(spot.Line, spot.Index), spot.Devices))
			require.NoError(t, c.Place(spot.App, spot.Line, spot.Index, spot.Devices), "seed %d", seed)
			left[spot.App]--
			placed++
		}
		require.Equal(t, left, p.LeftOut)
		for a, n := range left {
			out += int(n)
			require.True(t, n == 0 || len(s.Feasible(int32(a), nil)) == 0, "seed %d: app %d fits", seed, a)
		}
		if p.Complete() {
			require.GreaterOrEqual(t, p.Cost, p.Bound.Cost-1e-9)
		}
	}
	require.Greater(t, placed, 3000)
	require.Positive(t, out)
	require.Greater(t, stood, 200)
}

func appsOf(m Machine) (apps []int32) {
	for _, e := range m.Items {
		for range e.Count {
			apps = append(apps, e.App)
		}
	}
	return apps
}

// standingWith adds the items of a packing to what stands.
func (p *Packing) standingWith(standing []Machine) []Machine {
	for i, m := range p.Machines {
		if i == len(standing) {
			standing = append(standing, Machine{Line: m.Line, Index: m.Index, Devices: [][]binpack.Device{}})
		}
		for k, app := range appsOf(m) { // one entry per app, its devices behind those that are there
			at := slices.IndexFunc(standing[i].Items, func(e binpack.Entry) bool { return e.App == app })
			if at < 0 {
				at = len(standing[i].Items)
				standing[i].Items = append(standing[i].Items, binpack.Entry{App: app, Group: m.Items[0].Group})
			}
			standing[i].Items[at].Count++
			end := 0
			for _, e := range standing[i].Items[:at+1] {
				end += int(e.Count)
			}
			standing[i].Devices = slices.Insert(standing[i].Devices, end-1, m.Devices[k])
		}
	}
	return standing
}

// zonePacker tries every order and machine, machines of a line from the first on.
type zonePacker struct {
	inst  *binpack.Instance
	state *binpack.State
	seen  map[string]bool
	on    map[[2]int32][]int32 // items by app and machine
	left  []int64
	cost  float64
	count int     // machines in use
	best  float64 // of complete packings, the least cost
	least int     // and machines
}

func (b *zonePacker) key() string {
	var key []byte
	for m := range int32(b.state.Size()) {
		line, index := b.state.Position(m)
		key = append(key, byte(line), byte(index))
		for _, n := range b.on[[2]int32{line, index}] {
			key = append(key, byte(n))
		}
	}
	return string(key)
}

func (b *zonePacker) try() {
	if key := b.key(); b.seen[key] {
		return
	} else {
		b.seen[key] = true
	}
	complete := true
	for a := range b.left {
		if b.left[a] == 0 {
			continue
		}
		complete = false
		for _, m := range b.state.Feasible(int32(a), nil) {
			line, index := b.state.Position(m)
			at := [2]int32{line, index}
			if b.on[at] == nil {
				b.on[at] = make([]int32, len(b.left))
			}
			opens := b.state.Items(m) == 0
			b.state.Place(binpack.Item{App: int32(a)}, m, nil)
			b.left[a]--
			b.on[at][a]++
			if opens {
				b.cost += b.inst.Machines[line].Cost
				b.count++
			}
			b.try()
			if opens {
				b.cost -= b.inst.Machines[line].Cost
				b.count--
			}
			b.on[at][a]--
			b.left[a]++
			b.state.Remove(int32(a), b.state.MachineAt(line, index), nil)
		}
	}
	if complete {
		b.best, b.least = min(b.best, b.cost), min(b.least, b.count)
	}
}

// TestZonesAgainstBruteForce: in small fleets with limits and rules by zone no order of placements
// needs less than the bound says, and a packing is seldom dearer than the best of all orders.
func TestZonesAgainstBruteForce(t *testing.T) {
	solved, optimal, missed, tight, raised := 0, 0, 0, 0, 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 18))
		inst := &binpack.Instance{Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{"t", "u"}, Fleet: some(rng, binpack.Open, binpack.Open, binpack.Fixed)}
		zones := some(rng, []string{"a", "b"}, []string{"a", "b", "c"}, []string{"a", "b", ""})
		for i, zone := range zones {
			inst.Machines = append(inst.Machines, binpack.MachineLine{
				Name: string(rune('m' + i)), Zone: zone, Type: some[int32](rng, 0, 0, 1), Count: some(rng, 1, 2, 2), Capacity: []int64{some[int64](rng, 4, 6)}, Cost: some(rng, 1., 1, 1, 1.5),
			})
		}
		items := []int64{}
		for g := range int32(2) {
			inst.Groups = append(inst.Groups, binpack.Group{Name: string('g' + g), Limit: some[int32](rng, 0, 0, 2), Zone: binpack.ZoneLimits{
				Limit: some[int32](rng, 0, 0, 1, 2), SpreadMin: some[int32](rng, 0, 1, 2, 3), Skew: some[int32](rng, 0, 0, 1, 2),
			}})
		}
		for a := range int32(2 + rng.IntN(2)) {
			app := binpack.App{Name: string('a' + a), Group: a % 2, Demand: []int64{int64(1 + rng.IntN(2))}, Expected: -1, Lifetime: -1}
			if rng.IntN(5) == 0 {
				app.Types = []int32{int32(rng.IntN(2))}
			}
			inst.Apps, items = append(inst.Apps, app), append(items, int64(1+rng.IntN(3)))
		}
		if rng.IntN(2) == 0 {
			inst.ZoneRules = []binpack.Rule{{A: 0, B: 1, Max: int32(rng.IntN(2))}}
		}
		b := &zonePacker{
			inst: inst, state: binpack.NewState(inst), seen: map[string]bool{}, on: map[[2]int32][]int32{},
			left: append([]int64(nil), items...), best: dearest, least: 1 << 30,
		}
		b.try()
		p := Pack(t.Context(), inst, items, Options{Seed: seed, Steps: 300})
		if b.best == dearest {
			require.False(t, p.Complete(), "seed %d", seed)
			continue
		}
		solved++
		for _, work := range []int64{0, 10_000_000} {
			found := bound.Best(t.Context(), inst, items, bound.Options{Work: work})
			require.LessOrEqual(t, found.Cost, b.best+1e-9, "seed %d", seed)
			require.LessOrEqual(t, found.Machines, b.least, "seed %d", seed)
			require.False(t, found.Short, "seed %d", seed)
			if work == 0 && found.Cost > bound.Volume(inst, items).Cost {
				raised++
			}
			if work == 0 && found.Cost >= b.best-1e-9 {
				tight++
			}
		}
		if !p.Complete() {
			missed++
			continue
		}
		require.GreaterOrEqual(t, p.Cost, b.best-1e-9)
		if p.Cost <= b.best+1e-9 {
			optimal++
		}
	}
	t.Logf("%d of 600 can be packed: %d packings are the cheapest, %d leave something out; the bound is the least cost of %d, and above the volume's of %d", solved, optimal, missed, tight, raised)
	require.Greater(t, solved, 300)
	require.Greater(t, optimal, solved*95/100)
	require.Less(t, missed, solved/100)
	require.Greater(t, raised, solved/10)
}

// TestSearchKnowsZones: where half of the groups are spread over three zones, the search finds a
// packing near the bound. One that moves what breaks the spread at the end costs a third more.
func TestSearchKnowsZones(t *testing.T) {
	inst, items := smallLike(rand.New(rand.NewPCG(3, 18)), 60)
	line := inst.Machines[0]
	inst.Machines = nil
	for _, zone := range []string{"a", "b", "c"} {
		line.Zone = zone
		small := line
		small.Capacity, small.Cost = []int64{16, 64}, .22
		inst.Machines = append(inst.Machines, line, small)
	}
	for g := range inst.Groups {
		inst.Groups[g].Limit, inst.Groups[g].Zone.Skew = 0, int32(g%2)
	}
	p := Pack(t.Context(), inst, items, Options{Seed: 1, Steps: 2000})
	require.True(t, p.Complete())
	t.Logf("cost %v, bound %v", p.Cost, p.Bound.Cost)
	require.LessOrEqual(t, p.Cost, 1.05*p.Bound.Cost)
}
