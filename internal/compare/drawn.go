package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// drawn is the replay whose machines the page shows.
type drawn struct{ trace, order int }

// draw has the next replays of a trace in an order keep the machines.
func (c *comparison) draw(d drawn) {
	c.drawn, c.layouts = d, nil
	if d.trace < len(c.policies) {
		c.layouts = make([]*report.Layout, len(c.policies[d.trace]))
	}
}

// drawTypical keeps the machines of the replay in which the learned policy differs from Best-Fit most nearly as it
// does in the mean: a replay that was not kept is done again.
func (c *comparison) drawTypical() error {
	d, ok := c.typical()
	if !c.opt.Layouts || !ok || d == c.drawn {
		return nil
	}
	c.draw(d)
	again := *c
	again.opt.Clock, again.opt.Curves = nil, false
	w := worker{comparison: &again, again: true}
	for p := range c.policies[d.trace] {
		run := c.runs[d.trace][p][d.order]
		if err := w.replay(task{d.trace, p, d.order}); err != nil {
			return err
		}
		c.runs[d.trace][p][d.order] = run // with its time
	}
	return nil
}

// typical is the replay nearest to the mean difference; ok is false where nothing is compared with Best-Fit.
func (c *comparison) typical() (d drawn, ok bool) {
	type one struct {
		drawn
		less float64
	}
	var all []one
	sum := 0.
	for t, policies := range c.policies {
		best := slices.IndexFunc(policies, func(f Found) bool { return f.Name == "bestfit" || f.Name == "bestfit-l1" })
		learned := slices.IndexFunc(policies, func(f Found) bool { return f.Object != nil })
		if best < 0 || learned < 0 {
			return d, false
		}
		deletes := slices.ContainsFunc(c.played[t].Events, func(e trace.Event) bool { return e.Kind == trace.Delete })
		for order := min(1, c.opt.Orders); order <= c.opt.Orders; order++ {
			b, l := c.runs[t][best][order], c.runs[t][learned][order]
			own, other := l.Cost, b.Cost
			if deletes {
				own, other = l.CostSeconds, b.CostSeconds
			}
			if less := 1 - own/other; !math.IsNaN(less) && !math.IsInf(less, 0) {
				all, sum = append(all, one{drawn{t, order}, less}), sum+less
			}
		}
	}
	if len(all) == 0 {
		return d, false
	}
	mean := sum / float64(len(all))
	return slices.MinFunc(all, func(a, b one) int {
		return cmp.Compare(math.Abs(a.less-mean), math.Abs(b.less-mean))
	}).drawn, true
}
