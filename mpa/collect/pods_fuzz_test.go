package collect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// FuzzPodOf reads any pod: amounts are from 0 to 2^50, so that sums of them stay in range.
func FuzzPodOf(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"18446744073709552","memory":"8Ei"},"limits":{"memory":"1e30"}}}]},"status":{"containerStatuses":[{"name":"web","resources":{"requests":{"cpu":"-1","memory":"-1e30"}}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pod := &corev1.Pod{}
		if podtest.Slow(data) || json.Unmarshal(data, pod) != nil {
			return
		}
		for _, c := range podOf(pod, nil).Containers {
			for _, n := range []int64{c.Request.CPU, c.Request.Memory, c.Actual.CPU, c.Actual.Memory, c.MemoryLimit} {
				require.True(t, n >= 0 && n <= 1<<50, "%d", n)
			}
		}
	})
}
