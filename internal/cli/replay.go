package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

func (a *app) replay() *cobra.Command {
	var (
		path, name, placements string
		logs                   []string
		order                  int
		seed                   uint64
		retry, repack, quiet   bool
		choice                 policyFlags
		moving                 movingFlags
		nightly, batch         string
	)
	cmd := &cobra.Command{
		Use:   "replay --trace DIR --policy P | --log FILE [FILE…]",
		Short: "Place a trace's items under one policy, or check a scheduler's decision log",
		Long: `Replay places the items of a trace one by one, as a scheduler with this policy
would, checks every placement with an independent checker, and prints a summary.
With --placements it also writes one line for each item that was placed, removed or
left out.

Where usage.csv.gz lies beside the trace, the summary also has the share of node-time in
which the items really used more than their machines have.

With --log it reads the decision log of a live scheduler instead ("-" is standard
input). It builds the cluster's state from the log, computes every decision of a
policy again without reading a score, and compares. If a decision differs, it prints
the first one, and the exit code is 1. A log of several files is given in order.

` + policiesHelp,
		Example: `  sigma replay --trace small-1 --policy bestfit --placements placements.csv
  sigma replay --trace small-1 --policy learned --order 3 --seed 7
  sigma replay --log decisions.jsonl
  sigma replay --log decisions.jsonl.2* decisions.jsonl`,
		Args: moreFilesOf("log"),
		RunE: a.do(func(cmd *cobra.Command, more []string) error {
			if cmd.Flags().Changed("log") {
				return a.replayLog(cmd, append(logs, more...))
			}
			if err := required(cmd, "trace", "policy"); err != nil {
				return err
			}
			if order < 0 {
				return usagef("--order %d: want 0 (the file's) or a positive number", order)
			}
			repair, rebalance, err := moving.read(cmd.Flags())
			if err != nil {
				return err
			}
			var nights *cerebro.Nightly
			if cmd.Flags().Changed("nightly") {
				if nights, err = cerebro.ParseNightly(nightly); err != nil {
					return usagef("--nightly %w", err)
				}
			}
			var fill *cerebro.Batch
			if cmd.Flags().Changed("batch") {
				if fill, err = cerebro.ParseBatch(batch); err != nil {
					return usagef("--batch %w", err)
				}
			}
			catalog, err := choice.catalog(seed)
			if err != nil {
				return err
			}
			if err := checkPolicies(&catalog, name); err != nil {
				return err
			}
			if err := regular("placements", placements); err != nil {
				return err
			}
			t, err := a.loadTrace(path)
			if err != nil {
				return err
			}
			use, err := compare.UsageOf(t, order)
			if err != nil {
				return err
			}
			if nights != nil || fill != nil {
				if use == nil {
					return usagef("--nightly and --batch follow what items use: %s has no usage.csv.gz, or not in order %d, in which items arrive at other times", path, order)
				}
				t = sized.Finer(t)
				sizes, err := sized.New(t, use, sized.LeastDays(t))
				if err != nil {
					return err
				}
				if nights != nil {
					nights.Demands = sizes.Demands
				}
				if fill != nil {
					sizes.BySlot()
					fill.Expected = sizes.Expected
				}
			}
			found, err := catalog.Find(name, t)
			if err != nil {
				return err
			}
			played := t
			if repack {
				played = t.FromEmpty()
			}
			options := cerebro.Options{
				Order: order, Seed: seed, Retry: retry, Check: true, Fallback: rule.Fallback{},
				Repair: repair, Rebalance: rebalance, Usage: use, Nightly: nights, Batch: fill,
			}
			if a.present {
				if options.Stay, err = compare.StayOf(t); err != nil {
					return err
				}
			}
			return a.replayTo(cmd.Context(), t, played, found, options, placements, quiet)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "trace", "", "trace: a folder or a .tar.gz file")
	a.unpackedFlag(flags)
	flags.StringVar(&name, "policy", "", "placement policy: a name or a policy file")
	flags.StringArrayVar(&logs, "log", nil, "decision log of a live scheduler, instead of a trace (repeatable: its files in order); - = standard input")
	flags.IntVar(&order, "order", 0, "order of arrival: 0 = the file's, i = the i-th shuffle of --seed")
	flags.Uint64Var(&seed, "seed", 1, "of shuffles and random ties")
	flags.BoolVar(&repack, "repack", false, "place the items of placed.csv again, in the order of its lines")
	flags.BoolVar(&retry, "retry", false, "try items that were left out again after each delete")
	a.presentFlag(flags)
	cmd.MarkFlagsMutuallyExclusive("present", "repack")
	moving.add(flags)
	flags.StringVar(&nightly, "nightly", "", "count items at what they use, found anew each midnight, and move up to a share of all and of each app a day (of an app at least one), such as moves=1%,workload=25%,relief=10m (wants usage.csv.gz)")
	flags.StringVar(&batch, "batch", "", "fill the cpu that items leave with tasks of an endless queue, such as cores=1,mean=1h,memory=1Gi,grace=4h,seed=1 (wants usage.csv.gz; docs/batch.md)")
	flags.StringVar(&placements, "placements", "", "CSV file to write placements to")
	quietFlag(flags, &quiet)
	choice.add(flags)
	return cmd
}

// replayTo replays a trace (played is t, or t with the items of placed.csv to be placed
// again), writes the placements to a path if there is one, and prints a summary. After
// that, a violated constraint is an error.
func (a *app) replayTo(ctx context.Context, t, played *trace.Trace, found compare.Found, options cerebro.Options, path string, quiet bool) error {
	var file *trace.PlacementFile
	var failed error // of a write
	replayer := cerebro.NewReplayer(played)
	if path != "" {
		var err error
		if file, err = trace.CreatePlacements(path); err != nil {
			return err
		}
		defer file.Close()
		names := trace.NewMachineNames(t.Instance)
		options.Record = func(d cerebro.Decision) {
			if failed == nil {
				failed = file.Write(compare.Placement(t, replayer.State(), names, d))
			}
		}
	}
	run, err := a.runUntil(ctx, replayer, found.Policy, options, quiet)
	if err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if file != nil {
		if err := file.Commit(); err != nil {
			return err
		}
	}
	head, err := compare.Describe(t, replayer)
	if err != nil {
		return err
	}
	head.Moving = options.Repair != nil || options.Rebalance != nil
	if head.Retry = options.Retry; !head.Retry && played == t {
		if err := compare.Disproved(t, head.Deletes, found, run); err != nil {
			return err
		}
	}
	if err := compare.KnownRisk(t, compare.UseOfRun(t, run)); err != nil {
		return err
	}
	compare.PrintRun(a.stdout, head, compare.Bound(played, options.Seed, options.Order, head.Moving), found, run)
	return violated(run.Violations)
}

// runUntil replays until an interrupt, and shows the progress.
func (a *app) runUntil(ctx context.Context, r *cerebro.Replayer, p binpack.Policy, options cerebro.Options, quiet bool) (cerebro.Run, error) {
	items := 0
	for _, q := range r.Trace().Requests[r.Trace().Initial:] {
		items += int(q.Count)
	}
	show := a.newProgress(items, "item", quiet)
	defer show.end()
	record := options.Record
	options.Record = func(d cerebro.Decision) {
		if d.Kind == cerebro.Place || d.Kind == cerebro.Unplaced {
			show.add()
		}
		if record != nil {
			record(d)
		}
	}
	var run cerebro.Run
	err := until(ctx, func() (err error) {
		run, err = r.Run(p, options)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return cerebro.Run{}, interrupted("%d of %s decided, and nothing written", min(show.count(), items), plural.Of(items, "item"))
	}
	return run, err
}

// violated is the error of broken constraints; nil if n is 0.
func violated(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s of a constraint: this is a bug, please report it with the trace", plural.Of(n, "violation"))
}
