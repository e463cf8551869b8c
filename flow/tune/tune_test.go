package tune

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
)

// heavy is a made-up distribution with many short flows and most bytes in few long ones.
func heavy(t testing.TB) *flow.Sizes {
	t.Helper()
	s, err := flow.ParseSizes("heavy", strings.NewReader("size_bytes,cdf\n100,0\n10e3,.5\n100e3,.8\n1e6,.9\n10e6,.98\n30e6,1\n"), false)
	require.NoError(t, err)
	return s
}

func TestFairIsTwo(t *testing.T) {
	p := NewProblem(heavy(t), .8, 5000, 1, nil)
	require.InDelta(t, 2, p.Value(nil), 1e-12)
	require.InDelta(t, 2, p.Value(flow.Thresholds{1e12}), 1e-9)
	require.Less(t, p.Value(flow.Thresholds{100_000, 2_000_000}), 1.6)
}

// Each band has a quarter of the bytes.
func TestEqualLoads(t *testing.T) {
	s := heavy(t)
	before := 0.
	for _, a := range EqualLoads(s, 4) {
		first, _ := s.Capped(float64(a))
		require.InEpsilon(t, s.Mean()/4, first-before, .01)
		before = first
	}
}

// Every method beats its starting points where it was searched, again with the same seed, and
// keeps close to them on other arrivals.
func TestSearch(t *testing.T) {
	s := heavy(t)
	held := NewProblem(s, .8, 100_000, 2, nil)
	for _, method := range Methods() {
		p := NewProblem(s, .8, 20_000, 1, nil)
		found, value, err := p.Search(t.Context(), Search{Bands: 4, Method: method, Budget: 60, Seed: 1})
		require.NoError(t, err)
		require.NoError(t, found.Validate())
		require.Len(t, found, 3)
		require.InDelta(t, value, p.Value(found), 1e-12)
		require.LessOrEqual(t, value, min(p.Value(EqualLoads(s, 4)), p.Value(p.cascade(4))), method)
		require.Less(t, held.Value(found), held.Value(EqualLoads(s, 4))*1.01, method)
		again, _, err := NewProblem(s, .8, 20_000, 1, nil).Search(t.Context(), Search{Bands: 4, Method: method, Budget: 60, Seed: 1})
		require.NoError(t, err)
		require.Equal(t, found, again)
	}
}

// A start is tried: nothing worse comes out, however small the budget.
func TestStart(t *testing.T) {
	p := NewProblem(heavy(t), .8, 20_000, 1, nil)
	good, value, err := p.Search(t.Context(), Search{Bands: 3, Budget: 100, Seed: 1})
	require.NoError(t, err)
	_, again, err := p.Search(t.Context(), Search{Bands: 3, Budget: 5, Seed: 9, Start: []flow.Thresholds{good, {1, 2, 3}}})
	require.NoError(t, err)
	require.LessOrEqual(t, again, value*(1+1e-9))
}

// Estimates help the mean, and wrong ones do not undo what the first band does for short flows.
func TestHints(t *testing.T) {
	s := heavy(t)
	search := func(h *sim.Hints) flow.Thresholds {
		found, _, err := NewProblem(s, .8, 50_000, 1, h).Search(t.Context(), Search{Bands: 4, Budget: 100, Seed: 1})
		require.NoError(t, err)
		return found
	}
	held := func(h *sim.Hints, found flow.Thresholds) (fct, slowdown float64) {
		return NewProblem(s, .8, 100_000, 2, h).Shares(found)
	}
	hints := &sim.Hints{Error: .5}
	with, without := search(hints), search(nil)
	none, slowNone := held(nil, without)
	good, _ := held(hints, with)
	bad, slowBad := held(&sim.Hints{Error: .5, Wrong: 1}, with)
	t.Logf("without %.3f, with %.3f, wrong %.3f of fair sharing; slowdown %.3f, %.3f", none, good, bad, slowNone, slowBad)
	require.Less(t, good, .92*none)
	require.Less(t, bad, 1.25*none)
	require.Less(t, slowBad, 3*slowNone)
}

func TestRefusedSearches(t *testing.T) {
	p := NewProblem(heavy(t), .8, 1000, 1, nil)
	for want, s := range map[string]Search{
		"1 bands: want 2 to 8":      {Bands: 1, Budget: 10},
		"9 bands: want 2 to 8":      {Bands: 9, Budget: 10},
		`unknown method "newton"; `: {Bands: 4, Budget: 10, Method: "newton"},
	} {
		_, _, err := p.Search(t.Context(), s)
		require.ErrorContains(t, err, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, _, err := p.Search(ctx, Search{Bands: 4, Budget: 10})
	require.ErrorIs(t, err, context.Canceled)
}

// Ascending, whatever the numbers.
func TestThresholdsOfNumbers(t *testing.T) {
	for _, x := range [][]float64{{1, 1, 1}, {30, 2, 30}, {0, 0, 0, 0, 0, 0, 0}, {40, 40}} {
		require.NoError(t, thresholds(x).Validate(), x)
	}
	require.Equal(t, flow.Thresholds{1230}, thresholds([]float64{7.1164})) // e^7.1164 = 1232
}

// Decisions on a window of sizes: bands where there were none, then nothing better, and after a change of the
// sizes other bands, whatever the step.
func TestDecisions(t *testing.T) {
	s := heavy(t)
	var w flow.Window
	fill := func(s *flow.Sizes, n int, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range n {
			_, err := w.Add(max(1, s.Quantile(rng.Float64())))
			require.NoError(t, err)
		}
	}
	fill(s, 3000, 1)
	d := flow.Decider{Bands: 4, Tuner: Tuner{}}
	now := time.Unix(0, 0)
	first, err := d.Decide(now, &w, .8)
	require.NoError(t, err)
	require.False(t, first.Hold, first.Reason)
	require.InDelta(t, 2, first.Present, 1e-12, "no bands are fair sharing")
	held := NewProblem(s, .8, 100_000, 77, nil)
	found, _, err := held.Search(t.Context(), Search{Bands: 4, Budget: 200, Seed: 3})
	require.NoError(t, err)
	require.Less(t, held.Value(first.Thresholds), held.Value(found)*1.04, "near to the best that these arrivals have")

	second, err := d.Decide(now.Add(time.Minute), &w, .8)
	require.NoError(t, err)
	require.True(t, second.Hold, second.Reason)
	require.Equal(t, first.Thresholds, second.Thresholds)

	// Sizes a hundred times smaller: all thresholds are far too large.
	small := s.Scaled(.01)
	fill(small, 500, 2)
	require.Equal(t, 1, w.Changes())
	third, err := d.Decide(now.Add(2*time.Minute), &w, .8)
	require.NoError(t, err)
	require.False(t, third.Hold, third.Reason)
	require.Contains(t, third.Reason, "the sizes have changed")
	require.Less(t, third.Thresholds[0], first.Thresholds[0]/flow.MostStep)
}

func TestTunerIsReproducible(t *testing.T) {
	s := heavy(t)
	one, err := Tuner{}.Propose(s, .8, 4, nil, 5)
	require.NoError(t, err)
	again, err := Tuner{}.Propose(s, .8, 4, nil, 5)
	require.NoError(t, err)
	require.Equal(t, one, again)
	values := Tuner{}.Values(s, .8, 5, nil, one)
	require.Equal(t, values, Tuner{}.Values(s, .8, 5, nil, one))
	require.NotEqual(t, NewProblem(s, .8, Arrivals(.8), 5, nil).Value(one), values[1], "other arrivals judge")
}
