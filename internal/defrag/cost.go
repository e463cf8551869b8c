package defrag

import (
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// A Saving is the money a month of the machines that the moves free and of those that are empty already; nil where the trace
// has no prices.
type Saving struct {
	Empty    int      `json:"empty_machines"` // before the moves, of a cluster
	Money    *float64 `json:"money_per_month"`
	Currency string   `json:"currency"`
}

// inUse has the machines with an item.
func (s *Start) inUse() map[defrag.Position]bool {
	on := map[defrag.Position]bool{}
	for _, it := range s.Items {
		if it.Line >= 0 {
			on[defrag.Position{Line: it.Line, Index: it.Index}] = true
		}
	}
	return on
}

// price sets the costs before and after the moves, and the money between them.
func (r *Result) price() {
	r.CostBefore, r.CostAfter = r.start.cost(), r.start.after(r.list).cost()
	empty := 0.
	r.Saving.Empty, empty = r.start.empty()
	r.Saving.Currency, _ = r.start.Trace.Source["currency"].(string)
	if r.Saving.Currency != "" {
		const monthHours = 730 // 365 days ÷ 12
		r.Saving.Money = new(math.Round(100*monthHours*(r.CostBefore+empty-r.CostAfter)) / 100)
	}
}

// cost is that of the machines with an item, an hour. It adds up by line, so that it does not depend on the order of items.
func (s *Start) cost() (sum float64) {
	count := make([]int, len(s.Trace.Instance.Machines))
	for p := range s.inUse() {
		count[p.Line]++
	}
	for line, n := range count {
		sum += float64(float64(n) * s.Trace.Instance.Machines[line].Cost)
	}
	return sum
}

// empty is the number of a cluster's machines that hold nothing and that it can do without, and their cost an hour. Those
// that the source's cluster lists with stays run the cluster itself, or are not ready.
func (s *Start) empty() (n int, cost float64) {
	if s.Trace.Source["origin"] != "Kubernetes cluster" {
		return 0, 0
	}
	cluster, _ := s.Trace.Source["cluster"].(map[string]any)
	nodes, _ := cluster["nodes"].(map[string]any)
	on, machines := s.inUse(), map[string]bool{}
	for i, m := range s.Trace.Instance.Machines {
		for k := range max(0, m.Count) {
			at := defrag.Position{Line: int32(i), Index: int32(k)}
			name := s.Trace.MachineName(at.Line, at.Index)
			machines[name] = true
			of, _ := nodes[name].(map[string]any)
			if !on[at] && of["stays"] != true {
				n, cost = n+1, cost+m.Cost
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) { // those that take no pods: cordoned, not ready
		of, _ := nodes[name].(map[string]any)
		if hourly, ok := number(of["cost"]); ok && !machines[name] && of["stays"] != true {
			n, cost = n+1, cost+hourly
		}
	}
	return n, cost
}

func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
