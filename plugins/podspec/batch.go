package podspec

import v1 "k8s.io/api/core/v1"

// Extended resources of batch pods, which have the cpu and memory that online pods leave (docs/batch.md).
const (
	BatchCPU    = "sigma-scheduler.io/batch-cpu"    // thousandths of a core
	BatchMemory = "sigma-scheduler.io/batch-memory" // bytes
)

// Batch reports whether a pod requests cpu that online pods leave.
func Batch(pod *v1.Pod) bool {
	of := func(list []v1.Container) bool {
		for i := range list {
			if q, ok := list[i].Resources.Requests[BatchCPU]; ok && q.Sign() > 0 {
				return true
			}
		}
		return false
	}
	return of(pod.Spec.Containers) || of(pod.Spec.InitContainers)
}
