// Package train joins swarm and cerebro: it turns a position of the search
// into a policy, the policy into replays and the replays into one number.
package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/swarm"
)

// FirstTestSeed is the first seed of generated traces that are never trained on.
const FirstTestSeed = 900_000

// DefaultRisk is ρ: how much of the distance from the mean to the worst
// scenario is added to the mean.
const DefaultRisk = .1

// maxOrders bounds the list of scenarios of a job received over a network.
const maxOrders = 1 << 20

// Config sets the model to train, the traces and the length of training.
type Config struct {
	Traces []*trace.Trace `json:"-"`
	Orders int            // shuffled orders per trace; 0 = the file's order
	// Snapshots is the largest share of requests already placed, by Best-Fit, when
	// the policy takes over; the shares are drawn uniformly.
	Snapshots float64
	Model     string
	Knowledge binpack.Knowledge
	Features  []string // nil = the default of model and knowledge
	Start     *policy.Object
	Rules     *Rules `json:",omitempty"` // search the settings of a rule instead of a model's weights
	// Reach is the distance from Start, as a fraction of the box, at which the
	// search begins; 0 = anywhere.
	Reach float64
	// Untied leaves the tie-breaker out of the cost: on hundreds of machines it
	// outweighs a machine.
	Untied bool `json:",omitempty"`
	// Sample is the number of traces that an evaluation replays, 0 = all. After every
	// Renew generations it replays others, and evaluates the remembered positions again.
	Sample, Renew int
	Objectives    []string // see [RunFront]; nil = the fitness
	// Retry keeps items that find no place and tries them again after each delete.
	Retry bool `json:",omitempty"`
	// Repair and Rebalance move items in each replay, as [cerebro.Options] has them; nil = nothing moves.
	Repair    *cerebro.Repair    `json:",omitempty"`
	Rebalance *cerebro.Rebalance `json:",omitempty"`
	// MovePrice is the cost of a move, in machines.
	MovePrice   float64 `json:",omitempty"`
	Optimizer   string  // swarm (default), cmaes, random
	Evaluations int
	Seed        uint64
	Workers     int     `json:"-"`
	Risk        float64 // negative = DefaultRisk
	Particles   int     // 0 = the swarm's default
	// Guard is the price of each share of a class of items (see classesOf) that is
	// rejected beyond those that Reference, a policy's name, rejects; 0 = no guard.
	Guard     float64
	Reference string // "" = bestfit
	// Against are rules: the cost of a trace counts in units of the least of theirs, in place of the
	// trace's volume bound.
	Against []string `json:",omitempty"`
	Name    string   `json:"-"` // of the policy object
	// OwnHistory means that the traces are the earlier days of a history and that
	// the policy is judged on its later days: then test seeds are no test data.
	OwnHistory bool        `json:"-"`
	Checkpoint string      `json:"-"` // file; "" = no checkpoint
	Progress   func(Stats) `json:"-"`
	// Distribute, if set, makes the evaluator of the tasks; else Workers goroutines do.
	Distribute func(context.Context, *Job) (Distributor, error) `json:"-"`
}

// Stats are the progress of a search.
type Stats = swarm.Stats

// Optimizers lists the names that Config.Optimizer takes.
func Optimizers() []string { return []string{"swarm", "cmaes", "random"} }

// Run trains a policy. When ctx ends the run early, the best so far is returned
// with the context's error. The same Config gives the same bytes, whatever the
// number of workers and however often the run was interrupted and resumed.
func Run(ctx context.Context, cfg Config) (*policy.Object, error) {
	ev, settings, result, err := search(ctx, &cfg, nil)
	if result.Position == nil {
		return nil, err
	}
	object := ev.sp.object(result.Position)
	object.Metadata.Name = cfg.Name
	object.Spec.Provenance = ev.provenance(settings, result)
	return object, err
}

// search completes cfg and minimises. The archive receives all objectives where
// there are several.
func search(ctx context.Context, cfg *Config, archive *swarm.Archive) (*evaluator, settings, swarm.Result, error) {
	fail := func(err error) (*evaluator, settings, swarm.Result, error) {
		return nil, settings{}, swarm.Result{}, err
	}
	if err := cfg.complete(); err != nil {
		return fail(err)
	}
	sp, err := newSpace(cfg)
	if err != nil {
		return fail(err)
	}
	ev, err := newEvaluator(ctx, cfg, sp)
	if err != nil {
		return fail(err)
	}
	opt, err := newOptimizer(cfg, sp)
	if err != nil {
		return fail(err)
	}
	s, err := ev.settings(sp)
	if err != nil {
		return fail(err)
	}
	options := swarm.Options{Budget: cfg.Evaluations, Archive: archive, Progress: cfg.Progress, Renew: cfg.renews}
	if cfg.Checkpoint != "" {
		if options.Checkpoint, err = swarm.OpenCheckpoint(cfg.Checkpoint, s); err != nil {
			return fail(err)
		}
	}
	result, err := ev.minimize(ctx, opt, s, options)
	if options.Checkpoint != nil {
		err = errors.Join(err, options.Checkpoint.Close())
	}
	return ev, s, result, err
}

// minimize evaluates in this process, or by cfg.Distribute.
func (e *evaluator) minimize(ctx context.Context, opt swarm.Optimizer, s settings, options swarm.Options) (swarm.Result, error) {
	if e.cfg.Distribute == nil {
		return swarm.Minimize(ctx, opt, swarm.Parallel(e.cfg.Workers, e.objective), options)
	}
	job, err := e.job(s)
	if err != nil {
		return swarm.Result{}, err
	}
	others, err := e.cfg.Distribute(ctx, job)
	if err != nil {
		return swarm.Result{}, err
	}
	result, err := swarm.Minimize(ctx, opt, others.Evaluate, options)
	return result, errors.Join(err, others.Close())
}

func (c *Config) complete() error {
	switch {
	case len(c.Traces) == 0:
		return errors.New("there is no trace to train on")
	case c.Evaluations < 1:
		return fmt.Errorf("evaluations %d: want at least 1", c.Evaluations)
	case c.Orders < 0 || c.Orders > maxOrders:
		return fmt.Errorf("orders %d: want from 0 to %d", c.Orders, maxOrders)
	case c.Sample < 0 || c.Sample > len(c.Traces):
		return fmt.Errorf("sample %d: there are %d traces", c.Sample, len(c.Traces))
	case c.Sample > 0 && c.Renew < 1:
		return fmt.Errorf("renew %d: want at least 1 generation", c.Renew)
	case !(c.Snapshots >= 0 && c.Snapshots < 1):
		return fmt.Errorf("snapshots %v: want a share from 0 to below 1", c.Snapshots)
	case !(c.Guard >= 0 && c.Guard <= math.MaxInt32):
		return fmt.Errorf("guard %v: want at least 0", c.Guard)
	case len(c.Against) > 0 && slices.ContainsFunc(c.Traces, func(t *trace.Trace) bool { return t.Instance.Fleet == binpack.Fixed }):
		return errors.New("against: on a fixed fleet the cost is a price of items left out, which no rule's cost divides")
	case !(c.MovePrice >= 0 && c.MovePrice <= math.MaxInt32):
		return fmt.Errorf("move price %v: want at least 0", c.MovePrice)
	}
	c.Model = cmp.Or(c.Model, "linear")
	if c.Rules != nil {
		c.Model = policy.RuleModel
	} else if !slices.Contains(policy.TrainableNames(), c.Model) {
		return fmt.Errorf("unknown model %q: there are %s", c.Model, strings.Join(policy.TrainableNames(), ", "))
	}
	c.Reference = cmp.Or(c.Reference, "bestfit")
	c.Optimizer = cmp.Or(c.Optimizer, "swarm")
	if c.Workers < 1 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Risk < 0 {
		c.Risk = DefaultRisk
	}
	c.Name = cmp.Or(c.Name, "trained")
	for _, t := range c.Traces {
		if seed, ok := TestSeed(t); ok && !c.OwnHistory {
			return fmt.Errorf("trace %q has the test seed %d: seeds from %d up are never trained on",
				t.Name, seed, FirstTestSeed)
		}
	}
	return nil
}

// TestSeed gives the seed of a generated trace that is for tests.
func TestSeed(t *trace.Trace) (seed uint64, ok bool) {
	if t.Source["origin"] != "generated" {
		return 0, false
	}
	switch s := t.Source["seed"].(type) {
	case int:
		seed = uint64(max(0, s))
	case int64:
		seed = uint64(max(0, s))
	case uint64:
		seed = s
	case float64:
		seed = uint64(max(0, s))
	}
	return seed, seed >= FirstTestSeed
}

func newOptimizer(cfg *Config, sp *space) (swarm.Optimizer, error) {
	search := swarm.Search{Box: sp.box, Seed: cfg.Seed, Size: cfg.Particles, Reach: cfg.Reach}
	if cfg.Start != nil {
		x, err := sp.position(cfg.Start)
		if err != nil {
			return nil, err
		}
		search.Start = [][]float64{x}
	}
	switch cfg.Optimizer {
	case "swarm":
		if len(cfg.Objectives) > 0 {
			return swarm.NewMOPSO(search, swarm.DefaultPSO(), len(cfg.Objectives))
		}
		return swarm.NewPSO(search, swarm.DefaultPSO())
	case "cmaes":
		if len(cfg.Objectives) > 0 {
			return nil, errors.New("the optimizer cmaes knows one objective only: take swarm or random")
		}
		return swarm.NewCMAES(search)
	case "random":
		return swarm.NewRandomSearch(search)
	default:
		return nil, fmt.Errorf("unknown optimizer %q: there are %s", cfg.Optimizer, strings.Join(Optimizers(), ", "))
	}
}

// A scenario is a scenario of one trace.
type scenario struct {
	cerebro.Scenario
	trace int
	guard *guard // may be nil
}

// evaluator replays the scenarios for one position at a time; each worker
// takes a set of replayers of its own.
type evaluator struct {
	cfg       *Config
	sp        *space
	scenarios []scenario
	scale     []scale // per trace
	pool      sync.Pool
}

// replayers are those of one worker, by trace, made when first needed.
type replayers struct{ byTrace []*cerebro.Replayer }

func newEvaluator(ctx context.Context, cfg *Config, sp *space) (*evaluator, error) {
	e := &evaluator{cfg: cfg, sp: sp}
	for t, tr := range cfg.Traces {
		s, err := e.scaleOf(ctx, tr)
		if err != nil {
			return nil, err
		}
		e.scale = append(e.scale, s)
		if len(tr.Events) == 0 {
			return nil, fmt.Errorf("trace %q has no events to train on", tr.Name)
		}
		for _, sc := range cerebro.DrawScenarios(cfg.Seed+uint64(t), cfg.Orders, cfg.Snapshots) {
			e.scenarios = append(e.scenarios, scenario{sc, t, nil})
		}
	}
	if err := e.setGuards(ctx); err != nil {
		return nil, err
	}
	e.pool.New = func() any { return &replayers{byTrace: make([]*cerebro.Replayer, len(cfg.Traces))} }
	return e, nil
}

// Replays is the number of replays that one evaluation takes.
func (c *Config) Replays() int { return cmp.Or(c.Sample, len(c.Traces)) * max(1, c.Orders) }

// renews reports whether a generation sees other traces than the one before.
func (c *Config) renews(generation int) bool {
	return c.Sample > 0 && c.Sample < len(c.Traces) && generation%c.Renew == 0
}

// scenariosOf are those of a generation: of Sample traces, evenly spread over the
// list, so that a mixture of kinds is sampled as a mixture.
func (e *evaluator) scenariosOf(generation int) []scenario {
	c := e.cfg
	if c.Sample == 0 {
		return e.scenarios
	}
	per, n := max(1, c.Orders), len(c.Traces)
	list := make([]scenario, 0, c.Sample*per)
	for i := range c.Sample {
		t := (i*n/c.Sample + generation/c.Renew) % n
		list = append(list, e.scenarios[t*per:(t+1)*per]...)
	}
	return list
}

// objective is the fitness of a position: mean cost over the scenarios, with the
// charge of the guard, plus ρ·(worst − mean).
func (e *evaluator) objective(ctx context.Context, task swarm.Task) (float64, []float64, error) {
	object := e.sp.object(task.X)
	p, err := object.Policy()
	if err != nil {
		return 0, nil, err
	}
	if e.sp.rules != nil {
		p = rule.AtRandom(p, e.cfg.Seed)
	}
	own := e.pool.Get().(*replayers)
	defer e.pool.Put(own)
	var sum, worst []float64 // one number, or one for each objective
	scenarios := e.scenariosOf(task.Generation)
	for _, sc := range scenarios {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		if own.byTrace[sc.trace] == nil {
			own.byTrace[sc.trace] = cerebro.NewReplayer(e.cfg.Traces[sc.trace])
		}
		r := own.byTrace[sc.trace]
		run, rejected, err := e.replay(r, p, sc)
		if err != nil {
			return 0, nil, err
		}
		costs := e.costs(r, run, e.scale[sc.trace])
		if sum == nil {
			sum, worst = make([]float64, len(costs)), slices.Clone(costs)
		}
		for k, cost := range costs {
			if sc.guard != nil {
				cost += e.cfg.Guard * sc.guard.excess(rejected)
			}
			sum[k] += cost
			worst[k] = max(worst[k], cost)
		}
	}
	total := 0.0
	for k := range sum {
		mean := sum[k] / float64(len(scenarios))
		sum[k] = mean + e.cfg.Risk*(worst[k]-mean)
		total += sum[k]
	}
	if len(e.cfg.Objectives) == 0 {
		return total, nil, nil
	}
	return total / float64(len(sum)), sum, nil
}
