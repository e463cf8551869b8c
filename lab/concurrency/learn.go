package main

import (
	"context"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A step is a window of a learner.
type step struct {
	Limit  int     `json:"limit"`  // that was tried
	Rate   float64 `json:"rate"`   // answers a second
	Answer int     `json:"answer"` // the learner's best limit after it
	Memory float64 `json:"memory"` // share of the limit, at most
	CPU    float64 `json:"cpu"`    // share of the quota
}

// A run is a learner on a function that has just begun.
type run struct {
	Profile  string `json:"profile"`
	Learner  string `json:"learner"`
	Seed     uint64 `json:"seed"`
	Steps    []step `json:"steps"`
	Most     int    `json:"most"`     // the largest limit that its guard allows in the end
	Restarts int    `json:"restarts"` // of the function
	Kills    int    `json:"kills"`    // for lack of memory
	Refused  int    `json:"refused"`  // windows with impossible values
	Reason   string `json:"reason"`
}

// A learner's window is several of half a second, until their throughput is known.
const (
	learnWindow  = 500 * time.Millisecond
	learnLongest = 3 * time.Second
)

// learn lets a learner look for the best limit.
func learn(ctx context.Context, gate string, p *profile, learner string, seed uint64, windows int) (r run, err error) {
	r = run{Profile: p.name, Learner: learner, Seed: seed}
	settings := capacity.DefaultSettings()
	settings.Initial = initial
	settings.Seed = seed
	settings.Unguarded = learner == "paper" // it has no guard
	l, err := capacity.New(learner, settings)
	if err != nil {
		return r, err
	}
	d, err := startPod(ctx, gate, p, settings.Initial)
	if err != nil {
		return r, err
	}
	defer func() { err = d.stop(err) }()
	if err := d.warm(ctx, settings.Initial, settings.Initial); err != nil {
		return r, err
	}
	for range windows {
		n := l.Next()
		w, refused, err := d.try(ctx, n)
		r.Refused += refused
		if err != nil {
			return r, err
		}
		l.Tell(w)
		s := step{Limit: n, Rate: w.Answered.Number / w.Length.Number, Answer: l.Next(), Memory: w.Memory.Number / w.MemoryLimit.Number, CPU: w.CPU.Number / w.Length.Number / w.Quota.Number}
		if c, ok := l.Estimate(); ok {
			s.Answer, r.Reason = c.Limit, c.Reason
		}
		r.Steps = append(r.Steps, s)
	}
	r.Most = settings.Max
	if most := capacity.Most(l); !math.IsInf(most, 1) {
		r.Most = min(r.Most, int(most))
	}
	r.Restarts, r.Kills, err = d.ends()
	return r, err
}

// patience is how many windows in one trial may be refused.
const patience = 20

// try measures a limit for a learner, and counts the refused windows.
func (d *pod) try(ctx context.Context, n int) (whole capacity.Window, refused int, err error) {
	if err := d.change(ctx, n); err != nil {
		return whole, 0, err
	}
	trial := capacity.Trial{Longest: learnLongest}
	for {
		w, err := d.window(ctx, learnWindow)
		if err != nil {
			return whole, refused, err
		}
		whole, done, err := trial.Add(w)
		if err != nil {
			if refused++; refused == patience {
				return whole, refused, err
			}
		}
		if done {
			return whole, refused, nil
		}
	}
}

// near is the share of the best throughput from which on a limit counts as found.
const near = .93

// initial is the limit that learners begin with.
const initial = 10

// found returns after how many windows the answer stays near the best throughput of the
// limits in reach of the guard; 0 = it does not.
func (r *run) found(c *curve) int {
	_, best := c.best(c.reach(initial), 1)
	for i := len(r.Steps); i > 0; i-- {
		n := r.Steps[i-1].Answer
		if c.at(n) < near*best || c.kills(n) {
			if i == len(r.Steps) {
				return 0
			}
			return i + 1
		}
	}
	return 1
}

// lost is the share of the best throughput that was lost in all windows.
func (r *run) lost(c *curve) float64 {
	_, best := c.best(c.reach(initial), 1)
	sum := 0.0
	for _, s := range r.Steps {
		sum += max(0, 1-s.Rate/best)
	}
	return sum / float64(len(r.Steps))
}
