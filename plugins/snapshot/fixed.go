package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/owner"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// MinReplicas is the default of the number of pods that a workload must have on nodes before one
// of them may move.
const MinReplicas = 2

// fixed returns the pods on nodes that must not move, each with the reason, by namespace/name.
// stays, if not nil, names reasons of its own.
// Those in follow hold now, or until their volumes follow them: they may be replaced elsewhere all the same.
func (p *Picture) fixed(appLabel string, minReplicas int, maxGrace time.Duration, scheduler string, stays func(*v1.Pod) string) (fixed map[string]string, follow map[string]bool) {
	workload := func(pod *v1.Pod) string {
		ref, _ := owner.Of(pod, nil)
		return pod.Namespace + "/" + ref.String()
	}
	stand := map[string]int{}
	for _, pod := range p.Pods {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			stand[workload(pod)]++
		}
	}
	fixed = map[string]string{}
	others, barred, even := p.others(appLabel), p.barred(), p.even()
	staying := map[string]string{} // nodes, with the reasons
	for _, n := range p.Nodes {
		if why, stays := apart(n); stays {
			staying[n.Name] = why
		}
	}
	reason := func(pod *v1.Pod, now bool) string {
		why := podspec.Movable(even(pod), maxGrace, others)
		if why == "" && scheduler != "" && pod.Spec.SchedulerName != scheduler {
			why = "another scheduler places it: " + pod.Spec.SchedulerName
		}
		if why == "" && stays != nil {
			why = stays(pod)
		}
		if n := stand[workload(pod)]; why == "" && n < minReplicas {
			why = fmt.Sprintf("its workload has %d of the %d pods that it should keep", n, minReplicas)
		}
		for _, r := range p.Rules {
			if why == "" && r.ByZone(pod) {
				why = "the placement rule " + r.Name + " is about zones"
			}
		}
		if why == "" && now {
			why = barred(pod)
		}
		if of := staying[pod.Spec.NodeName]; why == "" && of != "" {
			why = "its node stays: " + of
		}
		return why
	}
	follow = map[string]bool{}
	for _, pod := range p.Pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		if why := reason(pod, true); why != "" {
			fixed[nameOf(pod)] = why
			follow[nameOf(pod)] = later(pod, p.attached[nameOf(pod)], func(as *v1.Pod) string { return reason(as, false) })
		}
	}
	return fixed, follow
}

// later reports whether a pod that must not move now may be replaced elsewhere later: it is ready then, a pod of its job begins
// its work there, budgets allow it, its zones are part of the trace, and its volumes follow it if they are attached. again is
// the reason of a pod to stay, without budgets.
func later(pod *v1.Pod, attached bool, again func(*v1.Pod) string) bool {
	as := *pod
	as.DeletionTimestamp, as.Spec.RestartPolicy = nil, v1.RestartPolicyAlways
	as.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	if attached {
		as.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(v v1.Volume) bool { return !podspec.AnyNode(&v) })
	}
	why := again(&as)
	if why == podspec.ByZones {
		as.Spec.TopologySpreadConstraints = nil
		if a := as.Spec.Affinity; a != nil {
			as.Spec.Affinity = &v1.Affinity{NodeAffinity: a.NodeAffinity}
		}
		why = again(&as)
	}
	return why == ""
}

// ignored returns the pods with constraints that a trace cannot express, each with the reasons, by namespace/name.
func (p *Picture) ignored(appLabel string) map[string]string {
	ignored, others, ports, even := map[string]string{}, p.others(appLabel), p.hostPorts(appLabel), p.even()
	for _, pod := range p.Pods {
		what := others.Unknowns(even(pod))
		if p.attached[nameOf(pod)] {
			what = slices.DeleteFunc(what, func(w string) bool { return w == podspec.Volumes })
		}
		if len(ports[podspec.Group(pod, appLabel)]) > 0 { // which are rules of the trace
			what = slices.DeleteFunc(what, func(w string) bool { return w == podspec.HostPorts })
		}
		if (waits(pod) || pod.Spec.NodeName != "" && podspec.Moves(pod)) && len(what) > 0 {
			ignored[nameOf(pod)] = strings.Join(what, ", ")
		}
	}
	return ignored
}

// unwell returns notes on the nodes that their condition closes.
func (p *Picture) unwell() (notes []string) {
	for _, n := range p.Nodes {
		if t := podspec.Unwell(n); t != nil {
			notes = append(notes, fmt.Sprintf("node %s takes no pods now that do not tolerate its taint %s", n.Name, t.ToString()))
		}
	}
	return notes
}
