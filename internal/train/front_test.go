package train

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/swarm"
)

func frontConfig(workers int) Config {
	cfg := smallConfig(2, workers)
	cfg.Objectives = []string{"machines", "balance", "spread"}
	cfg.Evaluations = 100
	return cfg
}

func TestFront(t *testing.T) {
	cfg := frontConfig(1)
	front, err := RunFront(t.Context(), cfg)
	require.NoError(t, err)
	require.Greater(t, len(front.Points), 3)
	for i, p := range front.Points {
		require.NoError(t, p.Object.Validate())
		for k, q := range front.Points {
			worse := slices.ContainsFunc([]int{0, 1, 2}, func(m int) bool { return q.Objectives[m] > p.Objectives[m] })
			require.True(t, i == k || worse, "point %d dominates point %d", k, i)
		}
	}
	all := make([]int, len(front.Points))
	for i := range all {
		all[i] = i
	}
	again, err := front.On(t.Context(), cfg.Traces, all)
	require.NoError(t, err)
	for i, p := range front.Points {
		require.Equal(t, p.Objectives, again[i])
	}

	// The same with more workers, and after an interrupt.
	same := func(other *Front) {
		t.Helper()
		require.Len(t, other.Points, len(front.Points))
		for i, p := range other.Points {
			require.Equal(t, string(front.Points[i].Object.Bytes()), string(p.Object.Bytes()))
		}
	}
	other, err := RunFront(t.Context(), frontConfig(3))
	require.NoError(t, err)
	same(other)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Checkpoint = filepath.Join(t.TempDir(), "checkpoint")
	cfg.Progress = func(s swarm.Stats) {
		if s.Generation == 2 {
			cancel()
		}
	}
	_, err = RunFront(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	cfg.Progress = nil
	other, err = RunFront(t.Context(), cfg)
	require.NoError(t, err)
	same(other)
	cfg.Objectives = []string{"machines", "balance"}
	_, err = RunFront(t.Context(), cfg)
	require.ErrorIs(t, err, swarm.ErrSettings)
}

// Each objective is what its measure says of one replay.
func TestObjectives(t *testing.T) {
	cfg := smallConfig(1, 1)
	cfg.Objectives = Objectives()
	require.NoError(t, cfg.complete())
	sp, err := newSpace(&cfg)
	require.NoError(t, err)
	ev, err := newEvaluator(t.Context(), &cfg, sp)
	require.NoError(t, err)
	x := sp.box.Hi
	value, got, err := ev.objective(t.Context(), swarm.Task{X: x})
	require.NoError(t, err)
	p, err := sp.object(x).Policy()
	require.NoError(t, err)
	r := cerebro.NewReplayer(cfg.Traces[0])
	run, err := r.Run(p, cerebro.Options{Order: 1, Seed: cfg.Seed})
	require.NoError(t, err)
	require.Zero(t, run.Unplaced)
	events := cfg.Traces[0].Events
	mean := float64(run.Machines)
	if s := events[len(events)-1].Time - events[0].Time; s > 0 {
		mean = run.MachineSeconds / s
	}
	want := []float64{float64(run.Machines) / 15, mean / 15, run.Cost / 15, run.Balance, 1 - measure.Spread(r.State())}
	require.Equal(t, []string{"machines", "mean_machines", "cost", "balance", "spread"}, Objectives())
	require.InDeltaSlice(t, want, got, 1e-12)
	require.InDelta(t, (want[0]+want[1]+want[2]+want[3]+want[4])/5, value, 1e-12)
}

func TestChoose(t *testing.T) {
	f := &Front{Objectives: []string{"machines", "balance"}}
	for _, p := range [][]float64{{1, 9}, {2, 4}, {3, 3}, {8, 2}, {9, 1}} {
		f.Points = append(f.Points, FrontPoint{Objectives: p})
	}
	require.Equal(t, []Choice{{"knee", 2}, {"machines", 0}, {"balance", 4}}, f.Choose(0))
	require.Equal(t, []Choice{{"knee", 2}}, f.Choose(1))
	require.Equal(t, []Choice{{"knee", 2}, {"machines", 0}, {"balance", 4}, {"point-4", 1}, {"point-5", 3}}, f.Choose(9))
}

func TestBadObjectives(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"machines"}, "want at least two"},
		{[]string{"machines", "beauty"}, `unknown objective "beauty": there are machines, mean_machines`},
		{[]string{"cost", "cost"}, "given twice"},
	} {
		cfg := frontConfig(1)
		cfg.Objectives = c.names
		_, err := RunFront(t.Context(), cfg)
		require.ErrorContains(t, err, c.want)
	}
	cfg := frontConfig(1)
	cfg.Optimizer = "cmaes"
	_, err := RunFront(t.Context(), cfg)
	require.ErrorContains(t, err, "one objective only")
}
