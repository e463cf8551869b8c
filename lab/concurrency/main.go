// Concurrency compares the results of Sigma's learners and of its simulator with real
// functions: each runs in a cgroup and a network namespace of its own behind sigma-gate,
// and Vegeta keeps the gate full.
//
//	concurrency curve [PROFILE…]   results of each limit, measured and simulated
//	concurrency learn [PROFILE…]   and how soon learners find the best one
//	concurrency page               both, for all profiles: docs/concurrency-validation.md
//	concurrency knative            with Knative's queue-proxy and autoscaler: docs/results/knative-loop.md
//
// It needs Linux and root.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/lab/records/simcheck"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// asFunction is set in the environment of the functions' processes.
const asFunction = "SIGMA_CONCURRENCY_FUNCTION"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	if err := execute(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "concurrency: %v\n", err)
		os.Exit(1)
	}
}

// A study holds the settings of the measurements.
type study struct {
	gate, page, out string
	runs, windows   int
	workers         int
	peers           []string
	log             io.Writer
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := &study{log: stderr}
	root := &cobra.Command{Use: "concurrency", Short: "Learned limits and simulated curves beside real functions", SilenceErrors: true, SilenceUsage: true}
	flags := root.PersistentFlags()
	flags.StringVar(&s.gate, "gate", "../../out/concurrency/sigma-gate", "the `program` sigma-gate")
	flags.StringVar(&s.out, "out", "../../out/concurrency/results.json", "`file` with every window that was measured")
	flags.IntVar(&s.runs, "runs", 5, "runs of "+capacity.Default)
	flags.IntVar(&s.windows, "windows", 8, "windows of a run")
	flags.IntVar(&s.workers, "workers", 3, "runs at the same time; curves are measured one after the other")
	flags.StringSliceVar(&s.peers, "peers", []string{"ucb", "gradient2", "paper"}, "learners beside it, with one run each")
	measure := func(use, short string, learners bool) *cobra.Command {
		return &cobra.Command{Use: use + " [PROFILE…]", Short: short, RunE: func(cmd *cobra.Command, names []string) error {
			command := s.command("concurrency-validation")
			r, err := s.measure(cmd.Context(), names, learners)
			if err != nil {
				return err
			}
			_, err = io.WriteString(stdout, r.page(command).String())
			return err
		}}
	}
	page := &cobra.Command{Use: "page", Short: "Write the page of all profiles", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		command := s.command("concurrency-validation") // of the tree as it is now
		r, err := s.measure(cmd.Context(), nil, true)
		if err != nil {
			return err
		}
		return r.page(command).Save(s.page)
	}}
	page.Flags().StringVar(&s.page, "page", "../../docs/concurrency-validation.md", "`file` that is written")
	function := &cobra.Command{Use: "function PROFILE", Short: "Be a function", Hidden: true, Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, names []string) error {
		list, err := named(names)
		if err != nil {
			return err
		}
		return serve(list[0])
	}}
	root.AddCommand(measure("curve", "What each limit gives, measured and simulated", false), measure("learn", "How soon learners find the best limit", true), page, s.knative(), function)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// command names the command and the commit of the results.
func (s *study) command(target string) string {
	commit, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	return fmt.Sprintf("`make %s` at commit %s. %s", target, strings.TrimSpace(string(commit)), simcheck.Where())
}

// Results of a study.
type results struct {
	Version  string   `json:"version"` // of cgroups
	Curves   []curve  `json:"curves"`
	Runs     []run    `json:"runs"`
	Left     []string `json:"left,omitempty"` // the profiles that could not be measured
	Seconds  float64  `json:"seconds"`        // of cpu, of this process
	Learners []string `json:"learners"`
	Windows  int      `json:"windows"`
}

// lacks returns an error that names the features that this machine lacks for functions.
func lacks() error {
	if list := podspace.Missing(); len(list) > 0 {
		return fmt.Errorf("this machine lacks what functions need: %s", strings.Join(list, ", "))
	}
	return nil
}

// measure measures curves, and learners on them.
func (s *study) measure(ctx context.Context, names []string, learners bool) (_ *results, err error) {
	if s.runs < 1 || s.windows < 1 || s.workers < 1 {
		return nil, errors.New("--runs, --windows, --workers: want 1 or more")
	}
	list, err := named(names)
	if err != nil {
		return nil, err
	}
	if err := lacks(); err != nil {
		return nil, err
	}
	back, err := ahead(podspace.CgroupRoot)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, back()) }()
	r := &results{Version: podspace.CgroupVersion(podspace.CgroupRoot), Windows: s.windows}
	for _, p := range list {
		if p.threads {
			if _, err := python(); err != nil {
				r.Left = append(r.Left, fmt.Sprintf("`%s`: %v", p.name, err))
				continue
			}
		}
		fmt.Fprintf(s.log, "%s: curve\n", p.name)
		c, err := measureCurve(ctx, s.gate, p, p.limits())
		if err != nil {
			return nil, err
		}
		r.Curves = append(r.Curves, c)
	}
	if learners {
		if err := s.learn(ctx, r); err != nil {
			return nil, err
		}
	}
	r.Seconds = cputime.Process()
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, err
	}
	return r, records.Replace(filepath.Clean(s.out), string(text)+"\n")
}

// learn adds the learners' runs, some of them at the same time.
func (s *study) learn(ctx context.Context, r *results) error {
	r.Learners = append([]string{capacity.Default}, s.peers...)
	for _, name := range r.Learners {
		runs := 1
		if name == capacity.Default {
			runs = s.runs
		}
		for _, c := range r.Curves {
			for seed := range runs {
				r.Runs = append(r.Runs, run{Profile: c.Profile, Learner: name, Seed: uint64(seed + 1)})
			}
		}
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(s.workers)
	for i := range r.Runs {
		group.Go(func() error {
			if err := inner.Err(); err != nil {
				return err
			}
			to := &r.Runs[i]
			list, err := named([]string{to.Profile})
			if err != nil {
				return err
			}
			fmt.Fprintf(s.log, "%s: %s, run %d\n", to.Profile, to.Learner, to.Seed)
			*to, err = learn(inner, s.gate, list[0], to.Learner, to.Seed, s.windows)
			return err
		})
	}
	return group.Wait()
}
