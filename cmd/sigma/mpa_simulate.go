package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/report"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// synthetic is the prefix of a synthetic load in --trace.
const synthetic = "synthetic:"

type mpaFlags struct {
	trace, appFile, format, page, log string
	set, agents                       []string
	peak, hours, skip                 float64
	warmup                            float64
	fill, quiet                       bool
	seeds, workers                    int
	seed                              uint64
}

func (a *app) mpaSimulate() *cobra.Command {
	var f mpaFlags
	cmd := &cobra.Command{
		Use:   "simulate --trace F.csv --app F.yaml",
		Short: "Compare autoscalers on a simulated application",
		Long: `Simulate sends the requests of a trace to an application and lets each agent size
it, within the guards of the controller. Requests arrive in open loop. Pods share their
processor under a CFS quota, start and resize with a delay, and run out of memory.
Metrics are scraped, averaged and late. The oracle knows the load and the workload's
state, and no guard binds it: it shows the least cost that keeps the SLO. A core-hour
costs as much as ` + fmt.Sprint(sim.GiBPerCore) + ` GiB-hours.

A trace is a CSV file of requests per minute, with a column count (and max_per_second,
for bursts within the minute), or of single requests, with a column TIMESTAMP, or
end_timestamp and duration.

` + familiesHelp() + `

The same flags give the same figures. ± is half of the 95 % interval over seeds.`,
		Example: `  sigma mpa simulate --trace worldcup98_rpm.csv --app web.yaml --peak 400 --skip 1500 --hours 24
  sigma mpa simulate --trace synthetic:flash-crowd --set high=300 --app web.yaml --hours 6 --report report.html
  sigma mpa simulate --trace load.csv --app web.yaml --agents hpa,hpa+vpa,oracle --seeds 5 --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace", "app"); err != nil {
				return err
			}
			if err := cmp.Or(f.check(), regular("report", f.page)); err != nil {
				return err
			}
			load, trace, err := f.load(cmd)
			if err != nil {
				return err
			}
			application, err := sim.ReadApp(f.appFile)
			if err != nil {
				return err
			}
			comparison, err := a.mpaCompare(cmd.Context(), &f, load, trace, application)
			if err != nil {
				return err
			}
			if f.page != "" {
				if err := durable.WriteFile(f.page, func(w io.Writer) error { return report.HTML(w, comparison) }); err != nil {
					return err
				}
			}
			if f.format == "json" {
				return report.JSON(a.stdout, comparison)
			}
			return report.Table(a.stdout, comparison)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.trace, "trace", "", "CSV file of requests, or "+synthetic+"NAME")
	flags.StringArrayVar(&f.set, "set", nil, "name=value: a parameter of a synthetic trace (repeatable)")
	flags.StringVar(&f.appFile, "app", "", "application file")
	flags.StringSliceVar(&f.agents, "agents", sim.Agents(), "agents to compare")
	flags.Float64Var(&f.peak, "peak", 0, "scale the trace so that its highest minute has this rate, in requests per second; 0 = no scaling")
	flags.Float64Var(&f.skip, "skip", 0, "hours to leave out at the beginning of the trace")
	flags.BoolVar(&f.fill, "fill", false, "interpolate minutes without requests, as gaps of the recording")
	flags.Float64Var(&f.hours, "hours", 24, "hours to simulate")
	flags.Float64Var(&f.warmup, "warmup", 1, "hours at the beginning of the simulation that do not count")
	flags.IntVar(&f.seeds, "seeds", 1, "number of runs of each agent")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the first run, and of a synthetic trace")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	flags.StringVar(&f.log, "log", "", "folder for a journal of each run, APP-AGENT-SEED.jsonl; the oracle has none")
	flags.StringVar(&f.format, "format", "table", "table or json")
	flags.StringVar(&f.page, "report", "", "also write the comparison as an HTML page of one file")
	quietFlag(flags, &f.quiet)
	return cmd
}

// familiesHelp lists the synthetic loads.
func familiesHelp() string {
	var b strings.Builder
	b.WriteString("Synthetic traces, and their parameters for --set (rates per second, times in hours):")
	for _, f := range loadsim.Families() {
		fmt.Fprintf(&b, "\n  %s%s\n      %s", synthetic, f.Name, f.Help)
		for _, p := range f.Params {
			value := fmt.Sprintf("%.3g", p.Default)
			if p.Share {
				value += " of the length"
			}
			fmt.Fprintf(&b, "\n      %s=%s  %s", p.Name, value, p.Help)
		}
	}
	return b.String()
}

func (f *mpaFlags) check() error {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	for i, name := range f.agents {
		if !slices.Contains(sim.Agents(), name) {
			return unknown("agent", name, sim.Agents())
		}
		if slices.Contains(f.agents[:i], name) {
			return usagef("--agents: %s is listed twice", name)
		}
	}
	switch {
	case len(f.agents) == 0:
		return usagef("--agents is empty; there are %s", strings.Join(sim.Agents(), ", "))
	case !(f.hours > 0 && f.hours <= 24*366):
		return usagef("--hours %v: want more than 0 and at most a year", f.hours)
	case !(f.warmup >= 0 && f.warmup < f.hours):
		return usagef("--warmup %v: want at least 0 and less than --hours", f.warmup)
	case !(f.peak >= 0 && f.peak <= 1e6) || !(f.skip >= 0 && f.skip <= 24*366):
		return usagef("--peak %v --skip %v: want at least 0, and at most a million and a year", f.peak, f.skip)
	case f.seeds < 1 || f.workers < 1:
		return usagef("--seeds %d --workers %d: want at least 1", f.seeds, f.workers)
	}
	return nil
}

// load reads or generates the trace.
func (f *mpaFlags) load(cmd *cobra.Command) (loadsim.Load, report.Trace, error) {
	trace := report.Trace{Skip: f.skip, Hours: f.hours, Warmup: f.warmup, Scale: 1}
	var load loadsim.Load
	var err error
	if family, ok := strings.CutPrefix(f.trace, synthetic); ok {
		trace.Name, trace.Seed = f.trace, f.seed
		if trace.Parameters, err = parseSet(f.set); err != nil {
			return load, trace, err
		}
		if load, err = loadsim.Synthetic(family, trace.Parameters, f.skip+f.hours, f.seed); err != nil {
			return load, trace, &usageError{err}
		}
	} else {
		if cmd.Flags().Changed("set") {
			return load, trace, usagef("--set needs --trace %sNAME", synthetic)
		}
		load, err = loadsim.ReadLoad(f.trace)
		if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(loadsim.Families(), func(k loadsim.Family) bool { return k.Name == f.trace }) {
			return load, trace, usagef("%w; the synthetic load is --trace %s%s", err, synthetic, f.trace)
		}
		if err != nil {
			return load, trace, err
		}
		trace.Name = strings.TrimSuffix(filepath.Base(f.trace), ".csv")
		text, err := os.ReadFile(f.trace)
		if err != nil {
			return load, trace, err
		}
		trace.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	}
	if load, err = load.From(f.skip * 3600); err != nil {
		return load, trace, usagef("--skip %v: %v", f.skip, err)
	}
	if load.Peak() == 0 {
		return load, trace, usagef("--skip %v: no requests come after it", f.skip)
	}
	if f.fill {
		load, trace.Filled = load.Fill()
	}
	if f.peak > 0 {
		trace.Scale = f.peak / load.Peak()
		load = load.Scale(f.peak)
	}
	seconds := 0.0
	for t, until := f.warmup*3600, 0.0; t < f.hours*3600; t = until {
		var rate float64
		rate, until = load.Rate(t)
		until = min(until, f.hours*3600)
		trace.Mean += rate * (until - t)
		trace.Peak = max(trace.Peak, rate)
		seconds += until - t
	}
	trace.Mean /= seconds
	return load, trace, nil
}

// mpaCompare simulates every agent with every seed, unless it is interrupted.
func (a *app) mpaCompare(ctx context.Context, f *mpaFlags, load loadsim.Load, trace report.Trace, application sim.App) (*report.Comparison, error) {
	total := len(f.agents) * f.seeds
	show := a.newProgress(total, "simulation", f.quiet)
	defer show.end()
	seeds := make([]uint64, f.seeds)
	for s := range seeds {
		seeds[s] = f.seed + uint64(s)
	}
	results, minutes := make([][]sim.Result, len(f.agents)), make([][]sim.Minute, len(f.agents))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(f.workers)
	for i, name := range f.agents {
		results[i] = make([]sim.Result, f.seeds)
		for s, seed := range seeds {
			group.Go(func() error {
				cfg := sim.Config{
					App: application, Load: load, Seconds: f.hours * 3600, Warmup: f.warmup * 3600,
					Seed: seed, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite(),
				}
				if s == 0 && f.page != "" {
					cfg.Record = func(m sim.Minute) { minutes[i] = append(minutes[i], m) }
				}
				r, err := f.runLogged(inner, cfg, name)
				results[i][s] = r
				if err == nil {
					show.add()
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, interrupted("%d of %s done, and nothing written", show.count(), plural(total, "simulation"))
		}
		return nil, err
	}
	return report.New(report.AppOf(&application), trace, seeds, f.agents, results, minutes), nil
}
