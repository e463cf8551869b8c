package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A namer finds the workload of a pod by its names alone, since most pods of a month are gone: the namespace,
// kind and name of its top controller, whatever labels it has.
type namer struct {
	prometheus.Names
	renamed map[string]string // present ones by former ones
	seen    map[string]bool   // former ones with samples
}

// namer returns the workloads of the present pods of a cluster, and those that it declares.
func (p *Picture) namer() *namer {
	n := &namer{Names: prometheus.Names{Pods: map[prometheus.Pod]string{}, There: map[string]bool{}}, seen: map[string]bool{}}
	if d := p.Declared; d != nil {
		add := func(kind string, o metav1.Object) {
			if metav1.GetControllerOfNoCopy(o) == nil {
				n.There[o.GetNamespace()+"/"+kind+"/"+o.GetName()] = true
			}
		}
		for _, o := range d.Deployments {
			add("Deployment", o)
		}
		for _, o := range d.StatefulSets {
			add("StatefulSet", o)
		}
		for _, o := range d.ReplicaSets {
			add("ReplicaSet", o)
		}
		for _, o := range d.Jobs {
			add("Job", o)
		}
		for _, o := range d.CronJobs {
			add("CronJob", o)
		}
	}
	for _, list := range [][]*v1.Pod{p.AllPods, p.Pods} {
		for _, pod := range list {
			workload := podspec.Group(pod, "")
			n.Pods[prometheus.Pod{Namespace: pod.Namespace, Name: pod.Name}] = workload
			n.There[workload] = true
		}
	}
	return n
}

// rename notes the present workloads by their former ones.
func (n *namer) rename(renamed map[string]string) error {
	holds := map[string]bool{}
	for _, workload := range n.Pods {
		holds[workload] = true
	}
	for _, former := range slices.Sorted(maps.Keys(renamed)) {
		switch present := renamed[former]; {
		case !n.There[present]:
			return fmt.Errorf("--renamed %s=%s: the cluster has no %s", former, present, present)
		case holds[former]:
			return fmt.Errorf("--renamed %s=%s: %s has pods now, so it is no former name", former, present, former)
		}
	}
	n.renamed = renamed
	for former := range renamed {
		n.There[former] = true // for the patterns of its pods' names
	}
	return nil
}

// unused is an error for a former workload without samples.
func (n *namer) unused() error {
	for _, former := range slices.Sorted(maps.Keys(n.renamed)) {
		if !n.seen[former] {
			return fmt.Errorf("--renamed %s=%s: no pod of %s has samples in these days", former, n.renamed[former], former)
		}
	}
	return nil
}

// workload is the present workload of a pod that a day has; "" = unknown.
func (n *namer) workload(d *prometheus.Day, pod prometheus.Pod) string {
	name := n.Name(d, pod)
	if present, ok := n.renamed[name]; ok {
		n.seen[name] = true
		return present
	}
	return name
}

// isJob reports whether the pods of a workload run to an end.
func isJob(workload string) bool {
	kind := strings.SplitN(workload, "/", 3)[1]
	return kind == "Job" || kind == "CronJob"
}

// ParseRenamed reads FORMER=PRESENT, each namespace/kind/name, and follows chains of them: a workload that was
// renamed twice has the present name by both former ones.
func ParseRenamed(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range list {
		former, present, ok := strings.Cut(text, "=")
		for _, name := range []string{former, present} {
			parts := strings.Split(name, "/")
			ok = ok && len(parts) == 3 && !slices.Contains(parts, "")
		}
		if !ok || former == present {
			return nil, fmt.Errorf("%q: %w", text, errors.New("want FORMER=PRESENT, such as shop/Deployment/web=shop/Deployment/store"))
		}
		if other, twice := out[former]; twice && other != present {
			return nil, fmt.Errorf("%q: %s is %s already", text, former, other)
		}
		out[former] = present
	}
	last := map[string]string{}
	for former := range out {
		name := former
		for range out {
			if next, ok := out[name]; ok {
				name = next
			}
		}
		if _, ok := out[name]; ok {
			return nil, fmt.Errorf("%s: the renames are a circle", strings.Join(slices.Sorted(slices.Values(list)), ", "))
		}
		last[former] = name
	}
	return last, nil
}
