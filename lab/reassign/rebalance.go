package reassign

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	search "github.com/sigma-scheduler/sigma/binpack/plan/defrag"
	"github.com/sigma-scheduler/sigma/internal/defrag"
)

// A Result holds the figures of a search, and the moves.
type Result struct {
	defrag.Result
	CostBefore int64 `json:"cost_before"`
	CostAfter  int64 `json:"cost_after"`
	Parts      Cost  `json:"parts"` // of the cost after
	before     Cost
}

// Rebalance searches for the assignment of least cost by the model that "sigma-lab convert roadef" keeps in
// the trace. The slow checker and the challenge's own constraints confirm each step. When the
// context ends, it returns the best so far.
func Rebalance(ctx context.Context, start *defrag.Start, opt Options) (*Result, error) {
	p, err := problem(start)
	if err != nil {
		return nil, err
	}
	end := Search(ctx, p, opt)
	item := make([]int, len(end)) // per process
	for k, it := range start.Items {
		item[it.App] = k
	}
	var list []search.Move
	at := append([]int32(nil), p.Start...)
	for n, step := range p.Steps(end) {
		for _, i := range step {
			list = append(list, search.Move{
				Item: item[i], Step: n, From: search.Position{Line: at[i]}, To: search.Position{Line: end[i]},
			})
			at[i] = end[i]
		}
		if err := p.Check(at); err != nil {
			return nil, fmt.Errorf("step %d breaks a constraint: this is a bug, please report it with the trace: %w", n+1, err)
		}
	}
	figures, err := defrag.FromMoves(start, list)
	if err != nil {
		return nil, err
	}
	r := &Result{Result: *figures, before: p.Cost(p.Start), Parts: p.Cost(end)}
	r.CostBefore, r.CostAfter = r.before.Total(), r.Parts.Total()
	if r.Moves == 0 {
		r.Reason = "no moves: none is worth its price"
	}
	return r, nil
}

// problem is the model in a trace, with the items on their machines.
func problem(s *defrag.Start) (*Problem, error) {
	model, ok := s.Trace.Source["model"].(string)
	if !ok || s.Trace.Source["origin"] != "roadef" {
		return nil, fmt.Errorf("trace %s: trace.yaml has no source.model: the command needs a trace of sigma-lab convert roadef", s.Trace.Name)
	}
	words := make([]string, len(s.Trace.Instance.Apps))
	for _, it := range s.Items {
		if it.Line < 0 {
			return nil, fmt.Errorf("trace %s: %s has no machine, and only items on machines move", s.Trace.Name, s.Trace.Instance.Apps[it.App].Name)
		}
		words[it.App] = strconv.Itoa(int(it.Line))
	}
	p, file, err := Read(model, strings.Join(words, " "))
	if err != nil {
		return nil, fmt.Errorf("trace %s: trace.yaml: source.model and the placements: %s:%w", s.Trace.Name, file, err)
	}
	return p, nil
}

// Print writes the cost before and after, by its parts.
func (r *Result) Print(out io.Writer) error {
	percent := 0.0
	if r.CostBefore > 0 {
		percent = 100 * (1 - float64(r.CostAfter)/float64(r.CostBefore))
	}
	fmt.Fprintf(out, "cost      %d → %d, %.2f %% less\n", r.CostBefore, r.CostAfter, percent)
	for _, part := range []struct {
		name          string
		before, after int64
	}{
		{"load", r.before.Load, r.Parts.Load},
		{"balance", r.before.Balance, r.Parts.Balance},
		{"moves", 0, r.Parts.Process + r.Parts.Service + r.Parts.Machine},
	} {
		fmt.Fprintf(out, "  %-8s%d → %d\n", part.name, part.before, part.after)
	}
	return r.Result.Print(out)
}
