package compare

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// randomTrace draws a trace on an open fleet in which everything that bounds
// know of meets: limits, rules, spread, types, costs, items that stand there
// and break some of it, and departures.
func randomTrace(rng *rand.Rand) *trace.Trace {
	one := func(values ...int64) int64 { return values[rng.IntN(len(values))] }
	in := &binpack.Instance{Fleet: binpack.Open, Types: []string{"x", "y"}}
	for d := range 1 + rng.IntN(3) {
		in.Dimensions = append(in.Dimensions, binpack.Dimension{Name: fmt.Sprint("d", d), One: 1})
	}
	if rng.IntN(3) == 0 {
		in.Dimensions = append(in.Dimensions, binpack.Dimension{Name: "gpu", Unit: "m", One: 1000, Device: true})
	}
	cost := []float64{1, 1, 2, 2.5}[rng.IntN(4)]
	for line := range 1 + rng.IntN(3) {
		m := binpack.MachineLine{Name: fmt.Sprint("m", line), Type: int32(line % 2), Count: binpack.Unlimited, Cost: cost}
		if line > 0 {
			m.Cost = float64(one(1, 2, 3))
		}
		for _, dim := range in.Dimensions {
			m.Capacity = append(m.Capacity, one(9, 12, 20)*dim.One)
		}
		in.Machines = append(in.Machines, m)
	}
	apps := int32(2 + rng.IntN(12))
	for a := range apps {
		app := binpack.App{Name: fmt.Sprint("a", a), Group: int32(len(in.Groups)), Expected: -1, Lifetime: -1}
		if a > 0 && rng.IntN(5) == 0 {
			app.Group = rng.Int32N(app.Group)
		} else {
			in.Groups = append(in.Groups, binpack.Group{Name: app.Name, Limit: int32(one(0, 0, 1, 1, 2)), SpreadMin: int32(one(0, 0, 0, 2, 4))})
		}
		if rng.IntN(6) == 0 {
			app.Types = []int32{0}
		}
		for _, dim := range in.Dimensions {
			if dim.Device {
				app.Demand = append(app.Demand, one(0, 0, 300, 700, 1000, 2000))
			} else {
				app.Demand = append(app.Demand, one(0, 1, 2, 3, 5, 7))
			}
		}
		in.Apps = append(in.Apps, app)
	}
	for range rng.IntN(12) {
		if a, b := rng.Int32N(int32(len(in.Groups))), rng.Int32N(int32(len(in.Groups))); a != b {
			in.Rules = append(in.Rules, binpack.Rule{A: a, B: b, Max: int32(one(0, 0, 1))})
		}
	}
	t := &trace.Trace{Name: "random", Instance: in, MeasureFrom: []float64{math.NaN(), 5}[rng.IntN(2)]}
	if len(in.Dimensions) < 4 && rng.IntN(3) == 0 {
		stand(rng, t)
	}
	var left []int32
	now, departures := 0.0, rng.IntN(2) == 0
	for range 10 + rng.IntN(40) {
		now += []float64{0, .5, 1.25}[rng.IntN(3)]
		if q := rng.IntN(len(left) + 1); departures && q < len(left) && rng.IntN(2) == 0 && left[q] > 0 {
			n := 1 + rng.Int32N(left[q])
			left[q] -= n
			t.Events = append(t.Events, trace.Event{Time: now, Kind: trace.Delete, Request: int32(t.Initial + q), Count: n})
			continue
		}
		n := 1 + rng.Int32N(5)
		t.Events = append(t.Events, trace.Event{Time: now, Request: int32(len(t.Requests)), Count: n})
		t.Requests = append(t.Requests, trace.Request{Name: fmt.Sprint("r", len(t.Requests)), App: rng.Int32N(apps), Count: n})
		left = append(left, n)
	}
	return t
}

// stand puts items of a few apps on the first machines as room permits, and
// nothing else is asked.
func stand(rng *rand.Rand, t *trace.Trace) {
	in := t.Instance
	for m := range int32(2) {
		free := append([]int64(nil), in.Machines[0].Capacity...)
		for range 3 {
			app := rng.Int32N(int32(len(in.Apps)))
			n := int32(3)
			for d, need := range in.Apps[app].Demand {
				if in.Dimensions[d].Device && need > 0 {
					n = 0
				} else if need > 0 {
					n = min(n, int32(free[d]/need))
				}
			}
			if n == 0 {
				continue
			}
			for d, need := range in.Apps[app].Demand {
				free[d] -= need * int64(n)
			}
			t.Placed = append(t.Placed, trace.Placed{Request: int32(len(t.Requests)), Index: m, Count: n})
			t.Requests = append(t.Requests, trace.Request{Name: fmt.Sprint("s", len(t.Requests)), App: app, Count: n})
		}
	}
	t.Initial = len(t.Requests)
}

// No replay beats a bound, by any method, in any order of arrival.
func TestNoReplayIsBelowABound(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	var traces []*trace.Trace
	for range 140 {
		traces = append(traces, randomTrace(rng))
	}
	for kind, set := range map[string]map[string]string{
		"small": nil, "large": {"scale": ".05"}, "large3d": {"scale": ".05"}, "churn": {"scale": ".05", "days": "3"},
	} {
		tr, err := generate.Generate(kind, 5, set)
		require.NoError(t, err)
		traces = append(traces, tr)
	}
	compared, met := 0, map[string]int{}
	for _, tr := range traces {
		const orders = 2
		result, err := Run(t.Context(), []*trace.Trace{tr}, []string{"firstfit", "bestfit", "worstfit", "dotproduct"}, Catalog{}, Options{Orders: orders, Workers: 1})
		require.NoError(t, err)
		require.Zero(t, result.Violations)
		for order := range orders + 1 {
			b := Bounds(t.Context(), tr, 0, order, bound.Options{Work: 1 << 24})
			for _, r := range result.Comparisons[0].Results {
				run := r.Runs[order]
				if run.Unplaced > 0 {
					continue
				}
				compared++
				machines, cost := run.Machines, run.Cost
				if result.Comparisons[0].Trace.Deletes {
					machines, cost = run.PeakMachines, math.Inf(1)
				}
				for _, e := range b.Each {
					require.LessOrEqual(t, e.Machines, machines, "%s: %+v", e.Method, tr.Instance)
					require.LessOrEqual(t, e.Cost, cost, "%s: %+v", e.Method, tr.Instance)
					require.LessOrEqual(t, e.CostSeconds, run.CostSeconds*(1+1e-12)+1e-5, "%s: %+v", e.Method, tr.Instance)
					require.LessOrEqual(t, e.MachineSeconds, run.MachineSeconds*(1+1e-12)+1e-5, "%s: %+v", e.Method, tr.Instance)
					method, _, _ := strings.Cut(e.Method, ":")
					if e.Machines == machines {
						met[method]++
					}
				}
				require.LessOrEqual(t, b.CostSeconds, run.CostSeconds*(1+1e-12)+1e-5, "%+v", tr.Instance)
				require.LessOrEqual(t, b.MachineSeconds, run.MachineSeconds*(1+1e-12)+1e-5, "%+v", tr.Instance)
			}
		}
	}
	t.Log(compared, "replays; machines as the bound says:", met)
	require.Greater(t, compared, 500)
	for _, method := range []string{bound.MethodVolume, bound.MethodLimit, bound.MethodClique, bound.MethodColumns} {
		require.Positive(t, met[method], method)
	}
	require.Greater(t, met[bound.MethodColumns], met[bound.MethodVolume])
}

// What stands may break limits and rules: the bound of what comes to it does
// not take it for impossible.
func TestBoundOfWhatStands(t *testing.T) {
	tr := oneApp()
	in := tr.Instance
	in.Apps[0].Demand = []int64{1}
	in.Groups = append(in.Groups, binpack.Group{Name: "b", Limit: 1})
	in.Apps = append(in.Apps, binpack.App{Name: "b", Group: 1, Demand: []int64{1}, Expected: -1, Lifetime: -1})
	in.Rules = []binpack.Rule{{A: 0, B: 1}}
	tr.Requests = []trace.Request{{Name: "x", Count: 2}, {Name: "y", App: 1, Count: 2}}
	tr.Initial = 2
	tr.Placed = []trace.Placed{{Request: 0, Count: 2}, {Request: 1, Count: 2}}
	require.Equal(t, 1, Bound(tr, 1, 0, false).Machines)
	require.Equal(t, 1, Bounds(context.Background(), tr, 1, 0, bound.Options{Work: 1e6}).Machines)
	require.Equal(t, 3, Bound(tr.FromEmpty(), 1, 0, false).Machines, "a machine for both of a, one for each of b")
	require.Equal(t, int32(1), in.Groups[1].Limit)
	require.Zero(t, in.Rules[0].Max)

	in.Machines[0].Zone = "x"
	in.Groups[1] = binpack.Group{Name: "b", Zone: binpack.ZoneLimits{Limit: 1, SpreadMin: 2, Skew: 1}}
	in.Rules, in.ZoneRules = nil, in.Rules
	require.Equal(t, 1, Bound(tr, 1, 0, false).Machines, "by zone too")
	require.Equal(t, 3, Bound(tr.FromEmpty(), 1, 0, false).Machines)
	require.Equal(t, int32(1), in.Groups[1].Zone.Limit)
	require.Zero(t, in.ZoneRules[0].Max)
}

// LeastAllocated leaves five items with skew 2 in three zones as 3, 1 and 1. Rebalancing empties a zone, so
// two machines are enough, which the bound of a replay with moves knows. So it is where the optimum
// is stated or planned.
func TestBoundWithMoves(t *testing.T) {
	tr := oneApp()
	in := tr.Instance
	in.Fleet, in.Machines = binpack.Fixed, nil
	for i, capacity := range []int64{30, 6, 6} {
		zone := string('x' + rune(i))
		in.Machines = append(in.Machines, binpack.MachineLine{Name: zone, Zone: zone, Count: 1, Capacity: []int64{capacity}, Cost: 1})
	}
	in.Groups[0].Zone.Skew = 2
	in.Apps[0].Demand = []int64{1}
	in.Groups = append(in.Groups, binpack.Group{Name: "late"})
	in.Apps = append(in.Apps, binpack.App{Name: "late", Group: 1, Demand: []int64{1}, Expected: -1, Lifetime: -1})
	tr.Requests = []trace.Request{{Name: "r", Count: 5}, {Name: "late", App: 1, Count: 1}}
	tr.Events = []trace.Event{{Request: 0, Count: 5}, {Time: 100, Request: 1, Count: 1}}
	for _, moves := range []bool{false, true} {
		for _, planned := range []bool{false, true} {
			opt := Options{Workers: 1, Plan: planned}
			want := 3
			if moves {
				opt.Rebalance, want = &cerebro.Rebalance{Every: 10, Moves: 1}, 2
			}
			tr.Source = map[string]any{"optimal": 3}
			result, err := Run(t.Context(), []*trace.Trace{tr}, []string{"leastallocated"}, Catalog{}, opt)
			require.NoError(t, err)
			c := result.Comparisons[0]
			require.Equal(t, want, c.Results[0].Runs[0].Machines)
			require.Equal(t, want, c.Bound.Machines, "moves %v, planned %v", moves, planned)
			require.Equal(t, !moves, c.Bound.Optimal != nil)
			require.Equal(t, moves, Bound(tr, 1, 0, moves).Optimal == nil)
		}
	}
	in.Groups[0].Zone.Skew = 1 // with skew 1 no zone is emptied
	result, err := Run(t.Context(), []*trace.Trace{tr}, []string{"leastallocated"}, Catalog{}, Options{Workers: 1, Rebalance: &cerebro.Rebalance{Every: 10, Moves: 1}})
	require.NoError(t, err)
	require.Equal(t, 3, result.Comparisons[0].Bound.Machines)
	require.InDelta(t, 3, *result.Comparisons[0].Bound.Optimal, 0)
}
