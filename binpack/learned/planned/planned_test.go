package planned

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/plan"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func shippedPlan(t testing.TB) binpack.Policy {
	t.Helper()
	p, err := build(packtest.Shipped(t, "general-k2"))
	require.NoError(t, err)
	require.Equal(t, binpack.K2, p.Knowledge())
	return p
}

func generated(t testing.TB, kind string, seed uint64, set map[string]string) *trace.Trace {
	t.Helper()
	tr, err := generate.Generate(kind, seed, set)
	require.NoError(t, err)
	return tr
}

// With a complete plan the number of machines is the plan's in every order.
func TestPlanIsReachedInEveryOrder(t *testing.T) {
	for _, c := range []struct {
		kind   string
		seeds  int
		orders int
		set    map[string]string
	}{
		{"small", 6, 12, nil},
		{"large", 3, 6, map[string]string{"scale": ".2"}},
		{"large3d", 2, 4, map[string]string{"scale": ".2"}},
		{"fixed", 2, 4, map[string]string{"scale": ".2", "f": "1"}},
	} {
		for seed := range c.seeds {
			t.Run(fmt.Sprintf("%s-%d", c.kind, seed), func(t *testing.T) {
				tr := generated(t, c.kind, uint64(900_001+seed), c.set)
				r := cerebro.NewReplayer(tr)
				want := plan.Pack(t.Context(), tr.Instance, r.Totals(), plan.Options{Seed: planSeed})
				require.True(t, want.Complete())
				p := shippedPlan(t)
				for order := range c.orders {
					run, err := r.Run(p, cerebro.Options{Order: order, Seed: 5, Check: true})
					require.NoError(t, err)
					require.Zero(t, run.Violations)
					require.Zero(t, run.Unplaced)
					require.Equal(t, len(want.Machines), run.Machines, "order %d", order)
				}
			})
		}
	}
}

// What the plan leaves to Best Fit once items leave must not cost more than a
// few percent.
func TestPlanWithDepartures(t *testing.T) {
	tr := generated(t, "churn", 900_001, map[string]string{"scale": ".1", "days": "2"})
	r := cerebro.NewReplayer(tr)
	opt := cerebro.Options{Order: 1, Seed: 5, Check: true}
	planned, err := r.Run(shippedPlan(t), opt)
	require.NoError(t, err)
	fit, err := r.Run(rule.BestFit{}, opt)
	require.NoError(t, err)
	require.Zero(t, planned.Violations)
	require.Zero(t, planned.Unplaced)
	require.Less(t, planned.CostSeconds, 1.08*fit.CostSeconds)
}

// One policy value serves many states, and each gets what it would get alone.
func TestPlanServesManyStates(t *testing.T) {
	traces := []*trace.Trace{generated(t, "small", 900_001, nil), generated(t, "small", 900_002, nil)}
	p := shippedPlan(t)
	run := func(p binpack.Policy, i int) []int32 {
		var where []int32
		r := cerebro.NewReplayer(traces[i%2])
		_, err := r.Run(p, cerebro.Options{Order: i/2 + 1, Seed: 5, Record: func(d cerebro.Decision) { where = append(where, d.Machine) }})
		assert.NoError(t, err)
		return where
	}
	got := make([][]int32, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = run(p, i) })
	}
	wg.Wait()
	for i := range got {
		require.Equal(t, run(shippedPlan(t), i), got[i])
	}
	require.Len(t, p.(*Policy).plans, 2)
}

// A player places items with a scorer or at random, and takes some away.
type player struct {
	s       *binpack.State
	checker *binpack.Checker
	where   [][2]int32 // app, machine
}

func newPlayer(inst *binpack.Instance) *player {
	return &player{s: binpack.NewState(inst), checker: binpack.NewChecker(inst)}
}

func (p *player) place(t *testing.T, scorer binpack.Scorer, a int32) {
	m, err := p.s.Choose(scorer, binpack.Item{App: a})
	if err != nil {
		require.ErrorIs(t, err, binpack.ErrNoFit)
		return
	}
	p.put(t, a, m)
}

func (p *player) put(t *testing.T, a, m int32) {
	line, index := p.s.Position(m)
	require.NoError(t, p.checker.Place(a, line, index, nil))
	p.s.Place(binpack.Item{App: a}, m, nil)
	p.where = append(p.where, [2]int32{a, m})
}

// Scores depend on the state and the plan alone: a scorer that follows the
// state and one that reads it afresh agree, whoever placed what.
func TestPlanScoresDependOnTheStateAlone(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(7, seed))
		kind := []string{"small", "large2d", "fixed"}[seed%3]
		set := map[string]string{"scale": ".1"}
		if kind == "small" {
			set = nil
		}
		tr := generated(t, kind, 900_001+seed, set)
		if kind == "large2d" { // a second kind of machine
			line := tr.Instance.Machines[0]
			line.Name, line.Cost, line.Capacity = "half", .5, []int64{line.Capacity[0] / 2, line.Capacity[1] / 2}
			tr.Instance.Machines = append(tr.Instance.Machines, line)
		}
		p := newPlayer(tr.Instance)
		p.s.Known.Total = cerebro.NewReplayer(tr).Totals()
		policy := shippedPlan(t)
		follower := policy.Scorer(p.s).(*scorer)
		disturb := seed % 4 // in 20; 0: no item is placed otherwise
		for i, e := range tr.Order(seed, 1) {
			q := tr.Requests[e.Request]
			p.s.Arrive(q.App, q.Count)
			for range q.Count {
				candidates := p.s.Feasible(q.App, nil)
				if len(candidates) == 0 {
					continue
				}
				out, again := make([]float64, len(candidates)), make([]float64, len(candidates))
				follower.Score(binpack.Item{App: q.App}, candidates, out)
				if i%19 == 0 {
					fresh := newScorer(policy.(*Policy), p.s)
					fresh.plan, fresh.planned, fresh.totals = follower.plan, true, follower.totals
					fresh.prepare()
					fresh.Score(binpack.Item{App: q.App}, candidates, again)
					require.Equal(t, again, out)
				}
				if uint64(rng.IntN(20)) < disturb {
					p.put(t, q.App, candidates[rng.IntN(len(candidates))])
				} else {
					p.place(t, follower, q.App)
				}
				if disturb > 0 && rng.IntN(80) == 0 {
					at := rng.IntN(len(p.where))
					w := p.where[at]
					p.where = append(p.where[:at], p.where[at+1:]...)
					p.s.Remove(w[0], w[1], nil)
					line, index := p.s.Position(w[1])
					require.NoError(t, p.checker.Remove(w[0], line, index, nil))
				}
			}
		}
	}
}

// From a snapshot only what remains is planned, around what stands.
func TestPlanFromASnapshot(t *testing.T) {
	tr := generated(t, "small", 900_003, nil)
	p := newPlayer(tr.Instance)
	totals := cerebro.NewReplayer(tr).Totals()
	events := tr.Order(3, 1)
	fit := rule.BestFit{}.Scorer(p.s)
	play := func(scorer binpack.Scorer, events []trace.Event) {
		for _, e := range events {
			q := tr.Requests[e.Request]
			for range q.Count {
				p.place(t, scorer, q.App)
			}
		}
	}
	play(fit, events[:8])
	left := make([]int64, len(totals))
	for a := range totals {
		left[a] = totals[a] - p.s.Alive()[a]
	}
	want := plan.Pack(t.Context(), tr.Instance, left, plan.Options{Seed: planSeed, Standing: standingOf(p.s)})
	require.True(t, want.Complete())
	p.s.Known.Total = totals
	play(shippedPlan(t).Scorer(p.s), events[8:])
	require.Equal(t, len(want.Machines), p.s.Active())
}

// A scorer outlives a Reset, and a state without totals gets Best Fit.
func TestPlanAfterReset(t *testing.T) {
	tr := generated(t, "small", 900_004, nil)
	totals := cerebro.NewReplayer(tr).Totals()
	s := binpack.NewState(tr.Instance)
	planned, fit := shippedPlan(t).Scorer(s), rule.BestFit{}.Scorer(s)
	fill := func(scorer binpack.Scorer) int {
		for _, e := range tr.Events {
			q := tr.Requests[e.Request]
			for i := range q.Count {
				m, err := s.Choose(scorer, binpack.Item{App: q.App, Serial: uint64(i)})
				require.NoError(t, err)
				s.Place(binpack.Item{App: q.App}, m, nil)
			}
		}
		n := s.Active()
		s.Reset()
		return n
	}
	s.Known.Total = totals
	require.Equal(t, 15, fill(planned))
	require.Equal(t, fill(fit), fill(planned)) // Reset took the totals away
	s.Known.Total = totals
	require.Equal(t, 15, fill(planned))
}

// Totals that are too low or too high still give a sensible fleet.
func TestPlanWithWrongTotals(t *testing.T) {
	for _, factor := range []float64{0, .5, .8, 1.25, 2} {
		tr := generated(t, "large", 900_001, map[string]string{"scale": ".2"})
		p := newPlayer(tr.Instance)
		for _, n := range cerebro.NewReplayer(tr).Totals() {
			p.s.Known.Total = append(p.s.Known.Total, int64(factor*float64(n)))
		}
		scorer := shippedPlan(t).Scorer(p.s)
		for _, e := range tr.Order(1, 1) {
			q := tr.Requests[e.Request]
			for range q.Count {
				p.place(t, scorer, q.App)
			}
		}
		r := cerebro.NewReplayer(tr)
		run, err := r.Run(rule.BestFit{}, cerebro.Options{Order: 1, Seed: 1})
		require.NoError(t, err)
		t.Logf("totals × %g: %d machines, Best Fit %d", factor, p.s.Active(), run.Machines)
		require.Len(t, p.where, run.Placed)
		require.Less(t, float64(p.s.Active()), max(1.1, 1.1*factor)*float64(run.Machines))
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*learned.Spec)
		want   string
	}{
		"nothing":   {func(*learned.Spec) {}, ""},
		"knowledge": {func(s *learned.Spec) { s.Knowledge = binpack.K1 }, "needs K2"},
		"features":  {func(s *learned.Spec) { s.Features, s.Weights = []string{"util"}, []float64{1} }, "no features"},
		"parameter": {func(s *learned.Spec) { s.Parameters["eta"] = 1 }, "spec.parameters.eta"},
		"box":       {func(s *learned.Spec) { s.Parameters["slack"] = 1 }, "spec.parameters.slack"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := packtest.Shipped(t, "general-k2")
			c.change(&spec)
			if err := Model.Check(spec); c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct{ kind, scale string }{{"small", ""}, {"large", "1"}} {
		b.Run("kind="+c.kind, func(b *testing.B) {
			set := map[string]string{"scale": c.scale}
			if c.scale == "" {
				set = nil
			}
			tr := generated(b, c.kind, 900_001, set)
			r := cerebro.NewReplayer(tr)
			p := shippedPlan(b)
			placed, order := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				order = order%4 + 1
				run, err := r.Run(p, cerebro.Options{Order: order, Seed: 5, Brief: true})
				require.NoError(b, err)
				placed += run.Placed
			}
			b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
		})
	}
}
