package ledger_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// With hard limits and rules by zone the ledger decides as Cerebro does, and they bind: without
// them items go elsewhere.
func TestHardZonesLikeCerebro(t *testing.T) {
	for _, fleet := range []string{"fixed", "open"} {
		t.Run(fleet, func(t *testing.T) {
			tr := countingPods(byPods(t, "kubernetes", 61, map[string]string{"nodes": "20", "days": ".2", "fleet": fleet, "hard": ".6", "zones": "3"}))
			slices.SortFunc(tr.Instance.Machines, func(a, b binpack.MachineLine) int { return cmp.Compare(a.Name, b.Name) }) // as the ledger orders nodes
			rng := rand.New(rand.NewPCG(61, 1))
			groups := tr.Instance.Groups
			for range len(groups) / 2 {
				g := &groups[rng.IntN(len(groups))]
				g.Zone = g.Zone.And(binpack.ZoneLimits{Limit: int32(2 + rng.IntN(20)), SpreadMin: int32(rng.IntN(3))})
				if a, b := int32(rng.IntN(len(groups))), int32(rng.IntN(len(groups))); a != b {
					tr.Instance.ZoneRules = append(tr.Instance.ZoneRules, binpack.Rule{A: a, B: b, Max: int32(rng.IntN(3))})
				}
			}
			object := shipped(t, "kubernetes-k0")
			asked, agreed := beside(t, tr, object)
			require.Greater(t, asked, 200)
			require.Equal(t, asked, agreed)
			with := whereItemsGo(t, tr, object) // the slow checker looks on
			tr.Instance.ZoneRules = nil
			for i := range groups {
				groups[i].Zone = binpack.ZoneLimits{}
			}
			require.NotEqual(t, with, whereItemsGo(t, tr, object))
		})
	}
}

// A node without a zone takes no pod that a limit by zone binds; where its label changes, its pods
// count in the other zone from then on.
func TestZoneLabelsThatAreMissingOrChange(t *testing.T) {
	l := ledger.New()
	node := func(name, zone string) *ledger.Event {
		return &ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 8, "pods": 10}, Labels: zoneLabels(zone)}}
	}
	app := func(name string, spec ledger.App) *ledger.Event {
		spec.Group, spec.Demand = name, map[string]int64{"cpu": 1, "pods": 1}
		return &ledger.Event{Kind: ledger.KindApp, App: name, Spec: &spec}
	}
	apply(t, l, &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}},
		node("a", "x"), node("b", "y"), node("c", ""),
		app("one", ledger.App{MaxPerZone: 1}), app("apart", ledger.App{}), app("even", ledger.App{ZoneSkew: 1}),
		&ledger.Event{Kind: ledger.KindPlace, Pod: "ns/one-1", UID: "1", App: "one", Node: "a"},
		&ledger.Event{Kind: ledger.KindPlace, Pod: "ns/even-1", UID: "2", App: "even", Node: "b"})
	fits := func(app string) (nodes []string) {
		for _, m := range l.Fits(l.AppIndex(app), nil) {
			nodes = append(nodes, l.NodeName(m))
		}
		return nodes
	}
	require.Equal(t, []string{"b"}, fits("one"))
	require.Equal(t, []string{"a"}, fits("even"))
	require.Equal(t, []string{"a", "b", "c"}, fits("apart"))
	apply(t, l, &ledger.Event{Kind: ledger.KindRule, Rules: []ledger.Rule{{App: "apart", Other: "one", Scope: ledger.ZoneScope}}})
	require.Equal(t, []string{"b", "c"}, fits("apart"), "a node without a zone shares none")

	apply(t, l, node("a", "y"), node("c", "x"))
	require.Equal(t, []string{"c"}, fits("one"))
	require.Equal(t, []string{"c"}, fits("even"))
	require.Equal(t, []string{"c"}, fits("apart"))
	apply(t, l, &ledger.Event{Kind: ledger.KindReserve, Node: "c", App: "one", Reserved: &ledger.Reserved{Pods: 1, Until: 9e9, By: "test"}})
	require.Empty(t, fits("apart"), "room is reserved for what it excludes")
	require.Equal(t, []string{"c"}, fits("one"), "its own reservation")

	bad := app("one", ledger.App{ZoneSkew: -1})
	require.ErrorContains(t, l.Apply(bad), "spec.zoneSkew -1: want 0 or more")
	require.ErrorContains(t, l.Apply(&ledger.Event{Kind: ledger.KindRule, Rules: []ledger.Rule{{App: "a", Other: "b", Scope: "region"}}}), `rules[0].scope "region"`)
}
