package ledger_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// With traffic between apps the ledger decides as Cerebro does, and the traffic decides.
func TestTrafficLikeCerebro(t *testing.T) {
	tr := countingPods(byPods(t, "kubernetes", 61, map[string]string{"nodes": "20", "days": ".2", "fleet": "fixed", "egress": ".5", "partners": "1"}))
	slices.SortFunc(tr.Instance.Machines, func(a, b binpack.MachineLine) int { return cmp.Compare(a.Name, b.Name) }) // as the ledger orders nodes
	for a := range int32(len(tr.Instance.Apps)) / 3 {
		tr.Instance.Pairs = append(tr.Instance.Pairs, binpack.Pair{App: a, Other: int32(len(tr.Instance.Apps)) - 1 - a, Bits: float64(1000 + 7*a)}, binpack.Pair{App: a, Other: a, Bits: 33})
	}
	object := *shipped(t, "kubernetes-k0")
	object.Spec.Features, object.Spec.Weights, object.Spec.Parameters = []string{"util", "partners"}, []float64{.3, .7}, nil
	asked, agreed := beside(t, tr, &object)
	require.Greater(t, asked, 200)
	require.Equal(t, asked, agreed)
	with := whereItemsGo(t, tr, &object)
	tr.Instance.Pairs = nil
	require.NotEqual(t, with, whereItemsGo(t, tr, &object))
}

func TestTrafficOfAnAppThatIsWrong(t *testing.T) {
	for _, text := range []string{"a/b", "a/b=0", "a/b=1M", "a/b=1:pair", "=3"} {
		l := ledger.New()
		apply(t, l, &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}})
		err := l.Apply(&ledger.Event{Kind: ledger.KindApp, App: "a", Spec: &ledger.App{Group: "a", Sends: []string{"a/c=1:paired", text}}})
		require.ErrorContains(t, err, "spec.sends[1]")
	}
}
