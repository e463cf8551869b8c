package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/report"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

type mpaFlags struct {
	trace, appFile, format, page, log string
	set, agents                       []string
	generated, traces, policy         string
	count                             int
	list                              []scaling.Agent
	peak, hours, skip                 float64
	warmup                            float64
	fill, hostile, quiet              bool
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

` + scaling.FamiliesHelp() + `

The same flags give the same figures. ± is half of the 95 % interval over seeds.`,
		Example: `  sigma mpa simulate --trace worldcup98_rpm.csv --app web.yaml --peak 400 --skip 1500 --hours 24
  sigma mpa simulate --trace synthetic:flash-crowd --set high=300 --app web.yaml --hours 6 --report report.html
  sigma mpa simulate --trace load.csv --app web.yaml --agents hpa,hpa+vpa,oracle --seeds 5 --format json
  sigma mpa simulate --generated test --seed 900000 --count 24 --agents hpa+vpa,learned,policy.yaml`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if f.generated == "" {
				if err := required(cmd, "trace", "app"); err != nil {
					return err
				}
			}
			if err := cmp.Or(f.check(cmd), regular("report", f.page)); err != nil {
				return err
			}
			if f.generated != "" {
				return a.mpaGenerated(cmd.Context(), &f)
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
			return a.writeReport(comparison, comparison.Report(), f.format, f.page)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.trace, "trace", "", "CSV file of requests, or "+scaling.Synthetic+"NAME")
	flags.StringArrayVar(&f.set, "set", nil, "name=value: a parameter of a synthetic trace (repeatable)")
	flags.StringVar(&f.appFile, "app", "", "application file")
	flags.StringSliceVar(&f.agents, "agents", sim.Agents(), "agents to compare; also learned, foresight, "+strings.Join(agents.GatedNames(), ", ")+" and files of ScalingPolicies")
	flags.StringVar(&f.policy, "policy", "", "ScalingPolicy of the agents learned and foresight (default the shipped one)")
	flags.StringVar(&f.generated, "generated", "", "compare on generated scenarios of a side, "+strings.Join(sim.Sides(), " or ")+", in place of --trace and --app")
	flags.IntVar(&f.count, "count", 24, "generated scenarios, from --seed on")
	flags.BoolVar(&f.hostile, "hostile", false, "make generated scenarios hostile: steps of ten, no traffic, noise, missing or stale metrics, retries that double the load")
	flags.StringVar(&f.traces, "traces", "", "folder with the traces of the side; without it generated loads are synthetic")
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

func (f *mpaFlags) check(cmd *cobra.Command) (err error) {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	if f.generated != "" {
		if err := oneOf("generated", f.generated, sim.Sides()...); err != nil {
			return err
		}
		for _, name := range []string{"trace", "app", "set", "peak", "skip", "fill", "hours", "warmup", "seeds", "log", "report"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s does not go with --generated", name)
			}
		}
	}
	if err := cmp.Or(onlyWith(cmd, "count", "generated"), onlyWith(cmd, "traces", "generated"), onlyWith(cmd, "hostile", "generated")); err != nil {
		return err
	}
	if f.list, err = scaling.Agents(f.agents, f.policy); err != nil {
		return usagef("--agents, --policy: %w", err)
	}
	switch {
	case f.count < 1:
		return usagef("--count %d: want at least 1", f.count)
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
	if family, ok := strings.CutPrefix(f.trace, scaling.Synthetic); ok {
		trace.Name, trace.Seed = f.trace, f.seed
		if trace.Parameters, err = parseSet(f.set); err != nil {
			return load, trace, err
		}
		if load, err = loadsim.Synthetic(family, trace.Parameters, f.skip+f.hours, f.seed); err != nil {
			return load, trace, &usageError{err}
		}
	} else {
		if cmd.Flags().Changed("set") {
			return load, trace, usagef("--set needs --trace %sNAME", scaling.Synthetic)
		}
		if load, trace.Name, trace.Digest, err = scaling.ReadTrace(f.trace); errors.Is(err, scaling.ErrSynthetic) {
			return load, trace, &usageError{err}
		}
		if err != nil {
			return load, trace, err
		}
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
	trace.Mean, trace.Peak = scaling.Rates(load, f.warmup, f.hours)
	return load, trace, nil
}

// mpaCompare simulates every agent with every seed, unless it is interrupted.
func (a *app) mpaCompare(ctx context.Context, f *mpaFlags, load loadsim.Load, trace report.Trace, application sim.App) (*report.Comparison, error) {
	total := len(f.list) * f.seeds
	show := a.newProgress(total, "simulation", f.quiet)
	defer show.end()
	c, err := scaling.Simulate(ctx, &scaling.Simulation{
		App: application, Load: load, Trace: trace, Hours: f.hours, Warmup: f.warmup, Seed: f.seed, Seeds: f.seeds,
		Agents: f.list, Workers: f.workers, Log: f.log, Minutes: f.page != "", Done: show.add,
	})
	if err != nil && ctx.Err() != nil {
		return nil, interrupted("%d of %s done, and nothing written", show.count(), plural.Of(total, "simulation"))
	}
	return c, err
}

// mpaGenerated compares agents on generated scenarios.
func (a *app) mpaGenerated(ctx context.Context, f *mpaFlags) error {
	total := len(f.list) * f.count
	show := a.newProgress(total, "simulation", f.quiet)
	defer show.end()
	g := scaling.Generated{Side: f.generated, Seed: f.seed, Count: f.count, Traces: f.traces, Hostile: f.hostile, Agents: f.list, Workers: f.workers, Done: show.add}
	c, err := g.Compare(ctx)
	if show.end(); ctx.Err() != nil {
		return interrupted("%d of %s done", show.count(), plural.Of(total, "simulation"))
	}
	return cmp.Or(err, c.Write(a.stdout, f.format))
}
