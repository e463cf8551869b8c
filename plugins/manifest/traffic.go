package manifest

import (
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// addTraffic adds the traffic of the pods of workloads, as a snapshot does, if the trace has the
// dimension egress: by the extended resource, the annotation, or the traffic of other pods of the
// workload. apps are the names of the workloads' apps; those of the trace keep theirs.
func (m *merger) addTraffic(s *set, apps []string) error {
	d := dimension(m.was, podspec.EgressDimension)
	if d < 0 {
		return nil
	}
	most := int64(0)
	for i := range m.out.Machines {
		most = max(most, m.out.Machines[i].Capacity[d])
	}
	for i, w := range s.workloads {
		at := m.apps[apps[i]]
		if int(at) < len(m.was.Apps) {
			continue
		}
		app := &m.out.Apps[at]
		bits, err := m.egress(s, w, app.Group, d)
		if err != nil {
			return err
		}
		one := m.out.Dimensions[d].One
		app.Demand[d] = min(bits, binpack.MaxValue/one) * one
		if app.Demand[d] > most {
			s.note("%s: a pod of %s sends more than the pods of any node may, and counts as that", w.at, w.name)
			app.Demand[d] = most
		}
		sends, err := podspec.Sends(w.pod)
		if err != nil {
			s.note("%s: the annotation %s of %s: %v: that part is ignored", w.at, podspec.SendsAnnotation, w.name, err)
		}
		for _, to := range sends {
			for other := range m.out.Apps {
				group := m.out.Groups[m.out.Apps[other].Group].Name
				if group == to.Group && (!to.Paired || group != w.name) { // a pod is not paired with one of its own
					m.out.Pairs = append(slices.Clip(m.out.Pairs), binpack.Pair{App: at, Other: int32(other), Bits: float64(to.Bits), Paired: to.Paired})
				}
			}
		}
	}
	return nil
}

// egress returns the traffic of a pod of a workload, in bits a second.
func (m *merger) egress(s *set, w *workload, group int32, d int) (int64, error) {
	if mbps := podspec.Demand(w.pod)[podspec.EgressResource]; mbps > 0 {
		return min(mbps, binpack.MaxValue/podspec.EgressUnit) * podspec.EgressUnit, nil
	}
	if text, ok := w.pod.Annotations[podspec.EgressAnnotation]; ok {
		bits, err := podspec.Egress(text)
		if err != nil {
			err = fmt.Errorf("%s: the annotation %s: %w", w.at, podspec.EgressAnnotation, err)
		}
		return bits, err
	}
	for i := range m.was.Apps {
		if m.was.Apps[i].Group == group {
			return m.out.Apps[i].Demand[d] / m.out.Dimensions[d].One, nil
		}
	}
	s.note("%s: nothing is known of what %s sends, and it counts as 0: give its pods the annotation %s", w.at, w.name, podspec.EgressAnnotation)
	return 0, nil
}

// dimension returns the index of one by its name; -1 if there is none.
func dimension(in *binpack.Instance, name string) int {
	return slices.IndexFunc(in.Dimensions, func(d binpack.Dimension) bool { return d.Name == name })
}
