package kube

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// machineOf returns a node as a policy sees it, without selectors. fixed is the demand of immovable pods.
func machineOf(n *v1.Node, cost float64, fixed map[string]int64) *ledger.Machine {
	m := &ledger.Machine{Capacity: capacity(n, fixed), Cost: cost, Cordoned: n.Spec.Unschedulable}
	for _, key := range ledger.NamingLabels {
		if value, ok := n.Labels[key]; ok {
			if m.Labels == nil {
				m.Labels = map[string]string{}
			}
			m.Labels[key] = value
		}
	}
	return m
}

// capacity returns the allocatable amounts of a node, minus fixed.
func capacity(n *v1.Node, fixed map[string]int64) map[string]int64 {
	c := podspec.Amounts(n.Status.Allocatable)
	for dim, used := range fixed {
		if c[dim] -= used; c[dim] <= 0 {
			delete(c, dim)
		}
	}
	return c
}

// hasCapacity reports whether a node has the capacity c.
func hasCapacity(n *v1.Node, fixed, c map[string]int64) bool {
	count := 0
	for name, quantity := range n.Status.Allocatable {
		if amount := podspec.Amount(string(name), &quantity) - fixed[string(name)]; amount > 0 {
			if c[string(name)] != amount {
				return false
			}
			count++
		}
	}
	return count == len(c)
}

func equalMachines(a, b *ledger.Machine) bool {
	return a.Cost == b.Cost && a.Cordoned == b.Cordoned && slices.Equal(a.Refuses, b.Refuses) && slices.Equal(a.Admits, b.Admits) &&
		maps.Equal(a.Capacity, b.Capacity) && maps.Equal(a.Labels, b.Labels)
}

// split returns a node's movable pods, and the demand of the immovable ones; nil = zero. Pods that ended are in neither.
func split(pods []*v1.Pod) (movable []*v1.Pod, fixed map[string]int64) {
	movable = make([]*v1.Pod, 0, len(pods))
	for _, p := range pods {
		switch {
		case podspec.Ended(p):
		case podspec.Moves(p):
			movable = append(movable, p)
		default:
			if fixed == nil {
				fixed = map[string]int64{}
			}
			for dim, n := range podspec.Demand(p) {
				fixed[dim] += n
			}
		}
	}
	return movable, fixed
}
