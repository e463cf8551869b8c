package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/cerebro/report"
)

// A report says how many items it places without all of their constraints, and no machine is drained of items that must
// not move.
func TestIgnoredItems(t *testing.T) {
	tr := city()
	tr.Source["ignored"] = map[string]any{tr.Requests[0].Name: "its volumes"}
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
	tr.Source["ignored"] = map[string]any{tr.Requests[0].Name: "its volumes"}
	p, err := NewPlan(t.Context(), tr.FromEmpty(), plan.Options{})
	require.NoError(t, err)
	p.Proven = true
	r := p.Report(report.Trace{})
	require.Positive(t, r.Trace.Ignored)
	require.Contains(t, r.Plan.result(r.Trace.Ignored), "proven optimal without the constraints of ")
	require.Equal(t, "proven optimal", r.Plan.result(0))
}
