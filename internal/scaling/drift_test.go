package scaling

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/learn/drift"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

var (
	driftSide = flag.String("drift-side", "train", "side of the split whose applications drift")
	driftRuns = flag.Int("drift-runs", 3, "applications that drift; 60 for the figures")
	driftDays = flag.Int("drift-days", 1, "days without a change; 30 for the figures")
)

// A drifting run is one application under one load, that changes once or never.
type drifting struct {
	seed   uint64
	factor float64 // of cpu per request from change on; 0 = no change
	wait   float64 // of the time that requests wait for others, likewise
	hours  float64
	daily  bool // load: once up and down in 24 h; else that of the scenario, over and over
}

const change = 4 * 3600 // seconds

// An alarm of a run, in minutes since its begin.
type alarm struct {
	minute float64
	what   string
}

// watch simulates, and returns the alarms of the agent and, by rule, those of AWARE's.
func (d *drifting) watch(ctx context.Context, g *sim.Generator) (found []alarm, aware [2][]float64, err error) {
	s, err := g.Generate(d.seed)
	if err != nil {
		return nil, aware, err
	}
	load := s.Load
	if d.daily {
		rng := rand.New(rand.NewPCG(d.seed, 0xd41f))
		load, err = loadsim.Synthetic("diurnal", map[string]string{
			"low": fmt.Sprint(.2 + .3*rng.Float64()), "high": "1", "period": "24", "peak": fmt.Sprint(24 * rng.Float64()), "noise": ".1",
		}, d.hours, d.seed)
		if err != nil {
			return nil, aware, err
		}
		load = load.Scale(s.Load.Peak())
	}
	load.PerSec, load.Burst = slices.Clone(load.PerSec), nil
	for n := len(load.PerSec); float64(len(load.PerSec))*load.Step < d.hours*3600; {
		load.PerSec = append(load.PerSec, load.PerSec[len(load.PerSec)-n])
	}
	cfg := sim.Config{App: s.App, Load: load, Seconds: d.hours * 3600, Seed: d.seed, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite()}
	if d.factor != 0 {
		cfg.Updates = []sim.Update{{At: change, CPU: d.factor, Memory: 1, Wait: d.wait}}
	}
	rewards := newRewards(s.App.Target.SLO.Latency)
	begin := 0.0
	cfg.Decided = func(o *mpa.Observation, decision mpa.Decision) {
		if begin == 0 {
			begin = float64(o.Time.Unix())
		}
		minute := (float64(o.Time.Unix()) - begin) / 60
		if what := decision.Recommended.Drift; what != "" {
			found = append(found, alarm{minute, what})
		}
		for i, on := range rewards.see(o, minute) {
			if on {
				aware[i] = append(aware[i], minute)
			}
		}
	}
	a := Agent{Name: "learned", Policy: learned.General()}
	_, err = a.Run(ctx, cfg)
	return found, aware, err
}

// rewards applies AWARE's rule to its reward: half how much of the latency's promise is
// kept, half how much of cpu and memory is used, ÷ the mean of two hours.
type rewards struct {
	promise  float64
	last     float64
	first    []float64
	rules    [2]*drift.RewardWatch
	sounding [2]bool
}

var awareRules = [2]drift.Thresholds{{Window: 10, Mean: .97, Deviation: .10}, {Window: 30, Mean: .90, Deviation: .20}}

func newRewards(promise float64) *rewards {
	r := &rewards{promise: promise, last: -1}
	for i, t := range awareRules {
		r.rules[i], _ = drift.NewRewardWatch(t)
	}
	return r
}

// see returns which of the rules begin to hold.
func (r *rewards) see(o *mpa.Observation, minute float64) (begin [2]bool) {
	if minute < r.last+1 || o.Latency.Value == 0 || o.Rate.Value == 0 {
		return begin
	}
	var used, asked mpa.Resources
	for _, p := range o.Live() {
		for _, c := range p.Containers {
			used, asked = used.Add(c.Usage.Resources), asked.Add(c.Request)
		}
	}
	r.last = minute
	reward := .5*min(1, r.promise/o.Latency.Value)*min(1, o.Throughput.Value/o.Rate.Value) +
		.25*float64(used.CPU)/float64(asked.CPU) + .25*float64(used.Memory)/float64(asked.Memory)
	if len(r.first) < 120 {
		r.first = append(r.first, reward)
		return begin
	}
	mean := 0.0
	for _, v := range r.first {
		mean += v / float64(len(r.first))
	}
	for i, rule := range r.rules {
		on, err := rule.Observe(reward / mean)
		begin[i] = err == nil && on && !r.sounding[i]
		r.sounding[i] = on
	}
	return begin
}

// The targets: a change is found within 15 minutes in 95 of 100 runs, and there is at most
// one false alarm a week. A new version is rolled out pod by pod meanwhile.
func TestDriftIsFound(t *testing.T) {
	first := uint64(301)
	if *driftSide == "test" {
		first = sim.FirstTestSeed
	}
	g, err := sim.NewGenerator(*driftSide, "")
	require.NoError(t, err)
	var list []drifting
	factors := []float64{1.2, 1.4, .7}
	for i := range *driftRuns {
		list = append(list, drifting{seed: first + uint64(i), factor: factors[i%3], hours: 8, daily: true})
	}
	for i := range *driftRuns {
		list = append(list, drifting{seed: first + uint64(i), factor: 1, wait: 2.5, hours: 8, daily: true})
	}
	for i := range *driftDays {
		list = append(list, drifting{seed: first + uint64(i), hours: 24, daily: i%2 == 0})
	}
	found, aware := make([][]alarm, len(list)), make([][2][]float64, len(list))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(2)
	for i := range list {
		group.Go(func() (err error) {
			found[i], aware[i], err = list[i].watch(ctx, g)
			return err
		})
	}
	require.NoError(t, group.Wait())

	delays, within, runs, wrong, hours := map[float64][]float64{}, 0, 0, 0, 0.0
	var slower []float64
	awareFound, awareWrong := [2]int{}, [2]int{}
	for i, d := range list {
		quiet := d.hours * 60
		if d.factor != 0 {
			quiet = change / 60
		}
		hours += quiet / 60
		delay := 1e9
		for _, a := range found[i] {
			direction := map[bool]string{true: "higher", false: "lower"}[d.factor > 1]
			switch {
			case a.minute < quiet:
				wrong++
				t.Logf("seed %d, daily %v: false alarm at minute %g: %s", d.seed, d.daily, a.minute, a.what)
			case d.wait != 0 && strings.HasPrefix(a.what, "latency is higher"):
				delay = min(delay, a.minute-quiet)
			case strings.HasPrefix(a.what, "cpu per request is "+direction):
				delay = min(delay, a.minute-quiet)
			}
		}
		if d.wait != 0 {
			slower = append(slower, delay)
			continue
		}
		for k := range awareRules {
			ok := false
			for _, m := range aware[i][k] {
				if m < quiet {
					awareWrong[k]++
				} else if m <= quiet+15 {
					ok = true
				}
			}
			if ok {
				awareFound[k]++
			}
		}
		if d.factor == 0 {
			continue
		}
		runs++
		delays[d.factor] = append(delays[d.factor], delay)
		if delay <= 15 {
			within++
		}
	}
	for _, f := range factors {
		slices.Sort(delays[f])
		n := len(delays[f])
		t.Logf("cpu per request × %g: found after a median of %.3g minutes, longest %.3g, in %d runs", f, delays[f][n/2], delays[f][n-1], n)
	}
	slices.Sort(slower)
	t.Logf("waits × 2.5: found after a median of %.3g minutes, %d of %d within an hour", slower[len(slower)/2], len(slices.DeleteFunc(slower, func(m float64) bool { return m > 60 })), len(list)-runs-*driftDays)
	t.Logf("found within 15 minutes in %d of %d runs; %d false alarms in %.3g weeks", within, runs, wrong, hours/168)
	for k, rule := range awareRules {
		t.Logf("AWARE's rule, mean %.2g, deviation %.2g, %d minutes: %d of %d within 15 minutes, %d false alarms", rule.Mean, rule.Deviation, rule.Window, awareFound[k], runs, awareWrong[k])
	}
	require.GreaterOrEqual(t, within, runs*95/100)
	require.LessOrEqual(t, float64(wrong), max(1, hours/168))
}
