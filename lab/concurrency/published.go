package main

import (
	"context"
	"net/http"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/sigma-scheduler/sigma/lab/podspace"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

const (
	paperClients = 500 // in closed loop, as published
	paperSettle  = 500 * time.Millisecond
	paperTrial   = 2 * time.Second // 30 s as published
	paperLook    = 50 * time.Millisecond
)

// A paperStep is a trial of the published agent.
type paperStep struct {
	Limit  int     `json:"limit"`
	Rate   float64 `json:"rate"`   // answers a second
	Failed float64 `json:"failed"` // failed and missing answers
	Kills  int     `json:"kills"`
}

// failing reports whether a trial lost more than a twentieth of its requests, or the function.
func (s *paperStep) failing() bool {
	return s.Kills > 0 || s.Failed > .05*s.Rate*paperTrial.Seconds()
}

// publishedAgent lets the published agent try limits, each with a new pod behind queue-proxy.
func publishedAgent(ctx context.Context, program string, p *profile, trials int, seed uint64) (list []paperStep, err error) {
	settings := capacity.DefaultSettings()
	settings.Initial, settings.Seed, settings.Unguarded = initial, seed, true
	l, err := capacity.New("paper", settings)
	if err != nil {
		return nil, err
	}
	for range trials {
		s, w, err := publishedTrial(ctx, program, p, l.Next())
		if err != nil {
			return nil, err
		}
		l.Tell(w)
		list = append(list, s)
	}
	return list, nil
}

// publishedTrial measures a limit on one pod. The activator holds requests above the limit.
func publishedTrial(ctx context.Context, program string, p *profile, limit int) (s paperStep, w capacity.Window, err error) {
	s.Limit = limit
	d, err := newPod(ctx, p, nil)
	if err != nil {
		return s, w, err
	}
	a := newActivator(limit)
	defer func() {
		a.end()
		err = d.stop(err)
	}()
	if err := d.startQueue(ctx, program, limit); err != nil {
		return s, w, err
	}
	a.add(d)
	client := &http.Client{Transport: calm{a}}
	attacker := vegeta.NewAttacker(vegeta.Client(client), vegeta.Workers(paperClients), vegeta.MaxWorkers(paperClients))
	results := attacker.Attack(vegeta.NewStaticTargeter(vegeta.Target{Method: http.MethodGet, URL: "http://web.default/"}), vegeta.Rate{}, 0, "")
	defer func() {
		attacker.Stop()
		a.end()
		for range results { // until all have ended
		}
	}()
	usage := gate.Cgroup(podspace.CgroupRoot, d.name)
	var before gate.Usage
	answered, peak := 0.0, 0.0
	look := time.NewTicker(paperLook)
	defer look.Stop()
	began := time.Now()
	from, to := began.Add(paperSettle), began.Add(paperSettle+paperTrial)
	for measuring := false; ; {
		select {
		case x := <-results:
			if end := x.Timestamp.Add(x.Latency); end.Before(from) || end.After(to) {
				continue
			}
			if x.Code == http.StatusOK {
				answered++
			} else {
				s.Failed++
			}
			continue
		case <-look.C:
		case <-ctx.Done():
			return s, w, ctx.Err()
		}
		now, err := usage()
		if err != nil {
			return s, w, err
		}
		if at := time.Now(); !measuring && at.After(from) {
			measuring, before = true, now
		} else if at.After(to) {
			s.Rate = answered / paperTrial.Seconds()
			_, s.Kills, err = d.ends()
			w = capacity.Window{
				Time: at, Length: capacity.Some(paperTrial.Seconds()), Limit: capacity.Some(float64(limit)), Answered: capacity.Some(answered), Failed: capacity.Some(s.Failed),
				CPU: capacity.Some(min(now.CPU-before.CPU, now.Quota*paperTrial.Seconds())), Quota: capacity.Some(now.Quota), Memory: capacity.Some(peak), MemoryLimit: capacity.Some(now.MemoryLimit),
			}
			return s, w, err
		}
		peak = max(peak, now.Memory)
	}
}

// judge returns the highest mean throughput of a limit that was tried three times or more, and which trials had a limit
// whose mean is within 5 % of it, and did not fail.
func judge(list []paperStep) (best float64, near []bool) {
	means, counts := map[int]float64{}, map[int]float64{}
	for _, s := range list {
		counts[s.Limit]++
		means[s.Limit] += (s.Rate - means[s.Limit]) / counts[s.Limit]
	}
	for limit, n := range counts {
		if n >= 3 {
			best = max(best, means[limit])
		}
	}
	for _, s := range list {
		near = append(near, means[s.Limit] >= .95*best && !s.failing())
	}
	return best, near
}
