package rebalance

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

// A stop is why a work ends before its last node.
type stop struct{ reason, message string }

// Reasons after which the next plan is made soon.
const (
	noRights = "NoRights"
	failed   = "Failed"
)

// stops returns why no more pods may be evicted.
func (c *controller) stops(ctx context.Context, w *work, now time.Time, pods []*v1.Pod) stop {
	switch o := w.object; {
	case w.gone:
		return stop{"Deleted", "The Rebalance was deleted."}
	case o.Generation != w.generation && o.Spec.Suspend:
		return stop{"Suspended", "spec.suspend is set."}
	case o.Generation != w.generation:
		return stop{"Changed", "The spec was changed: another plan is made."}
	case now.Sub(c.listed) > time.Minute:
		return stop{"Unreadable", "The API server has not shown the Rebalance for a minute."}
	case !c.leads():
		return stop{"NotLeading", "Another scheduler leads."}
	}
	var away []string
	if u := w.unit(); u != nil {
		for _, m := range u.moves {
			if m.away() {
				away = append(away, m.group)
			}
		}
	}
	return c.spares(ctx, &w.object.Spec.StopWhen, now, pods, away)
}

// spares returns why the cluster cannot spare nodes now. Pods of the groups that are away do
// not count as waiting, nor do those that no node would take if it were empty: another node is of no use to them.
func (c *controller) spares(ctx context.Context, when *v1alpha1.RebalanceStop, now time.Time, pods []*v1.Pod, away []string) stop {
	waiting, first := 0, ""
	nodes := c.Site.Nodes()
	for _, p := range pods {
		if waits(p) && !slices.Contains(away, podspec.Group(p, c.AppLabel)) && usesSome(p, nodes) {
			waiting++
			first = cmp.Or(first, nameOf(p))
		}
	}
	if waiting >= int(max(1, when.PendingPods)) {
		return stop{"PodsWait", fmt.Sprintf("Pods wait that fit on no node: %d, for one %s.", waiting, first)}
	}
	if when.Query == "" || when.Threshold == nil {
		return stop{}
	}
	if a := c.answer; a.query == when.Query && !now.Before(a.at) && now.Sub(a.at) < askEvery {
		return a.judge(*when.Threshold)
	}
	value, err := prometheus(c.Prometheus).largest(ctx, when.Query)
	c.answer = answer{when.Query, now, value, err}
	return c.answer.judge(*when.Threshold)
}

// An answer to a query.
type answer struct {
	query string
	at    time.Time
	value float64
	err   error
}

func (a *answer) judge(threshold float64) stop {
	switch {
	case a.err != nil:
		return stop{"Query", fmt.Sprintf("The query of stopWhen has no answer: %v.", a.err)}
	case a.value > threshold:
		return stop{"Query", fmt.Sprintf("The query of stopWhen returns %v, more than %v.", a.value, threshold)}
	}
	return stop{}
}

// usesSome reports whether some node, cordoned or not, would take a pod if it were empty.
func usesSome(p *v1.Pod, nodes []*v1.Node) bool {
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

// waits reports whether the scheduler has found no node for a pod.
func waits(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(k v1.PodCondition) bool {
		return k.Type == v1.PodScheduled && k.Status == v1.ConditionFalse && k.Reason == v1.PodReasonUnschedulable
	})
}
