package ledger_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// selector has some nodes list a selector, closed or not.
func (s *scene) selector() {
	of := &ledger.Selection{ID: oneOf(s.d, "", "a", "b"), Closed: s.d.IntN(2) == 0}
	for _, name := range slices.Sorted(maps.Keys(s.w.nodes)) {
		if s.d.IntN(2) == 0 {
			of.Nodes = append(of.Nodes, name)
		}
	}
	s.do(&ledger.Event{Kind: ledger.KindSelector, Select: of})
}

// An event that names no node or an unknown one is refused, and changes nothing.
func TestSelectorRefused(t *testing.T) {
	l := ledger.New()
	require.NoError(t, l.Apply(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open"}}))
	require.NoError(t, l.Apply(&ledger.Event{Kind: ledger.KindNode, Node: "a", Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 1}}}))
	require.ErrorContains(t, l.Apply(&ledger.Event{Kind: ledger.KindSelector}), "select is missing")
	for _, nodes := range [][]string{{"b"}, {"a", "a"}, {"a", "b"}} {
		require.ErrorContains(t, l.Apply(&ledger.Event{Kind: ledger.KindSelector, Select: &ledger.Selection{ID: "s", Closed: true, Nodes: nodes}}), "select.nodes[")
		require.False(t, l.Closed("s"))
		require.True(t, l.Admits(l.Node("a"), "s"))
	}
}
