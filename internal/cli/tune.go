package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/tune"
	"github.com/sigma-scheduler/sigma/swarm"
)

func (a *app) tune() *cobra.Command {
	var (
		paths             []string
		cfg               tune.Config
		target            string
		from, until       time.Duration
		out, page, format string
		quiet             bool
		choice            policyFlags
	)
	cmd := &cobra.Command{
		Use:   "tune --trace DIR --out policy.yaml",
		Short: "Learn a policy from a recorded history, and say whether it is worth it",
		Long: `Tune judges policies on whole days against the policy in force (--policy). It first chooses
among the rules that the target can run and the policy in force, which stays unless another
costs 1 % less. Then it trains policies near the one in force, and takes one only where that
costs .5 % less than the choice. The last days judge once. The answer is one sentence: the
policy that was written is worth it, use a rule, or keep what you have. On a fixed fleet pods
without a place count.

Of three days or more the first half trains, the last fifth judges, and those between choose.
Of two days the first chooses and the second judges; a single day does both, in other draws:
each is led in by a copy of itself. Then training also sees built days, and all days are built
from a snapshot or a record of less than a day: roll-outs, scaling and jobs of the workloads at
the end of the record. Of three traces or more in which nothing leaves each counts as a day.

The same flags give the same bytes for any number of workers. With --checkpoint the same
command resumes after an interrupt. A rule without settings needs no file, only its name.`,
		Example: `  sigma tune --trace recorded --out policy.yaml
  sigma tune --trace monday --trace tuesday --policy installed.yaml --out policy.yaml --report verdict.html
  sigma tune --trace recorded --until 24h --out policy.yaml        # then compare on what came later
  sigma tune --trace recorded --for kube-scheduler --out policy.yaml --format json`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "trace", "out"); err != nil {
				return err
			}
			if err := oneOf("for", target, tune.Targets()...); err != nil {
				return err
			}
			if err := oneOf("format", format, "table", "json"); err != nil {
				return err
			}
			for name, n := range map[string]int{"evaluations": cfg.Evaluations, "workers": cfg.Workers} {
				if n < 1 {
					return usagef("--%s %d: want at least 1", name, n)
				}
			}
			if cfg.Seeds < 0 {
				return usagef("--seeds %d: want at least 0", cfg.Seeds)
			}
			if percent := cfg.PreferencesPercent; cmd.Flags().Changed("preferences-percent") && !(percent > 0 && percent <= 100) {
				return usagef("--preferences-percent %g: want more than 0, up to 100", percent)
			}
			if t := tune.Target(target); cfg.PreferencesPercent > 0 && t != tune.Live && t != tune.Offline {
				return usagef("--preferences-percent goes with --for live and offline: %s has no price of preferences", target)
			}
			if t := tune.Target(target); choice.ties == "position" && t != tune.Live && t != tune.Offline {
				return usagef("--ties position goes with --for live and offline: %s breaks ties at random", target)
			}
			if from < 0 || until < 0 {
				return usagef("--from %v --until %v: want times after the first event", from, until)
			}
			var err error
			if cfg.Catalog, err = choice.catalog(cfg.Seed); err != nil {
				return err
			}
			if !cmd.Flags().Changed("policy") {
				cfg.InForce = tune.Target(target).Installed()
			}
			if cfg.InForce == compare.Current {
				return usagef("--policy %s repeats past placements, which no scheduler does: name the policy in force", compare.Current)
			}
			if err := checkPolicies(&cfg.Catalog, cfg.InForce); err != nil {
				return err
			}
			if cfg.Traces, err = a.loadTraces(paths); err != nil {
				return err
			}
			cfg.Target, cfg.From, cfg.Until = tune.Target(target), from.Seconds(), until.Seconds()
			cfg.Name = strings.TrimSuffix(filepath.Base(out), filepath.Ext(out))
			if cfg.Checkpoint != "" {
				if err := os.MkdirAll(cfg.Checkpoint, 0o755); err != nil {
					return err
				}
			}
			if err := cmp.Or(regular("out", out), regular("report", page)); err != nil {
				return err
			}
			result, err := a.tuneUntil(cmd.Context(), cfg, quiet)
			if err != nil {
				return err
			}
			if result.Object != nil {
				if err := result.Object.Save(out); err != nil {
					return err
				}
				if result.Better {
					result.Chosen = out
				}
			} else if _, err := os.Stat(out); err == nil {
				fmt.Fprintf(a.stderr, "nothing was written: %s is from an earlier run\n", out)
			}
			if page != "" {
				if err := durable.WriteFile(page, result.Report().HTML); err != nil {
					return err
				}
			}
			if format == "json" {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(result)
			}
			return result.Table(a.stdout)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&paths, "trace", nil, "recorded history: days in order, or one long trace (repeatable)")
	a.unpackedFlag(flags)
	flags.StringVar(&out, "out", "", "policy file to write")
	flags.StringVar(&target, "for", string(tune.Live), "what is to run the policy: "+strings.Join(tune.Targets(), ", "))
	flags.StringVar(&cfg.InForce, "policy", "learned", "policy in force, which another has to beat; for upstream's scheduler mostallocated unless given")
	flags.DurationVar(&from, "from", 0, "leave out what came before this time after the first event")
	flags.DurationVar(&until, "until", 0, "leave out what came later than this after the first event, for instance 24h")
	flags.IntVar(&cfg.Evaluations, "evaluations", tune.DefaultEvaluations, "budget of each training: positions to evaluate")
	flags.Float64Var(&cfg.PreferencesPercent, "preferences-percent", 0, "also search the price of what pods prefer: how many percent more than ignoring it that may cost")
	flags.IntVar(&cfg.Seeds, "seeds", tune.DefaultSeeds, "trainings of each kind; 0: rules and shipped files only, in seconds")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "of trainings, shuffles and draws")
	flags.IntVar(&cfg.Workers, "workers", runtime.GOMAXPROCS(0), "evaluations at the same time")
	flags.StringVar(&cfg.Checkpoint, "checkpoint", "", "folder that keeps every evaluation, to resume from")
	flags.StringVar(&page, "report", "", "also write the verdict as an HTML page of one file")
	flags.StringVar(&format, "format", "table", "table or json")
	quietFlag(flags, &quiet)
	choice.add(flags)
	return cmd
}

// tuneUntil tunes until it is interrupted.
func (a *app) tuneUntil(ctx context.Context, cfg tune.Config, quiet bool) (*tune.Result, error) {
	show := a.newProgress(0, "evaluation", quiet)
	defer show.end()
	cfg.Progress = func(done, of int, note string) {
		show.expect(of)
		show.set(done, note)
	}
	result, err := tune.Run(ctx, cfg)
	show.end()
	switch {
	case errors.Is(err, swarm.ErrSettings):
		return nil, usagef("%w; take another folder, or the same settings", err)
	case err != nil && ctx.Err() != nil:
		again := "; with --checkpoint DIR the same command would resume"
		if cfg.Checkpoint != "" {
			again = "; the same command resumes"
		}
		return nil, interrupted("nothing is written%s", again)
	}
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	return result, nil
}
