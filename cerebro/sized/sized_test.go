package sized_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

const (
	day = 86400.
	gib = 1 << 30
)

// cluster has apps of one item each that ask for 4 cores and 8 GiB for 21 days; app i uses
// cores(i) at each step and memory(i). The job is the last app; the one before is 10 days old.
func cluster(n int, cores func(app int, at float64) float64, bytes func(app int) float64) *trace.Trace {
	t := &trace.Trace{
		Name: "c", MeasureFrom: math.NaN(), Source: map[string]any{"origin": "test", "jobs": []any{fmt.Sprintf("app-%d", n-1)}},
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}},
			Types:      []string{"n"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{{Name: "n", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{16, 64 * gib}}},
		},
	}
	u := &trace.Usage{}
	for a := range int32(n) {
		name := fmt.Sprintf("app-%d", a)
		t.Instance.Groups = append(t.Instance.Groups, binpack.Group{Name: name})
		t.Instance.Apps = append(t.Instance.Apps, binpack.App{Name: name, Group: a, Demand: []int64{4, 8 * gib}, Expected: -1, Lifetime: -1})
		t.Requests = append(t.Requests, trace.Request{Name: "r" + name, App: a, Count: 1})
		t.Events = append(t.Events, trace.Event{Kind: trace.Create, Request: a, Count: 1})
		start := 0.
		if int(a) == n-2 {
			start = 4 * day
		}
		cpu := trace.Series{App: a, Start: start, Step: 300}
		memory := trace.Series{App: a, Dimension: 1, Start: start, Step: 3600}
		for at := start; at < 21*day; at += 300 {
			cpu.Values = append(cpu.Values, float32(cores(int(a), at)))
			if math.Mod(at, 3600) == 0 {
				memory.Values = append(memory.Values, float32(bytes(int(a))))
			}
		}
		u.Series = append(u.Series, cpu, memory)
	}
	t.SetUsage(u)
	return t
}

func TestTraceCountsAtUse(t *testing.T) {
	use := []float64{1, 6, .5, .001, 1, 1}
	tr := cluster(6, func(a int, _ float64) float64 { return use[a] }, func(a int) float64 { return float64(a+1) * 2 * gib })
	u, err := tr.Usage()
	require.NoError(t, err)
	w, sizes, err := sized.Trace(tr, u, usage.LeastDays, 14*day, 21*day)
	require.NoError(t, err)
	require.True(t, sized.BySize(w))
	assert.Equal(t, int64(1000), w.Instance.Dimensions[0].One, "cpu in thousandths, since sizes need them")
	assert.Equal(t, []int64{16000, 64 * gib}, w.Instance.Machines[0].Capacity)
	for a, want := range []struct {
		cpu    int64
		memory float64
	}{
		{1000, 2 * gib * 1.15}, {6000, 4 * gib * 1.15}, {500, 6 * gib * 1.15}, {10, 8 * gib}, {4000, 8 * gib}, {4000, 8 * gib},
	} {
		got := w.Instance.Apps[a].Demand
		assert.GreaterOrEqual(t, got[0], want.cpu, "app %d", a)
		assert.LessOrEqual(t, float64(got[0]), float64(want.cpu)*1.01+1, "app %d", a)
		assert.InDelta(t, want.memory, float64(got[1]), 1, "app %d", a)
	}
	note := w.Source["sizes"].(map[string]any)
	assert.Equal(t, []usage.Reason{usage.Above, usage.Short, usage.Job}, []usage.Reason{sizes[1].CPUReason, sizes[4].CPUReason, sizes[5].CPUReason})
	assert.Contains(t, note["above"], "app-1")
	assert.Len(t, note["above"], 1)
	assert.Equal(t, map[string]any{"app-4": string(usage.Short), "app-5": string(usage.Job)}, note["byRequest"])
	assert.Equal(t, []int64{4, 8 * gib}, tr.Instance.Apps[0].Demand, "the trace itself stays as it is")

	// Written and read, it judges itself, and its nights find the same sizes again.
	dir := filepath.Join(t.TempDir(), "w")
	require.NoError(t, w.Write(dir))
	back, err := trace.Load(dir)
	require.NoError(t, err)
	again, err := back.Usage()
	require.NoError(t, err)
	s, err := sized.New(back, again, usage.LeastDays)
	require.NoError(t, err)
	for a, demand := range s.Demands(14 * day) {
		assert.Equal(t, w.Instance.Apps[a].Demand, demand, "app %d", a)
	}
	run, err := cerebro.NewReplayer(back).Run(rule.BestFit{}, cerebro.Options{Usage: again, Check: true})
	require.NoError(t, err)
	assert.Zero(t, run.Violations)
	assert.InDelta(t, 21*day, run.Use.Until, 1)
	_, _, err = sized.Trace(back, again, usage.LeastDays, 14*day, 21*day)
	assert.ErrorContains(t, err, "already")
}

// Use that grows overfills machines by night, and the moves keep them below capacity by
// day, which the sizes of the beginning do not.
func TestNightsFollowGrowth(t *testing.T) {
	grows := func(a int, at float64) float64 {
		return (.5 + .1*float64(a%5)) * (1 + max(0, at-14*day)/(10*day))
	}
	tr := cluster(60, grows, func(int) float64 { return gib })
	u, err := tr.Usage()
	require.NoError(t, err)
	w, _, err := sized.Trace(tr, u, usage.LeastDays, 14*day, 21*day)
	require.NoError(t, err)
	once, err := cerebro.NewReplayer(w).Run(rule.BestFit{}, cerebro.Options{Usage: u})
	require.NoError(t, err)
	s, err := sized.New(w, u, usage.LeastDays)
	require.NoError(t, err)
	nights, err := cerebro.NewReplayer(w).Run(rule.BestFit{}, cerebro.Options{Usage: u, Nightly: &cerebro.Nightly{Moves: .1, Relief: 600, Demands: s.Demands}})
	require.NoError(t, err)
	require.Positive(t, once.Use.Dimensions[0].Over)
	assert.Less(t, nights.Use.Dimensions[0].Over, once.Use.Dimensions[0].Over/5)
	assert.Positive(t, nights.Use.Resized+nights.Use.Relieved)
	assert.LessOrEqual(t, nights.Use.MostMoved, .1)
}

func TestFinerChangesNoDigest(t *testing.T) {
	tr := cluster(5, func(int, float64) float64 { return 1 }, func(int) float64 { return gib })
	_, before, err := tr.Digests()
	require.NoError(t, err)
	_, after, err := sized.Finer(tr).Digests()
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// The peak of a day in the histories is that of all samples before a time, read in steps or at once.
func TestSizesInStepsAreThoseAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	tr := sized.Finer(cluster(8, func(int, float64) float64 { return 3 * rng.Float64() }, func(int) float64 { return 8 * gib * rng.Float64() }))
	u, err := tr.Usage()
	require.NoError(t, err)
	steps, err := sized.New(tr, u, usage.LeastDays)
	require.NoError(t, err)
	for d := range 19 {
		steps.Demands(float64(d) * day)
	}
	once, err := sized.New(tr, u, usage.LeastDays)
	require.NoError(t, err)
	assert.Equal(t, once.Demands(19*day), steps.Demands(19*day))
}

// An app without a request is not free: by request and by use it counts at the most that it
// used before, also where the trace was written in between.
func TestWithoutRequest(t *testing.T) {
	tr := cluster(4, func(a int, at float64) float64 {
		if a == 0 && at == 5*day {
			return 3
		}
		return .5
	}, func(int) float64 { return gib })
	tr.Instance.Apps[0].Demand = []int64{0, 0}
	u, err := tr.Usage()
	require.NoError(t, err)
	base, err := sized.ByRequest(tr, u, 14*day, 21*day)
	require.NoError(t, err)
	assert.False(t, sized.BySize(base))
	assert.InEpsilon(t, 3000, base.Instance.Apps[0].Demand[0], .011)
	assert.InEpsilon(t, 1.15*gib, base.Instance.Apps[0].Demand[1], 1e-6)
	assert.Equal(t, []int64{4000, 8 * gib}, base.Instance.Apps[1].Demand)
	w, sizes, err := sized.Trace(tr, u, 12, 14*day, 21*day)
	require.NoError(t, err)
	assert.Equal(t, usage.NoRequest, sizes[0].CPUReason)
	assert.Equal(t, base.Instance.Apps[0].Demand, w.Instance.Apps[0].Demand)
	for _, made := range []*trace.Trace{base, w} {
		dir := filepath.Join(t.TempDir(), "t")
		require.NoError(t, made.Write(dir))
		again, err := trace.Load(dir)
		require.NoError(t, err)
		u, err := again.Usage()
		require.NoError(t, err)
		s, err := sized.New(sized.Finer(again), u, sized.LeastDays(again))
		require.NoError(t, err)
		list, err := s.At(14 * day)
		require.NoError(t, err)
		assert.Equal(t, usage.NoRequest, list[0].CPUReason)
		assert.Equal(t, usage.ByUse, list[1].CPUReason)
		if made == w {
			assert.Equal(t, 12, sized.LeastDays(again))
		}
	}
}

// By slot an item counts at the p99 of the hour, and by request or size where that is not known.
func TestExpectedBySlot(t *testing.T) {
	tr := sized.Finer(cluster(4, func(_ int, at float64) float64 {
		if usage.SlotOf(at) == 9 {
			return 3
		}
		return 1
	}, func(int) float64 { return gib }))
	u, err := tr.Usage()
	require.NoError(t, err)
	s, err := sized.New(tr, u, 15)
	require.NoError(t, err)
	s.BySlot()
	const monday = 18 * day
	for range 2 {
		assert.InEpsilon(t, 3, s.Expected(monday, monday+9*3600)(0), .011)
		assert.InEpsilon(t, 1, s.Expected(monday, monday+10*3600)(0), .011)
		assert.InEpsilon(t, 1, s.Expected(monday, 23*day+9*3600)(0), .011, "a Saturday")
		assert.Equal(t, 4., s.Expected(monday, monday+10*3600)(2), "too young")
		assert.Equal(t, 4., s.Expected(monday, monday+10*3600)(3), "a Job")
		s.Demands(monday + day)
	}
}
