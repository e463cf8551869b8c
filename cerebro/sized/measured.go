package sized

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// A Cut app counts less than its use, since a machine has no room for it.
type Cut struct {
	App    string // as it is called in the trace returned
	Items  int
	On     string // one of the machines
	Before usage.Amounts
	After  usage.Amounts
}

func (c *Cut) String() string {
	return fmt.Sprintf("%s of %s: cpu %.3g of %.3g, memory %.4g Mi of %.4g, as %s has no more room",
		plural.Of(c.Items, "item"), c.App, c.After.CPU, c.Before.CPU, c.After.Memory/(1<<20), c.Before.Memory/(1<<20), c.On)
}

// Measured returns a trace with the sizes of its apps, by histories from elsewhere up to a time, as demands. Such a
// trace has no nights. Items on a machine without room for their use count less, down to their request, and those of the
// same app on other machines do not: they become an app of their own.
func Measured(t *trace.Trace, sizeOf func(app int, request usage.Amounts) usage.Size, leastDays int) (*trace.Trace, []usage.Size, []Cut, error) {
	if BySize(t) {
		return nil, nil, nil, fmt.Errorf("trace %s counts its items at what they use already", t.Name)
	}
	t = Finer(t)
	s, err := New(t, &trace.Usage{}, leastDays)
	if err != nil {
		return nil, nil, nil, err
	}
	sizes := make([]usage.Size, len(t.Instance.Apps))
	for a := range sizes {
		sizes[a] = sizeOf(a, s.requests[a])
	}
	w := *t
	s.set(&w, sizes, 0)
	source := w.Source["sizes"].(map[string]any)
	source["history"] = "from elsewhere"
	sizes, cuts := s.fit(&w, sizes)
	if len(cuts) > 0 {
		less := map[string]any{}
		for i := range cuts {
			less[cuts[i].App] = cuts[i].String()
		}
		source["cut"] = less
	}
	return &w, sizes, cuts, nil
}

type position struct{ line, index int32 }

// fit lowers the demands above requests of the items of placed.csv until these fit their machines.
func (s *Sizes) fit(w *trace.Trace, sizes []usage.Size) ([]usage.Size, []Cut) {
	on := map[position]map[int32]int64{} // items by app
	var machines []position
	for _, p := range w.Placed {
		m := position{p.Line, p.Index}
		if on[m] == nil {
			on[m] = map[int32]int64{}
			machines = append(machines, m)
		}
		on[m][w.Requests[p.Request].App] += int64(p.Count)
	}
	lowered := map[int32][]int64{} // demands by app: the least of its full machines
	full := map[int32][]position{} // by app
	apps, was := w.Instance.Apps, s.trace.Instance.Apps
	for _, m := range machines {
		for _, d := range []int{s.cpu, s.memory} {
			if d < 0 {
				continue
			}
			excess, above := -w.Instance.Machines[m.line].Capacity[d], int64(0)
			for a, n := range on[m] {
				excess += n * apps[a].Demand[d]
				above += n * max(0, apps[a].Demand[d]-was[a].Demand[d])
			}
			if excess <= 0 || above <= 0 {
				continue
			}
			kept := 1 - float64(excess)/float64(above)
			for a := range on[m] {
				more := apps[a].Demand[d] - was[a].Demand[d]
				if more <= 0 {
					continue
				}
				if lowered[a] == nil {
					lowered[a] = slices.Clone(apps[a].Demand)
				}
				lowered[a][d] = min(lowered[a][d], was[a].Demand[d]+int64(max(0, math.Floor(kept*float64(more)))))
				if !slices.Contains(full[a], m) {
					full[a] = append(full[a], m)
				}
			}
		}
	}
	w.Requests = slices.Clone(w.Requests)
	var cuts []Cut
	for a := range int32(len(apps)) {
		if lowered[a] != nil {
			sizes, cuts = s.lower(w, sizes, cuts, a, lowered[a], full[a])
		}
	}
	return sizes, cuts
}

// lower gives the items of an app on some machines a demand.
func (s *Sizes) lower(w *trace.Trace, sizes []usage.Size, cuts []Cut, app int32, demand []int64, full []position) ([]usage.Size, []Cut) {
	moved := map[int32]bool{} // requests with an item there
	for _, p := range w.Placed {
		if w.Requests[p.Request].App == app && slices.Contains(full, position{p.Line, p.Index}) {
			moved[p.Request] = true
		}
	}
	all, items := 0, 0
	for i, q := range w.Requests {
		if q.App == app {
			all += int(q.Count)
			if moved[int32(i)] {
				items += int(q.Count)
			}
		}
	}
	to := app
	if items < all {
		to = s.part(w, app, moved, float64(items)/float64(all))
		sizes = append(sizes, sizes[app])
	}
	c := Cut{App: w.Instance.Apps[to].Name, Items: items, On: w.MachineName(full[0].line, full[0].index), Before: sizes[app].Amounts}
	w.Instance.Apps[to].Demand = demand
	sizes[to].CPU = min(sizes[to].CPU, s.amount(&w.Instance.Apps[to], s.cpu))
	sizes[to].Memory = min(sizes[to].Memory, s.amount(&w.Instance.Apps[to], s.memory))
	c.After = sizes[to].Amounts
	return sizes, append(cuts, c)
}

// part makes some requests of an app, a share of its items, an app of their own, and returns it.
func (s *Sizes) part(w *trace.Trace, app int32, moved map[int32]bool, share float64) int32 {
	to := int32(len(w.Instance.Apps))
	own := w.Instance.Apps[app]
	own.Name += ",full"
	if rest := &w.Instance.Apps[app]; rest.Expected > 0 {
		own.Expected *= share
		rest.Expected -= own.Expected
	}
	if own.Declared != 0 {
		own.Declared = -1 // the first app of a group has the number of all
	}
	w.Instance.Apps = append(w.Instance.Apps, own)
	for request := range moved {
		w.Requests[request].App = to
	}
	source := w.Source["sizes"].(map[string]any)
	source["requests"].(map[string]any)[own.Name] = s.stated(int(app))
	pairs := slices.Clone(w.Instance.Pairs)
	for _, p := range w.Instance.Pairs {
		if p.App == app {
			p.App = to
			pairs = append(pairs, p)
		}
	}
	w.Instance.Pairs = pairs
	return to
}
