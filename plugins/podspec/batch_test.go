package podspec

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A pod with requests of its own is an online pod, whatever else it requests.
func TestBatch(t *testing.T) {
	list := func(names ...v1.ResourceName) v1.ResourceRequirements {
		l := v1.ResourceList{}
		for _, n := range names {
			l[n] = resource.MustParse("1")
		}
		return v1.ResourceRequirements{Requests: l}
	}
	batch, cpu, memory := list(BatchCPU, BatchMemory, "nvidia.com/gpu"), list("cpu"), list("memory")
	for name, tt := range map[string]struct {
		containers, init v1.ResourceRequirements
		pod              *v1.ResourceRequirements
		want             bool
	}{
		"batch":             {batch, list(), nil, true},
		"first of all":      {list(), batch, nil, true},
		"memory alone":      {list(BatchMemory), list(), nil, false},
		"online":            {cpu, list(), nil, false},
		"cpu of its own":    {list(BatchCPU, "cpu"), list(), nil, false},
		"memory at first":   {batch, memory, nil, false},
		"cpu of the pod":    {batch, list(), &cpu, false},
		"memory of the pod": {batch, list(), &memory, false},
		"an empty list":     {batch, list(), &v1.ResourceRequirements{}, true},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Resources: tt.pod, Containers: []v1.Container{{Resources: tt.containers}}, InitContainers: []v1.Container{{Resources: tt.init}}}}
		require.Equal(t, tt.want, Batch(p), name)
	}
}
