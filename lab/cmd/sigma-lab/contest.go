package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/cli"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/lab/contest"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

func contestCommand(shell cli.Shell) *cobra.Command {
	var c contest.Config
	var limits, format, page string
	var learners strings.Builder
	for _, name := range capacity.Names() {
		fmt.Fprintf(&learners, "  %-10s %s\n", name, capacity.About(name))
	}
	cmd := &cobra.Command{
		Use:   "contest",
		Short: "Compare learners of the concurrency limit on drawn pods",
		Long: `Contest lets each learner look for the best limit of drawn pods whose true
throughput at every limit is known: pods that compute, wait, contend, run out of memory,
collect garbage or share a pool of connections. After --trials trials every request becomes
three times as large, or a third, and the learner has as many trials again.

The learners:
` + learners.String() + `Also fixed:N, a limit that stays, and best, which knows the pod. All but paper, fixed and
best are behind the guard of memory. The same flags give the same figures.`,
		Example: `  sigma-lab contest --seed 900000 --noise 0.05
  sigma-lab contest --seed 900000 --noise 0.15 --by-interval --limits paper --report page.html`,
		Args: cobra.NoArgs,
		RunE: shell.Do(func(cmd *cobra.Command, _ []string) error {
			switch {
			case format != "table" && format != "json":
				return shell.Usage("unknown format %q; there are table, json", format)
			case limits != "geometric" && limits != "paper":
				return shell.Usage("unknown limits %q; there are geometric, paper", limits)
			case c.Profiles < 1 || c.Runs < 1 || c.Trials < 1 || c.Workers < 1:
				return shell.Usage("--profiles %d --runs %d --trials %d --workers %d: want at least 1", c.Profiles, c.Runs, c.Trials, c.Workers)
			case !(c.Noise >= 0 && c.Noise < 1):
				return shell.Usage("--noise %v: want 0 to 1", c.Noise)
			case c.ByInterval && c.Noise == 0:
				return shell.Usage("--by-interval needs --noise above 0")
			}
			c.Limits, c.Initial = capacity.Geometric(1, 310, 1.25), 4
			if limits == "paper" {
				c.Limits, c.Initial = nil, 10
				for n := 10; n <= 310; n += 20 {
					c.Limits = append(c.Limits, n)
				}
			}
			found, err := contest.Compare(cmd.Context(), c)
			switch {
			case cmd.Context().Err() != nil:
				return cli.Interrupted("nothing is written before all profiles are done")
			case err != nil:
				return shell.Usage("--learners: %w", err)
			}
			if page != "" {
				if err := durable.WriteFile(page, found.Report().HTML); err != nil {
					return err
				}
			}
			if format == "json" {
				return found.JSON(shell.Out)
			}
			return found.Table(shell.Out)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&c.Learners, "learners", append(capacity.Names(), "fixed:10", "fixed:100", contest.Best), "learners to compare")
	flags.IntVar(&c.Profiles, "profiles", 60, "pods to draw")
	flags.IntVar(&c.Runs, "runs", 5, "runs of each pod, with other noise")
	flags.Uint64Var(&c.First, "seed", 1, "seed of the first pod; from 900000 on none has been tuned on")
	flags.IntVar(&c.Trials, "trials", 60, "trials of a run, and again after the change")
	flags.Float64Var(&c.Noise, "noise", .05, "relative deviation of what a window measures")
	flags.BoolVar(&c.ByInterval, "by-interval", false, "let a trial go on until its throughput is known within 3 %; without, a trial is one window")
	flags.StringVar(&limits, "limits", "geometric", "limits that may be tried: geometric (1 to 310, begins with 4) or paper (10, 30 … 310, begins with 10)")
	flags.IntVar(&c.Workers, "workers", runtime.GOMAXPROCS(0), "pods at the same time")
	flags.StringVar(&format, "format", "table", "table or json")
	flags.StringVar(&page, "report", "", "also write the comparison as an HTML page of one file")
	for name, words := range map[string][]string{"learners": capacity.Names(), "limits": {"geometric", "paper"}, "format": {"table", "json"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	return cmd
}
