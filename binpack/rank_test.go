package binpack_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// drawn is a scorer that gives every machine one of few scores, so that many are
// equal.
type drawn struct{ scores []float64 }

func (s drawn) Score(_ binpack.Item, candidates []int32, out []float64) {
	for i, m := range candidates {
		out[i] = s.scores[int(m)%len(s.scores)]
	}
}

// before compares the positions of machines.
func before(s *binpack.State, a, b int32) bool {
	lineA, indexA := s.Position(a)
	lineB, indexB := s.Position(b)
	return lineA < lineB || lineA == lineB && indexA < indexB
}

// sorted is the order of preference by a sort of all candidates.
func sorted(s *binpack.State, scorer binpack.Scorer, item binpack.Item, candidates []int32) []binpack.Ranked {
	scores := make([]float64, len(candidates))
	scorer.Score(item, candidates, scores)
	all := []binpack.Ranked{}
	for i, m := range candidates {
		all = append(all, binpack.Ranked{Machine: m, Score: scores[i]})
	}
	slices.SortFunc(all, func(a, b binpack.Ranked) int {
		switch {
		case a.Score != b.Score && a.Score > b.Score, a.Score == b.Score && before(s, a.Machine, b.Machine):
			return -1
		}
		return 1
	})
	return all
}

// TestRank: every way from scores to a machine takes the first of a sort by score
// and position. States have devices, limits, rules, types, many ties, and machines
// that came into being out of the order of their positions.
func TestRank(t *testing.T) {
	chosen, disordered := 0, 0
	for seed := range uint64(300) {
		d := seeded(5000 + seed)
		b := newBench(t, randomInstance(d, true))
		for range d.IntN(4) { // as found machines do
			line := int32(d.IntN(len(b.inst.Machines)))
			b.state.MachineAt(line, int32(d.IntN(3)))
		}
		scorers := []binpack.Scorer{
			drawn{[]float64{0, 1, 1, -1, 0}},
			drawn{[]float64{0}},
			rule.BestFit{}.Scorer(b.state),
			rule.FirstFit{}.Scorer(b.state),
			rule.WorstFit{}.Scorer(b.state),
		}
		for range 30 {
			b.step(d)
			item := binpack.Item{App: int32(d.IntN(len(b.inst.Apps))), Serial: b.serial}
			for _, scorer := range scorers {
				if b.ranks(d, scorer, item) {
					chosen++
				}
			}
		}
		if !slices.IsSortedFunc(b.machines(), func(x, y int32) int {
			if before(b.state, y, x) {
				return 1
			}
			return -1
		}) {
			disordered++
		}
	}
	require.Greater(t, chosen, 10_000)
	require.Greater(t, disordered, 50)
}

// machines lists all that came into being, by index.
func (b *bench) machines() []int32 {
	var all []int32
	for m := range int32(b.state.Size()) {
		all = append(all, m)
	}
	return all
}

// ranks holds Rank, Choose, Candidates and Explain to a sort of the candidates, and
// reports whether there was one.
func (b *bench) ranks(d dice, scorer binpack.Scorer, item binpack.Item) bool {
	t, s := b.t, b.state
	takes := slices.DeleteFunc(b.machines(), func(m int32) bool { return !s.Fits(item.App, m) })
	shuffle(d, takes)
	candidates := slices.Clone(s.Candidates(takes))
	require.ElementsMatch(t, s.Feasible(item.App, nil), candidates)

	want := sorted(s, scorer, item, candidates)
	for _, top := range []int{0, 1, 2, 3, 7, len(want), len(want) + 1} {
		got, err := s.Rank(scorer, item, candidates, top, nil)
		require.NoError(t, err)
		require.Equal(t, want[:min(top, len(want))], append([]binpack.Ranked{}, got...), "the first %d", top)
	}
	e, err := s.Explain(scorer, nil, item, candidates)
	require.NoError(t, err)
	fallen, err := s.Explain(drawn{[]float64{math.NaN()}}, scorer, item, candidates)
	require.NoError(t, err)
	require.Equal(t, len(want) > 0, fallen.Fallback)
	require.Equal(t, e.Chosen, fallen.Chosen)
	require.Equal(t, len(want), e.Candidates)
	m, err := s.Choose(scorer, item)
	if len(want) == 0 {
		require.ErrorIs(t, err, binpack.ErrNoFit)
		require.Nil(t, e.Chosen)
		return false
	}
	require.NoError(t, err)
	require.Equal(t, want[0].Machine, m)
	require.Equal(t, binpack.Ranked{Machine: e.Chosen.Machine, Score: e.Chosen.Score}, want[0])
	require.Equal(t, len(want) > 1, e.RunnerUp != nil)
	tied := 0
	for _, r := range want[1:] {
		if r.Score == want[0].Score {
			tied++
		}
	}
	require.Equal(t, tied, e.Tied)
	if e.RunnerUp != nil {
		require.Equal(t, binpack.Ranked{Machine: e.RunnerUp.Machine, Score: e.RunnerUp.Score}, want[1])
	}
	b.narrower(d, takes)
	return true
}

// narrower holds the candidates among some machines to the rule: those that hold an
// item, and of the empty ones the lowest position of each kind.
func (b *bench) narrower(d dice, takes []int32) {
	s := b.state
	some := slices.DeleteFunc(slices.Clone(takes), func(int32) bool { return d.IntN(3) == 0 })
	var want []int32
	for _, m := range some {
		lower := func(o int32) bool {
			return s.Items(o) == 0 && s.KindOf(o) == s.KindOf(m) && before(s, o, m)
		}
		if b.inst.Fleet == binpack.Fixed || s.Items(m) > 0 || !slices.ContainsFunc(some, lower) {
			want = append(want, m)
		}
	}
	require.ElementsMatch(b.t, want, s.Candidates(some))
}

func shuffle(d dice, machines []int32) {
	for i := range machines {
		j := d.IntN(i + 1)
		machines[i], machines[j] = machines[j], machines[i]
	}
}

func TestRankNotFinite(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{"t"}, Fleet: binpack.Fixed,
		Machines: []binpack.MachineLine{{Name: "m", Count: 4, Capacity: []int64{8}}},
		Groups:   []binpack.Group{{Name: "g"}}, Apps: []binpack.App{{Name: "a", Demand: []int64{1}}},
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		state := binpack.NewState(inst)
		_, err := state.Rank(drawn{[]float64{1, 2, bad, 0}}, binpack.Item{}, []int32{0, 1, 2, 3}, 2, nil)
		require.ErrorIs(t, err, binpack.ErrNotFinite)
		got, err := state.Rank(drawn{[]float64{1, 2, bad, 0}}, binpack.Item{}, []int32{0, 1, 3}, 2, nil)
		require.NoError(t, err)
		require.Equal(t, []binpack.Ranked{{Machine: 1, Score: 2}, {Machine: 0, Score: 1}}, got)
	}
}

// A state into which all items are booked again, in another order, and whose past
// is restored is like the one that lived through it, and goes on like it.
func TestBookAndRestore(t *testing.T) {
	for seed := range uint64(200) {
		d := seeded(6000 + seed)
		lived := newBench(t, randomInstance(d, false))
		for range 60 {
			if app := int32(d.IntN(len(lived.inst.Apps))); d.IntN(2) == 0 {
				lived.state.Arrive(app, int32(1+d.IntN(3)))
			}
			lived.step(d)
		}
		restored := newBench(t, lived.inst)
		restored.world, restored.serial = lived.world, lived.serial
		restored.world.items = slices.Clone(lived.world.items)
		history := binpack.History{
			Seen: lived.state.Seen(), Requests: lived.state.Requests(), SumSquares: lived.state.SumSquares(),
			Placements: lived.state.Placements(), Departures: lived.state.Departures(), LastArrival: lived.state.LastArrival(),
		}
		for m := range int32(lived.state.Size()) { // machines come into being in the same order
			require.Equal(t, m, restored.state.MachineAt(lived.state.Position(m)))
			history.LastUsed = append(history.LastUsed, lived.state.LastUsed(m))
			history.Opened = append(history.Opened, lived.state.Opened(m))
		}
		for _, p := range slices.Backward(restored.world.items) {
			restored.state.Book(p.app, restored.state.MachineAt(p.line, p.index))
			require.NoError(t, restored.checker.Initial(p.app, p.line, p.index, nil))
		}
		follower := rule.BestFit{}.Scorer(restored.state)
		_, seq, _ := restored.state.Changes(0, nil)
		restored.state.Restore(history)
		_, _, all := restored.state.Changes(seq, nil)
		require.True(t, all, "readers of the journal learn")

		require.Equal(t, lived.state.RequestCount(), restored.state.RequestCount())
		require.Equal(t, lived.state.Placements(), restored.state.Placements())
		require.Equal(t, lived.state.Departures(), restored.state.Departures())
		require.Equal(t, lived.state.LastArrival(), restored.state.LastArrival())
		require.Equal(t, lived.state.Seen(), restored.state.Seen())
		require.Equal(t, lived.state.Requests(), restored.state.Requests())
		require.Equal(t, lived.state.SumSquares(), restored.state.SumSquares())
		scorer := rule.BestFit{}.Scorer(lived.state)
		for range 20 {
			size := lived.state.Size()
			require.Equal(t, picture(lived.state, size), picture(restored.state, size))
			for m := range int32(size) {
				require.Equal(t, lived.state.LastUsed(m), restored.state.LastUsed(m))
				require.Equal(t, lived.state.Opened(m), restored.state.Opened(m))
			}
			item := binpack.Item{App: int32(d.IntN(len(lived.inst.Apps)))}
			m, err := lived.state.Choose(scorer, item)
			other, otherErr := restored.state.Choose(follower, item)
			require.Equal(t, err, otherErr)
			if err != nil {
				continue
			}
			require.Equal(t, m, other)
			lived.place(item.App, m, nil)
			restored.place(item.App, m, nil)
		}
	}
}

// Book takes what is found, even more than there is room for: then nothing fits
// until it is gone, and taking it off gives back exactly that.
func TestBookBeyondCapacity(t *testing.T) {
	inst := &binpack.Instance{
		Dimensions: []binpack.Dimension{{Name: "cpu", One: 1}}, Types: []string{"t"}, Fleet: binpack.Fixed,
		Machines: []binpack.MachineLine{{Name: "m", Count: 1, Capacity: []int64{8}}},
		Groups:   []binpack.Group{{Name: "big", Limit: 1}, {Name: "none"}},
		Apps:     []binpack.App{{Name: "big", Demand: []int64{5}}, {Name: "none", Group: 1, Demand: []int64{0}}},
	}
	state := binpack.NewState(inst)
	require.True(t, state.Fits(1, 0))
	before := picture(state, 1)
	state.Book(0, 0)
	state.Book(0, 0) // beyond the limit, too
	require.Equal(t, int64(-2), state.Free(0)[0])
	require.False(t, state.Fits(0, 0))
	require.False(t, state.Fits(1, 0))
	require.Empty(t, state.Feasible(1, nil))
	state.Remove(0, 0, nil)
	require.Equal(t, int64(3), state.Free(0)[0])
	require.True(t, state.Fits(1, 0))
	state.Remove(0, 0, nil)
	require.Equal(t, before, picture(state, 1))
}
