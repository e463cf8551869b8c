package compare

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Every item has one line, in the order of the events where nothing has to
// spread, and the figures are those of the lines. (That nothing is broken the
// plan checks itself.)
func TestPlanPlacesEveryItemOnce(t *testing.T) {
	for kind, set := range map[string]map[string]string{
		"small": nil, "large2d": {"scale": ".1"}, "fixed": {"scale": ".1", "f": ".8"},
	} {
		tr, err := generate.Generate(kind, 7, set)
		require.NoError(t, err)
		p, err := NewPlan(t.Context(), tr, plan.Options{Seed: 1, Steps: 200})
		require.NoError(t, err)
		at, placed := 0, 0
		machines := map[string]bool{}
		for _, e := range tr.Events {
			for i := range tr.Requests[e.Request].Count {
				line := p.Placements[at]
				at++
				require.Equal(t, []any{e.Time, tr.Requests[e.Request].Name, int(i)}, []any{line.Time, line.Request, line.Item})
				if line.Kind == trace.Place {
					placed++
					machines[line.Machine] = true
				}
			}
		}
		require.Len(t, p.Placements, at)
		require.Equal(t, []int{placed, at - placed, len(machines)}, []int{p.Placed, p.Unplaced, p.Machines})
		require.Equal(t, kind == "fixed", p.Unplaced > 0)
		require.Equal(t, p.Proven, p.Bound.Optimal != nil)
	}
}

// What stands, with its devices, stays; second items of a group that has to be
// spread come after all first ones, whatever the order of arrival.
func TestPlanOrdersWhatMustSpread(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "gpu", One: 1000, Device: true}},
		Types:      []string{""}, Fleet: binpack.Open,
		Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8, 2000}}},
		Groups:   []binpack.Group{{Name: "g", SpreadMin: 2}},
		Apps:     []binpack.App{{Name: "a", Demand: []int64{3, 500}}, {Name: "b", Demand: []int64{6, 1000}}},
	}
	tr := &trace.Trace{
		Name: "spread", Instance: inst, Initial: 1,
		Requests: []trace.Request{{Name: "old", App: 0, Count: 1}, {Name: "x", App: 0, Count: 1}, {Name: "y", App: 1, Count: 1}},
		Placed:   []trace.Placed{{Request: 0, Count: 1, Devices: []trace.Device{{Dimension: 1, Index: 1}}}},
		Events:   []trace.Event{{Time: 1, Request: 1, Count: 1}, {Time: 2, Request: 2, Count: 1}},
	}
	p, err := NewPlan(t.Context(), tr, plan.Options{Seed: 1})
	require.NoError(t, err)
	require.Equal(t, 2, p.Machines)
	require.Zero(t, p.Unplaced)
	require.True(t, p.Proven) // 12 cpu on machines of 8
	require.Equal(t, []trace.Placement{
		{Time: 2, Request: "y", App: "b", Machine: "m-00001", Devices: "0", Kind: trace.Place},
		{Time: 1, Request: "x", App: "a", Machine: "m-00000", Devices: "1", Kind: trace.Place}, // beside what stands
	}, p.Placements)
	require.Equal(t, []float64{12.0 / 16, 2.0 / 4}, p.AllocationRate)

	tr.Events = append(tr.Events, trace.Event{Time: 9, Kind: trace.Delete, Request: 1, Count: 1})
	_, err = NewPlan(t.Context(), tr, plan.Options{})
	require.ErrorContains(t, err, "trace spread: items of request x leave at 9 s")
	last, err := NewPlan(t.Context(), Moment(tr, 9), plan.Options{})
	require.NoError(t, err)
	require.Len(t, last.Placements, 1)
	require.Equal(t, "y", last.Placements[0].Request)
	require.Equal(t, 1, last.Standing)
}

// What stands may break a limit: the bound does not count on what is broken.
func TestPlanAroundWhatIsBroken(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Fleet: binpack.Open,
		Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8}}},
		Groups:   []binpack.Group{{Name: "g", Limit: 1}, {Name: "h"}},
		Apps:     []binpack.App{{Name: "a", Demand: []int64{1}}, {Name: "b", Group: 1, Demand: []int64{1}}},
	}
	tr := &trace.Trace{
		Name: "broken", Instance: inst, Initial: 1,
		Requests: []trace.Request{{Name: "old", App: 0, Count: 3}, {Name: "new", App: 1, Count: 5}},
		Placed:   []trace.Placed{{Request: 0, Count: 3}},
		Events:   []trace.Event{{Time: 1, Request: 1, Count: 5}},
	}
	p, err := NewPlan(t.Context(), tr, plan.Options{Seed: 1, Work: 1e6})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{p.Machines, p.Bound.Machines})
	require.True(t, p.Proven)
	repacked, err := NewPlan(t.Context(), tr.FromEmpty(), plan.Options{Seed: 1, Work: 1e6})
	require.NoError(t, err)
	require.Equal(t, []int{3, 3}, []int{repacked.Machines, repacked.Bound.Machines})
}

func TestMomentAndPeak(t *testing.T) {
	tr := &trace.Trace{
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{One: 1}, {One: 1}},
			Machines:   []binpack.MachineLine{{Capacity: []int64{10, 100}}},
			Apps:       []binpack.App{{Demand: []int64{3, 10}}, {Demand: []int64{1, 60}}},
		},
		Initial:  1,
		Requests: []trace.Request{{App: 0, Count: 5}, {App: 0, Count: 4}, {App: 1, Count: 2}},
		Placed:   []trace.Placed{{Count: 2}, {Index: 1, Count: 3}},
		Events: []trace.Event{
			{Time: 1, Request: 1}, // 27 cpu
			{Time: 2, Kind: trace.Delete, Request: 0, Count: 4},
			{Time: 2, Request: 2},
			{Time: 3, Kind: trace.Delete, Request: 1, Count: 1},
			{Time: 4, Kind: trace.Delete, Request: 1, Count: 3},
		},
	}
	require.Equal(t, 1.0, Peak(tr))
	counts := func(m *trace.Trace) (out []int32) {
		for _, q := range m.Requests {
			out = append(out, q.Count)
		}
		return out
	}
	before := Moment(tr, .5)
	require.Equal(t, []int32{5, 0, 0}, counts(before))
	require.Equal(t, tr.Placed, before.Placed)
	require.Empty(t, before.Events)
	require.Equal(t, []int32{5, 4, 0}, counts(Moment(tr, 1)))
	later := Moment(tr, 3)
	require.Equal(t, []int32{1, 3, 2}, counts(later))
	require.Equal(t, []trace.Placed{{Count: 1}}, later.Placed) // the highest numbers left
	require.Equal(t, []trace.Event{{Time: 1, Request: 1, Count: 3}, {Time: 2, Request: 2, Count: 2}}, later.Events)
	end := Moment(tr, 9)
	require.Equal(t, []int32{1, 0, 2}, counts(end))
	require.Len(t, end.Events, 1)
}

// From a snapshot the rest is planned; with a repack all of it, on no more machines.
func TestPlanAroundWhatStands(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	tr, err := generate.Generate("small", 11, nil)
	require.NoError(t, err)
	whole, err := NewPlan(t.Context(), tr, plan.Options{Seed: 1})
	require.NoError(t, err)
	names := trace.NewMachineNames(tr.Instance)
	snapshot := *tr
	snapshot.Events = nil
	snapshot.Requests = nil
	for _, at := range rng.Perm(len(whole.Placements))[:len(whole.Placements)/2] {
		line, index, err := names.Parse(whole.Placements[at].Machine)
		require.NoError(t, err)
		app := slices.IndexFunc(tr.Instance.Apps, func(a binpack.App) bool { return a.Name == whole.Placements[at].App })
		request := int32(len(snapshot.Requests))
		snapshot.Requests = append(snapshot.Requests, trace.Request{Name: "old", App: int32(app), Count: 1})
		snapshot.Placed = append(snapshot.Placed, trace.Placed{Request: request, Line: line, Index: index, Count: 1})
	}
	snapshot.Initial = len(snapshot.Requests)
	for i := range tr.Requests[:10] {
		snapshot.Requests = append(snapshot.Requests, tr.Requests[i])
		snapshot.Events = append(snapshot.Events, trace.Event{Request: int32(len(snapshot.Requests) - 1), Count: tr.Requests[i].Count})
	}
	around, err := NewPlan(t.Context(), &snapshot, plan.Options{Seed: 1})
	require.NoError(t, err)
	require.Zero(t, around.Unplaced)
	repacked, err := NewPlan(t.Context(), snapshot.FromEmpty(), plan.Options{Seed: 1})
	require.NoError(t, err)
	require.Equal(t, around.Placed+len(snapshot.Placed), repacked.Placed)
	require.LessOrEqual(t, repacked.Machines, around.Machines)
}

// Zones are not in the integer program of a plan: limits and rules by zone of any group refuse it.
func TestModelRefusesZones(t *testing.T) {
	tr := oneApp()
	require.NoError(t, CheckModel(tr))
	tr.Instance.Machines[0].Zone = "x"
	require.NoError(t, CheckModel(tr), "a zone without a limit binds nothing")
	for _, limits := range []binpack.ZoneLimits{{Limit: 1}, {SpreadMin: 2}, {Skew: 1}} {
		tr.Instance.Groups[0].Zone = limits
		require.ErrorContains(t, CheckModel(tr), "trace one: it has limits or rules by zone")
	}
	tr.Instance.Groups[0].Zone = binpack.ZoneLimits{}
	tr.Instance.ZoneRules = []binpack.Rule{{A: 0, B: 0, Max: 1}}
	require.ErrorContains(t, CheckModel(tr), "trace one: it has limits or rules by zone")
}
