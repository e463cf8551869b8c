package savings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// workloadOf is the name of a workload, of an app that is named after it and its size.
func workloadOf(app string) string {
	name, _, _ := strings.Cut(app, "@")
	return name
}

// namespaceOf is the namespace of a workload; "" where its name has none.
func namespaceOf(workload string) (namespace, name string) {
	if before, after, ok := strings.Cut(workload, "/"); ok {
		return before, after
	}
	return "", workload
}

// rows shares the cost of the nodes among the workloads. A machine's cost is split half by requested cpu and half by
// requested memory of its items, so that the free part is shared as well; a node without items, and one that
// is outside the trace, is of none.
func (b *builder) rows() {
	inst := b.p.given.Instance
	share, count := make([]float64, len(inst.Apps)), make([]int, len(inst.Apps))
	cpu, memory := dimension(inst, "cpu"), dimension(inst, "memory")
	amount := func(app int32, d int) float64 {
		if d < 0 {
			return 0
		}
		return float64(inst.Apps[app].Demand[d]) / float64(inst.Dimensions[d].One)
	}
	on := map[spot][3]float64{} // cpu, memory, items
	for _, at := range b.p.running() {
		app, n := b.p.t.Requests[at.Request].App, float64(at.Count)
		sum := on[spot{at.Line, at.Index}]
		on[spot{at.Line, at.Index}] = [3]float64{sum[0] + n*amount(app, cpu), sum[1] + n*amount(app, memory), sum[2] + n}
	}
	for _, at := range b.p.running() {
		app, n := b.p.t.Requests[at.Request].App, float64(at.Count)
		sum, cost := on[spot{at.Line, at.Index}], inst.Machines[at.Line].Cost
		part := func(of, all float64) float64 {
			if all == 0 {
				return n / sum[2]
			}
			return n * of / all
		}
		share[app] += cost * (part(amount(app, cpu), sum[0]) + part(amount(app, memory), sum[1])) / 2
		count[app] += int(at.Count)
	}
	byName, unmeasured := map[string]*Workload{}, map[string]bool{}
	var names []string
	for a := range inst.Apps {
		if count[a] == 0 {
			continue
		}
		name := workloadOf(inst.Apps[a].Name)
		w := byName[name]
		if w == nil {
			w = &Workload{}
			byName[name], names = w, append(names, name)
		}
		n := float64(count[a])
		w.Pods += count[a]
		w.Share += aMonth(share[a])
		w.Requested.CPU += n * amount(int32(a), cpu)
		w.Requested.Memory += n * amount(int32(a), memory)
		switch {
		case b.used == nil || b.used[a] == nil:
			unmeasured[name] = true
		case w.Used == nil:
			w.Used = &Used{}
			fallthrough
		default:
			w.Used.CPU += b.used[a].CPU
			w.Used.Memory += b.used[a].Memory
		}
	}
	for name := range unmeasured {
		byName[name].Used = nil // a part of it would look like little use
	}
	spaces := map[string]*Namespace{}
	var order []*Namespace
	for _, name := range names {
		space, short := namespaceOf(name)
		s := spaces[space]
		if s == nil {
			s = &Namespace{Namespace: space}
			spaces[space], order = s, append(order, s)
		}
		w := byName[name]
		w.Name = short
		if w.Used != nil {
			if s.Used == nil {
				s.Used = &Used{}
			}
			if w.Requested.Memory == 0 || w.Used.Memory > 0 { // a pod without memory is not measured
				w.Saves, s.Saves = new(w.saves()), cmp.Or(s.Saves, new(Cents))
				*s.Saves += *w.Saves
			}
			s.Used.CPU += w.Used.CPU
			s.Used.Memory += w.Used.Memory
		}
		s.Share += w.Share
		s.Requested.CPU += w.Requested.CPU
		s.Requested.Memory += w.Requested.Memory
		s.Workloads = append(s.Workloads, *w)
	}
	for _, s := range order {
		slices.SortStableFunc(s.Workloads, func(x, y Workload) int { return cmp.Or(cmp.Compare(y.Share, x.Share), strings.Compare(x.Name, y.Name)) })
		b.bill.Namespaces = append(b.bill.Namespaces, *s)
	}
	slices.SortStableFunc(b.bill.Namespaces, func(x, y Namespace) int {
		return cmp.Or(cmp.Compare(y.Share, x.Share), strings.Compare(x.Namespace, y.Namespace))
	})
}

// saves is the part of a workload's share that it requests and does not use now, of the resource of which it uses
// more: no size by use is below that.
func (w *Workload) saves() Cents {
	used := 0.
	if w.Requested.CPU > 0 {
		used = max(used, w.Used.CPU/w.Requested.CPU)
	}
	if w.Requested.Memory > 0 {
		used = max(used, w.Used.Memory/w.Requested.Memory)
	}
	return Cents(float64(w.Share) * max(0, 1-used))
}

func dimension(inst *binpack.Instance, name string) int {
	return slices.IndexFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Name == name })
}
