package engine

import (
	"time"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// reviewEvery is how often all that plans ask for is compared with what is reserved. What a
// decision or a changed node means for that node's reservations is entered at once.
const reviewEvery = time.Second

// idle is longer than a pod takes from its ranking to its placement.
const idle = 10 * time.Second

// SetPlans puts plans in force from the next decision on. No two may have the same workload.
func (e *Engine) SetPlans(plans []*kube.Plan) {
	e.inbox.Lock()
	defer e.inbox.Unlock()
	e.inbox.plans, e.inbox.newPlans = plans, true
}

// Holds reports whether room is reserved on a node.
func (e *Engine) Holds(node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.cluster.Holds(node)
}

// land is the verdict that a pod goes to a machine with room reserved for it, whatever the
// policy's mode is.
func (e *Engine) land(v *Verdict, app, machine int32) {
	l, r := e.state.ledger, &e.ranking
	v.Decides, v.choice = true, l.NodeName(machine)
	v.Ranked = []Ranked{{Node: v.choice, Place: r.places.place[machine]}}
	v.decision = ledger.Decision{Cause: ledger.CausePlanned}
	if e.state.log.file != nil {
		v.decision.Infeasible, v.decision.Extra = l.Differ(app, r.passed)
	}
}

// reviewPlans reviews the plans when that is due.
func (e *Engine) reviewPlans() {
	if now := e.opt.Now(); now.Sub(e.reviewedAt) >= reviewEvery {
		e.reviewedAt = now
		e.state.cluster.ReviewPlans(seconds(now))
	}
}

// planReports says how far each plan is, by name; nil while that is unknown: a standby has
// read no nodes, and new plans are not in force. Where pods come, that is the next Sync's
// business: nothing may change between a ranking and its placement. In an idle cluster it
// is done here.
func (e *Engine) planReports() map[string]kube.PlanReport {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.fresh || e.state.broken != nil {
		return nil
	}
	if e.opt.Now().Sub(e.syncedAt) >= idle {
		if plans, news := e.inbox.takePlans(); news {
			e.state.cluster.SetPlans(plans, seconds(e.opt.Now()))
		}
		e.reviewPlans()
		e.state.log.flush()
	}
	e.inbox.Lock()
	unknown := e.inbox.newPlans
	e.inbox.Unlock()
	if unknown {
		return nil
	}
	reports := map[string]kube.PlanReport{}
	for _, p := range e.state.cluster.Plans() {
		reports[p.Name] = e.state.cluster.Report(p)
	}
	return reports
}
