package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func apply(tb testing.TB, l *ledger.Ledger, events ...*ledger.Event) {
	tb.Helper()
	for _, e := range events {
		require.NoError(tb, l.Apply(e))
	}
}

// city is a filled cluster: machines of four sizes, no two of which have the same
// memory (as in a real one), and apps with limits, rules and forecasts.
func city(tb testing.TB, fleet, policyName string, machines, pods int) (l *ledger.Ledger, apps []string) {
	tb.Helper()
	d := rand.New(rand.NewPCG(uint64(machines), 7))
	l = ledger.New()
	apply(tb, l, &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Fleet: fleet, Units: map[string]string{"cpu": "m"},
	}})
	for m := range machines {
		cores := int64(16) << d.IntN(4)
		apply(tb, l, &ledger.Event{Kind: ledger.KindNode, Node: fmt.Sprintf("node-%05d", m), Machine: &ledger.Machine{
			Capacity: map[string]int64{"cpu": cores * 1000, "memory": cores<<32 - int64(d.IntN(1<<10))<<12, "pods": 110},
		}})
	}
	expected := map[string]float64{}
	for a := range 400 {
		name := fmt.Sprintf("app-%03d", a)
		apps = append(apps, name)
		cores := int64(1) << d.IntN(3)
		apply(tb, l, &ledger.Event{Kind: ledger.KindApp, App: name, Spec: &ledger.App{
			Group: name, MaxPerMachine: int32(d.IntN(4)),
			Demand: map[string]int64{"cpu": cores * 500, "memory": cores << (29 + d.IntN(3)), "pods": 1},
		}})
		expected[name] = float64(machines / 10)
	}
	var rules []ledger.Rule
	for range 800 {
		if a, b := apps[d.IntN(len(apps))], apps[d.IntN(len(apps))]; a != b {
			rules = append(rules, ledger.Rule{App: a, Other: b})
		}
	}
	apply(tb, l, &ledger.Event{Kind: ledger.KindRule, Rules: rules}, &ledger.Event{Kind: ledger.KindForecast, Expected: expected})
	apply(tb, l, &ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: shipped(tb, policyName)})
	for p := range pods {
		app := apps[d.IntN(len(apps))]
		allowed := l.Fits(l.AppIndex(app), nil)
		require.NotEmpty(tb, allowed)
		apply(tb, l, &ledger.Event{
			Kind: ledger.KindPlace, UID: fmt.Sprint("p", p), App: app, Node: l.NodeName(allowed[d.IntN(len(allowed))]),
		})
	}
	return l, apps
}

var sink int

// BenchmarkDecision is what a scheduling cycle costs: the book-keeping of an
// arrival, a placement and a removal, and the question of the machines that passed
// the filters.
func BenchmarkDecision(b *testing.B) {
	for _, size := range []struct{ machines, pods int }{{1000, 10_000}, {5000, 50_000}} {
		for _, name := range []string{"general-k1", "kubernetes-k0", "hand-k1"} {
			for _, fleet := range []string{"fixed", "open"} {
				b.Run(fmt.Sprintf("nodes=%d/policy=%s/fleet=%s", size.machines, name, fleet), func(b *testing.B) {
					l, apps := city(b, fleet, name, size.machines, size.pods)
					benchmarkDecision(b, l, apps)
				})
			}
		}
	}
}

func benchmarkDecision(b *testing.B, l *ledger.Ledger, apps []string) {
	var passed []int32
	var ranked []binpack.Ranked
	arrive := &ledger.Event{Kind: ledger.KindArrive}
	decide := &ledger.Event{Kind: ledger.KindDecide, Decision: &ledger.Decision{Cause: ledger.CausePolicy}}
	remove := &ledger.Event{Kind: ledger.KindRemove}
	uids := make([]string, 512)
	for i := range uids {
		uids[i] = fmt.Sprint("new-", i)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		name, uid := apps[i%len(apps)], uids[i%len(uids)]
		if i >= len(uids) {
			remove.UID = uid
			apply(b, l, remove)
		}
		arrive.App, arrive.UID = name, uid
		apply(b, l, arrive)
		app := l.AppIndex(name)
		b.StopTimer()
		passed = l.Fits(app, passed[:0])
		b.StartTimer()
		infeasible, extra := l.FilterDifferences(app, passed)
		var err error
		ranked, err = l.Rank(ledger.Primary, app, passed, 2, ranked)
		if err != nil || len(ranked) == 0 || len(infeasible)+len(extra) > 0 {
			b.Fatal(err, ranked, infeasible, extra)
		}
		decide.App, decide.UID, decide.Node = name, uid, l.NodeName(ranked[0].Machine)
		apply(b, l, decide)
		i++
	}
}

// BenchmarkRebuild is the first question after machines or apps changed.
func BenchmarkRebuild(b *testing.B) {
	for _, size := range []struct{ machines, pods int }{{1000, 10_000}, {5000, 50_000}} {
		for _, fleet := range []string{"fixed", "open"} {
			for _, part := range []string{"columns", "order"} {
				b.Run(fmt.Sprintf("nodes=%d/pods=%d/fleet=%s/%s", size.machines, size.pods, fleet, part), func(b *testing.B) {
					l, apps := city(b, fleet, "general-k1", size.machines, size.pods)
					passed := l.Fits(l.AppIndex(apps[0]), nil)
					b.ReportAllocs()
					for b.Loop() {
						l.Forget()
						sink += l.Columns().Size()
						if part == "order" {
							_, err := l.Rank(ledger.Primary, l.AppIndex(apps[0]), passed, 2, nil)
							if err != nil {
								b.Fatal(err)
							}
						}
					}
				})
			}
		}
	}
}
