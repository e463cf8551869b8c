package cerebro_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// ticks has two machines that hold 6 and 4 each; from second 15 on one of them holds 6 and the other 4.
func ticks() *trace.Trace {
	return &trace.Trace{
		Name: "ticks", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Fleet: binpack.Open, Types: []string{""}, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}},
			Machines: []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{10}}},
			Groups:   []binpack.Group{{Name: "a"}, {Name: "b"}},
			Apps:     []binpack.App{{Name: "a", Demand: []int64{6}, Expected: -1, Lifetime: -1}, {Name: "b", Group: 1, Demand: []int64{4}, Expected: -1, Lifetime: -1}},
		},
		Requests: []trace.Request{{Name: "a", Count: 1}, {Name: "a2", Count: 1}, {Name: "b", App: 1, Count: 1}, {Name: "b2", App: 1, Count: 1}},
		Events: []trace.Event{
			{Request: 0, Count: 1},
			{Request: 1, Count: 1},
			{Request: 2, Count: 1},
			{Request: 3, Count: 1},
			{Time: 5, Kind: trace.Delete, Request: 1, Count: 1},
			{Time: 15, Kind: trace.Delete, Request: 2, Count: 1},
			{Time: 105, Kind: trace.Delete, Request: 0, Count: 1},
		},
	}
}

// TestRebalanceCostsTime: the machine that a tick frees costs nothing from then on.
func TestRebalanceCostsTime(t *testing.T) {
	tr := ticks()
	rebalance := &cerebro.Rebalance{Every: 20, Moves: .4} // less than one of two items
	run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Rebalance: rebalance})
	require.NoError(t, err)
	require.Zero(t, run.Moves)
	require.InDelta(t, 210, run.CostSeconds, 1e-9)
	rebalance.Moves = .5
	run, err = cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Rebalance: rebalance})
	require.NoError(t, err)
	require.Equal(t, 1, run.Moves)
	require.InDelta(t, 210-85, run.CostSeconds, 1e-9)
}

// TestMovesTakeTime: a machine counts until the last item has left it, and the item is away meanwhile.
func TestMovesTakeTime(t *testing.T) {
	for _, c := range []struct {
		name        string
		takes, from float64
		perHour     float64
		cost, away  float64
		leaves      float64 // time
	}{
		{name: "at once", from: math.NaN(), cost: 210 - 85},
		{name: "ten seconds", takes: 10, from: math.NaN(), cost: 210 - 75, away: 10},
		{name: "measured from within", takes: 10, from: 24, cost: 81 + 6, away: 6},
		{name: "the end comes first", takes: 1000, from: math.NaN(), cost: 210, away: 85},
		{name: "the item leaves first", takes: 40, from: math.NaN(), cost: 40 + 85 + 40, away: 30, leaves: 50},
		{name: "one move a minute", perHour: 60, from: math.NaN(), cost: 210 - 45},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := ticks()
			tr.MeasureFrom = c.from
			if c.leaves > 0 {
				// The item of 6 moves to that of 4.
				tr.Events = append(tr.Events[:6:6],
					trace.Event{Time: c.leaves, Kind: trace.Delete, Request: 0, Count: 1}, trace.Event{Time: 105, Kind: trace.Delete, Request: 3, Count: 1})
			}
			rebalance := &cerebro.Rebalance{Every: 20, Moves: .5, Pace: cerebro.Pace{Takes: c.takes, PerHour: c.perHour}}
			run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Rebalance: rebalance, Check: true})
			require.NoError(t, err)
			require.Equal(t, 1, run.Moves)
			require.InDelta(t, c.away, run.AwaySeconds, 1e-9)
			require.InDelta(t, c.cost, run.CostSeconds, 1e-9)
		})
	}
}

// TestRescueTakesTime: the item waits for the moves that make room for it.
func TestRescueTakesTime(t *testing.T) {
	tr := ticks()
	tr.Instance.Fleet, tr.Instance.Machines[0].Count = binpack.Fixed, 2
	// An item of 7 comes when two machines of 9 hold an item of 3 each.
	tr.Instance.Apps[0].Demand[0], tr.Instance.Apps[1].Demand[0] = 7, 3
	tr.Instance.Machines[0].Capacity[0] = 9
	tr.Requests = []trace.Request{{Name: "b", App: 1, Count: 1}, {Name: "b2", App: 1, Count: 1}, {Name: "b3", App: 1, Count: 1}, {Name: "b4", App: 1, Count: 1}, {Name: "a", Count: 1}}
	tr.Events = []trace.Event{
		{Request: 0, Count: 1},
		{Request: 1, Count: 1},
		{Request: 2, Count: 1},
		{Request: 3, Count: 1},
		{Time: 1, Kind: trace.Delete, Request: 0, Count: 1},
		{Time: 1, Kind: trace.Delete, Request: 1, Count: 1},
		{Time: 2, Request: 4, Count: 1},
		{Time: 100, Kind: trace.Delete, Request: 3, Count: 1},
	}
	repair := &cerebro.Repair{Budget: 1, Chain: 8, Pace: cerebro.Pace{Takes: 10}}
	run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Repair: repair, Check: true})
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{run.Moves, run.Unplaced})
	require.InDelta(t, 20, run.AwaySeconds, 1e-9, "ten seconds of the one that moves, ten of the one that waits")
	repair.PerHour = 1
	run, err = cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Repair: repair, Check: true})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{run.Moves, run.Unplaced}, "in two seconds nothing is allowed")
}

// TestPaceHolds replays random traces: the moves of a tick are over before those of the next, an item does
// not move while it is away, and the moves so far are within the allowance.
func TestPaceHolds(t *testing.T) {
	moved, again := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 23))
		tr := randomTrace(rng, rng.IntN(3) == 0)
		takes, perHour := oneOf(rng, 0.0, .5, 3), oneOf(rng, 0.0, 1800, 7200)
		opt := cerebro.Options{
			Order: rng.IntN(3), Seed: seed, Check: true, Retry: rng.IntN(2) == 0,
			Rebalance: &cerebro.Rebalance{Every: oneOf(rng, .5, 2), Moves: oneOf(rng, .1, 1), Pace: cerebro.Pace{Takes: takes, PerHour: perHour}},
		}
		if rng.IntN(2) == 0 {
			opt.Repair = &cerebro.Repair{Budget: 1, Chain: 8, Pace: cerebro.Pace{Takes: takes}}
		}
		var h history
		opt.Record = h.record
		run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, opt)
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		require.LessOrEqual(t, run.AwaySeconds, takes*float64(run.Moves)*9+1e-9)
		if takes == 0 {
			require.Zero(t, run.AwaySeconds)
		}
		before := map[[2]int32]float64{}
		for k, n := 0, 0; k < len(h.lines); k++ {
			d := h.lines[k]
			if d.Kind != cerebro.Move {
				continue
			}
			item := [2]int32{d.Request, d.Item}
			if was, ok := before[item]; ok && was != d.Time { // in one tick an item may move on
				require.GreaterOrEqual(t, d.Time, was+takes-1e-9, "seed %d: an item moves while it is away", seed)
				again++
			}
			before[item] = d.Time
			moved++
			if n++; opt.Repair == nil {
				if perHour > 0 {
					require.LessOrEqual(t, float64(n), perHour*(d.Time-h.lines[0].Time)/3600+1e-6)
				}
				end := k
				for end+1 < len(h.lines) && h.lines[end+1].Kind == cerebro.Move && h.lines[end+1].Time == d.Time {
					end++
				}
				for _, later := range h.lines[end+1:] {
					if later.Kind == cerebro.Move {
						require.GreaterOrEqual(t, later.Time, d.Time+takes*float64(end-k+1)-1e-9, "a tick before the moves of the last are over")
						break
					}
				}
			}
		}
	}
	require.Positive(t, moved)
	require.Positive(t, again, "no item moved twice")
}

// TestFewMovesAnHour: less than a move a day still comes to a move.
func TestFewMovesAnHour(t *testing.T) {
	tr := ticks()
	tr.Events[6].Time = 40 * 3600
	rebalance := &cerebro.Rebalance{Every: 3600, Moves: .5, Pace: cerebro.Pace{PerHour: 1. / 30}}
	run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Rebalance: rebalance})
	require.NoError(t, err)
	require.Equal(t, 1, run.Moves)
	require.InDelta(t, 5*2+10*2+(30*3600-15)*2+10*3600, run.CostSeconds, 1e-6)
}

// TestTicksWithoutEnd: ticks on which nothing can happen take no work, however many there are.
func TestTicksWithoutEnd(t *testing.T) {
	for _, pace := range []cerebro.Pace{{Takes: 40}, {PerHour: 60}, {PerHour: 1}, {Takes: 40, PerHour: 60}} {
		rebalance := &cerebro.Rebalance{Every: 1e-12, Moves: .5, Pace: pace}
		_, err := cerebro.NewReplayer(ticks()).Run(rule.BestFit{}, cerebro.Options{Rebalance: rebalance})
		require.NoError(t, err)
	}
}

// TestTickAfterChain: a tick that found nothing while items were away looks again when they are back.
func TestTickAfterChain(t *testing.T) {
	tr := ticks()
	tr.Instance.Fleet, tr.Instance.Machines[0].Count = binpack.Fixed, 2
	tr.Instance.Apps[0].Demand[0], tr.Instance.Apps[1].Demand[0] = 7, 3
	tr.Instance.Machines[0].Capacity[0] = 9
	tr.Requests = nil
	for _, name := range []string{"b", "b2", "b3", "b4", "a", "e", "e2", "e3"} {
		app := int32(1)
		if name == "a" {
			app = 0
		}
		tr.Requests = append(tr.Requests, trace.Request{Name: name, App: app, Count: 1})
	}
	gone := func(time float64, request int32) trace.Event {
		return trace.Event{Time: time, Kind: trace.Delete, Request: request, Count: 1}
	}
	tr.Events = []trace.Event{
		{Request: 0, Count: 1},
		{Request: 1, Count: 1},
		{Request: 2, Count: 1},
		{Request: 3, Count: 1},
		gone(1, 0),
		gone(1, 1),
		{Time: 2, Request: 4, Count: 1}, // b4 moves to b3, until 12
		gone(3, 4),
		// beside both, and two alone
		{Time: 4, Request: 5, Count: 1},
		{Time: 4, Request: 6, Count: 1},
		{Time: 4, Request: 7, Count: 1},
		// the one that moved is alone
		gone(5, 2),
		gone(5, 5),
		gone(100, 6),
	}
	opt := cerebro.Options{
		Check:     true,
		Repair:    &cerebro.Repair{Budget: 1, Chain: 8, Pace: cerebro.Pace{Takes: 10}},
		Rebalance: &cerebro.Rebalance{Every: 7, Moves: .34},
	}
	var h history
	opt.Record = h.record
	_, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, opt)
	require.NoError(t, err)
	var times []float64
	for _, d := range h.lines {
		if d.Kind == cerebro.Move {
			times = append(times, d.Time)
			require.Equal(t, int32(3), d.Request)
		}
	}
	require.Equal(t, []float64{2, 14}, times)
}

// TestFixedStays: what the trace marks does not move in a replay, and its machine stays in use.
func TestFixedStays(t *testing.T) {
	for name, c := range map[string]struct {
		fixed any
		moves int
	}{"none": {nil, 1}, "one": {map[string]any{"a": "pinned"}, 1}, "both": {map[string]any{"a": "pinned", "b": "pinned"}, 0}} {
		t.Run(name, func(t *testing.T) {
			tr := ticks()
			tr.Instance.Fleet, tr.Instance.Machines[0].Count = binpack.Fixed, 2
			tr.Source = map[string]any{"fixed": c.fixed}
			tr.Requests = []trace.Request{{Name: "a", Count: 1}, {Name: "b", App: 1, Count: 1}, {Name: "b2", App: 1, Count: 1}}
			tr.Initial, tr.Placed = 2, []trace.Placed{{Request: 0, Count: 1}, {Request: 1, Index: 1, Count: 1}}
			tr.Events = []trace.Event{{Request: 2, Count: 1}, {Time: 5, Kind: trace.Delete, Request: 2, Count: 1}, {Time: 50, Kind: trace.Delete, Request: 0, Count: 1}}
			var h history
			run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{
				Check: true, Record: h.record, Rebalance: &cerebro.Rebalance{Every: 20, Moves: 1, Pace: cerebro.Pace{Takes: 1}},
			})
			require.NoError(t, err)
			require.Equal(t, c.moves, run.Moves)
			for _, d := range h.lines {
				require.False(t, d.Kind == cerebro.Move && name == "one" && d.Request == 0)
			}
		})
	}
	tr := ticks()
	tr.Source = map[string]any{"fixed": []any{"a"}}
	_, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Rebalance: &cerebro.Rebalance{Every: 20, Moves: 1}})
	require.EqualError(t, err, "trace.yaml: source.fixed: want requests, each with the reason")
}
