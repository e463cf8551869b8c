package compare

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// stuck is four nodes of two prices with an item on each, which two nodes could hold, and a waiting item that is larger than
// any node.
func stuck() *trace.Trace {
	t := &trace.Trace{Name: "stuck", MeasureFrom: math.NaN(), Initial: 4, Source: map[string]any{"currency": "USD"}, Instance: &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}},
		Types:      []string{"m"},
		Fleet:      binpack.Fixed,
		Machines:   []binpack.MachineLine{{Name: "a", Count: 3, Cost: 1, Capacity: []int64{4}}, {Name: "b", Count: 1, Cost: 2, Capacity: []int64{4}}},
		Groups:     []binpack.Group{{Name: "web"}, {Name: "huge"}},
		Apps: []binpack.App{
			{Name: "web", Demand: []int64{2}, Expected: -1, Lifetime: -1},
			{Name: "huge", Group: 1, Demand: []int64{5}, Expected: -1, Lifetime: -1},
		},
	}}
	for i := range int32(4) {
		t.Requests = append(t.Requests, trace.Request{Name: string('a' + i), App: 0, Count: 1})
		t.Placed = append(t.Placed, trace.Placed{Request: i, Line: i / 3, Index: i % 3, Count: 1})
	}
	t.Requests = append(t.Requests, trace.Request{Name: "huge-0", App: 1, Count: 1})
	t.Events = []trace.Event{{Time: 0, Request: 4, Count: 1}}
	return t
}

func compared(t *testing.T, tr *trace.Trace, opt Options, policies ...string) report.Comparison {
	t.Helper()
	opt.Repack, opt.Seed, opt.Workers, opt.Bound = true, 1, 1, bound.Options{Work: 1e6}
	result, err := Run(t.Context(), []*trace.Trace{tr}, policies, Catalog{}, opt)
	require.NoError(t, err)
	require.Zero(t, result.Violations)
	return result.Comparisons[0]
}

// An item that no policy places does not hide the saving.
func TestNoPlaceLeavesTheComparison(t *testing.T) {
	c := compared(t, stuck(), Options{Orders: 2}, Current, "bestfit", "worstfit")
	require.Equal(t, []report.AppItems{{App: "huge", Items: 1}}, c.Trace.NoPlace.Items)
	require.Equal(t, 2., c.Trace.NoPlace.Bound.Cost, "two of a")
	require.Equal(t, "the present placement costs 5, bestfit 2, worstfit 2; 2 is the limit: no difference from bestfit, "+
		"without 1 item that no policy places (huge).", c.Summary())
	for _, r := range c.Results {
		require.Nil(t, r.GapToBound, "the bound in JSON counts all items")
		if r.Policy == "bestfit" {
			require.Equal(t, report.Interval{Mean: 3 * 730, Low: 3 * 730, High: 3 * 730}, *r.SavingFromCurrent.Money)
		}
	}
	var table bytes.Buffer
	require.NoError(t, report.Table(&table, []report.Comparison{c}, report.Options{}))
	require.Contains(t, table.String(), "bound 2 (")
}

// An item that one policy places counts as left out by the others; the present placement may leave out more.
func TestNoPlaceOfSome(t *testing.T) {
	one := stuck()
	one.Instance.Apps[1].Demand[0], one.Instance.Machines[1].Capacity[0] = 5, 5
	c := compared(t, one, Options{}, Current, "bestfit", "leastallocated") // which opens the large one first
	require.Nil(t, c.Trace.NoPlace)
	require.Contains(t, c.Summary(), "leaves out")

	waits := stuck()
	waits.Requests = append(waits.Requests, trace.Request{Name: "web-4", App: 0, Count: 1})
	waits.Events = append(waits.Events, trace.Event{Time: 0, Request: 5, Count: 1})
	c = compared(t, waits, Options{Orders: 2}, Current, "bestfit")
	require.Equal(t, []report.AppItems{{App: "huge", Items: 1}}, c.Trace.NoPlace.Items)
	require.Contains(t, c.Summary(), "the present placement, in which 1 item waits, costs 5, bestfit 3")
	c = compared(t, stuck(), Options{}, "bestfit")
	require.Nil(t, c.Trace.NoPlace, "one policy says nothing of others")
}

// Of items that leave, an app leaves the comparison as a whole.
func TestNoPlaceOverTime(t *testing.T) {
	day := stuck()
	day.Events = append(day.Events, trace.Event{Time: 3600, Kind: trace.Delete, Request: 0, Count: 1})
	c := compared(t, day, Options{}, Current, "bestfit", "worstfit")
	require.Equal(t, 1, c.Trace.NoPlace.Items[0].Items)
	require.Contains(t, c.Summary(), "of the bound")
	require.NotContains(t, c.Summary(), "leaves out")
}
