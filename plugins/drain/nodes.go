package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// The annotations of a cordoned node. cluster-autoscaler and Karpenter remove an empty node whether
// it is cordoned or not; nothing here prevents it.
const (
	cordonedBy    = "sigma-scheduler.io/cordoned-by"    // the Rebalance
	cordonedUntil = "sigma-scheduler.io/cordoned-until" // any scheduler uncordons it then
	emptiedAt     = "sigma-scheduler.io/emptied"        // no evictable pod runs there
)

// maxDeadline is how far in the future a deadline is taken for one that a clock left which was set
// back.
const maxDeadline = 7 * 24 * time.Hour

// isProtected reports whether a node must not be removed, and so is not emptied.
func isProtected(n *v1.Node) bool { return podspec.StaysNode(n) != "" }

// nodeReady reports whether a node's conditions, and the taints for them, allow new pods.
func nodeReady(n *v1.Node) bool {
	return podspec.Unwell(n) == nil && !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status != v1.ConditionTrue
	})
}

// isCordonedBy reports whether a node is cordoned by a Rebalance.
func isCordonedBy(n *v1.Node, name string) bool {
	return n.Spec.Unschedulable && n.Annotations[cordonedBy] == name
}

// uncordonReason returns why a cordon of a Rebalance must be taken back; "" = it stays. underWay is the node that
// this scheduler is emptying; keeps returns why the emptied nodes of a Rebalance are no longer kept.
// A scheduler that does not lead has neither and checks the deadline alone.
func uncordonReason(n *v1.Node, now time.Time, leads bool, underWay string, keeps func(rebalance string) string) string {
	name, is := n.Annotations[cordonedBy]
	if !is || n.Name == underWay {
		return ""
	}
	until, err := time.Parse(time.RFC3339, n.Annotations[cordonedUntil])
	switch {
	case err != nil:
		return "its deadline cannot be read"
	case !now.Before(until):
		return "nobody has removed it until its deadline"
	case until.Sub(now) > maxDeadline:
		return "its deadline is more than a week ahead"
	case !leads:
		return ""
	case !n.Spec.Unschedulable:
		return "somebody has uncordoned it"
	case n.Annotations[emptiedAt] == "":
		return "nobody empties it any more"
	}
	return keeps(name)
}

// nodePatch is a merge patch of a node, which fails where the node has changed: null takes a value
// away.
func nodePatch(n *v1.Node, unschedulable any, annotations map[string]any) ([]byte, error) {
	patch := map[string]any{"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": annotations}}
	if unschedulable != unchanged {
		patch["spec"] = map[string]any{"unschedulable": unschedulable}
	}
	return json.Marshal(patch)
}

const unchanged = "unchanged"

func cordonPatch(n *v1.Node, name string, until time.Time) ([]byte, error) {
	return nodePatch(n, true, map[string]any{cordonedBy: name, cordonedUntil: until.UTC().Format(time.RFC3339), emptiedAt: nil})
}

func emptyPatch(n *v1.Node, now time.Time) ([]byte, error) {
	return nodePatch(n, unchanged, map[string]any{
		emptiedAt: now.UTC().Format(time.RFC3339), cordonedUntil: now.Add(emptyTTL).UTC().Format(time.RFC3339),
	})
}

func uncordonPatch(n *v1.Node) ([]byte, error) {
	return nodePatch(n, nil, map[string]any{cordonedBy: nil, cordonedUntil: nil, emptiedAt: nil})
}

// uncordonPending reports whether a node that a Rebalance has given up is about to be uncordoned: a plan would leave
// it out. It does for a minute at most, since it may fail.
func (c *controller) uncordonPending(name string) bool {
	if !slices.ContainsFunc(c.Site.Nodes(), func(n *v1.Node) bool { return isCordonedBy(n, name) && n.Annotations[emptiedAt] == "" }) {
		delete(c.uncordonSince, name)
		return false
	}
	now := c.clock.Now()
	if c.uncordonSince[name].IsZero() || now.Before(c.uncordonSince[name]) {
		c.uncordonSince[name] = now
	}
	return now.Sub(c.uncordonSince[name]) < time.Minute
}

// uncordon takes back the cordons that nothing keeps any more, those of schedulers that were
// killed among them.
func (c *controller) uncordon(ctx context.Context, objects map[string]*v1alpha1.Rebalance) error {
	now, under := c.clock.Now(), ""
	x := c.inProgress()
	if x != nil && x.current() != nil {
		under = x.current().node
	}
	var pods []*v1.Pod
	keeps := func(name string) string {
		o := objects[name]
		switch {
		case o == nil:
			return "the Rebalance is gone"
		case o.Spec.Suspend:
			return "the Rebalance is suspended"
		case o.Spec.Mode != v1alpha1.RebalanceAuto:
			return "the Rebalance is not in mode Auto"
		}
		if pods == nil {
			pods = c.Site.Pods()
		}
		var away []string
		if x != nil && x.current() != nil {
			for _, m := range x.current().moves {
				away = append(away, m.group)
			}
		}
		return c.guardrails(ctx, &o.Spec.StopWhen, now, pods, away).message
	}
	var all []error
	leading := c.leads()
	for _, n := range c.Site.Nodes() {
		why := uncordonReason(n, now, leading, under, keeps)
		if why == "" {
			continue
		}
		patch, err := uncordonPatch(n)
		if err == nil {
			err = c.Site.PatchNode(ctx, n.Name, patch)
		}
		klog.InfoS("A node is uncordoned", "node", n.Name, "rebalance", n.Annotations[cordonedBy], "why", why, "error", err)
		if err != nil {
			all = append(all, fmt.Errorf("uncordon node %s: %w", n.Name, err))
		}
	}
	return errors.Join(all...)
}
