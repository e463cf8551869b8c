package compare

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// oneApp is an open fleet of machines of 4 and an app of 3, without events.
func oneApp() *trace.Trace {
	return &trace.Trace{Name: "one", MeasureFrom: math.NaN(), Instance: &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}},
		Types:      []string{"m"},
		Fleet:      binpack.Open,
		Machines:   []binpack.MachineLine{{Name: "m", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{4}}},
		Groups:     []binpack.Group{{Name: "a"}},
		Apps:       []binpack.App{{Name: "a", Demand: []int64{3}, Expected: -1, Lifetime: -1}},
	}}
}

func object(knowledge string) *policy.Object {
	o := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind}
	o.Metadata.Name = "test"
	o.Spec = policy.Spec{
		FeatureVersion: policy.FeatureVersion, Model: "linear", Knowledge: knowledge,
		Features: []string{"util"}, Weights: []float64{1}, Mode: "live",
	}
	return o
}

func TestShippedFile(t *testing.T) {
	files := fstest.MapFS{}
	for name, knowledge := range map[string]string{
		"general-k1-clock.yaml": "K1+clock", "general-k0-clock-plain-1d.yaml": "K0+clock",
		"hand-k0.yaml": "K0", "hand-k1.yaml": "K1", "hand-k1-devices.yaml": "K1",
	} {
		files[name] = &fstest.MapFile{Data: object(knowledge).Bytes()}
	}
	k0, k1, k2, k0clock, k1clock := binpack.K0, binpack.K1, binpack.K2, binpack.K0Clock, binpack.K1Clock
	limited := func(in *binpack.Instance) { in.Groups[0].Limit = 1 }
	tests := []struct {
		name, policy string
		knowledge    *binpack.Knowledge
		change       func(in *binpack.Instance)
		want         string
	}{
		{"no forecast", "learned", &k0, limited, ""},
		{"a forecast", "learned", &k1, limited, ""},
		{"a clock", "learned", &k1clock, limited, "general-k1-clock.yaml"},
		{"a clock, no forecast", "learned", &k0clock, limited, "general-k1-clock.yaml"},
		{"one dimension", "learned", &k1clock, func(*binpack.Instance) {}, "general-k0-clock-plain-1d.yaml"},
		{"one dimension, fixed", "learned", &k1clock, func(in *binpack.Instance) { in.Fleet = binpack.Fixed }, "general-k1-clock.yaml"},
		{"by hand", "hand", nil, func(in *binpack.Instance) { in.Apps[0].Expected = 3 }, "hand-k1.yaml"},
		{"by hand, no forecast", "hand", nil, func(*binpack.Instance) {}, "hand-k0.yaml"},
		{"by hand, devices", "hand", &k1, func(in *binpack.Instance) { in.Dimensions[0].Device = true }, "hand-k1-devices.yaml"},
		{"by hand, the whole future", "hand", &k2, limited, "hand-k1.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := oneApp()
			tt.change(tr.Instance)
			c := Catalog{Shipped: files, Knowledge: tt.knowledge}
			got, err := c.Find(tt.policy, tr)
			require.NoError(t, err)
			require.Equal(t, tt.want, got.File)
			if tt.want == "" { // the model chooses among files, by no more than it may know
				require.Equal(t, policy.ShippedModel, got.Object.Spec.Model)
				require.LessOrEqual(t, got.Policy.Knowledge(), *tt.knowledge)
			}
		})
	}

	none := Catalog{Shipped: files, Knowledge: &k2}
	_, err := none.Find("learned", oneApp())
	require.ErrorContains(t, err, "none is shipped for knowledge K2; there are general-k0-clock-plain-1d")

	for _, level := range []binpack.Knowledge{k0clock, k1clock} { // a clock is of no use where items leave
		leaving := oneApp()
		leaving.Events = []trace.Event{{Kind: trace.Create, Count: 1}, {Time: 1, Kind: trace.Delete, Count: 1}}
		c := Catalog{Shipped: files, Knowledge: &level}
		got, err := c.Find("learned", leaving)
		require.NoError(t, err)
		require.Equal(t, policy.ShippedModel, got.Object.Spec.Model)
		require.Equal(t, level.Forecast(), got.Policy.Knowledge().Forecast())
	}

	c := Catalog{Shipped: files}
	got, err := c.Find("learned", oneApp())
	require.NoError(t, err)
	require.Equal(t, policy.Shipped(), got.Object, "without a level it is the policy of the manifests")
	run := cerebro.Run{Choices: []cerebro.Choice{{Items: 5, Choice: binpack.Choice{Name: "a.yaml", Knowledge: binpack.K0}}}}
	var result Result
	result.note(got, oneApp(), []cerebro.Run{run})
	require.Equal(t, []string{"learned is a.yaml (K0, less than the K1 that it may use)"}, result.Notes)
	run.Choices = append(run.Choices, cerebro.Choice{Items: 15, Choice: binpack.Choice{Name: "b.yaml", Knowledge: binpack.K1}})
	run.Choices = append(run.Choices, cerebro.Choice{Items: 0, Choice: binpack.Choice{Name: "c.yaml", Knowledge: binpack.K1}})
	result.note(got, oneApp(), []cerebro.Run{run})
	require.Contains(t, result.Notes[1], "learned is a.yaml (K0) for 25 % of the items, b.yaml (K1) for 75 % of the items")
}

func TestExposure(t *testing.T) {
	digest := report.Digest{Instance: "i1", Trace: "t1"}
	seen := func(traceDigest, instance string, seed any, orders any) map[string]any {
		return map[string]any{
			"traces": []any{map[string]any{"trace": traceDigest, "instance": instance}}, "seed": seed, "orders": orders,
		}
	}
	until := func(traceDigest string, time any) map[string]any {
		p := seen(traceDigest, "i1", 1, 0)
		p["traces"].([]any)[0].(map[string]any)["until"] = time
		return p
	}
	tests := []struct {
		name       string
		provenance map[string]any
		orders     int // with seed 1
		want       string
	}{
		{"says nothing", nil, 3, ""},
		{"the days before", until("t1", 50), 0, LaterDays},
		{"earlier days of another recording", until("t2", 49.5), 0, LaterDays},
		{"the days before, shuffled", until("t1", 50), 3, SameInstance},
		{"this day too", until("t1", 51), 0, TrainedOn},
		{"another instance", seen("t2", "i2", 1, 3), 3, HeldOut},
		{"the same apps, other events", seen("t2", "i1", 1, 3), 3, SameInstance},
		{"the same shuffles", seen("t1", "i1", 1, 3), 9, TrainedOn},
		{"the same shuffles, not yet written to a file", seen("t1", "i1", uint64(1), 3), 9, TrainedOn},
		{"other shuffles", seen("t1", "i1", 2, 3), 3, SameInstance},
		{"trained on shuffles, measured in the file's order", seen("t1", "i1", 1, 3), 0, SameInstance},
		{"trained in the file's order, measured on shuffles", seen("t1", "i1", 1, 0), 3, SameInstance},
		{"the file's order", seen("t1", "i1", 2, 0), 0, TrainedOn},
		{"orders unknown", seen("t1", "i1", 2, nil), 3, TrainedOn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := object("K0")
			o.Spec.Provenance = tt.provenance
			require.Equal(t, tt.want, Exposure(o, digest, 50, 1, tt.orders))
		})
	}
	require.Empty(t, Exposure(nil, digest, 50, 1, 3))
}

// Two requests of one item each, of half a machine: x for 4 seconds from 0, y
// for 1 second from 3. In the file's order one machine is needed for 4 seconds;
// in the other y takes 0 to 1 and x takes 3 to 7, which makes 5.
func TestMeanBoundOfDepartures(t *testing.T) {
	tr := oneApp()
	tr.Instance.Apps[0].Demand = []int64{2}
	tr.Requests = []trace.Request{{Name: "x", Count: 1}, {Name: "y", Count: 1}}
	tr.Events = []trace.Event{
		{Time: 0, Request: 0, Count: 1},
		{Time: 3, Request: 1, Count: 1},
		{Time: 4, Kind: trace.Delete, Request: 0, Count: 1},
		{Time: 4, Kind: trace.Delete, Request: 1, Count: 1},
	}
	const orders = 8
	var of []float64
	sum := 0.0
	for i := range orders {
		of = append(of, Bound(tr, 1, i+1, false).MachineSeconds)
		sum += of[i]
	}
	require.InDelta(t, 4.0, Bound(tr, 1, 0, false).MachineSeconds, 1e-12)
	require.Contains(t, of, 4.0)
	require.Contains(t, of, 5.0)
	got := meanBound(t.Context(), tr, true, 1, orders, bound.Options{}).best
	require.InDelta(t, sum/orders, got.MachineSeconds, 1e-12)
	require.Equal(t, 1, got.Machines)
	require.Equal(t, Bound(tr, 1, 0, false), meanBound(t.Context(), tr, true, 1, 0, bound.Options{}).best)
}

// The layouts are those of the first trace after its first shuffled order, or
// after the file's when there is none.
func TestLayouts(t *testing.T) {
	tr := oneApp()
	tr.Requests = []trace.Request{{Name: "x", Count: 3}}
	tr.Events = []trace.Event{{Request: 0, Count: 3}}
	for _, orders := range []int{0, 2} {
		for _, asked := range []bool{false, true} {
			result, err := Run(t.Context(), []*trace.Trace{tr, tr}, []string{"bestfit", "worstfit"}, Catalog{},
				Options{Orders: orders, Workers: 2, Layouts: asked})
			require.NoError(t, err)
			for i, c := range result.Comparisons {
				for _, r := range c.Results {
					if !asked || i > 0 {
						require.Nil(t, r.Layout)
						continue
					}
					require.Len(t, r.Layout.Machines, 3)
					require.Equal(t, min(1, orders), r.Layout.Order)
				}
			}
		}
	}
}

// The replay that is drawn differs from Best-Fit as most do, not as the first one, and keeps what it measured.
func TestTypicalIsDrawn(t *testing.T) {
	run := func(order int, cost float64) cerebro.Run {
		return cerebro.Run{Order: order, Cost: cost, CostSeconds: 100 - cost}
	}
	c := comparison{
		played:   []*trace.Trace{oneApp(), oneApp()},
		policies: [][]Found{{{Name: "bestfit"}, {Name: "p", Object: &policy.Object{}}}, {{Name: "bestfit"}, {Name: "p", Object: &policy.Object{}}}},
		runs: [][][]cerebro.Run{ // order 0 does not count
			{{run(0, 10), run(1, 10), run(2, 10)}, {run(0, 8), run(1, 2), run(2, 9)}},  // 80, 10 %
			{{run(0, 10), run(1, 10), run(2, 10)}, {run(0, 8), run(1, 10), run(2, 7)}}, // 0, 30 %: the mean is 30
		},
		opt: Options{Orders: 2, Layouts: true},
	}
	d, ok := c.typical("p", "bestfit")
	require.True(t, ok)
	require.Equal(t, drawn{1, 2}, d)
	c.policies[1][0].Name = "firstfit"
	_, ok = c.typical("p", "bestfit")
	require.False(t, ok)

	tr := oneApp()
	tr.Requests = []trace.Request{{Name: "x", Count: 3}}
	tr.Events = []trace.Event{{Request: 0, Count: 3}}
	file := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: sigma-scheduler.io/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: p}\nspec: {featureVersion: 1, model: linear, knowledge: K0, features: [util], weights: [1]}\n"), 0o600))
	result, err := Run(t.Context(), []*trace.Trace{tr, tr}, []string{"bestfit", file}, Catalog{}, Options{Orders: 2, Workers: 2, Layouts: true})
	require.NoError(t, err)
	require.NotNil(t, result.Comparisons[0].Results[0].Layout, "of several alike the first")
}

// TestViolations: those of all runs of all policies are counted, the file's
// order included, so that a single one ends a comparison with exit code 1.
func TestViolations(t *testing.T) {
	c := comparison{
		traces:   []*trace.Trace{oneApp()},
		played:   []*trace.Trace{oneApp()},
		layouts:  make([]*report.Layout, 2),
		policies: [][]Found{{{Policy: rule.FirstFit{}, Name: "firstfit"}, {Policy: rule.BestFit{}, Name: "bestfit"}}},
		runs:     [][][]cerebro.Run{{{{Violations: 4}, {Order: 1}}, {{}, {Order: 1, Violations: 2}}}},
		opt:      Options{Orders: 1},
	}
	result, err := c.result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 6, result.Violations)
}

// TestOptimal: what a trace states is believed unless the bound contradicts it.
func TestOptimal(t *testing.T) {
	tr := oneApp() // machines of 4
	tr.Requests = []trace.Request{{Name: "r", Count: 4}}
	tr.Events = []trace.Event{{Request: 0, Count: 4}} // of 3 each: a machine each
	for _, stated := range []any{4, 5.0} {
		tr.Source = map[string]any{"optimal": stated}
		require.InDelta(t, stated, *Bound(tr, 1, 0, false).Optimal, 0)
	}
	for _, stated := range []any{3, -3, "4", nil} {
		tr.Source = map[string]any{"optimal": stated}
		require.Nil(t, Bound(tr, 1, 0, false).Optimal)
	}
}

// TestRetryHasNoBound: items that wait stand for a shorter time than the bound counts on, so
// there is none, and the waiting is told instead.
func TestRetryHasNoBound(t *testing.T) {
	tr := oneApp()
	in := tr.Instance
	in.Fleet, in.Machines[0].Count = binpack.Fixed, 1
	in.Machines = append(in.Machines, binpack.MachineLine{Name: "small", Count: 1, Cost: 1, Capacity: []int64{2}})
	in.Apps[0].Demand = []int64{2}
	in.Groups = append(in.Groups, binpack.Group{Name: "b"})
	in.Apps = append(in.Apps, binpack.App{Name: "b", Group: 1, Demand: []int64{4}, Expected: -1, Lifetime: -1})
	tr.Requests = []trace.Request{{Name: "x", Count: 1}, {Name: "y", App: 1, Count: 1}}
	tr.Events = []trace.Event{
		{Time: 0, Request: 0, Count: 1},
		{Time: 0, Request: 1, Count: 1},
		{Time: 30, Kind: trace.Delete, Request: 0, Count: 1},
		{Time: 40, Kind: trace.Delete, Request: 1, Count: 1},
	}
	run := func(opt Options) (Result, report.Comparison) {
		opt.Workers, opt.Plan = 1, true
		result, err := Run(t.Context(), []*trace.Trace{tr}, []string{"firstfit"}, Catalog{}, opt)
		require.NoError(t, err)
		return result, result.Comparisons[0]
	}
	// x stands in y's way for 30 s; then y stands for 10. The bound: 2 machines for 30 s.
	result, c := run(Options{Retry: true})
	require.Zero(t, c.Bound)
	require.Nil(t, c.Results[0].GapToBound)
	r := c.Results[0].Runs[0]
	require.InDelta(t, 40, r.MachineSeconds, 0)
	require.InDelta(t, 15, *r.MeanWaiting, 0)
	require.InDelta(t, 30, *r.LongestWaiting, 0)
	require.Equal(t, []string{"one: not planned in hindsight, since items may wait"}, result.Notes)
	require.Equal(t, "firstfit lets an item wait 15 s.", report.Summary(result.Comparisons))
	_, c = run(Options{})
	require.InDelta(t, 70, c.Bound.MachineSeconds, 0)
	require.Nil(t, c.Results[0].Runs[0].MeanWaiting)
}

// TestOptimalDisproved: an optimum that a complete placement of the same task undercuts is an
// error with both numbers, and no other placement disproves it.
func TestOptimalDisproved(t *testing.T) {
	stay := []trace.Event{{Request: 0, Count: 3}}
	leave := append(slices.Clone(stay), trace.Event{Time: 5, Kind: trace.Delete, Request: 0, Count: 2})
	tests := []struct {
		name    string
		stated  any
		price   float64
		events  []trace.Event
		fixed   bool // two machines for three items
		policy  string
		opt     Options
		message string
	}{
		{"machines", 9, 1, stay, false, "firstfit", Options{}, "trace one: trace.yaml: source.optimal: 9 is not the least cost: policy firstfit, order 0, places all items at 3"},
		{"machines, right", 3, 1, stay, false, "firstfit", Options{Orders: 2}, ""},
		{"cost", 4.5, 1.25, stay, false, "firstfit", Options{}, "4.5 is not the least cost: policy firstfit, order 0, places all items at 3.75"},
		{"cost, right", 3.75, 1.25, stay, false, "firstfit", Options{}, ""},
		{"in hindsight", 9, 1, stay, false, "firstfit", Options{Plan: true}, "order 0"},
		{"an item is left out", 9, 1, stay, true, "firstfit", Options{}, ""},
		{"an item waits", 9, 1, leave, true, "firstfit", Options{Retry: true}, ""},
		{"the peak", 9, 1, leave, false, "firstfit", Options{}, "places all items at 3"},
		{"the peak, right", 3, 1, leave, false, "firstfit", Options{}, ""},
		{"nothing is stated", "9", 1, stay, false, "firstfit", Options{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := oneApp()
			if tt.fixed {
				tr.Instance.Fleet, tr.Instance.Machines[0].Count = binpack.Fixed, 2
			}
			tr.Instance.Machines[0].Cost = tt.price
			tr.Source = map[string]any{"optimal": tt.stated}
			tr.Requests = []trace.Request{{Name: "r", Count: 3}}
			tr.Events = tt.events
			tt.opt.Workers = 1
			_, err := Run(t.Context(), []*trace.Trace{tr}, []string{tt.policy}, Catalog{}, tt.opt)
			if tt.message == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.message)
		})
	}
	// What somebody else placed need not keep the constraints.
	tr := oneApp()
	tr.Source = map[string]any{"optimal": 9}
	require.NoError(t, Disproved(tr, false, Found{Policy: &current{}, Name: Current}, cerebro.Run{Cost: 1}))
	// Departures move with their requests: another task.
	require.NoError(t, Disproved(tr, true, Found{Policy: rule.FirstFit{}}, cerebro.Run{Order: 1, PeakMachines: 1}))
	require.Error(t, Disproved(tr, true, Found{Policy: rule.FirstFit{}}, cerebro.Run{PeakMachines: 1}))
	require.NoError(t, Disproved(tr, false, Found{Policy: rule.FirstFit{}}, cerebro.Run{Cost: 1, Violations: 1}))
}

// TestShippedByFileName: a shipped file is found by its bare name where the folder has none of that name.
func TestShippedByFileName(t *testing.T) {
	t.Chdir(t.TempDir())
	c := Catalog{Shipped: policies.Files}
	found, err := c.Find("kubernetes-k0.yaml", nil)
	require.NoError(t, err)
	require.NotNil(t, found.Object)
	_, err = c.Find("./kubernetes-k0.yaml", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = c.Find("nosuch.yaml", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile("kubernetes-k0.yaml", []byte("x: 1\n"), 0o600))
	_, err = c.Find("kubernetes-k0.yaml", nil)
	require.Error(t, err, "the folder's file comes first")
}
