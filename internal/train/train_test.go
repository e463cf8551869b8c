package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// victimDir, when set, makes the test binary a trainer that is to be killed.
const victimDir = "SIGMA_TRAIN_VICTIM"

const victimEvaluations = 8000

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
		return
	}
	os.Exit(m.Run())
}

func victim(dir string) {
	cfg := smallConfig(2, 3)
	cfg.Evaluations = victimEvaluations
	cfg.Checkpoint = filepath.Join(dir, "checkpoint")
	object, err := Run(context.Background(), cfg)
	if err == nil {
		err = object.Save(filepath.Join(dir, "policy.yaml"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func smallTraces(n int, seed uint64) []*trace.Trace {
	var list []*trace.Trace
	for i := range n {
		t, err := generate.Generate("small", seed+uint64(i), nil)
		if err != nil {
			panic(err)
		}
		list = append(list, t)
	}
	return list
}

func smallConfig(traces, workers int) Config {
	return Config{
		Traces: smallTraces(traces, 1), Orders: 1, Knowledge: binpack.K1, Evaluations: 60,
		Seed: 5, Workers: workers, Risk: -1, Name: "test",
	}
}

// TestKillAndResume kills a trainer at 50 random moments; each start goes on
// where the one before was killed, and the end has the bytes of a run that
// was never killed.
func TestKillAndResume(t *testing.T) {
	if testing.Short() {
		t.Skip("kills 50 processes")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	start := func(dir string) *exec.Cmd {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), victimDir+"="+dir)
		cmd.Stderr = os.Stderr
		return cmd
	}
	calm := t.TempDir()
	begin := time.Now()
	require.NoError(t, start(calm).Run())
	whole := time.Since(begin)

	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(11, 0))
	kills, underWay := 0, 0
	for range 50 {
		cmd := start(dir)
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(rng.Int64N(int64(whole) / 24)))
		require.NoError(t, cmd.Process.Kill())
		if err := cmd.Wait(); err != nil {
			kills++
		}
		record, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
		if err == nil {
			if n := bytes.Count(record, []byte("\n")) - 1; n > 0 && n < victimEvaluations {
				underWay++
			}
		}
	}
	t.Logf("killed %d times, %d of them with the training under way; undisturbed it takes %v", kills, underWay, whole)
	require.GreaterOrEqual(t, underWay, 10)
	require.NoError(t, start(dir).Run())
	want, err := os.ReadFile(filepath.Join(calm, "policy.yaml"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestSameBytesForAnyWorkers(t *testing.T) {
	for _, optimizer := range Optimizers() {
		var want string
		for _, workers := range []int{1, 2, 7} {
			cfg := smallConfig(3, workers)
			cfg.Optimizer = optimizer
			object, err := Run(context.Background(), cfg)
			require.NoError(t, err)
			if want == "" {
				want = string(object.Bytes())
			}
			require.Equal(t, want, string(object.Bytes()), "%s with %d workers", optimizer, workers)
		}
	}
}

func TestTestSeedsAreRefused(t *testing.T) {
	cfg := smallConfig(1, 1)
	cfg.Traces = smallTraces(1, FirstTestSeed)
	_, err := Run(context.Background(), cfg)
	require.ErrorContains(t, err, "test seed 900000")
}

func TestOtherSettingsAreRefused(t *testing.T) {
	cfg := smallConfig(1, 1)
	cfg.Evaluations = 20
	cfg.Checkpoint = filepath.Join(t.TempDir(), "checkpoint")
	_, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	cfg.Workers = 2
	_, err = Run(context.Background(), cfg)
	require.NoError(t, err, "the number of workers is not a setting")
	cfg.Risk = .5
	_, err = Run(context.Background(), cfg)
	require.ErrorIs(t, err, swarm.ErrSettings)
	require.ErrorContains(t, err, "risk")
}

// TestLearns: a short run beats Best-Fit and Worst-Fit on the traces that it
// was trained on.
func TestLearns(t *testing.T) {
	cfg := smallConfig(5, 2)
	cfg.Evaluations = 120
	object, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	learned, err := object.Policy()
	require.NoError(t, err)
	mean := func(p binpack.Policy) float64 {
		sum := 0.0
		for _, tr := range cfg.Traces {
			run, err := cerebro.NewReplayer(tr).Run(p, cerebro.Options{Order: 1, Seed: cfg.Seed, Check: true})
			require.NoError(t, err)
			require.Zero(t, run.Violations)
			sum += float64(run.Machines)
		}
		return sum / float64(len(cfg.Traces))
	}
	require.Less(t, mean(learned), .85*mean(rule.BestFit{}))
	require.Less(t, mean(learned), mean(rule.WorstFit{}))
}

func TestInterruptKeepsTheBest(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cfg := smallConfig(1, 2)
	cfg.Evaluations = 100_000
	cfg.Progress = func(s swarm.Stats) {
		if s.Generation == 2 {
			cancel()
		}
	}
	object, err := Run(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, object)
	require.NoError(t, object.Validate())
}

func TestStartIsTaken(t *testing.T) {
	cfg := smallConfig(2, 1)
	cfg.Evaluations = 20
	first, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	cfg.Start, cfg.Evaluations, cfg.Optimizer = first, 1, "random"
	second, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.Equal(t, first.Spec.Weights, second.Spec.Weights)
	require.Equal(t, first.Spec.Parameters, second.Spec.Parameters)
}

// TestRisk: fitness is mean + ρ·(worst − mean) over the scenarios.
func TestRisk(t *testing.T) {
	fitness := func(risk float64) float64 {
		cfg := smallConfig(1, 1)
		cfg.Orders, cfg.Risk = 4, risk
		require.NoError(t, cfg.complete())
		sp, err := newSpace(&cfg)
		require.NoError(t, err)
		ev, err := newEvaluator(t.Context(), &cfg, sp)
		require.NoError(t, err)
		value, _, err := ev.objective(context.Background(), swarm.Task{X: sp.box.Lo})
		require.NoError(t, err)
		return value
	}
	mean, worst := fitness(0), fitness(1)
	require.Greater(t, worst, mean)
	require.InDelta(t, mean+.25*(worst-mean), fitness(.25), 1e-12)
	require.InDelta(t, mean+DefaultRisk*(worst-mean), fitness(-1), 1e-12)
}

// TestSample: a generation sees some of the traces, evenly spread, all take their
// turn, and the bytes do not depend on the number of workers.
func TestSample(t *testing.T) {
	cfg := smallConfig(6, 1)
	cfg.Orders, cfg.Sample, cfg.Renew, cfg.Optimizer = 2, 2, 3, "cmaes"
	require.NoError(t, cfg.complete())
	require.Equal(t, 4, cfg.Replays())
	sp, err := newSpace(&cfg)
	require.NoError(t, err)
	ev, err := newEvaluator(t.Context(), &cfg, sp)
	require.NoError(t, err)
	for generation, want := range map[int][]int{0: {0, 0, 3, 3}, 2: {0, 0, 3, 3}, 3: {1, 1, 4, 4}, 6: {2, 2, 5, 5}, 9: {3, 3, 0, 0}} {
		var got []int
		for _, sc := range ev.scenariosOf(generation) {
			got = append(got, sc.trace)
		}
		require.Equal(t, want, got, "generation %d", generation)
		require.Equal(t, generation%3 == 0, cfg.renews(generation))
	}
	var objects []string
	for _, workers := range []int{1, 7} {
		cfg.Workers = workers
		object, err := Run(context.Background(), cfg)
		require.NoError(t, err)
		require.Equal(t, 2, object.Spec.Provenance["sample"])
		objects = append(objects, string(object.Bytes()))
	}
	require.Equal(t, objects[0], objects[1])
	cfg.Sample = 7
	_, err = Run(context.Background(), cfg)
	require.ErrorContains(t, err, "sample 7: there are 6 traces")
}

// A job may come from anybody on a server: what would take all memory is refused, and
// what takes long can be ended.
func TestHostileJob(t *testing.T) {
	cfg := smallConfig(1, 1)
	cfg.Guard, cfg.Evaluations = 1, 1
	objective := func(ctx context.Context, change func(*Config)) error {
		c := cfg
		change(&c)
		text, err := json.Marshal(c)
		require.NoError(t, err)
		_, err = (&Job{ID: "x", Config: text, Traces: cfg.Traces}).Objective(ctx)
		return err
	}
	require.NoError(t, objective(t.Context(), func(*Config) {}))
	require.ErrorContains(t, objective(t.Context(), func(c *Config) { c.Orders = 1 << 40 }), "orders 1099511627776: want from 0 to 1048576")
	require.ErrorContains(t, objective(t.Context(), func(c *Config) { c.Sample = 9 }), "sample 9: there are 1 traces")
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, objective(ended, func(*Config) {}), context.Canceled)
}
