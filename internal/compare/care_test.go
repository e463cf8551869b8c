package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Two items that prefer different machines, of which one would hold both: keeping them apart
// doubles the cost, and halves what a machine's or a zone's failure takes.
func TestCareCosts(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{""}, Groups: []binpack.Group{{Name: "web"}},
		Machines: []binpack.MachineLine{
			{Name: "m", Count: 1, Cost: 1, Capacity: []int64{4}, Zone: "x"}, {Name: "n", Count: 1, Cost: 1, Capacity: []int64{4}, Zone: "y"},
		},
		Apps: []binpack.App{{
			Name: "web", Demand: []int64{1}, Expected: 2, Lifetime: -1, Soft: []binpack.SoftTerm{{Kind: binpack.Apart, Weight: 100}},
		}},
	}
	tr := &trace.Trace{
		Name: "two", Instance: inst, Requests: []trace.Request{{Name: "r", Count: 2}},
		Events: []trace.Event{{Kind: trace.Create, Count: 2}},
	}
	results, all := compareCity(t, tr, Options{}, "bestfit")
	care := results["bestfit"].Care
	require.NotNil(t, care)
	require.Equal(t, "keep", care.Mode)
	require.InDelta(t, 1, *care.Extra, 0)
	require.InDelta(t, 1, care.Ignored.Cost, 0)
	require.Equal(t, []report.AppRisk{{App: "web", Items: 2, Machine: 1, Zone: 1, IgnoredItems: 2, IgnoredMachine: 2, IgnoredZone: 2}}, care.Apps)
	require.Contains(t, all.Notes, "two: preferences under bestfit: mode keep, at most 1 of an app on a machine: +100.00 % cost against ignoring both; "+
		"one machine takes 50 % of an app in the mean, 50 % at most (ignored: 100 %, 100 %); one zone takes 50 % of an app in the mean, 50 % at most (ignored: 100 %, 100 %)")

	inst.Apps[0].Soft, inst.MaxShareOfApp = nil, .5 // ⌈.5·2⌉ = 1 on a machine
	results, _ = compareCity(t, tr, Options{}, "bestfit")
	require.InDelta(t, 1, *results["bestfit"].Care.Extra, 0)
	require.InDelta(t, .5, results["bestfit"].Care.Share, 0)

	inst.MaxShareOfApp = 0
	results, _ = compareCity(t, tr, Options{}, "bestfit")
	require.Nil(t, results["bestfit"].Care, "nothing is preferred")
}
