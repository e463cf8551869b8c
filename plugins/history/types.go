package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Cordoned is the type of the machines that take no pods any more.
const Cordoned = "cordoned"

// closed reports whether a node takes no pods any more. A removed node was often
// cordoned before its removal; it counts as it was in its time.
func (h *History) closed(n *node) bool { return n.spec.Cordoned && h.present(n) }

// closeCordoned sets a type that no app may use on cordoned machines.
func (w *writer) closeCordoned() {
	inst := w.instance
	closed := int32(len(inst.Types))
	var open []int32
	any := false
	for i := range inst.Machines {
		if h := w.past; h.closed(h.nodes[inst.Machines[i].Name]) {
			inst.Machines[i].Type, any = closed, true
		}
	}
	if !any {
		return
	}
	inst.Types = append(inst.Types, Cordoned)
	for t := range closed {
		open = append(open, t)
	}
	for i := range inst.Apps {
		if inst.Apps[i].Types == nil {
			inst.Apps[i].Types = open
		}
	}
	w.numberTypes()
}

// numberTypes numbers the types in the order of the machines, as a reader of the trace does, and drops those that no
// machine has any more.
func (w *writer) numberTypes() {
	inst := w.instance
	number, names := map[int32]int32{}, inst.Types
	inst.Types = nil
	for i := range inst.Machines {
		m := &inst.Machines[i]
		n, known := number[m.Type]
		if !known {
			n = int32(len(inst.Types))
			number[m.Type] = n
			inst.Types = append(inst.Types, names[m.Type])
		}
		m.Type = n
	}
	for i := range inst.Apps {
		if inst.Apps[i].Types == nil {
			continue
		}
		types := []int32{}
		for _, t := range inst.Apps[i].Types {
			if n, used := number[t]; used {
				types = append(types, n)
			}
		}
		slices.Sort(types)
		inst.Apps[i].Types = types
	}
}

// splitTypes makes a type of the nodes of each instance type among those that admit the same pods: two instance types
// share no name.
func (w *writer) splitTypes() {
	inst := w.instance
	type part struct {
		of   int32
		kind string
	}
	first, parts := map[int32]bool{}, map[part]int32{}
	for i := range inst.Machines {
		m := &inst.Machines[i]
		p := part{m.Type, w.past.nodes[m.Name].spec.First(ledger.InstanceLabels)}
		if inst.Types[p.of] == Cordoned {
			continue
		}
		own, known := parts[p]
		switch {
		case known:
		case !first[p.of]:
			first[p.of], own = true, p.of
		default:
			own = int32(len(inst.Types))
			inst.Types = append(inst.Types, "")
			for a := range inst.Apps {
				if app := &inst.Apps[a]; slices.Contains(app.Types, p.of) {
					app.Types = append(slices.Clip(app.Types), own)
				}
			}
		}
		parts[p], m.Type = own, own
	}
}

// nameTypes names the types, which are sets of nodes of one instance type that admit the same pods, by
// an attribute that all their nodes and no other type's have: the instance type, the pool, both, the zone, or cores and
// memory; else by number.
func (w *writer) nameTypes() {
	w.splitTypes()
	inst := w.instance
	nodes := make([][]int32, len(inst.Types))
	for i, m := range inst.Machines {
		if inst.Types[m.Type] != Cordoned {
			nodes[m.Type] = append(nodes[m.Type], int32(i))
		}
	}
	taken := map[string]bool{Cordoned: true}
	names := make([]string, len(inst.Types))
	label := func(keys ...string) func(int32) string {
		return func(m int32) string { return w.past.nodes[inst.Machines[m].Name].spec.First(keys) }
	}
	instanceType, pool := label(ledger.InstanceLabels...), label(ledger.PoolLabels...)
	both := func(m int32) string {
		if instanceType(m) == "" || pool(m) == "" {
			return ""
		}
		return instanceType(m) + "/" + pool(m)
	}
	attributes := []func(machine int32) string{instanceType, pool, both, label("topology.kubernetes.io/zone"), w.shape}
	for _, attribute := range attributes {
		in := map[string]map[int32]bool{} // types in which a value occurs
		for t := range nodes {
			for _, m := range nodes[t] {
				v := attribute(m)
				if in[v] == nil {
					in[v] = map[int32]bool{}
				}
				in[v][int32(t)] = true
			}
		}
		for t := range names {
			if names[t] != "" || len(nodes[t]) == 0 {
				continue
			}
			v := attribute(nodes[t][0])
			if v == "" || len(in[v]) > 1 || taken[v] || slices.ContainsFunc(nodes[t], func(m int32) bool { return attribute(m) != v }) {
				continue
			}
			names[t], taken[v] = v, true
		}
	}
	for t := range names {
		switch {
		case inst.Types[t] == Cordoned:
			names[t] = Cordoned
		case names[t] == "" && len(names) == 1:
			names[t] = "node"
		case names[t] == "":
			for n := t + 1; names[t] == "" || taken[names[t]]; n++ {
				names[t] = fmt.Sprint("type-", n)
			}
			taken[names[t]] = true
		}
	}
	inst.Types = names
	w.numberTypes()
}

// shape returns a machine's cores and memory, rounded, as 16c64g.
func (w *writer) shape(m int32) string {
	capacity, one := w.past.nodes[w.instance.Machines[m].Name].spec.Capacity, 1.0
	for _, dim := range w.instance.Dimensions {
		if dim.Name == "cpu" {
			one = float64(dim.One)
		}
	}
	return fmt.Sprintf("%dc%dg", int64(math.Round(float64(capacity["cpu"])/one)), int64(math.Round(float64(capacity["memory"])/(1<<30))))
}
