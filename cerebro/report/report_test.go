package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

const hex = "9ab1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b1"

// small is an open fleet with a proven optimum: orders 0…4.
func small() Comparison {
	optimum := 15.0
	return Build(Trace{
		Name:       "small-900001",
		Digest:     Digest{Instance: "sha256:" + hex, Trace: "sha256:" + hex[8:] + hex[:8]},
		Items:      222,
		Apps:       30,
		Dimensions: []string{"cpu", "memory"},
		Fleet:      "open",
		Machines:   -1,
		Seed:       1,
		Orders:     4,
		Forecast:   &Forecast{Ratio: 1.0317, AppError: 0.1612},
	}, Bound{Machines: 15, Cost: 15, Method: "volume", Optimal: &optimum}, []PolicyRuns{
		{Policy: "worstfit", Knowledge: "K0", Runs: packed(25, 24, 26, 27, 25)},
		{Policy: "bestfit", Knowledge: "K0", Runs: packed(20, 18, 20, 23, 20)},
		{Policy: "learned", Digest: "sha256:" + hex, Knowledge: "K1", Exposure: "held out", Runs: packed(16, 15, 16, 17, 15)},
		{Policy: "learned", Digest: "sha256:" + hex[4:], Knowledge: "K2", Exposure: "held out", Runs: packed(15, 15, 15, 15, 15)},
		{Policy: "firstfit", Knowledge: "K0", Runs: packed(21, 20, 20, 21, 23)},
	})
}

// packed makes runs, order 0 first, that need these machines of 96 cpu and 512
// memory for 1,360 cpu and 2,720 memory.
func packed(machines ...int) []cerebro.Run {
	var runs []cerebro.Run
	for order, n := range machines {
		cpu, memory := 1360/float64(96*n), 2720/float64(512*n)
		run := cerebro.Run{
			Order: order, Machines: n, PeakMachines: n, Cost: float64(n),
			AllocationRate: []float64{cpu, memory}, MeanAllocationRate: []float64{cpu * .9, memory * .9},
			Fragment: 1 - cpu, Balance: 0.1, Spread: 0.9, Placed: 222, Rejected: []float64{0, 0}, FirstRejection: 1,
		}
		for step := range 5 {
			run.Series = append(run.Series, cerebro.Sample{Time: float64(step) * 3600, Machines: n * step / 4})
		}
		runs = append(runs, run)
	}
	return runs
}

// fixed is a fleet on which policies leave items out.
func fixed() Comparison {
	runs := func(policy string, unplaced ...int) PolicyRuns {
		p := PolicyRuns{Policy: policy, Knowledge: "K0"}
		for order, n := range unplaced {
			run := cerebro.Run{
				Order: order, Machines: 272, PeakMachines: 272, Cost: 272, AllocationRate: []float64{.98, .61},
				Placed: 5000 - n, Unplaced: n, Rejected: []float64{float64(n) / 5000, float64(n) / 6000}, FirstRejection: 1,
			}
			if n > 0 {
				run.FirstRejection = 1 - float64(n)/2000
			}
			p.Runs = append(p.Runs, run)
		}
		return p
	}
	hurt := runs("learned", 60, 50, 64)
	hurt.Knowledge, hurt.Exposure, hurt.Digest = "K0+clock", "same instance, other orders", "sha256:"+hex
	hurt.Runs[1].Fallbacks = map[string]int{"not finite": 3}
	return Build(Trace{
		Name: "fixed-900002", Digest: Digest{Instance: "sha256:" + hex, Trace: "sha256:" + hex}, Items: 5000, Apps: 400,
		Dimensions: []string{"cpu", "memory"}, Fleet: "fixed", Machines: 272, Seed: 7, Orders: 2,
	}, Bound{Machines: 267, Cost: 267, Method: "volume"}, []PolicyRuns{runs("bestfit", 100, 90, 110), hurt})
}

// churn has departures and machines of different cost.
func churn() Comparison {
	runs := func(policy string, seconds ...float64) PolicyRuns {
		p := PolicyRuns{Policy: policy, Knowledge: "K0"}
		for order, s := range seconds {
			run := cerebro.Run{
				Order: order, Machines: 12, PeakMachines: 40 + order, Cost: 18, MachineSeconds: s, CostSeconds: 1.5 * s,
				MeanAllocationRate: []float64{.7}, Placed: 900, FirstRejection: 1, Seconds: .25,
			}
			for step := range 1000 {
				run.Series = append(run.Series, cerebro.Sample{
					Time:     float64(step) * 300,
					Machines: int(20 + s/1e6 + 10*math.Sin(float64(step)/70)),
				})
			}
			p.Runs = append(p.Runs, run)
		}
		return p
	}
	return Build(Trace{
		Name: "churn-900003", Digest: Digest{Instance: "sha256:" + hex, Trace: "sha256:" + hex}, Items: 900, Apps: 40,
		Dimensions: []string{"cpu"}, Fleet: "open", Machines: -1, Mixed: true, Deletes: true, Seed: 1,
	}, Bound{Machines: 38, Cost: 57, MachineSeconds: 1e7, CostSeconds: 1.5e7, Method: "volume"}, []PolicyRuns{
		runs("bestfit", 1.08e7), runs("learned", 1.031e7),
	})
}

// waiters has items that may wait, each so many seconds under Best-Fit and under a learned
// policy.
func waiters(bestfit, other float64) Comparison {
	runs := func(policy string, wait float64) PolicyRuns {
		p := PolicyRuns{Policy: policy, Knowledge: "K0"}
		for order := range 3 {
			p.Runs = append(p.Runs, cerebro.Run{
				Order: order, Machines: 1, PeakMachines: 2, Cost: 1, MachineSeconds: 75, CostSeconds: 75,
				MeanAllocationRate: []float64{.7}, Placed: 5, FirstRejection: .5,
				MeanWaiting: wait * float64(order), LongestWaiting: 3 * wait * float64(order),
			})
		}
		return p
	}
	return Build(Trace{
		Name: "waiting-900004", Digest: Digest{Instance: "sha256:" + hex, Trace: "sha256:" + hex}, Items: 5, Apps: 1,
		Dimensions: []string{"cpu"}, Fleet: "fixed", Machines: 2, Deletes: true, Seed: 1, Orders: 2, Retry: true,
	}, Bound{}, []PolicyRuns{runs("bestfit", bestfit), runs("learned", other)})
}

// several traces of one kind, as a test set has them.
func several() []Comparison {
	second := small()
	second.Trace.Name = "small-900002"
	second.Trace.Forecast = &Forecast{Ratio: 0.94, AppError: 0.2}
	for i := range second.Results {
		if r := &second.Results[i]; r.Policy == "learned" && r.Knowledge == "K1" {
			*r = newResult(&second, PolicyRuns{
				Policy: r.Policy, Digest: r.Digest, Knowledge: r.Knowledge, Exposure: r.Exposure,
				Runs: packed(17, 16, 17, 18, 17),
			})
		}
	}
	return []Comparison{small(), second}
}

func TestGolden(t *testing.T) {
	for name, comparisons := range map[string][]Comparison{
		"small":   {small()},
		"fixed":   {fixed()},
		"churn":   {churn()},
		"waiting": {waiters(2, 1)},
		"several": several(),
		"nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".table", func(w io.Writer) error { return Table(w, comparisons, Options{}) })
			golden(t, name+".md", func(w io.Writer) error { return Markdown(w, comparisons, Options{Detail: true}) })
			if name != "several" {
				golden(t, name+".json", func(w io.Writer) error { return sheet.JSON(w, append([]Comparison{}, comparisons...)) })
			}
		})
	}
}

// golden compares with testdata/name.golden, and the writer with itself.
func golden(t *testing.T, name string, writer func(io.Writer) error) {
	t.Helper()
	got, again := render(t, writer), render(t, writer)
	if got != again {
		t.Errorf("%s: two renderings differ", name)
	}
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -rewrite, then read the diff); got:\n%s", path, got)
	}
}

func render(t *testing.T, writer func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := writer(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// contract is the literal of the design, section 5.3, with its digests filled in.
const contract = `[{"trace": {"name": "", "digest": {"instance": "sha256:x", "trace": "sha256:x"}, "items": 222, "apps": 30, "dimensions": ["cpu","memory"], "fleet": "open"},
  "bound": {"machines": 15, "cost": 15, "machine_seconds": 0, "cost_seconds": 0, "method": "volume", "optimal": 15},
  "results": [{"policy": "bestfit", "digest": "", "knowledge": "K0", "exposure": "held out",
    "runs": [{"order": 1, "machines": 20, "peak_machines": 20, "cost": 20, "machine_seconds": 0, "cost_seconds": 0,
              "allocation_rate": {"cpu": 0.7083}, "mean_allocation_rate": {"cpu": 0.0}, "fragment": 0.0, "balance": 0.0, "spread": 0.0,
              "placed": 222, "unplaced": 0, "moves": 0, "away_seconds": 0, "rejected": {"cpu": 0.0}, "first_rejection": 1.0, "violations": 0, "seconds": 0}],
    "mean_machines": 20.1, "min_machines": 18, "max_machines": 23, "range_machines": 5, "gap_to_bound": 0.34,
    "saving": {"against": "", "percent": {"mean": 0, "low": 0, "high": 0}, "machines": {"mean": 0, "low": 0, "high": 0}, "machine_hours": null, "money_per_month": null, "currency": ""}}]}]`

func TestJSONKeys(t *testing.T) {
	want := keysOf(t, contract)
	one := small()
	one.Trace.Dimensions = []string{"cpu"} // the contract's maps show cpu alone
	for i := range one.Results {
		for j := range one.Results[i].Runs {
			run := &one.Results[i].Runs[j]
			for _, m := range []map[string]float64{run.AllocationRate, run.MeanAllocationRate, run.Rejected} {
				delete(m, "memory")
			}
		}
	}
	got := keysOf(t, render(t, func(w io.Writer) error { return sheet.JSON(w, []Comparison{one}) }))
	if !slices.Equal(got, want) {
		t.Errorf("keys\n%v, want\n%v", got, want)
	}
	// An empty run has all keys but optimal.
	bare := Build(Trace{Dimensions: []string{"cpu"}}, Bound{}, []PolicyRuns{{Runs: []cerebro.Run{{}}}})
	got = keysOf(t, render(t, func(w io.Writer) error { return sheet.JSON(w, []Comparison{bare}) }))
	want = slices.DeleteFunc(want, func(s string) bool {
		return s == ".bound.optimal" || strings.HasPrefix(s, ".results.saving.percent.") || strings.HasPrefix(s, ".results.saving.machines.")
	})
	if !slices.Equal(got, want) {
		t.Errorf("bare keys\n%v, want\n%v", got, want)
	}
}

// keysOf lists the paths of all keys, sorted, each once.
func keysOf(t *testing.T, text string) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	var keys []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, child := range v {
				keys = append(keys, path+"."+k)
				walk(path+"."+k, child)
			}
		case []any:
			for _, child := range v {
				walk(path, child)
			}
		}
	}
	walk("", v)
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestBuild(t *testing.T) {
	c := small()
	var order []string
	for _, r := range c.Results {
		order = append(order, r.Policy+" "+r.Knowledge)
	}
	want := []string{"learned K2", "learned K1", "bestfit K0", "firstfit K0", "worstfit K0"}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	// Best-Fit over orders 1…4: (18+20+23+20)/4 = 20.25; 20.25/15 − 1 = .35.
	b := c.Results[2]
	if b.MeanMachines != 20.25 || b.MinMachines != 18 || b.MaxMachines != 23 || b.RangeMachines != 5 || *b.GapToBound != 0.35 {
		t.Errorf("bestfit: %+v gap %v", b, *b.GapToBound)
	}
	// No shuffled orders: over order 0. With departures the gap is of cost-seconds.
	d := churn().Results[1]
	if d.MeanMachines != 12 || *d.GapToBound != 0.08 {
		t.Errorf("churn: mean %v gap %v", d.MeanMachines, *d.GapToBound)
	}
	for _, r := range fixed().Results {
		if r.GapToBound != nil {
			t.Errorf("%s: gap %v with unplaced items", r.Policy, *r.GapToBound)
		}
	}
	// An item unplaced in order 0 alone does not count with orders 1…N.
	one := packed(3, 3)
	one[0].Unplaced = 1
	r := Build(Trace{}, Bound{Cost: 3}, []PolicyRuns{{Runs: one}}).Results[0]
	if r.GapToBound == nil || *r.GapToBound != 0 {
		t.Errorf("gap %v, want 0", r.GapToBound)
	}
	empty := Build(Trace{}, Bound{}, []PolicyRuns{{Policy: "none"}}).Results[0]
	if empty.GapToBound != nil || empty.MeanMachines != 0 || empty.Runs == nil {
		t.Errorf("no runs: %+v", empty)
	}
}

// TestWaiting: what items that may wait make of the first line, and that no page names a
// bound.
func TestWaiting(t *testing.T) {
	left := waiters(2, 1)
	left.Results[0].Runs[1].Unplaced, left.Results[0].Runs[1].Rejected["cpu"] = 1, .2
	present := waiters(2, 1)
	present.Results[0].Policy = "current"
	present.Results[1].Policy = "firstfit"
	both := Build(present.Trace, Bound{}, []PolicyRuns{{Policy: "bestfit", Runs: []cerebro.Run{{Order: 1, MeanWaiting: 4}}}})
	present.Results = append(present.Results, both.Results...)
	for _, tt := range []struct {
		comparisons []Comparison
		want        string
	}{
		{[]Comparison{waiters(2, 1)}, "bestfit lets an item wait 3 s, learned 1.5 s: 50 % less."},
		{[]Comparison{waiters(0, 0)}, "bestfit lets an item wait 0 s, learned 0 s: no difference."},
		{[]Comparison{waiters(0, 1)}, "bestfit lets an item wait 0 s, learned 1.5 s: more."},
		{[]Comparison{waiters(2, 1), waiters(2, 2)}, "bestfit lets an item wait 3 s, learned 2.2 s: 25 % less (means over 2 traces)."},
		{[]Comparison{left}, "bestfit leaves out 10 % of the cpu, learned 0 %: 0.5 items fewer."},
		{[]Comparison{present}, "the present placement lets an item wait 3 s, bestfit 4 s, firstfit 1.5 s: firstfit lets an item wait 62 % less than bestfit."},
	} {
		require.Contains(t, Summary(tt.comparisons), tt.want)
		page := render(t, func(w io.Writer) error { return Page(tt.comparisons, nil, nil).HTML(w) })
		require.NotContains(t, page, "bound 0")
		require.NotContains(t, page, "above the bound")
		require.Contains(t, page, "wait s")
	}
	for _, r := range waiters(2, 1).Results {
		require.Nil(t, r.GapToBound)
	}
	require.Contains(t, render(t, func(w io.Writer) error { return sheet.JSON(w, []Comparison{waiters(2, 1)}) }),
		`"bound": {
      "machines": null,
      "cost": null,
      "machine_seconds": null,
      "cost_seconds": null,
      "method": null
    },`)
}

// TestNoBoundToCompareWith: where the bound is 0 there is no gap, and the first line says what
// policies cost, not that they do not differ. No figure is below the bound of all items.
func TestNoBoundToCompareWith(t *testing.T) {
	c := churn()
	free := c.Bound
	free.Cost, free.MachineSeconds, free.CostSeconds = 0, 0, 0
	runs := func(policy string, seconds float64, unplaced int) PolicyRuns {
		return PolicyRuns{Policy: policy, Knowledge: "K0", Runs: []cerebro.Run{{
			Machines: 1, PeakMachines: 1, MachineSeconds: seconds, CostSeconds: seconds, Placed: 9, Unplaced: unplaced, FirstRejection: 1,
		}}}
	}
	c = Build(c.Trace, free, []PolicyRuns{runs("bestfit", 20, 0), runs("worstfit", 30, 0)})
	require.Equal(t, "bestfit needs 20 cost-seconds, worstfit 30: 50 % more.", c.Summary())
	require.Equal(t, "bestfit -, worstfit - (means over 2 traces).", Summary([]Comparison{c, c}))

	c = Build(c.Trace, churn().Bound, []PolicyRuns{runs("bestfit", 20, 1), runs("worstfit", 2e7, 0)})
	text := render(t, func(w io.Writer) error { return Table(w, []Comparison{c}, Options{}) })
	require.Regexp(t, `(?m)^bestfit .* -( .*)?$`, text)
	require.NotContains(t, text, "0.000 ")
}

func TestJSONReadsBack(t *testing.T) {
	want := []Comparison{fixed()}
	var got []Comparison
	if err := json.Unmarshal([]byte(render(t, func(w io.Writer) error { return sheet.JSON(w, want) })), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got[0].Results[0].Runs[1].Rejected, want[0].Results[0].Runs[1].Rejected) || !reflect.DeepEqual(got[0].Bound, want[0].Bound) {
		t.Errorf("got %+v", got[0])
	}
}

func TestJSONRefusesNaN(t *testing.T) {
	c := small()
	c.Results[0].Runs[0].Fragment = math.NaN()
	if err := sheet.JSON(io.Discard, []Comparison{c}); err == nil {
		t.Error("a NaN was written")
	}
}

func TestViolations(t *testing.T) {
	c := small()
	if n := Violations([]Comparison{c}); n != 0 {
		t.Errorf("%d violations", n)
	}
	c.Results[1].Runs[0].Violations = 2 // also in the order that means leave out
	if n := Violations([]Comparison{fixed(), c}); n != 2 {
		t.Errorf("%d violations, want 2", n)
	}
	text := render(t, func(w io.Writer) error { return Table(w, []Comparison{c}, Options{}) })
	if !strings.Contains(text, "VIOLATIONS") {
		t.Error("the table hides violations")
	}
}

func TestNewForecast(t *testing.T) {
	// (10 + 4)/(8 + 5) and (2/8 + 1/5)/2; the third app expects nothing.
	f := NewForecast([]float64{10, 4, -1}, []int64{8, 5, 7})
	if math.Abs(f.Ratio-14.0/13) > 1e-12 || math.Abs(f.AppError-0.225) > 1e-12 {
		t.Errorf("%+v", f)
	}
	if NewForecast([]float64{-1, -1}, []int64{1, 2}) != nil {
		t.Error("a forecast without expectations")
	}
}

func ExampleTable() {
	trace := Trace{Name: "demo", Items: 4, Apps: 1, Dimensions: []string{"cpu"}, Fleet: "open", Machines: -1}
	run := func(machines int) []cerebro.Run {
		return []cerebro.Run{{Machines: machines, Cost: float64(machines), AllocationRate: []float64{2 / float64(machines)}}}
	}
	c := Build(trace, Bound{Machines: 2, Cost: 2, Method: "volume"}, []PolicyRuns{
		{Policy: "worstfit", Knowledge: "K0", Runs: run(4)},
		{Policy: "bestfit", Knowledge: "K0", Runs: run(2)},
	})
	if err := Table(os.Stdout, []Comparison{c}, Options{}); err != nil {
		panic(err)
	}
	// Output:
	// bestfit needs 2 machines, worstfit 4; 2 is the limit: 100 % more.
	//
	// trace demo  digests: instance -  trace -
	// items 4  apps 1  fleet open  machines unlimited  bound 2 (volume)  seed 0  orders 0
	// policy    knowledge  machines  min  max  range  gap %  vs bestfit %  vs worstfit %  at bound %  alloc cpu  unplaced
	// bestfit   K0                2    2    2      0      0             0            -50         100     1.0000         0
	// worstfit  K0                4    4    4      0    100          +100              0           0     0.5000         0
}
