package ledger_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// countingPods gives a trace the dimension pods, which a ledger always has: features that look at
// all dimensions are of three then in both.
func countingPods(t *trace.Trace) *trace.Trace {
	t.Instance.Dimensions = append(slices.Clone(t.Instance.Dimensions), binpack.Dimension{Name: "pods", One: 1})
	for i := range t.Instance.Machines {
		t.Instance.Machines[i].Capacity = append(slices.Clone(t.Instance.Machines[i].Capacity), 1e6)
	}
	for i := range t.Instance.Apps {
		t.Instance.Apps[i].Demand = append(slices.Clone(t.Instance.Apps[i].Demand), 0)
	}
	return t
}

// With preferences, zones and shares the ledger decides as Cerebro does, in every mode.
func TestPreferencesLikeCerebro(t *testing.T) {
	share := .25
	for _, fleet := range []string{"fixed", "open"} {
		tr := countingPods(byPods(t, "kubernetes", 60, map[string]string{"nodes": "20", "days": ".2", "fleet": fleet, "soft": ".6", "zones": "3"}))
		slices.SortFunc(tr.Instance.Machines, func(a, b binpack.MachineLine) int { return cmp.Compare(a.Name, b.Name) }) // as the ledger orders nodes
		chosen := map[string]bool{}
		for _, c := range []struct {
			name  string
			soft  *policy.Soft
			share *float64
		}{
			{"keep", nil, nil},
			{"loss", &policy.Soft{Mode: "keep", Loss: 100}, nil},
			{"trade", &policy.Soft{Mode: "trade", Price: .01}, nil},
			{"ignore", &policy.Soft{Mode: "ignore"}, nil},
			{"share", nil, &share},
		} {
			t.Run(fleet+" "+c.name, func(t *testing.T) {
				object := *shipped(t, "kubernetes-k0")
				object.Spec.Soft, object.Spec.MaxShareOfApp = c.soft, c.share
				asked, agreed := beside(t, tr, &object)
				require.Greater(t, asked, 200)
				require.Equal(t, asked, agreed)
				chosen[fmt.Sprint(whereItemsGo(t, tr, &object))] = true
			})
		}
		require.Greater(t, len(chosen), 3, "the modes place alike")
	}
}

// whereItemsGo are the machines of all placements of a replay.
func whereItemsGo(tb testing.TB, t *trace.Trace, object *policy.Object) (machines []int32) {
	tb.Helper()
	p, err := object.Policy()
	require.NoError(tb, err)
	_, err = cerebro.NewReplayer(t).Run(p, cerebro.Options{Brief: true, Check: true, Record: func(d cerebro.Decision) {
		machines = append(machines, d.Machine)
	}})
	require.NoError(tb, err)
	return machines
}

func TestPreferencesOfAnAppThatAreWrong(t *testing.T) {
	for _, text := range []string{"apart:machine:0", "apart:machine:1:other"} {
		l := ledger.New()
		apply(t, l, &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}})
		err := l.Apply(&ledger.Event{Kind: ledger.KindApp, App: "a", Spec: &ledger.App{Group: "a", Soft: []string{"near:zone:1", text}}})
		require.ErrorContains(t, err, "spec.soft[1]")
	}
}
