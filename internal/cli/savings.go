package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/savings"
	"github.com/sigma-scheduler/sigma/internal/shellword"
	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

type savingsFlags struct {
	path, format, page string
	cluster            clusterFlags
	from               []string
	metrics            prometheusFlags
	seed               uint64
	workers            int
	quiet              bool
}

func (a *app) savings() *cobra.Command {
	f := savingsFlags{}
	cmd := &cobra.Command{
		Use:     "savings",
		GroupID: beginning,
		Short:   "Show what a cluster costs a month, where the money goes, and what gets it back",
		Long: `Savings reads a cluster, or a trace of one, and prints its bill: the cost of all nodes a
month, what is requested and used, and for each cause of waste its money, its nodes, the most
that it can be, and the command that gets it back. Nothing is changed, and no file is needed.

The steps are cumulative: each is after those above it. Their money, the rest and the least
cost that is proven add up to the cost. Prices are those of "sigma snapshot". Below them are
up to thirty simulated days of the same workloads under Karpenter and under Sigma.`,
		Example: `  sigma savings
  sigma savings --context production --prices prices.csv
  sigma savings --prometheus http://localhost:9090
  sigma savings --from cluster.json.gz --report savings.html
  sigma savings --from cluster.json.gz,usage.csv.gz
  sigma savings --trace snap --format json`,
		Args: dumpArgs,
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			f.from = append(f.from, args...)
			if err := cmp.Or(oneOf("format", f.format, "table", "json"), regular("report", f.page), f.metrics.check()); err != nil {
				return err
			}
			if f.workers < 1 {
				return usagef("--workers %d: want at least 1", f.workers)
			}
			return a.save(cmd.Context(), f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.path, "trace", "", "trace to read in place of the cluster: a folder or a .tar.gz file")
	a.unpackedFlag(flags)
	f.cluster.add(flags)
	dumpFlag(cmd, &f.from)
	f.metrics.add(flags, ", for sizes by use, or several with commas")
	flags.Uint64Var(&f.seed, "seed", savings.DefaultSeed, "of orders of arrival, and of searches")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "replays and searches at the same time")
	flags.StringVar(&f.format, "format", "table", "table or json")
	flags.StringVar(&f.page, "report", "", "also write an HTML page of one file, with all rows")
	quietFlag(flags, &f.quiet)
	for _, name := range []string{"kubeconfig", "context", "prices", "app-label", "fleet", "from", "prometheus", "prometheus-match"} {
		cmd.MarkFlagsMutuallyExclusive("trace", name)
	}
	return cmd
}

// save prints the bill.
func (a *app) save(ctx context.Context, f savingsFlags) error {
	t, options, err := a.savingsTrace(ctx, f)
	if err != nil {
		return err
	}
	choice := policyFlags{ties: "random"}
	catalog, err := choice.catalog(f.seed)
	if err != nil {
		return err
	}
	show := a.newProgress(0, "part", f.quiet)
	defer show.end()
	done := 0
	var bill *savings.Bill
	err = until(ctx, func() (err error) {
		options.Catalog, options.Workers, options.Seed = catalog, f.workers, f.seed
		options.MonthSeeds = savings.MonthSeeds
		options.Progress = func(part string) { show.set(done, part); done++ }
		bill, err = savings.Of(ctx, t, options)
		return err
	})
	show.end()
	if err != nil {
		return err
	}
	if f.page != "" {
		if err := durable.WriteFile(f.page, bill.Page().HTML); err != nil {
			return err
		}
	}
	if f.format == "json" {
		return a.json(bill)
	}
	return bill.Print(uncleaned(a.stdout), terminalWidth(a.stdout) > 0 && os.Getenv("NO_COLOR") == "")
}

// savingsTrace returns the trace of a flag, or of the cluster, with options that describe it.
func (a *app) savingsTrace(ctx context.Context, f savingsFlags) (*trace.Trace, savings.Options, error) {
	if f.path != "" {
		t, err := a.loadTrace(f.path)
		return t, savings.Options{Source: savings.Source{Trace: f.path}}, err
	}
	show := a.newProgress(0, "object", f.quiet)
	dumps, use, err := usageOf(f.from)
	if err != nil {
		return nil, savings.Options{}, err
	}
	if use != "" && len(f.metrics.servers) > 0 {
		return nil, savings.Options{}, usagef("--from %s has the use of pods: want no --prometheus", use)
	}
	picture, err := f.cluster.read(ctx, dumps, func(objects int) { show.set(objects, "") })
	show.end()
	if err != nil {
		return nil, savings.Options{}, err
	}
	prices, err := picture.Prices(f.cluster.prices)
	if err != nil {
		return nil, savings.Options{}, err
	}
	now := time.Now()
	r := snapshot.NewRecorder(f.cluster.appLabel, now)
	r.Prices = prices
	if err := r.Record(picture, now); err != nil {
		return nil, savings.Options{}, err
	}
	t, notes, err := r.Trace(cmp.Or(f.cluster.access.Context, "cluster"), f.cluster.fleet)
	options := savings.Options{Source: f.source(dumps), Notes: append(picture.Notes, notes...)}
	for _, m := range picture.Missing {
		options.Missing = append(options.Missing, m.Kind)
	}
	if err == nil && use != "" {
		var note string
		if note, err = snapshot.AddUsage(t, use, trace.DefaultUnpacked); note != "" {
			options.Notes = append(options.Notes, note)
		}
	}
	if err != nil || len(f.metrics.servers) == 0 {
		return t, options, err
	}
	by := usageFlags{on: true, judge: 7 * 24 * time.Hour, days: usage.LeastDays}
	if err := by.check(nil, &f.metrics, options.Source.Path()); err != nil {
		return nil, options, err
	}
	record, err := by.read(ctx, a, &f.metrics, f.quiet)
	if err != nil {
		return nil, options, err
	}
	used, report, err := picture.ByUse(t, record, by.options)
	if err != nil {
		return nil, options, err
	}
	if options.Days = report.Fitted + report.Judged; report.Fitted < usage.LeastDays {
		return t, options, nil // too few to count by use
	}
	return used, options, nil
}

// source has the commands of the bill: that which writes the trace that the others read, and that of the bill itself from the
// dumps, without a file of use.
func (f *savingsFlags) source(dumps []string) savings.Source {
	return savings.Source{Snapshot: "sigma snapshot" + f.words(f.from) + " --out snap", Bill: "sigma savings" + f.words(dumps), Prometheus: f.metrics.words()}
}

// words are the flags of the cluster or its dumps in a command.
func (f *savingsFlags) words(from []string) (words string) {
	if len(from) > 0 {
		from = slices.Clone(from)
		if i := slices.Index(from, "-"); i >= 0 {
			from[i] = "FILE" // the standard input is read once
		}
		words = " --from " + shellword.Quote(strings.Join(from, ","))
	}
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", f.cluster.access.Kubeconfig}, {"context", f.cluster.access.Context}, {"prices", f.cluster.prices}, {"app-label", f.cluster.appLabel},
	} {
		if flag.value != "" {
			words += fmt.Sprintf(" --%s %s", flag.name, shellword.Quote(flag.value))
		}
	}
	if f.cluster.fleet != "open" {
		words += " --fleet " + f.cluster.fleet
	}
	return words
}
