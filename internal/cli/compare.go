package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// samples is the number of points of each line in the report.
const samples = 240

// compareFlags are the flags of `sigma compare`.
type compareFlags struct {
	paths, names []string
	options      compare.Options
	timing       bool
	detail       bool
	effort       float64
	quiet        bool
	format, page string
	curve        string
	choice       policyFlags
	moving       movingFlags
}

func (a *app) compare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare --trace DIR --policy P,P…",
		Short: "Replay traces under several policies, beside a bound that no scheduler can beat",
		Long: `Compare replays each trace under each policy, in the file's order of arrival and
in shuffled orders, and prints what each policy needs beside a lower bound. An
independent checker checks every placement; a violation makes the exit code 1. The
same flags give the same bytes for any number of workers, unless --timing asks
for CPU seconds.

The policy current is the placement in placed.csv. With it, the other policies place
the same items from scratch: they arrive first, in the order of placed.csv. So
"sigma snapshot" and "sigma compare --policy current,bestfit,learned" show what a
cluster uses and what it would need. Without current, the items of placed.csv stay
where they are under every policy. --repack and --repack=false override this.
Nobody knows in which order the pods of a snapshot would arrive, so that the figures are
means over 20 orders.

` + policiesHelp,
		Example: `  sigma compare --trace small-1 --policy firstfit,bestfit,worstfit --orders 20
  sigma compare --trace traces --policy bestfit --policy policy.yaml --orders 5 --report report.html
  sigma compare --trace small-1 --policy bestfit --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			catalog, err := f.check(cmd)
			if err != nil {
				return err
			}
			traces, err := a.loadTraces(f.paths)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("orders") && (f.options.Present || slices.ContainsFunc(traces, compare.Unordered)) {
				f.options.Orders = compare.SnapshotOrders
			}
			if f.curve != "" && len(traces) > 1 {
				return usagef("--curve takes one trace, not %d", len(traces))
			}
			result, err := a.compareUntil(cmd.Context(), traces, f.names, catalog, f.options, f.quiet)
			if err != nil {
				return err
			}
			if err := f.write(&result); err != nil {
				return err
			}
			if err := a.printComparison(result, f.format, f.detail); err != nil {
				return err
			}
			return violated(result.Violations)
		}),
	}
	f.add(a, cmd)
	return cmd
}

// add adds the flags to the command.
func (f *compareFlags) add(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "trace", nil, "trace, or folder of traces (repeatable)")
	a.unpackedFlag(flags)
	flags.StringSliceVar(&f.names, "policy", nil, "placement policies (repeatable, or with commas)")
	flags.IntVar(&f.options.Orders, "orders", 0, fmt.Sprintf("shuffled orders of arrival; the figures are over these, or over the file's order when 0 (default: %d for a snapshot and with --present, whose items have no order, else 0)", compare.SnapshotOrders))
	flags.Uint64Var(&f.options.Seed, "seed", 1, "of shuffles and random ties")
	flags.IntVar(&f.options.Workers, "workers", runtime.GOMAXPROCS(0), "replays at the same time")
	flags.BoolVar(&f.options.Retry, "retry", false, "try items that were left out again after each delete")
	f.moving.add(flags)
	flags.Float64Var(&f.options.EgressShare, "egress-share", 0, "part of a machine's uplink that its capacity of egress is (default: what the trace says, else 0.8)")
	flags.BoolVar(&f.options.Repack, "repack", false, "place the items of placed.csv again (default: when current is among the policies)")
	a.presentFlag(flags)
	cmd.MarkFlagsMutuallyExclusive("present", "repack")
	effortFlag(cmd, &f.effort, 0)
	flags.BoolVar(&f.options.Plan, "plan", false, "also plan each trace without deletes at once (see sigma plan): the optimum in hindsight, where it is proven")
	flags.BoolVar(&f.timing, "timing", false, "measure the CPU seconds of each replay")
	flags.StringVar(&f.format, "format", "table", "table, json or markdown")
	flags.StringVar(&f.page, "report", "", "also write the comparison as an HTML page of one file")
	flags.StringVar(&f.curve, "curve", "", "also write a CSV file of the allocation after each percent of load has arrived")
	flags.BoolVar(&f.detail, "detail", false, "with several traces, also a table for each")
	quietFlag(flags, &f.quiet)
	f.choice.add(flags)
}

// check refuses wrong values before traces are read, completes the options and returns the policies.
func (f *compareFlags) check(cmd *cobra.Command) (catalog compare.Catalog, err error) {
	o := &f.options
	switch err := cmp.Or(required(cmd, "trace", "policy"), oneOf("format", f.format, "table", "json", "markdown")); {
	case err != nil:
		return catalog, err
	case o.Orders < 0 || o.Workers < 1:
		return catalog, usagef("--orders %d --workers %d: want at least 0 and 1", o.Orders, o.Workers)
	case cmd.Flags().Changed("egress-share") && !(o.EgressShare > 0 && o.EgressShare <= 1):
		return catalog, usagef("--egress-share %v: want a number above 0, up to 1", o.EgressShare)
	}
	if o.Bound.Work, err = workOf(f.effort); err != nil {
		return catalog, err
	}
	if o.Repair, o.Rebalance, err = f.moving.read(cmd.Flags()); err != nil {
		return catalog, err
	}
	if catalog, err = f.choice.catalog(o.Seed); err != nil {
		return catalog, err
	}
	if !cmd.Flags().Changed("repack") {
		o.Repack = slices.Contains(f.names, compare.Current) && !cmd.Flags().Changed("present")
	}
	o.Present = cmd.Flags().Changed("present")
	o.Curves = f.curve != ""
	if f.page != "" {
		o.Samples, o.Layouts = samples, true
	}
	if f.timing {
		o.Clock = cputime.Thread
	}
	return catalog, cmp.Or(checkPolicies(&catalog, f.names...), regular("report", f.page), regular("curve", f.curve))
}

// write writes the files that the flags name.
func (f *compareFlags) write(result *compare.Result) error {
	if f.page != "" {
		if err := durable.WriteFile(f.page, report.Page(result.Comparisons, f.paths, result.Notes).HTML); err != nil {
			return err
		}
	}
	if f.curve != "" {
		return durable.WriteFile(f.curve, func(w io.Writer) error { return compare.WriteCurves(w, result.Curves) })
	}
	return nil
}

// compareUntil compares until it is interrupted, and shows how far it is. An
// interrupt prints nothing: means over the replays that happen to be done would
// not compare the policies on the same orders.
func (a *app) compareUntil(ctx context.Context, traces []*trace.Trace, names []string, catalog compare.Catalog, options compare.Options, quiet bool) (compare.Result, error) {
	show := a.newProgress(0, "replay", quiet)
	defer show.end()
	var total atomic.Int64
	options.Progress = func(done, of int) {
		total.Store(int64(of))
		show.expect(of)
		show.set(done, "")
	}
	var result compare.Result
	err := until(ctx, func() (err error) {
		result, err = compare.Run(ctx, traces, names, catalog, options)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return compare.Result{}, interrupted("%d of %s done, and nothing written", show.count(), plural.Of(int(total.Load()), "replay"))
	}
	return result, err
}

func (a *app) printComparison(result compare.Result, format string, detail bool) error {
	var err error
	notes, mark := a.stdout, ""
	switch format {
	case "json":
		err = sheet.JSON(a.stdout, result.Comparisons)
		notes = a.stderr
	case "markdown":
		err = report.Markdown(a.stdout, result.Comparisons, report.Options{Detail: detail})
		mark = "- "
	default:
		err = report.Table(a.stdout, result.Comparisons, report.Options{Detail: detail})
	}
	for _, line := range result.Notes {
		fmt.Fprintln(notes, mark+line)
	}
	return err
}
