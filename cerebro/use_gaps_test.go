package cerebro_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// threeItems is a trace of an open fleet of machines of 10 cores with three items of one time, of 4, 4 and 2 cores.
func threeItems(values ...[]float32) (*trace.Trace, *trace.Usage) {
	t := &trace.Trace{
		Name: "three", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}}, Types: []string{"n"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{{Name: "n", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{10_000}}},
		},
	}
	u := &trace.Usage{}
	for i, demand := range []int64{4000, 4000, 2000} {
		name := fmt.Sprint("app-", i)
		t.Instance.Groups = append(t.Instance.Groups, binpack.Group{Name: name})
		t.Instance.Apps = append(t.Instance.Apps, binpack.App{Name: name, Group: int32(i), Demand: []int64{demand}, Expected: -1, Lifetime: -1})
		t.Requests = append(t.Requests, trace.Request{Name: name, App: int32(i), Count: 1})
		t.Events = append(t.Events, trace.Event{Kind: trace.Create, Request: int32(i), Count: 1})
		u.Series = append(u.Series, trace.Series{App: int32(i), Step: 300, Values: values[i]})
	}
	return t, u
}

// The items without a sample count as those with one beside them: used = sampled × (known + lacks) ÷ known.
func TestUseOfItemsWithoutASample(t *testing.T) {
	none := float32(math.NaN())
	for _, test := range []struct {
		name                string
		values              [3]float32
		judged, over, worst float64
	}{
		{"all have one", [3]float32{3, 3, 1}, 300, 0, .7},
		{"4 + 2 of 10 cores are known and use 3: 3 × 10 ÷ 6 = 5", [3]float32{2, none, 1}, 300, 0, .5},
		{"4 + 2 of 10 cores are known and use 6.6: 11", [3]float32{4.4, none, 2.2}, 300, 300, 1.1},
		{"4 of 10 are known", [3]float32{4, none, none}, 0, 0, 0},
		{"4 of 10 are known and above capacity alone", [3]float32{10.5, none, none}, 300, 300, 1.05},
		{"none", [3]float32{none, none, none}, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			one := func(i int) []float32 { return []float32{test.values[i], 0} } // the second step is 0 or unknown for all
			tr, u := threeItems(one(0), one(1), one(2))
			run, err := cerebro.NewReplayer(tr).Run(rule.FirstFit{}, cerebro.Options{Usage: u, UsageUntil: 300})
			if test.name == "none" {
				require.ErrorContains(t, err, "ends before")
				return
			}
			require.NoError(t, err)
			require.Equal(t, 300., run.Use.NodeSeconds)
			d := run.Use.Dimensions[0]
			assert.Equal(t, []float64{test.judged, test.over}, []float64{d.Judged, d.Over})
			assert.InDelta(t, test.worst, d.Worst, 1e-6)
		})
	}
}

// An item outside the span of its series has no sample, as one within a gap.
func TestUseOutsideOfASeries(t *testing.T) {
	tr, u := threeItems([]float32{3, 3, 3, 3}, []float32{3}, []float32{1, 1})
	u.Series[2].Start = 600
	run, err := cerebro.NewReplayer(tr).Run(rule.FirstFit{}, cerebro.Options{Usage: u})
	require.NoError(t, err)
	require.Equal(t, 1200., run.Use.NodeSeconds)
	d := run.Use.Dimensions[0]
	// The first step has 8 of 10 known and 7.5 in use; the second 4; the others 6, of which 4 are in use: 6.67.
	assert.Equal(t, 900., d.Judged)
	assert.Equal(t, (4+1+2)*300., d.Covered)
	assert.InDelta(t, .75, d.Worst, 1e-6)
}
