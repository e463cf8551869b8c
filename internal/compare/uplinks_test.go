package compare

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Counting egress keeps every uplink within its capacity; what does not count it fills some beyond.
func TestUplinks(t *testing.T) {
	var traces []*trace.Trace
	for seed := range uint64(3) {
		tr, err := generate.Generate("kubernetes", seed, map[string]string{"egress": ".5", "nodes": "30", "days": ".5", "partners": ".5"})
		require.NoError(t, err)
		traces = append(traces, tr)
	}
	var first []report.Comparison
	for workers := range 2 {
		result, err := Run(t.Context(), traces, []string{"bestfit", "firstfit"}, Catalog{}, Options{Orders: 1, Seed: 1, Workers: 1 + 2*workers})
		require.NoError(t, err)
		if workers == 0 {
			first = result.Comparisons
		}
		require.Equal(t, first, result.Comparisons)
		require.Contains(t, result.Notes[len(result.Notes)-1], "3 traces: uplinks under firstfit when most is sent: 0 of ")
	}
	over := 0.
	for _, c := range first {
		for _, r := range c.Results {
			require.NotNil(t, r.Uplinks)
			require.LessOrEqual(t, r.Uplinks.Counted.Most, EgressShare)
			require.Zero(t, r.Uplinks.Counted.Over)
			over += r.Uplinks.Ignored.Over
		}
	}
	require.Positive(t, over)

	plain, err := generate.Generate("kubernetes", 1, map[string]string{"nodes": "30", "days": ".1"})
	require.NoError(t, err)
	result, err := Run(t.Context(), []*trace.Trace{plain}, []string{"bestfit"}, Catalog{}, Options{Orders: 1, Seed: 1, Workers: 1})
	require.NoError(t, err)
	require.Nil(t, result.Comparisons[0].Results[0].Uplinks)
}

// Loads are those of the moment at which most is sent, not of the end, when all have left.
func TestUplinksWhenMostIsSent(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}, {Name: Egress, One: 1}}, Types: []string{""}, Fleet: binpack.Open,
		Groups:   []binpack.Group{{Name: "web"}},
		Machines: []binpack.MachineLine{{Name: "m", Count: 9, Cost: 1, Capacity: []int64{9, 800}}},
		Apps:     []binpack.App{{Name: "web", Demand: []int64{1, 300}, Expected: -1, Lifetime: -1}},
	}
	tr := &trace.Trace{Name: "leaves", Instance: inst, MeasureFrom: math.NaN(), Requests: []trace.Request{{Name: "a", Count: 4}}}
	tr.Events = []trace.Event{{Kind: trace.Create, Count: 4}, {Time: 10, Kind: trace.Delete, Count: 4}}
	result, err := Run(t.Context(), []*trace.Trace{tr}, []string{"bestfit"}, Catalog{}, Options{Seed: 1, Workers: 1})
	require.NoError(t, err)
	u := result.Comparisons[0].Results[0].Uplinks
	require.Equal(t, report.UplinkLoad{Machines: 2, Most: .6}, u.Counted)
	require.Equal(t, report.UplinkLoad{Machines: 1, Over: 1, Most: 1.2}, u.Ignored)
}
