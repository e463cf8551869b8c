package podspec_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// TestDefaultsAreTheServers: on random pods SetRequests makes the requests that the API server's
// defaulting makes.
func TestDefaultsAreTheServers(t *testing.T) {
	d := drawer{podtest.Drawer{Rand: rand.New(rand.NewPCG(3, 4))}}
	changed, podLevel := 0, 0
	for i := range 3000 {
		pod := d.pod(map[string]int{})
		pod.Status = v1.PodStatus{}
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for c := range list {
				if d.Chance(.5) {
					list[c].Resources.Limits = d.Requests()
				}
				if d.Chance(.5) {
					list[c].Resources.Requests = nil
				}
			}
		}
		was, want := podspec.Demand(pod), pod.DeepCopy()
		corev1.SetObjectDefaults_Pod(want)
		podspec.SetRequests(pod)
		same := func(a, b any) { require.True(t, equality.Semantic.DeepEqual(a, b), "pod %d:\n%v\n%v", i, a, b) }
		for _, of := range [][2][]v1.Container{{want.Spec.InitContainers, pod.Spec.InitContainers}, {want.Spec.Containers, pod.Spec.Containers}} {
			for c := range of[0] {
				same(of[0][c].Resources, of[1][c].Resources)
			}
		}
		same(want.Spec.Resources, pod.Spec.Resources)
		same(want.Spec.Overhead, pod.Spec.Overhead)
		info, err := framework.NewPodInfo(want)
		require.NoError(t, err)
		demand := podspec.Demand(pod)
		require.Equal(t, info.CalculateResource().Resource.GetMilliCPU(), demand["cpu"])
		require.Equal(t, info.CalculateResource().Resource.GetMemory(), demand["memory"])
		if demand["cpu"] != was["cpu"] {
			if changed++; pod.Spec.Resources != nil {
				podLevel++
			}
		}
	}
	require.Greater(t, changed, 500)
	require.Greater(t, podLevel, 100)
}

// Limits of the pod alone are its requests; those of an amount that no sum can hold are bounded first.
func TestSetRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		own        v1.ResourceRequirements
		containers []func(*v1.Pod)
		want       map[string]int64
	}{
		"limits alone":         {v1.ResourceRequirements{Limits: list("cpu", "4", "memory", "8Gi")}, []func(*v1.Pod){requests(), requests()}, map[string]int64{"cpu": 4000, "memory": 8 << 30, "pods": 1}},
		"a container's first":  {v1.ResourceRequirements{Limits: list("cpu", "4", "memory", "8Gi")}, []func(*v1.Pod){requests("cpu", "1"), requests("cpu", "500m")}, map[string]int64{"cpu": 1500, "memory": 8 << 30, "pods": 1}},
		"requests stay":        {v1.ResourceRequirements{Limits: list("cpu", "4"), Requests: list("cpu", "2")}, []func(*v1.Pod){requests("cpu", "1")}, map[string]int64{"cpu": 2000, "pods": 1}},
		"in whole thousandths": {v1.ResourceRequirements{}, []func(*v1.Pod){requests("cpu", "100u"), requests("cpu", "100u")}, map[string]int64{"cpu": 2, "pods": 1}},
		"too large":            {v1.ResourceRequirements{Limits: list("cpu", "1e99999999", "memory", "1Gi")}, []func(*v1.Pod){requests()}, map[string]int64{"cpu": binpack.MaxValue, "memory": 1 << 30, "pods": 1}},
	} {
		pod := podOf("x", tt.containers...)
		pod.Spec.Resources = &tt.own
		podspec.SetRequests(pod)
		require.Equal(t, tt.want, podspec.Demand(pod), name)
	}
}
