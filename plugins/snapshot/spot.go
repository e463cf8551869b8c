package snapshot

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// keepOnDemand lets only those apps use the spot nodes without a taint of which a pod tolerates or selects spot, or more than
// half of the pods are on spot: fewer are there by chance, and a spot node may be taken away at any time. It returns a note on
// the others; "" = there are none.
func (p *Picture) keepOnDemand(inst *binpack.Instance, appLabel string) (note string) {
	spot, open := map[string]bool{}, map[string]bool{} // nodes; those that no taint keeps pods off
	for _, n := range p.Nodes {
		if spot[n.Name] = kube.CapacityType(n) == kube.Spot; spot[n.Name] {
			open[n.Name] = podspec.Untolerated(n, nil) == nil
		}
	}
	willing, more := map[string]bool{}, map[string]int{} // by group; pods on spot less those on other nodes
	for _, pod := range p.Pods {
		group := podspec.Group(pod, appLabel)
		switch {
		case takesSpot(&pod.Spec):
			willing[group] = true
		case spot[pod.Spec.NodeName]:
			more[group]++
		case pod.Spec.NodeName != "":
			more[group]--
		}
	}
	if !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return open[m.Name] }) {
		return ""
	}
	stay := 0
	restrict(inst, open, "spot", func(app *binpack.App, types, others []int32) []int32 {
		if name := inst.Groups[app.Group].Name; !willing[name] && more[name] <= 0 && len(others) > 0 && len(others) < len(types) {
			stay++
			return others
		}
		return types
	})
	if stay == 0 {
		return ""
	}
	return fmt.Sprintf("%d apps stay off spot nodes without a taint: none of their pods tolerates or selects spot, and no more than half of them are on it", stay)
}

// restrict splits the types of machines of which some are open, and lets choose return the types that an app may use: of all, or
// of those that are not open alone.
func restrict(inst *binpack.Instance, open map[string]bool, suffix string, choose func(app *binpack.App, types, others []int32) []int32) {
	parts := splitTypes(inst, open, suffix)
	for a := range inst.Apps {
		app := &inst.Apps[a]
		var types, others []int32
		for _, of := range parts {
			if app.Types == nil || slices.Contains(app.Types, of.before) {
				if types = append(types, of.now); !of.open {
					others = append(others, of.now)
				}
			}
		}
		if chosen := choose(app, types, others); app.Types != nil || len(chosen) < len(types) {
			app.Types = chosen
		}
	}
}

// A typePart is a part of a type: its machines that are open, or the others.
type typePart struct {
	before, now int32
	open        bool
}

// splitTypes splits the types of machines of which some are open, the suffix in the names of these, numbered by their first machine as a reader does.
func splitTypes(inst *binpack.Instance, open map[string]bool, suffix string) (parts []typePart) {
	names := []string{}
	mixed := func(of int32) bool {
		some := func(is bool) bool {
			return slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return m.Type == of && open[m.Name] == is })
		}
		return some(true) && some(false)
	}
	now := make([]int32, len(inst.Machines))
	for i := range inst.Machines {
		m := &inst.Machines[i]
		k := slices.IndexFunc(parts, func(p typePart) bool { return p.before == m.Type && p.open == open[m.Name] })
		if k < 0 {
			k = len(parts)
			parts = append(parts, typePart{m.Type, int32(k), open[m.Name]})
			name := inst.Types[m.Type]
			if open[m.Name] && mixed(m.Type) {
				for name += "/" + suffix; slices.Contains(inst.Types, name); name += "-2" {
				}
			}
			names = append(names, name)
		}
		now[i] = int32(k)
	}
	for i := range now {
		inst.Machines[i].Type = now[i]
	}
	inst.Types = names
	return parts
}

// takesSpot reports whether a pod names spot nodes by a label or a taint of the clouds: in its selector, its affinity or a
// toleration. A toleration of every taint names none.
func takesSpot(spec *v1.PodSpec) bool {
	for key, value := range spec.NodeSelector {
		if kube.NamesSpot(key, value) {
			return true
		}
	}
	for _, t := range spec.Tolerations {
		if known, _ := kube.SpotKey(t.Key); known && (t.Operator == v1.TolerationOpExists || kube.NamesSpot(t.Key, t.Value)) {
			return true
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return false
	}
	var terms []v1.NodeSelectorTerm
	if r := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		terms = r.NodeSelectorTerms
	}
	for _, preferred := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(slices.Clip(terms), preferred.Preference)
	}
	return slices.ContainsFunc(terms, func(t v1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r v1.NodeSelectorRequirement) bool {
			_, alone := kube.SpotKey(r.Key)
			return alone && r.Operator == v1.NodeSelectorOpExists ||
				r.Operator == v1.NodeSelectorOpIn && slices.ContainsFunc(r.Values, func(value string) bool { return kube.NamesSpot(r.Key, value) })
		})
	})
}
