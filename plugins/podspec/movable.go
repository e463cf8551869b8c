package podspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/bounded"
)

// MaxGrace is the default of the longest grace period of a pod that is evicted.
const MaxGrace = 15 * time.Minute

// Grace returns the time that a pod has from its eviction until it is killed. A negative one is 1 s, as for the
// API server.
func Grace(spec *v1.PodSpec) time.Duration {
	if s := spec.TerminationGracePeriodSeconds; s == nil {
		return v1.DefaultTerminationGracePeriodSeconds * time.Second
	} else if *s >= 0 {
		return bounded.Times(*s, time.Second)
	}
	return time.Second
}

// Patience returns the timeout of an eviction's wait for a pod to end: its grace period, but no longer than a ceiling;
// 0 = [MaxGrace].
func Patience(pod *v1.Pod, ceiling time.Duration) time.Duration {
	return min(Grace(&pod.Spec), cmp.Or(ceiling, MaxGrace))
}

// AboveCeiling returns why a pod is not evicted whose grace period is above a ceiling, 0 = [MaxGrace]; ""
// if it is not above. A pod that does not end on SIGTERM would delay for so long those that wait for its end.
func AboveCeiling(pod *v1.Pod, ceiling time.Duration) (reason string) {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && Patience(pod, ceiling) < Grace(&pod.Spec) {
		return fmt.Sprintf("its terminationGracePeriodSeconds of %d s is above the ceiling of %v", *s, cmp.Or(ceiling, MaxGrace))
	}
	return ""
}

// DependsOn begins the reason of a pod with an unknown constraint.
const DependsOn = "where it may go depends on "

// ByZones is the reason of a pod that planners of moves, which have no zones, leave where it is.
const ByZones = DependsOn + "the zones of others"

// Movable returns why a pod must not be evicted so that its replacement gets a
// planned node; "" when it may. Disruption budgets and the number of
// replicas are checked by the caller. Constraints that the model of nodes lacks make
// a pod immovable, since its replacement might not get the node, those of others among them; nil others have no constraints.
// A grace period above a ceiling, 0 = [MaxGrace], makes it immovable too.
func Movable(pod *v1.Pod, ceiling time.Duration, others *Others) (reason string) {
	switch controller := metav1.GetControllerOfNoCopy(pod); {
	case !Moves(pod):
		return "it is part of its node"
	case controller == nil && localStorage(pod):
		return "it has no controller that would replace it, and it has local storage"
	case controller == nil:
		return "it has no controller that would replace it"
	case Ended(pod):
		return "it has ended"
	case pod.DeletionTimestamp != nil:
		return "it is being deleted"
	case !Ready(pod):
		return "it is not ready"
	case pod.Spec.RestartPolicy == v1.RestartPolicyNever || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure:
		return "its work would begin again"
	case optedOut(ofPods, pod.Annotations) != "":
		return "its annotation forbids it: " + optedOut(ofPods, pod.Annotations)
	case localStorage(pod):
		return "it has local storage"
	}
	if what := others.Unknown(pod); what != "" {
		return DependsOn + what
	}
	if zoned(pod) {
		return ByZones
	}
	return AboveCeiling(pod, ceiling)
}

// Ready reports whether a pod's condition Ready is true.
func Ready(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// localStorage reports whether a pod loses data when it moves, as cluster-autoscaler does:
// memory does not count, and annotations name volumes that may be lost.
func localStorage(pod *v1.Pod) bool {
	if pod.Annotations[safeToEvict] == "true" {
		return false
	}
	lost := strings.Split(pod.Annotations[volumesToLose], ",")
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		local := v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != v1.StorageMediumMemory
		return local && !slices.Contains(lost, v.Name)
	})
}
