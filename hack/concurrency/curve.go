package main

import (
	"context"
	"errors"
	"time"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// A point of a curve.
type point struct {
	limit  int
	window capacity.Window
	kills  int // by memory
}

func (p *point) rate() float64 { return p.window.Answered.Number / p.window.Length.Number }

// settle is what a pod has after a change of its limit, besides the time in which requests
// above it end.
const settle = 300 * time.Millisecond

// change sets a limit and waits until no more than that are inside.
func (d *pod) change(ctx context.Context, n int) error {
	if err := d.setLimit(ctx, n); err != nil {
		return err
	}
	for range 40 {
		w, err := d.window(ctx, settle)
		if err != nil || w.Inside.Number <= float64(n)*1.01 {
			return err
		}
	}
	return errors.New("more requests are inside than the limit, for seconds")
}

const (
	pointWindow  = 2 * time.Second
	pointAnswers = 150
	pointLongest = 8 // seconds
)

// measure returns what a limit gives: windows until there are enough answers.
func (d *pod) measure(ctx context.Context, n int) (point, error) {
	p := point{limit: n}
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
	trial := capacity.Trial{Interval: 1e-9, Longest: pointLongest * time.Second} // ends by its length alone
	answers := 0.0
	for done := false; !done; {
		w, err := d.window(ctx, pointWindow)
		if err != nil {
			return p, err
		}
		if answers += w.Answered.Number; answers >= pointAnswers {
			trial.Longest = time.Millisecond
		}
		if p.window, done, err = trial.Add(w); err != nil {
			return p, err
		}
	}
	_, after, err := d.ends()
	p.kills = after - before
	return p, err
}
