package defrag

import (
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// Held are the lines that placed.csv would have for the pods of a snapshot that wait and fit on a machine now.
func Held(t *trace.Trace) (placed []trace.Placed, err error) {
	if len(podsOf(t, "waiting")) == 0 {
		return nil, nil
	}
	s, err := startOf(t)
	if err != nil {
		return nil, err
	}
	held, err := s.held(Options{})
	if err != nil {
		return nil, err
	}
	for k, it := range held.Items {
		if s.Items[k].Line < 0 && it.Line >= 0 {
			placed = append(placed, trace.Placed{Request: s.request[k], Line: it.Line, Index: it.Index, Count: 1, Devices: it.Devices})
		}
	}
	return placed, nil
}

// podsOf are the pods, or apps, of a snapshot under a key of the source's cluster.
func podsOf(t *trace.Trace, key string) map[string]any {
	cluster, _ := t.Source["cluster"].(map[string]any)
	pods, _ := cluster[key].(map[string]any)
	return pods
}

// held puts the pods of a snapshot that wait and fit on the machine in use that they fill most, else on an empty one, where they
// stay: a scheduler places them there, whatever moves.
func (s *Start) held(opt Options) (*Start, error) {
	pods := podsOf(s.Trace, "waiting")
	if len(pods) == 0 || opt.MakeRoom {
		return s, nil
	}
	own := *s
	own.Items = slices.Clone(s.Items)
	state := binpack.NewState(s.Trace.Instance)
	for _, it := range own.Items {
		if it.Line >= 0 {
			if err := state.PlaceAs(it.App, state.MachineAt(it.Line, it.Index), it.Devices); err != nil {
				return nil, err
			}
		}
	}
	scorer := rule.BestFit{}.Scorer(state)
	var takes, used []int32
	var ranked []binpack.Ranked
	for k := range own.Items {
		it := &own.Items[k]
		if it.Line >= 0 || pods[s.Trace.Requests[s.request[k]].Name] == nil {
			continue
		}
		takes = state.Feasible(it.App, takes[:0])
		used = used[:0]
		for _, m := range takes {
			if state.Items(m) > 0 {
				used = append(used, m)
			}
		}
		if len(used) == 0 {
			used = takes
		}
		var err error
		if ranked, err = state.Rank(scorer, binpack.Item{App: it.App}, used, 1, ranked); err != nil {
			return nil, err
		}
		if len(ranked) > 0 {
			it.Devices = slices.Clone(state.Place(binpack.Item{App: it.App}, ranked[0].Machine, nil))
			it.Line, it.Index = state.Position(ranked[0].Machine)
			it.Fixed = true
		}
	}
	return &own, nil
}
