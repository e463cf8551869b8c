package evidence

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/tune"
)

const (
	hour = 3600.
	// slack is the share of the last day that may be without an event.
	slack = .05
)

// A Trial replays policies on the same history, in which each takes over from the active one, as
// it would in the cluster: placed pods stay. It serves one goroutine.
type Trial struct {
	replayer *cerebro.Replayer
	inForce  binpack.Policy
	takeover float64 // share of the requests that the active one places
	from     float64
	marks    []float64
}

// NewTrial prepares the trial of a history. The policies take over at a time of the trace; the
// days begin at another and each are so many seconds long.
func NewTrial(t *trace.Trace, inForce binpack.Policy, takeover, from, length float64, days int) (*Trial, error) {
	if !(takeover <= from) || !(length > 0) || days < 1 || len(t.Requests) == t.Initial {
		return nil, errors.New("a trial needs days, a takeover before them, and arrivals")
	}
	if end := from + float64(days)*length; t.Events[len(t.Events)-1].Time < end-slack*length {
		return nil, errors.New("the history ends before the last day does")
	}
	before := 0
	for _, e := range t.Events {
		if e.Kind == trace.Create && e.Time < takeover {
			before++
		}
	}
	// In the middle between two requests: the replay rounds down.
	n := float64(len(t.Requests) - t.Initial)
	out := &Trial{replayer: cerebro.NewReplayer(t), inForce: inForce, takeover: min(1, (float64(before)+.5)/n), from: from}
	for day := range days + 1 {
		out.marks = append(out.marks, from+float64(day)*length)
	}
	return out, nil
}

// An Account is the cost of a policy on the days of a trial.
type Account struct {
	Cost         []float64 // of the nodes in use, in hours, by day
	Waiting      float64   // hours of all pods that wait for a node
	Unplaced     int       // pods without a node on arrival
	PodsOfOneApp int       // the most on a node
}

// Run gives the account of a policy.
func (t *Trial) Run(p binpack.Policy) (a Account, err error) {
	state := t.replayer.State()
	apps := t.replayer.Trace().Instance.Apps
	run, err := t.replayer.Run(p, cerebro.Options{
		Before: t.inForce, Snapshot: t.takeover, Retry: true, Brief: true, Fallback: rule.Fallback{}, Marks: t.marks,
		Record: func(d cerebro.Decision) {
			if d.Kind == cerebro.Place && d.Time >= t.from && d.Time < t.marks[len(t.marks)-1] {
				group := apps[t.replayer.Trace().Requests[d.Request].App].Group
				a.PodsOfOneApp = max(a.PodsOfOneApp, int(state.Count(group, d.Machine)))
			}
		},
	})
	if err != nil {
		return Account{}, err
	}
	first, last := run.Marks[0], run.Marks[len(run.Marks)-1]
	for i := range run.Marks[1:] {
		a.Cost = append(a.Cost, (run.Marks[i+1].CostSeconds-run.Marks[i].CostSeconds)/hour)
	}
	a.Waiting, a.Unplaced = (last.WaitingSeconds-first.WaitingSeconds)/hour, last.Refused-first.Refused
	return a, nil
}

// Saving is the percentage by which an account is below another of the same trial, by a bootstrap
// over days: with a confidence, it is at least Low.
func Saving(own, other Account, confidence float64, seed uint64) tune.Interval {
	return tune.Paired(own.Cost, other.Cost, 2*confidence-1, seed)
}

// Promise is the expected saving of a policy in percent on the next ahead days: with a probability
// of share it is between Low and High. The bootstrap over the days of the trial yields the variance
// of their mean; with few days it underestimates it (by n instead of n − 1, and by the normal
// distribution instead of Student's), and future days vary as well.
func Promise(own, other Account, ahead int, share float64, seed uint64) tune.Interval {
	s := tune.Paired(own.Cost, other.Cost, share, seed)
	n := float64(len(own.Cost))
	if n < 2 {
		return tune.Interval{Mean: s.Mean, Low: math.Inf(-1), High: math.Inf(1)}
	}
	q := (1 + share) / 2
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(q) / distuv.UnitNormal.Quantile(q)
	wide := t * math.Sqrt(n/(n-1)*(1+n/float64(ahead)))
	s.Low, s.High = s.Mean-wide*(s.Mean-s.Low), s.Mean+wide*(s.High-s.Mean)
	return s
}
