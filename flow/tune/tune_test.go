package tune

import (
	"context"
	"strings"
	"testing"

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
