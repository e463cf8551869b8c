package snapshot

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// keepSystems lets apps use the nodes of their operating system alone: that of spec.os.name, else of the node that a pod
// runs on. kube-scheduler does not filter by it, but a kubelet of another system refuses the pod.
func (p *Picture) keepSystems(inst *binpack.Instance, appLabel string) {
	windows := map[string]bool{} // nodes
	for _, n := range p.Nodes {
		windows[n.Name] = n.Labels[v1.LabelOSStable] == string(v1.Windows) || n.Status.NodeInfo.OperatingSystem == string(v1.Windows)
	}
	if !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return windows[m.Name] }) {
		return
	}
	of := map[string]bool{} // groups with a pod of Windows
	for _, pod := range p.Pods {
		system := pod.Spec.NodeSelector[v1.LabelOSStable]
		if pod.Spec.OS != nil {
			system = string(pod.Spec.OS.Name)
		}
		if system == string(v1.Windows) || system == "" && windows[pod.Spec.NodeName] {
			of[podspec.Group(pod, appLabel)] = true
		}
	}
	restrict(inst, windows, string(v1.Windows), func(app *binpack.App, types, others []int32) []int32 {
		own := others
		if of[inst.Groups[app.Group].Name] {
			own = slices.DeleteFunc(slices.Clone(types), func(t int32) bool { return slices.Contains(others, t) })
		}
		if len(own) == 0 {
			return types // its selector admits nodes of the other system alone
		}
		return own
	})
}
