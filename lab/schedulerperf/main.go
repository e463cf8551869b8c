// Command schedulerperf compares scheduler profiles on the same cluster and the
// same pods, in turns. The figure of merit is pods per CPU-second of the
// scheduler, which runs as a process of its own against a real control plane.
// Upstream's scheduler_perf, where API server and scheduler are one process, adds
// latencies and throughput.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// profile is a file in config and a test case in upstream/performance-config.yaml.
type profile struct {
	name, title string
	percentage  int32    // percentageOfNodesToScore
	scorers     []string // that must have scored
	others      bool     // others score too
}

var profiles = []profile{
	{"default-all", "default, all nodes", 100, []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation"}, true},
	{"default-sigma", "default + Sigma (weight 2000)", 100, []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "Sigma"}, true},
	{"mostallocated", "MostAllocated only", 100, []string{"NodeResourcesFit"}, false},
	{"sigma", "Sigma only", 100, []string{"Sigma"}, false},
	{"default", "default as shipped", 0, []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation"}, true},
}

// scoredBy reports whether these and no other plugins may have scored.
func (p profile) scoredBy(plugins []string) bool {
	for _, want := range p.scorers {
		if !slices.Contains(plugins, want) {
			return false
		}
	}
	if p.others {
		return slices.Contains(plugins, "Sigma") == slices.Contains(p.scorers, "Sigma")
	}
	return len(plugins) == len(p.scorers)
}

// The kernel sends Pdeathsig when the thread that forked ends: fork on the one
// that lives as long as we do.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "schedulerperf: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("schedulerperf", flag.ContinueOnError)
	flags.SetOutput(stderr)
	b := &bench{root: "../.."}
	flags.StringVar(&b.programs, "programs", "", "folder that lab/controlplane/build.sh prints")
	flags.StringVar(&b.scheduler, "scheduler", "", "the scheduler's program")
	flags.StringVar(&b.upstream, "upstream", "", "test binary of folder upstream; empty: without scheduler_perf")
	flags.IntVar(&b.pods, "pods", 3000, "pods to schedule")
	rounds := flags.Int("rounds", 5, "rounds, each of which starts with the next profile")
	sizes := flags.String("nodes", "1000", "sizes of clusters, separated by blanks")
	only := flags.String("profiles", "", "profiles to measure, separated by blanks, without scheduler_perf and noise; empty: all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := b.choose(*only); err != nil {
		return err
	}
	var err error
	if b.templates, err = readTemplates("upstream/templates"); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "schedulerperf-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.work) }()

	for field := range strings.FieldsSeq(*sizes) {
		nodes, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		r, err := b.compare(ctx, nodes, *rounds, stderr)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
		r.print(stdout, b.pods)
	}
	fmt.Fprintf(stdout, "\nAll of this took %.0f CPU-minutes.\n", cputime.All()/60)
	return nil
}

// choose selects the profiles to measure.
func (b *bench) choose(names string) error {
	if b.profiles = profiles; names == "" {
		return nil
	}
	b.profiles, b.upstream = nil, ""
	for name := range strings.FieldsSeq(names) {
		i := slices.IndexFunc(profiles, func(p profile) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("-profiles: unknown profile %q", name)
		}
		b.profiles = append(b.profiles, profiles[i])
	}
	return nil
}

// compare measures all profiles in turns.
func (b *bench) compare(ctx context.Context, nodes, rounds int, progress io.Writer) (*results, error) {
	store, err := b.prepare(ctx, nodes)
	if err != nil {
		return nil, err
	}
	var turns []turn
	for _, p := range b.profiles {
		turns = append(turns, turn{p.name, p})
	}
	if len(turns) == len(profiles) {
		turns = slices.Insert(turns, 2, turn{again, profiles[0]})
	}

	r := &results{nodes: nodes, rounds: rounds, profiles: b.profiles, measured: make(map[string][]measurement), perf: make(map[string]perfResult)}
	for round := range rounds {
		for i := range turns {
			t := turns[(round+i)%len(turns)]
			m, err := b.measure(ctx, store, t.profile)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			r.measured[t.name] = append(r.measured[t.name], m)
			fmt.Fprintf(progress, "%d nodes, round %d, %s: %.1f pods/CPU-s, %.0f µs a pod\n", nodes, round+1, t.name, m.podsPerCPUSecond, m.micros)
		}
	}
	if b.upstream == "" {
		return r, nil
	}
	for _, p := range b.profiles {
		if r.perf[p.name], err = b.perf(ctx, nodes, p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(progress, "%d nodes, scheduler_perf, %s: %.0f pods/s\n", nodes, p.name, r.perf[p.name].podsPerSecond)
	}
	return r, nil
}

// turn is one measurement of a round.
type turn struct {
	name    string
	profile profile
}
