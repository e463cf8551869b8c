package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A stopReason is why an execution ends before its last node.
type stopReason struct{ reason, message string }

// Reasons after which the next plan is made soon.
const (
	noRights = "NoRights"
	failed   = "Failed"
)

// checkStop returns why no more pods may be evicted.
func (c *controller) checkStop(ctx context.Context, x *execution, now time.Time, pods []*v1.Pod) stopReason {
	switch o := x.object; {
	case x.deleted:
		return stopReason{"Deleted", "The Rebalance was deleted."}
	case o.Generation != x.generation && o.Spec.Suspend:
		return stopReason{"Suspended", "spec.suspend is set."}
	case o.Generation != x.generation:
		return stopReason{"Changed", "The spec was changed: another plan is made."}
	case now.Sub(c.listedAt) > time.Minute:
		return stopReason{"Unreadable", "The API server has not shown the Rebalance for a minute."}
	case !c.leads():
		return stopReason{"NotLeading", "Another scheduler leads."}
	}
	var away []string
	if d := x.current(); d != nil {
		for _, m := range d.moves {
			if m.away() {
				away = append(away, m.group)
			}
		}
	}
	return c.guardrails(ctx, &x.object.Spec.StopWhen, now, pods, away)
}

// guardrails returns why the cluster cannot spare nodes now. Pods of the groups that are away do
// not count as waiting, nor do those that no node would take if it were empty: another node is of no use to them.
func (c *controller) guardrails(ctx context.Context, when *v1alpha1.RebalanceStop, now time.Time, pods []*v1.Pod, away []string) stopReason {
	waiting, first := 0, ""
	nodes := c.Site.Nodes()
	for _, p := range pods {
		if isUnschedulable(p) && !slices.Contains(away, podspec.Group(p, c.AppLabel)) && fitsSomeNode(p, nodes) {
			waiting++
			first = cmp.Or(first, nameOf(p))
		}
	}
	if waiting >= int(max(1, when.PendingPods)) {
		return stopReason{"PodsWait", fmt.Sprintf("Pods wait that fit on no node: %d, for one %s.", waiting, first)}
	}
	if when.Query == "" || when.Threshold == nil {
		return stopReason{}
	}
	if a := c.lastQuery; a.query == when.Query && !now.Before(a.at) && now.Sub(a.at) < queryEvery {
		return a.check(*when.Threshold)
	}
	value, err := queryServer(c.Prometheus).largest(ctx, when.Query)
	c.lastQuery = queryResult{when.Query, now, value, err}
	return c.lastQuery.check(*when.Threshold)
}

// An queryResult to a query.
type queryResult struct {
	query string
	at    time.Time
	value float64
	err   error
}

func (a *queryResult) check(threshold float64) stopReason {
	switch {
	case a.err != nil:
		return stopReason{"Query", fmt.Sprintf("The query of stopWhen has no answer: %v.", a.err)}
	case a.value > threshold:
		return stopReason{"Query", fmt.Sprintf("The query of stopWhen returns %v, more than %v.", a.value, threshold)}
	}
	return stopReason{}
}

// fitsSomeNode reports whether some node, cordoned or not, would take a pod if it were empty.
func fitsSomeNode(p *v1.Pod, nodes []*v1.Node) bool {
	demand, selector := podspec.Demand(p), podspec.NewSelector(p)
	return slices.ContainsFunc(nodes, func(n *v1.Node) bool {
		room := podspec.Amounts(n.Status.Allocatable)
		for dim, need := range demand {
			if room[dim] < need {
				return false
			}
		}
		return selector.Admits(n)
	})
}

// isUnschedulable reports whether the scheduler has found no node for a pod.
func isUnschedulable(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(k v1.PodCondition) bool {
		return k.Type == v1.PodScheduled && k.Status == v1.ConditionFalse && k.Reason == v1.PodReasonUnschedulable
	})
}
