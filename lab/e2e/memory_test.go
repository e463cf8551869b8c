//go:build e2e

package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// BenchmarkMemory measures the most memory that the scheduler ever had, with
// pods of 4 kB; docs/operations.md has the figures:
//
//	hack/e2e.sh -run '^$' -bench Memory -benchtime 1x
func BenchmarkMemory(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{1000, 10000}, {1000, 30000}, {5000, 50000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			for b.Loop() {
				measureMemory(b, size.nodes, size.pods)
			}
		})
	}
}

func measureMemory(b *testing.B, nodes, pods int) {
	c := e2e.StartCluster(b)
	prepare(b, c)
	c.Kubectl(b, "", "apply", "-f", filepath.Join(repository, "manifests", "base", "rbac-engine.yaml"))
	c.Kubectl(b, "", "create", "clusterrolebinding", "engine", "--clusterrole=sigma-engine", "--user=system:kube-scheduler")
	all := make([]*v1.Node, nodes)
	names := make([]string, nodes)
	for i := range all {
		names[i] = fmt.Sprintf("node-%05d", i)
		all[i] = e2e.Node(names[i], "64", "256Gi")
	}
	c.CreateNodes(b, all...)
	c.Kubelet.Disown(names...) // bound is enough
	many := make([]*v1.Pod, pods)
	for i := range many {
		many[i] = e2e.Pod("default", fmt.Sprintf("pod-%06d", i), "1", "4Gi")
		many[i].Spec.NodeName = names[i%nodes]
		many[i].Labels["app"] = fmt.Sprintf("app-%d", i/10)
		// What a pod carries besides: variables, annotations, volumes.
		many[i].Annotations = map[string]string{"example.org/notes": strings.Repeat("n", 2000)}
		for v := range 20 {
			many[i].Spec.Containers[0].Env = append(many[i].Spec.Containers[0].Env,
				v1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", v), Value: fmt.Sprintf("value %d of pod %d", v, i)})
		}
	}
	c.CreatePods(b, many...)

	config := strings.Replace(readManifest(b, "config.yaml"), "leaderElect: true", "leaderElect: false", 1)
	config = strings.Replace(config, "policyName: general", "{policyName: general, appLabel: app}", 1)
	for _, program := range []string{"kube-scheduler", "sigma-scheduler"} {
		text, scheduler := config, "sigma"
		if program == "kube-scheduler" {
			text, scheduler = "profiles: [{schedulerName: upstream}]", "upstream"
		}
		s := c.StartScheduler(b, program, text)
		var fresh []*v1.Pod
		for i := range 500 {
			pod := e2e.Pod("default", fmt.Sprintf("%s-%d", program, i), "100m", "128Mi")
			pod.Spec.SchedulerName = scheduler
			pod.Labels["app"] = fmt.Sprintf("app-%d", i/10)
			fresh = append(fresh, pod)
		}
		c.CreatePods(b, fresh...)
		e2e.Wait(b, "500 pods bound", func() (string, bool) {
			return "", s.Metric(b, "scheduler_schedule_attempts_total", `result="scheduled"`) == 500
		})
		b.ReportMetric(s.Metric(b, "process_resident_memory_bytes")/(1<<20), program+"-MiB")
		b.ReportMetric(s.CPUSeconds(b), program+"-CPU-s")
		s.Stop(b)
	}
}
