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
// Those in follow may be replaced elsewhere all the same.
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
	others, barred := p.others(appLabel), p.barred()
	staying := map[string]string{} // nodes, with the reasons
	for _, n := range p.Nodes {
		if why, stays := apart(n); stays {
			staying[n.Name] = why
		}
	}
	reason := func(pod *v1.Pod) string {
		why := podspec.Movable(pod, maxGrace, others)
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
		if why == "" {
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
		if why := reason(pod); why != "" {
			fixed[nameOf(pod)] = why
			follow[nameOf(pod)] = why == podspec.DependsOn+podspec.Volumes && p.follows(pod, reason)
		}
	}
	return fixed, follow
}

// ignored returns the pods with constraints that a trace cannot express, each with the reasons, by namespace/name.
func (p *Picture) ignored(appLabel string) map[string]string {
	ignored, others, ports := map[string]string{}, p.others(appLabel), p.hostPorts(appLabel)
	for _, pod := range p.Pods {
		what := others.Unknowns(pod)
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
