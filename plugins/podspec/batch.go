package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Extended resources of batch pods, which have the cpu and memory that online pods leave (docs/batch.md).
const (
	BatchCPU    = "sigma-scheduler.io/batch-cpu"    // thousandths of a core
	BatchMemory = "sigma-scheduler.io/batch-memory" // bytes
)

// Batch reports whether a pod requests cpu that online pods leave, and neither cpu nor memory of its own.
func Batch(pod *v1.Pod) bool {
	lists := []v1.ResourceList{}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			lists = append(lists, list[i].Resources.Requests)
		}
	}
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	has := func(name v1.ResourceName) bool {
		return slices.ContainsFunc(lists, func(l v1.ResourceList) bool { q := l[name]; return q.Sign() > 0 })
	}
	return has(BatchCPU) && !has(v1.ResourceCPU) && !has(v1.ResourceMemory)
}
