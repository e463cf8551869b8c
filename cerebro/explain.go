package cerebro

import (
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
)

// An Explanation gives the reasons for the machine of an item.
type Explanation struct {
	Time    float64
	Request int32
	Item    int32 // number within the request
	App     int32
	// Rejected counts the machines on offer that did not take the item, each by
	// its first reason (see [binpack.State.Why]).
	Rejected map[binpack.Reason]int
	Offered  int // machines that might have been candidates
	Machines int // in use before
	binpack.Explanation
}

// errExplained ends a replay after the explained item.
var errExplained = errors.New("explained")

// Explain replays up to an item of a request and returns the reasons for its machine.
// With Options.Retry it explains the first try.
func (r *Replayer) Explain(policy binpack.Policy, opt Options, request, number int32) (*Explanation, error) {
	if request < 0 || int(request) >= len(r.trace.Requests) {
		return nil, fmt.Errorf("request %d: there are %d", request, len(r.trace.Requests))
	}
	q := r.trace.Requests[request]
	if number < 0 || number >= q.Count {
		return nil, fmt.Errorf("request %q has the items 0 to %d, not %d", q.Name, q.Count-1, number)
	}
	if int(request) < r.trace.Initial {
		return nil, fmt.Errorf("request %q stood there from the beginning: no policy decided on it", q.Name)
	}
	var e *Explanation
	var failed error
	record := opt.Record
	opt.watch = func(at, no int32, item binpack.Item) {
		if at == request && no == number && e == nil && failed == nil {
			e, failed = r.explain(request, number, item)
		}
	}
	opt.Record = func(d Decision) {
		if record != nil {
			record(d)
		}
		if e == nil || d.Request != request || d.Item != number || r.run.err != nil {
			return
		}
		e.Time = d.Time
		if (e.Chosen == nil) != (d.Machine < 0) || e.Chosen != nil && e.Chosen.Machine != d.Machine {
			failed = fmt.Errorf("request %q, item %d: the replay decided otherwise than explained: this is a bug", q.Name, number)
		}
		r.run.err = errExplained
	}
	_, err := r.Run(policy, opt)
	switch {
	case failed != nil:
		return nil, failed
	case errors.Is(err, errExplained):
		return e, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("request %q: item %d was never decided on", q.Name, number)
}

// explain ranks the machines for an item just before the replay chooses one.
func (r *Replayer) explain(request, number int32, item binpack.Item) (*Explanation, error) {
	s, u := r.state, &r.run
	e := &Explanation{Request: request, Item: number, App: item.App, Machines: s.Active()}
	e.Rejected, e.Offered = s.Rejections(item.App)
	var err error
	e.Explanation, err = s.Explain(u.scorer, u.fallback, item, s.Feasible(item.App, nil))
	if err != nil {
		return nil, fmt.Errorf("request of %s: %w", r.trace.Instance.Apps[item.App].Name, err)
	}
	return e, nil
}
