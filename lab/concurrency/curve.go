package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A point of a curve is the result of a limit.
type point struct {
	Limit     int             `json:"limit"`
	Window    capacity.Window `json:"window"`
	Kills     int             `json:"kills"` // for lack of memory
	Simulated float64         `json:"simulated"`
}

func (p *point) rate() float64 { return p.Window.Answered.Number / p.Window.Length.Number }

// memory is the share of the limit, at most.
func (p *point) memory() float64 { return p.Window.Memory.Number / p.Window.MemoryLimit.Number }

// demand in core-seconds a request.
func (p *point) demand() float64 { return p.Window.CPU.Number / max(1, p.Window.Answered.Number) }

// A curve is the results of all limits, in a function without restarts between them except
// those that a limit causes.
type curve struct {
	Profile string  `json:"profile"`
	Inputs  inputs  `json:"inputs"`
	Points  []point `json:"points"`
}

// measureCurve measures a profile at each limit, ascending, and simulates it.
func measureCurve(ctx context.Context, gate string, p *profile, limits []int) (c curve, err error) {
	c.Profile = p.name
	if c.Inputs, err = calibrate(ctx, gate, p); err != nil {
		return c, err
	}
	d, err := startPod(ctx, gate, p, limits[0])
	if err != nil {
		return c, err
	}
	defer func() { err = d.stop(err) }()
	if err := d.warm(ctx, p.busy, limits[0]); err != nil {
		return c, err
	}
	for _, n := range limits {
		at, err := d.measure(ctx, n)
		if err != nil {
			return c, err
		}
		if at.Simulated, _, err = simulate(ctx, p, c.Inputs, n); err != nil {
			return c, err
		}
		c.Points = append(c.Points, at)
	}
	return c, nil
}

// between returns a value of the points at a limit: on the straight line between its
// measured neighbours. If the larger one killed the function, it is the value of the
// smaller one.
func (c *curve) between(limit int, value func(p *point) float64) float64 {
	i, ok := slices.BinarySearchFunc(c.Points, limit, func(p point, n int) int { return p.Limit - n })
	switch {
	case ok:
		return value(&c.Points[i])
	case i == 0:
		return value(&c.Points[0]) * float64(limit) / float64(c.Points[0].Limit)
	case i == len(c.Points) || c.Points[i].Kills > 0:
		return value(&c.Points[i-1])
	}
	low, high := &c.Points[i-1], &c.Points[i]
	share := float64(limit-low.Limit) / float64(high.Limit-low.Limit)
	return (1-share)*value(low) + share*value(high)
}

// at returns the throughput of a limit.
func (c *curve) at(limit int) float64 { return c.between(limit, (*point).rate) }

// kills reports whether a limit is as large as one that killed the function.
func (c *curve) kills(limit int) bool {
	return slices.ContainsFunc(c.Points, func(p point) bool { return p.Kills > 0 && p.Limit <= limit })
}

// reach returns the largest limit without kills that a learner can reach step by step under a
// guard by proportion of the memory: from n to n · .85 ÷ the share of the memory at n.
func (c *curve) reach(from int) int {
	last := c.Points[len(c.Points)-1].Limit
	for {
		next := min(last, int(float64(from)*.85/c.between(from, (*point).memory)))
		if next <= from || c.kills(next) {
			return from
		}
		from = next
	}
}

// best returns the highest throughput of limits up to one, and the smallest limit that has
// a share of it.
func (c *curve) best(most int, share float64) (limit int, rate float64) {
	for n := 1; n <= most; n++ {
		rate = max(rate, c.at(n))
	}
	for limit = 1; c.at(limit) < share*rate; {
		limit++
	}
	return limit, rate
}

// settle is the time given to a pod after a change of its limit, in addition to that in
// which requests above it end.
const settle = 300 * time.Millisecond

// change sets a limit and waits until no more requests than that are inside.
func (d *pod) change(ctx context.Context, n int) error {
	if err := d.setLimit(ctx, n); err != nil {
		return err
	}
	for range 100 {
		w, err := d.window(ctx, settle)
		if err != nil || w.Inside.Number <= float64(n)*1.01 {
			return err
		}
	}
	return errors.New("more requests are inside than the limit, for half a minute")
}

// warm starts the clients and leaves them at a limit for a while, as a process that has just
// begun spends its time on memory that it touches for the first time; then it sets another.
func (d *pod) warm(ctx context.Context, at, then int) error {
	if err := d.setLimit(ctx, at); err != nil {
		return err
	}
	d.load(clients)
	if _, err := d.window(ctx, warming); err != nil {
		return err
	}
	return d.change(ctx, then)
}

const warming = 3 * time.Second

const (
	pointWindow  = 2 * time.Second
	pointAnswers = 150
	pointLongest = 6 * time.Second
)

// measure returns the result of a limit: windows until there are enough answers.
func (d *pod) measure(ctx context.Context, n int) (point, error) {
	p := point{Limit: n}
	_, before, err := d.ends()
	if err != nil {
		return p, err
	}
	if err := d.change(ctx, n); err != nil {
		return p, err
	}
	if _, err := d.window(ctx, time.Second); err != nil {
		return p, err
	}
	trial := capacity.Trial{Interval: 1e-9, Longest: pointLongest} // ends by its length alone, or by failures
	for answers, done := 0.0, false; !done; {
		w, err := d.window(ctx, pointWindow)
		if err != nil {
			return p, err
		}
		if answers += w.Answered.Number; answers >= pointAnswers {
			trial.Longest = time.Millisecond
		}
		if p.Window, done, err = trial.Add(w); err != nil {
			return p, err
		}
	}
	_, after, err := d.ends()
	p.Kills = after - before
	return p, err
}
