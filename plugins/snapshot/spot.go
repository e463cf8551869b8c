package snapshot

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// keepOnDemand lets only those apps use the spot nodes without a taint of which a pod runs on spot, tolerates it or selects
// it: the others may lose their node at any time. It returns a note on them; "" = there are none.
func (p *Picture) keepOnDemand(inst *binpack.Instance, appLabel string) (note string) {
	spot, open := map[string]bool{}, map[string]bool{} // nodes; those that no taint keeps pods off
	for _, n := range p.Nodes {
		if spot[n.Name] = kube.CapacityType(n) == kube.Spot; spot[n.Name] {
			open[n.Name] = podspec.Untolerated(n, nil) == nil
		}
	}
	willing := map[string]bool{} // groups
	for _, pod := range p.Pods {
		if spot[pod.Spec.NodeName] || takesSpot(&pod.Spec) {
			willing[podspec.Group(pod, appLabel)] = true
		}
	}
	if !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return open[m.Name] }) {
		return ""
	}
	parts := splitTypes(inst, open)
	stay := 0
	for a := range inst.Apps {
		app := &inst.Apps[a]
		may := willing[inst.Groups[app.Group].Name]
		var types, demand []int32
		for _, of := range parts {
			if app.Types == nil || slices.Contains(app.Types, of.before) {
				if types = append(types, of.now); !of.open {
					demand = append(demand, of.now)
				}
			}
		}
		switch {
		case !may && len(demand) > 0 && len(demand) < len(types):
			app.Types, stay = demand, stay+1
		case app.Types != nil:
			app.Types = types
		}
	}
	if stay == 0 {
		return ""
	}
	return fmt.Sprintf("%d apps stay off spot nodes without a taint: none of their pods runs on one, tolerates or selects spot", stay)
}

// A typePart is a part of a type: its machines that are open, or the others.
type typePart struct {
	before, now int32
	open        bool
}

// splitTypes splits the types of machines of which some are open, numbered by their first machine as a reader does.
func splitTypes(inst *binpack.Instance, open map[string]bool) (parts []typePart) {
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
				for name += "/spot"; slices.Contains(inst.Types, name); name += "-2" {
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

// takesSpot reports whether a pod names spot nodes: in its selector, its affinity or a toleration.
func takesSpot(spec *v1.PodSpec) bool {
	named := func(text string) bool {
		text = strings.ToLower(text)
		return strings.Contains(text, "spot") || strings.Contains(text, "preemptible")
	}
	for key, value := range spec.NodeSelector {
		if named(key) || named(value) {
			return true
		}
	}
	for _, t := range spec.Tolerations {
		if t.Key == "" && t.Operator == v1.TolerationOpExists || named(t.Key) || named(t.Value) {
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
			return r.Operator != v1.NodeSelectorOpNotIn && r.Operator != v1.NodeSelectorOpDoesNotExist && (named(r.Key) || slices.ContainsFunc(r.Values, named))
		})
	})
}
