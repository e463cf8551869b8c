// Package owner finds the workload that a pod belongs to: a Deployment, StatefulSet,
// CronJob …. The scheduler names apps by it, and the autoscaler finds
// the pods that it may resize or evict.
//
// It reads owner references and labels and calls the caller's [Lookup]; it has no client
// and no state. It does not check whether an autoscaler can size a kind of workload, nor
// count the pods of a workload.
package owner

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Ref names a workload within a namespace. The API group is part of the name: two
// controllers may use the same kind (StatefulSet of apps and of apps.kruise.io). The
// version is not.
type Ref struct {
	Group, Kind, Name string
	UID               types.UID // empty if only the name is known
}

// String returns the name without the UID: apps/StatefulSet/web.
func (r Ref) String() string { return r.Group + "/" + r.Kind + "/" + r.Name }

// Is reports whether both name the same workload: by the UID too, if both have one. A
// workload that was deleted and created again is another one.
func (r Ref) Is(other Ref) bool {
	return r.String() == other.String() && (r.UID == other.UID || r.UID == "" || other.UID == "")
}

// A Lookup returns the object of a controller reference's group, kind and name in the pod's
// namespace, whatever its UID; nil if it is unknown.
type Lookup func(controller *metav1.OwnerReference) metav1.Object

// Of returns the workload that a pod belongs to: its controller, or the controller of that
// if it is a ReplicaSet or a Job. ok is false for a pod without a controller.
//
// The controller of a ReplicaSet or a Job is read from the object, if lookup finds it. One
// without a controller is itself the workload, and so is a deleted one in whose place lookup
// finds another of the same name. If lookup is nil or does not find the object, the name
// that the Deployment, Rollout or CronJob gave it decides, and the UID stays empty.
func Of(pod metav1.Object, lookup Lookup) (ref Ref, ok bool) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return Ref{}, false
	}
	own := refOf(controller)
	if own.Kind != "ReplicaSet" && own.Kind != "Job" {
		return own, true
	}
	if lookup != nil {
		if object := lookup(controller); object != nil {
			above := metav1.GetControllerOfNoCopy(object)
			if object.GetUID() != controller.UID || above == nil {
				return own, true
			}
			return refOf(above), true
		}
	}
	return byName(own, pod.GetLabels()), true
}

func refOf(controller *metav1.OwnerReference) Ref {
	group, _, versioned := strings.Cut(controller.APIVersion, "/")
	if !versioned {
		group = "" // v1
	}
	return Ref{Group: group, Kind: controller.Kind, Name: controller.Name, UID: controller.UID}
}

// scheduledJob matches the name of a CronJob's Job: it ends in the minute since 1970.
var scheduledJob = regexp.MustCompile(`^(.+)-\d{8}$`)

// byName returns the controller of a ReplicaSet or a Job by the names that controllers give:
// a ReplicaSet is named after its Deployment and the hash that its pods have as a label,
// a Job after its CronJob and the time.
func byName(own Ref, labels map[string]string) Ref {
	if own.Kind == "Job" {
		if m := scheduledJob.FindStringSubmatch(own.Name); m != nil {
			return Ref{Group: own.Group, Kind: "CronJob", Name: m[1]}
		}
		return own
	}
	for _, above := range []struct{ label, group, kind string }{
		{"pod-template-hash", own.Group, "Deployment"},
		{"rollouts-pod-template-hash", "argoproj.io", "Rollout"},
	} {
		hash := labels[above.label]
		if name, found := strings.CutSuffix(own.Name, "-"+hash); found && hash != "" {
			return Ref{Group: above.group, Kind: above.kind, Name: name}
		}
	}
	return own
}
