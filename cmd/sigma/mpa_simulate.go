package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// simulatable are the agents that a simulation can run: those of a cluster, and the
// one that knows the load.
func simulatable() []string { return sim.Agents() }

// A mpaRun is one agent on one application and load, over all seeds.
type mpaRun struct {
	Agent string       `json:"agent"`
	Runs  []sim.Result `json:"runs"` // by seed
}

type mpaFlags struct {
	trace, appFile, format string
	agents                 []string
	peak, hours, skip      float64
	warmup                 float64
	seeds, workers         int
	seed                   uint64
}

func (a *app) mpaSimulate() *cobra.Command {
	var f mpaFlags
	cmd := &cobra.Command{
		Use:   "simulate --trace F.csv --app F.yaml",
		Short: "Compare autoscalers on a simulated application",
		Long: `Simulate sends the requests of a trace (a CSV file with a column count, requests
per minute) to an application and lets each agent size it, under the guards of the
controller. Requests come in open loop; pods share their
processor under a CFS quota, start and are resized with a delay, and run out of memory;
metrics are scraped, averaged and late. The oracle knows the load and the workload's
state and is bound by no guard: the least that keeping the SLO can cost, where a
core-hour is worth 8 GiB-hours.

The same flags give the same figures. ± is half of the 95 % interval over seeds.`,
		Example: `  sigma mpa simulate --trace worldcup98_rpm.csv --app web.yaml --peak 400 --skip 1500 --hours 24
  sigma mpa simulate --trace load.csv --app web.yaml --agents hpa,hpa+vpa,oracle --seeds 5 --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace", "app"); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			load, err := sim.ReadLoad(f.trace)
			if err != nil {
				return err
			}
			if load, err = load.From(f.skip * 3600); err != nil {
				return usagef("--skip %v: %v", f.skip, err)
			}
			if f.peak > 0 {
				load = load.Scale(f.peak)
			}
			application, err := sim.ReadApp(f.appFile)
			if err != nil {
				return err
			}
			runs, err := f.run(cmd, load, application)
			if err != nil {
				return err
			}
			if f.format == "json" {
				return writeJSON(a.stdout, runs)
			}
			return mpaTable(a.stdout, application, runs)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.trace, "trace", "", "CSV file of requests per minute")
	flags.StringVar(&f.appFile, "app", "", "application file")
	flags.StringSliceVar(&f.agents, "agents", simulatable(), "who decides")
	flags.Float64Var(&f.peak, "peak", 0, "requests per second at the trace's highest minute; 0 = as it is")
	flags.Float64Var(&f.skip, "skip", 0, "hours of the trace to leave out at its beginning")
	flags.Float64Var(&f.hours, "hours", 24, "hours to simulate")
	flags.Float64Var(&f.warmup, "warmup", 1, "hours of these that do not count")
	flags.IntVar(&f.seeds, "seeds", 1, "number of runs of each agent")
	flags.Uint64Var(&f.seed, "seed", 1, "the first of them")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	flags.StringVar(&f.format, "format", "table", "table or json")
	return cmd
}

func (f *mpaFlags) check() error {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return err
	}
	for _, name := range f.agents {
		if !slices.Contains(simulatable(), name) {
			return unknown("agent", name, simulatable())
		}
	}
	switch {
	case !(f.hours > 0 && f.hours <= 24*366):
		return usagef("--hours %v: want more than 0 and at most a year", f.hours)
	case !(f.warmup >= 0 && f.warmup < f.hours):
		return usagef("--warmup %v: want at least 0 and less than --hours", f.warmup)
	case !(f.peak >= 0) || !(f.skip >= 0):
		return usagef("--peak %v --skip %v: want at least 0", f.peak, f.skip)
	case f.seeds < 1 || f.workers < 1:
		return usagef("--seeds %d --workers %d: want at least 1", f.seeds, f.workers)
	}
	return nil
}

// run simulates every agent with every seed.
func (f *mpaFlags) run(cmd *cobra.Command, load sim.Load, application sim.App) ([]mpaRun, error) {
	runs := make([]mpaRun, len(f.agents))
	group, ctx := errgroup.WithContext(cmd.Context())
	group.SetLimit(f.workers)
	for i, name := range f.agents {
		runs[i] = mpaRun{Agent: name, Runs: make([]sim.Result, f.seeds)}
		for s := range f.seeds {
			group.Go(func() error {
				cfg := sim.Config{
					App: application, Load: load, Seconds: f.hours * 3600, Warmup: f.warmup * 3600,
					Seed: f.seed + uint64(s), Guards: mpa.DefaultGuards(), Site: sim.DefaultSite(),
				}
				r, err := sim.RunAgent(ctx, cfg, name)
				runs[i].Runs[s] = r
				return err
			})
		}
	}
	return runs, group.Wait()
}

// writeJSON writes a value indented.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// mpaTable writes a line for each agent.
func mpaTable(w io.Writer, application sim.App, runs []mpaRun) error {
	slo := application.Target.SLO
	first := runs[0].Runs[0]
	fmt.Fprintf(w, "%s: %.3g hours, %d requests; %g %% of them within %g ms is promised\n\n",
		application.Name, first.Hours, first.Requests, slo.Percentile, 1000*slo.Latency)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "agent\tcore-h\tGiB-h\tcpu %\tmemory %\tviolating %\tminutes\tp50 ms\tp95 ms\tp99 ms\tscalings/h\tresizes/h\tkills\t")
	for _, r := range runs {
		columns := []struct {
			format string
			value  func(r sim.Result) float64
		}{
			{"%.1f", func(r sim.Result) float64 { return r.CoreHours }},
			{"%.1f", func(r sim.Result) float64 { return r.GiBHours }},
			{"%.1f", func(r sim.Result) float64 { return 100 * r.CPUUtilisation }},
			{"%.1f", func(r sim.Result) float64 { return 100 * r.MemUtilisation }},
			{"%.3f", func(r sim.Result) float64 { return 100 * float64(r.Violations) / float64(r.Requests) }},
			{"%.0f", func(r sim.Result) float64 { return float64(r.ViolatingMinutes) }},
			{"%.0f", func(r sim.Result) float64 { return 1000 * r.P50 }},
			{"%.0f", func(r sim.Result) float64 { return 1000 * r.P95 }},
			{"%.0f", func(r sim.Result) float64 { return 1000 * r.P99 }},
			{"%.2f", func(r sim.Result) float64 { return float64(r.ReplicaChanges) / r.Hours }},
			{"%.2f", func(r sim.Result) float64 { return float64(r.RequestChanges) / r.Hours }},
			{"%.1f", func(r sim.Result) float64 { return float64(r.Kills) }},
		}
		cells := []string{r.Agent}
		for _, c := range columns {
			values := make([]float64, len(r.Runs))
			for i, v := range r.Runs {
				values[i] = c.value(v)
			}
			cells = append(cells, interval(c.format, values))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	return t.Flush()
}

// interval is a mean and half of its 95 % interval.
func interval(format string, values []float64) string {
	mean := fmt.Sprintf(format, stat.Mean(values, nil))
	n := float64(len(values))
	if n < 2 {
		return mean
	}
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975) * stat.StdErr(stat.StdDev(values, nil), n)
	return mean + " ±" + fmt.Sprintf(format, half)
}
