package engine

import (
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// reviewEvery is the interval at which all places of plans are compared with the reservations. The
// effect of a decision or a changed node on that node's reservations is entered at once.
const reviewEvery = time.Second

// idle is the time after a Sync from which plans are reviewed without one: pods that arrive in quick
// succession bring their own.
const idle = 500 * time.Millisecond

// SetPlans activates plans from the next decision on. No two may have the same workload.
func (in *inbox) SetPlans(plans []*kube.Plan) {
	in.lock.Lock()
	defer in.lock.Unlock()
	in.plans, in.newPlans = plans, true
	if in.planned = len(plans) > 0; !in.planned {
		in.nodes = nil
	}
}

// Holds reports whether room is reserved on a node.
func (e *Engine) Holds(node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.HasReservation(node)
}

// land makes the verdict that a pod is assigned to a machine with room reserved for it, whatever the
// policy's mode is.
func (e *Engine) land(v *Verdict, app, machine int32) {
	l, r := e.state.ledger, &e.ranking
	v.Decides, v.choice = true, l.NodeName(machine)
	v.Ranked = []Ranked{{Node: v.choice, Place: r.places.place[machine]}}
	v.decision = ledger.Decision{Cause: ledger.CausePlanned}
	if e.state.log.file != nil {
		v.decision.Infeasible, v.decision.Extra = l.FilterDifferences(app, r.passed)
	}
}

// reviewPlans reviews the plans when that is due.
func (e *Engine) reviewPlans() {
	if now := e.opt.Now(); now.Sub(e.reviewedAt) >= reviewEvery {
		e.reviewedAt = now
		e.state.cluster.ReviewPlans(seconds(now))
	}
}

// planReports returns the progress of each plan, by name; nil while that is unknown: a standby has
// read no nodes, and new plans are not active. While pods arrive, the next Sync activates them; in an
// idle cluster that is done here.
func (e *Engine) planReports() map[string]kube.PlanReport {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.fresh || e.state.broken != nil {
		return nil
	}
	if !e.ranks("") && e.opt.Now().Sub(e.syncedAt) >= idle {
		plans, news, nodes := e.takePlans()
		e.enterNodes(nodes)
		if news {
			e.state.cluster.SetPlans(plans, seconds(e.opt.Now()))
		}
		e.reviewPlans()
		e.state.log.flush()
	}
	e.lock.Lock()
	unknown := e.newPlans
	e.lock.Unlock()
	if unknown {
		return nil
	}
	reports := map[string]kube.PlanReport{}
	for _, p := range e.state.cluster.Plans() {
		reports[p.Name] = e.state.cluster.Report(p)
	}
	return reports
}

// enterNodes enters nodes that changed while no pod arrived. A removed node counts at once.
func (e *Engine) enterNodes(nodes map[string]changedNode) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if c := nodes[name]; c.gone {
			e.state.cluster.DeleteNode(c.node)
		} else {
			e.state.cluster.ChangeNode(c.node)
		}
		e.reviewedAt = time.Time{} // it is due
	}
}

// A changedNode is a node as an informer reported it last.
type changedNode struct {
	node *v1.Node
	gone bool
}

// NodeChanged reports a node that an informer saw change or, where after is nil, be removed. A Sync
// brings the same with the pods; while plans are active and no pod arrives, only this makes
// their pods be replanned.
func (e *Engine) NodeChanged(before, after *v1.Node) {
	w := e.watcher.Load()
	if w == nil || !e.note(before, after) {
		return
	}
	if after == nil || before == nil || !reflect.DeepEqual(before.Spec, after.Spec) {
		w.wakeUp()
	}
}

// Left ends the ranking of a pod for which nobody will report a node.
func (in *inbox) Left(pod *v1.Pod) { in.placed(pod) }

// PlanChanged activates a plan that an informer of the scheduler saw change, as
// [Engine.RuleChanged] does for a rule.
func (o *watching) PlanChanged(before, after any) {
	if w := o.watcher.Load(); w != nil {
		w.changed(before, after, w.setPlan, w.planGone)
	}
}
