package whatif

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Items of an app with constraints that the trace does not have are counted beside the answer.
func TestIgnored(t *testing.T) {
	tr := shop()
	tr.Source = map[string]any{"ignored": map[string]any{tr.Requests[0].Name: "its volumes"}}
	app := tr.Instance.Apps[tr.Requests[0].App].Name
	a := ask(t, tr, Question{Apps: []string{app + "=+1"}})
	require.Equal(t, 4, a.Now.Ignored)
	require.Equal(t, 5, a.Then.Ignored)
	a.Then.Proven, a.Then.LeftOut = true, 0
	require.Equal(t, "proven optimal without the constraints of 5 items", report.Qualified(a.Then.result(), a.Then.Ignored, 0))
}

// standing is the shop with all items on machines; the constraints of web-1 do not count, and db-1 must not move.
func standing() *trace.Trace {
	tr := shop()
	tr.Initial, tr.Events = 2, nil
	tr.Placed = []trace.Placed{{Request: 0, Line: 0, Index: 0, Count: 2}, {Request: 0, Line: 1, Count: 2}, {Request: 1, Line: 0, Index: 1, Count: 1}}
	tr.Source = map[string]any{
		"ignored": map[string]any{"web-1": "its volumes"},
		"fixed":   map[string]any{"db-1": "its volumes"},
	}
	return tr
}

func printed(t *testing.T, tr *trace.Trace, q Question, o Options) string {
	t.Helper()
	a, err := Ask(t.Context(), tr, &q, o)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, a.Print(&out))
	return out.String()
}

// Each result has the number of items without all of their constraints, and of those that must not move and are placed
// again; the line on losses has that of all losses.
func TestCaveats(t *testing.T) {
	text := printed(t, standing(), Question{Lose: 1}, options)
	require.Contains(t, text, "2 of 3 nodes can fail alone and all items find a place, without the constraints of 4 items, with 1 item placed again that must not move.")
	require.Regexp(t, "(?m)^lose 1 .* does not fit, proven, without the constraints of 2 items$", text)
	require.Regexp(t, "(?m)^now .*  (proven optimal|not proven)$", text)

	text = printed(t, standing(), Question{Nodes: []string{"small=-1"}}, options)
	require.Regexp(t, "(?m)^nodes small=-1 .*, with 1 item placed again that must not move$", text)

	text = printed(t, standing(), Question{Apps: []string{"web=+6"}}, options)
	require.Regexp(t, "(?m)^app web=\\+6 .* does not fit, proven, without the constraints of 6 items$", text)

	text = printed(t, standing(), Question{Apps: []string{"db=-1"}}, options)
	require.NotContains(t, text, "again", "it is gone, not moved")

	repack := options
	repack.Repack = true
	text = printed(t, standing(), Question{Lose: 1}, repack)
	require.Regexp(t, "(?m)^now .*  (proven optimal|not proven), with 1 item placed again that must not move$", text, "those of web stay")
	require.Regexp(t, "(?m)^lose 1 .*, with 1 item placed again that must not move$", text)
	require.Contains(t, text, "all items find a place, without the constraints of 4 items, with 1 item placed again that must not move.")
}

// With one machine, no loss is tried, and the answer has the reason.
func TestLossOfOnlyMachine(t *testing.T) {
	tr := standing()
	tr.Instance.Machines[0].Count = 1
	tr.Placed = tr.Placed[:1]
	tr.Instance.Machines = tr.Instance.Machines[:1]
	tr.Requests = tr.Requests[:1]
	tr.Initial = 1
	require.Contains(t, printed(t, tr, Question{Lose: 1}, options), "\nloss: not tried: s is the only node, and without it no item has a place.\n")
}
