package snapshot

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// keepSystems lets apps with spec.os.name use the nodes of that operating system alone. kube-scheduler does not filter by
// it, but a kubelet of another system refuses the pod.
func (p *Picture) keepSystems(inst *binpack.Instance, appLabel string) {
	windows := map[string]bool{} // nodes
	for _, n := range p.Nodes {
		windows[n.Name] = onWindows(n)
	}
	if !slices.ContainsFunc(inst.Machines, func(m binpack.MachineLine) bool { return windows[m.Name] }) {
		return
	}
	of := map[string]v1.OSName{} // groups
	for _, pod := range p.Pods {
		if pod.Spec.OS != nil {
			of[podspec.Group(pod, appLabel)] = pod.Spec.OS.Name
		}
	}
	restrict(inst, windows, string(v1.Windows), func(app *binpack.App, types, others []int32) []int32 {
		own := types
		switch of[inst.Groups[app.Group].Name] {
		case v1.Windows:
			own = slices.DeleteFunc(slices.Clone(types), func(t int32) bool { return slices.Contains(others, t) })
		case v1.Linux:
			own = others
		}
		if len(own) == 0 {
			return types // its selector admits nodes of the other system alone
		}
		return own
	})
}

func onWindows(n *v1.Node) bool {
	return n.Labels[v1.LabelOSStable] == string(v1.Windows) || n.Status.NodeInfo.OperatingSystem == string(v1.Windows)
}

// ofWindows reports whether a pod is for Windows by its name of the system or its selector.
func ofWindows(pod *v1.Pod) bool {
	return pod.Spec.OS != nil && pod.Spec.OS.Name == v1.Windows || pod.Spec.NodeSelector[v1.LabelOSStable] == string(v1.Windows)
}
