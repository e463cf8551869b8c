package central

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/internal/bounded"
)

// Reasons of the condition Active, in addition to those of a node's condition Shaping.
const (
	reasonNoNodes     = "NoNodes"
	reasonOlderPolicy = "OlderPolicy"
	reasonWaiting     = "Waiting"
	reasonUnheard     = "Unheard"
)

// judge counts a policy's nodes, names a canary and sets the conditions.
func (c *Central) judge(now time.Time, p *v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) {
	list, silent := c.following(now, p, nodes)
	s := &p.Status
	s.Nodes = v1alpha1.FlowPolicyNodes{Matching: int32(len(list))}
	s.CanaryNode = canary(p, list, silent)
	unheard := ""
	for _, n := range silent {
		if meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionShaping) {
			s.Nodes.Unheard++
			unheard = cmp.Or(unheard, n.Name)
		}
	}
	reason, trouble := "", ""
	for _, n := range list {
		if n.Status.ObservedGeneration == p.Generation && n.Status.Sequence == s.Sequence {
			s.Nodes.Acknowledged++
		}
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionShaping)
		switch {
		case c == nil:
		case c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonOrdered:
			s.Nodes.Ordered++
		case c.Status == metav1.ConditionTrue:
			s.Nodes.Ordered++
			fallthrough
		case p.Orders(n.Name) && trouble == "" && c.Reason != v1alpha1.ReasonMode && c.Reason != v1alpha1.ReasonNoThresholds && c.Reason != v1alpha1.ReasonNoPolicy:
			reason, trouble = c.Reason, fmt.Sprintf("%s: %s", n.Name, c.Message)
		}
	}
	accepted := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ConditionAccepted, Message: "agents can read it"}
	if _, err := p.Selector(); err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "InvalidSelector", "spec.nodeSelector: "+err.Error()
	} else if _, err := p.Namespaces(); err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "InvalidSelector", "spec.namespaceSelector: "+err.Error()
	}
	active := metav1.Condition{Type: v1alpha1.ConditionActive, Status: metav1.ConditionFalse}
	active.Reason, active.Message = why(p, len(list), reason, trouble)
	if s.Nodes.Ordered > 0 {
		active.Status, active.Reason = metav1.ConditionTrue, v1alpha1.ReasonOrdered
		active.Message = fmt.Sprintf("%d of %d nodes order their uplinks, by %v bytes", s.Nodes.Ordered, len(list), flow.Thresholds(s.Thresholds))
		if trouble != "" {
			active.Message += "; " + trouble
		}
	}
	if s.Nodes.Unheard > 0 {
		if s.Nodes.Ordered == 0 {
			active.Status, active.Reason = metav1.ConditionUnknown, reasonUnheard
		}
		active.Message += "; " + stillOrdered(s.Nodes.Unheard, unheard)
	}
	if elsewhere := passedOver(p, nodes); elsewhere != "" {
		if active.Reason == reasonNoNodes {
			active.Reason = reasonOlderPolicy
		}
		active.Message += "; " + elsewhere
	}
	for _, c := range []metav1.Condition{accepted, active} {
		c.ObservedGeneration, c.LastTransitionTime = p.Generation, metav1.NewTime(now.Truncate(time.Second))
		c.Message = bounded.Text(c.Message)
		meta.SetStatusCondition(&s.Conditions, c)
	}
}

// why is the reason why no node is ordered.
func why(p *v1alpha1.FlowPolicy, nodes int, reason, trouble string) (string, string) {
	switch {
	case nodes == 0:
		return reasonNoNodes, "no node that it selects has an agent that was heard of within the last minutes"
	case p.Spec.Mode == v1alpha1.Disabled || p.Spec.Mode == v1alpha1.Observe:
		return string(p.Spec.Mode), fmt.Sprintf("mode %s orders nothing", p.Spec.Mode)
	case len(p.Status.Thresholds) == 0:
		return v1alpha1.ReasonNoThresholds, "no thresholds yet: " + p.Status.Search
	case trouble != "":
		return reason, trouble
	}
	return reasonWaiting, "no node has said yet that it orders its uplink"
}

// stillOrdered reports how many silent nodes may be ordered, and names one of them.
func stillOrdered(n int32, one string) string {
	if n == 1 {
		return "1 silent node was ordered when it was last heard of, and may still be: " + one
	}
	return fmt.Sprintf("%d silent nodes were ordered when they were last heard of, and may still be: %s and others", n, one)
}

// canary is the node nearest to the share of a canary if no node is in the share, or empty. It stays the same for as
// long as it follows the policy, also while it is silent: its kernel still shapes. So does that of a silent node in the
// share.
func canary(p *v1alpha1.FlowPolicy, list, silent []*v1alpha1.NodeFlows) string {
	if p.Spec.Mode != v1alpha1.Canary {
		return ""
	}
	all := slices.Concat(list, silent)
	if slices.ContainsFunc(all, func(n *v1alpha1.NodeFlows) bool { return p.Share(n.Name) < float64(p.Spec.CanaryPercent)/100 }) {
		return ""
	}
	least := ""
	for _, n := range list {
		if least == "" || p.Share(n.Name) < p.Share(least) {
			least = n.Name
		}
	}
	if slices.ContainsFunc(all, func(n *v1alpha1.NodeFlows) bool { return n.Name == p.Status.CanaryNode }) {
		return p.Status.CanaryNode
	}
	return least
}

// passedOver names the nodes that follow an older policy.
func passedOver(p *v1alpha1.FlowPolicy, nodes []*v1alpha1.NodeFlows) string {
	var names []string
	for _, n := range nodes {
		if slices.Contains(n.Status.PassedOver, p.Name) {
			names = append(names, n.Name+" follows the older policy "+n.Status.Policy)
		}
	}
	slices.Sort(names)
	if len(names) > 1 {
		names = []string{names[0], fmt.Sprintf("and %d more nodes follow older ones", len(names)-1)}
	}
	return strings.Join(names, " ")
}
