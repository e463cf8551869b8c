package whatif

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// TestLossAgainstEverything: a node's loss is harmless where trying everything finds places.
func TestLossAgainstEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	harm := 0
	for i := range 80 {
		tr, _ := random(rng, 3)
		before, err := options.plan(t.Context(), tr)
		require.NoError(t, err)
		if before.Unplaced > 0 {
			continue
		}
		full, err := stand(tr, before)
		require.NoError(t, err)
		if full.Instance.Machines[0].Count+full.Instance.Machines[1].Count < 3 {
			continue
		}
		harmless, nodes := 0, newSite(full).positions()
		for _, lost := range nodes {
			items, inst := []int{0, 0}, *full.Instance
			inst.Machines = append(slices.Clone(inst.Machines), binpack.MachineLine{})[:2]
			var rest []trace.Placed
			for _, p := range full.Placed {
				if (position{p.Line, p.Index}) == lost {
					items[full.Requests[p.Request].App] += int(p.Count)
				} else {
					rest = append(rest, p)
				}
			}
			inst.Machines[lost.line].Count--
			for i := range rest { // the place of the lost one goes to the last
				if rest[i].Line == lost.line && int(rest[i].Index) == inst.Machines[lost.line].Count {
					rest[i].Index = lost.index
				}
			}
			if !math.IsInf(least(&inst, rest, full.Requests, items), 1) {
				harmless++
			}
		}
		a := ask(t, full, Question{Lose: 1})
		require.Equal(t, []int{len(nodes), harmless}, []int{a.Loss.Tried, a.Loss.Harmless}, "case %d", i)
		require.Equal(t, harmless < len(nodes), a.Loss.LeftOut > 0)
		harm += len(nodes) - harmless
	}
	require.Greater(t, harm, 10)
}

// The worst loss is the one that searching after each loss finds, and far fewer are searched.
func TestLossSearchesFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for range 60 {
		tr, _ := random(rng, 3)
		before, err := options.plan(t.Context(), tr)
		require.NoError(t, err)
		if before.Unplaced > 0 || before.Machines < 2 {
			continue
		}
		full, err := stand(tr, before)
		require.NoError(t, err)
		unplaced, cost := -1, 0.
		for _, at := range newSite(full).positions() {
			lost := newSite(full)
			lost.loseMachine(at)
			p, err := options.plan(t.Context(), lost.t)
			require.NoError(t, err)
			if p.Unplaced > unplaced || p.Unplaced == unplaced && p.Cost > cost {
				unplaced, cost = p.Unplaced, p.Cost
			}
		}
		tried := 0
		o := options
		o.Progress = func(done, of int) {
			if of == before.Machines { // relaxations are counted, too
				tried = max(tried, done+1)
			}
		}
		a, err := Ask(t.Context(), full, &Question{Lose: 1}, o)
		require.NoError(t, err)
		require.Equal(t, before.Machines, tried)
		require.Equal(t, []any{unplaced, cost}, []any{a.Then.LeftOut, a.Then.Cost})
	}
}
