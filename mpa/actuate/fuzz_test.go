package actuate

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// FuzzPlan gives any pod of any template the size that any object recommends: requests are positive and at
// most the largest, and limits are not negative.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"spec":{"constraints":{"containers":[{"name":"web","controlled":["cpu","memory"],"maxAllowed":{"memory":"1Pi"}}]}},"status":{"recommendation":{"containers":[{"name":"web","cpu":"18446744073709552","memory":"1e30"}]},"memory":{"containers":[{"name":"web","peaks":[{"memory":"8Ei"}]}]}}}`),
		[]byte(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"1m","memory":"1"},"limits":{"cpu":"8Ei","memory":"1e30"}}}]}}`))
	f.Add([]byte(`{"spec":{"constraints":{"containers":[{"name":"web","controlled":["cpu","memory"],"maxAllowed":{"memory":"1Gi"}}]}},"status":{"recommendation":{"containers":[{"name":"web","cpu":"100k","memory":"1Pi"}]}}}`),
		[]byte(`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"1m","memory":"1"},"limits":{"cpu":"18446744073709551617","memory":"1e30"}}}]}}`))
	f.Fuzz(func(t *testing.T, object, data []byte) {
		m, pod := &v1alpha1.MultidimPodAutoscaler{}, &corev1.Pod{}
		if podtest.Slow(object) || podtest.Slow(data) || json.Unmarshal(object, m) != nil || json.Unmarshal(data, pod) != nil || m.Status.Recommendation == nil {
			return
		}
		want, err := Wanted(m.Status.Recommendation.Containers, Constraints(m))
		if err != nil {
			return
		}
		for name, r := range want {
			require.True(t, r.CPU >= 0 && r.CPU <= largest.CPU && r.Memory >= 0 && r.Memory <= largest.Memory, "%s %v", name, r)
		}
		for name, to := range PlanPod(pod, &pod.Spec, want, LimitsFollow).Containers {
			if w := want[name]; w.CPU > 0 {
				require.GreaterOrEqual(t, to.Limits.Cpu().Sign(), 0)
			}
		}
	})
}
