package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A knativeStudy holds the settings of the measurements with Knative's parts.
type knativeStudy struct {
	*study
	queue, page, out string
	parts, profiles  []string
	repeats, trials  int
	rounds           int
	seconds          float64
}

// knativeResults have a part each, with the command that measured it.
type knativeResults struct {
	Loop  *loopResults  `json:"loop,omitempty"`
	Gate  *gateResults  `json:"gate,omitempty"`
	Paper *paperResults `json:"paper,omitempty"`
}

type loopResults struct {
	Stamp   string     `json:"stamp"`
	Lessons []*lesson  `json:"lessons"`
	Runs    []*loopRun `json:"runs"`
}

type gateResults struct {
	Stamp  string      `json:"stamp"`
	Load   string      `json:"load"`
	Rounds []frontCost `json:"rounds"`
}

type paperResults struct {
	Stamp  string                 `json:"stamp"`
	Load   string                 `json:"load"`
	Trials map[string][]paperStep `json:"trials"`
}

// parts of the page.
var knativeParts = []string{"loop", "gate", "paper"}

// paperProfiles are those that the published agent is tried on, at the same time: it has nothing to find in cpu.
var paperProfiles = []string{"io", "mixed"}

func (s *study) knative() *cobra.Command {
	k := &knativeStudy{study: s}
	cmd := &cobra.Command{
		Use: "knative", Short: "Settings of a Knative Service with the real queue-proxy and autoscaler, the gate beside queue-proxy, and the published agent", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return k.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&k.queue, "queue", "", "the `program` queue-proxy, of hack/knative/build.sh")
	flags.StringVar(&k.page, "page", "../../docs/results/knative-loop.md", "`file` that is written")
	flags.StringVar(&k.out, "results", "../../out/concurrency/knative.json", "`file` with all that was measured; parts that are not measured now are taken from it")
	flags.StringSliceVar(&k.parts, "parts", knativeParts, "what is measured")
	flags.StringSliceVar(&k.profiles, "profiles", []string{"cpu", "mem", "io"}, "functions of the loop")
	flags.IntVar(&k.repeats, "repeats", 3, "runs of each setting of the loop")
	flags.Float64Var(&k.seconds, "seconds", 60, "length of a run of the loop; the first 10 do not count")
	flags.IntVar(&k.rounds, "rounds", 8, "of gate and queue-proxy, at each rate")
	flags.IntVar(&k.trials, "trials", 100, "of the published agent")
	return cmd
}

func (k *knativeStudy) check() error {
	for _, part := range k.parts {
		if !slices.Contains(knativeParts, part) {
			return fmt.Errorf("--parts %s: want of %s", part, strings.Join(knativeParts, ", "))
		}
	}
	for _, name := range k.profiles {
		if _, ok := demands[name]; !ok {
			return fmt.Errorf("--profiles %s: want of cpu, mem, io", name)
		}
	}
	switch {
	case k.queue == "":
		return errors.New("--queue is missing: hack/knative/build.sh prints the folder with it")
	case k.repeats < 1 || k.rounds < 1 || k.trials < 20:
		return errors.New("--repeats, --rounds: want 1 or more; --trials: want 20 or more")
	case !(k.seconds > 15 && k.seconds <= 3600):
		return fmt.Errorf("--seconds %v: want more than 15, at most 3600", k.seconds)
	}
	return lacks()
}

func (k *knativeStudy) run(ctx context.Context) (err error) {
	if err := k.check(); err != nil {
		return err
	}
	r, err := k.former()
	if err != nil {
		return err
	}
	stamp := k.command("knative-loop")
	back, err := ahead(podspace.CgroupRoot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back()) }()
	for _, part := range k.parts {
		switch part {
		case "loop":
			r.Loop, err = k.loop(ctx)
			if err == nil {
				r.Loop.Stamp = stamp
			}
		case "gate":
			r.Gate = &gateResults{Stamp: stamp, Load: loadAverage()}
			fmt.Fprintf(k.log, "gate and queue-proxy, load average %s\n", r.Gate.Load)
			r.Gate.Rounds, err = measureFronts(ctx, k.gate, k.queue, k.rounds)
		case "paper":
			r.Paper, err = k.paper(ctx)
			if err == nil {
				r.Paper.Stamp = stamp
			}
		}
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := records.Replace(k.out, string(text)+"\n"); err != nil {
			return err
		}
	}
	return r.page().Save(k.page)
}

// former returns the earlier results.
func (k *knativeStudy) former() (*knativeResults, error) {
	r := &knativeResults{}
	text, err := os.ReadFile(k.out)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.out, err)
	}
	return r, nil
}

// fuller is the share of the target that is used in another setting, with the learned limit and target.
const (
	fuller     = capacity.Headroom
	fullerName = "learned, of which 85 %"
)

// loop measures the settings of each function, which take turns.
func (k *knativeStudy) loop(ctx context.Context) (*loopResults, error) {
	r := &loopResults{}
	list, err := named(k.profiles)
	if err != nil {
		return nil, err
	}
	for repeat := 1; repeat <= k.repeats; repeat++ {
		for _, p := range list {
			fmt.Fprintf(k.log, "%s, repeat %d: learning, load average %s\n", p.name, repeat, loadAverage())
			x, err := learnSetting(ctx, k.gate, p, repeat)
			if err != nil {
				return nil, err
			}
			r.Lessons = append(r.Lessons, x)
			full := x.Setting
			full.Name, full.Used = fullerName, fuller
			settings := []setting{{Name: "default"}, {Name: "limit 10", Limit: 10}, x.Setting, full}
			for i := range settings {
				s := settings[(i+repeat)%len(settings)]
				run, err := runLoop(ctx, k.queue, p, s, repeat, k.seconds)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(k.log, "%s, %s (limit %d, rate %.4g): answered %.4f, p95 %.3f s, %.2f pods, %d killed, load average %s\n",
					p.name, s.Name, s.Limit, s.Rate, float64(run.Answered)/float64(run.Requests), run.P95, run.mean(), run.Kills, run.Load)
				r.Runs = append(r.Runs, run)
			}
		}
	}
	return r, nil
}

// paper lets the published agent try limits.
func (k *knativeStudy) paper(ctx context.Context) (*paperResults, error) {
	r := &paperResults{Trials: map[string][]paperStep{}, Load: loadAverage()}
	list, err := named(paperProfiles)
	if err != nil {
		return nil, err
	}
	steps := make([][]paperStep, len(list))
	group, inner := errgroup.WithContext(ctx)
	for i, p := range list {
		fmt.Fprintf(k.log, "%s: the published agent, load average %s\n", p.name, r.Load)
		group.Go(func() (err error) {
			steps[i], err = publishedAgent(inner, k.queue, p, k.trials, uint64(i+1))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, p := range list {
		r.Trials[p.name] = steps[i]
	}
	return r, nil
}
