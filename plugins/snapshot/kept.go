package snapshot

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// keepFirst orders the requests of placed.csv: those of which the trace lacks constraints lead, so that they stay in place
// when the others are placed again.
func keepFirst(t *trace.Trace, ignored map[string]any) {
	at := make([]int32, t.Initial) // the new order
	for i := range at {
		at[i] = int32(i)
	}
	slices.SortStableFunc(at, func(a, b int32) int {
		return cmp.Compare(rank(ignored[t.Requests[a].Name] == nil), rank(ignored[t.Requests[b].Name] == nil))
	})
	to := make([]int32, len(t.Requests))
	for i := range to {
		to[i] = int32(i)
	}
	requests := slices.Clone(t.Requests)
	for i, old := range at {
		requests[i], to[old] = t.Requests[old], int32(i)
	}
	t.Requests = requests
	for i := range t.Placed {
		t.Placed[i].Request = to[t.Placed[i].Request]
	}
	slices.SortStableFunc(t.Placed, func(a, b trace.Placed) int { return cmp.Compare(a.Request, b.Request) })
	for i := range t.Events {
		t.Events[i].Request = to[t.Events[i].Request]
	}
}

func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}

// A hostPort is a port of the node that a pod takes.
type hostPort struct {
	protocol v1.Protocol
	ip       string
	port     int32
}

// meets reports whether two ports cannot be on one node, as kube-scheduler's filter NodePorts has it.
func (p hostPort) meets(o hostPort) bool {
	return p.port == o.port && p.protocol == o.protocol && (p.ip == o.ip || p.ip == anyIP || o.ip == anyIP)
}

const anyIP = "0.0.0.0"

// hostPortsOf returns the ports of the node that a pod takes, sorted. known is false if init containers have some: those of
// sidecars alone count.
func hostPortsOf(pod *v1.Pod) (ports []hostPort, known bool) {
	known = true
	read := func(containers []v1.Container, init bool) {
		for i := range containers {
			for _, p := range containers[i].Ports {
				if p.HostPort == 0 && pod.Spec.HostNetwork {
					p.HostPort = p.ContainerPort
				}
				if p.HostPort == 0 {
					continue
				}
				known = known && !init
				ports = append(ports, hostPort{cmp.Or(p.Protocol, v1.ProtocolTCP), cmp.Or(p.HostIP, anyIP), p.HostPort})
			}
		}
	}
	read(pod.Spec.InitContainers, true)
	read(pod.Spec.Containers, false)
	slices.SortFunc(ports, func(a, b hostPort) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.ip, b.ip))
	})
	return slices.Compact(ports), known
}

// hostPorts are the ports that the pods of groups take on their nodes. A group whose pods differ in them, or that shares one with a
// pod that is part of its node, is not among them.
func (p *Picture) hostPorts(appLabel string) map[string][]hostPort {
	of, unknown := map[string][]hostPort{}, map[string]bool{}
	var onNodes []hostPort
	seen := map[string]bool{}
	for _, pod := range p.Pods {
		if podspec.Ended(pod) {
			continue
		}
		ports, known := hostPortsOf(pod)
		if !podspec.Moves(pod) {
			onNodes = append(onNodes, ports...)
			continue
		}
		group := podspec.Group(pod, appLabel)
		unknown[group] = unknown[group] || !known || seen[group] && !slices.Equal(of[group], ports)
		of[group], seen[group] = ports, true
	}
	for group, ports := range of {
		if len(ports) == 0 || unknown[group] || meetAny(ports, onNodes) {
			delete(of, group)
		}
	}
	return of
}

func meetAny(a, b []hostPort) bool {
	return slices.ContainsFunc(a, func(p hostPort) bool { return slices.ContainsFunc(b, p.meets) })
}

// addHostPorts makes rules of the ports of nodes: one pod of a group on a node, and no other that shares a port with it.
func addHostPorts(inst *binpack.Instance, of map[string][]hostPort) {
	for a := range inst.Groups {
		g := &inst.Groups[a]
		if len(of[g.Name]) == 0 {
			continue
		}
		g.Limit = 1
		for b := range inst.Groups {
			rule := binpack.Rule{A: int32(a), B: int32(b)}
			if a != b && meetAny(of[g.Name], of[inst.Groups[b].Name]) && !slices.Contains(inst.Rules, rule) {
				inst.Rules = append(inst.Rules, rule)
			}
		}
	}
}
