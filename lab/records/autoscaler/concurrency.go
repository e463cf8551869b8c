package autoscaler

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// gatedDay is an application whose pods have gates: all have .25 cores, 256 MiB and the same
// promise.
type gatedDay struct {
	name      string
	cpu, wait float64 // seconds a request
	memory    float64 // bytes a request
	peak      float64 // requests per second
}

var gatedDays = []gatedDay{
	{name: "cpu", cpu: .004, memory: 64 << 10, peak: 250},
	{name: "mixed", cpu: .004, wait: .05, memory: 64 << 10, peak: 250},
	{name: "io", cpu: .001, wait: .2, memory: 256 << 10, peak: 600},
	{name: "mem", cpu: .001, wait: .1, memory: 8 << 20, peak: 400},
}

// config is a day of some hours, after an hour that does not count.
func (d *gatedDay) config(seed uint64, hours, peak float64) (sim.Config, error) {
	load, err := loadsim.Synthetic("diurnal", map[string]string{
		"low": fmt.Sprint(peak / 10), "high": fmt.Sprint(peak), "period": fmt.Sprint(hours), "peak": fmt.Sprint(1 + hours/2),
	}, hours+1, seed)
	if err != nil {
		return sim.Config{}, err
	}
	site := sim.DefaultSite()
	site.Interval, site.Scrape, site.Lag = 2, 2, 0
	return sim.Config{
		App: sim.App{
			Name: d.name,
			Service: loadsim.Service{
				Segments: []loadsim.Segment{{CPU: loadsim.Dist{Mean: d.cpu, CV: 1}, Wait: loadsim.Dist{Mean: d.wait, CV: 1}, Memory: d.memory}},
				Front:    10_000, Timeout: 10,
			},
			Memory:   sim.Memory{Base: 40 << 20},
			Replicas: 4, Request: mpa.Resources{CPU: 250, Memory: 256 << 20},
			Target: mpa.Target{
				SLO: mpa.SLO{Percentile: 95, Latency: 1}, Replicas: mpa.Range{Min: 1, Max: 60}, Limit: mpa.Range{Min: 1, Max: 310},
				Containers: []mpa.ContainerSpec{{Name: d.name}},
			},
		},
		Load: load, Seconds: (hours + 1) * 3600, Warmup: 3600, Seed: seed, Guards: mpa.DefaultGuards(), Site: site,
	}, nil
}

const (
	gatedPage  = "results/concurrency-days.md"
	gatedAbout = "The agent `capacity`, which learns what one pod can take, on simulated days of four applications, beside `hpa-70` with the hard limit that `capacity`\n" +
		"had learned, and Knative's autoscaler by its defaults (`kpa`: 100 requests at once as a soft target, `kpa-rps`: 200 requests per second, `kpa-10`: `containerConcurrency` 10).\n" +
		"Pods have .25 cores and 256 MiB; a request takes 4 ms of cpu (`cpu`), 4 and 50 ms of waiting (`mixed`), 1 and 200 ms (`io`), or 1 and 100 ms with 8 MiB (`mem`), all exponential.\n" +
		"The promise is 95 % within 1 s. Requests wait before all pods while none has room. All decide every 2 s, within the guards of the controller, of which half of 12 changes of replicas an hour to shrink\n" +
		"bind Knative's most; pods start in 12 ± 6 s. An hour before does not count. **Bad** are minutes in which the promise was not kept."
)

// gatedPart is days of a length, with some times the applications' peaks.
type gatedPart struct {
	hours, times float64
	seeds        []uint64
	agents       []string
}

var gatedParts = []gatedPart{
	{24, 1, []uint64{sim.FirstTestSeed}, []string{"hpa-70"}},
	{1, 4, []uint64{sim.FirstTestSeed, sim.FirstTestSeed + 1, sim.FirstTestSeed + 2}, []string{"hpa-70", "kpa", "kpa-rps", "kpa-10"}},
}

// Concurrency simulates days with agents that decide by what gates measure. It replaces the
// page, or prints it.
func Concurrency(ctx context.Context, version string, cfg Config) error {
	p := records.NewPage("Days with a learned capacity")
	p.Text(gatedAbout)
	for _, part := range gatedParts {
		runs, err := runGated(ctx, part, cfg.Workers)
		if err != nil {
			return err
		}
		p.Text(fmt.Sprintf("Days of %s, %s from %d:", plural(int(part.hours), "hour"), plural(len(part.seeds), "seed"), part.seeds[0]))
		table := rightTable([]string{"application", "agent", "limit", "core-hours", "÷ hpa-70", "bad minutes", "late or lost, %", "kills", "mean pods"})
		ratios, kept := 0.0, 0
		for _, d := range gatedDays {
			base := meanOf(runs, d.name, "hpa-70")
			for _, agent := range append([]string{"capacity"}, part.agents...) {
				r := meanOf(runs, d.name, agent)
				ratio := "–"
				if base.kept(part.hours) && r.kept(part.hours) {
					ratio = fmt.Sprintf("%.2f", r.coreHours/base.coreHours)
				}
				if agent == "capacity" && ratio != "–" {
					ratios, kept = ratios+math.Log(r.coreHours/base.coreHours), kept+1
				}
				table.Rows = append(table.Rows, []string{
					d.name, "`" + agent + "`", r.limits, fmt.Sprintf("%.2f", r.coreHours), ratio, fmt.Sprintf("%.1f", r.bad),
					fmt.Sprintf("%.2f", 100*r.late), fmt.Sprintf("%.1f", r.kills), fmt.Sprintf("%.1f", r.pods),
				})
			}
		}
		p.Table(table)
		if kept > 0 {
			p.Text(fmt.Sprintf("`capacity` ÷ `hpa-70`, geometric mean of the %d applications whose promise both kept: **%.2f** (at most .80 is asked for).", kept, math.Exp(ratios/float64(kept))))
		}
	}
	p.Text(fmt.Sprintf("No ratio stands where one of the two had more than a bad minute an hour. %.0f CPU-seconds, `make concurrency-days` at commit %s.", math.Ceil(cfg.Seconds()), version))
	if cfg.Print != nil {
		_, err := io.WriteString(cfg.Print, p.String())
		return err
	}
	return p.Save(filepath.Join(cfg.Docs, gatedPage))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// gatedMean has means over seeds.
type gatedMean struct {
	coreHours, bad, late, kills, pods float64
	limits                            string
}

// kept reports whether there was a bad minute an hour at most.
func (m *gatedMean) kept(hours float64) bool { return m.bad <= hours }

func meanOf(runs []gatedRun, day, agent string) gatedMean {
	var m gatedMean
	n := 0.0
	for _, r := range runs {
		if r.day == day && r.agent == agent {
			n++
		}
	}
	var limits []int32
	for _, r := range runs {
		if r.day != day || r.agent != agent {
			continue
		}
		m.coreHours += r.CoreHours / n
		m.bad += float64(r.ViolatingMinutes) / n
		m.late += float64(r.Violations) / float64(r.Requests) / n
		m.kills += float64(r.Kills) / n
		m.pods += r.MeanReplicas / n
		limits = append(limits, r.limit)
	}
	if m.limits = "none"; slices.Max(limits) > 0 {
		if m.limits = fmt.Sprint(slices.Min(limits)); slices.Min(limits) < slices.Max(limits) {
			m.limits += fmt.Sprintf(" to %d", slices.Max(limits))
		}
	}
	return m
}

// A gatedRun is what an agent made of a day.
type gatedRun struct {
	day, agent string
	limit      int32 // at the end
	sim.Result
}

// runGated lets capacity learn, and gives others the limit that it learned.
func runGated(ctx context.Context, part gatedPart, workers int) ([]gatedRun, error) {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	list := make([][]gatedRun, len(gatedDays)*len(part.seeds))
	for i := range list {
		d, seed := &gatedDays[i%len(gatedDays)], part.seeds[i/len(gatedDays)]
		group.Go(func() error {
			one := func(agent string, limit int32) (gatedRun, error) {
				cfg, err := d.config(seed, part.hours, part.times*d.peak)
				if err != nil {
					return gatedRun{}, err
				}
				cfg.App.Workers, cfg.Gates = int(limit), true
				r := gatedRun{day: d.name, agent: agent}
				cfg.Decided = func(o *mpa.Observation, _ mpa.Decision) { r.limit = o.Gates.Limit }
				r.Result, err = sim.RunAgent(inner, cfg, agent)
				return r, err
			}
			learned, err := one("capacity", 0)
			if err != nil {
				return err
			}
			list[i] = append(list[i], learned)
			for _, agent := range part.agents {
				limit := learned.limit
				if agent != "hpa-70" {
					limit = 0
				}
				r, err := one(agent, limit)
				if err != nil {
					return err
				}
				list[i] = append(list[i], r)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var all []gatedRun
	for _, l := range list {
		all = append(all, l...)
	}
	return all, nil
}
