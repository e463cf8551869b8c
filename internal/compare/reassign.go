package compare

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack/plan/moves"
	"github.com/sigma-scheduler/sigma/binpack/plan/reassign"
	"github.com/sigma-scheduler/sigma/internal/rebalance"
)

// Reassigned are the figures of a rebalance by the objective of the ROADEF/EURO challenge 2012, and the moves.
type Reassigned struct {
	rebalance.Result
	CostBefore int64         `json:"cost_before"`
	CostAfter  int64         `json:"cost_after"`
	Parts      reassign.Cost `json:"parts"` // of the cost after
	before     reassign.Cost
}

// NewReassign looks for the assignment that costs least by the model that "sigma-lab convert roadef" has put into
// the trace. Every step is checked before anything is returned: by the slow checker, and by the challenge's own constraints. When the
// context ends, it returns the best so far.
func NewReassign(ctx context.Context, start *rebalance.Start, opt reassign.Options) (*Reassigned, error) {
	p, err := problem(start)
	if err != nil {
		return nil, err
	}
	end := reassign.Search(ctx, p, opt)
	item := make([]int, len(end)) // per process
	for k, it := range start.Items {
		item[it.App] = k
	}
	var list []moves.Move
	at := append([]int32(nil), p.Start...)
	for n, step := range p.Steps(end) {
		for _, i := range step {
			list = append(list, moves.Move{
				Item: item[i], Step: n, From: moves.Position{Line: at[i]}, To: moves.Position{Line: end[i]},
			})
			at[i] = end[i]
		}
		if err := p.Check(at); err != nil {
			return nil, fmt.Errorf("step %d breaks a constraint: this is a bug, please report it with the trace: %w", n+1, err)
		}
	}
	figures, err := rebalance.FromMoves(start, list)
	if err != nil {
		return nil, err
	}
	r := &Reassigned{Result: *figures, before: p.Cost(p.Start), Parts: p.Cost(end)}
	r.CostBefore, r.CostAfter = r.before.Total(), r.Parts.Total()
	if r.Moves == 0 {
		r.Reason = "no moves: none is worth its price"
	}
	return r, nil
}

// problem is the model in a trace, with the items on their machines.
func problem(s *rebalance.Start) (*reassign.Problem, error) {
	model, ok := s.Trace.Source["model"].(string)
	if !ok || s.Trace.Source["origin"] != "roadef" {
		return nil, fmt.Errorf("trace %s: trace.yaml has no source.model: the objective roadef needs a trace of sigma-lab convert roadef", s.Trace.Name)
	}
	words := make([]string, len(s.Trace.Instance.Apps))
	for _, it := range s.Items {
		if it.Line < 0 {
			return nil, fmt.Errorf("trace %s: %s waits: the objective roadef moves what stands", s.Trace.Name, s.Trace.Instance.Apps[it.App].Name)
		}
		words[it.App] = strconv.Itoa(int(it.Line))
	}
	p, file, err := reassign.Read(model, strings.Join(words, " "))
	if err != nil {
		return nil, fmt.Errorf("trace %s: trace.yaml: source.model and the placements: %s:%w", s.Trace.Name, file, err)
	}
	return p, nil
}

// Print writes the cost before and after, by its parts.
func (r *Reassigned) Print(out io.Writer) error {
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
