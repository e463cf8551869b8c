package evidence

import (
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// A Trajectory is the result of a policy if it had decided since the beginning of a trace.
type Trajectory struct {
	Nodes     int     // in use at the end
	Cost      float64 // of those, an hour
	Spent     float64 // cost of the nodes in use, since the beginning
	Opened    int     // pods placed on an empty node
	Pods      int     // that arrived, without those that were there
	Fallbacks int     // of those, the ones that Best-Fit had to place
}

// Follow replays a trace under a policy. Pods placed at its beginning stay on their nodes, and pods
// that find no node wait.
func Follow(t *trace.Trace, p binpack.Policy) (out Trajectory, err error) {
	r := cerebro.NewReplayer(t)
	state := r.State()
	run, err := r.Run(p, cerebro.Options{
		Retry: true, Brief: true, Fallback: rule.Fallback{},
		Record: func(d cerebro.Decision) {
			if d.Kind == cerebro.Place && state.Items(d.Machine) == 1 {
				out.Opened++
			}
		},
	})
	if err != nil {
		return Trajectory{}, err
	}
	for _, e := range t.Events {
		if e.Kind == trace.Create {
			out.Pods += int(e.Count)
		}
	}
	for _, n := range run.Fallbacks {
		out.Fallbacks += n
	}
	out.Nodes, out.Cost, out.Spent = run.Machines, run.Cost, run.CostSeconds/hour
	return out, nil
}

// Recorded is the policy that repeats the recorded nodes of a trace's pods.
func Recorded(t *trace.Trace) (binpack.Policy, error) {
	found, err := (&compare.Catalog{}).Find(compare.Current, t)
	return found.Policy, err
}
