package ledger_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// The columns are what a recount of the pods gives, whatever happened.
func TestColumnsAgainstRecount(t *testing.T) {
	for seed := range uint64(40) {
		s := newScene(t, seeded(seed))
		for range 120 {
			s.step()
			s.w.agree(t, s.l)
		}
	}
}

// agree requires that two ledgers answer alike, to the last bit. Only the order of their
// apps may differ.
func agree(tb testing.TB, a, b *ledger.Ledger, role ledger.Role, name string, passed []int32) {
	tb.Helper()
	app, other := a.AppIndex(name), b.AppIndex(name)
	require.Equal(tb, a.Fits(app, nil), b.Fits(other, nil))
	infeasible, extra := a.FilterDifferences(app, passed)
	otherInfeasible, otherExtra := b.FilterDifferences(other, passed)
	require.Equal(tb, infeasible, otherInfeasible)
	require.Equal(tb, extra, otherExtra)
	for _, r := range []ledger.Role{role, ledger.BestFit} {
		ranked, err := a.Rank(r, app, passed, len(passed), nil)
		require.NoError(tb, err)
		same, err := b.Rank(r, other, passed, len(passed), nil)
		require.NoError(tb, err)
		require.Equal(tb, ranked, same)
	}
}

// pure drives a ledger and two that rebuild their columns, one before every decision
// and one now and then.
func pure(s *scene, steps int, step func()) (decisions int) {
	always, sometimes := ledger.New(), ledger.New()
	fed := 0
	s.decided = func(role ledger.Role, app string, passed []int32) {
		decisions++
		for ; fed < len(s.events); fed++ {
			require.NoError(s.tb, always.Apply(s.events[fed]))
			require.NoError(s.tb, sometimes.Apply(s.events[fed]))
		}
		always.SetClock(s.time)
		sometimes.SetClock(s.time)
		always.Forget()
		if decisions%5 == 0 {
			sometimes.Forget()
		}
		agree(s.tb, s.l, always, role, app, passed)
		agree(s.tb, s.l, sometimes, role, app, passed)
	}
	for range steps {
		step()
	}
	return decisions
}

// When the columns are built changes no decision and no score.
func TestRebuildingChangesNothing(t *testing.T) {
	decisions := 0
	for seed := range uint64(100) {
		s := newScene(t, seeded(1000+seed))
		decisions += pure(s, 150, s.step)
	}
	require.Greater(t, decisions, 2000)
}

// Nor does it after so many changes that the journal has dropped the first ones, nor
// with more shapes than a scorer distinguishes.
func TestRebuildingChangesNothingLater(t *testing.T) {
	for seed := range uint64(4) {
		s := newScene(t, seeded(2000+seed))
		s.busy, s.demands = false, 40
		for range 150 {
			s.appComes()
		}
		for range 30 {
			s.nodeComes()
		}
		before := s.l.Columns()
		for range 7000 {
			s.step()
		}
		require.Same(t, before, s.l.Columns(), "they were rebuilt")
		require.Greater(t, before.Placements()+before.Departures(), uint64(1<<12), "the journal's length")
		require.Greater(t, pure(s, 300, s.step), 80)
	}
}

// order are the candidates among machines for a pod of web, by Best-Fit.
func order(tb testing.TB, l *ledger.Ledger, allowed ...string) []string {
	tb.Helper()
	var machines []int32
	for _, name := range allowed {
		machines = append(machines, l.MachineIndex(name))
	}
	slices.Sort(machines)
	ranked, err := l.Rank(ledger.BestFit, l.AppIndex("web"), machines, len(machines), nil)
	require.NoError(tb, err)
	var names []string
	for _, r := range ranked {
		names = append(names, l.NodeName(r.Machine))
	}
	return names
}

// pair is a cluster of three machines of one kind and one of another.
func pair(tb testing.TB, fleet string) *ledger.Ledger {
	tb.Helper()
	l := ledger.New()
	apply(tb, l, &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: fleet}})
	for _, name := range []string{"c", "a", "z", "b"} {
		cpu := int64(4)
		if name == "b" {
			cpu = 8
		}
		apply(tb, l, &ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": cpu, "pods": 10}}})
	}
	apply(tb, l, &ledger.Event{Kind: ledger.KindApp, App: "web", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 1, "pods": 1}}})
	return l
}

// In an open fleet one empty machine of each kind is a candidate, the first by
// name of those that take the pod; in a fixed one all are.
func TestCandidates(t *testing.T) {
	open, fixed := pair(t, "open"), pair(t, "fixed")
	require.ElementsMatch(t, []string{"a", "b"}, order(t, open, "a", "b", "c", "z"))
	require.ElementsMatch(t, []string{"b", "c"}, order(t, open, "z", "b", "c"))
	require.Equal(t, []string{"a", "c", "z", "b"}, order(t, fixed, "a", "b", "c", "z"))
	for _, l := range []*ledger.Ledger{open, fixed} {
		apply(t, l, &ledger.Event{Kind: ledger.KindPlace, UID: "p", App: "web", Node: "z"})
	}
	require.Equal(t, "z", order(t, open, "a", "b", "c", "z")[0])
	require.ElementsMatch(t, []string{"a", "b", "z"}, order(t, open, "a", "b", "c", "z"))
	require.Len(t, order(t, fixed, "a", "b", "c", "z"), 4)
	require.Empty(t, order(t, open))
}

func TestNoPolicy(t *testing.T) {
	l := pair(t, "fixed")
	_, err := l.Rank(ledger.Primary, 0, []int32{0}, 1, nil)
	require.ErrorIs(t, err, ledger.ErrNoPolicy)
	require.ErrorContains(t, err, "primary")
	object, digest := l.Policy(ledger.Primary)
	require.Nil(t, object)
	require.Empty(t, digest)

	want := shipped(t, "hand-k0")
	apply(t, l, &ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: want})
	object, digest = l.Policy(ledger.Primary)
	require.Same(t, want, object)
	require.Equal(t, want.Digest(), digest)
	require.ErrorContains(t, l.Apply(&ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: shipped(t, "general-k2")}), "spec.knowledge K2")
	require.ErrorContains(t, ledger.CheckPolicy(shipped(t, "hand-k1 K2")), "spec.knowledge K2")
	object, _ = l.Policy(ledger.Primary)
	require.Same(t, want, object, "the last good one stays")

	apply(t, l, &ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary})
	_, err = l.Rank(ledger.Primary, 0, []int32{0}, 1, nil)
	require.ErrorIs(t, err, ledger.ErrNoPolicy)
}

// The scheduler, a replay and an explanation choose the same machine: in random
// clusters with rules, limits, ties and cordoned nodes.
func TestOneRanking(t *testing.T) {
	asked, tied, cordoned := 0, 0, 0
	for seed := range uint64(40) {
		s := newScene(t, seeded(700+seed))
		s.decided = func(role ledger.Role, name string, passed []int32) {
			app := s.l.AppIndex(name)
			object, _ := s.l.Policy(role)
			own, err := object.Policy()
			require.NoError(t, err)
			for role, p := range map[ledger.Role]binpack.Policy{role: own, ledger.BestFit: rule.BestFit{}} {
				ranked, err := s.l.Rank(role, app, passed, 1, nil)
				require.NoError(t, err)
				e, err := s.l.Explain(p, app, passed)
				require.NoError(t, err)
				require.Equal(t, binpack.Ranked{Machine: e.Chosen.Machine, Score: e.Chosen.Score}, ranked[0])
				require.False(t, e.Fallback)
				asked++
				tied += min(1, e.Tied)
				if !slices.Equal(passed, s.l.Fits(app, nil)) {
					continue // other filters refused machines
				}
				state := s.l.Columns()
				m, err := state.Choose(p.Scorer(state), binpack.Item{App: app, Serial: state.Placements()})
				require.NoError(t, err)
				require.Equal(t, ranked[0].Machine, m)
			}
			for _, m := range s.w.nodes {
				if m.Cordoned {
					cordoned++
				}
			}
		}
		for range 60 {
			s.step()
		}
	}
	for _, n := range []int{asked - 1000, tied - 100, cordoned - 100} {
		require.Positive(t, n)
	}
}

// A cluster without a single machine ranks nothing, however many shapes there are.
func TestNoMachines(t *testing.T) {
	s := newScene(t, seeded(1))
	s.demands = 90
	for range 200 {
		s.appComes()
	}
	s.policy(ledger.Primary)
	for name := range s.w.nodes {
		s.do(&ledger.Event{Kind: ledger.KindForget, Node: name})
	}
	for name := range s.w.apps {
		for _, role := range []ledger.Role{ledger.Primary, ledger.BestFit} {
			ranked, err := s.l.Rank(role, s.l.AppIndex(name), s.l.Fits(s.l.AppIndex(name), nil), 2, nil)
			require.NoError(t, err)
			require.Empty(t, ranked)
		}
	}
	require.Negative(t, s.l.MachineIndex("n1"))
	require.Negative(t, s.l.AppIndex("nobody"))
}

// An event without a change does not rebuild the columns, and an invalid event changes
// nothing.
func TestNoChange(t *testing.T) {
	s := newScene(t, seeded(5))
	for range 60 {
		s.step()
	}
	before := s.l.Columns()
	for name, m := range s.w.nodes {
		same := *m
		same.Capacity = maps.Clone(m.Capacity)
		s.do(&ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &same})
	}
	for name, a := range s.w.apps {
		same := *a
		s.do(&ledger.Event{Kind: ledger.KindApp, App: name, Spec: &same})
	}
	for _, uid := range s.w.standing() {
		p := s.w.pods[uid]
		s.do(&ledger.Event{Kind: ledger.KindPlace, UID: uid, App: p.app, Node: p.node})
	}
	node, _ := s.someNode()
	app, _ := s.someApp()
	for _, bad := range []*ledger.Event{
		{Kind: ledger.KindNode, Node: node, Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": -1}}},
		{Kind: ledger.KindApp, App: app, Spec: &ledger.App{Group: "x", SpreadMin: -1}},
		{Kind: ledger.KindRule, Reset: true, Rules: []ledger.Rule{{App: "x", Other: "y", Max: -1}}},
		{Kind: ledger.KindForecast, Expected: map[string]float64{app: math.NaN()}},
		{Kind: ledger.KindForecast, Expected: map[string]float64{app: -1}, Undeclared: []string{app}},
		{Kind: ledger.KindForecast, Undeclared: []string{app}},
		{Kind: ledger.KindPlace, UID: "new", App: app, Node: "nowhere"},
		{Kind: ledger.KindForget, Node: "nowhere"},
		{Kind: "lunch"},
	} {
		require.Error(t, s.l.Apply(bad))
	}
	require.Same(t, before, s.l.Columns())
	s.w.agree(t, s.l)
}

// The selectors of a machine are distinguished, whatever is in their names.
func TestRefuses(t *testing.T) {
	l := pair(t, "fixed")
	for node, refuses := range map[string][]string{"a": {"x|y"}, "b": {"x", "y"}} {
		apply(t, l, &ledger.Event{Kind: ledger.KindNode, Node: node, Machine: &ledger.Machine{
			Refuses: refuses, Capacity: map[string]int64{"cpu": 4, "pods": 10},
		}})
	}
	for selector, want := range map[string][]bool{"": {true, true}, "x": {true, false}, "x|y": {false, true}, "y": {true, false}} {
		app := "app " + selector
		apply(t, l, &ledger.Event{Kind: ledger.KindApp, App: app, Spec: &ledger.App{Group: app, Selector: selector}})
		require.Equal(t, want[0], l.Columns().Fits(l.AppIndex(app), l.MachineIndex("a")), "%q on a", selector)
		require.Equal(t, want[1], l.Columns().Fits(l.AppIndex(app), l.MachineIndex("b")), "%q on b", selector)
	}
}

// FuzzLedger turns bytes into a cluster's life.
func FuzzLedger(f *testing.F) {
	for seed := range uint64(4) {
		d, data := seeded(seed), make([]byte, 400)
		for i := range data {
			data[i] = byte(d.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &bytesDice{data[:min(len(data), 600)]}
		s := newScene(t, d)
		for len(d.data) > 0 {
			pure(s, 20, s.step)
			s.w.agree(t, s.l)
		}
	})
}

// bytesDice reads numbers off a fuzzer's input, then zeros.
type bytesDice struct{ data []byte }

func (b *bytesDice) IntN(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	x := int(b.data[0])
	b.data = b.data[1:]
	return x % n
}
