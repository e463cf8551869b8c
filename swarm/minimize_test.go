package swarm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// transcript is all that a run reports, with exact floats.
func transcript(t *testing.T, name string, seed uint64, workers int, o Options) string {
	t.Helper()
	var b strings.Builder
	o.Progress = func(s Stats) { fmt.Fprintf(&b, "%#v\n", s) }
	opt := newOptimiser(t, name, Search{Box: Cube(5, -3, 2), Seed: seed})
	r, err := Minimize(context.Background(), opt, Parallel(workers, Func(rastrigin)), o)
	require.NoError(t, err)
	fmt.Fprintf(&b, "%#v\n", r)
	return b.String()
}

func TestSameBytesWhateverTheWorkers(t *testing.T) {
	for _, o := range optimisers {
		t.Run(o.name, func(t *testing.T) {
			options := Options{Budget: 1234, Renew: func(g int) bool { return g%7 == 0 }}
			want := transcript(t, o.name, 1, 1, options)
			for range 3 {
				require.Equal(t, want, transcript(t, o.name, 1, 7, options))
			}
			require.NotEqual(t, want, transcript(t, o.name, 2, 7, options))
		})
	}
}

func TestBudgetIsExact(t *testing.T) {
	for _, o := range optimisers {
		for _, budget := range []int{1, 19, 20, 21, 333} {
			var calls atomic.Int64
			count := func(x []float64) float64 { calls.Add(1); return sphere(x) }
			r := minimize(t, o.name, Search{Box: Cube(3, -1, 1)}, count, Options{Budget: budget})
			assert.Equal(t, budget, int(calls.Load()), o.name)
			assert.Equal(t, budget, r.Evaluations)
			assert.Equal(t, (budget+19)/20, r.Generations)
			assert.Equal(t, StopBudget, r.Stop)
		}
	}
	_, err := Minimize(context.Background(), newOptimiser(t, "pso", Search{Box: Cube(1, 0, 1)}), Parallel(1, Func(sphere)), Options{})
	require.ErrorContains(t, err, "a budget of 0")
}

func TestConvergence(t *testing.T) {
	c := Convergence{Generations: 10, Diversity: 1e-3, Improvement: 1e-3}
	plus := func(x []float64) float64 { return 100 + sphere(x) }
	var last Stats
	o := Options{Budget: 100000, Convergence: c, Progress: func(s Stats) { last = s }}
	r := minimize(t, "pso", Search{Box: Cube(3, -1, 1), Seed: 1}, plus, o)
	assert.Equal(t, StopConverged, r.Stop)
	assert.Less(t, r.Evaluations, 5000)
	assert.LessOrEqual(t, last.Diversity, c.Diversity)
	assert.Equal(t, last.GlobalBest, r.Value)

	// A flat objective does not converge while the swarm is spread out.
	flat := func([]float64) float64 { return 1 }
	r = minimize(t, "random", Search{Box: Cube(3, -1, 1), Seed: 1}, flat, Options{Budget: 2000, Convergence: c})
	assert.Equal(t, StopBudget, r.Stop)
}

func TestCalm(t *testing.T) {
	limit := Convergence{Generations: 2, Diversity: .1, Improvement: .01}
	for _, c := range []struct {
		name  string
		stats []Stats
		want  bool
	}{
		{"still", []Stats{{GlobalBest: 5}, {GlobalBest: 5}, {GlobalBest: 4.96}}, true}, // .04 ÷ 5 = .008
		{"too soon", []Stats{{GlobalBest: 5}, {GlobalBest: 5}}, false},
		{"falls", []Stats{{GlobalBest: 5}, {GlobalBest: 5}, {GlobalBest: 4.9}}, false}, // .1 ÷ 5 = .02
		{"spread", []Stats{{GlobalBest: 5}, {GlobalBest: 5}, {GlobalBest: 5, Diversity: .2}}, false},
		{"renewed", []Stats{{GlobalBest: 5}, {GlobalBest: 5}, {GlobalBest: 6, Renewed: true}}, false},
		{"at zero", []Stats{{}, {}, {}}, true},
		{"never finite", []Stats{{GlobalBest: math.Inf(1)}, {GlobalBest: math.Inf(1)}, {GlobalBest: math.Inf(1)}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calm calm
			for _, s := range c.stats {
				calm.add(s, limit)
			}
			assert.Equal(t, c.want, calm.reached(limit))
			assert.False(t, calm.reached(Convergence{}))
		})
	}
}

// Interrupted in generation 3: the result is that of generations 0 to 2.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last Stats
	objective := func(_ context.Context, task Task) (float64, []float64, error) {
		if task.Generation == 3 && task.Index == 5 {
			cancel()
		}
		return sphere(task.X), nil, nil
	}
	opt := newOptimiser(t, "pso", Search{Box: Cube(3, -1, 1), Seed: 1})
	r, err := Minimize(ctx, opt, Parallel(2, objective), Options{Budget: 1000, Progress: func(s Stats) { last = s }})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, StopInterrupted, r.Stop)
	assert.Equal(t, 3, r.Generations)
	assert.Equal(t, 60, r.Evaluations)
	assert.Equal(t, last.BestPosition, r.Position)
	assert.Equal(t, sphere(r.Position), r.Value)

	r, err = Minimize(ctx, newOptimiser(t, "pso", Search{Box: Cube(3, -1, 1)}), Parallel(2, objective), Options{Budget: 1000})
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, r.Position)
	assert.Equal(t, 0, r.Evaluations)
}

// A value that is not finite never becomes a best, in no place and no
// optimiser.
func TestNonFiniteValues(t *testing.T) {
	half := func(x []float64) float64 {
		switch {
		case x[0] < -.5:
			return math.NaN()
		case x[0] < 0:
			return math.Inf(-1)
		case x[1] < 0:
			return math.Inf(1)
		}
		return sphere(x)
	}
	for _, o := range optimisers {
		t.Run(o.name, func(t *testing.T) {
			nonFinite := 0
			options := Options{Budget: 2000, Progress: func(s Stats) { nonFinite += s.NonFinite }}
			r := minimize(t, o.name, Search{Box: Cube(2, -1, 1), Seed: 1}, half, options)
			assert.True(t, finite(r.Value))
			assert.Equal(t, half(r.Position), r.Value)
			assert.Less(t, r.Value, .1)
			assert.Greater(t, nonFinite, 20)

			opt := newOptimiser(t, o.name, Search{Box: Cube(2, -1, 1)})
			r, err := Minimize(context.Background(), opt, Parallel(1, Func(func([]float64) float64 { return math.NaN() })), Options{Budget: 200})
			require.ErrorIs(t, err, ErrNoFiniteValue)
			assert.Nil(t, r.Position)
			assert.Equal(t, 200, r.Evaluations)
		})
	}
}

// With the objective renewed, no value of the old one survives: the old one
// was 100 lower everywhere, so a value kept from it would win.
func TestRenew(t *testing.T) {
	const renewal = 5
	for _, o := range optimisers {
		t.Run(o.name, func(t *testing.T) {
			value := func(task Task) float64 {
				if task.Generation < renewal {
					return sphere(task.X) - 100
				}
				return shifted(sphere)(task.X)
			}
			var first []float64 // the first position evaluated again
			evaluate := func(_ context.Context, tasks []Task, done Done) error {
				if tasks[0].Generation == renewal {
					first = slices.Clone(tasks[0].X)
				}
				for _, task := range tasks {
					if err := done(task, value(task)); err != nil {
						return err
					}
				}
				return nil
			}
			var before, at Stats
			options := Options{Budget: 1000, Renew: func(g int) bool { return g == renewal }, Progress: func(s Stats) {
				switch s.Generation {
				case renewal - 1:
					before = s
				case renewal:
					at = s
				}
			}}
			r, err := Minimize(context.Background(), newOptimiser(t, o.name, Search{Box: Cube(3, -1, 1), Seed: 1}), evaluate, options)
			require.NoError(t, err)

			remembered := 1
			if strings.HasPrefix(o.name, "pso") {
				remembered = DefaultParticles
			}
			assert.Equal(t, remembered+DefaultParticles, at.Evaluations-before.Evaluations)
			assert.Equal(t, before.BestPosition, first) // the best first
			assert.True(t, at.Renewed)
			assert.False(t, before.Renewed)
			assert.Negative(t, before.GlobalBest)
			assert.GreaterOrEqual(t, at.GlobalBest, 0.0)
			assert.GreaterOrEqual(t, r.Value, 0.0)
			assert.Equal(t, 1000, r.Evaluations)
		})
	}
}

// The budget ends inside the renewal: what was not evaluated again does not
// count.
func TestRenewCutByBudget(t *testing.T) {
	for _, o := range optimisers {
		opt := newOptimiser(t, o.name, Search{Box: Cube(2, -1, 1), Seed: 1})
		evaluate := func(_ context.Context, tasks []Task, done Done) error {
			for _, task := range tasks {
				v := sphere(task.X) - 100
				if task.Generation > 0 {
					v = 7
				}
				if err := done(task, v); err != nil {
					return err
				}
			}
			return nil
		}
		r, err := Minimize(context.Background(), opt, evaluate, Options{Budget: 21, Renew: func(int) bool { return true }})
		require.NoError(t, err)
		assert.Equal(t, 7.0, r.Value, o.name)
	}
}

func TestEvaluateErrors(t *testing.T) {
	boom := errors.New("boom")
	run := func(e Evaluate) (Result, error) {
		return Minimize(context.Background(), newOptimiser(t, "pso", Search{Box: Cube(2, -1, 1)}), e, Options{Budget: 100})
	}
	for _, c := range []struct {
		name     string
		evaluate Evaluate
		want     string
	}{
		{"objective", Parallel(7, func(_ context.Context, task Task) (float64, []float64, error) {
			if task.Generation == 1 && task.Index == 4 {
				return 0, nil, boom
			}
			return 1, nil, nil
		}), "boom"},
		{"left out", func(_ context.Context, tasks []Task, done Done) error {
			for _, task := range tasks[2:] {
				if err := done(task, 1); err != nil {
					return err
				}
			}
			return nil
		}, "generation 0: 2 of 20 evaluations were left"},
		{"twice", func(_ context.Context, tasks []Task, done Done) error {
			for _, task := range append(tasks, tasks[0]) {
				_ = done(task, 1)
			}
			return nil
		}, "index 0: not asked for, or done twice"},
		{"not asked for", func(_ context.Context, tasks []Task, done Done) error {
			return done(Task{Generation: tasks[0].Generation, Index: 20}, 1)
		}, "index 20: not asked for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := run(c.evaluate)
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, StopFailed, r.Stop)
		})
	}

	var late Done
	_, err := run(func(_ context.Context, _ []Task, done Done) error { late = done; return boom })
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, late(Task{}, 1), "generation 0 is over")
}

// After an error no further task is begun.
func TestParallelStopsAfterAnError(t *testing.T) {
	calls := 0
	evaluate := Parallel(1, func(_ context.Context, task Task) (float64, []float64, error) {
		calls++
		if task.Index == 3 {
			return 0, nil, errors.New("boom")
		}
		return 1, nil, nil
	})
	_, err := Minimize(context.Background(), newOptimiser(t, "pso", Search{Box: Cube(1, 0, 1)}), evaluate, Options{Budget: 100})
	require.ErrorContains(t, err, "boom")
	assert.Equal(t, 4, calls)
}
