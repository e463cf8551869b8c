package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
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
	w.dropUnusedTypes()
}

// dropUnusedTypes drops the types that no machine has any more.
func (w *writer) dropUnusedTypes() {
	inst := w.instance
	renumbered := make([]int32, len(inst.Types))
	var used []string
	for t, name := range inst.Types {
		renumbered[t] = -1
		if slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Type == int32(t) }) {
			renumbered[t] = int32(len(used))
			used = append(used, name)
		}
	}
	inst.Types = used
	for i := range inst.Machines {
		inst.Machines[i].Type = renumbered[inst.Machines[i].Type]
	}
	for i := range inst.Apps {
		types := []int32{}
		for _, t := range inst.Apps[i].Types {
			if renumbered[t] >= 0 {
				types = append(types, renumbered[t])
			}
		}
		inst.Apps[i].Types = types
	}
}

// nameTypes names the types, which are sets of nodes that admit the same pods, by
// an attribute that all their nodes and no other type's have: a label, or cores and
// memory; else by number.
func (w *writer) nameTypes() {
	inst := w.instance
	nodes := make([][]int32, len(inst.Types))
	for i, m := range inst.Machines {
		if inst.Types[m.Type] != Cordoned {
			nodes[m.Type] = append(nodes[m.Type], int32(i))
		}
	}
	taken := map[string]bool{Cordoned: true}
	names := make([]string, len(inst.Types))
	attributes := []func(machine int32) string{}
	for _, key := range ledger.NamingLabels {
		attributes = append(attributes, func(m int32) string { return w.past.nodes[inst.Machines[m].Name].spec.Labels[key] })
	}
	attributes = append(attributes, w.shape)
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
