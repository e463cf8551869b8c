package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// crowd lets apps and rules come among the decisions, as a cluster that builds software
// does: a Job for each build.
func (s *scene) crowd() {
	switch n := s.d.IntN(100); {
	case n < 40:
		s.decide()
	case n < 50:
		s.remove()
	case n < 53:
		s.find()
	case n < 55:
		s.forecast()
	case n < 90:
		s.appComes()
	default:
		s.moreRules()
	}
}

// moreRules are between groups of which some have no app.
func (s *scene) moreRules() {
	e := &ledger.Event{Kind: ledger.KindRule}
	for range 1 + s.d.IntN(4) {
		e.Rules = append(e.Rules, ledger.Rule{
			App: fmt.Sprint("g", s.d.IntN(6+s.apps)), Other: fmt.Sprint("g", s.d.IntN(6+s.apps)), Max: int32(s.d.IntN(3)),
		})
	}
	s.do(e)
}

// Columns that grew give the scores of columns that were made at once, to the last bit:
// beyond 64 apps, and beyond the shapes that a scorer distinguishes.
func TestGrowingChangesNothing(t *testing.T) {
	decisions, events, rebuilds := 0, 0, 0
	for seed := range uint64(20) {
		s := newScene(t, seeded(3000+seed))
		if seed%3 == 0 {
			s.demands = 60
		}
		decisions += pure(s, 300, s.crowd)
		s.w.agree(t, s.l)
		events += s.apps
		rebuilds += s.l.Rebuilds()
	}
	require.Greater(t, decisions, 1200)
	require.Less(t, rebuilds, events/2, "most apps were added")
}

// crowded is a city with many apps that have pods no more.
func crowded(tb testing.TB, policy string, nodes, apps int) *ledger.Ledger {
	tb.Helper()
	l, _ := city(tb, "fixed", policy, nodes, 10*nodes)
	for i := range apps - l.AppCount() {
		apply(tb, l, build(i))
	}
	return l
}

// build is the app of one build of a CI cluster: a group of its own, of a few sizes.
func build(i int) *ledger.Event {
	cores := int64(1) << (i % 3)
	return &ledger.Event{Kind: ledger.KindApp, App: fmt.Sprint("build-", i), Spec: &ledger.App{
		Group:  fmt.Sprint("build-", i),
		Demand: map[string]int64{"cpu": cores * 500, "memory": cores << (29 + i/3%3), "pods": 1},
	}}
}

// rankBuild asks for the pod of a build, which makes columns and scorers follow.
func rankBuild(tb testing.TB, l *ledger.Ledger, i int, passed []int32) {
	tb.Helper()
	app := l.AppIndex(fmt.Sprint("build-", i))
	for _, role := range []ledger.Role{ledger.Primary, ledger.BestFit} {
		ranked, err := l.Rank(role, app, passed, 2, nil)
		require.NoError(tb, err)
		require.NotEmpty(tb, ranked)
	}
}

// A new app must not cost in proportion to all apps: nothing is built again while they
// come.
func TestManyAppsRebuildNothing(t *testing.T) {
	for _, policy := range crowdPolicies {
		l := crowded(t, policy, 100, 1000)
		passed := l.Fits(l.AppIndex("app-000"), nil)
		rankBuild(t, l, 0, passed[:1])
		before, columns, scorer := l.Rebuilds(), l.Columns(), l.Scorer(ledger.Primary)
		for i := 1000; i < 3000; i++ {
			apply(t, l, build(i))
			rankBuild(t, l, i, passed[:1])
		}
		require.Equal(t, before, l.Rebuilds(), policy)
		require.Same(t, columns, l.Columns())
		require.Same(t, scorer, l.Scorer(ledger.Primary), "%s: the scorer was made again", policy)
	}
}

// crowdPolicies are those that the benchmarks of new apps take.
var crowdPolicies = []string{"general-k1", "kubernetes-k0", "hand-k1", "general-k1-devices"}

// BenchmarkAddApp is what a new app costs beside the ranking of its pod: the event, and
// the columns and scorers that follow when one machine is scored.
func BenchmarkAddApp(b *testing.B) {
	for _, policy := range crowdPolicies {
		for _, nodes := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("apps=10000/nodes=%d/policy=%s", nodes, policy), func(b *testing.B) {
				l := crowded(b, policy, nodes, 10_000)
				passed := l.Fits(l.AppIndex("app-000"), nil)[:1]
				rankBuild(b, l, 0, passed)
				i, before := 10_000, cputime.Process()
				b.ReportAllocs()
				for b.Loop() {
					apply(b, l, build(i))
					rankBuild(b, l, i, passed)
					i++
				}
				b.ReportMetric((cputime.Process()-before)*1e6/float64(i-10_000), "cpu-µs/app")
			})
		}
	}
}

// BenchmarkFirstRank is what a new app costs together with the first ranking of its pod
// among all machines, beside the same pod of an app that is known: for a demand that others
// have, with a limit, and for a demand that is new.
func BenchmarkFirstRank(b *testing.B) {
	for _, policy := range crowdPolicies {
		for _, nodes := range []int{1000, 5000} {
			for _, kind := range []string{"known", "new", "limit", "demand"} {
				b.Run(fmt.Sprintf("apps=10000/nodes=%d/policy=%s/app=%s", nodes, policy, kind), func(b *testing.B) {
					l := crowded(b, policy, nodes, 10_000)
					passed := l.Fits(l.AppIndex("app-000"), nil)
					rankBuild(b, l, 0, passed)
					i, used := 10_000, 0.
					b.ReportAllocs()
					for b.Loop() {
						e := build(i)
						switch kind {
						case "known":
							e = build(i % 1000)
						case "limit":
							e.Spec.MaxPerMachine = 1
						case "demand":
							e.Spec.Demand["cpu"]++
							e.Spec.Demand["memory"] = 1<<30 + int64(i*7919%10_007)<<12
						}
						before := cputime.Process()
						apply(b, l, e, &ledger.Event{Kind: ledger.KindArrive, UID: fmt.Sprint(i), App: e.App})
						ranked, err := l.Rank(ledger.Primary, l.AppIndex(e.App), passed, 2, nil)
						used += cputime.Process() - before
						require.NoError(b, err)
						apply(b, l, &ledger.Event{
							Kind: ledger.KindDecide, UID: fmt.Sprint(i), App: e.App, Node: l.NodeName(ranked[0].Machine),
							Decision: &ledger.Decision{Cause: ledger.CausePolicy},
						}, &ledger.Event{Kind: ledger.KindRemove, UID: fmt.Sprint(i)})
						i++
					}
					b.ReportMetric(used*1e6/float64(i-10_000), "cpu-µs/app")
				})
			}
		}
	}
}
