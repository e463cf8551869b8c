package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/nodetypes"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// controlPlane are the labels of nodes that run the cluster itself.
var controlPlane = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// facts are those of the cluster that its bill needs and the trace lacks: the nodes that take no pods or that nobody
// removes, the requests of all pods, and the reasons of those that wait. They are the key cluster of the trace's source.
// selectors are those of the trace's apps.
func (p *Picture) facts(t *trace.Trace, prices *kube.Prices, selectors map[string]*podspec.Selector) map[string]any {
	pods, nodes := p.Pods, p.Nodes
	if p.AllPods != nil {
		pods, nodes = p.AllPods, p.AllNodes
	}
	machines := map[string]bool{}
	for i := range t.Instance.Machines {
		machines[t.Instance.Machines[i].Name] = true
	}
	real := map[string]bool{} // nodes that are not virtual
	special, sources, spot := map[string]any{}, map[string]any{}, map[string]any{}
	have, asked := totals{}, totals{}
	there, occupied := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		there[n.Name] = true
	}
	for _, pod := range pods {
		if podspec.Moves(pod) && !podspec.Ended(pod) && !ending(pod) {
			occupied[pod.Spec.NodeName] = true
		}
	}
	waiting, lost, missing := map[string]any{}, map[string]any{}, map[string]any{}
	for _, m := range p.Missing {
		missing[m.Kind] = m.Means
	}
	room := newFreeRoom(nodes, pods, p.unoffered())
	for _, pod := range pods {
		switch {
		case podspec.Ended(pod):
		case waits(pod) && pod.Spec.SchedulerName != fargate:
			waiting[nameOf(pod)] = room.why(pod)
		case unplaced(pod) && len(pod.Spec.SchedulingGates) > 0:
			waiting[nameOf(pod)] = "scheduling gates: no node is looked for yet"
		}
	}
	ignored, _ := t.Source["ignored"].(map[string]any)
	awaited, now := room.awaited(pods, ignored, func(n *v1.Node) bool { return machines[n.Name] && !occupied[n.Name] }), newest(nodes)
	last := p.last(nodes, prices, func(n *v1.Node) bool {
		_, stays := apart(n)
		return occupied[n.Name] || awaited[n.Name] || starting(n, now) != "" || stays && podspec.Unwell(n) == nil
	})
	apartOf := map[string]string{} // nodes that are no machines
	lists := map[string]any{}
	for _, n := range nodes {
		cost, by := prices.Of(n)
		if origin := prices.Origin(n); origin != "" && !virtual(n) {
			lists[origin] = true
		}
		if !virtual(n) {
			count, _ := sources[string(by)].(int)
			sources[string(by)] = count + 1
		}
		if real[n.Name] = !virtual(n); real[n.Name] {
			have.add(podspec.Amounts(n.Status.Allocatable))
		}
		if kube.CapacityType(n) == kube.Spot && machines[n.Name] {
			spot[n.Name] = true
		}
		why, stays := apart(n)
		switch {
		case noMachine(n):
			apartOf[n.Name] = why
		case occupied[n.Name] || stays && podspec.Unwell(n) == nil:
		case starting(n, now) != "":
			why, stays = starting(n, now), true
		case awaited[n.Name]:
			why, stays = "pods that wait fit on it", true
		case n.Name == last:
			why, stays = "the last node for pods", true
		case why == unwellText(n):
			stays = false // it can be removed
		}
		if why == "" && machines[n.Name] {
			continue
		}
		of := map[string]any{"why": why}
		if stays {
			of["stays"] = true
		}
		if takes(n) <= takesSome {
			of["takes"] = true
		}
		switch {
		case virtual(n):
			of["why"], of["cost"] = "virtual: the cost of its pods is not known", 0.
		case !machines[n.Name]:
			of["cost"] = cost
		}
		special[n.Name] = of
	}
	for _, pod := range pods {
		switch {
		case podspec.Ended(pod):
		case apartOf[pod.Spec.NodeName] != "" && podspec.Moves(pod):
			lost[nameOf(pod)] = "on a node that pods do not share: " + apartOf[pod.Spec.NodeName]
		case unplaced(pod) && pod.Spec.SchedulerName == fargate:
			lost[nameOf(pod)] = "waits for a node of AWS Fargate"
		case ending(pod) && podspec.Moves(pod):
			lost[nameOf(pod)] = "they are being deleted"
		case pod.Spec.NodeName != "" && !there[pod.Spec.NodeName]:
			lost[nameOf(pod)] = "their node is not in the cluster"
		}
		if real[pod.Spec.NodeName] && !podspec.Ended(pod) {
			asked.add(podspec.Demand(pod))
		}
	}
	facts := map[string]any{"allocatable": have.plain(), "requested": asked.plain(), "prices": sources}
	if p.Use != nil {
		used, by := p.used(t, pods, real)
		facts["used"], facts["use"] = used, by
		facts["room"] = p.room(t, nodes, pods)
		unmeasured := 0
		for _, pod := range pods {
			if _, ok := p.Use[nameOf(pod)]; !ok && real[pod.Spec.NodeName] && !podspec.Ended(pod) {
				unmeasured++
			}
		}
		if unmeasured > 0 {
			facts["unmeasured"] = unmeasured
		}
	}
	if len(spot) > 0 {
		facts["spot"] = spot
	}
	open := slices.DeleteFunc(slices.Clone(p.Nodes), func(n *v1.Node) bool { why, _ := apart(n); return why != "" })
	nodetypes.Add(facts, t, prices, selectors, open, p.standing())
	if len(special) > 0 {
		facts["nodes"] = special
	}
	for key, of := range map[string]map[string]any{"waiting": waiting, "lost": lost, "price_lists": lists, "missing": missing} {
		if len(of) > 0 {
			facts[key] = of
		}
	}
	return facts
}

// used returns the present use of all pods on nodes that are real, and that of the trace's items by app, in cores and bytes.
func (p *Picture) used(t *trace.Trace, pods []*v1.Pod, real map[string]bool) (all, byApp map[string]any) {
	var sum totals
	for _, pod := range pods {
		if u, ok := p.Use[nameOf(pod)]; ok && real[pod.Spec.NodeName] {
			sum.cpu, sum.memory = sum.cpu+float64(u.MilliCPU), sum.memory+float64(u.MemoryBytes)
		}
	}
	apps, count := map[string]*totals{}, map[string]int{}
	for _, q := range t.Requests[:t.Initial] {
		u, ok := p.Use[q.Name]
		if !ok {
			continue
		}
		name := t.Instance.Apps[q.App].Name
		if apps[name] == nil {
			apps[name] = &totals{}
		}
		count[name]++
		apps[name].cpu, apps[name].memory = apps[name].cpu+float64(u.MilliCPU), apps[name].memory+float64(u.MemoryBytes)
	}
	byApp = map[string]any{}
	for name, of := range apps {
		byApp[name] = map[string]any{"cpu": of.cpu / 1000, "memory": of.memory, "pods": count[name]}
	}
	return sum.plain(), byApp
}

// room is the part of the machines' cpu and memory that is left for the use of a trace's items: the other pods use the rest, or
// request it where nothing measured them.
func (p *Picture) room(t *trace.Trace, nodes []*v1.Node, pods []*v1.Pod) map[string]any {
	items, left := map[string]bool{}, map[string]*totals{}
	for _, q := range t.Requests[:t.Initial] {
		items[q.Name] = true
	}
	for _, n := range nodes {
		left[n.Name] = &totals{}
		left[n.Name].add(podspec.Amounts(n.Status.Allocatable))
	}
	for _, pod := range pods {
		of, name := left[pod.Spec.NodeName], nameOf(pod)
		if of == nil || items[name] || podspec.Ended(pod) || ending(pod) {
			continue
		}
		u, ok := p.Use[name]
		if !ok {
			demand := podspec.Demand(pod)
			u = Use{demand["cpu"], demand["memory"]}
		}
		of.cpu, of.memory = of.cpu-float64(u.MilliCPU), of.memory-float64(u.MemoryBytes)
	}
	room := map[string]any{}
	for i := range t.Instance.Machines {
		if of := left[t.Instance.Machines[i].Name]; of != nil {
			of.cpu, of.memory = max(0, of.cpu), max(0, of.memory)
			room[t.Instance.Machines[i].Name] = of.plain()
		}
	}
	return room
}

// apart returns why a node takes no pods, or none of the cluster's users, and whether it stays at every step of a bill.
func apart(n *v1.Node) (why string, stays bool) {
	switch {
	case noMachine(n):
		return "AWS Fargate or virtual", true
	case firstOf(n, controlPlane):
		return "control plane", true
	case podspec.StaysNode(n) != "":
		return "annotation " + podspec.StaysNode(n), true
	case podspec.Unwell(n) != nil:
		return unwellText(n), true
	case n.Spec.Unschedulable:
		return "cordoned", false
	}
	return "", false
}

// unwellText is the reason of a node that its condition closes; "" = none does.
func unwellText(n *v1.Node) string {
	if taint := podspec.Unwell(n); taint != nil {
		return "not well: " + taint.Key
	}
	return ""
}

func firstOf(n *v1.Node, labels []string) bool {
	for _, key := range labels {
		if _, ok := n.Labels[key]; ok {
			return true
		}
	}
	return false
}

// bare is the trace of a cluster without machines that pods share.
func (p *Picture) bare(name string, prices *kube.Prices) *trace.Trace {
	t := &trace.Trace{Name: name, MeasureFrom: math.NaN(), Instance: &binpack.Instance{
		Fleet: binpack.Open, Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}},
	}}
	t.Source = map[string]any{"origin": "Kubernetes cluster", "cluster": p.facts(t, prices, nil)}
	if prices != nil {
		t.Source["currency"] = prices.Currency
	}
	return t
}

// totals are sums of cpu in m and memory in bytes.
type totals struct{ cpu, memory float64 }

func (a *totals) add(more map[string]int64) {
	a.cpu += float64(more["cpu"])
	a.memory += float64(more["memory"])
}

// plain has cores and bytes.
func (a *totals) plain() map[string]any {
	return map[string]any{"cpu": a.cpu / 1000, "memory": a.memory}
}

// A freeRoom is the room that pods leave on nodes.
type freeRoom struct {
	served []string // resources that drivers serve on any node
	nodes  []*v1.Node
	has    []map[string]int64 // by node
	free   []map[string]int64
}

func newFreeRoom(nodes []*v1.Node, pods []*v1.Pod, served []string) *freeRoom {
	r := &freeRoom{served: served}
	at := map[string]int{}
	for _, n := range nodes {
		if noMachine(n) || podspec.Unwell(n) != nil || n.Spec.Unschedulable {
			continue
		}
		at[n.Name] = len(r.nodes)
		r.nodes = append(r.nodes, n)
		r.has, r.free = append(r.has, podspec.Amounts(n.Status.Allocatable)), append(r.free, podspec.Amounts(n.Status.Allocatable))
	}
	for _, pod := range pods {
		if i, ok := at[pod.Spec.NodeName]; ok && !podspec.Ended(pod) {
			for name, n := range podspec.Demand(pod) {
				r.free[i][name] -= n
			}
		}
	}
	return r
}

// why returns the reason why a pod waits, by the nodes alone.
func (r *freeRoom) why(pod *v1.Pod) string {
	selector, demand := podspec.NewSelector(pod), podspec.Demand(pod)
	for _, name := range r.served {
		delete(demand, name)
	}
	admitted, large, most, nearest := 0, 0, map[string]int{}, ""
	for i, n := range r.nodes {
		if !selector.Admits(n) {
			continue
		}
		admitted++
		if lack(demand, r.has[i]) != "" {
			large++
		}
		if name := lack(demand, r.free[i]); name != "" {
			if most[name]++; most[name] > most[nearest] || most[name] == most[nearest] && name < nearest {
				nearest = name
			}
		} else {
			most[""]++
		}
	}
	switch {
	case len(r.nodes) == 0:
		return "no node is ready"
	case admitted == 0:
		return "no node matches (selector, taints)"
	case large == admitted:
		for _, name := range slices.Sorted(maps.Keys(demand)) {
			if !r.offers(name) {
				return "no node has " + name
			}
		}
		return "larger than any node it may use"
	case most[""] > 0:
		return "limits beside other pods"
	}
	return fmt.Sprintf("too little %s is free", nearest)
}

// offers reports whether a node has some of a resource.
func (r *freeRoom) offers(name string) bool {
	for _, has := range r.has {
		if has[name] > 0 {
			return true
		}
	}
	return false
}

// lack is the first resource by name of which there is too little; "" = there is enough.
func lack(demand, free map[string]int64) (first string) {
	for name, n := range demand {
		if n > free[name] && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
