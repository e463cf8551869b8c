package sigma

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

const checkKey = fwk.StateKey(Name + "/check")

// checkState carries a cycle's check. Preemption changes copies of it.
type checkState struct{ check *kube.Check }

// Clone implements [fwk.StateData].
func (s *checkState) Clone() fwk.StateData { return &checkState{s.check.Clone()} }

// PreFilter finds the rules that select the pod and the reservations for others. Without any,
// Filter is skipped.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if err := p.engine.Ready(); err != nil {
		return nil, fwk.AsStatus(err) // retried after a while
	}
	if err := p.sync(state); err != nil {
		return nil, fwk.AsStatus(err)
	}
	check := p.engine.Check(pod)
	if check == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(checkKey, &checkState{check})
	return nil, nil
}

// PreFilterExtensions implements [fwk.PreFilterPlugin].
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod implements [fwk.PreFilterExtensions].
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, add fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.change(state, add.GetPod(), node, 1)
}

// RemovePod implements [fwk.PreFilterExtensions].
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, remove fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.change(state, remove.GetPod(), node, -1)
}

func (p *Plugin) change(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, count int32) *fwk.Status {
	data, err := state.Read(checkKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	p.engine.With(data.(*checkState).check, pod, node.Node().Name, count)
	return nil
}

// Filter refuses the nodes that a rule or a reservation closes to the pod.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(checkKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if why := data.(*checkState).check.Refusal(node.Node().Name); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	return nil
}

// tryAgain makes the scheduler retry a pod when a rule gives way to it.
func (p *Plugin) tryAgain(ctx context.Context, state fwk.CycleState, pod *v1.Pod) {
	data, err := state.Read(checkKey)
	if err != nil {
		return // no rule binds it
	}
	at, ok := data.(*checkState).check.Expiry(pod)
	if known, waits := p.waking.Load(pod.UID); !ok || waits && !at.Before(known.(time.Time)) {
		return
	}
	p.waking.Store(pod.UID, at)
	time.AfterFunc(time.Until(at), func() {
		p.waking.CompareAndDelete(pod.UID, at)
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	})
}

// The scheduler's names of PlacementRules and PlacementPlans.
const (
	ruleEvents = fwk.EventResource("placementrules.v1alpha1.sigma-scheduler.io")
	planEvents = fwk.EventResource("placementplans.v1alpha1.sigma-scheduler.io")
)

// EventsToRegister implements [fwk.EnqueueExtensions]: the events that can open
// a node to a pod that a rule refused.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Delete | fwk.UpdatePodLabel | fwk.UpdatePodScaleDown},
			QueueingHintFn: p.afterPod,
		},
		{Event: fwk.ClusterEvent{
			Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAllocatable,
		}},
	}
	if p.has.Rules {
		events = append(events, fwk.ClusterEventWithHint{
			Event: fwk.ClusterEvent{Resource: ruleEvents, ActionType: fwk.All}, QueueingHintFn: p.afterRule,
		})
	}
	if p.has.Plans {
		events = append(events, fwk.ClusterEventWithHint{
			Event: fwk.ClusterEvent{Resource: planEvents, ActionType: fwk.All}, QueueingHintFn: p.afterPlan,
		})
	}
	return events, nil
}

// afterRule activates the rule and wakes every pod, unless only the rule's status
// changed.
func (p *Plugin) afterRule(_ klog.Logger, _ *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	p.engine.RuleChanged(before, after)
	old, now, err := util.As[*unstructured.Unstructured](before, after)
	if err == nil && old != nil && now != nil && old.GetUID() == now.GetUID() && old.GetGeneration() == now.GetGeneration() {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterPlan activates the plan and wakes every pod, also when only the plan's status
// changed: that means that reservations ended.
func (p *Plugin) afterPlan(_ klog.Logger, _ *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	p.engine.PlanChanged(before, after)
	return fwk.Queue, nil
}

// afterPod wakes a pod when the pod itself changed, when a pod that a rule keeps it
// away from left or changed, when a pod left a node with reservations, and when a pod of its app, which has to spread,
// got a node.
func (p *Plugin) afterPod(_ klog.Logger, waits *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	old, now, err := util.As[*v1.Pod](before, after)
	if err != nil {
		return fwk.Queue, err
	}
	wake := false
	switch {
	case now != nil && now.UID == waits.UID:
		wake = true
	case old == nil:
		wake = now.Spec.NodeName != "" && p.engine.Spreads(waits, now)
	case old.Spec.NodeName == "": // it kept no pod off a node
	default:
		wake = p.engine.Related(waits, old) || p.engine.Holds(old.Spec.NodeName)
	}
	if wake {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
