package cerebro_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
)

// TestMovesKeepZones replays random traces with hard limits and rules by zone while repair and
// rebalancing move items, and checks every state on the way.
func TestMovesKeepZones(t *testing.T) {
	moves, bound, refused := 0, 0, 0
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 23))
		tr := randomTrace(rng, rng.IntN(3) == 0)
		inst := tr.Instance
		names := oneOf(rng, []string{"a", "b"}, []string{"a", "b", "c"}, []string{"a", "b", ""})
		lines := len(inst.Machines)
		for i := range inst.Machines {
			inst.Machines[i].Zone = names[i%len(names)]
		}
		for k, name := range names {
			line := inst.Machines[rng.IntN(lines)]
			line.Name, line.Zone = fmt.Sprint("zoned", k), name
			inst.Machines = append(inst.Machines, line)
		}
		for g := range inst.Groups {
			inst.Groups[g].Zone = binpack.ZoneLimits{Limit: oneOf[int32](rng, 0, 0, 2, 5), SpreadMin: oneOf[int32](rng, 0, 0, 2), Skew: oneOf[int32](rng, 0, 0, 1, 2)}
		}
		if n := len(inst.Groups); n > 1 {
			inst.ZoneRules = []binpack.Rule{{A: int32(rng.IntN(n - 1)), B: int32(n - 1), Max: int32(rng.IntN(2))}}
		}
		opt := cerebro.Options{Order: rng.IntN(3), Seed: seed, Check: true, Retry: seed%8 == 0}
		if seed%2 == 0 {
			opt.Rebalance = &cerebro.Rebalance{Every: oneOf(rng, .5, 2, 7.25), Moves: oneOf(rng, .1, .5, 1)}
		}
		if seed%3 != 1 || opt.Rebalance == nil {
			opt.Repair = &cerebro.Repair{Budget: 1, Chain: oneOf(rng, 1, 4, 8)}
		}
		var h history
		opt.Record = h.record
		r := cerebro.NewReplayer(tr)
		run, err := r.Run(rule.BestFit{}, opt)
		require.NoError(t, err)
		require.Zero(t, run.Violations, "seed %d", seed)
		moved, _ := recountMoves(t, tr, r.State(), &h, 1e9)
		require.Equal(t, run.Moves, moved)
		moves += moved
		for _, d := range h.lines {
			if d.Kind == cerebro.Move && r.State().ByZone(inst.Apps[tr.Requests[d.Request].App].Group) {
				bound++
			}
		}
		refused += run.Unplaced
	}
	t.Logf("80 replays, %d moves, %d of groups that zones bind, %d items left out", moves, bound, refused)
	require.Greater(t, bound, 100)
}
