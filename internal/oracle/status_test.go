package oracle

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// waits is the status of a pod that has no node yet.
var waits = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}}

// runs gives a pod that has a node what a kubelet says of it.
func (d *drawer) runs(p *v1.Pod) {
	p.Status.Phase = v1.PodRunning
	ready := v1.ConditionTrue
	if d.chance(.04) {
		ready = v1.ConditionFalse
	}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: ready}}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Ready: ready == v1.ConditionTrue, AllocatedResources: c.Resources.Requests.DeepCopy(), Resources: c.Resources.DeepCopy(),
		})
	}
	switch {
	case p.Spec.Resources != nil && d.chance(.5):
		d.resizesPod(p)
	case p.Spec.Resources == nil && d.chance(.05):
		d.resizes(p)
	}
}

// resizes changes what a running pod asks for; its kubelet has not done it yet, or says that it cannot.
func (d *drawer) resizes(p *v1.Pod) {
	main := &p.Spec.Containers[0].Resources
	if main.Requests.Cpu().IsZero() || main.Limits.Cpu().Sign() > 0 {
		return
	}
	main.Requests = main.Requests.DeepCopy()
	main.Requests["cpu"] = resource.MustParse(one(d, "10m", "20m", "400m"))
	condition := v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: one(d, v1.PodReasonDeferred, v1.PodReasonInfeasible)}
	if d.chance(.4) {
		condition = v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}
		p.Status.ContainerStatuses[0].AllocatedResources = main.Requests.DeepCopy()
	}
	p.Status.Conditions = append(p.Status.Conditions, condition)
}

// resizesPod shrinks the resources of a pod as a whole; its kubelet has not done it yet.
func (d *drawer) resizesPod(p *v1.Pod) {
	before := p.Spec.Resources.DeepCopy()
	p.Status.AllocatedResources, p.Status.Resources = before.Requests, before
	p.Spec.Resources.Requests["cpu"] = resource.MustParse("3")
	if d.chance(.5) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue})
	}
}
