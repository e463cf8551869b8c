package cerebro_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Where items arrive at several times, an order of a replay with use shuffles those of each moment, and each item lives when
// it did.
func TestOrdersKeepTimesWithUse(t *testing.T) {
	tr, u := used(rand.New(rand.NewPCG(3, 0)), 2)
	for i := range tr.Events { // some moments have several arrivals
		if i > 0 && i%2 == 1 && tr.Events[i].Kind == trace.Create && tr.Events[i-1].Kind == trace.Create {
			tr.Events[i].Time = tr.Events[i-1].Time
		}
	}
	require.False(t, cerebro.AtOnce(tr))
	r := cerebro.NewReplayer(tr)
	arrivals := func(opt cerebro.Options) (list []cerebro.Decision, run cerebro.Run) {
		opt.Check = true
		opt.Record = func(d cerebro.Decision) {
			if d.Kind == cerebro.Place {
				list = append(list, cerebro.Decision{Time: d.Time, Request: d.Request, Item: d.Item})
			}
		}
		run, err := r.Run(rule.BestFit{}, opt)
		require.NoError(t, err)
		require.Zero(t, run.Violations)
		return list, run
	}
	sorted := func(list []cerebro.Decision) []cerebro.Decision {
		return slices.SortedFunc(slices.Values(list), func(a, b cerebro.Decision) int {
			return slices.Compare([]int32{a.Request, a.Item}, []int32{b.Request, b.Item})
		})
	}
	file, of := arrivals(cerebro.Options{Usage: u})
	other, shuffled := arrivals(cerebro.Options{Usage: u, Order: 1, Seed: 1})
	require.NotEqual(t, file, other)
	require.Equal(t, sorted(file), sorted(other), "each item arrives at its time")
	require.InDelta(t, of.Use.ItemSeconds, shuffled.Use.ItemSeconds, 1e-6)
	again, _ := arrivals(cerebro.Options{Usage: u, Order: 1, Seed: 1})
	require.Equal(t, other, again)
	without, _ := arrivals(cerebro.Options{Order: 1, Seed: 1})
	require.NotEqual(t, sorted(file), sorted(without), "without use the order changes the times")
}
