package podspec_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// TestDemandIsTheSchedulers: on random pods Demand is what kube-scheduler adds to
// a node's requested resources.
func TestDemandIsTheSchedulers(t *testing.T) {
	d := drawer{podtest.Drawer{Rand: rand.New(rand.NewPCG(1, 2))}}
	seen := map[string]int{}
	for i := range 3000 {
		pod := d.pod(seen)
		// A copy: upstream adds the overhead to the pod's own amounts where they are
		// not in the form in which the API server stores them.
		info, err := framework.NewPodInfo(pod.DeepCopy())
		require.NoError(t, err)
		r := info.CalculateResource().Resource
		want := map[string]int64{"pods": 1}
		add := func(name string, n int64) {
			if n != 0 {
				want[name] = n
			}
		}
		add("cpu", r.GetMilliCPU())
		add("memory", r.GetMemory())
		add("ephemeral-storage", r.GetEphemeralStorage())
		for name, n := range r.GetScalarResources() {
			add(string(name), n)
		}
		require.Equal(t, want, podspec.Demand(pod), "pod %d: %s", i, pod)
		require.Equal(t, want, podspec.Demand(pod), "pod %d, once more: %s", i, pod)
	}
	for _, what := range []string{"init", "sidecar", "overhead", "pod-level", "resize", "pod-level resize", "infeasible", "deferred", "in progress", "claims"} {
		require.Greater(t, seen[what], 100, what)
	}
}

// A drawer draws pods with resources of all kinds.
type drawer struct{ podtest.Drawer }

// pod is a random pod; what it has is counted in seen.
func (d drawer) pod(seen map[string]int) *v1.Pod {
	p := podOf("x")
	always := v1.ContainerRestartPolicyAlways
	for i := range d.IntN(4) {
		c := v1.Container{Name: fmt.Sprint("init-", i), Resources: v1.ResourceRequirements{Requests: d.Requests()}}
		if seen["init"]++; d.Chance(.5) {
			seen["sidecar"]++
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, d.status(c.Name, seen)...)
	}
	for i := range 1 + d.IntN(3) {
		c := v1.Container{Name: fmt.Sprint("c-", i), Resources: v1.ResourceRequirements{Requests: d.Requests()}}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, d.status(c.Name, seen)...)
	}
	if d.Chance(.3) {
		seen["overhead"]++
		p.Spec.Overhead = d.Requests()
	}
	if d.Chance(.3) {
		seen["pod-level"]++
		p.Spec.Resources = &v1.ResourceRequirements{Limits: d.Requests()}
		if d.Chance(.8) {
			p.Spec.Resources.Requests = d.Requests()
		}
	}
	if d.Chance(.5) { // also where the pod has none of its own any more
		seen["pod-level resize"]++
		p.Status.Resources = &v1.ResourceRequirements{Requests: d.Requests(), Limits: d.Requests()}
	}
	if d.Chance(.3) {
		p.Status.AllocatedResources = d.Requests()
	}
	if d.Chance(.2) {
		seen["in progress"]++
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue})
	}
	for _, reason := range []string{v1.PodReasonInfeasible, v1.PodReasonDeferred} {
		if d.Chance(.2) {
			seen[strings.ToLower(reason)]++
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason})
		}
	}
	if d.Chance(.1) {
		seen["claims"]++
		p.Status.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "c", Resources: d.Requests()}}
	}
	return p
}

func (d drawer) status(container string, seen map[string]int) []v1.ContainerStatus {
	if d.Chance(.5) {
		return nil
	}
	s := v1.ContainerStatus{Name: container}
	if d.Chance(.7) {
		seen["resize"]++
		s.Resources = &v1.ResourceRequirements{Requests: d.Requests()}
	}
	if d.Chance(.5) {
		s.AllocatedResources = d.Requests()
	}
	return []v1.ContainerStatus{s}
}

// BenchmarkDemand is a pod of two containers of a cluster, and one that is being resized.
func BenchmarkDemand(b *testing.B) {
	plain := podOf("x", requests("cpu", "500m", "memory", "1Gi"), requests("cpu", "100m", "memory", "128Mi"))
	for _, c := range plain.Spec.Containers {
		plain.Status.ContainerStatuses = append(plain.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Resources: &v1.ResourceRequirements{Requests: c.Resources.Requests}, AllocatedResources: c.Resources.Requests,
		})
	}
	resized := plain.DeepCopy()
	resized.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "1", "memory", "2Gi")}
	resized.Status.Resources = &v1.ResourceRequirements{Requests: list("cpu", "3", "memory", "2Gi")}
	resized.Status.AllocatedResources = list("cpu", "3", "memory", "2Gi")
	for name, of := range map[string]struct {
		pod *v1.Pod
		cpu int64
	}{"containers": {plain, 600}, "pod-level-resize": {resized, 3000}} {
		b.Run("pod="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := podspec.Demand(of.pod)["cpu"]; n != of.cpu {
					b.Fatal(n)
				}
			}
		})
	}
}

func TestDemandIsBounded(t *testing.T) {
	p := podOf("x", requests("cpu", "2T", "memory", "8Ei"))
	require.Equal(t, map[string]int64{"cpu": binpack.MaxValue, "memory": binpack.MaxValue, "pods": 1}, podspec.Demand(p))
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct {
		dimension string
		n         int64
		want      string
	}{
		{"cpu", 0, "0"},
		{"cpu", 1500, "1500m"},
		{"cpu", 3000, "3"},
		{"cpu", 1, "1m"},
		{"memory", 0, "0"},
		{"memory", 1023, "1023"},
		{"memory", 1 << 10, "1Ki"},
		{"memory", 512 << 20, "512Mi"},
		{"memory", 3 << 29, "1536Mi"},
		{"memory", 1 << 40, "1Ti"},
		{"memory", 1 << 50, "1024Ti"},
		{"memory", 1000, "1000"},
		{"example.com/gpu", 8, "8"},
		{"pods", 110, "110"},
	} {
		got := podspec.Format(tt.dimension, tt.n)
		require.Equal(t, tt.want, got)
		q := resource.MustParse(got) // as Kubernetes reads it
		n := q.Value()
		if tt.dimension == "cpu" {
			n = q.MilliValue()
		}
		require.Equal(t, tt.n, n)
	}
}
