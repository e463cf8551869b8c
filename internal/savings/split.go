package savings

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// split returns a trace that counts its items at their use as one that counts them at their requests, and the demands by use,
// by app; nil demands = it counts requests already.
func split(t *trace.Trace) (*trace.Trace, [][]int64, error) {
	if !sized.BySize(t) {
		return t, nil, nil
	}
	wrong := errors.New("trace.yaml: source.sizes.requests: want apps, each with cpu and memory")
	sizes, _ := t.Source["sizes"].(map[string]any)
	requests, ok := sizes["requests"].(map[string]any)
	if !ok {
		return nil, nil, wrong
	}
	own, inst := *t, *t.Instance
	inst.Apps = slices.Clone(inst.Apps)
	own.Instance, own.Source = &inst, maps.Clone(t.Source)
	delete(own.Source, "sizes")
	demands := make([][]int64, len(inst.Apps))
	for a := range inst.Apps {
		app := &inst.Apps[a]
		demands[a], app.Demand = app.Demand, slices.Clone(app.Demand)
		pair, _ := requests[app.Name].([]any)
		if len(pair) != 2 {
			return nil, nil, fmt.Errorf("%w: %s", wrong, app.Name)
		}
		for i, name := range []string{"cpu", "memory"} {
			d := dimension(&inst, name)
			if d < 0 {
				continue
			}
			q, err := trace.ParseQuantity(fmt.Sprint(pair[i]))
			if err != nil {
				return nil, nil, fmt.Errorf("trace.yaml: source.sizes.requests: %s: %v: %w", app.Name, pair[i], err)
			}
			app.Demand[d] = int64(math.Round(q.Float() * float64(inst.Dimensions[d].One)))
		}
	}
	return &own, demands, nil
}
