package swarm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
)

// A Task is one evaluation: the objective at position X, which is candidate
// Index of a generation. X is read, never written.
type Task struct {
	Generation int
	Index      int
	X          []float64
}

// Done hands over the result of a task: its value, lower is better, and for a
// search with several objectives also their vector, for the [Archive]. It may be
// called from several goroutines. On an error the evaluation of the generation is
// to end with that error.
type Done func(t Task, value float64, objectives ...float64) error

// Evaluate calls done once for each task, in any order and from any number of
// goroutines, and returns when all are done. All tasks are of one generation.
// The value of a task must depend on its generation and its position alone.
// Each result is recorded by done at once, so call it as soon as there is one.
type Evaluate func(ctx context.Context, tasks []Task, done Done) error

// Options set the end of [Minimize], its records and its reports.
type Options struct {
	// Budget is the number of evaluations, kept exactly: the last generation is
	// cut where it ends. Evaluations that the checkpoint answers count as well.
	Budget int
	// Convergence ends a run early; the zero value never does.
	Convergence Convergence
	// Checkpoint records every evaluation and answers those that it holds.
	Checkpoint *Checkpoint
	// Archive receives the objectives of every evaluation, in order of index.
	// A renewed objective empties it.
	Archive *Archive
	// Renew reports, before each generation but the first, whether the objective
	// has changed. If so, the remembered positions are evaluated again, within
	// the budget.
	Renew func(generation int) bool
	// Progress is called after each generation.
	Progress func(Stats)
}

// Convergence is reached when, for Generations in a row, the diversity was at
// most Diversity and the global best fell by at most Improvement, as a fraction
// of its absolute value. Generations 0 turns it off.
type Convergence struct {
	Generations int
	Diversity   float64
	Improvement float64
}

// Stats describe a run after one generation.
type Stats struct {
	Generation   int       // from 0
	Evaluations  int       // so far
	NonFinite    int       // evaluations of this generation that counted as +Inf
	Renewed      bool      // the objective changed before this generation
	GlobalBest   float64   // value; +Inf before there is a finite one
	BestPosition []float64 // nil before there is a finite value
	MeanVelocity float64   // mean |velocity| ÷ box width
	Diversity    float64   // mean normalised distance to the global best
}

// Stop is the reason why a run ended.
type Stop string

// The reasons.
const (
	StopBudget      Stop = "budget"
	StopConverged   Stop = "converged"
	StopInterrupted Stop = "interrupted" // by the context
	StopFailed      Stop = "failed"      // by an error of the evaluation or of the checkpoint
)

// Result is the outcome of a run.
type Result struct {
	Position    []float64 // nil when no value was finite
	Value       float64
	Evaluations int
	Generations int // complete ones, and the one that the budget cut
	Stop        Stop
}

// ErrNoFiniteValue is returned when a run ended without a single finite value.
var ErrNoFiniteValue = errors.New("swarm: no evaluation gave a finite value")

// Minimize runs opt, fresh from its constructor, until the budget is spent, it
// has converged or ctx is done. With an error the result holds the best of all
// complete generations; when ctx ended the run, the error wraps that of ctx.
func Minimize(ctx context.Context, opt Optimizer, evaluate Evaluate, o Options) (Result, error) {
	if o.Budget <= 0 {
		return Result{Value: math.Inf(1), Stop: StopFailed}, fmt.Errorf("swarm: a budget of %d evaluations", o.Budget)
	}
	var r Result
	var calm calm
	end := func(stop Stop, err error) (Result, error) {
		r.Position, r.Value = opt.Best()
		r.Stop = stop
		if err == nil && r.Position == nil {
			err = ErrNoFiniteValue
		}
		return r, err
	}
	for generation := 0; ; generation++ {
		switch {
		case r.Evaluations >= o.Budget:
			return end(StopBudget, nil)
		case calm.reached(o.Convergence):
			return end(StopConverged, nil)
		case ctx.Err() != nil:
			return end(StopInterrupted, ctx.Err())
		}

		renewed := generation > 0 && o.Renew != nil && o.Renew(generation)
		if renewed {
			opt.Renew()
		}
		positions := opt.Ask()
		positions = positions[:min(len(positions), o.Budget-r.Evaluations)]

		results, err := evaluateAll(ctx, generation, positions, evaluate, o.Checkpoint)
		switch {
		case err != nil && errors.Is(err, ctx.Err()):
			return end(StopInterrupted, err)
		case err != nil:
			return end(StopFailed, err)
		}
		if err := o.Archive.update(positions, results, renewed); err != nil {
			return end(StopFailed, err)
		}
		values := make([]float64, len(results))
		for i := range results {
			values[i] = results[i].value
		}
		if multi, ok := opt.(MultiOptimizer); ok {
			objectives := make([][]float64, len(results))
			for i := range results {
				objectives[i] = results[i].objectives
			}
			multi.TellObjectives(objectives)
		}
		opt.Tell(values)

		r.Evaluations += len(values)
		r.Generations++
		s := stats(opt, generation, values)
		s.Evaluations, s.Renewed = r.Evaluations, renewed
		calm.add(s, o.Convergence)
		if o.Progress != nil {
			o.Progress(s)
		}
	}
}

func stats(opt Optimizer, generation int, values []float64) Stats {
	s := Stats{Generation: generation}
	for _, v := range values {
		if !finite(v) {
			s.NonFinite++
		}
	}
	s.BestPosition, s.GlobalBest = opt.Best()
	s.MeanVelocity, s.Diversity = opt.Motion()
	return s
}

// calm counts the generations in a row that moved little.
type calm struct {
	count int
	last  float64 // global best of the generation before
	any   bool    // there was a generation before
}

func (c *calm) add(s Stats, limit Convergence) {
	fell := (c.last - s.GlobalBest) / max(math.Abs(c.last), math.SmallestNonzeroFloat64)
	// Not calm when fell is NaN, as it is before there is a finite best.
	if c.any && !s.Renewed && fell <= limit.Improvement && s.Diversity <= limit.Diversity {
		c.count++
	} else {
		c.count = 0
	}
	c.last, c.any = s.GlobalBest, true
}

func (c *calm) reached(limit Convergence) bool {
	return limit.Generations > 0 && c.count >= limit.Generations
}

// A result is the result of one evaluation.
type result struct {
	value      float64
	objectives []float64
}

// evaluateAll takes results from the checkpoint where it holds them, evaluates the
// rest, and returns all by index.
func evaluateAll(ctx context.Context, generation int, positions [][]float64, evaluate Evaluate, c *Checkpoint) ([]result, error) {
	if len(positions) == 0 {
		return nil, errors.New("swarm: the optimiser asked for no evaluation")
	}
	b := batch{generation: generation, results: make([]result, len(positions)), open: map[int]bool{}, checkpoint: c}
	var tasks []Task
	for i, x := range positions {
		t := Task{Generation: generation, Index: i, X: x}
		recorded, ok, err := c.lookup(t)
		switch {
		case err != nil:
			return nil, err
		case ok:
			b.results[i] = recorded
		default:
			b.open[i] = true
			tasks = append(tasks, t)
		}
	}
	if len(tasks) == 0 {
		return b.results, nil
	}
	err := evaluate(ctx, tasks, b.done)
	if left := b.close(); err == nil && left > 0 {
		err = fmt.Errorf("swarm: generation %d: %d of %d evaluations were left without a value", generation, left, len(tasks))
	}
	if err == nil {
		err = b.err
	}
	return b.results, errors.Join(err, c.sync())
}

// A batch collects the results of one generation.
type batch struct {
	generation int
	checkpoint *Checkpoint

	mu      sync.Mutex
	results []result
	open    map[int]bool // indices without a result
	closed  bool
	err     error // the first that done returned: a caller that ignores it does not hide it
}

func (b *batch) done(t Task, value float64, objectives ...float64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		return b.err
	case b.closed:
		return fmt.Errorf("swarm: generation %d is over", b.generation)
	case t.Generation != b.generation || !b.open[t.Index]:
		b.err = fmt.Errorf("swarm: generation %d, index %d: not asked for, or done twice", t.Generation, t.Index)
		return b.err
	}
	r := result{value: value, objectives: append([]float64(nil), objectives...)}
	if b.err = b.checkpoint.record(t, r); b.err != nil {
		return b.err
	}
	delete(b.open, t.Index)
	b.results[t.Index] = r
	return nil
}

// close refuses all later results and returns how many are missing.
func (b *batch) close() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return len(b.open)
}
