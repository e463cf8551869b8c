package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sigma-scheduler/sigma/internal/cli"
	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/lab/records/autoscaler"
	"github.com/sigma-scheduler/sigma/lab/records/aware"
	"github.com/sigma-scheduler/sigma/lab/records/month"
	"github.com/sigma-scheduler/sigma/lab/records/placement"
	"github.com/sigma-scheduler/sigma/lab/records/savings"
	"github.com/sigma-scheduler/sigma/lab/records/simcheck"
	"github.com/sigma-scheduler/sigma/lab/records/tune"
	"github.com/sigma-scheduler/sigma/lab/records/usage"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// A program holds what all records share.
type program struct {
	cli.Shell
	sigma, docs, out string
}

func recordsCommand(shell cli.Shell) *cobra.Command {
	p := &program{Shell: shell}
	cmd := &cobra.Command{
		Use: "records", Short: "Make the published results", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&p.sigma, "sigma", "bin/sigma", "command line that is measured")
	flags.StringVar(&p.docs, "docs", "docs", "folder of the pages")
	flags.StringVar(&p.out, "out", "out/records", "folder of traces, policies and every run")
	cmd.AddCommand(p.placement(), p.autoscaler(), p.aware(), p.safety(), p.concurrency(), p.validate(), p.summary(), p.cpu(), p.manifests(), p.usage(), p.batch(), p.savings(), p.tuneFloor(), p.month())
	return cmd
}

// run wraps the function of a record. After an interrupt the error may be that of a killed command.
func (p *program) run(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return p.Do(func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if err != nil && cmd.Context().Err() != nil {
			return cli.Interrupted("pages of sections that ended are written")
		}
		return err
	})
}

func (p *program) runner() records.Runner {
	lab, err := os.Executable()
	if err != nil {
		lab = "bin/sigma-lab"
	}
	return records.Runner{Sigma: p.sigma, Lab: lab, Data: os.Getenv("SIGMA_DATA"), Log: p.Err}
}

// known refuses names that are not in the list.
func known(what string, list []string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for _, a := range args {
			if !slices.Contains(list, a) {
				return fmt.Errorf("unknown %s %q: want one of %s", what, a, strings.Join(list, ", "))
			}
		}
		return nil
	}
}

func (p *program) placement() *cobra.Command {
	names := make([]string, len(placement.Sections))
	for i, s := range placement.Sections {
		names[i] = s.Name
	}
	return &cobra.Command{
		Use: "placement [SECTION…]", Short: "Figures about placement policies: " + strings.Join(names, ", "),
		Args: known("section", names),
		RunE: p.run(func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(p.sigma); err != nil {
				return fmt.Errorf("%w: make build makes it", err)
			}
			for _, s := range placement.Sections {
				if len(args) > 0 && !slices.Contains(args, s.Name) {
					continue
				}
				fmt.Fprintf(p.Err, "== %s\n", s.Name)
				if err := s.Run(cmd.Context(), placement.Config{Docs: p.docs, Out: p.out, Runner: p.runner(), Now: time.Now}); err != nil {
					return err
				}
				if err := p.summarise(); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func (p *program) autoscaler() *cobra.Command {
	cfg := autoscaler.Config{Data: os.Getenv("SIGMA_DATA"), Seconds: cputime.Process}
	printed := false
	cmd := &cobra.Command{
		Use: "autoscaler [SIDE…]", Short: "Autoscalers on simulated workloads: " + strings.Join(sim.Sides(), ", "),
		Args: known("side", sim.Sides()),
		RunE: p.run(func(cmd *cobra.Command, sides []string) error {
			cfg.Docs, cfg.Out = p.docs, p.out
			if printed {
				cfg.Print = p.Out
			}
			if len(sides) == 0 {
				sides = sim.Sides()
			}
			for _, side := range sides {
				if err := autoscaler.Run(cmd.Context(), side, cfg); err != nil {
					return err
				}
				if printed {
					continue
				}
				if err := p.summarise(); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&cfg.Agents, "agents", autoscaler.Agents(), "agents that are compared")
	cmd.Flags().BoolVar(&printed, "print", false, "print the page and leave the documents as they are")
	cmd.Flags().IntVar(&cfg.Workers, "workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	return cmd
}

func (p *program) aware() *cobra.Command {
	var cfg aware.Config
	cmd := &cobra.Command{
		Use: "aware", Short: "What AWARE claims of bootstrapping, retraining and adaptation, measured", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) (err error) {
			cfg.Docs, cfg.Out = p.docs, p.out
			if f, ok := p.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				cfg.Progress = p.Err
			}
			runner := p.runner()
			if cfg.Version, err = runner.Version(cmd.Context()); err != nil {
				return fmt.Errorf("%w: make build makes it", err)
			}
			return aware.Run(cmd.Context(), cfg)
		}),
	}
	cmd.Flags().IntVar(&cfg.Workers, "workers", runtime.GOMAXPROCS(0), "applications at the same time")
	return cmd
}

func (p *program) safety() *cobra.Command {
	cfg := autoscaler.Config{Data: os.Getenv("SIGMA_DATA"), Seconds: cputime.Process}
	var runs, hostile int
	var network string
	printed := false
	cmd := &cobra.Command{
		Use: "safety", Short: "The agent learned on hostile workloads, and others", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) error {
			if cfg.Docs = p.docs; printed {
				cfg.Print = p.Out
			}
			return autoscaler.Safety(cmd.Context(), runs, hostile, network, cfg)
		}),
	}
	cmd.Flags().IntVar(&runs, "runs", 1000, "generated scenarios of the test side")
	cmd.Flags().IntVar(&hostile, "hostile", 300, "of them, those that are hostile")
	cmd.Flags().StringVar(&network, "network", "", "`file` of a network of ddpg, as `sigma-lab records aware` writes it, that acts within a band around the rules")
	cmd.Flags().BoolVar(&printed, "print", false, "print the page and leave the documents as they are")
	cmd.Flags().IntVar(&cfg.Workers, "workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	return cmd
}

func (p *program) concurrency() *cobra.Command {
	cfg := autoscaler.Config{Seconds: cputime.Process}
	printed := false
	cmd := &cobra.Command{
		Use: "concurrency", Short: "Days with a learned capacity, beside hpa-70 and Knative's autoscaler", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) error {
			runner := p.runner()
			version, err := runner.Version(cmd.Context())
			if err != nil {
				return fmt.Errorf("%w: make build makes it", err)
			}
			if cfg.Docs = p.docs; printed {
				cfg.Print = p.Out
			}
			if words := strings.Fields(version); len(words) > 1 {
				version = words[1] // after the program's name
			}
			return autoscaler.Concurrency(cmd.Context(), version, cfg)
		}),
	}
	cmd.Flags().BoolVar(&printed, "print", false, "print the page and leave the documents as they are")
	cmd.Flags().IntVar(&cfg.Workers, "workers", runtime.GOMAXPROCS(0), "simulations at the same time")
	return cmd
}

func (p *program) validate() *cobra.Command {
	var cfg simcheck.Config
	printed := false
	cmd := &cobra.Command{
		Use: "validate", Short: "The autoscaler's simulator beside theory and a real server (Linux, root, two quiet cores)",
		Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) error {
			cfg.Docs, cfg.Out, cfg.Runner, cfg.Now = p.docs, p.out, p.runner(), time.Now
			if os.Getenv(simcheck.PartVar) != "" {
				return simcheck.Part(cfg, p.Out)
			}
			if printed {
				cfg.Print = p.Out
				return simcheck.Run(cmd.Context(), cfg)
			}
			if err := simcheck.Run(cmd.Context(), cfg); err != nil {
				return err
			}
			return p.summarise()
		}),
	}
	cmd.Flags().IntVar(&cfg.Runs, "runs", 5, "runs of each load")
	cmd.Flags().Float64Var(&cfg.Seconds, "seconds", 10, "length of a run")
	cmd.Flags().StringVar(&cfg.App, "app", "", "one of "+strings.Join(simcheck.Apps(), ", ")+"; empty = all")
	cmd.Flags().BoolVar(&printed, "print", false, "print the tables and leave the documents as they are")
	return cmd
}

func (p *program) usage() *cobra.Command {
	return &cobra.Command{
		Use: "usage", Short: "Placement by what workloads use, and its risk", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) error {
			cfg := usage.Config{Docs: p.docs, Out: p.out, Runner: p.runner(), Seconds: cputime.Process}
			if err := usage.Run(cmd.Context(), cfg); err != nil {
				return err
			}
			return p.summarise()
		}),
	}
}

func (p *program) batch() *cobra.Command {
	return &cobra.Command{
		Use: "batch", Short: "Batch work on the cpu that online workloads leave", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) error {
			cfg := usage.Config{Docs: p.docs, Out: p.out, Runner: p.runner(), Seconds: cputime.Process}
			if err := usage.RunBatch(cmd.Context(), cfg); err != nil {
				return err
			}
			return p.summarise()
		}),
	}
}

func (p *program) savings() *cobra.Command {
	cfg := savings.Config{Page: true}
	cmd := &cobra.Command{
		Use: "savings", Short: "The figures of sigma savings on dumps that nobody tuned for, checked", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) error {
			runner := p.runner()
			version, err := runner.Version(cmd.Context())
			if err != nil {
				return fmt.Errorf("%w: make build makes it", err)
			}
			cfg.Sigma, cfg.Docs, cfg.Out, cfg.Log, cfg.Version = p.sigma, p.docs, filepath.Join(p.out, "savings"), p.Err, version
			return savings.Run(cmd.Context(), cfg)
		}),
	}
	cmd.Flags().IntVar(&cfg.Most, "most", 2000, "nodes of the largest dump")
	cmd.Flags().IntVar(&cfg.Orders, "orders", 2, "orders of arrival whose placements are checked, of 20")
	cmd.Flags().StringVar(&cfg.Checker, "checker", os.Getenv("SIGMA_CHECKER"), "another checker of placements, `FILE` of Python that takes a trace and a file of placements (default $SIGMA_CHECKER)")
	cmd.Flags().BoolVar(&cfg.Page, "page", true, "write the page")
	return cmd
}

func (p *program) month() *cobra.Command {
	var cfg month.Config
	printed := false
	cmd := &cobra.Command{
		Use: "month", Short: "Whole stacks on simulated clusters", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Clusters < 2 && (cfg.Clusters != 0 || !printed) || cfg.Days < 1 || cfg.Days > 46 {
				return fmt.Errorf("--clusters %d --days %d: want at least 2, or 0 with --print, and 1 to 46", cfg.Clusters, cfg.Days)
			}
			runner := p.runner()
			if cfg.Version, err = runner.Version(cmd.Context()); err != nil {
				return fmt.Errorf("%w: make build makes it", err)
			}
			if cfg.Log, cfg.Seconds = p.Err, cputime.Process; !printed {
				cfg.Docs = p.docs
			}
			return month.Run(cmd.Context(), cfg)
		}),
	}
	cmd.Flags().Uint64Var(&cfg.First, "first", 900_000, "first seed")
	cmd.Flags().IntVar(&cfg.Clusters, "clusters", 20, "clusters of each kind")
	cmd.Flags().IntVar(&cfg.Days, "days", 30, "days that are judged")
	cmd.Flags().IntVar(&cfg.Faults, "faults", 4, "clusters of each kind under faults")
	cmd.Flags().BoolVar(&printed, "print", false, "print the tables and leave the documents as they are")
	return cmd
}

func (p *program) tuneFloor() *cobra.Command {
	var cfg tune.Config
	printed := false
	cmd := &cobra.Command{
		Use: "tune-floor", Short: "The advice of `sigma tune` on the second day, against the policy in force and the free rules", Args: cobra.NoArgs,
		RunE: p.run(func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Clusters < 1 || cfg.Trained < 0 {
				return fmt.Errorf("--clusters %d --trained %d: want at least 1 and 0", cfg.Clusters, cfg.Trained)
			}
			runner := p.runner()
			if cfg.Version, err = runner.Version(cmd.Context()); err != nil {
				return fmt.Errorf("%w: make build makes it", err)
			}
			if cfg.Log, cfg.Seconds = p.Err, cputime.Process; !printed {
				cfg.Docs = p.docs
			}
			return tune.Floor(cmd.Context(), cfg)
		}),
	}
	cmd.Flags().Uint64Var(&cfg.First, "first", 900_000, "first seed")
	cmd.Flags().IntVar(&cfg.Clusters, "clusters", 8, "clusters of each kind")
	cmd.Flags().IntVar(&cfg.Trained, "trained", 2, "clusters of each kind that are also tuned with training")
	cmd.Flags().BoolVar(&cfg.Limited, "limited", false, "clusters where .5 to .9 of the Deployments have one pod a node: writes another page")
	cmd.Flags().BoolVar(&printed, "print", false, "print the table and leave the documents as they are")
	return cmd
}

func (p *program) summary() *cobra.Command {
	return &cobra.Command{
		Use: "summary", Short: "Writes results.md from the pages", Args: cobra.NoArgs,
		RunE: p.run(func(*cobra.Command, []string) error {
			return p.summarise()
		}),
	}
}

func (p *program) summarise() error { return records.Summarise(p.docs, capabilities()) }

// capabilities are the parts of the summary.
func capabilities() []records.Capability {
	const ratio = "median (least … most)"
	return append(placement.Capabilities(), records.Capability{
		Title: "Speed",
		About: "Pods per CPU-second of kube-scheduler with 1,000 nodes, as ratios, and the time of the plugin; [packing core and simulator](performance.md).",
		Parts: []records.Highlight{{
			Name: "scheduler", Page: "scheduler-performance.md", Maker: "make bench-scheduler",
			Table: records.Columns([]string{"", ratio, "asked for", "met"}, []string{
				"default + Sigma ÷ default, all nodes", "Sigma only ÷ MostAllocated only", "Sigma only: PreScore p50 + Score p50, ms",
			}),
		}},
	}, records.Capability{
		Title: "Requests and use",
		About: `Pods counted at [what they use](requests-and-use.md), by sizes of earlier days alone: *over* is the node-time with more used than there is.
± is half of the 95 % interval.`,
		Parts: usage.Highlights(),
	}, records.Capability{
		Title: "Autoscaling",
		About: `Agents on 12 simulated scenarios of 132 hours that none was tuned on, five seeds each; ± is half of the 95 % interval.
The oracle knows the load to come and is the limit of cost. The gap is what ` + "`hpa+vpa`" + ` could save.
The second table checks the simulator.`,
		Parts: append(autoscaler.Highlights(), simcheck.Highlight()),
	})
}
