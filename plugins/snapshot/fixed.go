package snapshot

import (
	"fmt"
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
func (p *Picture) fixed(appLabel string, minReplicas int, maxGrace time.Duration, scheduler string, stays func(*v1.Pod) string) map[string]string {
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
	fixed, others := map[string]string{}, p.others(appLabel)
	for _, pod := range p.Pods {
		if pod.Spec.NodeName == "" {
			continue
		}
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
		if why != "" {
			fixed[nameOf(pod)] = why
		}
	}
	return fixed
}

// ignored returns the pods with constraints that a trace cannot express, each with the reasons, by namespace/name.
func (p *Picture) ignored(appLabel string) map[string]string {
	ignored, others := map[string]string{}, p.others(appLabel)
	for _, pod := range p.Pods {
		if what := others.Unknowns(pod); (waits(pod) || pod.Spec.NodeName != "" && podspec.Moves(pod)) && len(what) > 0 {
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
