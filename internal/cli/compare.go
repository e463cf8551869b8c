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
)

// samples is the number of points of each line in the report.
const samples = 240

func (a *app) compare() *cobra.Command {
	var (
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
	)
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

` + policiesHelp,
		Example: `  sigma compare --trace small-1 --policy firstfit,bestfit,worstfit --orders 20
  sigma compare --trace traces --policy bestfit --policy policy.yaml --orders 5 --report report.html
  sigma compare --trace small-1 --policy bestfit --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace", "policy"); err != nil {
				return err
			}
			if err := oneOf("format", format, "table", "json", "markdown"); err != nil {
				return err
			}
			if options.Orders < 0 || options.Workers < 1 {
				return usagef("--orders %d --workers %d: want at least 0 and 1", options.Orders, options.Workers)
			}
			if cmd.Flags().Changed("egress-share") && !(options.EgressShare > 0 && options.EgressShare <= 1) {
				return usagef("--egress-share %v: want a number above 0, up to 1", options.EgressShare)
			}
			work, err := workOf(effort)
			if err != nil {
				return err
			}
			options.Bound.Work = work
			if options.Repair, options.Rebalance, err = moving.read(cmd.Flags()); err != nil {
				return err
			}
			catalog, err := choice.catalog(options.Seed)
			if err != nil {
				return err
			}
			if err := checkPolicies(&catalog, names...); err != nil {
				return err
			}
			if err := cmp.Or(regular("report", page), regular("curve", curve)); err != nil {
				return err
			}
			traces, err := a.loadTraces(paths)
			if err != nil {
				return err
			}
			if curve != "" && len(traces) > 1 {
				return usagef("--curve takes one trace, not %d", len(traces))
			}
			if !cmd.Flags().Changed("repack") {
				options.Repack = slices.Contains(names, compare.Current)
			}
			options.Curves = curve != ""
			if page != "" {
				options.Samples, options.Layouts = samples, true
			}
			if timing {
				options.Clock = cputime.Thread
			}
			result, err := a.compareUntil(cmd.Context(), traces, names, catalog, options, quiet)
			if err != nil {
				return err
			}
			if page != "" {
				err := durable.WriteFile(page, func(w io.Writer) error { return report.HTML(w, result.Comparisons, paths, result.Notes) })
				if err != nil {
					return err
				}
			}
			if curve != "" {
				err := durable.WriteFile(curve, func(w io.Writer) error { return compare.WriteCurves(w, result.Curves) })
				if err != nil {
					return err
				}
			}
			if err := a.printComparison(result, format, detail); err != nil {
				return err
			}
			return violated(result.Violations)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&paths, "trace", nil, "trace, or folder of traces (repeatable)")
	a.unpackedFlag(flags)
	flags.StringSliceVar(&names, "policy", nil, "placement policies (repeatable, or with commas)")
	flags.IntVar(&options.Orders, "orders", 0, "shuffled orders of arrival; the figures are over these, or over the file's order when 0")
	flags.Uint64Var(&options.Seed, "seed", 1, "of shuffles and random ties")
	flags.IntVar(&options.Workers, "workers", runtime.GOMAXPROCS(0), "replays at the same time")
	flags.BoolVar(&options.Retry, "retry", false, "try items that were left out again after each delete")
	moving.add(flags)
	flags.Float64Var(&options.EgressShare, "egress-share", 0, "part of a machine's uplink that its capacity of egress is (default: what the trace says, else 0.8)")
	flags.BoolVar(&options.Repack, "repack", false, "place the items of placed.csv again (default: when current is among the policies)")
	effortFlag(cmd, &effort, 0)
	flags.BoolVar(&options.Plan, "plan", false, "also plan each trace without deletes at once (see sigma plan): the optimum in hindsight, where it is proven")
	flags.BoolVar(&timing, "timing", false, "measure the CPU seconds of each replay")
	flags.StringVar(&format, "format", "table", "table, json or markdown")
	flags.StringVar(&page, "report", "", "also write the comparison as an HTML page of one file")
	flags.StringVar(&curve, "curve", "", "also write a CSV file of the allocation after each percent of load has arrived")
	flags.BoolVar(&detail, "detail", false, "with several traces, also a table for each")
	quietFlag(flags, &quiet)
	choice.add(flags)
	return cmd
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
		err = report.JSON(a.stdout, result.Comparisons)
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
