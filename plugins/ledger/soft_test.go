package ledger_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

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

// BenchmarkPreferences is what a decision costs on 1,000 nodes in three zones, without
// preferences and where every second app prefers different nodes and an even spread over zones
// and half of an app is the most that a node should hold: the median of the rankings alone.
func BenchmarkPreferences(b *testing.B) {
	for _, fleet := range []string{"fixed", "open"} {
		for _, what := range []string{"none", "keep"} {
			b.Run(fleet+"/"+what, func(b *testing.B) {
				l, apps := city(b, fleet, "general-k1", 1000, 10_000)
				if what == "keep" {
					preferring(b, l, apps)
				}
				passed := make([][]int32, len(apps))
				for i, name := range apps {
					passed[i] = l.Fits(l.AppIndex(name), nil)
				}
				var took []time.Duration
				var ranked []binpack.Ranked
				for i := 0; b.Loop(); i++ {
					a := i % len(apps)
					uid := fmt.Sprint("new-", i)
					apply(b, l, &ledger.Event{Kind: ledger.KindArrive, UID: uid, App: apps[a]})
					app, began := l.AppIndex(apps[a]), time.Now()
					var err error
					if ranked, err = l.Rank(ledger.Primary, app, passed[a], 2, ranked); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
					apply(b, l, &ledger.Event{Kind: ledger.KindDecide, UID: uid, App: apps[a], Node: l.NodeName(ranked[0].Machine), Decision: &ledger.Decision{Cause: ledger.CausePolicy}},
						&ledger.Event{Kind: ledger.KindRemove, UID: uid})
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			})
		}
	}
}

func preferring(b *testing.B, l *ledger.Ledger, apps []string) {
	b.Helper()
	var events []*ledger.Event
	i := 0
	for n := range l.Nodes() {
		m := *n.Machine()
		m.Labels = zoneLabels(fmt.Sprint("zone-", i%3))
		i++
		events = append(events, &ledger.Event{Kind: ledger.KindNode, Node: n.Name(), Machine: &m})
	}
	for _, name := range apps[:len(apps)/2] {
		spec := *l.App(name).Spec()
		spec.Soft = []string{"apart:machine:100", "even:zone:100"}
		events = append(events, &ledger.Event{Kind: ledger.KindApp, App: name, Spec: &spec})
	}
	object, share := *shipped(b, "general-k1"), .5
	object.Spec.MaxShareOfApp = &share
	apply(b, l, append(events, &ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: &object})...)
}

func TestShareOfAStartThatIsWrong(t *testing.T) {
	for share, ok := range map[float64]bool{0: true, .5: true, 1: true, -.1: false, 1.1: false} {
		err := ledger.New().Apply(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed", MaxShareOfApp: share}})
		if ok {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "start.maxShareOfApp")
		}
	}
}
