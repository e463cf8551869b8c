package sim

import (
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// A scrape is a measurement of the whole workload since the previous one.
type scrape struct {
	at              float64
	arrived, served int64
	latencies       *loadsim.Latencies
	counters        loadsim.Counters
}

// scrape measures.
func (s *simulation) scrape(now float64) {
	for _, o := range s.cfg.Site.Outages {
		if now >= o[0] && now < o[1] {
			return
		}
	}
	for _, p := range s.pods {
		if s.rng.Float64() < s.cfg.Site.Miss || p.ready < 0 {
			continue // a container that does not run is not measured
		}
		p.Advance(now)
		p.seen = append(p.seen, usageSeen{now, p.Busy(), s.cfg.App.Memory.shown(s.memory(p), s.memoryLimit(p))})
		if n := s.cfg.Site.kept(); len(p.seen) > n {
			p.seen = slices.Delete(p.seen, 0, len(p.seen)-n)
		}
	}
	c := s.e.Counters()
	s.scrapes = append(s.scrapes, scrape{now, c.Arrived, c.Served, s.e.Window, c})
	s.e.Window = &loadsim.Latencies{}
	if n := s.cfg.Site.kept(); len(s.scrapes) > n {
		s.scrapes = slices.Delete(s.scrapes, 0, len(s.scrapes)-n)
	}
}

// kept is the number of measurements that cover a window as old as the lag.
func (s *Site) kept() int { return int((s.Window+s.Lag)/s.Scrape) + 3 }

func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(math.Round(seconds * 1e9)))
}

// observe returns the observation that a controller in a cluster would have.
func (s *simulation) observe(now float64) *mpa.Observation {
	o := &mpa.Observation{Time: at(now), Replicas: s.replicas}
	until := now - s.cfg.Site.Lag
	for _, p := range s.pods {
		pod := mpa.Pod{Name: p.name, Phase: mpa.Pending, Deleting: p.ending, Resize: p.resize}
		if p.resize != mpa.NoResize {
			pod.ResizeSince = at(p.since)
		}
		if p.started >= 0 {
			pod.Phase, pod.Started, pod.Ready, pod.ReadySince = mpa.Running, at(p.started), p.ready >= 0, at(max(p.ready, p.killed))
		}
		c := mpa.Container{Name: s.cfg.App.Target.Containers[0].Name, Request: p.request, Actual: p.actual}
		if p.killed >= 0 {
			c.Killed = at(p.killed)
		}
		if last, first, ok := span(p.seen, func(u usageSeen) float64 { return u.at }, until, s.cfg.Site.Window); ok {
			c.Usage = mpa.Usage{
				Resources: mpa.Resources{
					CPU:    int64(1000 * (last.busy - first.busy) / (last.at - first.at)),
					Memory: int64(last.memory),
				},
				Time: at(last.at), Window: time.Duration((last.at - first.at) * 1e9),
			}
		}
		pod.Containers = []mpa.Container{c}
		o.Pods = append(o.Pods, pod)
	}
	if last, first, ok := span(s.scrapes, func(c scrape) float64 { return c.at }, until, s.cfg.Site.Window); ok {
		length := last.at - first.at
		o.Rate = mpa.Metric{Value: float64(last.arrived-first.arrived) / length, Time: at(last.at)}
		o.Throughput = mpa.Metric{Value: float64(last.served-first.served) / length, Time: at(last.at)}
		var sum loadsim.Latencies
		for _, c := range s.scrapes {
			if c.at > first.at && c.at <= last.at {
				sum.Merge(c.latencies)
			}
		}
		if sum.Count() > 0 {
			o.Latency = mpa.Metric{Value: sum.Percentile(s.cfg.App.Target.SLO.Percentile), Time: at(last.at)}
		}
	}
	if s.cfg.Gates {
		o.Gates = s.gates(until)
	}
	return o
}

// gates returns the measurements of the gates between the last two scrapes up to a time.
func (s *simulation) gates(until float64) mpa.Gates {
	g := mpa.Gates{Limit: int32(s.limit)}
	last, first, ok := span(s.scrapes, func(c scrape) float64 { return c.at }, until, 0)
	if !ok {
		return g
	}
	a, b, length := &first.counters, &last.counters, last.at-first.at
	over := func(sum float64) mpa.Metric { return mpa.Metric{Value: sum / length, Time: at(last.at)} }
	g.Inside, g.Waiting = over(b.InsideSeconds-a.InsideSeconds), over(b.WaitingSeconds-a.WaitingSeconds)
	g.Rate, g.Failed = over(float64(b.Arrived-a.Arrived)), over(float64(b.Lost-a.Lost))
	return g
}

// span returns the last measurement up to a time, and the one a window before or else the
// first.
func span[T any](list []T, when func(T) float64, until, window float64) (last, first T, ok bool) {
	i := len(list) - 1
	for i >= 0 && when(list[i]) > until {
		i--
	}
	if i < 1 {
		return last, first, false
	}
	j := i - 1
	for j > 0 && when(list[i])-when(list[j]) < window {
		j--
	}
	return list[i], list[j], true
}

// sums of the counters up to a time; a minute is the difference of two.
type sums struct {
	hours, coreHours, gibHours, busy, memorySecs, arrived float64
	scalings, resizes, kills                              int
}

// sums returns the counters up to now. It does not advance the pods, which would change
// their rounding.
func (s *simulation) sums(now float64) sums {
	busy := s.busy
	for _, p := range s.pods {
		busy += p.BusyAt(now)
	}
	r := &s.result
	return sums{
		r.Hours, r.CoreHours, r.GiBHours, busy, s.memorySecs, float64(s.e.Counters().Arrived),
		r.ReplicaChanges, r.RequestChanges, r.Kills,
	}
}

// account adds a tick of the resources that pods hold.
func (s *simulation) account() {
	for _, p := range s.pods {
		if p.node < 0 || p.node >= len(s.free) {
			continue
		}
		held := p.held()
		s.result.CoreHours += float64(held.CPU) / 1000 * tick / 3600
		s.result.GiBHours += float64(held.Memory) / (1 << 30) * tick / 3600
		s.memorySecs += s.cfg.App.Memory.shown(s.memory(p), s.memoryLimit(p)) / (1 << 30) * tick / 3600
	}
	s.result.MeanReplicas += float64(s.replicas)
	s.result.Hours += tick / 3600
}

func (s *simulation) endMinute(now float64, counting bool) {
	slo := s.cfg.App.Target.SLO
	violated := slo.Latency > 0 && s.minute.WithLost(slo.Percentile, s.minuteFailed) > slo.Latency // not without requests, where it is NaN
	if violated {
		s.result.ViolatingMinutes++
	}
	if s.cfg.Record != nil && counting {
		s.record(now, violated)
	}
	s.minute, s.minuteFailed = loadsim.Latencies{}, 0
}

func (s *simulation) record(now float64, violated bool) {
	sum, before := s.sums(now), s.before
	hours := sum.hours - before.hours
	m := Minute{
		Time: now, Rate: (sum.arrived - before.arrived) / hours / 3600, Replicas: s.replicas, Ready: s.e.Ready(),
		CPU: (sum.coreHours - before.coreHours) / hours, CPUUsed: (sum.busy - before.busy) / hours / 3600,
		Memory:     (sum.gibHours - before.gibHours) / hours * (1 << 30),
		MemoryUsed: (sum.memorySecs - before.memorySecs) / hours * (1 << 30),
		P50:        s.minute.WithLost(50, s.minuteFailed), P95: s.minute.WithLost(95, s.minuteFailed), P99: s.minute.WithLost(99, s.minuteFailed),
		Violated: violated,
		Scalings: sum.scalings - before.scalings, Resizes: sum.resizes - before.resizes, Kills: sum.kills - before.kills,
	}
	s.before = sum
	s.cfg.Record(m)
}
