package snapshot

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A budget is a disruption budget with the number of its pods that may be away at once.
type budget struct {
	name     string // namespace/name
	in       string // namespace
	selector labels.Selector
	allows   int
}

// budgets are the valid disruption budgets. One without a status allows as many as its pods that are ready now exceed those
// of its specification.
func (p *Picture) budgets() (list []budget) {
	for _, b := range p.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		of := budget{b.Namespace + "/" + b.Name, b.Namespace, selector, int(b.Status.DisruptionsAllowed)}
		if s := &b.Status; s.ObservedGeneration == 0 && s.ExpectedPods == 0 && s.DisruptionsAllowed == 0 && s.DesiredHealthy == 0 {
			of.allows = p.allowed(&of, &b.Spec)
		}
		list = append(list, of)
	}
	return list
}

func (b *budget) has(pod *v1.Pod) bool {
	return pod.Namespace == b.in && b.selector.Matches(labels.Set(pod.Labels))
}

// allowed is the number of pods of a budget that may be away by its specification, as the disruption controller
// counts it, with the pods that there are in place of the replicas of their workloads.
func (p *Picture) allowed(b *budget, spec *policyv1.PodDisruptionBudgetSpec) int {
	pods, ready := 0, 0
	for _, pod := range p.Pods {
		if b.has(pod) && !podspec.Ended(pod) && pod.DeletionTimestamp == nil {
			if pods++; podspec.Ready(pod) {
				ready++
			}
		}
	}
	wanted := pods
	switch scaled := intstr.GetScaledValueFromIntOrPercent; {
	case spec.MaxUnavailable != nil:
		if n, err := scaled(spec.MaxUnavailable, pods, true); err == nil {
			wanted = pods - n
		}
	case spec.MinAvailable != nil:
		if n, err := scaled(spec.MinAvailable, pods, true); err == nil {
			wanted = n
		}
	}
	return max(0, ready-max(0, wanted))
}

// barred returns a function that reports whether disruption budgets allow no eviction of a pod now, as a reason; "" = none
// forbids it.
func (p *Picture) barred() func(*v1.Pod) string {
	list := p.budgets()
	return func(pod *v1.Pod) string {
		of := 0
		for i := range list {
			if !list[i].has(pod) {
				continue
			}
			if of++; list[i].allows <= 0 {
				return "its disruption budget allows no eviction now"
			}
		}
		if of > 1 { // the API server refuses to choose
			return fmt.Sprintf("it has %d disruption budgets, so that no eviction succeeds", of)
		}
		return ""
	}
}

// rounds are the budgets that allow some evictions, each with that number and the workloads of its pods.
func (p *Picture) rounds(appLabel string) map[string]any {
	all := map[string]any{}
	list := p.budgets()
	for i := range list {
		workloads := map[string]any{}
		for _, pod := range p.Pods {
			if pod.Spec.NodeName != "" && list[i].allows > 0 && list[i].has(pod) {
				workloads[podspec.Group(pod, appLabel)] = true
			}
		}
		if len(workloads) > 0 {
			all[list[i].name] = map[string]any{"allows": list[i].allows, "workloads": workloads}
		}
	}
	return all
}
