package plan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
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
