package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/owner"
)

// Group names the app that a pod belongs to, whatever its size: namespace/value
// of the label appLabel, if the pod has it, else namespace/kind/name of its top
// controller, else of the pod itself without the unique part of its name.
//
// The controller above a ReplicaSet or a Job is read from the name that its
// controller gave it, not looked up: the pod alone decides, at any time.
func Group(pod *v1.Pod, appLabel string) string {
	if value := pod.Labels[appLabel]; appLabel != "" && value != "" {
		return pod.Namespace + "/" + value
	}
	kind, name := "Pod", family(pod)
	if above, ok := owner.Of(pod, nil); ok {
		kind, name = above.Kind, above.Name
	}
	return pod.Namespace + "/" + kind + "/" + name
}

// family returns the name of a pod without a controller, without its unique
// part: work of work-7 and work-x2k9p, and of names generated from "work-".
// Programs that make such pods make many of a kind.
func family(pod *v1.Pod) string {
	if prefix := strings.TrimSuffix(pod.GenerateName, "-"); prefix != "" {
		return prefix
	}
	name := pod.Name
	for {
		i := strings.LastIndexByte(name, '-')
		if i <= 0 || !strings.ContainsAny(name[i:], "0123456789") {
			return name
		}
		name = name[:i]
	}
}

// Moves reports whether a scheduler decides on a pod's node. Pods of DaemonSets
// and static pods do not move, and reduce their node's capacity.
func Moves(pod *v1.Pod) bool {
	if _, static := pod.Annotations[v1.MirrorPodAnnotationKey]; static {
		return false
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller == nil || controller.Kind != "DaemonSet" && controller.Kind != "Node"
}

// Ended reports whether a pod has run to its end and takes no resources any more.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
