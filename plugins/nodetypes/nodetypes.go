package nodetypes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/pricelist"
)

// mostTimes bounds the cores of other instance types, in those of the largest node: on fewer nodes each failure is larger.
const mostTimes = 2

// A modelNode represents nodes that differ only in their instance type and name.
type modelNode struct {
	node       *v1.Node
	line       *binpack.MachineLine
	arch       string
	on         []*v1.Node
	refuses    []string // apps that may use it, and no node of another type
	has, parts map[string]int64
}

// A newType is an instance type with the estimate of its allocatable.
type newType struct {
	pricelist.Type
	cost    float64
	capable map[string]int64
}

// None is the key of the reason for which there are no other instance types.
const None = "no_types"

// Add adds the instance types of the price list to the facts: types with cost and the estimate of their allocatable, and
// pools, the nodes of the trace beside which one of them may be. Spot nodes and those with devices are no pools: a list has
// neither types with devices nor the present price of spot nodes.
// selectors are those of the trace's apps, nodes those of the cluster that take pods, and standing has the pods by node.
func Add(facts map[string]any, t *trace.Trace, prices *kube.Prices, selectors map[string]*podspec.Selector, nodes []*v1.Node, standing map[string][]*v1.Pod) {
	pools, why := modelNodes(t, nodes)
	if len(pools) == 0 {
		facts[None] = why
		return
	}
	types, why := newTypes(prices, pools)
	if len(types) == 0 {
		facts[None] = why
		return
	}
	kept := map[string]*modelNode{}
	for _, m := range pools {
		key := m.refuse(t.Instance, types, selectors) + m.arch + "\x00" + m.line.Zone
		if of := kept[key]; of == nil || len(m.refuses) < len(of.refuses) {
			if kept[key] = m; of != nil {
				m.on = append(m.on, of.on...)
			}
		} else {
			of.on = append(of.on, m.on...)
		}
	}
	amounts := func(of map[string]int64) map[string]any {
		list := map[string]any{}
		for _, dim := range t.Instance.Dimensions {
			if n := of[dim.Name]; n > 0 {
				list[dim.Name] = float64(n) / float64(dim.One)
			}
		}
		return list
	}
	list, beside, arch := map[string]any{}, map[string]any{}, map[string]bool{}
	for _, m := range kept {
		m.measure(standing)
		of := map[string]any{"arch": m.arch, "has": amounts(m.has), "less": amounts(m.parts)}
		if len(m.refuses) > 0 {
			refuses := map[string]any{}
			for _, app := range m.refuses {
				refuses[app] = true
			}
			of["refuses"] = refuses
		}
		beside[m.node.Name], arch[m.arch] = of, true
	}
	for _, of := range types {
		if arch[of.Arch] {
			list[of.Name] = map[string]any{"arch": of.Arch, "cost": of.cost, "has": amounts(of.capable)}
		}
	}
	facts["types"], facts["pools"] = list, beside
}

// unlisted is the reason for which a node gets no other type; "" = there is none.
func unlisted(n *v1.Node) string {
	switch {
	case kube.CapacityType(n) == kube.Spot:
		return "nodes are on spot"
	case !kube.OfLinux(n):
		return "nodes are not of Linux"
	case archOf(n) == "":
		return "no label of architecture"
	case devices(n):
		return "nodes have devices"
	}
	return ""
}

func archOf(n *v1.Node) string {
	return cmp.Or(n.Labels[v1.LabelArchStable], n.Status.NodeInfo.Architecture)
}

// modelNodes are the nodes of the cluster's cloud and region, one of each type and zone of the trace. why is the most frequent
// reason of the others.
func modelNodes(t *trace.Trace, nodes []*v1.Node) (pools []*modelNode, why string) {
	lines := map[string]*binpack.MachineLine{}
	for i := range t.Instance.Machines {
		lines[t.Instance.Machines[i].Name] = &t.Instance.Machines[i]
	}
	count, most, others := map[string]int{}, "", map[string]int{}
	var all []*modelNode
	why = "no nodes take pods"
	at := map[string]*modelNode{}
	for _, n := range nodes {
		if lines[n.Name] == nil {
			continue
		}
		if of := unlisted(n); of != "" {
			if others[of]++; others[of] > others[why] {
				why = of
			}
			continue
		}
		arch := archOf(n)
		site := siteOf(n)
		if count[site]++; count[site] > count[most] {
			most = site
		}
		key := fmt.Sprint(site, "\x00", arch, "\x00", lines[n.Name].Zone, "\x00", lines[n.Name].Type)
		if at[key] == nil {
			at[key] = &modelNode{node: n, line: lines[n.Name], arch: arch}
			all = append(all, at[key])
		}
		at[key].on = append(at[key].on, n)
	}
	return slices.DeleteFunc(all, func(m *modelNode) bool { return siteOf(m.node) != most }), why
}

// siteOf is the cloud and the region of a node.
func siteOf(n *v1.Node) string {
	return pricelist.ProviderOf(n.Spec.ProviderID, kube.InstanceType(n)) + " " + kube.Region(n)
}

// devices reports whether a node has resources other than those that a list of types has.
func devices(n *v1.Node) bool {
	for name := range podspec.Amounts(n.Status.Allocatable) {
		if strings.Contains(name, "/") {
			return true
		}
	}
	return false
}

// refuse finds the apps that may use the node, and not one of every other type in its place. It returns a key of the other apps.
func (m *modelNode) refuse(inst *binpack.Instance, types []newType, selectors map[string]*podspec.Selector) (key string) {
	var as []*v1.Node
	for i := range types {
		if types[i].Arch == m.arch {
			as = append(as, asType(m.node, &types[i].Type))
		}
	}
	admits, apps := map[string]bool{}, make([]byte, len(inst.Apps))
	for i := range inst.Apps {
		a := &inst.Apps[i]
		if a.Types != nil && !slices.Contains(a.Types, m.line.Type) {
			continue
		}
		s := selectors[a.Name]
		ok := false
		if s != nil {
			var looked bool
			if ok, looked = admits[s.ID]; !looked {
				ok = !slices.ContainsFunc(as, func(n *v1.Node) bool { return !s.Admits(n) })
				admits[s.ID] = ok
			}
		}
		if ok {
			apps[i] = 1
		} else {
			m.refuses = append(m.refuses, a.Name)
		}
	}
	return string(apps)
}

// measure sets the resources of a node that do not depend on its type, and the largest demand of pods that are part of it.
func (m *modelNode) measure(standing map[string][]*v1.Pod) {
	m.has, m.parts = map[string]int64{}, map[string]int64{}
	for i, n := range m.on {
		has, parts := podspec.Amounts(n.Status.Allocatable), map[string]int64{}
		for _, pod := range standing[n.Name] {
			if !podspec.Moves(pod) && !podspec.Ended(pod) {
				for name, of := range podspec.Demand(pod) {
					parts[name] += of
				}
			}
		}
		for name, of := range parts {
			m.parts[name] = max(m.parts[name], of)
		}
		if i == 0 {
			maps.Copy(m.has, has)
		}
		for name := range m.has {
			m.has[name] = min(m.has[name], has[name])
		}
	}
	for name := range m.has {
		if bySize(name) || strings.HasPrefix(name, "hugepages-") {
			delete(m.has, name)
		}
	}
}

// bySize reports whether the amount of a resource follows from the instance type.
func bySize(name string) bool { return name == "cpu" || name == "memory" || name == podspec.Pods }

// ofTheType reports whether a label of a node depends on its instance type.
func ofTheType(key string) bool {
	return strings.Contains(key, "instance-") || strings.Contains(key, "/sku-") || strings.Contains(key, "machine-")
}

// asType is a node as one of another type in its place: no label of the old one stays.
func asType(n *v1.Node, t *pricelist.Type) *v1.Node {
	as := &v1.Node{Spec: v1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints}}
	as.Name, as.Labels = "new-"+t.Name, map[string]string{}
	for key, value := range n.Labels {
		if !ofTheType(key) {
			as.Labels[key] = value
		}
	}
	as.Labels[v1.LabelHostname], as.Labels[v1.LabelInstanceTypeStable], as.Labels[v1.LabelInstanceType] = as.Name, t.Name, t.Name
	return as
}

// newTypes are the types of the list for the site of the nodes, with a price, and without those that another is not
// dearer than and not smaller in anything.
func newTypes(prices *kube.Prices, pools []*modelNode) (list []newType, why string) {
	site := pools[0].node
	provider := pricelist.ProviderOf(site.Spec.ProviderID, kube.InstanceType(site))
	switch known := pricelist.Types(provider, kube.Region(site)); {
	case len(known) == 0:
		return nil, "not of AWS, Azure or Google"
	case prices == nil:
		return nil, "no prices"
	case prices.Currency != "USD":
		return nil, "the list is in USD"
	}
	var nodes []*v1.Node
	for _, m := range pools {
		nodes = append(nodes, m.on...)
	}
	keeps := newOverhead(nodes)
	if len(keeps.cpu) == 0 {
		return nil, "no node reports its size"
	}
	for _, of := range pricelist.Types(provider, kube.Region(site)) {
		cost, ok := prices.OfType(asType(site, &of))
		if !ok || of.Cores*1000 > mostTimes*keeps.largest() {
			continue
		}
		list = append(list, newType{of, cost, keeps.allocatable(&of)})
	}
	slices.SortStableFunc(list, func(a, b newType) int { return cmp.Compare(a.cost, b.cost) })
	var kept []newType
	for _, of := range list {
		worse := func(than newType) bool {
			return than.Arch == of.Arch && than.capable["cpu"] >= of.capable["cpu"] && than.capable["memory"] >= of.capable["memory"] && than.capable[podspec.Pods] >= of.capable[podspec.Pods]
		}
		if !slices.ContainsFunc(kept, worse) {
			kept = append(kept, of)
		}
	}
	return kept, "the price file has none"
}

// An overhead is the part of a node's size that its system keeps, by size, as the nodes of a cluster have it: the most of
// any node of a size, in between linearly, below the smallest as that, and above the largest in proportion.
type overhead struct {
	cpu, memory map[int64]int64 // by size
	pods        map[int64]int64 // that nodes take, the fewest of any node with these millicores
}

func newOverhead(nodes []*v1.Node) *overhead {
	o := &overhead{map[int64]int64{}, map[int64]int64{}, map[int64]int64{}}
	for _, n := range nodes {
		has, size := podspec.Amounts(n.Status.Allocatable), podspec.Amounts(n.Status.Capacity)
		if has["cpu"] == 0 { // its kubelet has not reported yet
			continue
		}
		cpu, memory := max(size["cpu"], has["cpu"]), max(size["memory"], has["memory"])
		if of, ok := pricelist.Size(pricelist.ProviderOf(n.Spec.ProviderID, kube.InstanceType(n)), kube.InstanceType(n)); ok { // the kernel takes a part before the node reports it
			cpu, memory = max(cpu, of.Cores*1000), max(memory, int64(of.GiB*(1<<30)))
		}
		o.cpu[cpu] = max(o.cpu[cpu], cpu-has["cpu"])
		o.memory[memory] = max(o.memory[memory], memory-has["memory"])
		if pods, ok := o.pods[cpu]; !ok || has[podspec.Pods] < pods {
			o.pods[cpu] = has[podspec.Pods]
		}
	}
	return o
}

// largest is the largest size of a node, in millicores.
func (o *overhead) largest() int64 { return slices.Max(slices.Collect(maps.Keys(o.cpu))) }

// allocatable estimates the resources of a type for pods.
func (o *overhead) allocatable(t *pricelist.Type) map[string]int64 {
	cpu, memory := t.Cores*1000, int64(t.GiB*(1<<30))
	sizes := slices.Sorted(maps.Keys(o.pods))
	pods := o.pods[sizes[0]] * min(cpu, sizes[0]) / sizes[0]
	for _, size := range sizes {
		if size <= cpu {
			pods = o.pods[size]
		}
	}
	return map[string]int64{"cpu": max(0, cpu-between(o.cpu, cpu)), "memory": max(0, memory-between(o.memory, memory)), podspec.Pods: pods}
}

// between interpolates amounts by size.
func between(of map[int64]int64, at int64) int64 {
	sizes := slices.Sorted(maps.Keys(of))
	i, found := slices.BinarySearch(sizes, at)
	last := sizes[len(sizes)-1]
	switch {
	case found || i == 0:
		return of[sizes[i]]
	case i == len(sizes):
		return int64(float64(of[last]) / float64(last) * float64(at))
	}
	a, b := sizes[i-1], sizes[i]
	return of[a] + int64(float64(of[b]-of[a])*float64(at-a)/float64(b-a))
}
