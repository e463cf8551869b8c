package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// A report says how many items it places without all of their constraints, and no machine is drained of items that must
// not move.
func TestIgnoredItems(t *testing.T) {
	tr := city()
	tr.Source["ignored"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	tr.Source["fixed"] = map[string]any{}
	for _, q := range tr.Requests[:tr.Initial] {
		tr.Source["fixed"].(map[string]any)[q.Name] = "its volumes"
	}
	_, result := compareCity(t, tr, Options{Repack: true}, "firstfit", Current)
	require.Equal(t, 1, result.Comparisons[0].Trace.Ignored)
	notes := strings.Join(result.Notes, "\n")
	require.Contains(t, notes, "no machine could be drained")
	require.Contains(t, notes, "city: 5 items must not move")
}

// "Proven" is not said alone of a plan that leaves out constraints.
func TestPlanOfIgnoredItems(t *testing.T) {
	tr := city()
	tr.Source["ignored"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	p, err := NewPlan(t.Context(), tr.FromEmpty(), plan.Options{})
	require.NoError(t, err)
	p.Proven = true
	r := p.Report(report.Trace{})
	require.Positive(t, r.Trace.Ignored)
	require.Contains(t, report.Qualified(r.Plan.result(), r.Trace.Ignored, 0), "proven optimal without the constraints of ")
	require.Equal(t, "proven optimal", report.Qualified(r.Plan.result(), 0, 0))
}

// Each result of a plan has the number of items without all of their constraints, and of those that must not move and are
// placed again.
func TestCaveatsOfPlans(t *testing.T) {
	tr := city()
	tr.Source["ignored"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	tr.Source["fixed"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	p, err := NewPlan(t.Context(), tr.FromEmpty(), plan.Options{})
	require.NoError(t, err)
	ignored := plural.Of(p.Ignored(), "item")
	for _, c := range []struct {
		proven, leftOut bool
		want            string
	}{
		{true, false, "proven optimal without the constraints of " + ignored + ", with 1 item placed again that must not move"},
		{false, false, "not proven, without the constraints of " + ignored + ", with 1 item placed again that must not move"},
		{false, true, "incomplete, without the constraints of " + ignored + ", with 1 item placed again that must not move"},
	} {
		r := p.Report(report.Trace{Name: "city"})
		r.Plan.Proven, r.Plan.Unplaced = c.proven, 0
		if c.leftOut {
			r.Plan.Unplaced = 1
		}
		var out strings.Builder
		require.NoError(t, Plans{r}.Print(&out, false))
		require.Contains(t, out.String(), "  "+c.want+"\n")
	}
	p, err = NewPlan(t.Context(), tr, plan.Options{})
	require.NoError(t, err)
	require.Zero(t, p.Again(), "it stays")
}

// The headline of a comparison has the same numbers.
func TestCaveatsOfComparisons(t *testing.T) {
	tr := city()
	tr.Source["ignored"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	tr.Source["fixed"] = map[string]any{tr.Requests[0].Name: "its volumes", tr.Requests[1].Name: "its volumes"}
	_, result := compareCity(t, tr, Options{Repack: true}, "firstfit", Current)
	require.Regexp(t, `, without the constraints of 1 item, with 2 items placed again that must not move\.`, report.Summary(result.Comparisons))
	require.Regexp(t, `, without the constraints of 1 item, with 2 items placed again that must not move\.`, result.Comparisons[0].Summary())
	_, result = compareCity(t, tr, Options{}, "firstfit", Current)
	require.NotContains(t, report.Summary(result.Comparisons), "placed again")
}

// Of one thing, notes and headlines are in the singular.
func TestNotesOfOne(t *testing.T) {
	tr := city()
	tr.Source["ignored"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	tr.Source["fixed"] = map[string]any{tr.Requests[1].Name: "its volumes"}
	_, result := compareCity(t, tr, Options{Repack: true}, "firstfit", Current)
	require.Contains(t, strings.Join(result.Notes, "\n"), "city: 1 item must not move, as trace.yaml says; this comparison places it again")
	var out strings.Builder
	require.NoError(t, report.Table(&out, result.Comparisons, report.Options{}))
	require.Contains(t, out.String(), "\ncity: no figure counts all constraints of 1 item\n")
}

// Items that lead placed.csv and of which the trace lacks constraints stay under every policy, and no figure is without
// their constraints.
func TestKeptItems(t *testing.T) {
	tr := city()
	names := map[string]any{tr.Requests[0].Name: "its volumes", tr.Requests[1].Name: "its pod affinity"}
	tr.Source["ignored"], tr.Source["fixed"] = names, names
	rows, result := compareCity(t, tr, Options{Repack: true, Orders: 3}, "firstfit", "bestfit", Current)
	require.Zero(t, result.Violations)
	require.Zero(t, result.Comparisons[0].Trace.Ignored)
	require.Zero(t, result.Comparisons[0].Trace.Again)
	require.Equal(t, 4, rows[Current].Runs[1].Machines)
	for _, run := range rows["firstfit"].Runs {
		require.Equal(t, 3, run.Machines, "n1 and n2 hold the items that stay, and three of db want machines of their own")
	}
	notes := strings.Join(result.Notes, "\n")
	require.Contains(t, notes, "city: 2 items keep their machines under every policy, since the trace lacks constraints of them")
	require.Contains(t, notes, "current leaves the 3 items of placed.csv where they are")
	require.NotContains(t, notes, "must not move")
}
