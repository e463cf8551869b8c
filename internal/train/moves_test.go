package train

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// TestCostOfMoves: every replay of a position repairs, a move costs its price, here and on another machine, and
// the policy file says so.
func TestCostOfMoves(t *testing.T) {
	for _, kind := range []string{"fixed", "large"} {
		settings := map[string]string{"scale": ".1"}
		if kind == "fixed" {
			settings["f"] = "1"
		}
		tr, err := generate.Generate(kind, 3, settings)
		require.NoError(t, err)
		cfg := Config{
			Traces: []*trace.Trace{tr}, Orders: 1, Knowledge: binpack.K0, Features: []string{"util", "mean"}, Evaluations: 1, Seed: 5, Workers: 1,
			Repair: &cerebro.Repair{Budget: .1, Chain: 4}, Rebalance: &cerebro.Rebalance{Every: 1e5, Moves: .02}, MovePrice: .25,
		}
		require.NoError(t, cfg.complete())
		sp, err := newSpace(&cfg)
		require.NoError(t, err)
		ev, err := newEvaluator(t.Context(), &cfg, sp)
		require.NoError(t, err)
		task := swarm.Task{X: []float64{.5, .5}}
		cost, _, err := ev.objective(t.Context(), task)
		require.NoError(t, err)

		p, err := sp.object(task.X).Policy()
		require.NoError(t, err)
		r := cerebro.NewReplayer(tr)
		sc := cerebro.DrawScenarios(cfg.Seed, 1, 0)[0]
		run, err := r.Run(p, cerebro.Options{Order: sc.Order, Seed: cfg.Seed, Brief: true, Repair: cfg.Repair, Rebalance: cfg.Rebalance})
		require.NoError(t, err)
		require.Greater(t, run.Moves, 5)
		s := scaleOf(tr)
		require.InDelta(t, Cost(r, run, s.cost, false)+.25*float64(run.Moves)/s.machines, cost, 1e-12)

		set, err := ev.settings(sp)
		require.NoError(t, err)
		job, err := ev.job(set)
		require.NoError(t, err)
		there, err := job.Objective(t.Context())
		require.NoError(t, err)
		same, _, err := there(t.Context(), task)
		require.NoError(t, err)
		require.Equal(t, cost, same)

		object, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, "budget=10%,chain=4", object.Spec.Provenance["repair"])
		require.Equal(t, "every=27h46m40s,moves=2%", object.Spec.Provenance["rebalance"])
		require.Equal(t, .25, object.Spec.Provenance["move_price"])

		// Objectives, too, have the price of moves in them.
		cfg.Objectives = []string{"machines", "cost"}
		_, list, err := ev.objective(t.Context(), task)
		require.NoError(t, err)
		require.InDelta(t, float64(run.Machines)/s.machines+penalty(run)+.25*float64(run.Moves)/s.machines, list[0], 1e-12)
		text, err := json.Marshal(set)
		require.NoError(t, err)
		require.Contains(t, string(text), `"repair":"budget=10%,chain=4"`, "a checkpoint of other settings is refused")
	}
}
