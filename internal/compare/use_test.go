package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
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
	left := *tr
	left.Events = append(slices.Clone(tr.Events), trace.Event{Time: 900, Kind: trace.Delete, Request: 0, Count: 1})
	require.Equal(t, meanBound(t.Context(), &left, true, 1, 0, bound.Options{}), meanBound(t.Context(), &left, true, 1, 3, bound.Options{}), "each item lives when it did")
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

// By request and by use one cluster has two names, and is the same whatever the sizes and the unit of cpu.
func TestByRequestAndByUse(t *testing.T) {
	trace2 := func(change func(*trace.Trace)) (request, use *trace.Trace) {
		request, use = byUse("a", "b"), byUse("a", "b")
		request.Source = nil
		request.Instance.Apps[0].Demand[0] = 1000
		for _, one := range []*trace.Trace{request, use} {
			one.SetUsage(&trace.Usage{Series: []trace.Series{{Item: "a", Step: 300, Values: []float32{.1, .1}}, {Item: "b", Step: 300, Values: []float32{.1, .1}}}})
		}
		change(use)
		return request, use
	}
	for name, one := range map[string]struct {
		change func(*trace.Trace)
		beside bool
	}{
		"same":    {func(*trace.Trace) {}, true},
		"finer":   {func(t *trace.Trace) { t.Instance.Dimensions[0].One, t.Instance.Machines[0].Capacity[0] = 1e6, 8e6 }, true},
		"smaller": {func(t *trace.Trace) { t.Instance.Machines[0].Capacity[0] = 7000 }, false},
		"later":   {func(t *trace.Trace) { t.Events[1].Time = 1 }, false},
		"renamed": {func(t *trace.Trace) { t.Requests[1].Name = "c" }, false},
	} {
		request, use := trace2(one.change)
		require.Equal(t, one.beside, sameCluster(request, use), name)
	}
	request, use := trace2(func(*trace.Trace) {})
	request.Instance.MaxShareOfApp, use.Instance.MaxShareOfApp = .5, .5
	r, err := Run(t.Context(), []*trace.Trace{use, request}, []string{"bestfit"}, Catalog{}, Options{Workers: 1})
	require.NoError(t, err)
	require.True(t, r.Comparisons[0].Trace.Beside)
	notes := strings.Join(r.Notes, "\n")
	require.NotContains(t, notes, "mean of 2 traces")
	require.Contains(t, notes, "by-use: preferences under bestfit")
	require.Contains(t, notes, "by-use by use: preferences under bestfit")
	require.Equal(t, []string{"by-use by use", "by-use"}, []string{r.Comparisons[0].Trace.Name, r.Comparisons[1].Trace.Name})
	_, digest, err := use.Digests()
	require.NoError(t, err)
	require.Equal(t, digest, r.Comparisons[0].Trace.Digest.Trace)
	require.Equal(t, "by-use", use.Name)
	for _, one := range []*trace.Trace{use, request} { // orders by use shuffle each moment, others the whole
		one.Requests = append(one.Requests, trace.Request{Name: "c", Count: 1})
		one.Events = append(one.Events, trace.Event{Time: 300, Request: 2, Count: 1})
	}
	r, err = Run(t.Context(), []*trace.Trace{use, request}, []string{"bestfit"}, Catalog{}, Options{Workers: 1})
	require.NoError(t, err)
	require.True(t, r.Comparisons[0].Trace.Beside)
	r, err = Run(t.Context(), []*trace.Trace{use, request}, []string{"bestfit"}, Catalog{}, Options{Workers: 1, Orders: 2})
	require.NoError(t, err)
	require.False(t, r.Comparisons[0].Trace.Beside)
	r, err = Run(t.Context(), []*trace.Trace{use}, []string{"bestfit"}, Catalog{}, Options{Workers: 1})
	require.NoError(t, err)
	require.Equal(t, "by-use", r.Comparisons[0].Trace.Name)
	require.False(t, r.Comparisons[0].Trace.Beside)
}
