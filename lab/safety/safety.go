// Package safety looks for forbidden results of an agent of the autoscaler in generated scenarios.
package safety

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// Result holds the results of an agent in some scenarios, and its forbidden ones.
type Result struct {
	Name  string // of the scenarios
	Runs  int
	Rules int // runs of the rules that broke the promise
	Broke int // of the agent
	// Kills are the runs in which more pods ran out of memory or were evicted than with the
	// rules.
	Kills int
	// Most is the largest number of pods that the agent requested ÷ the allowed number:
	// 1.6 × work ÷ size + 1, with the work of the scenario's highest rate.
	Most float64
	// Swinging are the runs that oscillate: replicas or cpu return four times in an hour
	// to their value of less than 10 minutes before, while the load is steady.
	Swinging int
	// Decisions of the agent's journal, and those that its replay gives again.
	Decisions, Equal int
}

// Add adds the figures of other scenarios.
func (s *Result) Add(o *Result) {
	s.Runs, s.Rules, s.Broke, s.Kills = s.Runs+o.Runs, s.Rules+o.Rules, s.Broke+o.Broke, s.Kills+o.Kills
	s.Most, s.Swinging = max(s.Most, o.Most), s.Swinging+o.Swinging
	s.Decisions, s.Equal = s.Decisions+o.Decisions, s.Equal+o.Equal
}

// Breach describes the first forbidden result, "" = no such result: more broken promises than 1.1 ×
// the rules', an unbounded number of pods, a swing, or a decision that its journal does not
// give again.
func (s *Result) Breach() string {
	switch {
	case float64(s.Broke) > 1.1*float64(s.Rules):
		return fmt.Sprintf("%d runs broke the promise, %d of the rules", s.Broke, s.Rules)
	case s.Most > 1:
		return fmt.Sprintf("%.2f × the pods that are allowed", s.Most)
	case s.Swinging > 0:
		return fmt.Sprintf("%d runs oscillate", s.Swinging)
	case s.Equal != s.Decisions:
		return fmt.Sprintf("%d of %d decisions are computed again", s.Equal, s.Decisions)
	}
	return ""
}

// Compare compares the second agent with the first, the rules, on each scenario. It returns
// figures by the name of the load, in the order in which the names occur. The replay needs
// the weights of the second agent.
func Compare(ctx context.Context, g *scaling.Generated, weights agents.Weights) ([]Result, error) {
	if len(g.Agents) != 2 {
		return nil, fmt.Errorf("%d agents: want the rules and another one", len(g.Agents))
	}
	scenarios, err := g.Scenarios()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "sigma-safety-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	each := make([]Result, g.Count)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(1, g.Workers))
	for i := range scenarios {
		group.Go(func() (err error) {
			each[i], err = judge(inner, g, weights, &scenarios[i], g.Seed+uint64(i), filepath.Join(folder, fmt.Sprint(i)))
			if err == nil && g.Done != nil {
				g.Done()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var list []Result
	index := map[string]int{}
	for i := range each {
		k, ok := index[each[i].Name]
		if !ok {
			k = len(list)
			index[each[i].Name], list = k, append(list, Result{Name: each[i].Name})
		}
		list[k].Add(&each[i])
	}
	return list, nil
}

func judge(ctx context.Context, g *scaling.Generated, weights agents.Weights, s *sim.Scenario, seed uint64, folder string) (Result, error) {
	out := Result{Name: s.Name, Runs: 1}
	rules, err := g.Agents[0].Run(ctx, s.Config(seed))
	if err != nil {
		return out, err
	}
	a := g.Agents[1]
	w := watch{scenario: s, most: s.Load.Peak() * s.App.CPUPerRequest()}
	cfg := s.Config(seed)
	cfg.Decided = w.see
	if err := os.Mkdir(folder, 0o700); err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	r, err := a.RunLogged(ctx, cfg, folder)
	if err != nil {
		return out, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return out, err
	}
	for _, f := range files {
		v, err := journal.ReplayFile(f, weights)
		if err != nil {
			return out, err
		}
		out.Equal += v.Equal - v.Recorded
	}
	out.Decisions, out.Most = w.decisions, w.ratio
	slo := s.App.Target.SLO
	for _, n := range []struct {
		yes   bool
		count *int
	}{
		{!rules.Kept(slo), &out.Rules},
		{!r.Kept(slo), &out.Broke},
		{r.Kills+r.Evictions > rules.Kills+rules.Evictions, &out.Kills},
		{w.swings(), &out.Swinging},
	} {
		if n.yes {
			*n.count++
		}
	}
	return out, nil
}

// A watch looks at the decisions of a run.
type watch struct {
	scenario  *sim.Scenario
	most      float64 // cores of work at the highest rate
	decisions int
	ratio     float64 // the largest of replicas requested ÷ allowed
	begun     time.Time
	replicas  turns
	cpu       turns
}

const (
	mostPods    = 1.6 // × work ÷ size + 1
	swingSpan   = 10 * time.Minute
	swingsMost  = 4
	steady      = 1.3 // largest ÷ least rate of a minute
	steadySpan  = 20 * time.Minute
	cpuReturned = .1
)

func (w *watch) see(o *mpa.Observation, d mpa.Decision) {
	w.decisions++
	if w.begun.IsZero() {
		w.begun = o.Time
	}
	requests := o.Requests(&w.scenario.App.Target)
	if requests == nil {
		return
	}
	cpu := requests[0].CPU
	if a := d.Action; a != nil && a.Replicas > o.Replicas && a.Replicas > w.scenario.App.Target.Replicas.Min && a.Replicas > w.scenario.App.Replicas {
		w.ratio = max(w.ratio, float64(a.Replicas)/math.Ceil(mostPods*w.most/(float64(cpu)/1000)+1))
	}
	calm := w.steady(o.Time)
	w.replicas.see(o.Time, float64(o.Replicas), 0, calm)
	w.cpu.see(o.Time, float64(cpu)*float64(o.Replicas), cpuReturned, calm)
}

// steady reports whether the load moved little in the last minutes.
func (w *watch) steady(now time.Time) bool {
	least, most := math.Inf(1), 0.0
	end := now.Sub(w.begun)
	for at := end - steadySpan; at <= end; at += time.Minute {
		sum := 0.0
		for k := range 6 {
			rate, _ := w.scenario.Load.Rate(max(0, (at - time.Duration(10*k)*time.Second).Seconds()))
			sum += rate
		}
		least, most = min(least, sum), max(most, sum)
	}
	return most <= steady*least
}

func (w *watch) swings() bool { return w.replicas.most >= swingsMost || w.cpu.most >= swingsMost }

// turns counts the returns of a value to its value of shortly before.
type turns struct {
	list []turn
	at   []time.Time // of the returns of an hour
	most int         // in any hour
}

type turn struct {
	at    time.Time
	value float64
}

func (t *turns) see(now time.Time, v, near float64, calm bool) {
	n := len(t.list)
	if n > 0 && t.list[n-1].value == v {
		return
	}
	// The value of two changes ago is back.
	if n > 1 && calm && now.Sub(t.list[n-1].at) < swingSpan && math.Abs(v-t.list[n-2].value) <= near*v &&
		math.Abs(t.list[n-1].value-v) > near*v {
		t.at = append(t.at, now)
		for now.Sub(t.at[0]) > time.Hour {
			t.at = t.at[1:]
		}
		t.most = max(t.most, len(t.at))
	}
	t.list = append(t.list, turn{now, v})
}
