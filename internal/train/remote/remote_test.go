package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// mortalURL, when set, makes the test binary a worker at that address that
// index 7 kills.
const mortalURL = "SIGMA_REMOTE_MORTAL"

func TestMain(m *testing.M) {
	if url := os.Getenv(mortalURL); url != "" {
		conn, err := Connect(context.Background(), url, Access{}, func(line string) { fmt.Println(line) })
		if err != nil {
			panic(err)
		}
		w := Worker{Name: "mortal", Threads: 1, Objective: func(context.Context, *train.Job) (swarm.Objective, error) {
			return func(_ context.Context, t swarm.Task) (float64, []float64, error) {
				if t.Index == 7 {
					os.Exit(1)
				}
				return t.X[0], nil, nil
			}, nil
		}}
		panic(w.Run(context.Background(), conn))
	}
	os.Exit(m.Run())
}

func quiet(string) {}

func startServer(t *testing.T, access Access) *Server {
	t.Helper()
	s, err := StartServer("127.0.0.1:0", access)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func dial(t *testing.T, s *Server, access Access) *Conn {
	t.Helper()
	c, err := Connect(t.Context(), s.URL(), access, quiet)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// startWorker runs a worker until the test ends.
func startWorker(t *testing.T, s *Server, w *Worker) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	conn := dial(t, s, s.access)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func config(t testing.TB) train.Config {
	t.Helper()
	cfg := train.Config{Orders: 1, Knowledge: binpack.K1, Evaluations: 50, Seed: 5, Risk: -1, Workers: 2}
	for seed := range uint64(2) {
		tr, err := generate.Generate("small", seed+1, nil)
		require.NoError(t, err)
		cfg.Traces = append(cfg.Traces, tr)
	}
	return cfg
}

func distribute(conn *Conn, o TrainerOptions) func(context.Context, *train.Job) (train.Distributor, error) {
	return func(ctx context.Context, job *train.Job) (train.Distributor, error) {
		return NewTrainer(ctx, conn, job, o)
	}
}

func result(t *testing.T, cfg train.Config) string {
	t.Helper()
	object, err := train.Run(t.Context(), cfg)
	require.NoError(t, err)
	return string(object.Bytes())
}

func TestSameBytesForAnyWorkers(t *testing.T) {
	cfg := config(t)
	want := result(t, cfg)
	for workers := range 4 {
		s := startServer(t, Access{Token: "secret"})
		for i := range workers {
			startWorker(t, s, &Worker{Name: fmt.Sprint(i), Threads: i%2 + 1})
		}
		o := TrainerOptions{InFlight: 7}
		if workers == 0 {
			o.Threads = 2
		}
		conn, err := s.Connect(t.Context(), quiet)
		require.NoError(t, err)
		cfg.Distribute = distribute(conn, o)
		require.Equal(t, want, result(t, cfg), "%d workers", workers)
		conn.Close()
	}
}

// Trainings share a server and its workers without mixing, and leave nothing
// behind.
func TestSeveralTrainings(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	startWorker(t, s, &Worker{Name: "both", Threads: 2})
	one, other := config(t), config(t)
	other.Seed = 6
	want := []string{result(t, one), result(t, other)}
	got := make([]chan string, 2)
	for i, cfg := range []train.Config{one, other} {
		got[i] = make(chan string, 1)
		cfg.Distribute = distribute(dial(t, s, s.access), TrainerOptions{})
		go func() {
			object, err := train.Run(t.Context(), cfg)
			if err != nil {
				got[i] <- err.Error()
				return
			}
			got[i] <- string(object.Bytes())
		}()
	}
	require.Equal(t, want, []string{<-got[0], <-got[1]})
	for name := range dial(t, s, s.access).js.StreamNames(t.Context()).Name() {
		require.Fail(t, "left on the server: "+name)
	}
}

// A fake job is one with values of a function of the test's own.
func fakeJob(t testing.TB) *train.Job {
	t.Helper()
	cfg := config(t)
	var job *train.Job
	cfg.Distribute = func(_ context.Context, j *train.Job) (train.Distributor, error) {
		job = j
		return nil, errors.New("only the job is wanted")
	}
	_, err := train.Run(t.Context(), cfg)
	require.Error(t, err)
	return job
}

func fake(f swarm.Objective) func(context.Context, *train.Job) (swarm.Objective, error) {
	return func(context.Context, *train.Job) (swarm.Objective, error) { return f, nil }
}

func tasks(n int) []swarm.Task {
	list := make([]swarm.Task, n)
	for i := range list {
		list[i] = swarm.Task{Generation: 3, Index: i, X: []float64{float64(i) / 3}}
	}
	return list
}

// evaluate runs n tasks and checks their values.
func evaluate(t *testing.T, s *Server, o TrainerOptions, n int, value func(swarm.Task) float64) error {
	t.Helper()
	trainer, err := NewTrainer(t.Context(), dial(t, s, s.access), fakeJob(t), o)
	require.NoError(t, err)
	err = trainer.Evaluate(t.Context(), tasks(n), func(task swarm.Task, got float64, objectives ...float64) error {
		v := value(task)
		require.Equal(t, []float64{v, v, math.Inf(1)}, append([]float64{got}, objectives...))
		return nil
	})
	require.NoError(t, trainer.Close())
	return err
}

// Every float arrives as it left, and no more tasks are under way than allowed.
func TestValuesAndBackPressure(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	root := func(task swarm.Task) float64 { return math.Sqrt(task.X[0]) }
	var answered, most atomic.Int64
	startWorker(t, s, &Worker{Name: "w", Threads: 3, Objective: fake(func(_ context.Context, task swarm.Task) (float64, []float64, error) {
		most.Store(max(most.Load(), int64(task.Index)+1-answered.Load())) // tasks go out in order
		return root(task), []float64{root(task), math.Inf(1)}, nil
	})})
	err := evaluate(t, s, TrainerOptions{InFlight: 4}, 40, func(task swarm.Task) float64 {
		answered.Add(1)
		return root(task)
	})
	require.NoError(t, err)
	require.LessOrEqual(t, most.Load(), int64(4))
	require.Positive(t, most.Load())
}

// A task whose evaluation fails, or panics, ends the run and is named.
func TestFailingTask(t *testing.T) {
	for want, f := range map[string]swarm.Objective{
		"generation 3, index 7, on w: no such machine": func(_ context.Context, task swarm.Task) (float64, []float64, error) {
			if task.Index == 7 {
				return 0, nil, errors.New("no such machine")
			}
			return 1, []float64{1, math.Inf(1)}, nil
		},
		"index 7, on w: panic: runtime error: index out of range": func(_ context.Context, task swarm.Task) (float64, []float64, error) {
			if task.Index == 7 {
				return task.X[task.Index], nil, nil
			}
			return 1, []float64{1, math.Inf(1)}, nil
		},
	} {
		s := startServer(t, Access{Token: "secret"})
		startWorker(t, s, &Worker{Name: "w", Threads: 2, Objective: fake(f)})
		err := evaluate(t, s, TrainerOptions{}, 20, func(swarm.Task) float64 { return 1 })
		require.ErrorContains(t, err, want)
	}
}

// A task that kills its worker goes to others, and after Deliveries of them the
// run ends.
func TestKillingTask(t *testing.T) {
	s := startServer(t, Access{})
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	dead := make(chan int)
	go func() { // a Deployment
		n := 0
		for ; ctx.Err() == nil; n++ {
			cmd := exec.CommandContext(ctx, exe)
			cmd.Env = append(os.Environ(), mortalURL+"="+s.URL())
			_ = cmd.Run() // it dies of index 7
		}
		dead <- n
	}()
	trainer, err := NewTrainer(t.Context(), dial(t, s, Access{}), fakeJob(t), TrainerOptions{AckWait: 200 * time.Millisecond})
	require.NoError(t, err)
	done := 0
	err = trainer.Evaluate(t.Context(), tasks(10), func(swarm.Task, float64, ...float64) error {
		done++
		return nil
	})
	require.NoError(t, trainer.Close())
	cancel()
	require.GreaterOrEqual(t, <-dead, Deliveries)
	require.ErrorContains(t, err, "generation 3, index 7")
	require.ErrorContains(t, err, "given out 5 times")
	require.LessOrEqual(t, done, 9)
}

// A worker that falls silent loses its task to another, and one that takes long
// keeps it.
func TestSilentWorker(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	var calls atomic.Int64
	startWorker(t, s, &Worker{Name: "slow", Threads: 2, Objective: fake(func(_ context.Context, task swarm.Task) (float64, []float64, error) {
		calls.Add(1)
		time.Sleep(500 * time.Millisecond) // two AckWaits
		return 1, []float64{1, math.Inf(1)}, nil
	})})
	job := fakeJob(t)
	trainer, err := NewTrainer(t.Context(), dial(t, s, s.access), job, TrainerOptions{AckWait: 250 * time.Millisecond})
	require.NoError(t, err)
	silent, other := make(chan struct{}), dial(t, s, s.access)
	go func() { // takes a task before the worker does, and forgets it
		defer close(silent)
		tasks, err := other.js.Consumer(t.Context(), streamName(trainer.run), tasksConsumer)
		if err != nil {
			return
		}
		if batch, err := tasks.Fetch(1); err == nil {
			<-batch.Messages()
		}
	}()
	err = trainer.Evaluate(t.Context(), tasks(3), func(swarm.Task, float64, ...float64) error { return nil })
	require.NoError(t, err)
	<-silent
	require.NoError(t, trainer.Close())
	require.LessOrEqual(t, calls.Load(), int64(4))
}

func TestTwinIsRefused(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	job := fakeJob(t)
	first, err := NewTrainer(t.Context(), dial(t, s, s.access), job, TrainerOptions{})
	require.NoError(t, err)
	_, err = NewTrainer(t.Context(), dial(t, s, s.access), job, TrainerOptions{})
	require.ErrorContains(t, err, "another trainer is at this very run")
	require.NoError(t, first.Close())
}

// What a server forgets is sent again.
func TestServerForgets(t *testing.T) {
	s := startServer(t, Access{Token: "secret"})
	conn := dial(t, s, s.access)
	var lost atomic.Bool
	startWorker(t, s, &Worker{Name: "w", Threads: 1, Objective: fake(func(_ context.Context, task swarm.Task) (float64, []float64, error) {
		if task.Index == 7 && !lost.Swap(true) {
			for name := range conn.js.StreamNames(context.Background()).Name() {
				_ = conn.js.DeleteStream(context.Background(), name)
			}
		}
		return 1, []float64{1, math.Inf(1)}, nil
	})})
	err := evaluate(t, s, TrainerOptions{}, 20, func(swarm.Task) float64 { return 1 })
	require.NoError(t, err)
	require.True(t, lost.Load())
}

// Two workers are twice as fast as one, where evaluations wait instead of
// computing: then it does not matter what else the machine does.
func TestTwoWorkersAreFaster(t *testing.T) {
	seconds := map[int]float64{}
	for _, workers := range []int{1, 2} {
		s := startServer(t, Access{Token: "secret"})
		for i := range workers {
			startWorker(t, s, &Worker{Name: fmt.Sprint(i), Threads: 1, Objective: fake(func(context.Context, swarm.Task) (float64, []float64, error) {
				time.Sleep(50 * time.Millisecond)
				return 1, nil, nil
			})})
		}
		trainer, err := NewTrainer(t.Context(), dial(t, s, s.access), fakeJob(t), TrainerOptions{})
		require.NoError(t, err)
		done := func(swarm.Task, float64, ...float64) error { return nil }
		require.NoError(t, trainer.Evaluate(t.Context(), tasks(4), done)) // all have joined
		begin := time.Now()
		for range 3 {
			require.NoError(t, trainer.Evaluate(t.Context(), tasks(20), done))
		}
		seconds[workers] = time.Since(begin).Seconds()
		require.NoError(t, trainer.Close())
	}
	t.Logf("times as fast: %.3f", seconds[1]/seconds[2])
	require.Greater(t, seconds[1]/seconds[2], 1.5)
}
