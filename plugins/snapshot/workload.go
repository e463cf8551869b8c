package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
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
	pods    map[prometheus.Pod]string // of the present ones
	there   map[string]bool           // workloads that exist
	renamed map[string]string         // present ones by former ones
	seen    map[string]bool           // former ones with samples
}

// namer returns the workloads of the present pods of a cluster, and those that it declares.
func (p *Picture) namer() *namer {
	n := &namer{pods: map[prometheus.Pod]string{}, there: map[string]bool{}, seen: map[string]bool{}}
	if d := p.Declared; d != nil {
		add := func(kind string, o metav1.Object) {
			if metav1.GetControllerOfNoCopy(o) == nil {
				n.there[o.GetNamespace()+"/"+kind+"/"+o.GetName()] = true
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
			n.pods[prometheus.Pod{Namespace: pod.Namespace, Name: pod.Name}] = workload
			n.there[workload] = true
		}
	}
	return n
}

// rename notes the present workloads by their former ones.
func (n *namer) rename(renamed map[string]string) error {
	holds := map[string]bool{}
	for _, workload := range n.pods {
		holds[workload] = true
	}
	for _, former := range slices.Sorted(maps.Keys(renamed)) {
		switch present := renamed[former]; {
		case !n.there[present]:
			return fmt.Errorf("--renamed %s=%s: the cluster has no %s", former, present, present)
		case holds[former]:
			return fmt.Errorf("--renamed %s=%s: %s has pods now, so it is no former name", former, present, former)
		}
	}
	n.renamed = renamed
	for former := range renamed {
		n.there[former] = true // for the patterns of its pods' names
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
	name := n.name(d, pod)
	if present, ok := n.renamed[name]; ok {
		n.seen[name] = true
		return present
	}
	return name
}

// Generated names end in five letters and digits, of this alphabet, as the hash of a
// ReplicaSet is (k8s.io/apimachinery/pkg/util/rand).
var (
	generated = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	hashed    = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{1,10}$`)
	numbered  = regexp.MustCompile(`^(.+)-\d+$`)
)

// name is the workload of a pod as it was called on a day: by the pod that is there now, by the owner that
// kube-state-metrics had, or by the patterns of names, if such a workload exists.
func (n *namer) name(d *prometheus.Day, pod prometheus.Pod) string {
	if workload, ok := n.pods[pod]; ok {
		return workload
	}
	if o, ok := d.Owners[pod]; ok {
		if workload := n.owned(pod.Namespace, o.Kind, o.Name); workload != "" {
			return workload
		}
		return pod.Namespace + "/" + o.Kind + "/" + o.Name
	}
	if m := generated.FindStringSubmatch(pod.Name); m != nil {
		for _, kind := range []string{"ReplicaSet", "DaemonSet", "Job"} {
			if workload := n.owned(pod.Namespace, kind, m[1]); workload != "" {
				return workload
			}
		}
		if m := numbered.FindStringSubmatch(m[1]); m != nil { // the pod of an indexed Job
			if workload := n.owned(pod.Namespace, "Job", m[1]); workload != "" {
				return workload
			}
		}
	}
	if m := numbered.FindStringSubmatch(pod.Name); m != nil {
		return n.owned(pod.Namespace, "StatefulSet", m[1])
	}
	return ""
}

// owned is the workload of the pods of a controller: that or the one above it, as far as it exists.
func (n *namer) owned(namespace, kind, name string) string {
	var above []string
	switch kind {
	case "ReplicaSet":
		if m := hashed.FindStringSubmatch(name); m != nil {
			above = []string{"Deployment/" + m[1], "Rollout/" + m[1]}
		}
	case "Job":
		if m := numbered.FindStringSubmatch(name); m != nil {
			above = []string{"CronJob/" + m[1]}
		}
	}
	for _, key := range append(above, kind+"/"+name) {
		if workload := namespace + "/" + key; n.there[workload] {
			return workload
		}
	}
	return ""
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
