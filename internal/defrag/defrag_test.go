package defrag

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// The figures of one item are in the singular.
func TestPrintOfOne(t *testing.T) {
	var out strings.Builder
	require.NoError(t, (&Result{Fixed: 1, Items: 1}).Print(&out))
	require.Contains(t, out.String(), "fixed     1 item must not move\n")
	require.Contains(t, out.String(), "% of 1 item; at least")
}

// Evictions of a workload count toward the most of its items that move.
func TestCap(t *testing.T) {
	inst := &binpack.Instance{Groups: []binpack.Group{{Name: "web"}, {Name: "db"}}, Apps: []binpack.App{{Group: 0}, {Group: 1}}}
	s := &Start{Trace: &trace.Trace{Instance: inst}}
	for range 12 {
		s.Items = append(s.Items, defrag.Item{App: 0}, defrag.Item{App: 1}, defrag.Item{App: 1, Line: -1})
	}
	s.Cap(func(items int) int { return items / 4 }, map[string]int{"web": 2})
	require.Equal(t, []int32{1, 3}, s.caps)
	s.Cap(func(items int) int { return items / 4 }, map[string]int{"web": 9})
	require.Equal(t, []int32{0, 3}, s.caps)
}
