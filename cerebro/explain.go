package cerebro

import (
	"errors"
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// An Explanation is why an item went where it did.
type Explanation struct {
	Time    float64
	Request int32
	Item    int32 // number within the request
	App     int32
	// Rejected counts the machines on offer that did not take the item, each by
	// its first reason (see [binpack.State.Why]).
	Rejected   map[binpack.Reason]int
	Offered    int // machines that might have been candidates
	Candidates int // that took the item
	// Chosen is nil when the item was left out, RunnerUp when there was one
	// candidate only.
	Chosen, RunnerUp *Candidate
	Tied             int // other candidates with the score of the chosen one
	// Fleet says whether empty machines were kept back; nil = the policy never does.
	Fleet *binpack.FleetTarget
	// Fallback: the policy's score was not finite, and the fallback's is shown.
	Fallback bool
	Machines int // in use before
}

// A Candidate is a machine that took the item.
type Candidate struct {
	Machine     int32
	Line, Index int32
	Items       int32   // that stood on it
	Free        []int64 // per dimension, before
	Score       float64
	Terms       []binpack.Term // of the score; none where it has no parts
}

// errExplained ends a replay that has got as far as was asked.
var errExplained = errors.New("explained")

// Explain replays up to an item of a request and says why it goes where it
// goes: when it first comes, also under Options.Retry.
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
		if at == request && no == number && e == nil {
			e, failed = r.explain(item)
			e.Request, e.Item = request, number
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
		if failed == nil && (e.Chosen == nil) != (d.Machine < 0) || e.Chosen != nil && e.Chosen.Machine != d.Machine {
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

// explain looks at the item in hand as Choose is about to.
func (r *Replayer) explain(item binpack.Item) (*Explanation, error) {
	s, u := r.state, &r.run
	e := &Explanation{App: item.App, Machines: s.Active()}
	e.Rejected, e.Offered = s.Rejections(item.App)
	candidates := s.Feasible(item.App, nil)
	e.Candidates = len(candidates)
	scores := make([]float64, len(candidates))
	scorer := u.scorer
	if len(candidates) > 0 {
		scorer.Score(item, candidates, scores)
	}
	if !finite(scores) {
		e.Fallback = true
		clear(scores) // without a fallback the lowest position
		scorer = u.fallback
		if scorer != nil {
			scorer.Score(item, candidates, scores)
		}
		if !finite(scores) {
			return e, fmt.Errorf("request of %s: %w", r.trace.Instance.Apps[item.App].Name, binpack.ErrNotFinite)
		}
	}
	if f, ok := scorer.(binpack.FleetExplainer); ok {
		target := f.ExplainFleet()
		e.Fleet = &target
	}
	first, second := -1, -1
	better := func(i, j int) bool { // than j, as Choose sees it
		return j < 0 || scores[i] > scores[j] || scores[i] == scores[j] && s.Rank(candidates[i]) < s.Rank(candidates[j])
	}
	for i := range candidates {
		switch {
		case better(i, first):
			first, second = i, first
		case better(i, second):
			second = i
		}
	}
	describe := func(i int) *Candidate {
		if i < 0 {
			return nil
		}
		m := candidates[i]
		c := &Candidate{Machine: m, Items: s.Items(m), Score: scores[i]}
		c.Line, c.Index = s.Position(m)
		for d := range r.trace.Instance.Dimensions {
			c.Free = append(c.Free, s.Free(d)[m])
		}
		if ex, ok := scorer.(binpack.Explainer); ok {
			c.Terms = ex.Explain(item, m)
		}
		return c
	}
	e.Chosen, e.RunnerUp = describe(first), describe(second)
	for i := range scores {
		if i != first && scores[i] == scores[first] {
			e.Tied++
		}
	}
	return e, nil
}

func finite(scores []float64) bool {
	for _, v := range scores {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
