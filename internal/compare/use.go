package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/report"
	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// usageOf is the usage of a trace; nil without usage.csv.gz. A trace that counts items by
// their use is refused without it, since a number of machines by use
// is printed with its risk or not at all.
func usageOf(t *trace.Trace) (*trace.Usage, error) {
	u, err := t.Usage()
	if err == nil && u == nil && sized.BySize(t) {
		err = fmt.Errorf("trace %s counts its items at what they use, and lacks the usage.csv.gz that shows the risk of it", t.Name)
	}
	return u, err
}

// UsageOf is usageOf for replays up to an order: a series is of a time, so orders above 0 of a trace by request have one
// only where all items arrive at once. Those of a trace by use shuffle the items of each moment, and are refused where no
// moment has two.
func UsageOf(t *trace.Trace, order int) (*trace.Usage, error) {
	u, err := usageOf(t)
	if err != nil || order == 0 || cerebro.AtOnce(t) {
		return u, err
	}
	if !sized.BySize(t) {
		return nil, nil
	}
	for i, e := range t.Events[1:] {
		if before := t.Events[i]; e.Kind == trace.Create && before.Kind == trace.Create && e.Time == before.Time {
			return u, nil
		}
	}
	return nil, fmt.Errorf("trace %s counts its items at what they use, and no two arrive at one time: the risk of order 0 alone can be judged, not that of order %d", t.Name, order)
}

// placedAt follows a placement that is known, by request and number within it.
type placedAt struct {
	rule.FirstFit // its scorer is never used
	where         map[[2]int32]Standing
}

// Where implements [cerebro.Follower].
func (p *placedAt) Where(request, number int32) (line, index int32, devices []trace.Device, ok bool) {
	at, ok := p.where[[2]int32{request, number}]
	return at.Line, at.Index, at.Devices, ok
}

// A Standing item is on a machine.
type Standing struct {
	Request, Number, Line, Index int32
	Devices                      []trace.Device
}

// UseOfPlacement judges a placement by the usage of the trace, from the time at which each
// item arrives to the end of the usage, as if none left. Items that are not in the placement
// do not count. The result is nil for traces by request: their machines are no saving by use.
func UseOfPlacement(t *trace.Trace, placement []Standing) (*report.Use, error) {
	if !sized.BySize(t) {
		return nil, nil
	}
	u, err := usageOf(t)
	if err != nil {
		return nil, err
	}
	policy := &placedAt{where: map[[2]int32]Standing{}}
	for _, s := range placement {
		policy.where[[2]int32{s.Request, s.Number}] = s
	}
	stays := *t.FromEmpty()
	stays.Events = slices.DeleteFunc(slices.Clone(stays.Events), func(e trace.Event) bool { return e.Kind == trace.Delete })
	if math.IsNaN(stays.MeasureFrom) { // the days before are those of the sizes
		if stays.MeasureFrom, err = sized.From(t); err != nil {
			return nil, err
		}
	}
	run, err := cerebro.NewReplayer(&stays).Run(policy, cerebro.Options{Usage: u, Brief: true})
	if err != nil {
		return nil, fmt.Errorf("trace %s: the risk of the placement: %w", t.Name, err)
	}
	use := UseOfRun(t, run)
	return use, KnownRisk(t, use)
}

// UseOfRun is the risk of a replay; nil without usage.
func UseOfRun(t *trace.Trace, run cerebro.Run) *report.Use {
	head := report.Trace{Unseen: sized.UnseenOf(t)}
	for _, d := range t.Instance.Dimensions {
		head.Dimensions = append(head.Dimensions, d.Name)
	}
	return report.UseOf(head, run)
}

// KnownRisk is an error for a replay of a trace by use that samples cover too little of, or nothing of a resource that
// counts less than the requests: a number of machines by use is printed with its risk or not at all.
func KnownRisk(t *trace.Trace, u *report.Use) error {
	if !sized.BySize(t) || u == nil {
		return nil
	}
	why := u.NotKnown
	for _, resource := range u.NotJudged {
		if why == "" && sized.Reduced(t, resource) {
			why = "usage.csv.gz has no series of " + resource
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("trace %s counts its items at what they use, and the risk of that is not known: %s", t.Name, why)
}

// NoRisk explains the number of a trace by use that is not of a placement; empty for traces by request.
func NoRisk(t *trace.Trace) string {
	if !sized.BySize(t) {
		return ""
	}
	return "items count at what they use; a bound is no placement, so it has no risk: compare and plan print that of theirs"
}

// apart names the traces by use as such, in copies, where others count by request.
func apart(traces []*trace.Trace) []*trace.Trace {
	if !slices.ContainsFunc(traces, func(t *trace.Trace) bool { return !sized.BySize(t) }) {
		return traces
	}
	traces = slices.Clone(traces)
	for i, t := range traces {
		if sized.BySize(t) {
			named := *t
			named.Name += " by use"
			traces[i] = &named
		}
	}
	return traces
}

// sameCluster reports whether two traces have the same machines, and the same items at the same times, of any size.
func sameCluster(a, b *trace.Trace) bool {
	x, y := a.Instance, b.Instance
	return a.Name == b.Name && slices.Equal(a.Requests, b.Requests) && slices.Equal(a.Events, b.Events) &&
		slices.EqualFunc(x.Apps, y.Apps, func(a, b binpack.App) bool { return a.Name == b.Name }) &&
		slices.EqualFunc(x.Dimensions, y.Dimensions, func(a, b binpack.Dimension) bool { return a.Name == b.Name }) &&
		slices.EqualFunc(x.Machines, y.Machines, func(a, b binpack.MachineLine) bool {
			for d, c := range a.Capacity {
				if float64(c)*float64(y.Dimensions[d].One) != float64(b.Capacity[d])*float64(x.Dimensions[d].One) {
					return false
				}
			}
			return a.Name == b.Name && a.Count == b.Count && a.Cost == b.Cost
		})
}
