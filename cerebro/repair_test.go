package cerebro_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

type history struct{ lines []cerebro.Decision }

func (h *history) record(d cerebro.Decision) {
	d.Devices = slices.Clone(d.Devices)
	h.lines = append(h.lines, d)
}

// recountMoves carries out a history with a second checker. It returns the moves, and the most
// of them before one placement.
func recountMoves(t *testing.T, tr *trace.Trace, s *binpack.State, h *history, budget float64) (moved, longest int) {
	t.Helper()
	c := binpack.NewChecker(tr.Instance)
	type item struct{ request, number int32 }
	type place struct {
		line, index int32
		devices     []binpack.Device
	}
	at := map[item]place{}
	placed, chain, left := 0, 0, uint64(0)
	for _, d := range h.lines {
		it, app := item{d.Request, d.Item}, tr.Requests[d.Request].App
		old, stands := at[it]
		if stands {
			require.NotEqual(t, cerebro.Place, d.Kind)
			require.NoError(t, c.Remove(app, old.line, old.index, old.devices))
			delete(at, it)
		}
		if d.Kind == cerebro.Move {
			require.True(t, stands, "what moves stands")
			moved++
			chain++
			require.LessOrEqual(t, float64(moved), budget*float64(placed)+1e-9)
		} else {
			longest, chain = max(longest, chain), 0
		}
		if d.Kind == cerebro.Place {
			placed++
		}
		if d.Kind == cerebro.Remove && stands {
			left++
		}
		if d.Kind == cerebro.Place || d.Kind == cerebro.Move {
			line, index := s.Position(d.Machine)
			require.False(t, stands && old.line == line && old.index == index, "a move to where it stands")
			require.NoError(t, c.Place(app, line, index, d.Devices))
			at[it] = place{line, index, d.Devices}
		}
	}
	require.Equal(t, s.Active(), c.Machines())
	require.Equal(t, left, s.Left(), "what moves does not leave")
	return moved, longest
}

// TestRepairKeepsConstraints replays random traces in which all constraints meet and checks every
// state on the way.
func TestRepairKeepsConstraints(t *testing.T) {
	moves, more, fewer, opened := 0, 0, 0, 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 21))
		tr := randomTrace(rng, rng.IntN(3) == 0)
		list := policies(t)
		p := list[rng.IntN(len(list))]
		opt := cerebro.Options{Order: rng.IntN(3), Seed: seed, Check: true, Retry: rng.IntN(2) == 0}
		r := cerebro.NewReplayer(tr)
		plain, err := r.Run(p, opt)
		require.NoError(t, err)
		require.Zero(t, plain.Moves)

		opt.Repair = &cerebro.Repair{Budget: oneOf(rng, .02, .5, 1), Chain: oneOf(rng, 1, 2, 8)}
		var h history
		opt.Record = h.record
		run, err := r.Run(p, opt)
		require.NoError(t, err)
		require.EqualValues(t, run.Placed, r.State().SeenTotal(), "items count once they have a machine")
		require.Zero(t, run.Violations, "seed %d, %s", seed, p.name)
		moved, longest := recountMoves(t, tr, r.State(), &h, opt.Repair.Budget)
		require.Equal(t, run.Moves, moved)
		require.LessOrEqual(t, longest, opt.Repair.Chain)
		require.Equal(t, plain.Placed+plain.Unplaced, run.Placed+run.Unplaced)
		moves += moved
		more += max(0, run.Placed-plain.Placed)
		fewer += max(0, plain.Placed-run.Placed)
		if tr.Instance.Fleet == binpack.Open && run.PeakMachines < plain.PeakMachines {
			opened++
		}

		var again history
		opt.Record = again.record
		second, err := cerebro.NewReplayer(tr).Run(p, opt)
		require.NoError(t, err)
		require.Equal(t, run, second)
		require.Equal(t, h, again, "the same seed gives the same moves")
	}
	assert.Positive(t, moves)
	assert.Greater(t, more, fewer, "repair lets in more than it keeps out")
	assert.Positive(t, opened, "repair needs fewer machines of open fleets")
}

// TestRebalanceKeepsConstraints moves at the ticks alone, no more than the share, and checks every
// state on the way.
func TestRebalanceKeepsConstraints(t *testing.T) {
	moves, cheaper, dearer := 0, 0, 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 22))
		tr := randomTrace(rng, rng.IntN(3) == 0)
		opt := cerebro.Options{Order: rng.IntN(3), Seed: seed, Check: true, Retry: rng.IntN(2) == 0, Marks: []float64{4, 11, 25}}
		r := cerebro.NewReplayer(tr)
		plain, err := r.Run(rule.BestFit{}, opt)
		require.NoError(t, err)
		opt.Rebalance = &cerebro.Rebalance{Every: oneOf(rng, .5, 2, 7.25), Moves: oneOf(rng, .1, .5, 1)}
		var h history
		opt.Record = h.record
		run, err := r.Run(rule.BestFit{}, opt)
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		moved, _ := recountMoves(t, tr, r.State(), &h, 1e9)
		require.Equal(t, run.Moves, moved)
		moves += moved
		living, at := 0, map[float64]int{}
		for _, d := range h.lines {
			switch {
			case d.Kind == cerebro.Place:
				living++
			case d.Kind == cerebro.Remove && d.Machine >= 0:
				living--
			case d.Kind == cerebro.Move:
				at[d.Time]++
				require.LessOrEqual(t, float64(at[d.Time]), opt.Rebalance.Moves*float64(living))
				ticks := (d.Time - h.lines[0].Time) / opt.Rebalance.Every
				require.InDelta(t, math.Round(ticks), ticks, 1e-9, "a move between ticks")
			}
		}
		require.Len(t, run.Marks, 3)
		if tr.Instance.Fleet == binpack.Open {
			cheaper += b2i(run.CostSeconds < plain.CostSeconds)
			dearer += b2i(run.CostSeconds > plain.CostSeconds)
		}
		opt.Repair = &cerebro.Repair{Budget: 1, Chain: 4}
		var both history
		opt.Record = both.record
		run, err = r.Run(rule.BestFit{}, opt)
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		moved, _ = recountMoves(t, tr, r.State(), &both, 1e9)
		require.Equal(t, run.Moves, moved)
	}
	assert.Positive(t, moves)
	assert.Greater(t, cheaper, 2*dearer)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSettingsSpeak: what a policy file says of a setting can be given again.
func TestSettingsSpeak(t *testing.T) {
	for _, text := range []string{"budget=2%,chain=8", "budget=0.125%,chain=3", "budget=33.3%,chain=1", "budget=2%,chain=8,takes=30s"} {
		r, err := cerebro.ParseRepair(text)
		require.NoError(t, err)
		require.Equal(t, text, r.String())
	}
	for _, text := range []string{"every=15m0s,moves=0.5%", "every=100ms,moves=7%", "every=1h0m0s,moves=1%,takes=1m0s,perhour=2.5"} {
		r, err := cerebro.ParseRebalance(text)
		require.NoError(t, err)
		require.Equal(t, text, r.String())
	}
}
