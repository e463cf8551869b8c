package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Layout is the contents of the machines after one replay. Pages draw it.
type Layout struct {
	Order    int
	Instance *binpack.Instance
	Machines []Machine // by position: those that hold an item; of a fixed fleet, all
}

// A Machine is one column of the picture.
type Machine struct {
	Line, Index int32 // position
	Items       []binpack.Entry
}

// NewLayout copies the contents of a state.
func NewLayout(state *binpack.State, order int) *Layout {
	l := &Layout{Order: order, Instance: state.Instance()}
	for m := range int32(state.Size()) {
		if state.Items(m) == 0 && l.Instance.Fleet == binpack.Open {
			continue
		}
		one := Machine{Items: slices.Clone(state.Contents(m))}
		one.Line, one.Index = state.Position(m)
		l.Machines = append(l.Machines, one)
	}
	slices.SortFunc(l.Machines, byPosition)
	return l
}

func byPosition(a, b Machine) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Index, b.Index))
}

func (l *Layout) capacity(m *Machine) []int64 { return l.Instance.Machines[m.Line].Capacity }

// requested is the demand on a machine in a dimension.
func (l *Layout) requested(m *Machine, d int) int64 {
	sum := int64(0)
	for _, e := range m.Items {
		sum += l.Instance.Apps[e.App].Demand[d] * int64(e.Count)
	}
	return sum
}

// share is the requested share of a machine's capacity.
func (l *Layout) share(m *Machine, d int) float64 {
	return float64(l.requested(m, d)) / float64(max(1, l.capacity(m)[d]))
}

// items counts the items per app over all machines.
func (l *Layout) items() []int {
	counts := make([]int, len(l.Instance.Apps))
	for _, m := range l.Machines {
		for _, e := range m.Items {
			counts[e.App] += int(e.Count)
		}
	}
	return counts
}

func (l *Layout) empty() bool {
	return !slices.ContainsFunc(l.Machines, func(m Machine) bool { return len(m.Items) > 0 })
}

// dearest is the dimension of which the requested share costs most over all machines: Σ cost · share. A machine
// without the dimension has a share of 0, so that a full GPU of one node of many is not it.
func dearest(layouts []*Layout) int {
	best, most := 0, -1.0
	for d := range layouts[0].Instance.Dimensions {
		cost := 0.0
		for _, l := range layouts {
			for i := range l.Machines {
				if m := &l.Machines[i]; l.capacity(m)[d] > 0 {
					cost += float64(l.Instance.Machines[m.Line].Cost * l.share(m, d))
				}
			}
		}
		if cost > most {
			best, most = d, cost
		}
	}
	return best
}

// ranks orders the apps by their demand in all layouts, largest first. An app's rank is
// its colour and its place in a column.
func ranks(layouts []*Layout, d int) []int {
	apps := layouts[0].Instance.Apps
	demand := make([]float64, len(apps))
	order := make([]int, len(apps))
	for a := range apps {
		order[a] = a
	}
	for _, l := range layouts {
		for a, n := range l.items() {
			demand[a] += float64(n) * float64(apps[a].Demand[d])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(demand[b], demand[a]) })
	rank := make([]int, len(apps))
	for i, a := range order {
		rank[a] = i
	}
	return rank
}

// drawn lists the machines of the picture, fullest first, with their items by rank of the
// app. It leaves out machines without capacity in the dimension.
func (l *Layout) drawn(d int, rank []int) []Machine {
	var machines []Machine
	for _, m := range l.Machines {
		if l.capacity(&m)[d] > 0 {
			m.Items = slices.SortedFunc(slices.Values(m.Items), func(a, b binpack.Entry) int {
				return cmp.Compare(rank[a.App], rank[b.App])
			})
			machines = append(machines, m)
		}
	}
	slices.SortStableFunc(machines, func(a, b Machine) int {
		return cmp.Compare(l.share(&b, d), l.share(&a, d))
	})
	return machines
}

// oneIn takes every k-th, from the first.
func oneIn(k int, machines []Machine) []Machine {
	var some []Machine
	for i := 0; i < len(machines); i += k {
		some = append(some, machines[i])
	}
	return some
}

// amounts writes the values of some dimensions: "4 cpu, 8Gi memory".
func (l *Layout) amounts(values []int64, dimensions []int) string {
	var parts []string
	for _, d := range dimensions {
		if values[d] != 0 {
			dim := l.Instance.Dimensions[d]
			parts = append(parts, trace.FormatAmount(values[d], dim)+" "+dim.Name)
		}
	}
	if len(dimensions) < len(values) {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}

// contents names the items on a machine.
func (l *Layout) contents(m *Machine) string {
	var parts []string
	for _, e := range m.Items {
		name := l.Instance.Apps[e.App].Name
		if e.Count > 1 {
			name += fmt.Sprintf(" ×%d", e.Count)
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
