package tune

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
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

func split1(t *testing.T, traces ...*trace.Trace) split {
	t.Helper()
	until, err := ends(traces)
	require.NoError(t, err)
	s, err := splitByTime(traces, until, 0)
	require.NoError(t, err)
	return s
}

// hoursOf are the hours of a part and its blocks.
func hoursOf(spans []span) (hours float64, blocks int) {
	for _, s := range spans {
		hours += (s.until - s.from) / hour
		blocks += len(s.marks)
	}
	return math.Round(hours), blocks
}

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		days                    []float64 // hours of each trace
		train, validate, test   float64
		blocks1, blocks2, block int
	}{
		{[]float64{12}, 4, 4, 4, 1, 1, 1},
		{[]float64{24}, 8, 4, 12, 2, 1, 3},
		{[]float64{48}, 16, 8, 24, 4, 2, 6},
		{[]float64{24, 24}, 16, 8, 24, 4, 2, 6},
		{[]float64{240}, 144, 48, 48, 6, 2, 2},
		{[]float64{24, 24, 24, 24, 24, 24, 24, 24, 24, 24}, 144, 48, 48, 6, 2, 2},
		{[]float64{26}, 8, 4, 14, 2, 1, 3}, // the rest belongs to the last block
	} {
		var traces []*trace.Trace
		for _, h := range tc.days {
			traces = append(traces, lasting(h))
		}
		s := split1(t, traces...)
		for _, part := range []struct {
			spans []span
			hours float64
			n     int
		}{{s.train, tc.train, tc.blocks1}, {s.validate, tc.validate, tc.blocks2}, {s.test, tc.test, tc.block}} {
			hours, n := hoursOf(part.spans)
			require.InDelta(t, part.hours, hours, 1.5, "%v", tc.days)
			require.Equal(t, part.n, n, "%v", tc.days)
		}
	}
	short := lasting(11)
	until, err := ends([]*trace.Trace{short})
	require.NoError(t, err)
	_, err = splitByTime([]*trace.Trace{short}, until, 0)
	require.ErrorContains(t, err, "the history has 10.8 hours, of which 2 blocks of four hours can be made; three blocks")
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
	require.Empty(t, out.Reason)
	require.Equal(t, "Trained on trace 1, chosen on trace 2, judged on trace 3, trace 4", out.Parts)
	require.Equal(t, "fewer nodes", out.Measure)
	require.NotEqual(t, "bestfit", out.Chosen, "it needs a fifth more")
	run, err := cerebro.NewReplayer(history[1]).Run(rule.BestFit{}, cerebro.Options{})
	require.NoError(t, err)
	at := slices.IndexFunc(out.Validation, func(r Row) bool { return r.Policy == "bestfit" })
	require.InDelta(t, run.Cost, out.Validation[at].CostHours, 2, "the mean over orders")

	long, err := generate.Generate("large", 600201, map[string]string{"scale": ".1"}) // of a day
	require.NoError(t, err)
	cfg.Traces = []*trace.Trace{long}
	out, err = Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, out.Reason, "three traces in which nothing leaves", "hours say nothing of it")
	require.Equal(t, "bestfit", out.Chosen)

	cfg.Traces = history[:2]
	out, err = Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, out.Reason, "three traces in which nothing leaves")
	require.Equal(t, "bestfit", out.Chosen)
}

// TestStarts: trainings begin with Best-Fit and with the files that their features can say.
func TestStarts(t *testing.T) {
	starts := methods(Live, []*trace.Trace{lasting(12)})[0].starts(false)
	require.Equal(t, "bestfit", starts[0].Metadata.Name)
	require.NotEmpty(t, forLeaving())
	require.Subset(t, starts[1:], forLeaving())
	tr, err := generate.Generate("small", 1, nil)
	require.NoError(t, err)
	for _, m := range methods(Live, []*trace.Trace{tr, tr, tr}) { // nothing leaves
		starts := m.starts(false)
		require.NotEmpty(t, starts, m.String())
		for _, o := range starts {
			require.Len(t, o.Spec.Parameters, len(starts[0].Spec.Parameters), "%s lacks one", o.Metadata.Name)
		}
	}
}

// A replay that is led in counts from its part; blocks add up to the whole.
func TestBlocksAddUp(t *testing.T) {
	tr := lasting(24)
	s := split1(t, tr)
	c := candidate{name: "bestfit", policy: rule.BestFit{}}
	found, err := judge(t.Context(), []*trace.Trace{tr}, s.test, []*candidate{&c, &c}, 1, 2)
	require.NoError(t, err)
	require.Equal(t, found[0], found[1])
	require.Len(t, found[0], 3)
	for order := range 4 {
		w := ledIn([]*trace.Trace{tr}, s.test, 1, order, 4)[0]
		require.Equal(t, 12*hour, w.MeasureFrom)
		require.Equal(t, float64(order)*hour/4, w.Events[0].Time, "led in later")
		run, err := cerebro.NewReplayer(w).Run(rule.BestFit{}, cerebro.Options{})
		require.NoError(t, err)
		require.Zero(t, run.Unplaced)
		sum := 0.
		for _, block := range found[0] {
			sum += block[order].cost
		}
		require.InEpsilon(t, run.CostSeconds, sum, 1e-12)
	}
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
	require.Equal(t, 3., byWaiting.of(loss{cost: 1, waiting: 3, refused: 5}))
	require.Equal(t, Interval{-100, -100, -100, -100}, byLeftOut.saving(own, other, 1))
	require.Equal(t, Interval{}, byLeftOut.saving(other, other, 1))
	rare := losses{{{}}, {{}}, {{refused: 3}}} // in one block of three somebody waits
	require.Equal(t, Interval{100, 100, 100, 100}, byLeftOut.saving(losses{{{}}, {{}}, {{}}}, rare, 1))
	other[1][0].cost = 800 // worse in the largest block
	got = byCost.saving(own, other, 1)
	require.Less(t, got.Low, 0.)
	require.Greater(t, got.High, 0.)
	own, other = nil, nil
	for _, cost := range []float64{90, 90, 90, 110} { // two bad ones of four draws or more: 26 %, four: .4 %
		own, other = append(own, []loss{{cost: cost}}), append(other, []loss{{cost: 100}})
	}
	got = byCost.saving(own, other, 1)
	require.InDelta(t, -5, got.Low, 1e-9)
	require.InDelta(t, -10, got.least, 1e-9)
}

// A rule that is much better on one trace and a little worse on another is not better on each.
func TestOnEach(t *testing.T) {
	spans := []span{{trace: 0, marks: []float64{1, 2}}, {trace: 1, marks: []float64{1}}, {trace: 0, marks: []float64{3}}}
	other := losses{{{cost: 100}}, {{cost: 100}}, {{cost: 100}}, {{cost: 100}}}
	require.True(t, byCost.onEach(spans, losses{{{cost: 50}}, {{cost: 101}}, {{cost: 99}}, {{cost: 101}}}, other))
	require.False(t, byCost.onEach(spans, losses{{{cost: 50}}, {{cost: 50}}, {{cost: 101}}, {{cost: 50}}}, other))
}

// TestDecide: the policy in force has a chance where the chosen rival is no better, other rules have none.
func TestDecide(t *testing.T) {
	judged := []*candidate{{name: "bestfit"}, {kind: trained}, {kind: builtIn}, {kind: inForce, object: &policy.Object{}}}
	good, unsure, bad := Interval{Mean: 2, Low: 1}, Interval{Mean: 1, Low: -1}, Interval{Mean: -1, Low: -2}
	for _, tc := range []struct {
		own, inForce Interval
		allowed      bool
		at           int
	}{
		{good, good, true, 1}, {unsure, good, true, 3}, {bad, unsure, true, 0}, {unsure, unsure, true, 0}, {good, bad, false, 0},
	} {
		require.Equal(t, tc.at, decide(judged, []Row{{}, {Saving: tc.own}, {Saving: good}, {Saving: tc.inForce}}, []bool{true, tc.allowed, true, true}))
	}
}

// TestKinds: a kind is chosen by the mean over its trainings.
func TestKinds(t *testing.T) {
	lucky, steady := method{model: "linear"}, method{model: "devices"}
	all := []*candidate{{kind: trained, how: lucky}, {kind: trained, how: lucky}, {kind: trained, how: steady}, {kind: shipped, name: "a"}}
	rows := []Row{{Saving: Interval{Mean: 5}}, {Saving: Interval{Mean: -3}}, {Saving: Interval{Mean: 2}}, {Saving: Interval{Mean: 1}}}
	require.Equal(t, []float64{1, 1, 2, 1}, savingOfKinds(all, rows, []bool{true, true, true, true}))
	require.Equal(t, []float64{5, 5, 2, 1}, savingOfKinds(all, rows, []bool{true, false, true, true}), "a seed that was ruled out says nothing")
	equal := Row{Saving: Interval{Mean: 1}, WaitingHours: 2, CostHours: 3}
	for _, worse := range []Row{{WaitingHours: 0}, {Saving: Interval{Mean: 1}, WaitingHours: 3}, {Saving: Interval{Mean: 1}, WaitingHours: 2, CostHours: 4}} {
		require.Positive(t, equal.compare(&worse), "by what is saved, then waiting, then cost")
	}
}

// TestChoice: the best kind that may be taken, and of it the best.
func TestChoice(t *testing.T) {
	all := make([]*candidate, 3)
	rows := []Row{{Saving: Interval{Mean: 1}}, {Saving: Interval{Mean: 3}}, {Saving: Interval{Mean: 4}}}
	kinds := []float64{2, 2, 1}
	require.Equal(t, 1, choice(all, rows, kinds, func(int) bool { return true }))
	require.Equal(t, 0, choice(all, rows, kinds, func(i int) bool { return i != 1 }))
	require.Equal(t, -1, choice(all, rows, kinds, func(int) bool { return false }))
}

// TestMean: an average takes the direction of each member, whatever the order of its features, and
// trainings with several seeds make one candidate.
func TestMean(t *testing.T) {
	m := method{"linear", binpack.K0, []string{"util", "mean", "full"}}
	a := &policy.Object{Spec: policy.Spec{Features: m.features, Weights: []float64{3, 0, 4}, Provenance: map[string]any{"seed": 1}}}
	b := &policy.Object{Spec: policy.Spec{Features: []string{"full", "mean"}, Weights: []float64{0, .01}}}
	got := mean(m, []*policy.Object{a, b})
	require.Equal(t, m.features, got.Spec.Features)
	require.Equal(t, []float64{.3, .5, .4}, got.Spec.Weights)
	require.Equal(t, []any{a.Digest(), b.Digest()}, got.Spec.Provenance["average"])
	require.NotContains(t, a.Spec.Provenance, "average", "the member stays as it is")

	cfg := Config{Traces: []*trace.Trace{lasting(12)}, Target: Live, InForce: "bestfit", Evaluations: 20, Seeds: 2, Seed: 1, Workers: 1, Name: "p"}
	out, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	at := slices.IndexFunc(out.Candidates, func(e Entry) bool { return e.Policy == "linear K0, average" })
	require.GreaterOrEqual(t, at, 0)
	require.False(t, slices.ContainsFunc(out.Candidates, func(e Entry) bool { return e.Policy == "linear K0, seed 1" }))
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

// Best-Fit as a linear policy places as Best-Fit does.
func TestBestFitStart(t *testing.T) {
	tr := lasting(12)
	for _, m := range methods(Live, []*trace.Trace{tr}) {
		p, err := m.bestFit().Policy()
		require.NoError(t, err)
		r := cerebro.NewReplayer(tr)
		got, err := r.Run(p, cerebro.Options{})
		require.NoError(t, err)
		want, err := r.Run(rule.BestFit{}, cerebro.Options{})
		require.NoError(t, err)
		require.Equal(t, want.CostSeconds, got.CostSeconds)
	}
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
	require.Equal(t, []method{{policy.RuleModel, binpack.K0, nil}}, methods(EKS, []*trace.Trace{lasting(1)}))
	require.Equal(t, []string{"mostallocated", "leastallocated"}, EKS.space(inst).Names)
	require.Contains(t, KubeScheduler.space(inst).Names, "requestedtocapacityratio")
	require.Nil(t, Live.space(inst))
	require.Contains(t, methods(Offline, []*trace.Trace{lasting(1)}), method{"linear", binpack.K1Clock, nil})
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
	for _, stop := range []int{10, 60} {
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
	require.NoError(t, want.HTML(&a))
	require.NoError(t, got.HTML(&b))
	require.Equal(t, a.String(), b.String())
	sheettest.Check(t, a.String())
}
