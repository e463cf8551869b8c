package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

const (
	// reliefMargin is the largest use ÷ capacity of a node that takes a pod.
	reliefMargin = .95
	// reliefPause is the time within which a node gives and takes one pod at most: its use shows a move after as long.
	reliefPause = 10 * time.Minute
	// measuredAfter is the time after which a running container has samples in both windows.
	measuredAfter = 15 * time.Minute
	// useTimeout bounds the wait for all answers of Prometheus.
	useTimeout = 10 * time.Second
)

// readUse reads the use of all containers from the server at an address.
func readUse(ctx context.Context, address string, now time.Time) ([2]prometheus.Latest, error) {
	if address == "" {
		return [2]prometheus.Latest{}, errNoPrometheus
	}
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	return prometheus.ReadLatest(ctx, address, now)
}

// measure sets the amounts of all nodes and pods to their use, and the capacity of nodes to a share of theirs. Those of the earlier window are a condition for a node
// to be overfull. A node with a pod whose use is not known is no part of the plan.
func (l *leaves) measure(windows [2]prometheus.Latest, share float64) {
	l.margin, l.earlier, l.once = reliefMargin, map[string]amounts{}, true
nodes:
	for name, n := range l.nodes {
		most := podspec.Amounts(n.Status.Allocatable)
		all := amounts{"cpu": float64(most["cpu"]), "memory": float64(most["memory"])}
		l.capacity[name] = amounts{}
		l.capacity[name].add(all, share)
		l.used[name], l.earlier[name] = amounts{}, amounts{}
		for _, p := range l.on[name] {
			for i, sum := range []amounts{l.earlier[name], l.used[name]} {
				u, lacks := useOf(p, windows[i], all, l.now)
				if lacks != "" {
					l.note("the use of node %s is not known: %s", name, lacks)
					delete(l.nodes, name)
					continue nodes
				}
				sum.add(u, 1)
				l.sizes[p.UID] = u // that of the later window stays
			}
		}
	}
}

// useOf is the use of a pod. Containers that do not run yet, or not for long, have no samples: their pod counts with its
// requests if those are larger. lacks is the reason why its use is not known.
func useOf(p *v1.Pod, window prometheus.Latest, node amounts, now time.Time) (u amounts, lacks string) {
	samples := window[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}]
	states := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	sum, whole := usage.Amounts{}, true
	for _, k := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		i := slices.IndexFunc(states, func(s v1.ContainerStatus) bool { return s.Name == k.Name })
		state := v1.ContainerState{}
		if i >= 0 {
			state = states[i].State
		}
		at, ok := samples[k.Name]
		sum.CPU, sum.Memory = sum.CPU+at.CPU, sum.Memory+at.Memory
		if !ok && state.Running != nil && now.Sub(state.Running.StartedAt.Time) >= measuredAfter {
			return nil, fmt.Sprintf("container %s of %s has no sample", k.Name, nameOf(p))
		}
		whole = whole && (ok || state.Terminated != nil)
	}
	if !prometheus.Plausible(sum, usage.Amounts{CPU: node["cpu"] / 1000, Memory: node["memory"]}) {
		return nil, fmt.Sprintf("%s cannot have used %.3g cores and %.3g bytes there", nameOf(p), sum.CPU, sum.Memory)
	}
	u = amounts{"cpu": 1000 * sum.CPU, "memory": sum.Memory}
	if !whole {
		for d, n := range podspec.Desired(p) {
			if _, measured := u[d]; measured {
				u[d] = max(u[d], float64(n))
			}
		}
	}
	return u, ""
}
