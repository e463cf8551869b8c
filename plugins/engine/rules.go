package engine

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// reported is a pod that violates a rule and was seen before a Sync had it.
type reported struct {
	rule string
	at   time.Time
}

// Check returns the check of a pod, as of the last Sync; nil when no rule selects the
// pod.
func (e *Engine) Check(pod *v1.Pod) *kube.Check {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Check(pod, e.opt.Now())
}

// With changes a check as if a pod were placed on a node, or with count -1 removed from it.
func (e *Engine) With(k *kube.Check, pod *v1.Pod, node string, count int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.cluster.Adjust(k, pod, node, count)
}

// Related reports whether a rule lets a pod that has a node keep a waiting pod off that
// node.
func (e *Engine) Related(waits, stands *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Related(waits, stands)
}

// Spreads reports whether the arrival of a pod can open other nodes to a waiting pod
// of the same app.
func (e *Engine) Spreads(waits, came *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Spreads(waits, came)
}

// Bound checks a pod that got a node. If another scheduler placed it against a rule,
// it is counted at once, without waiting for a decision of this one.
func (e *Engine) Bound(pod *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.cluster.Placed(pod) || e.reported[pod.UID].rule != "" {
		return
	}
	e.report(pod)
}

// findConflicts counts the pods found on a node that violate a rule there.
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

// knownConflicts returns the conflicts; nil when they are unknown: a standby has read no
// nodes, and new rules are not active before the next Sync.
func (e *Engine) knownConflicts() map[string]int {
	e.lock.Lock()
	unknown := e.newRules
	e.lock.Unlock()
	e.mu.Lock()
	unknown = unknown || e.state.fresh
	e.mu.Unlock()
	if unknown {
		return nil
	}
	return e.Conflicts()
}

// Conflicts counts for each rule the nodes that violate it, plus the pods against it
// that were reported since the last Sync. Rules that hold everywhere are left out.
func (e *Engine) Conflicts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := e.state.cluster.Conflicts()
	for uid, r := range e.reported {
		if e.opt.Now().Sub(r.at) > time.Minute { // it was removed before a Sync had it
			delete(e.reported, uid)
			continue
		}
		counts[r.rule]++
	}
	return counts
}
