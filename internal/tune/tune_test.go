package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/sheet/sheettest"
)

// lasting is a trace of some hours with an arrival every ten minutes.
func lasting(hours float64) *trace.Trace {
	one := binpack.Dimension{Name: "cpu", One: 1}
	t := &trace.Trace{Name: "lasting", MeasureFrom: math.NaN(), Instance: &binpack.Instance{
		Fleet:      binpack.Open,
		Dimensions: []binpack.Dimension{one}, Types: []string{"m"},
		Machines: []binpack.MachineLine{{Name: "m", Capacity: []int64{4}, Count: binpack.Unlimited, Cost: 1}},
		Groups:   []binpack.Group{{Name: "a"}, {Name: "b"}},
		Apps:     []binpack.App{{Name: "a", Group: 0, Demand: []int64{1}, Expected: -1}, {Name: "b", Group: 1, Demand: []int64{3}, Expected: 7}},
	}}
	for at := 0.; at < hours*hour; at += 600 {
		n := int32(len(t.Requests))
		t.Requests = append(t.Requests, trace.Request{Name: string('a' + n), App: n % 2, Count: 1})
		t.Events = append(t.Events, trace.Event{Time: at, Kind: trace.Create, Request: n, Count: 1})
		if n >= 6 {
			t.Events = append(t.Events, trace.Event{Time: at, Kind: trace.Delete, Request: n - 6, Count: 1})
		}
	}
	return t
}

// divided is a run whose history is divided.
func divided(t *testing.T, choose float64, traces ...*trace.Trace) *run {
	t.Helper()
	r := &run{cfg: Config{Traces: traces, Choose: choose, Seed: 1, Seeds: 1}, traces: slices.Clone(traces)}
	require.NoError(t, r.divide())
	return r
}

// daysOf are the days of a part and its hours.
func daysOf(spans []span) (days int, hours float64) {
	for _, s := range spans {
		days += len(s.marks)
		hours += (s.until - s.from) / hour
	}
	return days, math.Round(hours)
}

// TestDivide: whole days train, choose and judge. Of one or two the one that chooses also trains, next to built days. All days are built
// where none is whole, or nothing leaves.
func TestDivide(t *testing.T) {
	staying := lasting(48)
	staying.Events = slices.DeleteFunc(staying.Events, func(e trace.Event) bool { return e.Kind == trace.Delete })
	now := lasting(1)
	now.Initial, now.Events = len(now.Requests), nil
	for _, tc := range []struct {
		name                  string
		choose                float64
		traces                []*trace.Trace
		train, validate, test int
		built                 bool
	}{
		{"23 hours", 0, []*trace.Trace{lasting(23)}, 4, 1, 1, false},
		{"a day and a rest", 0, []*trace.Trace{lasting(40)}, 4, 1, 1, false},
		{"two days", 0, []*trace.Trace{lasting(48)}, 4, 1, 1, false},
		{"three days", 0, []*trace.Trace{lasting(72)}, 1, 1, 1, false},
		{"three traces of a day", 0, []*trace.Trace{lasting(24), lasting(24), lasting(24)}, 1, 1, 1, false},
		{"a week", 0, []*trace.Trace{lasting(168)}, 3, 3, 1, false},
		{"ten days", 0, []*trace.Trace{lasting(240)}, 5, 3, 2, false},
		{"half a day", 0, []*trace.Trace{lasting(12)}, 8, 5, 3, true},
		{"nothing leaves", 0, []*trace.Trace{staying}, 8, 5, 3, true},
		{"a snapshot", 0, []*trace.Trace{now}, 8, 5, 3, true},
		{"fill-ups", 0, []*trace.Trace{staying, staying, staying, staying}, 2, 1, 1, false},
		{"the last day chooses", day, []*trace.Trace{lasting(72)}, 2, 1, 0, false},
		{"all days choose", 3 * day, []*trace.Trace{lasting(72)}, 6, 3, 0, false},
	} {
		r := divided(t, tc.choose, tc.traces...)
		train, _ := daysOf(r.split.train)
		validate, hours := daysOf(r.split.validate)
		test, _ := daysOf(r.split.test)
		require.Equal(t, []int{tc.train, tc.validate, tc.test}, []int{train, validate, test}, tc.name)
		require.Equal(t, tc.built, r.isBuilt(r.split.train), tc.name)
		require.Equal(t, tc.built, r.isBuilt(r.split.validate), tc.name)
		if tc.name == "a day and a rest" {
			require.InDelta(t, 40, hours, 1, "the rest belongs to the last day")
			require.Equal(t, r.split.validate, r.split.test, "a single day chooses and judges")
		}
	}
	r := divided(t, 0, lasting(72))
	require.Equal(t, "hours 48 to 71.8", r.hours(r.split.test))
	r = &run{cfg: Config{Seed: 1}, traces: []*trace.Trace{lasting(24)}}
	require.NoError(t, r.divide())
	require.Empty(t, r.split.train, "nothing is trained")
}

// TestMixedTraces: a trace without a whole day is not left out in silence beside others.
func TestMixedTraces(t *testing.T) {
	now, half := lasting(1), lasting(12)
	now.Initial, now.Events = len(now.Requests), nil
	now.Name, half.Name = "now", "half"
	for _, traces := range [][]*trace.Trace{{lasting(24), now}, {now, lasting(24)}, {lasting(48), half}, {half, half}, {now, now}} {
		_, err := Run(t.Context(), Config{Traces: traces, Target: Live, InForce: "bestfit", Seed: 1, Workers: 1})
		require.ErrorContains(t, err, "holds no whole day in which pods leave: leave it out, or give it alone")
	}
}

// A cluster by what its pods use has no risk on days that were never recorded.
func TestBuiltDaysHaveNoUse(t *testing.T) {
	tr := lasting(12)
	tr.Source = map[string]any{"sizes": map[string]any{}}
	out, err := Run(t.Context(), Config{Traces: []*trace.Trace{tr}, Target: Live, InForce: "bestfit", Seeds: 0, Seed: 1, Workers: 1, Name: "p"})
	require.NoError(t, err)
	require.Equal(t, "keep what you have: no whole day is recorded, and only recorded use shows the risk of nodes above capacity.", out.Sentence())
	require.Equal(t, "no better", out.verdict())
	require.Equal(t, []string{"", "bestfit"}, []string{out.Chosen, out.Against})
}

// wasteful is a day under which spreading costs many nodes, and packing few.
func wasteful(t *testing.T) *trace.Trace {
	tr, err := generate.Generate("kubernetes", 600401, map[string]string{"nodes": "10", "days": "1", "fleet": "one"})
	require.NoError(t, err)
	return tr
}

// TestAgainstInForce: a policy is better only than the one in force. A rule that a bad policy should go
// back to is named; a good one stays, whatever the rules.
func TestAgainstInForce(t *testing.T) {
	cfg := Config{Traces: []*trace.Trace{wasteful(t)}, Target: Live, InForce: "worstfit", Seed: 1, Workers: 2, Name: "p"}
	out, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, out.Better)
	require.Equal(t, "worstfit", out.Against)
	require.Zero(t, out.Validation[0].Saving.Mean, "the policy in force is the first row")
	require.Equal(t, inForce, out.Validation[0].Kind)
	chosen := slices.IndexFunc(out.Test, func(r Row) bool { return r.Chosen })
	require.Positive(t, chosen)
	require.Greater(t, out.Saving.Mean, 1.)
	require.Equal(t, out.Test[chosen].Saving.Mean, out.Saving.Mean)
	require.False(t, out.Saving.known(), "one day judges")
	require.NotContains(t, out.Sentence(), "±")
	require.Equal(t, Parts{Choose: "hours 0 to 24", Judge: "other draws of the same day", Exposure: "the same day, other draws"}, out.Parts)
	require.Contains(t, out.Sentence(), "It was judged on other draws of the same day, not on later days.")
	require.NotEqual(t, out.Validation[0].CostHours, out.Test[0].CostHours)
	var page strings.Builder
	require.NoError(t, out.Table(&page))
	require.Contains(t, page.String(), "\nChosen on hours 0 to 24, judged on ")
	require.NotContains(t, page.String(), "NaN")
	require.NotContains(t, page.String(), "Trained")

	best := out.Test[chosen].Policy
	if out.Object != nil { // a file of the rule or a shipped one
		text := filepath.Join(t.TempDir(), "p.yaml")
		require.NoError(t, out.Object.Save(text))
		best = text
	}
	cfg.InForce = best
	again, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.False(t, again.Better)
	require.Empty(t, again.Chosen)
	require.Nil(t, again.Object)
	require.Equal(t, best, again.Against)
	require.Regexp(t, "^keep what you have: nothing is (clearly )?better than .*The best other policy ", again.Sentence())
	require.Len(t, again.Test, 2)
	require.True(t, again.Test[0].Chosen)
	text, err := json.Marshal(again)
	require.NoError(t, err)
	require.Contains(t, string(text), `"verdict":"no better","chosen":"","against":`)
	require.Regexp(t, `"saving_percent":{"mean":[-0-9.e]+,"low":null,"high":null},"parts":{"train":"","choose":"hours 0 to 24","judge":"other draws of the same day","exposure":"the same day, other draws"}`, string(text))
}

// TestSnapshotAlone: from a snapshot, in which nothing comes and goes, days are built, and on them the
// choice is made in the same way.
func TestSnapshotAlone(t *testing.T) {
	now := *wasteful(t).Window(12*hour, 12*hour+1, nil)
	now.Initial, now.Events = len(now.Requests), nil
	cfg := Config{Traces: []*trace.Trace{&now}, Target: Live, InForce: "worstfit", Seed: 1, Workers: 2, Name: "p"}
	out, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, Parts{Choose: "5 built days", Judge: "3 built days", Exposure: "built days"}, out.Parts)
	require.True(t, out.Better)
	require.Contains(t, out.Sentence(), "It was judged on 3 built days, not on later days.")
	if out.Object != nil {
		require.Equal(t, "built days", out.Object.Spec.Provenance["tune"].(map[string]any)["exposure"])
	}
	require.Greater(t, out.Saving.Mean, 3.)
	cfg.InForce = "bestfit"
	out, err = Run(t.Context(), cfg)
	require.NoError(t, err)
	require.False(t, out.Better, "%v", out.Sentence())
}

// TestFillUps: traces in which nothing leaves are judged by what they need at the end, each in
// several orders, and the rule that packs them best is found.
func TestFillUps(t *testing.T) {
	var history []*trace.Trace
	for seed := uint64(600201); seed < 600205; seed++ {
		tr, err := generate.Generate("small", seed, nil)
		require.NoError(t, err)
		history = append(history, tr)
	}
	cfg := Config{Traces: history, Target: Live, InForce: "bestfit", Evaluations: 20, Seeds: 1, Seed: 1, Workers: 1, Name: "p"}
	out, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, Parts{"trace 1, trace 2", "trace 3", "trace 4", "later days"}, out.Parts)
	require.Equal(t, "fewer nodes", out.Measure)
	require.True(t, out.Better, "Best-Fit needs a fifth more")
	run, err := cerebro.NewReplayer(history[2]).Run(rule.BestFit{}, cerebro.Options{})
	require.NoError(t, err)
	require.Equal(t, "bestfit", out.Validation[0].Policy)
	require.InDelta(t, run.Cost, out.Validation[0].CostHours, 2, "the mean over orders")
}

// A replay that is led in counts from its part; days add up to the whole.
func TestDaysAddUp(t *testing.T) {
	tr := lasting(120)
	s := divided(t, 0, tr).split
	c := candidate{name: "bestfit", policy: rule.BestFit{}}
	const orders = 4
	found, err := judge(t.Context(), []*trace.Trace{tr}, s.validate, []*candidate{&c, &c}, draws{count: orders}, 1, 2)
	require.NoError(t, err)
	require.Equal(t, found[0], found[1])
	require.Len(t, found[0], 2)
	for order := range orders {
		w := ledIn([]*trace.Trace{tr}, s.validate, 1, order, orders)[0]
		require.Equal(t, 2*day, w.MeasureFrom)
		require.Equal(t, day+float64(order)*hour/2, w.Events[0].Time, "led in later")
		run, err := cerebro.NewReplayer(w).Run(rule.BestFit{}, cerebro.Options{})
		require.NoError(t, err)
		require.Zero(t, run.Unplaced)
		sum := 0.
		for _, day := range found[0] {
			sum += day[order].cost
		}
		require.InEpsilon(t, run.CostSeconds, sum, 1e-12)
	}
	first := ledIn([]*trace.Trace{tr}, s.train, 1, 1, orders)[0]
	require.Equal(t, []float64{-day, trace.Settling}, []float64{first.Events[0].Time, first.MeasureFrom}, "a copy leads in the first day")
}

// The interval of a paired difference is narrow where blocks differ and policies do not.
func TestSaving(t *testing.T) {
	var own, other losses
	for _, size := range []float64{10, 1000, 30} {
		own = append(own, []loss{{cost: .9 * size, refused: 5}})
		other = append(other, []loss{{cost: size}})
	}
	got := byCost.saving(own, other, 1)
	for _, v := range []float64{got.Mean, got.Low, got.High} {
		require.InDelta(t, 10, v, 1e-9)
	}
	require.Equal(t, 5., byLeftOut.of(loss{cost: 1, waiting: 3, refused: 5}))
	require.Equal(t, Interval{-100, -100, -100}, byLeftOut.saving(own, other, 1))
	require.Equal(t, Interval{}, byLeftOut.saving(other, other, 1))
	rare := losses{{{}}, {{}}, {{refused: 3}}} // in one block of three somebody waits
	require.Equal(t, Interval{100, 100, 100}, byLeftOut.saving(losses{{{}}, {{}}, {{}}}, rare, 1))
	other[1][0].cost = 800 // worse in the largest block
	got = byCost.saving(own, other, 1)
	require.Less(t, got.Low, 0.)
	require.Greater(t, got.High, 0.)
	own, other = nil, nil
	for _, cost := range []float64{90, 90, 90, 110} { // two bad ones of four draws or more: 26 %
		own, other = append(own, []loss{{cost: cost}}), append(other, []loss{{cost: 100}})
	}
	got = byCost.saving(own, other, 1)
	require.InDelta(t, -5, got.Low, 1e-9)
}

// Forecasts are wrong by one factor and by app; what is not forecast stays so.
func TestWrongForecasts(t *testing.T) {
	tr := lasting(1)
	many := make([]*trace.Trace, 200)
	for i := range many {
		many[i] = tr
	}
	low, high := math.Inf(1), 0.
	for _, w := range wrong(many, 1) {
		require.Equal(t, -1., w.Instance.Apps[0].Expected)
		low, high = min(low, w.Instance.Apps[1].Expected), max(high, w.Instance.Apps[1].Expected)
	}
	require.Equal(t, 7., tr.Instance.Apps[1].Expected, "the history stays as it is")
	require.Less(t, low, .6*7)
	require.Greater(t, high, 1.6*7)
}

// TestTightened: a loose fleet keeps the machines that its peak needs, evenly of all lines.
func TestTightened(t *testing.T) {
	tr := lasting(4) // 6 requests live: 3 of 1 and 3 of 3 cpu
	inst := *tr.Instance
	tr.Instance = &inst
	inst.Fleet, inst.Machines = binpack.Fixed, nil
	for range 10 {
		inst.Machines = append(inst.Machines, binpack.MachineLine{Name: "m", Capacity: []int64{4}, Count: 2, Cost: 1})
	}
	require.InDelta(t, 15./80, peakShare(tr), 1e-9) // a seventh comes before the first leaves: 12 + 3
	got := tightened([]*trace.Trace{tr})[0]
	machines := 0
	for _, m := range got.Instance.Machines {
		machines += m.Count
	}
	require.Equal(t, 4, machines) // 20 · 1.02 · 15 / 80 = 3.8
	require.Greater(t, len(got.Instance.Machines), 2)
	require.Len(t, inst.Machines, 10, "the history stays as it is")
	inst.Machines = inst.Machines[:2]
	require.Equal(t, inst.Machines, tightened([]*trace.Trace{tr})[0].Instance.Machines, "none to spare")
	inst.Apps = slices.Clone(inst.Apps)
	for a := range inst.Apps {
		inst.Apps[a].Demand = []int64{0}
	}
	require.Equal(t, inst.Machines, tightened([]*trace.Trace{tr})[0].Instance.Machines, "pods that ask for nothing need one")
}

// Each target has the candidates that it can run.
func TestTargets(t *testing.T) {
	inst := lasting(1).Instance
	inst.Dimensions = append(inst.Dimensions, binpack.Dimension{Name: "memory", One: 1})
	names := func(target Target) (list []string) {
		found, err := rules(target, inst, 1)
		require.NoError(t, err)
		for _, c := range found {
			list = append(list, c.name)
		}
		return list
	}
	require.Equal(t, "bestfit", names(Live)[0])
	require.Contains(t, names(Live), "mostallocated, cpu × 3, memory × 1")
	require.NotContains(t, names(Live), "gpupacking")
	for _, name := range names(KubeScheduler) {
		require.Regexp(t, "^(mostallocated|leastallocated|requestedtocapacityratio)(,|$)", name)
	}
	require.Equal(t, names(KubeScheduler), names(AKS))
	require.Equal(t, "mostallocated", names(EKS)[0])
	require.NotRegexp(t, "leastallocated|requestedto", strings.Join(names(EKS), " "))
	require.NotContains(t, names(Live), "balancedallocation")
	inst.Fleet = binpack.Fixed
	require.Equal(t, []string{"mostallocated", "leastallocated"}, names(EKS)[:2])
	require.Contains(t, names(Live), "balancedallocation")
	require.Equal(t, []string{"mostallocated", "leastallocated"}, EKS.space(inst).Names)
	require.Contains(t, KubeScheduler.space(inst).Names, "requestedtocapacityratio")
	require.Nil(t, Live.space(inst))
}

// A tuning that was stopped goes on from its checkpoints and ends as one that was not, for
// any number of workers.
func TestResume(t *testing.T) {
	cfg := Config{
		Traces: []*trace.Trace{lasting(24)}, Target: Live, InForce: "worstfit", Evaluations: 25, Seeds: 2, Seed: 1, Workers: 1, Name: "p",
	}
	want, err := Run(t.Context(), cfg)
	require.NoError(t, err)

	cfg.Checkpoint = t.TempDir()
	for _, stop := range []int{10, 40} {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Progress = func(done, of int, _ string) {
			require.LessOrEqual(t, done, of)
			if done >= stop {
				cancel()
			}
		}
		_, err = Run(ctx, cfg)
		require.ErrorIs(t, err, context.Canceled)
	}
	cfg.Workers, cfg.Progress = 3, nil
	got, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	var a, b bytes.Buffer
	require.NoError(t, want.Report().HTML(&a))
	require.NoError(t, got.Report().HTML(&b))
	require.Equal(t, a.String(), b.String())
	sheettest.Check(t, a.String())
}
