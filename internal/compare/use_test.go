package compare

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// byUse is a trace with so many items of an app, by use of cpu and by request of memory.
func byUse(names ...string) *trace.Trace {
	t := &trace.Trace{
		Name: "by-use", MeasureFrom: math.NaN(),
		Source: map[string]any{"sizes": map[string]any{"at": 0, "unknown": 1, "gone": .0123, "beyond": .0004, "requests": map[string]any{"web": []any{"1000m", "4"}}}},
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}}, Types: []string{"n"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{{Name: "n", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{8000, 64}}},
			Groups:   []binpack.Group{{Name: "web"}},
			Apps:     []binpack.App{{Name: "web", Demand: []int64{300, 4}, Expected: -1, Lifetime: -1}},
		},
	}
	for i, name := range names {
		t.Requests = append(t.Requests, trace.Request{Name: name, Count: 1})
		t.Events = append(t.Events, trace.Event{Kind: trace.Create, Request: int32(i), Count: 1})
	}
	return t
}

// A number of machines by use of a resource has its risk of that resource, or is refused.
func TestKnownRiskOfEachResource(t *testing.T) {
	tr := byUse("a")
	cpuAlone := &report.Use{NotJudged: []string{"memory"}}
	require.NoError(t, KnownRisk(tr, cpuAlone), "memory counts by request")
	tr.Instance.Apps[0].Demand[1] = 3
	require.ErrorContains(t, KnownRisk(tr, cpuAlone), "usage.csv.gz has no series of memory")
	require.ErrorContains(t, KnownRisk(tr, &report.Use{NotJudged: []string{"memory"}, NotKnown: "few"}), "not known: few")
	require.NoError(t, KnownRisk(tr, &report.Use{}))
}

// Orders of a trace by use shuffle the items of each moment; where no moment has two there are none.
func TestOrdersByUse(t *testing.T) {
	tr := byUse("a", "b", "c")
	tr.Events[2].Time = 600
	series := []trace.Series{}
	for _, q := range tr.Requests {
		series = append(series, trace.Series{Item: q.Name, Step: 300, Values: []float32{.1, .1, .1, .1}})
	}
	tr.SetUsage(&trace.Usage{Series: series})
	r, err := Run(t.Context(), []*trace.Trace{tr}, []string{"bestfit"}, Catalog{}, Options{Orders: 3, Seed: 1})
	require.NoError(t, err)
	for _, run := range r.Comparisons[0].Results[0].Runs {
		require.NotNil(t, run.Use, "order %d", run.Order)
	}
	tr.Events[1].Time = 300
	_, err = Run(t.Context(), []*trace.Trace{tr}, []string{"bestfit"}, Catalog{}, Options{Orders: 3, Seed: 1})
	require.ErrorContains(t, err, "no two arrive at one time")
}

// The risk of a placement has the shares of use that the trace leaves out.
func TestRiskHasUnseenUse(t *testing.T) {
	tr := byUse("a")
	tr.SetUsage(&trace.Usage{Series: []trace.Series{{Item: "a", Step: 300, Values: []float32{.1, .1}}}})
	u, err := UseOfPlacement(tr, []Standing{{}})
	require.NoError(t, err)
	require.Equal(t, "100.0 % of the cpu in use was of pods whose workload is not known; 1.2 % of the cpu in use was of workloads without a pod now", u.Unseen)
	require.Contains(t, u.Text(), "; memory not judged: the usage has no series of it; 100.0 % of the cpu")
}

// Added items have the series of others in turn, first of those that are gone, but none of a pod that soon ended.
func TestLendIsOfLongSeries(t *testing.T) {
	from := byUse("short", "gone", "kept")
	u := &trace.Usage{}
	for i, n := range []int{2, 10, 12} {
		values := make([]float32, n)
		for k := range values {
			values[k] = float32(i + 1)
		}
		u.Series = append(u.Series, trace.Series{Item: from.Requests[i].Name, Step: 300, Values: values})
	}
	from.SetUsage(u)
	to := byUse("kept", "new-1", "new-2", "new-3")
	require.NoError(t, Lend(to, from))
	lent, err := to.Usage()
	require.NoError(t, err)
	var got []string
	for _, s := range lent.Series {
		got = append(got, fmt.Sprint(s.Item, " ", s.Values[0], " ", len(s.Values)))
	}
	require.Equal(t, []string{"kept/0 3 12", "new-1/0 2 10", "new-2/0 3 12", "new-3/0 2 10"}, got)
}
