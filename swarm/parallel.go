package swarm

import (
	"context"
	"sync"
	"sync/atomic"
)

// Objective evaluates one task: its value, lower is better, and with several
// objectives their vector.
type Objective func(ctx context.Context, t Task) (value float64, objectives []float64, err error)

// Func makes an [Objective] of a plain function of the position.
func Func(f func(x []float64) float64) Objective {
	return func(_ context.Context, t Task) (float64, []float64, error) { return f(t.X), nil, nil }
}

// Parallel evaluates a generation with the given number of goroutines, at least
// one. After an error, or when ctx is done, no further task is begun; the error
// returned is that of the lowest index.
func Parallel(workers int, objective Objective) Evaluate {
	return func(ctx context.Context, tasks []Task, done Done) error {
		var next atomic.Int64
		var failed atomic.Bool
		errs := make([]error, len(tasks))
		work := func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(tasks) {
					return
				}
				if errs[i] = one(ctx, tasks[i], objective, done); errs[i] != nil {
					failed.Store(true)
				}
			}
		}
		var wg sync.WaitGroup
		for range min(max(workers, 1), len(tasks)) {
			wg.Go(work)
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func one(ctx context.Context, t Task, objective Objective, done Done) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	value, objectives, err := objective(ctx, t)
	if err != nil {
		return err
	}
	return done(t, value, objectives...)
}
