package engine

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// reported is a pod against a rule that was seen before a Sync had it.
type reported struct {
	rule string
	at   time.Time
}

// Check is what a pod is to be checked by on each node; nil when no rule is about
// it. It is of the last Sync. Rules are about pods that move only.
func (e *Engine) Check(pod *v1.Pod) *kube.Check {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Check(pod)
}

// With changes a check as if a pod came to a node, or with count -1 left it.
func (e *Engine) With(k *kube.Check, pod *v1.Pod, node string, count int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.cluster.With(k, pod, node, count)
}

// Related reports whether a pod that stands can be in the way of one that waits.
func (e *Engine) Related(waits, stands *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Related(waits, stands)
}

// Spreads reports whether a pod that came may let one of its app follow that has
// to spread.
func (e *Engine) Spreads(waits, came *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Spreads(waits, came)
}

// Bound looks at a pod that has got a node. One that another scheduler put there
// against a rule is counted at once; no decision of ours need be due.
func (e *Engine) Bound(pod *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.cluster.Stands(pod) || e.reported[pod.UID].rule != "" {
		return
	}
	e.report(pod)
}

// findConflicts counts the pods among those found on a node that another scheduler
// put where a rule forbids it.
func (e *Engine) findConflicts(found []*v1.Pod) {
	for _, pod := range found {
		if e.reported[pod.UID].rule != "" {
			delete(e.reported, pod.UID) // from now on it is part of the cluster
			continue
		}
		if e.report(pod) {
			delete(e.reported, pod.UID)
		}
	}
}

func (e *Engine) report(pod *v1.Pod) bool {
	rule, text := e.state.cluster.Conflict(pod)
	if rule == nil {
		return false
	}
	e.reported[pod.UID] = reported{rule.Name, e.opt.Now()}
	e.metrics.conflict.WithLabelValues(rule.Name).Inc()
	e.events.emit(pod, v1.EventTypeWarning, "RuleConflict",
		fmt.Sprintf("Not placed by Sigma, and against the placement rule %s: %s.", rule.Name, text))
	return true
}

// knownConflicts are the conflicts, nil when nothing is known of them: a standby has
// not looked, and rules that have come since are not in force before the next Sync.
func (e *Engine) knownConflicts() map[string]int {
	e.inbox.Lock()
	unknown := e.inbox.newRules
	e.inbox.Unlock()
	e.mu.Lock()
	unknown = unknown || e.state.fresh
	e.mu.Unlock()
	if unknown {
		return nil
	}
	return e.Conflicts()
}

// Conflicts is the number of nodes on which each rule does not hold, and of pods
// against it that were seen since they were counted; rules that hold everywhere
// are left out.
func (e *Engine) Conflicts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := e.state.cluster.Conflicts()
	for uid, r := range e.reported {
		if e.opt.Now().Sub(r.at) > time.Minute { // it went away before a Sync had it
			delete(e.reported, uid)
			continue
		}
		counts[r.rule]++
	}
	return counts
}
