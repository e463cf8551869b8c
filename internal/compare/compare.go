package compare

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Options of a comparison.
type Options struct {
	Orders  int    // shuffled orders in addition to the file's
	Seed    uint64 // of the shuffles
	Workers int    // at least 1
	Retry   bool   // try unplaced items again after each delete
	// Repair and Rebalance, when set, let replays move items.
	Repair    *cerebro.Repair
	Rebalance *cerebro.Rebalance
	Once      bool // do not replay again without preferences
	Repack    bool // the items of placed.csv arrive at the beginning, and are placed again
	// Present traces are of a cluster: items that must not move are in placed.csv, and the others arrive. Those that a policy
	// leaves out stay on their present machines, see [cerebro.Options.Stay].
	Present bool
	Samples int           // points of the time series of the first order that counts; 0 = no series
	Curves  bool          // record allocation against the arrived load
	Layouts bool          // keep the contents of the machines after a typical order of a trace
	Bound   bound.Options // of a trace, all its orders together
	// EgressShare of a machine's uplink is its capacity in the dimension egress; 0 = [EgressShare].
	EgressShare float64
	Plan        bool // plan each trace without departures at once, for the optimum in hindsight
	// Clock returns the CPU seconds of the calling thread; nil = runs report no time.
	Clock func() float64
	// Progress, when set, gets the number of finished replays and of all; one call at a
	// time.
	Progress func(done, of int)
}

// A Result of a comparison.
type Result struct {
	Comparisons []report.Comparison // one a trace, in the order given
	Violations  int                 // broken constraints, of all policies together
	Notes       []string            // which files were used
	Curves      []Curve             // by trace, policy and order; empty unless requested
}

// A task is one replay, and the index where its run is stored.
type task struct{ trace, policy, order int }

// Run replays every trace under every policy in the file's order and in
// opt.Orders shuffled ones, and checks each by the slow checker. Where the score of a
// policy is not finite, the fallback decides.
func Run(ctx context.Context, traces []*trace.Trace, names []string, catalog Catalog, opt Options) (Result, error) {
	c := comparison{traces: traces, opt: opt}
	for _, t := range traces {
		u, err := usageOf(t)
		if err == nil {
			_, err = UsageOf(t, opt.Orders)
		}
		if err != nil {
			return Result{}, err
		}
		c.usage = append(c.usage, u)
		if opt.Repack {
			c.played = append(c.played, t.FromEmpty())
		} else {
			c.played = append(c.played, t)
		}
		policies, err := catalog.findAll(names, t)
		if err != nil {
			return Result{}, err
		}
		c.policies = append(c.policies, policies)
	}
	if err := c.replayAll(ctx); err != nil {
		return Result{}, err
	}
	return c.result(ctx)
}

// findAll finds each policy once, however often it is named.
func (c *Catalog) findAll(names []string, t *trace.Trace) ([]Found, error) {
	var all []Found
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		f, err := c.Find(name, t)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

type comparison struct {
	traces   []*trace.Trace // as given
	played   []*trace.Trace // as replayed
	policies [][]Found      // by trace
	usage    []*trace.Usage // by trace; nil = none
	opt      Options
	runs     [][][]cerebro.Run // by trace, policy, order
	points   [][][][]Point     // the same
	layouts  []*report.Layout  // of the trace that is drawn, by policy
	drawn    drawn
	limits   []limit                       // by trace
	ignored  map[[2]int]*report.Ignoring   // by trace and policy; nil = nothing to ignore
	uplinks  map[[2]int]*report.UplinkRuns // the same, where the trace has egress
}

// replayAll does all tasks. It stores runs by index, so that nothing depends on which
// worker does which task. The error is that of the first task that failed.
func (c *comparison) replayAll(ctx context.Context) error {
	tasks := c.tasks()
	c.makeIgnored()
	c.makeUplinks()
	c.draw(drawn{0, min(1, c.opt.Orders)})
	errs := make([]error, len(tasks))
	var next atomic.Int64
	progress := c.progress(len(tasks))
	var failed atomic.Bool
	var group sync.WaitGroup
	for range max(1, min(c.opt.Workers, len(tasks))) {
		group.Go(func() {
			if c.opt.Clock != nil { // it measures this thread
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			w := worker{comparison: c}
			for !failed.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(tasks) {
					return
				}
				if errs[i] = w.replay(tasks[i]); errs[i] != nil {
					failed.Store(true)
					return
				}
				progress()
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// progress counts a finished replay.
func (c *comparison) progress(of int) func() {
	if c.opt.Progress == nil {
		return func() {}
	}
	var mu sync.Mutex
	done := 0
	c.opt.Progress(done, of)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		c.opt.Progress(done, of)
	}
}

// tasks are ordered trace by trace, since a worker keeps the replayer of one, and
// order by order, since a replayer keeps shuffles.
func (c *comparison) tasks() []task {
	var tasks []task
	for t := range c.traces {
		c.runs = append(c.runs, make([][]cerebro.Run, len(c.policies[t])))
		c.points = append(c.points, make([][][]Point, len(c.policies[t])))
		for p := range c.policies[t] {
			c.runs[t][p] = make([]cerebro.Run, c.opt.Orders+1)
			c.points[t][p] = make([][]Point, c.opt.Orders+1)
		}
		for order := range c.opt.Orders + 1 {
			for p := range c.policies[t] {
				tasks = append(tasks, task{t, p, order})
			}
		}
	}
	return tasks
}

// A worker keeps the replayer of its current trace.
type worker struct {
	*comparison
	again    bool // for the layouts only
	replayer *cerebro.Replayer
	stay     cerebro.Follower  // nil = items that are left out have no place
	blind    *cerebro.Replayer // of the trace blindOf, without egress
	blindOf  *trace.Trace
}

func (w *worker) replay(t task) error {
	tr := w.played[t.trace]
	if w.replayer == nil || w.replayer.Trace() != tr {
		w.replayer = cerebro.NewReplayer(tr)
		if w.stay = nil; w.opt.Present {
			var err error
			if w.stay, err = StayOf(tr); err != nil {
				return err
			}
		}
	}
	options := cerebro.Options{
		Order: t.order, Seed: w.opt.Seed, Retry: w.opt.Retry, Check: true, Fallback: rule.Fallback{},
		Repair: w.opt.Repair, Rebalance: w.opt.Rebalance, Stay: w.stay,
	}
	if t.order == min(1, w.opt.Orders) {
		options.Samples = w.opt.Samples
	}
	if t.order == 0 || cerebro.AtOnce(tr) || sized.BySize(tr) {
		options.Usage = w.usage[t.trace]
	}
	var curve *recorder
	if w.opt.Curves {
		curve = newRecorder(w.replayer)
		options.Record = curve.record
	}
	meter := w.meter(t, w.replayer)
	if meter != nil {
		before := options.Record
		options.Record = func(d cerebro.Decision) {
			if before != nil {
				before(d)
			}
			meter.record(d)
		}
	}
	began := 0.0
	if w.opt.Clock != nil {
		began = w.opt.Clock()
	}
	found := w.policies[t.trace][t.policy]
	run, err := w.replayer.Run(found.Policy, options)
	if err != nil {
		return fmt.Errorf("trace %q, policy %s, order %d: %w", tr.Name, found.Name, t.order, err)
	}
	if w.opt.Clock != nil {
		run.Seconds = w.opt.Clock() - began
	}
	w.runs[t.trace][t.policy][t.order] = run
	if w.opt.Layouts && w.drawn == (drawn{t.trace, t.order}) {
		w.layouts[t.policy] = report.NewLayout(w.replayer.State(), t.order)
	}
	if curve != nil {
		w.points[t.trace][t.policy][t.order] = curve.points()
	}
	if w.again {
		return nil
	}
	if err := w.ignoreEgress(t, meter, options); err != nil {
		return err
	}
	if err := w.ignoring(t, options); err != nil {
		return fmt.Errorf("trace %q, policy %s without preferences, order %d: %w", tr.Name, found.Name, t.order, err)
	}
	return nil
}

func (c *comparison) moves() bool { return c.opt.Repair != nil || c.opt.Rebalance != nil }

// limit is the bound of a trace, with notes on it; no bound where items may wait, since a
// bound of items at their times does not hold for items that arrived later.
func (c *comparison) limit(ctx context.Context, i int, deletes bool, r *Result) (limit, error) {
	if !c.opt.Retry {
		if err := c.disproved(i, deletes); err != nil {
			return limit{}, err
		}
	}
	return c.limitOf(ctx, c.played[i], deletes, r)
}

func (c *comparison) limitOf(ctx context.Context, t *trace.Trace, deletes bool, r *Result) (limit, error) {
	name := t.Name
	if c.opt.Retry {
		if c.opt.Plan {
			r.add("%s: not planned in hindsight, since items may wait", name)
		}
		return limit{}, nil
	}
	opt := c.opt.Bound
	opt.Steps, opt.Moves = c.opt.Samples > 0, c.moves()
	l := meanBound(ctx, t, deletes, c.opt.Seed, c.opt.Orders, opt)
	if c.opt.Plan && deletes {
		r.add("%s: not planned in hindsight, since items leave; sigma plan --at plans one moment", name)
	} else if c.opt.Plan {
		if err := c.hindsight(ctx, t, &l.best, r); err != nil {
			return limit{}, err
		}
	}
	if deletes && c.opt.Orders > 0 {
		r.add("the bound of %s is the mean over its shuffled orders, in which departures move with their requests", name)
	}
	return l, nil
}

// result turns the runs into comparisons.
func (c *comparison) result(ctx context.Context) (Result, error) {
	var out Result
	given := c.traces
	c.traces = apart(given)
	for i, t := range c.traces {
		played := c.played[i]
		replayer := cerebro.NewReplayer(played)
		head, err := Describe(given[i], replayer)
		if err != nil {
			return Result{}, err
		}
		head.Name, head.Beside = t.Name, head.ByUse && len(given) == 2 && sameCluster(given[0], given[1]) && (c.opt.Orders == 0 || cerebro.AtOnce(t))
		digest := head.Digest
		if c.opt.Repack { // for training this is another trace
			if digest, err = digestOf(played); err != nil {
				return Result{}, err
			}
		}
		head.Seed, head.Orders, head.Retry = c.opt.Seed, c.opt.Orders, c.opt.Retry
		head.Moving, head.Again = c.moves(), c.again(t)
		if c.opt.Repack {
			head.Ignored -= t.Kept()
		}
		limit, err := c.limit(ctx, i, head.Deletes, &out)
		if err != nil {
			return Result{}, err
		}
		c.limits = append(c.limits, limit)
		out.noteOn(t)
		var policies []report.PolicyRuns
		for p, found := range c.policies[i] {
			runs := report.PolicyRuns{Policy: found.Name, Knowledge: found.Policy.Knowledge().String(), Runs: c.runs[i][p], Ignoring: c.ignored[[2]int{i, p}], Uplinks: c.uplinks[[2]int{i, p}]}
			if found.Object != nil {
				runs.Digest = found.Object.Digest()
				runs.Exposure = Exposure(found.Object, digest, measuredFrom(played), c.opt.Seed, c.opt.Orders)
			}
			policies = append(policies, runs)
			for _, run := range runs.Runs {
				out.Violations += run.Violations
				if err := KnownRisk(t, UseOfRun(t, run)); err != nil {
					return Result{}, err
				}
			}
			out.note(found, t, runs.Runs)
			if c.opt.Curves {
				for order, points := range c.points[i][p] {
					out.Curves = append(out.Curves, Curve{found.Name, order, head.Dimensions, points})
				}
			}
		}
		if err := c.leaveOut(ctx, played, &head, policies, replayer.Totals(), &out); err != nil {
			return Result{}, err
		}
		built := report.Build(head, limit.best, policies)
		out.Comparisons = append(out.Comparisons, built)
		c.notePlaced(&out, i)
	}
	if err := c.drawTypical(out.Comparisons); err != nil {
		return Result{}, err
	}
	together := max(1, len(given))
	if report.Mixed(out.Comparisons) { // notes have means, too
		together = 1
	}
	for list := range slices.Chunk(out.Comparisons, together) {
		for _, note := range slices.Concat(report.CareNotes(list), report.UseNotes(list), report.UplinkNotes(list)) {
			out.add("%s", note)
		}
	}
	c.noteBounds(&out)
	return out, ctx.Err()
}

// measuredFrom is the time from which the figures of a trace count.
func measuredFrom(t *trace.Trace) float64 {
	switch {
	case !math.IsNaN(t.MeasureFrom):
		return t.MeasureFrom
	case len(t.Events) > 0:
		return t.Events[0].Time
	}
	return math.Inf(-1)
}
