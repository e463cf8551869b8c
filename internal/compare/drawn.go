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

// drawTypical gives a comparison the machines of the replay in which the two policies that a page draws differ most nearly as
// they do in the mean: a replay whose machines were not kept is done again.
func (c *comparison) drawTypical(list []report.Comparison) error {
	if !c.opt.Layouts {
		return nil
	}
	if d, ok := c.typical(report.Drawn(list)); ok && d != c.drawn {
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
	}
	for p, found := range c.policies[c.drawn.trace] {
		results := list[c.drawn.trace].Results
		for r := range results {
			if results[r].Policy == found.Name {
				results[r].Layout = c.layouts[p]
			}
		}
	}
	return nil
}

// typical is the replay nearest to the mean difference of two policies; ok is false where they are not compared.
func (c *comparison) typical(policy, against string) (d drawn, ok bool) {
	type one struct {
		drawn
		less float64
	}
	var all []one
	sum := 0.
	for t, policies := range c.policies {
		mine := slices.IndexFunc(policies, func(f Found) bool { return f.Name == policy })
		rule := slices.IndexFunc(policies, func(f Found) bool { return f.Name == against })
		if mine < 0 || rule < 0 {
			return d, false
		}
		deletes := slices.ContainsFunc(c.played[t].Events, func(e trace.Event) bool { return e.Kind == trace.Delete })
		for order := min(1, c.opt.Orders); order <= c.opt.Orders; order++ {
			own, other := c.runs[t][mine][order], c.runs[t][rule][order]
			a, b := own.Cost, other.Cost
			if deletes {
				a, b = own.CostSeconds, other.CostSeconds
			}
			if less := 1 - a/b; !math.IsNaN(less) && !math.IsInf(less, 0) {
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
