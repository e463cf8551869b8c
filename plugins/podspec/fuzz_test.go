package podspec_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// Quantities beyond 64 bits are the end of the range, whose methods return 384m, -1000m and 0.
func TestAmountOfLargeQuantities(t *testing.T) {
	for text, want := range map[string]struct{ cpu, memory int64 }{
		"18446744073709552":   {binpack.MaxValue, binpack.MaxValue},
		"9223372036854775807": {binpack.MaxValue, binpack.MaxValue},
		"1e30":                {binpack.MaxValue, binpack.MaxValue},
		"-1e30":               {0, 0},
		"18446744e073709552":  {binpack.MaxValue, binpack.MaxValue},
		"0e999999999":         {0, 0},
		"-1":                  {0, 0},
		"1e-9":                {1, 1},
		"1500m":               {1500, 2},
	} {
		q := resource.MustParse(text)
		require.Equal(t, want.cpu, podspec.Amount("cpu", &q), text)
		require.Equal(t, want.memory, podspec.Amount("memory", &q), text)
	}
	p := podOf("x")
	for range 3 {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint(len(p.Spec.Containers)), Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse("8Ei"), "memory": resource.MustParse("8Ei")},
		}})
	}
	require.Equal(t, map[string]int64{"cpu": binpack.MaxValue, "memory": binpack.MaxValue, "pods": 1}, podspec.Demand(p))
	_, err := podspec.Egress("1e30")
	require.ErrorContains(t, err, "want 0 to 2^50")
}

// FuzzPod reads all that placement needs from any pod: demands and grace periods are within their bounds.
func FuzzPod(f *testing.F) {
	f.Add([]byte(`{"spec":{"terminationGracePeriodSeconds":9223372036854775807,"containers":[{"resources":{"requests":{"cpu":"18446744073709552","memory":"8Ei"}}},{"resources":{"requests":{"cpu":"8Ei","memory":"8Ei"}}}]}}`))
	f.Add([]byte(`{"spec":{"terminationGracePeriodSeconds":-1,"overhead":{"cpu":"-1e30"},"resources":{"requests":{"cpu":"1e30"}}}}`))
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"1.5Gi"},"resources":{"limits":{"cpu":"1e30","hugepages-2Mi":"1e-9"}},"containers":[{"resources":{"limits":{"hugepages-1Gi":"1e30"}}}]},"status":{"resources":{"requests":{"cpu":"1e30"}},"allocatedResources":{"cpu":"1e30"}}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"sigma-scheduler.io/sends":"shop/Deployment/db=1e30:paired","sigma-scheduler.io/egress":"1e30"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pod := &v1.Pod{}
		if podtest.Slow(data) || json.Unmarshal(data, pod) != nil {
			return
		}
		defaulted := pod.DeepCopy()
		podspec.SetRequests(defaulted)
		for _, of := range []*v1.Pod{pod, defaulted} {
			for dimension, n := range podspec.Demand(of) {
				require.True(t, n > 0 && n <= binpack.MaxValue, "%s %d", dimension, n)
			}
		}
		grace := podspec.Grace(&pod.Spec)
		require.True(t, grace >= 0 && grace <= bounded.Longest, "%v", grace)
		require.True(t, podspec.Patience(pod, 0) <= 15*time.Minute && podspec.Patience(pod, 0) >= 0)
		require.Equal(t, grace > 15*time.Minute, podspec.AboveCeiling(pod, 0) != "")
		_ = podspec.Movable(pod, time.Hour, podspec.NewOthers([]*v1.Pod{pod}, nil, ""))
		sends, _ := podspec.Sends(pod)
		for _, s := range sends {
			require.True(t, s.Bits >= 1 && s.Bits <= binpack.MaxValue)
		}
		if bits, err := podspec.Egress(pod.Annotations[podspec.EgressAnnotation]); err == nil {
			require.True(t, bits >= 0 && bits <= binpack.MaxValue)
		}
	})
}
