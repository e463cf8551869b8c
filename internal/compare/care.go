package compare

import (
	"cmp"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/measure"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// careOf is a policy's handling of preferences on a trace; ok where it could matter.
func careOf(found Found, t *trace.Trace) (care binpack.Care, ok bool) {
	if _, past := found.Policy.(cerebro.Follower); past {
		return care, false
	}
	care = binpack.CareOf(found.Policy)
	care.Mode = cmp.Or(care.Mode, binpack.SoftKeep)
	care.MaxShareOfApp = cmp.Or(care.MaxShareOfApp, t.Instance.MaxShareOfApp, 1)
	terms := slices.ContainsFunc(t.Instance.Apps, func(a binpack.App) bool { return len(a.Soft) > 0 })
	return care, terms && care.Mode != binpack.SoftIgnore || care.MaxShareOfApp < 1
}

// ignoring does a task once more with a policy that ignores preferences. The worker's replayer
// has just done the task.
func (w *worker) ignoring(t task, options cerebro.Options) error {
	found, tr := w.policies[t.trace][t.policy], w.played[t.trace]
	out := w.ignored[[2]int{t.trace, t.policy}]
	if out == nil {
		return nil
	}
	care, _ := careOf(found, tr)
	last := t.order == min(1, w.opt.Orders)
	if last {
		out.Care, out.With = care, measure.Failures(w.replayer.State())
		for _, g := range tr.Instance.Groups {
			out.Groups = append(out.Groups, g.Name)
		}
	}
	options.Record, options.Samples = nil, 0
	options.Care = &binpack.Care{Mode: binpack.SoftIgnore, MaxShareOfApp: 1}
	run, err := w.replayer.Run(found.Policy, options)
	if err != nil {
		return err
	}
	out.Runs[t.order] = run
	if last {
		out.Without = measure.Failures(w.replayer.State())
	}
	return nil
}

// makeIgnored allocates the results of ignoring.
func (c *comparison) makeIgnored() {
	c.ignored = map[[2]int]*report.Ignoring{}
	if c.opt.Once {
		return
	}
	for t, policies := range c.policies {
		for p, found := range policies {
			if _, ok := careOf(found, c.played[t]); ok {
				c.ignored[[2]int{t, p}] = &report.Ignoring{Runs: make([]cerebro.Run, c.opt.Orders+1)}
			}
		}
	}
}
