package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/swarm"
)

func (a *app) mpaTrain() *cobra.Command {
	var t scaling.Training
	var out string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "train --out policy.yaml",
		Short: "Train a ScalingPolicy on generated workloads",
		Long: `Train searches for the numbers of a ScalingPolicy with a particle swarm (or, as
controls, CMA-ES or random search), on generated scenarios of the train side. One
evaluation simulates all of them once. Scenarios with a family or a profile that is held
out choose among the best of the generations; the figures printed are theirs. With --journal
it searches on one's own workloads as well, and writes only what is better than --serving.

The same flags give the same bytes for any number of workers. After an interrupt the best
so far is written; with --checkpoint the same command resumes. Seeds for tests are refused.`,
		Example: `  sigma mpa train --scenarios 200 --evaluations 100 --out policy.yaml`,
		Args:    noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(required(cmd, "out"), regular("out", out), oneOf("method", t.Method, scaling.Methods()...)); err != nil {
				return err
			} else if err = t.Check(); err != nil {
				return usagef("%w", err)
			}
			show := a.newProgress(t.Evaluations, "evaluation", quiet)
			defer show.end()
			t.Progress = func(s swarm.Stats) { show.set(s.Evaluations, fmt.Sprintf("best %.6g", s.GlobalBest)) }
			found, err := t.Run(cmd.Context())
			show.end()
			switch {
			case errors.Is(err, swarm.ErrSettings):
				return usagef("%w; take another folder, or the same settings", err)
			case found == nil && errors.Is(err, context.Canceled):
				return interrupted("%s is not written before the first generation is done", out)
			case found == nil:
				return err
			}
			if failed := found.Write(a.stdout, out); failed != nil || err == nil {
				return failed
			}
			return interrupted("%s holds the best so far", out)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "policy file to write")
	flags.IntVar(&t.Scenarios, "scenarios", 200, "generated scenarios, those for validation included")
	flags.Uint64Var(&t.First, "first", 1, "seed of the first scenario")
	flags.StringVar(&t.Traces, "traces", "", "folder with the traces of the train side; without it loads are synthetic")
	flags.IntVar(&t.Evaluations, "evaluations", 100, "budget: sets of numbers to evaluate")
	flags.StringVar(&t.Method, "method", "swarm", strings.Join(scaling.Methods(), ", "))
	flags.IntVar(&t.Particles, "particles", scaling.DefaultParticles, "sets of numbers in a generation")
	flags.Uint64Var(&t.Seed, "seed", 1, "of the search")
	flags.IntVar(&t.Workers, "workers", runtime.GOMAXPROCS(0), "evaluations at the same time")
	flags.StringVar(&t.Journals, "journal", "", "folder with journals of one's own workloads")
	flags.StringVar(&t.Serving, "serving", "", "policy that serves, to begin with and to beat (default the shipped one)")
	flags.StringVar(&t.Checkpoint, "checkpoint", "", "folder that records evaluations, to resume from")
	quietFlag(flags, &quiet)
	return cmd
}
