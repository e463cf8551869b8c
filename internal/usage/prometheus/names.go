package prometheus

import "regexp"

// Names finds the workload of a pod by its names alone, since most pods of a month are gone: the namespace,
// kind and name of its top controller, as namespace/kind/name.
type Names struct {
	Pods  map[Pod]string  // of the present ones
	There map[string]bool // workloads that exist
}

// Generated names end in five letters and digits, of this alphabet, as the hash of a
// ReplicaSet is (k8s.io/apimachinery/pkg/util/rand).
var (
	generated = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	hashed    = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{1,10}$`)
	numbered  = regexp.MustCompile(`^(.+)-\d+$`)
)

// Name is the workload of a pod as it was called on a day: by the pod that is there now, by the owner that
// kube-state-metrics had, or by the patterns of names, if such a workload exists.
func (n *Names) Name(d *Day, pod Pod) string {
	if workload, ok := n.Pods[pod]; ok {
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
func (n *Names) owned(namespace, kind, name string) string {
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
		if workload := namespace + "/" + key; n.There[workload] {
			return workload
		}
	}
	return ""
}
