package engine

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// An inbox is the queue of events between decisions. It has a lock of its own, so that
// informers do not wait for a decision.
type inbox struct {
	lock sync.Mutex
	now  func() time.Time
	mail
	// tracked are the pods that a decision was requested for and that were not deleted
	// since. The end of others is ignored: a standby sees many and decides on none of them.
	tracked map[types.UID]bool
	graves  graves

	planned bool                   // plans were set, and there are some
	nodes   map[string]changedNode // that changed since, while there are plans
	// ranking is the pod that was ranked and not yet placed; "" = none. Until it is placed, nothing may
	// be entered: the log must hold the state by which it was placed.
	ranking types.UID
}

// mail holds the events since the last decision.
type mail struct {
	failed     []*v1.Pod // whose binding failed
	deleted    []*v1.Pod
	policies   map[ledger.Role]*policy.Object // nil value = deleted
	rules      []*kube.Rule
	newRules   bool
	plans      []*kube.Plan
	newPlans   bool
	begun      []*kube.Chain
	ended      []*kube.Chain
	served     []string           // nil = nothing new
	declared   *kube.Declarations // nil = nothing new
	declaredAt time.Time
	fresh      kube.Declarations // workloads that are new since; the next forecast has them
}

// empty returns the events and removes them.
func (in *inbox) empty() mail {
	in.lock.Lock()
	defer in.lock.Unlock()
	m := in.mail
	in.mail, in.ranking = mail{}, "" // the next cycle begins
	return m
}

// takePlans returns new plans and changed nodes, and removes them.
func (in *inbox) takePlans() (plans []*kube.Plan, news bool, nodes map[string]changedNode) {
	in.lock.Lock()
	defer in.lock.Unlock()
	plans, news, nodes = in.plans, in.newPlans, in.nodes
	in.plans, in.newPlans, in.nodes = nil, false, nil
	return plans, news, nodes
}

// note stores a node that changed or was removed, if there are plans.
func (in *inbox) note(before, after *v1.Node) bool {
	in.lock.Lock()
	defer in.lock.Unlock()
	if !in.planned {
		return false
	}
	if in.nodes == nil {
		in.nodes = map[string]changedNode{}
	}
	if after == nil {
		in.nodes[before.Name] = changedNode{before, true}
	} else {
		in.nodes[after.Name] = changedNode{after, false}
	}
	return true
}

// ranked records that a pod is between its ranking and its placement.
func (in *inbox) ranked(uid types.UID) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.ranking = uid
}

// placed records that a pod is no longer between the two.
func (in *inbox) placed(pod *v1.Pod) {
	in.lock.Lock()
	defer in.lock.Unlock()
	if in.ranking == pod.UID {
		in.ranking = ""
	}
}

// ranks reports whether a pod is between its ranking and its placement; "" = any.
func (in *inbox) ranks(uid types.UID) bool {
	in.lock.Lock()
	defer in.lock.Unlock()
	return in.ranking != "" && (uid == "" || in.ranking == uid)
}

// track adds a pod to the tracked ones. A pod that was deleted before a decision on it was requested
// leaves with the next events.
func (in *inbox) track(pod *v1.Pod) {
	in.lock.Lock()
	defer in.lock.Unlock()
	if in.graves.has(pod.UID) {
		in.deleted = append(in.deleted, pod)
		return
	}
	in.tracked[pod.UID] = true
}

// untrack forgets a pod that the ledger does not have.
func (in *inbox) untrack(uid types.UID) {
	in.lock.Lock()
	defer in.lock.Unlock()
	delete(in.tracked, uid)
}

// SetPolicy activates a policy from the next decision on; nil deactivates it.
func (e *Engine) SetPolicy(role ledger.Role, object *policy.Object) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.policies == nil {
		e.policies = map[ledger.Role]*policy.Object{}
	}
	e.policies[role] = object
	if role == ledger.Primary {
		e.setRepair(object)
	}
}

// SetRules activates rules from the next decision on.
func (in *inbox) SetRules(rules []*kube.Rule) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.rules, in.newRules = rules, true
}

// SetServed sets the extended resources that drivers serve, from the next decision on.
func (in *inbox) SetServed(names []string) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.served = append([]string{}, names...)
}

// SetDeclared sets the objects for the next forecast.
func (in *inbox) SetDeclared(d *kube.Declarations) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.declared, in.declaredAt, in.fresh = d, in.now(), kube.Declarations{}
}

// addDeclared records a new workload: its pods arrive before the next forecast.
func (in *inbox) addDeclared(workload any) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.fresh.Add(workload)
}

// BindFailed reverts a decision: the pod's binding failed. The pod waits again,
// unless it was deleted meanwhile.
func (in *inbox) BindFailed(pod *v1.Pod) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.failed = append(in.failed, pod)
	if in.ranking == pod.UID {
		in.ranking = ""
	}
	if !in.tracked[pod.UID] {
		in.deleted = append(in.deleted, pod)
	}
}

// takeFailure removes the event that a pod's binding failed, and reports whether there was one.
func (in *inbox) takeFailure(uid types.UID) bool {
	in.lock.Lock()
	defer in.lock.Unlock()
	n := len(in.failed)
	in.failed = slices.DeleteFunc(in.failed, func(p *v1.Pod) bool { return p.UID == uid })
	return len(in.failed) < n
}

// Deleted records that a pod was deleted, with or without a node. A pod without a requested
// decision is only remembered for a while: a cycle may be about to request one.
func (in *inbox) Deleted(pod *v1.Pod) {
	in.lock.Lock()
	defer in.lock.Unlock()
	if in.tracked[pod.UID] {
		delete(in.tracked, pod.UID)
		in.deleted = append(in.deleted, pod)
		return
	}
	in.graves.add(pod.UID, in.now())
}
