package engine

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// Check is what a pod is to be checked by on each node; nil when no rule is about
// it. It is of the last Sync.
func (e *Engine) Check(pod *v1.Pod) *kube.Check {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cluster.Check(pod)
}

// With changes a check as if a pod came to a node, or with count -1 left it.
func (e *Engine) With(k *kube.Check, pod *v1.Pod, node string, count int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cluster.With(k, pod, node, count)
}

// Related reports whether a pod that stands can be in the way of one that waits.
func (e *Engine) Related(waits, stands *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cluster.Related(waits, stands)
}

// Spreads reports whether a pod that came may let one of its app follow that has
// to spread.
func (e *Engine) Spreads(waits, came *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cluster.Spreads(waits, came)
}

// findConflicts counts the pods among those found on a node that another scheduler
// put where a rule forbids it.
func (e *Engine) findConflicts(found []*v1.Pod) {
	for _, pod := range found {
		rule, text := e.cluster.Conflict(pod)
		if rule == nil {
			continue
		}
		e.metrics.conflict.WithLabelValues(rule.Name).Inc()
		e.event(pod, v1.EventTypeWarning, "RuleConflict",
			fmt.Sprintf("Not placed by Sigma, and against the placement rule %s: %s", rule.Name, text))
	}
}

// countConflicts tells who wants to know on how many nodes each rule does not hold.
func (e *Engine) countConflicts() {
	counts := e.cluster.Conflicts()
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.conflicts = counts
}

// Conflicts is the number of nodes on which each rule does not hold, as counted
// last; rules that hold everywhere are left out.
func (e *Engine) Conflicts() map[string]int {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	return e.inbox.conflicts
}
