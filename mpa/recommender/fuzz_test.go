package recommender

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// FuzzObject reads any object: the bounds of its containers, and what its status remembers, are from 0 to 2^50.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"spec":{"slo":{"throughput":{"target":"1e30"},"latency":{"percentile":1e300,"target":"2562047h"}},"constraints":{"replicas":{"min":-2147483648,"max":2147483647},"containers":[{"name":"web","controlled":["cpu","memory"],"minAllowed":{"cpu":"18446744073709552"},"maxAllowed":{"cpu":"8Ei","memory":"1e30"}}]}},"status":{"memory":{"containers":[{"name":"web","peaks":[{"memory":"8Ei"}],"ceiling":{"cpu":"-1","memory":"1e30"}}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &v1alpha1.MultidimPodAutoscaler{}
		if podtest.Slow(data) || json.Unmarshal(data, o) != nil {
			return
		}
		target, err := targetOf(o)
		if err != nil {
			return
		}
		amounts := []int64{}
		for _, c := range target.Containers {
			amounts = append(amounts, c.Min.CPU, c.Min.Memory, c.Max.CPU, c.Max.Memory)
		}
		for _, c := range memoryOf(o, &target).Containers {
			amounts = append(amounts, c.Ceiling.CPU, c.Ceiling.Memory)
			for _, p := range c.Peaks {
				amounts = append(amounts, p.Memory)
			}
		}
		for _, n := range amounts {
			require.True(t, n >= 0 && n <= 1<<50, "%d", n)
		}
	})
}
