package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/shellword"
	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/swarm"
)

// trainFlags are the flags that are not fields of a train.Config as they are.
type trainFlags struct {
	paths                  []string
	knowledge              string
	start                  string
	out, checkpoint, curve string
	repack, quiet          bool
	byUse                  bool // the demands of a trace are by use
	points                 int
	join, validate         []string
	earlier                []*policy.Object // of join
	heldOut                []*trace.Trace   // of validate
	nats                   natsFlags
	moving                 movingFlags
}

func (a *app) train() *cobra.Command {
	var f trainFlags
	var cfg train.Config
	cmd := &cobra.Command{
		Use:   "train --trace DIR --out policy.yaml",
		Short: "Train a placement policy on traces",
		Long: `Train searches for the weights of a policy that packs the traces onto the
fewest machines, with a particle swarm (or, as controls, CMA-ES or random
search), and writes the best as a Kubernetes object.

One evaluation replays every trace in every order once. The same flags give the
same bytes for any number of workers. After an interrupt the best so far is
written; with --checkpoint the same command resumes. Generated traces with a
seed from ` + strconv.Itoa(train.FirstTestSeed) + ` up are for tests and refused.

With --objectives it searches for the policies that no other one beats in all
objectives. It writes some of them, a table (front.csv, with the weights of all) and
a picture (front.svg) into the folder --out.

With --nats or --listen any number of "sigma worker" processes evaluate as well, for
the same bytes, sooner. --workers 0 then leaves all evaluations to them.

The items of a trace's placed.csv stay where they are, and the policy learns to place
what comes after. With --repack, which a snapshot needs, they arrive as well.`,
		Example: `  sigma train --trace traces/train --orders 4 --evaluations 2000 --out policy.yaml
  sigma train --trace snapshot --repack --orders 8 --out policy.yaml
  sigma train --trace traces/train --knowledge K0 --optimizer cmaes --checkpoint run --out cmaes.yaml
  sigma train --trace traces/train --objectives machines,balance,spread --out front
  sigma train --trace traces/train --listen :4222 --nats-token-file token --out policy.yaml`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(required(cmd, "trace", "out"), onlyWith(cmd, "renew", "sample"), onlyWith(cmd, "reference", "guard")); err != nil {
				return err
			}
			var err error
			cfg.Repair, cfg.Rebalance, err = f.moving.read(cmd.Flags())
			if err = cmp.Or(err, f.check(&cfg), f.nats.check()); err != nil {
				return err
			}
			out := regular
			if len(cfg.Objectives) > 0 {
				out = writableFront
			}
			if err := cmp.Or(out("out", f.out), writable("log", f.curve)); err != nil {
				return err
			}
			traces, err := a.loadTraces(f.paths)
			if err != nil {
				return err
			}
			if cfg.Traces, err = f.arriving(traces); err != nil {
				return err
			}
			if traces, err = a.loadTraces(f.validate); err != nil {
				return err
			}
			if f.heldOut, err = f.arriving(traces); err != nil {
				return err
			}
			if err := f.complete(&cfg); err != nil {
				return err
			}
			return a.trainTo(cmd.Context(), cfg, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "trace", nil, "trace, or folder of traces (repeatable)")
	a.unpackedFlag(flags)
	flags.StringVar(&f.out, "out", "", "policy file to write")
	flags.BoolVar(&f.repack, "repack", false, "the items of placed.csv arrive at the beginning")
	flags.StringVar(&cfg.Model, "model", "linear", "model to train: "+strings.Join(policy.TrainableNames(), ", "))
	flags.StringVar(&f.knowledge, "knowledge", "", "what the policy may know of the future (default K1 where the traces give forecasts, else K0)")
	flags.IntVar(&cfg.Evaluations, "evaluations", 2000, "budget: positions to evaluate")
	flags.IntVar(&cfg.Orders, "orders", 0, "shuffled orders per trace in an evaluation; 0 = the file's order")
	flags.Float64Var(&cfg.Snapshots, "snapshots", 0, "begin with up to this share of the requests placed by Best-Fit, drawn uniformly for each order")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "of the search and of the shuffles")
	flags.IntVar(&cfg.Workers, "workers", runtime.GOMAXPROCS(0), "evaluations at the same time")
	flags.StringVar(&cfg.Optimizer, "optimizer", "swarm", strings.Join(train.Optimizers(), ", "))
	flags.IntVar(&cfg.Particles, "particles", swarm.DefaultParticles, "positions in a generation")
	flags.Float64Var(&cfg.Risk, "risk", train.DefaultRisk, "how much of worst − mean is added to the mean cost")
	flags.Float64Var(&cfg.Guard, "guard", 0, "price of each share of a class of items (by devices asked for) that is rejected beyond what --reference rejects")
	flags.StringVar(&cfg.Reference, "reference", "bestfit", "rule that --guard compares with: "+strings.Join(rule.Names(), ", "))
	flags.StringSliceVar(&cfg.Features, "features", nil, "features and parameters to learn (default: those of the model and the knowledge)")
	flags.StringVar(&f.start, "start", "", "policy file to start from")
	flags.Float64Var(&cfg.Reach, "reach", 0, "begin within this share of the box around --start, or around its middle; 0 = anywhere")
	flags.BoolVar(&cfg.Untied, "untied", false, "the cost is machines alone, without the tie-breaker")
	flags.IntVar(&cfg.Sample, "sample", 0, "traces that an evaluation replays; 0 = all")
	flags.IntVar(&cfg.Renew, "renew", 10, "with --sample: generations after which the next traces take their turn")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "folder that keeps every evaluation, to resume from")
	flags.StringVar(&f.curve, "log", "", "CSV file with a line per generation")
	flags.StringSliceVar(&cfg.Objectives, "objectives", nil, "several objectives, of "+strings.Join(train.Objectives(), ", ")+": --out is a folder for policies of the front")
	flags.IntVar(&f.points, "points", 0, "with --objectives: policies to write (default the knee and the best by each objective)")
	flags.StringSliceVar(&cfg.Against, "against", nil, "rules: the cost of a trace is divided by the least of theirs (default by the volume bound)")
	flags.StringArrayVar(&f.join, "join", nil, "policy of an earlier training of the same features: the best on --validate of all and their mean is written (repeatable)")
	flags.StringArrayVar(&f.validate, "validate", nil, "with --join: trace, or folder of traces, that decide; with --objectives: on which to measure them as well (repeatable)")
	f.moving.add(flags)
	flags.Float64Var(&cfg.MovePrice, "move-price", 0, "with --repair or --rebalance: what a move costs, in machines")
	f.nats.add(flags)
	f.nats.addListen(flags)
	quietFlag(flags, &f.quiet)
	return cmd
}

// check refuses wrong names and numbers before traces are read.
func (f *trainFlags) check(cfg *train.Config) error {
	if policy.ModelOf(cfg.Model) == nil && slices.Contains(policy.Laboratory, cfg.Model) {
		return usagef("--model %s: a model of the laboratory: make lab && bin/sigma-lab train --model %s", cfg.Model, cfg.Model)
	}
	if err := oneOf("model", cfg.Model, policy.TrainableNames()...); err != nil {
		return err
	}
	if err := oneOf("optimizer", cfg.Optimizer, train.Optimizers()...); err != nil {
		return err
	}
	if err := oneOf("reference", cfg.Reference, rule.Names()...); err != nil {
		return err
	}
	if _, err := parseKnowledge(f.knowledge); err != nil {
		return err
	}
	for _, name := range cfg.Against {
		if !slices.Contains(rule.Names(), name) {
			return unknown("rule", name, rule.Names())
		}
	}
	model := policy.ModelOf(cfg.Model)
	known := append(model.FeatureNames(), model.ParameterNames()...)
	for _, name := range cfg.Features {
		if base, _, _ := strings.Cut(name, ":"); !slices.Contains(known, base) {
			return unknown("feature", name, known)
		}
	}
	for name, n := range map[string]int{"evaluations": cfg.Evaluations, "workers": cfg.Workers, "particles": cfg.Particles} {
		if n < 1 && (name != "workers" || n < 0 || !f.nats.remote()) {
			return usagef("--%s %d: want at least 1%s", name, n, map[string]string{"workers": ", or 0 with --listen or --nats"}[name])
		}
	}
	switch err := train.CheckObjectives(cfg.Objectives); {
	case len(cfg.Objectives) == 0 && f.points != 0:
		return usagef("--points needs --objectives")
	case len(cfg.Objectives) == 0 && (len(f.join) == 0) != (len(f.validate) == 0):
		return usagef("--join and --validate need each other")
	case len(cfg.Objectives) > 0 && len(f.join) > 0:
		return usagef("--join does not go with --objectives")
	case f.points < 0:
		return usagef("--points %d: want at least 0", f.points)
	case len(cfg.Objectives) > 0 && cfg.Untied:
		return usagef("--untied does not go with --objectives: none of them has a tie-breaker")
	case len(cfg.Objectives) > 0 && cfg.Optimizer == "cmaes":
		return usagef("--optimizer cmaes knows one objective only; take swarm or random")
	case len(cfg.Objectives) > 0 && err != nil:
		return usagef("--objectives: %w", err)
	case cfg.Orders < 0 || !(cfg.Risk >= 0):
		return usagef("--orders %d --risk %v: want at least 0", cfg.Orders, cfg.Risk)
	case !(cfg.Guard >= 0 && cfg.Guard <= math.MaxInt32):
		return usagef("--guard %v: want at least 0", cfg.Guard)
	case !(cfg.MovePrice >= 0 && cfg.MovePrice <= math.MaxInt32):
		return usagef("--move-price %v: want at least 0", cfg.MovePrice)
	case cfg.MovePrice > 0 && cfg.Repair == nil && cfg.Rebalance == nil:
		return usagef("--move-price needs --repair or --rebalance: without them nothing moves")
	case !(cfg.Reach >= 0 && cfg.Reach <= 1):
		return usagef("--reach %v: want a share from 0 to 1", cfg.Reach)
	case cfg.Sample < 0 || cfg.Renew < 1:
		return usagef("--sample %d --renew %d: want at least 0 and 1", cfg.Sample, cfg.Renew)
	case !(cfg.Snapshots >= 0 && cfg.Snapshots < 1):
		return usagef("--snapshots %v: want a share from 0 to below 1", cfg.Snapshots)
	}
	return nil
}

// arriving returns the traces to train on.
func (f *trainFlags) arriving(traces []*trace.Trace) ([]*trace.Trace, error) {
	var list []*trace.Trace
	for _, t := range traces {
		if f.repack {
			t = t.FromEmpty()
		}
		if t.Initial > 0 && t.Initial == len(t.Requests) {
			return nil, usagef("trace %q: all its items are in placed.csv and nothing arrives; train on it with --repack", t.Name)
		}
		if len(t.Events) == 0 {
			return nil, usagef("trace %q: nothing arrives", t.Name)
		}
		list = append(list, t)
	}
	return list, nil
}

// complete fills in the settings that depend on the traces, and refuses traces that are
// for tests.
func (f *trainFlags) complete(cfg *train.Config) error {
	for _, t := range slices.Concat(cfg.Traces, f.heldOut) {
		if seed, ok := train.TestSeed(t); ok {
			return usagef("trace %q was generated with the test seed %v: seeds from %d up are for tests, and neither --trace nor --validate takes them, so that results on them are held out",
				t.Name, seed, train.FirstTestSeed)
		}
	}
	f.byUse = slices.ContainsFunc(slices.Concat(cfg.Traces, f.heldOut), sized.BySize)
	if f.byUse && len(cfg.Objectives) > 0 {
		return usagef("--objectives: the files of a front have machines without their risk, and a trace counts items at what they use; train without it, and sigma compare prints both")
	}
	if cfg.Sample > len(cfg.Traces) {
		return usagef("--sample %d: there are %s", cfg.Sample, plural.Of(len(cfg.Traces), "trace"))
	}
	cfg.Knowledge = compare.Knowledge(cfg.Traces)
	if k, err := parseKnowledge(f.knowledge); err != nil {
		return err
	} else if k != nil {
		cfg.Knowledge = *k
	}
	if m := policy.ModelOf(cfg.Model); !m.Takes(cfg.Knowledge) {
		return usagef("the model %s %s: it needs --knowledge %s, not %s", m.Name, m.Basis, m.Levels(), cfg.Knowledge)
	}
	cfg.Name = strings.TrimSuffix(filepath.Base(f.out), filepath.Ext(f.out))
	if f.start != "" {
		start, err := policy.Load(f.start)
		if err != nil {
			return err
		}
		cfg.Start = start
	}
	for _, t := range slices.Concat(cfg.Traces, f.heldOut) {
		if err := (&policy.Spec{Model: cfg.Model, Features: cfg.Features}).Suits(t.Instance); err != nil {
			return usagef("--model and --features for trace %q: %w", t.Name, err)
		}
		if cfg.Start == nil {
			continue
		}
		if err := cfg.Start.Spec.Suits(t.Instance); err != nil {
			return fmt.Errorf("policy %s for trace %q: %w", f.start, t.Name, err)
		}
	}
	for _, path := range f.join {
		o, err := policy.Load(path)
		if err != nil {
			return err
		}
		f.earlier = append(f.earlier, o)
	}
	if len(f.earlier) > 0 {
		if err := train.Joins(*cfg, f.earlier); err != nil {
			return usagef("--join: %w", err)
		}
	}
	if f.checkpoint != "" {
		if err := os.MkdirAll(f.checkpoint, 0o755); err != nil {
			return err
		}
		cfg.Checkpoint = filepath.Join(f.checkpoint, "train.checkpoint")
		f.nats.keep = f.checkpoint // a resumed training keeps its workers
	}
	return nil
}

// trainTo trains and saves the best policy, also after an interrupt.
func (a *app) trainTo(ctx context.Context, cfg train.Config, f trainFlags) error {
	if cfg.Knowledge.Forecast() && !compare.Knowledge(cfg.Traces).Forecast() {
		fmt.Fprintf(a.stderr, "training at %s, though not every trace gives a forecast (expected in apps.csv): without one a policy assumes that nothing will arrive\n", cfg.Knowledge)
	}
	if !f.quiet {
		fmt.Fprintf(a.stderr, "training %s at %s with %s: %s of %s, seed %d\n", cfg.Model, cfg.Knowledge, cfg.Optimizer,
			plural.Of(cfg.Evaluations, "evaluation"), plural.Of(cfg.Replays(), "replay"), cfg.Seed)
	}
	log := &train.GenerationLog{Path: f.curve, Replays: cfg.Replays()}
	defer func() { _ = log.Close() }() // once more, for the ways out before its error counts
	show := a.newProgress(cfg.Evaluations, "evaluation", f.quiet)
	defer show.end()
	var last swarm.Stats
	cfg.Progress = func(s swarm.Stats) {
		last = s
		log.Write(s)
		show.set(s.Evaluations, fmt.Sprintf("best %.6g", s.GlobalBest))
	}
	disconnect, err := f.nats.distribute(ctx, &cfg, func(line string) { show.print(a.stderr, line) })
	if err != nil {
		return err
	}
	save, err := f.train(ctx, cfg)
	disconnect()
	show.end()
	if errors.Is(err, swarm.ErrSettings) {
		return usagef("%w; take another folder, or the same settings", err)
	}
	again := "; with --checkpoint DIR the same command would resume"
	if f.checkpoint != "" {
		again = "; the same command resumes"
	}
	if save == nil && errors.Is(err, context.Canceled) && f.checkpoint != "" {
		return interrupted("%s is not written before the first generation is done%s", f.out, again)
	}
	if save == nil || err != nil && !errors.Is(err, ctx.Err()) {
		return err
	}
	found, failed := save(last)
	if err := errors.Join(failed, log.Close()); err != nil {
		return err
	}
	if err != nil {
		return interrupted("%s holds the best so far, of %s%s", f.out, plural.Of(last.Evaluations, "evaluation"), again)
	}
	fmt.Fprintf(a.stdout, "%s: %s after %s\n", f.out, found, plural.Of(last.Evaluations, "evaluation"))
	if f.byUse {
		var traces strings.Builder
		for _, path := range f.paths {
			traces.WriteString(" --trace " + shellword.Quote(path))
		}
		fmt.Fprintf(a.stdout, "the traces count items at what they use; the machines of the policy and their risk: sigma compare%s --policy %s\n", traces.String(), shellword.Quote("bestfit,"+f.out))
	}
	return nil
}

// train returns a function that saves the result of the search and describes it; nil
// without a result.
func (f *trainFlags) train(ctx context.Context, cfg train.Config) (save func(swarm.Stats) (string, error), err error) {
	if len(cfg.Objectives) == 0 {
		object, err := train.Run(ctx, cfg)
		if object == nil {
			return nil, err
		}
		if len(f.join) > 0 && err == nil {
			var joined *policy.Object
			if joined, err = train.Join(ctx, cfg, object, f.earlier, f.heldOut); err == nil {
				object = joined
			}
		}
		return func(swarm.Stats) (string, error) {
			return fmt.Sprintf("%s, fitness %.6g", object.Digest(), object.Spec.Provenance["fitness"]), object.Save(f.out)
		}, err
	}
	front, err := train.RunFront(ctx, cfg)
	if front == nil {
		return nil, err
	}
	return func(swarm.Stats) (string, error) {
		about := fmt.Sprintf("a front of %s by %s", plural.Of(len(front.Points), "point"), strings.Join(front.Objectives, ", "))
		return about, front.Write(context.WithoutCancel(ctx), f.out, f.points, f.heldOut)
	}, err
}

// writableFront reports a path that no front can be written to.
func writableFront(flag, dir string) error {
	if err := train.ReplaceableFront(dir); err != nil {
		return usagef("--%s %w", flag, err)
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	return writable(flag, dir)
}
