package cerebro_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// used draws a trace of some days with usage: apps of one to three items that arrive and leave.
func used(rng *rand.Rand, days float64) (*trace.Trace, *trace.Usage) {
	t := &trace.Trace{
		Name: "used", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}},
			Types:      []string{"n"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{
				{Name: "n", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8000, 32 << 30}},
				{Name: "big", Count: binpack.Unlimited, Cost: 2, Capacity: []int64{16000, 64 << 30}},
			},
		},
	}
	u := &trace.Usage{}
	end := days * 86400
	for a := range int32(12) {
		name := fmt.Sprintf("app-%d", a)
		demand := []int64{500 + rng.Int64N(2000), (1 + rng.Int64N(6)) << 30}
		t.Instance.Groups = append(t.Instance.Groups, binpack.Group{Name: name, Limit: int32(rng.IntN(3)), SpreadMin: a % 4})
		t.Instance.Apps = append(t.Instance.Apps, binpack.App{Name: name, Group: a, Demand: demand, Expected: -1, Lifetime: -1})
		for d := range int32(2) {
			mean := (.1 + 1.2*rng.Float64()) * float64(demand[d]) / float64(t.Instance.Dimensions[d].One)
			s := trace.Series{App: a, Dimension: d, Start: 100 + 600*float64(rng.IntN(5)), Step: []float64{300, 600, 900}[rng.IntN(3)]}
			for at := s.Start; at < end; at += s.Step {
				v := float32(mean * (.5 + rng.Float64()))
				if rng.IntN(20) == 0 {
					v = float32(math.NaN())
				}
				s.Values = append(s.Values, v)
			}
			u.Series = append(u.Series, s)
		}
	}
	at := 0.
	for i := range int32(30) {
		at += math.Floor(end / 40 * rng.Float64())
		q := trace.Request{Name: fmt.Sprintf("r%d", i), App: rng.Int32N(12), Count: 1 + rng.Int32N(3)}
		t.Requests = append(t.Requests, q)
		t.Events = append(t.Events, trace.Event{Time: at, Kind: trace.Create, Request: i, Count: q.Count})
		if i%4 == 3 {
			t.Events = append(t.Events, trace.Event{Time: at, Kind: trace.Delete, Request: i - 2, Count: t.Requests[i-2].Count})
		}
	}
	// One item has a series of its own.
	own := u.Series[0]
	for i, q := range t.Requests {
		if q.App == 0 && own.Item == "" {
			own.Item = fmt.Sprintf("r%d/%d", i, q.Count-1)
			own.Values = make([]float32, len(own.Values))
			for k := range own.Values {
				own.Values[k] = 3
			}
			u.Series = append(u.Series, own)
		}
	}
	return t, u
}

type itemOf struct{ request, item int32 }

// slowUse judges a replay from its decisions and the series alone. At a step the moves of
// that moment follow the look at the machines, all else precedes it. demands are those of the nights; nil = those of the trace.
func slowUse(t *trace.Trace, u *trace.Usage, list []cerebro.Decision, demands func(at float64) [][]int64, capacity func(m, d int32) float64) (node, items float64, over, worst, covered [2]float64, days [4][]float64) {
	start, end := u.Span()
	from := max(start, t.Events[0].Time)
	on := map[itemOf]int32{}
	sizes := demands
	if sizes == nil {
		sizes = func(float64) (own [][]int64) {
			for _, app := range t.Instance.Apps {
				own = append(own, app.Demand)
			}
			return own
		}
	}
	for at := start; at < end; at += 300 {
		for len(list) > 0 && (list[0].Time < at || list[0].Time == at && list[0].Kind != cerebro.Move) {
			switch d := list[0]; d.Kind {
			case cerebro.Place, cerebro.Move:
				on[itemOf{d.Request, d.Item}] = d.Machine
			default:
				delete(on, itemOf{d.Request, d.Item})
			}
			list = list[1:]
		}
		if at < t.Events[0].Time {
			continue
		}
		size := sizes(max(t.Events[0].Time, 86400*math.Floor(at/86400)))
		used, lacks, known, some := map[int32]*[2]float64{}, map[int32]*[2]float64{}, map[int32]*[2]float64{}, map[int32]*[2]bool{}
		for item, m := range on {
			if used[m] == nil {
				used[m], lacks[m], known[m], some[m] = &[2]float64{}, &[2]float64{}, &[2]float64{}, &[2]bool{}
			}
			items += 300
			for d := range int32(2) {
				demand := float64(size[t.Requests[item.request].App][d]) / float64(t.Instance.Dimensions[d].One)
				if v := valueOf(t, u, item, d, at); v == v {
					used[m][d] += float64(v)
					known[m][d] += demand
					some[m][d] = true
					covered[d] += 300
				} else {
					lacks[m][d] += demand
				}
			}
		}
		node += 300 * float64(len(used))
		today := min(max(0, int(math.Round((end-from)/86400))-1), int((at-from)/86400)) // a short rest is part of the last day
		for d := range days {
			days[d] = append(days[d], make([]float64, today+1-len(days[d]))...)
		}
		for m, sum := range used {
			for d := range int32(2) {
				share := sum[d] / capacity(m, d)
				if some[m][d] && known[m][d] >= lacks[m][d] {
					share *= 1 + lacks[m][d]/known[m][d]
				} else if share <= 1+1e-6 {
					continue
				}
				days[2+d][today] += 300
				worst[d] = max(worst[d], share)
				if share > 1+1e-6 {
					over[d] += 300
					days[d][today] += 300
				}
			}
		}
	}
	return node, items, over, worst, covered, days
}

func valueOf(t *trace.Trace, u *trace.Usage, s itemOf, d int32, at float64) float32 {
	var found *trace.Series
	for i := range u.Series {
		x := &u.Series[i]
		if x.Dimension != d || x.App != t.Requests[s.request].App {
			continue
		}
		if x.Item == "" && found == nil || x.Item == fmt.Sprintf("%s/%d", t.Requests[s.request].Name, s.item) {
			found = x
		}
	}
	if k := int(math.Floor((at - found.Start) / found.Step)); at >= found.Start && k < len(found.Values) {
		return found.Values[k]
	}
	return float32(math.NaN())
}

func TestUseIsWhatASlowSumFinds(t *testing.T) {
	overs := 0
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		tr, u := used(rng, []float64{1.5, 1.3}[seed%2])
		var list []cerebro.Decision
		r := cerebro.NewReplayer(tr)
		run, err := r.Run(rule.BestFit{}, cerebro.Options{Usage: u, Check: true, Record: func(d cerebro.Decision) { list = append(list, d) }})
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		capacity := func(m, d int32) float64 {
			return float64(r.State().Capacity(m)[d]) / float64(tr.Instance.Dimensions[d].One)
		}
		node, items, over, worst, covered, days := slowUse(tr, u, list, nil, capacity)
		assert.Equal(t, node, run.Use.NodeSeconds, "seed %d", seed)
		assert.Equal(t, items, run.Use.ItemSeconds, "seed %d", seed)
		assert.Less(t, covered[0], items, "some samples are missing")
		sum := 0.
		for d := range 2 {
			assert.Equal(t, over[d], run.Use.Dimensions[d].Over, "seed %d", seed)
			assert.Equal(t, covered[d], run.Use.Dimensions[d].Covered, "seed %d", seed)
			assert.InDelta(t, worst[d], run.Use.Dimensions[d].Worst, 1e-9, "seed %d", seed)
			assert.Equal(t, days[d], run.Use.Dimensions[d].Days, "seed %d", seed)
			assert.Equal(t, days[2+d], run.Use.Dimensions[d].JudgedDays, "seed %d", seed)
			assert.Less(t, run.Use.Dimensions[d].Judged, node, "some machines lack samples")
			assert.Positive(t, run.Use.Dimensions[d].Judged)
			sum += over[d]
		}
		for _, n := range run.Use.Nodes {
			sum -= n.Over[0] + n.Over[1]
			overs++
		}
		assert.Zero(t, sum, "the nodes add up")
		again, err := r.Run(rule.BestFit{}, cerebro.Options{Usage: u})
		require.NoError(t, err)
		assert.Equal(t, run.Use, again.Use, "a second run")
	}
	assert.Positive(t, overs, "no machine was ever above capacity: the test tests nothing")
}

// drifting demands: each night all apps have other sizes.
func drifting(tr *trace.Trace) func(at float64) [][]int64 {
	return func(at float64) (out [][]int64) {
		rng := rand.New(rand.NewPCG(uint64(at), 5))
		for _, app := range tr.Instance.Apps {
			out = append(out, []int64{int64(float64(app.Demand[0]) * (.2 + rng.Float64())), app.Demand[1] / 2})
		}
		return out
	}
}

func TestNightsAndReliefKeepTheirLimits(t *testing.T) {
	resized, relieved := 0, 0
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tr, u := used(rng, 6)
		nightly := &cerebro.Nightly{Moves: .15, Relief: 600, Demands: drifting(tr)}
		var list []cerebro.Decision
		r := cerebro.NewReplayer(tr)
		run, err := r.Run(rule.BestFit{}, cerebro.Options{Usage: u, Nightly: nightly, Check: true, Record: func(d cerebro.Decision) { list = append(list, d) }})
		require.NoError(t, err)
		require.Zero(t, run.Violations, "seed %d", seed)
		capacity := func(m, d int32) float64 {
			return float64(r.State().Capacity(m)[d]) / float64(tr.Instance.Dimensions[d].One)
		}
		node, _, over, worst, covered, _ := slowUse(tr, u, list, nightly.Demands, capacity)
		assert.Equal(t, node, run.Use.NodeSeconds, "seed %d", seed)
		for d := range 2 {
			assert.Equal(t, over[d], run.Use.Dimensions[d].Over, "seed %d", seed)
			assert.Equal(t, covered[d], run.Use.Dimensions[d].Covered, "seed %d", seed)
			assert.InDelta(t, worst[d], run.Use.Dimensions[d].Worst, 1e-9, "seed %d", seed)
		}
		checkMoves(t, tr, list, nightly, capacity)
		assert.Equal(t, run.Moves, run.Use.Resized+run.Use.Relieved)
		assert.LessOrEqual(t, run.Use.MostMoved, .15+1e-9)
		resized, relieved = resized+run.Use.Resized, relieved+run.Use.Relieved
		again, err := r.Run(rule.BestFit{}, cerebro.Options{Usage: u})
		require.NoError(t, err)
		fresh, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Usage: u})
		require.NoError(t, err)
		assert.Equal(t, fresh, again, "the demands of the trace come back")
	}
	assert.Positive(t, resized)
	assert.Positive(t, relieved)
}

// checkMoves carries the decisions out again: each machine that takes an item has room for
// it by the sizes of that day, and within the limits of the groups.
func checkMoves(t *testing.T, tr *trace.Trace, list []cerebro.Decision, n *cerebro.Nightly, capacity func(m, d int32) float64) {
	t.Helper()
	on := map[[2]int32]int32{}
	sizes := n.Demands(tr.Events[0].Time)
	today := math.Floor(tr.Events[0].Time / 86400)
	for _, d := range list {
		if now := math.Floor(d.Time / 86400); now > today {
			// An event at midnight precedes the night.
			if d.Kind == cerebro.Move || d.Time > now*86400 {
				today, sizes = now, n.Demands(now*86400)
			}
		}
		key := [2]int32{d.Request, d.Item}
		if d.Kind == cerebro.Remove {
			delete(on, key)
			continue
		}
		if d.Kind == cerebro.Unplaced {
			continue
		}
		on[key] = d.Machine
		sum, count := [2]float64{}, map[int32]int32{}
		for k, m := range on {
			if m == d.Machine {
				app := tr.Requests[k[0]].App
				count[app]++
				for dim := range 2 {
					sum[dim] += float64(sizes[app][dim]) / float64(tr.Instance.Dimensions[dim].One)
				}
			}
		}
		for dim := range int32(2) {
			require.LessOrEqual(t, sum[dim], capacity(d.Machine, dim)*(1+1e-9), "%v", d)
		}
		app := tr.Requests[d.Request].App
		group := tr.Instance.Groups[app]
		if group.Limit > 0 {
			require.LessOrEqual(t, count[app], group.Limit)
		}
		machines, living := map[int32]bool{}, int32(0)
		for k, m := range on {
			if tr.Requests[k[0]].App == app {
				machines[m] = true
				living++
			}
		}
		if count[app] > 1 {
			require.GreaterOrEqual(t, int32(len(machines)), min(group.SpreadMin, living), "spread: %v", d)
		}
	}
}

func TestUseRefusals(t *testing.T) {
	tr, u := used(rand.New(rand.NewPCG(1, 1)), 2)
	run := func(o cerebro.Options) error {
		_, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, o)
		return err
	}
	n := &cerebro.Nightly{Moves: .01, Demands: drifting(tr)}
	require.ErrorContains(t, run(cerebro.Options{Nightly: n}), "usage.csv.gz")
	require.ErrorContains(t, run(cerebro.Options{Usage: &trace.Usage{}}), "no series")
	require.ErrorContains(t, run(cerebro.Options{Usage: u, Nightly: n, Repair: &cerebro.Repair{Budget: 1, Chain: 1}}), "repair")
	late := *tr
	late.MeasureFrom = 1e9
	_, err := cerebro.NewReplayer(&late).Run(rule.BestFit{}, cerebro.Options{Usage: u})
	assert.ErrorContains(t, err, "ends before")
}

// Two days have 1.7 million steps of .1 seconds, and 2.2 million of .08.
func TestUseRefusesTooManySteps(t *testing.T) {
	tr, u := used(rand.New(rand.NewPCG(1, 1)), 2)
	u.Series[0].Step = .1
	_, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Usage: u})
	require.NoError(t, err)
	u.Series[0].Step = .08
	_, err = cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Usage: u})
	require.ErrorContains(t, err, "its shortest step is 0.08 seconds, so the 2 days to judge have 2.1")
}

// From one midnight to the next at most a quarter of the items of an app move, but at least one, and where no app
// would have moved more without the limit the decisions are those without it.
func TestNightsKeepTheLimitOfAWorkload(t *testing.T) {
	const share = .25
	bound, free := 0, 0
	for seed := range uint64(12) {
		tr, u := used(rand.New(rand.NewPCG(seed, 1)), 6)
		moves := func(ofWorkload float64) (list []cerebro.Decision, excess bool) {
			n := &cerebro.Nightly{Moves: []float64{.08, .5}[seed%2], OfWorkload: ofWorkload, Relief: 600, Demands: drifting(tr)}
			_, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Usage: u, Nightly: n, Check: true, Record: func(d cerebro.Decision) { list = append(list, d) }})
			require.NoError(t, err)
			living, moved, today := map[int32]int{}, map[int32]int{}, -1.
			for _, d := range list {
				app := tr.Requests[d.Request].App
				switch d.Kind {
				case cerebro.Place:
					living[app]++
				case cerebro.Unplaced:
				case cerebro.Remove:
					living[app]--
				case cerebro.Move:
					if now := math.Floor(d.Time / 86400); now > today {
						today, moved = now, map[int32]int{}
					}
					moved[app]++
					excess = excess || moved[app] > max(1, int(share*float64(living[app])))
				}
			}
			return list, excess
		}
		kept, excess := moves(share)
		require.False(t, excess, "seed %d", seed)
		if without, excess := moves(100); excess {
			bound++
		} else {
			free++
			require.Equal(t, without, kept, "seed %d", seed)
		}
		one, _ := moves(0)
		least, _ := moves(.001)
		require.Equal(t, least, one, "at least one")
	}
	assert.Positive(t, bound)
	assert.Positive(t, free)
}

func TestParseNightly(t *testing.T) {
	n, err := cerebro.ParseNightly("moves=2%,relief=15m")
	require.NoError(t, err)
	assert.Equal(t, "moves=2%,workload=25%,relief=15m0s", n.String())
	n, err = cerebro.ParseNightly("workload=10%")
	require.NoError(t, err)
	assert.Equal(t, "moves=1%,workload=10%,relief=10m0s", n.String())
	for _, bad := range []string{"moves=0%", "relief=-1s", "x=1", "moves=1", "relief=10", "workload=0%"} {
		_, err := cerebro.ParseNightly(bad)
		assert.Error(t, err, bad)
	}
}
