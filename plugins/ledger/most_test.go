package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// fleet is a fixed one of four nodes, the last one cordoned, with the installed policy.
func fleet(t *testing.T, know binpack.Knowledge) *ledger.Ledger {
	l := ledger.New()
	apply(t, l, &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed", Units: map[string]string{"cpu": "m"}}})
	for _, name := range []string{"a", "b", "c", "d"} {
		m := &ledger.Machine{Cordoned: name == "d", Cost: 1, Capacity: map[string]int64{"cpu": 10000, "memory": 100, "pods": 100}}
		apply(t, l, &ledger.Event{Kind: ledger.KindNode, Node: name, Machine: m})
	}
	apply(t, l,
		&ledger.Event{Kind: ledger.KindApp, App: "web", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 1000, "memory": 1, "pods": 1}}},
		&ledger.Event{Kind: ledger.KindForecast, Expected: map[string]float64{"web": 1}},
		&ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: policy.ShippedAt(know)})
	return l
}

// sameEverywhere: a ledger that followed, one that is built again and one that reads a description choose the same file.
func sameEverywhere(t *testing.T, l *ledger.Ledger) (file string) {
	t.Helper()
	chosen := func(l *ledger.Ledger) string {
		if e := l.FileChoice(ledger.Primary); e != nil {
			return e.Chosen.Name
		}
		return l.ChosenFile(ledger.Primary)
	}
	file = chosen(l)
	most := l.Columns().Most()
	other := ledger.New()
	apply(t, other, l.Describe(byUID)...)
	require.Equal(t, file, chosen(other))
	require.Equal(t, most, other.Columns().Most())
	l.Forget()
	require.Equal(t, file, chosen(l))
	require.Equal(t, most, l.Columns().Most())
	return file
}

// TestMost: pods on cordoned nodes and reservations count for the load of a fleet in one way.
func TestMost(t *testing.T) {
	const elastic, tight = "kubernetes-k0.yaml", "kubernetes-k0-fixed.yaml"
	place := func(l *ledger.Ledger, name, node string, n int) {
		for i := range n {
			apply(t, l, &ledger.Event{Kind: ledger.KindPlace, UID: fmt.Sprint(name, i), App: "web", Node: node})
		}
	}
	cordoned := fleet(t, binpack.K1)
	place(cordoned, "p", "a", 10)
	require.Equal(t, elastic, sameEverywhere(t, cordoned))
	place(cordoned, "q", "d", 10)
	require.Equal(t, tight, sameEverywhere(t, cordoned))

	reserved := fleet(t, binpack.K1)
	place(reserved, "p", "a", 10)
	apply(t, reserved, &ledger.Event{Kind: ledger.KindReserve, Node: "b", App: "web", Reserved: &ledger.Reserved{Pods: 9, Until: 9e9, By: "x"}})
	require.Equal(t, tight, sameEverywhere(t, reserved))
	place(reserved, "z", "c", 1)
	require.Equal(t, tight, sameEverywhere(t, reserved))

	blind := fleet(t, binpack.K0)
	place(blind, "p", "a", 3)
	require.Equal(t, tight, sameEverywhere(t, blind), "at K0 the ledger's forecast does not count, as in a replay")

	for seed := range uint64(20) {
		s := newSceneOf(t, seeded(7000+seed), false)
		s.reserves = seed%3 == 2
		s.do(&ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: policy.Shipped()})
		for range 20 {
			for range 10 {
				s.step()
			}
			other := ledger.New()
			apply(t, other, s.l.Describe(byUID)...)
			require.Equal(t, s.l.Columns().Most(), other.Columns().Most(), "seed %d", seed)
		}
	}
}
